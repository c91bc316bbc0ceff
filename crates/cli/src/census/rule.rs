//! The OOM rule, as the kernel's: of all who belong to the group the one that has most is killed,
//! and nobody else while it is on its way.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use uzswap_ctl::{Field, Group, Key};
use uzswap_mm::page::PAGE_SIZE;
use uzswap_mm::vmstat::Item;
use uzswap_sys::time::now_ns;

use super::process::{Stat, oom_score_adj};
use super::{Census, Kind, Member};
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
    victim: Option<(i32, Instant)>,
    /// Since when the limit is exceeded, and what managed members had then.
    exceeded: Option<(Instant, u64)>,
}

/// Who may be killed.
struct Candidate {
    pid: i32,
    size: u64,
    points: i64,
}

impl Census {
    /// Apply the rule if somebody asks for it, or has to.
    pub(super) fn apply_rule(&mut self) {
        let group = self.group();
        let is_asked = group.get(Key::OomAsked) != 0;
        group.set(Key::OomAsked, 0);
        if group.memory_max() == u64::MAX {
            return;
        }
        let is_exceeded = self.is_exceeded_for_long();
        if !is_exceeded && !is_asked {
            return;
        }
        // Whoever asks has tried for seconds.
        let is_own = is_exceeded || group.memory_max() == group.get(Key::MemoryMax);
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
        let (current, max) = (self.current(), group.get(Key::MemoryMax));
        let others = group.get(Key::Census) + group.inner();
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
        self.rule.victim.is_some_and(|(_, since)| since.elapsed() < PATIENCE)
    }

    fn kill_largest(&mut self) {
        let (group, usage) = (self.group(), self.current());
        let Some(Candidate { pid, size, .. }) = self.candidates().into_iter().max_by_key(|one| one.points) else {
            return;
        };
        let Some(member) = self.members.get(&pid) else { return };
        // Before the look at when it began: whoever is killed is who was looked at, and no heir of
        // its number.
        let Some(victim) = open(pid) else { return };
        if Stat::of(pid).is_none_or(|stat| stat.start != member.stat.start) {
            return;
        }
        // Said before it is done: the launcher may end with it.
        say(group, &format!("{pid} ({})", member.stat.name), Some(size), usage);
        self.rule.victim = Some((pid, Instant::now()));
        self.rule.exceeded = None;
        group.set(Key::OomVictim, pid as u64);
        group.set(Key::OomSize, size);
        group.set(Key::OomSince, now_ns());
        group.vmstat().add(Item::OomKill, 1);
        // It may have ended.
        let _ = pidfd_send_signal(&victim, Signal::KILL);
    }

    fn candidates(&self) -> Vec<Candidate> {
        let group = self.group();
        let thousandth = (group.get(Key::MemoryMax) / 1000) as i64;
        let last = self.rule.victim.map(|(pid, _)| pid);
        let may_die = |pid: &i32, member: &Member| {
            // Not again one that does not come to its end.
            Some(*pid) != last && !(member.kind == Kind::Unmanaged && self.allows_unmanaged())
        };
        let size = |pid: i32, member: &Member| {
            let is_its = |slot: &&usize| [pid, member.inner_pid].contains(&(group.field(**slot, Field::Pid) as i32));
            match self.slots.iter().find(is_its) {
                Some(slot) => group.charge_of(*slot) + group.field(*slot, Field::Swapped) * PAGE_SIZE as u64,
                None if member.under.is_some() => member.stat.anon(pid, None),
                None => member.bytes,
            }
        };
        let candidate = |(pid, member): (&i32, &Member)| {
            let (size, adjustment) = (size(*pid, member), oom_score_adj(*pid));
            let points = size as i64 + adjustment * thousandth;
            (size > 0 && adjustment != NEVER).then_some(Candidate {
                pid: *pid,
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

fn open(pid: i32) -> Option<OwnedFd> {
    pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()
}

/// One line: who is killed, why, and what helps.
pub(crate) fn say(group: Group, who: &str, size: Option<u64>, usage: u64) {
    let size = size.map_or(String::new(), |size| {
        format!(", the largest of the group with {},", Size(size))
    });
    warn_line!(
        "uzswap: process {who}{size} is killed: the group outgrew --memory-max {} with nothing left to reclaim (it used {}); raise the limit{}",
        Size(group.get(Key::MemoryMax)),
        Size(usage),
        advice(group.get(Key::Swap) != 0, group.get(Key::SwapMax) != u64::MAX),
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
}
