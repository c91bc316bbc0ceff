//! What a run came to, in plain words: whether it thrashed, and better settings.

use uzswap_ctl::defaults::MEMORY_MAX_LEAST;
use uzswap_ctl::{Group, Limit, Statistic, Tunable};
use uzswap_mm::vmstat::Item;

use super::timeline::Moment;
use crate::census::{PART, WINDOW};
use uzswap_ctl::size::Size;

/// A run that waits for less of its time hardly does.
const HARDLY: f64 = 0.01;
/// One that waits for more is slow for it.
const MUCH: f64 = 0.1;
/// Pages that do not compress are many from this share of those that were tried.
const INCOMPRESSIBLE: f64 = 0.3;
const MIB: u64 = 1 << 20;

/// What there is to judge by. Bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Facts {
    pub(super) seconds: f64,
    /// In windows of which a process waited for most.
    pub(super) thrashed: f64,
    /// By the process that waited most, at each time.
    pub(super) waited: f64,
    /// `u64::MAX`: there was none.
    pub(super) memory_max: u64,
    pub(super) peak: u64,
    pub(super) needed: u64,
    /// The most that a process lacked.
    pub(super) shortfall: u64,
    pub(super) killed: u64,
    /// Pages.
    pub(super) taken_out: u64,
    pub(super) from_pool: u64,
    pub(super) from_disk: u64,
    pub(super) tried: u64,
    pub(super) incompressible: u64,
    /// Times.
    pub(super) pool_full: u64,
    pub(super) disk_full: u64,
    pub(super) has_swap: bool,
    pub(super) has_swap_max: bool,
}

/// A change, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Advice {
    pub(super) change: String,
    pub(super) why: String,
}

impl Facts {
    pub(super) fn of(group: &Group, moments: &[Moment]) -> Self {
        let count = |item| group.vmstat().get(item);
        Self {
            seconds: moments.last().map_or(0.0, |moment| moment.seconds),
            thrashed: thrashed(moments),
            waited: moments.iter().map(|moment| moment.waited).sum(),
            memory_max: group.get(Limit::MemoryMax),
            peak: group.get(Statistic::MemoryPeak),
            needed: group.get(Statistic::NeededPeak),
            shortfall: moments.iter().map(|moment| moment.shortfall).max().unwrap_or(0),
            killed: count(Item::OomKill) + u64::from(group.get(Statistic::OomPid) != 0),
            taken_out: count(Item::PgSteal),
            from_pool: count(Item::ZswpIn),
            from_disk: count(Item::PswpIn),
            tried: count(Item::ZswpOut) + count(Item::RejectCompressPoor),
            incompressible: count(Item::RejectCompressPoor),
            pool_full: count(Item::PoolLimitHit),
            disk_full: count(Item::SwapFull),
            has_swap: group.is_on(Tunable::Swap),
            has_swap_max: group.get(Limit::SwapMax) != u64::MAX,
        }
    }

    /// Of the time, how much was waited.
    pub(super) fn waited_share(&self) -> f64 {
        match self.seconds > 0.0 {
            true => (self.waited / self.seconds).min(1.0),
            false => 0.0,
        }
    }

    /// Whether it was slowed down, in a sentence.
    pub(super) fn verdict(&self) -> String {
        let share = percent(self.waited_share());
        match self {
            _ if self.killed > 0 => "A process was killed: the limit was too low for what it had to keep.".to_owned(),
            _ if self.thrashed > 0.0 => format!(
                "It thrashed: for {} of {} a process waited for pages most of the time.",
                duration(self.thrashed),
                duration(self.seconds)
            ),
            _ if self.taken_out == 0 && self.memory_max == u64::MAX => "Nothing was limited.".to_owned(),
            _ if self.taken_out == 0 => "It never came near its limit: no memory was taken out.".to_owned(),
            _ if self.waited_share() >= MUCH => {
                format!("It did not thrash, but waited for pages for {share} of its time.")
            }
            _ => format!("It did not thrash: {share} of its time went into waiting for pages."),
        }
    }

    /// Whether it was slowed down for want of memory, or worse.
    pub(super) fn is_bad(&self) -> bool {
        self.killed > 0 || self.thrashed > 0.0
    }

    /// What might serve better.
    pub(super) fn advice(&self) -> Vec<Advice> {
        let all = [self.limit(), self.swap(), self.swap_max(), self.compressor()];
        all.into_iter().flatten().collect()
    }

