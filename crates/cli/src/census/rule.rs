//! The OOM rule, as the kernel's: of all who belong to the group the one that has most is killed,
//! and nobody else while memory is on its way back ([`leaving`](super::leaving) decides that).

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal, test_kill_process};
use serde_json::json;
use uzswap_ctl::{Field, Group, Limit, Notice, Tunable};
use uzswap_mm::page::PAGE_SIZE;
use uzswap_mm::vmstat::Item;
use uzswap_sys::time::now_ns;

use super::Census;
use super::leaving::{ABSENT, ABSENT_MOST, Leaving, Look, Verdict, Victim};
use super::member::{Claims, IDLE_MOST, Kind, Member, Reason};
use super::process::{self, Loaded, Stat, is_ending, oom_score_adj};
use crate::group::OpenGroup;
use crate::log::{self, Event};
use uzswap_ctl::size::Size;

/// How long members without a pager may exceed the limit before the rule is applied: the managed
/// ones are giving way.
const EXCEEDED: Duration = Duration::from_secs(3);
/// The same where they do without what the managed ones have: what is charged to whom settles
/// meanwhile.
const HOPELESS: Duration = Duration::from_millis(500);
/// They give way as long as they lose one part in so many of the limit meanwhile.
const GIVES_WAY_SHARE: u64 = 64;
/// `oom_score_adj` of those who are never killed; a thousand is all of the limit.
const NEVER: i64 = -1000;

/// What the rule remembers.
#[derive(Default)]
pub(super) struct Rule {
    /// Who was killed and is not gone.
    victims: Vec<Victim>,
    leaving: Leaving,
    /// When the last look was.
    looked: Duration,
    exceeded: Option<(Instant, u64)>,
    /// Since when members without a pager alone exceed it.
    hopeless: Option<Instant>,
}

/// What members have that are victims, or end by themselves, or whose pager has ended before them,
/// which has brought all back for them at once; bytes.
#[derive(Clone, Copy, Default)]
struct Leavers {
    victims: u64,
    ending: u64,
    outliving: u64,
}

/// Whether it has the agent, and more than one that is idle can leave unmanaged.
fn outlives_its_pager(pid: i32, member: &Member) -> bool {
    member.bytes > IDLE_MOST && Loaded::of(pid) == Loaded::Agent
}

/// Who may be killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Candidate {
    pid: i32,
    start: u64,
    size: u64,
    points: i64,
    /// It has no pager, and is charged as it is.
    is_unmanaged: bool,
}

impl Census {
    /// Apply the rule if somebody asks for it, or has to.
    pub(super) fn apply_rule(&mut self, open: &OpenGroup) {
        let group = self.group();
        let now = Duration::from_nanos(now_ns());
        let last = std::mem::replace(&mut self.rule.looked, now);
        let asked = group.get(Notice::OomAsked);
        group.tell(Notice::OomAsked, 0);
        if group.memory_max() == u64::MAX {
            return;
        }
        self.rule.forget_gone();
        let leavers = match asked != 0 || self.exceeds(0) {
            true => self.leavers(),
            false => Leavers::default(),
        };
        let is_hopeless = self.is_hopeless(&leavers);
        let is_long = self.is_exceeded_for_long(leavers.victims + leavers.ending);
        let is_exceeded = is_long || is_hopeless;
        let look = Look {
            now,
            // Since the last look, whatever clock the asker has.
            asked: (asked != 0).then(|| Duration::from_nanos(asked).clamp(last.min(now), now)),
            is_exceeded,
            has_victim: !self.rule.victims.is_empty(),
            ending: leavers.ending,
            is_any_absent: asked != 0 && self.is_any_absent(now),
            left: (asked != 0).then(|| left(open)),
            limit: group.get(Limit::MemoryMax),
        };
        let verdict = self.rule.leaving.judge(look);
        self.say_who_is_waited_for(now);
        // Whoever asks has tried for seconds.
        let is_own = is_exceeded || group.memory_max() == group.get(Limit::MemoryMax);
        match (verdict, &self.outer) {
            (Verdict::Kill, Some(outer)) if !is_own => outer.ask(),
            // None of them may be killed, where that has not helped for so long.
            (Verdict::Kill, _) if is_hopeless && !is_long => self.kill_the_excess(now, open),
            (Verdict::Kill, _) if is_own => self.kill_largest(now),
            _ => {}
        }
    }

    /// By how much members without a pager alone exceed the limit, beyond what returns, and what
    /// had a pager.
    fn excess(&self, leavers: &Leavers) -> u64 {
        let group = self.group();
        let spared = leavers.victims + leavers.ending + leavers.outliving;
        let others = group.get(Notice::Census).saturating_sub(spared);
        others.saturating_sub(group.get(Limit::MemoryMax))
    }

    /// Whether they have for long: nothing that others give up makes up for it.
    fn is_hopeless(&mut self, leavers: &Leavers) -> bool {
        if self.excess(leavers) == 0 {
            self.rule.hopeless = None;
            return false;
        }
        self.rule.hopeless.get_or_insert_with(Instant::now).elapsed() > HOPELESS
    }

