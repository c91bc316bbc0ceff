//! The OOM rule, as the kernel's: of all who belong to the group the one that has most is killed,
//! and nobody else while it is on its way.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use uzswap_ctl::{Field, Group, Limit, Notice, Tunable};
use uzswap_mm::page::PAGE_SIZE;
use uzswap_mm::vmstat::Item;

use super::Census;
use super::member::{Claims, Kind, Member};
use super::process::{Stat, oom_score_adj};
use crate::output::warn_line;
use crate::size::Size;

/// A victim has so long to give back its memory before another is chosen.
const PATIENCE: Duration = Duration::from_secs(3);
/// How long members without a pager may exceed the limit before the rule is applied: the managed
/// ones are giving way.
const EXCEEDED: Duration = Duration::from_secs(3);
/// They give way as long as they lose one part in so many of the limit meanwhile.
const GIVES_WAY_SHARE: u64 = 64;
/// `oom_score_adj` of those who are never killed; a thousand is all of the limit.
const NEVER: i64 = -1000;

/// What the rule remembers.
#[derive(Default)]
pub(super) struct Rule {
    /// Its number, when it began, and when it was killed.
    victim: Option<(i32, u64, Instant)>,
    /// Since when the limit is exceeded, and what managed members had then.
    exceeded: Option<(Instant, u64)>,
}

/// Who may be killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Candidate {
    pid: i32,
    start: u64,
    size: u64,
    points: i64,
}

impl Census {
    /// Apply the rule if somebody asks for it, or has to.
    pub(super) fn apply_rule(&mut self) {
        let group = self.group();
        let is_asked = group.get(Notice::OomAsked) != 0;
        group.tell(Notice::OomAsked, 0);
        if group.memory_max() == u64::MAX {
            return;
        }
        let is_exceeded = self.is_exceeded_for_long();
        if !is_exceeded && !is_asked {
            return;
        }
        // Whoever asks has tried for seconds.
        let is_own = is_exceeded || group.memory_max() == group.get(Limit::MemoryMax);
        match &self.outer {
            Some(outer) if !is_own => outer.ask(),
            _ if is_own && !self.is_one_on_its_way() => self.kill_largest(),
            _ => {}
        }
    }

    /// Whether members without a pager, or a group inside, keep this one over its limit, and the
    /// others do not give way.
    fn is_exceeded_for_long(&mut self) -> bool {
        let group = self.group();
        let (current, max) = (self.current(), group.get(Limit::MemoryMax));
        let others = group.get(Notice::Census) + group.inner();
        if current <= max || others == 0 {
            self.rule.exceeded = None;
            return false;
        }
        let managed = current.saturating_sub(others);
        let (since, had) = *self.rule.exceeded.get_or_insert((Instant::now(), managed));
        if managed + max / GIVES_WAY_SHARE < had {
            self.rule.exceeded = Some((Instant::now(), managed));
        }
        since.elapsed() > EXCEEDED
    }

    fn is_one_on_its_way(&self) -> bool {
        self.rule.victim.is_some_and(|(_, _, since)| since.elapsed() < PATIENCE)
    }

    fn kill_largest(&mut self) {
        let (group, usage) = (self.group(), self.current());
        let open = |one: &Candidate| open(one.pid, one.start);
        let Some((Candidate { pid, start, size, .. }, victim)) = first_living(self.candidates(), open) else {
            return;
        };
        let Some(member) = self.members.get(&pid) else { return };
        // Said before it is done: the launcher may end with it.
        say(group, &format!("{pid} ({})", member.stat.name), Some(size), usage);
        self.rule.victim = Some((pid, start, Instant::now()));
        self.rule.exceeded = None;
        group.vmstat().add(Item::OomKill, 1);
        // It may have ended.
        let _ = pidfd_send_signal(&victim, Signal::KILL);
    }