    fn limit(&self) -> Option<Advice> {
        let to = |bytes: u64, why: String| Advice {
            change: format!("--memory-max {}", Size(bytes).exact()),
            why,
        };
        let lacks = self.thrashed > 0.0 || self.waited_share() >= HARDLY;
        if self.memory_max == u64::MAX {
            return Some(Advice {
                change: "uzswap try -- CMD".to_owned(),
                why:
                    "nothing was limited: it runs the program at several limits, and names the least that costs little"
                        .to_owned(),
            });
        }
        if self.killed > 0 {
            let had = self.needed.max(self.peak);
            let least = round_up(had.max(self.memory_max) + MIB);
            return Some(Advice {
                change: format!("--memory-max {}, or more", Size(least).exact()),
                why: format!("it had {} when most was there, and would have gone on", Size(had)),
            });
        }
        if lacks && self.shortfall > 0 {
            let more = round_up(self.memory_max + self.shortfall);
            let enough = more.min(round_up(self.needed.max(self.memory_max + MIB)));
            return Some(to(
                enough,
                format!(
                    "the engine's estimate: with {} more it would hardly wait",
                    Size(enough - self.memory_max)
                ),
            ));
        }
        if self.taken_out == 0 {
            let fits = round_up(self.peak).max(MEMORY_MAX_LEAST);
            let why = "the most that it had would fit still";
            return (fits < self.memory_max).then(|| to(fits, why.to_owned()));
        }
        (!lacks).then(|| Advice {
            change: "uzswap try -- CMD".to_owned(),
            why: "it hardly waited: a lower limit may do, and this finds the least that costs little".to_owned(),
        })
    }

    fn swap(&self) -> Option<Advice> {
        (!self.has_swap && (self.pool_full > 0 || self.killed > 0)).then(|| Advice {
            change: "--swap DIRECTORY".to_owned(),
            why: "there was no swap file: what the pool had no room for stayed in memory".to_owned(),
        })
    }

    fn swap_max(&self) -> Option<Advice> {
        let change = match self.has_swap_max {
            true => "a larger --swap-max",
            false => "--swap with more space",
        };
        (self.has_swap && self.disk_full > 0).then(|| Advice {
            change: change.to_owned(),
            why: format!("the swap file was full {} times", self.disk_full),
        })
    }

    fn compressor(&self) -> Option<Advice> {
        let is_poor = self.incompressible as f64 > self.tried as f64 * INCOMPRESSIBLE;
        if self.killed == 0 && is_poor {
            return Some(Advice {
                change: "a limit nearer to what it has".to_owned(),
                why: "much of its memory does not compress: encrypted, compressed or random data".to_owned(),
            });
        }
        (self.waited_share() >= HARDLY && self.from_disk > self.from_pool).then(|| Advice {
            change: "--compressor zstd:1".to_owned(),
            why: "most pages came back from the swap file: a denser pool would hold more of them".to_owned(),
        })
    }
}

fn round_up(bytes: u64) -> u64 {
    bytes.next_multiple_of(MIB)
}

/// Seconds in windows, as those of the census, of which a process waited for most. A run that is
/// shorter is one window.
fn thrashed(moments: &[Moment]) -> f64 {
    let whole = moments.last().map_or(0.0, |moment| moment.seconds);
    let least = WINDOW.as_secs_f64().min(whole);
    let (mut seconds, mut began, mut waited) = (0.0, 0.0, 0.0);
    for moment in moments {
        waited += moment.waited;
        let window = moment.seconds - began;
        // The last may be shorter.
        let least = if moment.seconds < whole { least } else { least / 2.0 };
        if window > 0.0 && window >= least {
            let is_most = waited > window / f64::from(PART);
            seconds += if is_most { window } else { 0.0 };
            (began, waited) = (moment.seconds, 0.0);
        }
    }
    seconds
}

/// With as many digits as matter.
pub(super) fn percent(share: f64) -> String {
    match share * 100.0 {
        0.0 => "0 %".to_owned(),
        small if small < 0.1 => "less than 0.1 %".to_owned(),
        small if small < 10.0 => format!("{small:.1} %"),
        large => format!("{large:.0} %"),
    }
}

/// For people.
pub(super) fn duration(seconds: f64) -> String {
    let whole = seconds as u64;
    match seconds {
        ..10.0 => format!("{seconds:.1} s"),
        ..120.0 => format!("{seconds:.0} s"),
        ..7200.0 => format!("{} min {} s", whole / 60, whole % 60),
        _ => format!("{} h {} min", whole / 3600, whole / 60 % 60),
    }
}

#[cfg(test)]
mod test {
    use super::*;

