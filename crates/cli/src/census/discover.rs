//! Who is new in the group.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Instant;

use uzswap_ctl::{ENV_GROUP, Field, Group, Launcher};

use super::Census;
use super::member::{Kind, Member};
use super::process::{self, Image, Stat, Status};

/// More numbers than this were not given out one by one while nobody looked, or it is cheaper to
/// list all processes.
const NEW_MAX: i32 = 2000;

impl Census {
    /// Find processes that are new.
    pub(super) fn discover(&mut self) {
        let last = self.cursor.last();
        let mut again = std::mem::take(&mut self.doubtful);
        let is_any_new = last.is_none() || last != self.last_pid;
        if !is_any_new && again.0.is_empty() {
            return;
        }
        let mut new: Vec<i32> = match (self.last_pid, last) {
            (Some(before), Some(last)) if before <= last && last - before < NEW_MAX => (before + 1..=last).collect(),
            _ => process::all(),
        };
        new.extend(again.0.keys());
        self.last_pid = last;
        self.reapers.refresh();
        // Again as long as any is found: a parent may have the higher number, where they wrap.
        loop {
            let before = self.members.len();
            new.retain(|pid| {
                Stat::of(*pid).is_some_and(|stat| !self.is_known(*pid, &stat) && !self.consider(*pid, stat))
            });
            if new.is_empty() || self.members.len() == before {
                break;
            }
        }
        new.retain(|pid| self.may_be_member(*pid));
        again.keep(&new);
        self.doubtful = again;
    }

    /// Whether one that is no member by what is seen of it may be one yet: its parents have just
    /// gone, or it is about to become another program and has no environment for a moment.
    fn may_be_member(&self, pid: i32) -> bool {
        Stat::of(pid).is_some_and(|stat| self.reapers.contains(stat.parent))
            || process::names_group(pid, &self.variable)
    }

    /// Whether somebody who may be a member is about to become another program, as far as can be
    /// seen.
    pub(crate) fn is_any_between_programs(&self) -> bool {
        self.doubtful.0.keys().any(|pid| {
            let is_orphan = |stat: Stat| {
                let is_of_this_run = is_of_this_run(stat.start, stat.start, self.first);
                is_of_this_run && !stat.is_over && self.reapers.contains(stat.parent)
            };
            Stat::of(*pid).is_some_and(is_orphan) && process::has_no_environment(*pid)
        })
    }

    /// Whether that very process is a member: a number may be the heir of one that has gone.
    fn is_known(&self, pid: i32, stat: &Stat) -> bool {
        self.members
            .get(&pid)
            .is_some_and(|member| member.stat.start == stat.start)
    }

    /// Whether a process is a member, or one of its threads. It is known then.
    fn consider(&mut self, pid: i32, stat: Stat) -> bool {
        let now = Stat::of(stat.parent);
        let parent = self.members.get(&stat.parent).map(|parent| parent.stat.start);
        if is_child(parent, now.map(|now| now.start)) {
            let parent = stat.parent;
            self.add(pid, stat, Some(parent));
            return true;
        }
        // A parent that has gone meanwhile has left it to another: who is not told yet is looked at
        // again.
        if !self.reapers.contains(stat.parent) {
            return false;
        }
        let Some(stat) = self.stat_if_named(pid) else {
            return false;
        };
        if !self.reapers.contains(stat.parent) {
            return false;
        }
        self.add(pid, stat, None);
        true
    }

    /// What is told of a process whose environment or agent names this group, and which began in
    /// this run.
    pub(super) fn stat_if_named(&self, pid: i32) -> Option<Stat> {
        let before = Stat::of(pid)?;
        if before.start < self.first {
            return None;
        }
        let path = Path::new(OsStr::from_bytes(&self.variable[ENV_GROUP.len() + 1..]));
        let names = process::names_group(pid, &self.variable) || process::has_joined(pid, path);
        // Once more: what was read between is then the same process's.
        let after = Stat::of(pid)?;
        (names && is_of_this_run(before.start, after.start, self.first)).then_some(after)
    }

    /// A process is a member, though its environment does not name the group.
    pub(crate) fn note_member(&mut self, pid: i32) {
        if let Some(stat) = Stat::of(pid).filter(|stat| !self.is_known(pid, stat)) {
            self.add(pid, stat, None);
        }
    }