    fn candidates(&self) -> Vec<Candidate> {
        let group = self.group();
        let thousandth = (group.get(Limit::MemoryMax) / 1000) as i64;
        let last = self.rule.victim.map(|(pid, start, _)| (pid, start));
        let claims = Claims::new(&self.slot_pids(), self.members.values());
        let may_die = |pid: &i32, member: &Member| {
            // Not again one that does not come to its end.
            Some((*pid, member.stat.start)) != last && !(member.kind == Kind::Unmanaged && self.allows_unmanaged())
        };
        let size = |pid: i32, member: &Member| {
            let is_its = |slot: &&usize| group.field(**slot, Field::Pid) as i32 == member.inner_pid;
            let slot = self.slots.iter().find(is_its).filter(|_| claims.is_managed(member));
            match slot {
                Some(slot) if claims.is_sure(member) => {
                    group.field(*slot, Field::Charge) + group.field(*slot, Field::Swapped) * PAGE_SIZE as u64
                }
                // The slot may be another's: what it has for certain.
                Some(_) => member.stat.anon(pid, None),
                None if member.under.is_some() => member.stat.anon(pid, None),
                None => member.bytes,
            }
        };
        let candidate = |(pid, member): (&i32, &Member)| {
            let (size, adjustment) = (size(*pid, member), oom_score_adj(*pid));
            let points = size as i64 + adjustment * thousandth;
            (size > 0 && adjustment != NEVER).then_some(Candidate {
                pid: *pid,
                start: member.stat.start,
                size,
                points,
            })
        };
        self.members
            .iter()
            .filter(|(pid, member)| may_die(pid, member))
            .filter_map(candidate)
            .collect()
    }
}

/// The one with the most points that can be had: others have ended since they were looked at.
fn first_living<T>(mut candidates: Vec<Candidate>, open: impl Fn(&Candidate) -> Option<T>) -> Option<(Candidate, T)> {
    candidates.sort_by_key(|one| std::cmp::Reverse(one.points));
    candidates
        .into_iter()
        .find_map(|one| open(&one).map(|opened| (one, opened)))
}

/// The process of that number that began then.
fn open(pid: i32, start: u64) -> Option<OwnedFd> {
    // Before the look at when it began: whoever is killed is who was looked at, and no heir of
    // its number.
    let victim = pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()?;
    let is_it = Stat::of(pid).is_some_and(|stat| stat.start == start && !stat.is_over);
    is_it.then_some(victim)
}

/// One line: who is killed, why, and what helps.
pub(crate) fn say(group: Group, who: &str, size: Option<u64>, usage: u64) {
    let size = size.map_or(String::new(), |size| {
        format!(", the largest of the group with {},", Size(size))
    });
    warn_line!(
        "uzswap: process {who}{size} is killed: the group outgrew --memory-max {} with nothing left to reclaim (it used {}); raise the limit{}",
        Size(group.get(Limit::MemoryMax)),
        Size(usage),
        advice(group.is_on(Tunable::Swap), group.get(Limit::SwapMax) != u64::MAX),
    );
}

/// What helps besides a higher limit.
fn advice(has_swap: bool, has_swap_max: bool) -> &'static str {
    match (has_swap, has_swap_max) {
        (false, _) => " or give it a swap file",
        (true, true) => " or --swap-max",
        (true, false) => "",
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_limit_that_was_never_set_is_not_to_be_raised() {
        assert!(!advice(true, false).contains("swap-max"));
        assert!(advice(true, true).contains("--swap-max"));
        assert!(advice(false, false).contains("swap file"));
    }
    #[test]
    fn the_next_is_killed_where_the_largest_has_gone() {
        let one = |pid, points| Candidate {
            pid,
            start: 1,
            size: 1,
            points,
        };
        let all = || vec![one(3, 10), one(4, 30), one(5, 20)];
        let but = |gone: &'static [i32]| move |one: &Candidate| (!gone.contains(&one.pid)).then_some(());
        let killed = |gone| first_living(all(), but(gone)).map(|(one, ())| one.pid);
        assert_eq!(
            (killed(&[]), killed(&[4]), killed(&[4, 5])),
            (Some(4), Some(5), Some(3))
        );
        assert_eq!(killed(&[3, 4, 5]), None);
    }

    #[test]
    fn an_heir_of_a_number_is_not_opened() {
        let (pid, own) = (std::process::id() as i32, Stat::own().expect("this process"));
        assert!(open(pid, own.start).is_some());
        assert!(open(pid, own.start + 1).is_none() && open(pid, own.start - 1).is_none());
    }
}