    /// Kill the largest of them until they do not.
    fn kill_the_excess(&mut self, now: Duration, open_group: &OpenGroup) {
        // What was found last may be a second old.
        self.sample(open_group);
        let (mut excess, usage) = (self.excess(&self.leavers()), self.current());
        let mut candidates = self.candidates();
        let is_spared = |pid: i32| {
            self.members
                .get(&pid)
                .is_some_and(|member| outlives_its_pager(pid, member))
        };
        candidates.retain(|one| one.is_unmanaged && !is_spared(one.pid));
        candidates.sort_by_key(|one| std::cmp::Reverse(one.points));
        for one in candidates {
            if excess == 0 {
                break;
            }
            if let Some((victim, stat)) = open(one.pid, one.start) {
                self.kill(now, &one, &victim, stat, usage);
                excess = excess.saturating_sub(one.size);
            }
        }
    }

    /// Whether the limit is exceeded by more than `returns`, and there are members without a pager,
    /// or a group inside, to blame for it.
    fn exceeds(&self, returns: u64) -> bool {
        let group = self.group();
        let others = group.get(Notice::Census) + group.inner();
        others > 0 && self.current().saturating_sub(returns) > group.get(Limit::MemoryMax)
    }

    /// Whether members without a pager, or a group inside, keep this one over its limit, and the
    /// others do not give way. `returns`: bytes that are on their way back.
    fn is_exceeded_for_long(&mut self, returns: u64) -> bool {
        if !self.exceeds(returns) {
            self.rule.exceeded = None;
            return false;
        }
        let group = self.group();
        let others = group.get(Notice::Census) + group.inner();
        let (managed, max) = (self.current().saturating_sub(others), group.get(Limit::MemoryMax));
        let fresh = (Instant::now(), managed);
        let (mut since, had) = *self.rule.exceeded.get_or_insert(fresh);
        if managed + max / GIVES_WAY_SHARE < had {
            since = fresh.0;
            self.rule.exceeded = Some(fresh);
        }
        since.elapsed() > EXCEEDED
    }

    /// Whether a member that may have memory to give is absent. What it is charged tells that: what
    /// it has under its care is known only when its kswapd comes by.
    fn is_any_absent(&self, now: Duration) -> bool {
        let group = self.group();
        let least = group.get(Limit::MemoryMax) / GIVES_WAY_SHARE;
        let has_memory = |slot: &usize| {
            let pool = group.field(*slot, Field::Pool);
            group.field(*slot, Field::Charge).saturating_sub(pool) >= least
        };
        let absent = |slot: usize| now.saturating_sub(Duration::from_nanos(group.field(slot, Field::CameBy)));
        let mut slots = self.slots.iter().copied().filter(has_memory);
        slots.any(|slot| (ABSENT..ABSENT_MOST).contains(&absent(slot)))
    }

    /// What victims have still, and what members have that end without us.
    fn leavers(&self) -> Leavers {
        let mut leavers = Leavers::default();
        for (pid, member) in &self.members {
            let bytes = self.held(member);
            if self.rule.is_victim(*pid, member.stat.start) {
                leavers.victims += bytes;
            } else if bytes > 0 && is_ending(*pid) {
                leavers.ending += bytes;
            } else if outlives_its_pager(*pid, member) {
                leavers.outliving += member.bytes;
            }
        }
        leavers
    }

    /// The most that a member is charged. Rather too much: then another is killed later.
    fn held(&self, member: &Member) -> u64 {
        let group = self.group();
        let slots = self.slots.iter();
        let its = slots.filter(|slot| group.field(**slot, Field::Pid) as i32 == member.inner_pid);
        let charge = its.map(|slot| group.field(*slot, Field::Charge)).max();
        charge.unwrap_or(0).max(member.bytes)
    }

    /// A victim that does not end is no secret: all who lack memory wait for it.
    fn say_who_is_waited_for(&mut self, now: Duration) {
        for victim in &mut self.rule.victims {
            if !victim.is_to_say(now) {
                continue;
            }
            let state = Stat::of(victim.pid).map_or('?', |stat| stat.state);
            let Victim { pid, name, .. } = victim;
            let line = format!(
                "uzswap: waits for process {pid} ({name}) to end, which was killed (its state is {state}): who lacks memory waits until \
                 then"
            );
            let fields = json!({ "pid": pid, "process": name, "state": state });
            log::tell(Event::of(log::Kind::WaitsForKilled, Some(line), fields));
        }
    }

    fn kill_largest(&mut self, now: Duration) {
        let usage = self.current();
        let open = |one: &Candidate| open(one.pid, one.start);
        if let Some((one, (victim, stat))) = first_living(self.candidates(), open) {
            self.kill(now, &one, &victim, stat, usage);
        }
    }

