//! Memory that is on its way back: nobody is killed for want of what others are about to return.
//!
//! A killed process returns its memory when its last thread has ended, and its charge after that.
//! On a loaded machine a thread waits for a core for seconds before it can end.
//! So the rule waits until the process is gone, however long that takes.
//!
//! ```text
//! lives --killed by the rule--> victim: counts until it is gone, whatever it has
//!       --ends by itself, or killed by others--> ending: counts while it has a share of the limit
//! gone, and charged --> left: its charge counts until a survivor has returned it
//! gone, and returned --> who lacked memory tries again;
//!                        it was not enough for whoever asks PATIENCE later
//! lives, and its kswapd has had no core --> absent: it may give way when it has
//! ```
//! Waiting exceeds no limit: who lacks memory waits as well. Members without pagers do not wait. If
//! they have more beyond the limit than returns, the next is killed at once.

use std::time::Duration;

/// Reclaim is fruitless for so long before a process asks (`OUT_OF_MEMORY_NS` of the agent). An
/// earlier one complains of a time when memory had not returned.
pub(super) const PATIENCE: Duration = Duration::from_secs(3);
/// Who ends by itself counts if it has one part in so many of the limit: in a build somebody always
/// ends.
const WORTH_SHARE: u64 = 64;
/// A survivor returns a charge within a round of its kswapd. The memory itself is free.
const RETURNS_WITHIN: Duration = Duration::from_secs(30);
/// A kswapd comes by every 20 ms, and while it reclaims after each batch. One that has not for so
/// long lacks a core, waits for a disk, forks, or is stopped.
pub(super) const ABSENT: Duration = Duration::from_millis(250);
/// It is waited for no longer than this by somebody who asks again and again. Nor is one that has
/// been absent for as long: it was stopped.
pub(super) const ABSENT_MOST: Duration = Duration::from_secs(30);
/// Who asks less often than this has found memory meanwhile. More than `HANGS_NS` of the agent,
/// which is the most between two questions of one that has found none.
const ASKS_AGAIN: Duration = Duration::from_secs(40);
/// A victim that is there after so long is worth a line.
const SAY_AFTER: Duration = Duration::from_secs(10);

/// What one look at the group finds. Times are of CLOCK_MONOTONIC.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Look {
    pub(super) now: Duration,
    /// When somebody asked for the rule.
    pub(super) asked: Option<Duration>,
    /// Members without pagers exceed the limit, for long, by more than what returns.
    pub(super) is_exceeded: bool,
    /// A victim is not gone.
    pub(super) has_victim: bool,
    /// Bytes of members that end by themselves, or were killed by others.
    pub(super) ending: u64,
    /// A member that may have memory to give is absent.
    pub(super) is_any_absent: bool,
    /// Bytes that are charged to processes that are gone. `None`: not looked at.
    pub(super) left: Option<u64>,
    pub(super) limit: u64,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nobody needs anything.
    Nothing,
    /// Somebody does, and there is memory that returns.
    Wait,
    Kill,
}

/// What is remembered of what was leaving.
#[derive(Debug, Default)]
pub(super) struct Leaving {
    /// When there was something last, or when it was found gone.
    seen: Option<Duration>,
    /// The look before this one found something.
    was_any: bool,
    /// Since when there is a charge of processes that are gone, and when that was seen last.
    left: Option<(Duration, Duration)>,
    /// Since when somebody has asked again and again, and when that was last.
    asked: Option<(Duration, Duration)>,
}

impl Leaving {
    /// Judge by one look. A look while a victim is there counts even if nobody asks.
    pub(super) fn judge(&mut self, look: Look) -> Verdict {
        if let Some(asked) = look.asked {
            let known = self.asked.filter(|(_, last)| asked.saturating_sub(*last) <= ASKS_AGAIN);
            self.asked = Some((known.map_or(asked, |(first, _)| first), asked));
        }
        let is_any = self.is_any(look);
        // The launcher may have looked late: it went at any time since the look before.
        if is_any || self.was_any {
            self.seen = Some(look.now);
        }
        self.was_any = is_any;
        match look.asked {
            _ if look.is_exceeded => Verdict::Kill,
            None => Verdict::Nothing,
            Some(asked) if self.seen.is_none_or(|seen| asked >= seen + PATIENCE) => Verdict::Kill,
            Some(_) => Verdict::Wait,
        }
    }