    pub(super) fn add(&mut self, pid: i32, stat: Stat, parent: Option<i32>) {
        // Those above us are nobody's members: all that runs here may descend from them.
        if self.reapers.contains(pid) || pid == uzswap_sys::thread::pid() {
            return;
        }
        let Some(status) = Status::of(pid).filter(|status| status.is_process) else {
            return;
        };
        // It was this process's, and no heir's of its number.
        if Stat::of(pid).is_none_or(|now| now.start != stat.start) {
            return;
        }
        let found = parent.and_then(|pid| self.members.get_mut(&pid).map(|member| (pid, member)));
        let (mut forked_from, mut kind, mut under) = (None, Kind::New { looks: 0 }, None);
        let mut makes_pager = false;
        if let Some((parent, member)) = found {
            let launcher = Launcher::new(member.inner_pid, member.stat.start);
            under = self.group.inner_of(launcher).or(member.under);
            if member.stat.image == stat.image && stat.image != Image::default() {
                (forked_from, kind, member.shares) = (Some(parent), member.kind, true);
                makes_pager = member.makes_pager || member.managed.is_some() || has_slot(self.group, member);
            }
        }
        let member = Member {
            stat,
            since: Instant::now(),
            kind,
            named: None,
            managed: None,
            shares: forked_from.is_some(),
            forked_from,
            makes_pager,
            inner_pid: status.inner_pid,
            under,
            bytes: 0,
            sizes: None,
            looked: Instant::now(),
        };
        self.moved = member.since;
        self.members.insert(pid, member);
    }
}

/// Whether somebody has a slot under that number.
fn has_slot(group: Group, member: &Member) -> bool {
    let is_its = |slot| group.field(slot, Field::Pid) as i32 == member.inner_pid;
    (0..group.high_water()).any(is_its)
}

/// How often who may be a member is looked at again.
const LOOKS: u32 = 20;

/// Who may be, and how often each was looked at.
#[derive(Default)]
pub(super) struct Doubtful(HashMap<i32, u32>);

impl Doubtful {
    /// These are left.
    fn keep(&mut self, left: &[i32]) {
        let looks = |pid: &i32| self.0.get(pid).map_or(1, |looks| looks + 1);
        let kept = left.iter().map(|pid| (*pid, looks(pid)));
        self.0 = kept.filter(|(_, looks)| *looks <= LOOKS).collect();
    }
}

/// Whether a parent's number is a member's still. `parent`: when that member began; `now`: when the
/// process did that has the number by now.
fn is_child(parent: Option<u64>, now: Option<u64>) -> bool {
    parent.is_some() && parent == now
}

/// Whether what was read between two looks is of one process, of a run that began at `first`. A run
/// before this one may have had the same path.
fn is_of_this_run(before: u64, after: u64, first: u64) -> bool {
    before == after && after >= first
}

/// Who may inherit orphans: the launcher's own parents, and the first process; and when they began.
#[derive(Default)]
pub(super) struct Reapers {
    starts: HashMap<i32, u64>,
    /// The launcher's parent when that was found out; 0: it has none that it sees, as the first
    /// process of a container, or one that was put into it.
    parent: Option<i32>,
}

impl Reapers {
    /// Find out again, if the launcher's parent has left it to another.
    pub(super) fn refresh(&mut self) {
        let parent = uzswap_sys::thread::parent_pid();
        if self.parent == Some(parent) {
            return;
        }
        self.parent = Some(parent);
        self.starts.extend(Stat::of(1).map(|stat| (1, stat.start)));
        let (mut pid, mut left) = (parent, 1 << 10);
        while pid > 1 && left > 0 {
            let Some(stat) = Stat::of(pid) else { break };
            self.starts.insert(pid, stat.start);
            (pid, left) = (stat.parent, left - 1);
        }
    }

    /// Whether that process is one, and no heir of its number.
    fn contains(&self, pid: i32) -> bool {
        let start = self.starts.get(&pid);
        start.is_some_and(|start| Stat::of(pid).is_some_and(|now| now.start == *start))
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_parent_that_is_gone_or_another_is_nobodys() {
        assert!(is_child(Some(5), Some(5)));
        assert!(!is_child(Some(5), None) && !is_child(Some(5), Some(6)));
        assert!(!is_child(None, None) && !is_child(None, Some(5)));
    }

    #[test]
    fn who_may_be_a_member_is_looked_at_again_for_a_while() {
        let mut doubtful = Doubtful::default();
        for _ in 0..LOOKS {
            doubtful.keep(&[7]);
            assert!(doubtful.0.contains_key(&7));
        }
        doubtful.keep(&[7, 8]);
        assert_eq!(doubtful.0.keys().collect::<Vec<_>>(), [&8]);
    }

    #[test]
    fn who_began_before_the_run_is_of_another() {
        assert!(is_of_this_run(7, 7, 7) && is_of_this_run(8, 8, 7));
        assert!(!is_of_this_run(6, 6, 7) && !is_of_this_run(7, 8, 7));
    }

    #[test]
    fn the_first_process_is_one_whoever_the_parent_is() {
        let mut reapers = Reapers::default();
        reapers.refresh();
        assert!(reapers.contains(1));
    }

    #[test]
    fn an_heir_of_a_reapers_number_is_none() {
        let mut reapers = Reapers::default();
        reapers.refresh();
        let parent = uzswap_sys::thread::parent_pid();
        assert!(reapers.contains(parent));
        *reapers.starts.get_mut(&parent).expect("the parent") += 1;
        assert!(!reapers.contains(parent));
    }
}
