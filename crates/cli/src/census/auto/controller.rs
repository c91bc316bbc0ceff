//! How much cold memory is given back, and when none is: decided from snapshots alone.
//!
//! ```text
//! credit   seconds of the budget that are unspent: fills with time, and each stall spends some.
//!          The less there is the less is asked for, and the more of the time is spent stalling
//!          now; where it is overdrawn nothing is, until time has paid for it
//! pace     the part of the memory that is taken out in a second: doubles while what is taken out
//!          stays out, halves where it comes back or the credit is overdrawn
//! rest     where more comes back at once than stays out, all that is left is hot: a pause, twice
//!          as long each time in a row
//! ```
//! Growth is answered by asking for nothing. An idle program says nothing about which of its memory
//! is cold, so little is taken from it.

use std::time::Duration;

/// Unspent at most: what a burst may stall, in seconds of the budget.
const CREDIT_MOST: f64 = 1.0;
/// Overdrawn at most: so long a program is left alone after it wanted much of it back.
const DEBT_MOST: f64 = 60.0;
/// How long what was stalled counts as now. Seconds.
const NOW: f64 = 2.0;
/// Of the memory, in a second: at first, at least, and at most.
const PACE_FIRST: f64 = 1.0 / 64.0;
const PACE_LEAST: f64 = 1.0 / 256.0;
const PACE_MOST: f64 = 1.0 / 8.0;
/// In a second at most, as the staging range holds no more: what is hot comes back from there.
const BYTES_MOST: f64 = (24 << 20) as f64;
/// Between two verdicts on the pace: what was taken out has had its second chance by then.
const JUDGE: Duration = Duration::from_secs(2);
/// What comes back of what is taken out, from which on it is futile, and up to which it pays.
const FUTILE: f64 = 0.5;
const FRUITFUL: f64 = 0.25;
/// Of what is asked for so much is taken, or there is nothing left.
const TAKEN_LEAST: f64 = 0.125;
const REST_LEAST: Duration = Duration::from_secs(2);
const REST_MOST: Duration = Duration::from_secs(64);
/// Growth in a second, as a part of the memory, from which on nothing is asked for.
const GROWTH: f64 = 1.0 / 16.0;
/// A program that has a core for such a part of the time is as active as can be, and an idle one
/// counts as so active.
const ACTIVE_FULLY: f64 = 1.0 / 16.0;
const ACTIVE_LEAST: f64 = 1.0 / 16.0;
/// Of a smaller program nothing is worth it.
const SIZE_LEAST: u64 = 16 << 20;
/// Between two looks at most, as far as what is asked for goes. Seconds.
const LATE_MOST: f64 = 1.0;
/// Less is not asked for.
const ASK_LEAST: f64 = (256 << 10) as f64;

/// What is known of a group at one moment. All but `now` and `size` only grow.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Snapshot {
    /// On a clock that nobody sets.
    pub(super) now: Duration,
    /// How long threads have waited for pages that were taken out.
    pub(super) stalled: Duration,
    /// How long threads have had a core.
    pub(super) ran: Duration,
    /// Bytes resident.
    pub(super) size: u64,
    /// Bytes taken out, and those of them that came back before they were stored.
    pub(super) taken: u64,
    pub(super) restored: u64,
}

/// What the next bytes are decided by.
#[derive(Debug)]
pub(super) struct Controller {
    last: Option<Snapshot>,
    credit: f64,
    /// What is stalled now, as a part of the budget.
    stalling: f64,
    pace: f64,
    rest: Duration,
    rests_until: Duration,
    /// Bytes that are due and were not asked for.
    due: f64,
    probe: Probe,
}

/// What came of what was asked for since the last verdict. Bytes.
#[derive(Debug, Default)]
struct Probe {
    began: Duration,
    asked: f64,
    taken: f64,
    restored: f64,
}

/// Of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Fruitful,
    Mixed,
    Futile,
}

impl Probe {
    fn begin(now: Duration) -> Self {
        Self {
            began: now,
            ..Self::default()
        }
    }