    /// The rule kills somebody now, who may be gone before the next look.
    pub(super) fn killed(&mut self, now: Duration) {
        self.seen = Some(now);
        self.was_any = true;
        self.asked = None;
    }

    fn is_any(&mut self, look: Look) -> bool {
        let worth = (look.limit / WORTH_SHARE).max(1);
        let is_left = look.left.is_some_and(|left| left >= worth) && !self.is_late(look.now);
        if look.left.is_some_and(|left| left < worth) {
            self.left = None;
        }
        let asks_for = self.asked.map_or(Duration::ZERO, |(first, last)| last - first);
        let is_absent = look.is_any_absent && asks_for <= ABSENT_MOST;
        look.has_victim || is_left || look.ending >= worth || is_absent
    }

    /// Whether a charge that is there now has not been returned for too long.
    fn is_late(&mut self, now: Duration) -> bool {
        // One that was seen so long ago was another.
        let known = self.left.filter(|(_, seen)| now - *seen <= RETURNS_WITHIN);
        let since = known.map_or(now, |(since, _)| since);
        self.left = Some((since, now));
        now - since > RETURNS_WITHIN
    }
}

/// A process that the rule has killed.
#[derive(Clone, Debug)]
pub(super) struct Victim {
    pub(super) pid: i32,
    pub(super) start: u64,
    pub(super) name: String,
    pub(super) killed: Duration,
    pub(super) is_said: bool,
}

impl Victim {
    /// Whether the launcher is to say that it waits for this one. Once.
    pub(super) fn is_to_say(&mut self, now: Duration) -> bool {
        let is_to_say = !self.is_said && now.saturating_sub(self.killed) > SAY_AFTER;
        self.is_said |= is_to_say;
        is_to_say
    }
}

#[cfg(test)]
mod test {
    use super::*;

    const LIMIT: u64 = 64 << 20;

    fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    fn look(now: u64, asked: Option<u64>) -> Look {
        Look {
            now: seconds(now),
            asked: asked.map(seconds),
            limit: LIMIT,
            ..Look::default()
        }
    }

    #[test]
    fn who_asks_where_nothing_returns_is_heard() {
        let mut leaving = Leaving::default();
        assert_eq!(leaving.judge(look(1, None)), Verdict::Nothing);
        assert_eq!(leaving.judge(look(1, Some(1))), Verdict::Kill);
    }

    #[test]
    fn who_has_had_no_core_is_waited_for_but_not_for_ever() {
        let mut leaving = Leaving::default();
        let absent = |now| Look {
            is_any_absent: true,
            ..look(now, Some(now))
        };
        assert_eq!(leaving.judge(absent(10)), Verdict::Wait);
        // It came by, and whoever asks then has not tried since.
        assert_eq!(leaving.judge(look(12, Some(12))), Verdict::Wait);
        assert_eq!(leaving.judge(look(14, Some(14))), Verdict::Wait);
        assert_eq!(leaving.judge(look(15, Some(15))), Verdict::Kill);
        let mut leaving = Leaving::default();
        let verdicts: Vec<_> = (100..140).map(|now| leaving.judge(absent(now))).collect();
        assert!(verdicts[..30].iter().all(|verdict| *verdict == Verdict::Wait));
        assert_eq!(verdicts[34..], [Verdict::Kill; 6]);
        // Not where questions come seldom, either: a device that fails makes for that.
        let mut leaving = Leaving::default();
        let verdicts: Vec<_> = (1..6).map(|n| leaving.judge(absent(100 + n * 16))).collect();
        assert_eq!(verdicts[3..], [Verdict::Kill; 2]);
        // Memory was found in between.
        assert_eq!(leaving.judge(absent(300)), Verdict::Wait);
    }