    /// The group has `usage` bytes.
    fn kill(&mut self, now: Duration, one: &Candidate, victim: &OwnedFd, stat: Stat, usage: u64) {
        let group = self.group();
        // Said before it is done: the launcher may end with it.
        let unmanaged = self
            .members
            .get(&one.pid)
            .filter(|member| member.kind == Kind::Unmanaged)
            .and_then(|member| member.named)
            .map(Reason::text);
        say(
            group,
            i64::from(one.pid),
            Some((&stat.name, one.size)),
            unmanaged,
            usage,
        );
        self.rule.leaving.killed(now);
        self.rule.victims.push(Victim {
            pid: one.pid,
            start: one.start,
            name: stat.name,
            killed: now,
            is_said: false,
        });
        (self.rule.exceeded, self.rule.hopeless) = (None, None);
        group.vmstat().add(Item::OomKill, 1);
        // It may have ended.
        let _ = pidfd_send_signal(victim, Signal::KILL);
    }

    fn candidates(&self) -> Vec<Candidate> {
        let group = self.group();
        let thousandth = (group.get(Limit::MemoryMax) / 1000) as i64;
        let claims = Claims::new(&self.slot_owners(), self.members.values());
        let may_die = |pid: &i32, member: &Member| {
            // Not again one that does not come to its end.
            let is_victim = self.rule.is_victim(*pid, member.stat.start);
            !is_victim && (member.kind != Kind::Unmanaged || !self.allows_unmanaged())
        };
        let size = |pid: i32, member: &Member| {
            let is_its = |slot: &&usize| claims.may_be(self.owner_of(**slot), member);
            let has_slot = |_: &&usize| claims.is_managed(member, || process::has_pager(pid));
            let slot = self.slots.iter().find(is_its).filter(has_slot);
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
                is_unmanaged: member.under.is_none() && member.bytes > 0,
            })
        };
        self.members
            .iter()
            .filter(|(pid, member)| may_die(pid, member))
            .filter_map(candidate)
            .collect()
    }
}

impl Rule {
    pub(super) fn is_victim(&self, pid: i32, start: u64) -> bool {
        self.victims.iter().any(|one| (one.pid, one.start) == (pid, start))
    }

    fn forget_gone(&mut self) {
        let is_there = |one: &Victim| Stat::of(one.pid).is_some_and(|stat| stat.start == one.start && !stat.is_over);
        self.victims.retain(is_there);
    }
}

/// What is charged to processes that are gone. Survivors return it.
fn left(open: &OpenGroup) -> u64 {
    let group = open.group;
    let is_left = |slot: &usize| group.field(*slot, Field::Pid) != 0 && !open.leases.is_held(*slot);
    let slots = (0..group.high_water()).filter(|slot| group.field(*slot, Field::Charge) != 0);
    slots.filter(is_left).map(|slot| group.field(slot, Field::Charge)).sum()
}

/// The one with the most points that can be had: others have ended since they were looked at.
fn first_living<T>(mut candidates: Vec<Candidate>, open: impl Fn(&Candidate) -> Option<T>) -> Option<(Candidate, T)> {
    candidates.sort_by_key(|one| std::cmp::Reverse(one.points));
    candidates
        .into_iter()
        .find_map(|one| open(&one).map(|opened| (one, opened)))
}

/// The process of that number that began then, and what is told of it now. `None`: it is ending
/// already, or another user's whom we may not kill.
fn open(pid: i32, start: u64) -> Option<(OwnedFd, Stat)> {
    let number = Pid::from_raw(pid)?;
    // Before the look at when it began: whoever is killed is who was looked at, and no heir of
    // its number.
    let victim = pidfd_open(number, PidfdFlags::empty()).ok()?;
    let stat = Stat::of(pid).filter(|stat| stat.start == start && !stat.is_over)?;
    let is_ours = test_kill_process(number) != Err(Errno::PERM);
    (is_ours && !is_ending(pid)).then_some((victim, stat))
}

/// Who is killed, why, and what helps. `largest`: its name, and what it had, if others were looked
/// at. `unmanaged`: why nothing could be taken out of it.
pub(crate) fn say(group: Group, pid: i64, largest: Option<(&str, u64)>, unmanaged: Option<&str>, usage: u64) {
    let who = largest.map_or(pid.to_string(), |(name, size)| {
        let how = unmanaged.map_or(String::new(), |reason| format!(" which is not managed ({reason}),"));
        format!("{pid} ({name}),{how} the largest of the group with {},", Size(size))
    });
    let memory_max = group.get(Limit::MemoryMax);
    let line = format!(
        "uzswap: process {who} is killed: the group outgrew --memory-max {} with nothing left to reclaim (it used {}); raise the limit{}",
        Size(memory_max),
        Size(usage),
        advice(group.is_on(Tunable::Swap), group.get(Limit::SwapMax) != u64::MAX),
    );
    let (process, size) = largest.unzip();
    let fields = json!({
        "pid": pid,
        "process": process,
        "size": size,
        "unmanaged": unmanaged,
        "usage": usage,
        "memory_max": memory_max,
    });
    log::tell(Event::of(log::Kind::Killed, Some(line), fields));
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
            is_unmanaged: false,
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