    fn verdict(&self) -> Verdict {
        let is_barren = self.taken < self.asked * TAKEN_LEAST;
        match self.restored / self.taken {
            _ if is_barren => Verdict::Futile,
            back if back >= FUTILE => Verdict::Futile,
            back if back <= FRUITFUL => Verdict::Fruitful,
            _ => Verdict::Mixed,
        }
    }
}

impl Default for Controller {
    fn default() -> Self {
        Self {
            last: None,
            credit: CREDIT_MOST,
            stalling: 0.0,
            pace: PACE_FIRST,
            rest: REST_LEAST,
            rests_until: Duration::ZERO,
            due: 0.0,
            probe: Probe::default(),
        }
    }
}

impl Controller {
    /// Bytes that are to be taken out from now on, in place of what was asked for before and not
    /// taken yet. `budget`: the part of the time that may be spent waiting.
    pub(super) fn ask(&mut self, budget: f64, seen: Snapshot) -> u64 {
        let Some(last) = self.last.replace(seen) else {
            self.probe = Probe::begin(seen.now);
            return 0;
        };
        let passed = seen.now.saturating_sub(last.now).as_secs_f64();
        self.spend(passed, seen.stalled.saturating_sub(last.stalled).as_secs_f64() / budget);
        self.probe.taken += seen.taken.saturating_sub(last.taken) as f64;
        self.probe.restored += seen.restored.saturating_sub(last.restored) as f64;
        self.judge(seen.now);
        // Whoever was stopped does not catch up.
        self.due += self.pace_at(passed, last, seen) * passed.min(LATE_MOST);
        match self.due {
            due if due < ASK_LEAST => 0,
            due => {
                self.probe.asked += due;
                self.due = 0.0;
                due as u64
            }
        }
    }

    /// Bytes in a second.
    fn pace_at(&self, passed: f64, last: Snapshot, seen: Snapshot) -> f64 {
        let size = seen.size as f64;
        let grows = size - last.size as f64 > size * GROWTH * passed;
        if grows || passed == 0.0 || seen.now < self.rests_until || seen.size < SIZE_LEAST {
            return 0.0;
        }
        let spare = (self.credit / CREDIT_MOST).min(1.0 - self.stalling).max(0.0);
        let active = seen.ran.saturating_sub(last.ran).as_secs_f64() / passed / ACTIVE_FULLY;
        (size * self.pace * spare * active.clamp(ACTIVE_LEAST, 1.0)).min(BYTES_MOST)
    }

    /// Time fills the credit, what was `stalled` empties it. Both in seconds of the budget.
    fn spend(&mut self, passed: f64, stalled: f64) {
        self.stalling = (self.stalling * NOW + stalled) / (NOW + passed);
        let was_good = self.credit > 0.0;
        self.credit = (self.credit + passed - stalled).clamp(-DEBT_MOST, CREDIT_MOST);
        if was_good && self.credit <= 0.0 {
            self.slow_down();
        }
    }

    /// If it is time.
    fn judge(&mut self, now: Duration) {
        if now < self.rests_until {
            self.probe = Probe::begin(self.rests_until);
        }
        if self.probe.asked == 0.0 {
            self.probe.began = self.probe.began.max(now);
        }
        if now.saturating_sub(self.probe.began) < JUDGE {
            return;
        }
        match self.probe.verdict() {
            Verdict::Futile => {
                self.slow_down();
                self.rests_until = now + self.rest;
                self.rest = (self.rest * 2).min(REST_MOST);
            }
            Verdict::Fruitful if self.credit > CREDIT_MOST / 2.0 => {
                self.pace = (self.pace * 2.0).min(PACE_MOST);
                self.rest = REST_LEAST;
            }
            Verdict::Fruitful | Verdict::Mixed => self.rest = REST_LEAST,
        }
        self.probe = Probe::begin(now);
    }

    fn slow_down(&mut self) {
        self.pace = (self.pace / 2.0).max(PACE_LEAST);
    }
}

#[cfg(test)]
mod test;