    #[test]
    fn nobody_is_killed_while_a_victim_is_there() {
        let mut leaving = Leaving::default();
        let there = |now, asked| Look {
            has_victim: true,
            ..look(now, asked)
        };
        for now in 10..1000 {
            assert_eq!(leaving.judge(there(now, Some(now))), Verdict::Wait, "{now}");
        }
        // It has gone. What was asked, or tried, before that says nothing about what there is now.
        assert_eq!(leaving.judge(look(1000, Some(1000))), Verdict::Wait);
        assert_eq!(leaving.judge(look(1003, Some(1002))), Verdict::Wait);
        assert_eq!(leaving.judge(look(1004, Some(1003))), Verdict::Kill);
    }

    #[test]
    fn a_victim_counts_that_is_gone_before_the_next_look() {
        let mut leaving = Leaving::default();
        assert_eq!(leaving.judge(look(10, Some(10))), Verdict::Kill);
        leaving.killed(seconds(10));
        // Who asks has not tried since.
        assert_eq!(leaving.judge(look(11, Some(11))), Verdict::Wait);
        assert_eq!(leaving.judge(look(13, Some(13))), Verdict::Wait);
        assert_eq!(leaving.judge(look(14, Some(14))), Verdict::Kill);
    }

    #[test]
    fn a_victim_counts_even_if_nobody_asks_meanwhile() {
        let mut leaving = Leaving::default();
        let there = Look {
            has_victim: true,
            ..look(20, None)
        };
        assert_eq!(leaving.judge(there), Verdict::Nothing);
        assert_eq!(leaving.judge(look(21, Some(21))), Verdict::Wait);
    }

    #[test]
    fn a_launcher_that_looks_late_does_not_take_an_old_question_for_a_new_one() {
        let mut leaving = Leaving::default();
        let there = Look {
            has_victim: true,
            ..look(20, None)
        };
        leaving.judge(there);
        // It went at any time between.
        assert_eq!(leaving.judge(look(40, Some(39))), Verdict::Wait);
        assert_eq!(leaving.judge(look(42, Some(42))), Verdict::Wait);
        assert_eq!(leaving.judge(look(43, Some(43))), Verdict::Kill);
    }

    #[test]
    fn who_ends_counts_if_it_has_a_share_of_the_limit() {
        let ending = |ending| Look {
            ending,
            ..look(10, Some(10))
        };
        assert_eq!(Leaving::default().judge(ending(LIMIT / WORTH_SHARE)), Verdict::Wait);
        // Else whoever starts many small processes could not be killed.
        assert_eq!(Leaving::default().judge(ending(LIMIT / WORTH_SHARE - 1)), Verdict::Kill);
        let unlimited = Look { limit: 0, ..ending(0) };
        assert_eq!(Leaving::default().judge(unlimited), Verdict::Kill);
    }

    #[test]
    fn a_charge_that_nobody_returns_is_not_waited_for_for_ever() {
        let mut leaving = Leaving::default();
        let left = |now| Look {
            left: Some(LIMIT / 2),
            ..look(now, Some(now))
        };
        for now in [10, 25, 40] {
            assert_eq!(leaving.judge(left(now)), Verdict::Wait, "{now}");
            assert_eq!(leaving.judge(look(now, None)), Verdict::Nothing, "{now}");
        }
        // The stall that is complained of may have begun before it was late.
        assert_eq!(leaving.judge(left(41)), Verdict::Wait);
        assert_eq!(leaving.judge(left(44)), Verdict::Kill);
        // Another one, later.
        assert_eq!(leaving.judge(left(80)), Verdict::Wait);
    }

    #[test]
    fn more_than_returns_is_not_forgiven() {
        let mut leaving = Leaving::default();
        let exceeded = Look {
            has_victim: true,
            is_exceeded: true,
            ..look(10, None)
        };
        assert_eq!(leaving.judge(exceeded), Verdict::Kill);
    }

    #[test]
    fn a_line_says_once_that_a_victim_does_not_end() {
        let mut victim = Victim {
            pid: 7,
            start: 1,
            name: "a".to_owned(),
            killed: seconds(5),
            is_said: false,
        };
        let says: Vec<bool> = [5, 15, 16, 17, 90].map(|now| victim.is_to_say(seconds(now))).into();
        assert_eq!(says, [false, false, true, false, false]);
    }
}