    fn facts() -> Facts {
        Facts {
            seconds: 100.0,
            waited: 0.5,
            memory_max: 512 * MIB,
            peak: 512 * MIB,
            needed: 900 * MIB,
            taken_out: 9,
            from_pool: 9,
            tried: 9,
            has_swap: true,
            ..Facts::default()
        }
    }

    #[track_caller]
    fn changes(facts: Facts, expected: &[&str]) {
        let advice = facts.advice();
        let changes: Vec<_> = advice.iter().map(|advice| &*advice.change).collect();
        assert_eq!(changes, expected);
    }

    #[test]
    fn who_hardly_waits_may_have_less() {
        assert_eq!(
            facts().verdict(),
            "It did not thrash: 0.5 % of its time went into waiting for pages."
        );
        changes(facts(), &["uzswap try -- CMD"]);
        let idle = Facts {
            taken_out: 0,
            peak: 300 * MIB + 5,
            ..facts()
        };
        assert!(idle.verdict().contains("never came near its limit"));
        changes(idle, &["--memory-max 301M"]);
        changes(Facts { peak: 0, ..idle }, &["--memory-max 4M"]);
        let fits = Facts {
            peak: 512 * MIB - 5,
            ..idle
        };
        changes(fits, &[]);
    }

    #[test]
    fn who_thrashes_is_told_how_much_more_helps() {
        let thrashes = Facts {
            thrashed: 40.0,
            waited: 60.0,
            shortfall: 200 * MIB + 1,
            ..facts()
        };
        assert_eq!(
            thrashes.verdict(),
            "It thrashed: for 40 s of 100 s a process waited for pages most of the time."
        );
        changes(thrashes, &["--memory-max 713M"]);
        // Not more than it ever had.
        changes(
            Facts {
                shortfall: 4000 * MIB,
                ..thrashes
            },
            &["--memory-max 900M"],
        );
        changes(
            Facts {
                from_disk: 10,
                ..thrashes
            },
            &["--memory-max 713M", "--compressor zstd:1"],
        );
    }

    #[test]
    fn who_was_killed_needs_more_or_a_swap_file() {
        let killed = Facts {
            killed: 1,
            has_swap: false,
            ..facts()
        };
        assert!(killed.verdict().starts_with("A process was killed"));
        changes(killed, &["--memory-max 901M, or more", "--swap DIRECTORY"]);
        let full = Facts {
            disk_full: 3,
            has_swap_max: true,
            ..facts()
        };
        changes(full, &["uzswap try -- CMD", "a larger --swap-max"]);
    }

    #[test]
    fn other_things_are_worth_saying() {
        changes(
            Facts {
                memory_max: u64::MAX,
                ..facts()
            },
            &["uzswap try -- CMD"],
        );
        let free = Facts {
            memory_max: u64::MAX,
            taken_out: 0,
            ..facts()
        };
        assert_eq!(free.verdict(), "Nothing was limited.");
        let noise = Facts {
            incompressible: 5,
            ..facts()
        };
        changes(noise, &["uzswap try -- CMD", "a limit nearer to what it has"]);
        assert!(
            Facts {
                waited: 20.0,
                ..facts()
            }
            .verdict()
            .contains("20 % of its time")
        );
        assert_eq!(Facts::default().waited_share(), 0.0);
    }

    fn moment(seconds: f64, waited: f64) -> Moment {
        Moment {
            seconds,
            waited,
            ..Moment::default()
        }
    }

    #[test]
    fn thrashing_is_of_windows() {
        assert_eq!(thrashed(&[]), 0.0);
        assert_eq!(thrashed(&[moment(0.0, 0.0)]), 0.0);
        assert_eq!(thrashed(&[moment(0.0, 0.0), moment(2.0, 1.5)]), 2.0);
        let long = [moment(0.0, 0.0), moment(5.0, 5.0), moment(10.0, 1.0), moment(20.0, 1.0)];
        assert_eq!(thrashed(&long), 10.0);
        let last = [moment(10.0, 0.0), moment(14.0, 4.0), moment(16.0, 2.0)];
        assert_eq!(thrashed(&last), 6.0);
        assert_eq!(thrashed(&last[..2]), 0.0);
    }

    #[test]
    fn times_are_for_people() {
        let shown = [0.04, 9.94, 61.0, 600.0, 90_000.0].map(duration);
        assert_eq!(shown, ["0.0 s", "9.9 s", "61 s", "10 min 0 s", "25 h 0 min"]);
        let shown = [0.0, 0.0004, 0.051, 0.5].map(percent);
        assert_eq!(shown, ["0 %", "less than 0.1 %", "5.1 %", "50 %"]);
    }
}
