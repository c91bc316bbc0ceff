//! What a group had and did, from its start to its end: looks at it, of which only so many are
//! kept. When there are too many, each two become one, and looks are half as frequent from then on.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use uzswap_ctl::{Field, Group, Notice, Statistic};
use uzswap_mm::page::PAGE_SIZE;
use uzswap_mm::vmstat::{BUCKETS, Item};

use crate::group::OpenGroup;

/// At first.
const INTERVAL: Duration = Duration::from_millis(25);
/// More than a screen has columns for.
const KEPT: usize = 480;
/// What rates are of.
pub(super) const COUNTED: [Item; 4] = [Item::ZswpIn, Item::PswpIn, Item::ZswpOut, Item::ZswpWb];

/// What was seen of the time since the moment before. Bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Moment {
    /// Since the beginning, at its end.
    pub(super) seconds: f64,
    /// Charged, without the two that follow.
    pub(super) resident: u64,
    pub(super) unmanaged: u64,
    pub(super) pool: u64,
    /// In the swap file: not charged.
    pub(super) disk: u64,
    /// `u64::MAX`: there was no limit.
    pub(super) max: u64,
    /// The most that one process lacked.
    pub(super) shortfall: u64,
    /// Seconds in which the process that waited most did so.
    pub(super) waited: f64,
    /// So far, of [`COUNTED`].
    pub(super) counts: [u64; COUNTED.len()],
    /// So far, by how long they took.
    pub(super) loads: [u64; BUCKETS],
}

impl Moment {
    pub(super) fn charged(&self) -> u64 {
        self.resident + self.unmanaged + self.pool
    }

    /// Both as one: the sizes of when most was charged.
    fn with(&self, next: &Self) -> Self {
        let sizes = if self.charged() > next.charged() { self } else { next };
        Self {
            resident: sizes.resident,
            unmanaged: sizes.unmanaged,
            pool: sizes.pool,
            disk: sizes.disk,
            max: sizes.max,
            shortfall: self.shortfall.max(next.shortfall),
            waited: self.waited + next.waited,
            ..*next
        }
    }
}

/// A process, as slots of the group tell it from others, and the nanoseconds that it has waited.
type Waits = HashMap<(usize, u64), u64>;

#[derive(Debug)]
pub(crate) struct Timeline {
    began: Instant,
    interval: Duration,
    next: Instant,
    moments: Vec<Moment>,
    waits: Waits,
}

impl Timeline {
    pub(crate) fn begin() -> Self {
        let now = Instant::now();
        Self {
            began: now,
            interval: INTERVAL,
            next: now,
            moments: Vec::with_capacity(KEPT),
            waits: Waits::new(),
        }
    }

    /// How long until the next look.
    pub(crate) fn due_in(&self) -> Duration {
        self.next.saturating_duration_since(Instant::now())
    }

    /// One look, if it is time.
    pub(crate) fn step(&mut self, open: &OpenGroup) {
        let now = Instant::now();
        if now < self.next {
            return;
        }
        self.next = now + self.interval;
        let moment = self.look(open, now);
        self.keep(moment);
    }

    /// The last look. Nothing is charged any more: sizes are those of the look before.
    pub(crate) fn end(&mut self, open: &OpenGroup) {
        let last = self.moments.last().copied().unwrap_or_default();
        let now = self.look(open, Instant::now());
        self.keep(Moment {
            seconds: now.seconds,
            waited: now.waited,
            counts: now.counts,
            loads: now.loads,
            ..last
        });
    }

    pub(super) fn moments(&self) -> &[Moment] {
        &self.moments
    }

    fn keep(&mut self, moment: Moment) {
        if self.moments.len() == KEPT {
            let halved = self.moments.chunks(2).map(|pair| match pair {
                [first, second] => first.with(second),
                alone => alone[0],
            });
            self.moments = halved.collect();
            self.interval *= 2;
        }
        self.moments.push(moment);
    }

    fn look(&mut self, open: &OpenGroup, now: Instant) -> Moment {
        let group = &open.group;
        let waits = waits(open);
        let most = most_waited(&self.waits, &waits);
        let shortfall = shortfall(open, &self.waits, &waits);
        self.waits = waits;
        Moment {
            seconds: now.duration_since(self.began).as_secs_f64(),
            waited: most as f64 / 1e9,
            shortfall,
            ..sizes_and_counts(group)
        }
    }
}

fn sizes_and_counts(group: &Group) -> Moment {
    let charged = group.current();
    let pool = (group.sum(Field::PoolCharge) * PAGE_SIZE as u64).min(charged);
    // What runs beside the limit is not charged.
    let unmanaged = group.get(Statistic::Unmanaged).min(group.get(Notice::Census));
    Moment {
        resident: charged.saturating_sub(pool + unmanaged),
        unmanaged,
        pool,
        disk: group.sum(Field::Swapped) * PAGE_SIZE as u64,
        max: group.memory_max(),
        counts: COUNTED.map(|item| group.vmstat().get(item)),
        loads: group.vmstat().histograms()[0],
        ..Moment::default()
    }
}

fn waits(open: &OpenGroup) -> Waits {
    let of = |slot| {
        let field = |field| open.group.field(slot, field);
        ((slot, field(Field::Pid)), field(Field::Waited))
    };
    open.processes().map(of).collect()
}

fn most_waited(before: &Waits, now: &Waits) -> u64 {
    let since = |(who, waited): (&(usize, u64), &u64)| {
        let before = before.get(who).copied().unwrap_or_default();
        waited.saturating_sub(before)
    };
    now.iter().map(since).max().unwrap_or(0)
}

/// What those lack that have waited since.
fn shortfall(open: &OpenGroup, before: &Waits, now: &Waits) -> u64 {
    let has_waited = |(who, waited): &(&(usize, u64), &u64)| before.get(who).is_none_or(|before| before < *waited);
    let waiting = now.iter().filter(has_waited);
    let shortfalls = waiting.map(|((slot, _), _)| open.group.field(*slot, Field::Shortfall));
    shortfalls.fold(0, u64::saturating_add)
}

#[cfg(test)]
mod test {
    use super::*;

    fn moment(number: u64) -> Moment {
        Moment {
            seconds: number as f64,
            resident: number % 7,
            waited: 1.0,
            counts: [number; COUNTED.len()],
            ..Moment::default()
        }
    }

    #[test]
    fn a_long_run_is_kept_in_fewer_moments() {
        let mut timeline = Timeline::begin();
        (1..=10_000).for_each(|number| timeline.keep(moment(number)));
        let kept = timeline.moments();
        assert!((KEPT / 2..=KEPT).contains(&kept.len()), "{}", kept.len());
        assert!(timeline.interval > INTERVAL);
        assert!(kept.is_sorted_by(|a, b| a.seconds < b.seconds));
        let waited: f64 = kept.iter().map(|moment| moment.waited).sum();
        assert!((waited - 10_000.0).abs() < 1e-9);
        assert_eq!(kept.last().map(|moment| moment.counts[0]), Some(10_000));
    }

    #[test]
    fn of_two_moments_the_peak_stays() {
        let high = Moment {
            seconds: 1.0,
            resident: 50,
            pool: 5,
            shortfall: 3,
            counts: [1; COUNTED.len()],
            ..Moment::default()
        };
        let low = Moment {
            seconds: 2.0,
            resident: 20,
            disk: 9,
            counts: [4; COUNTED.len()],
            ..Moment::default()
        };
        let both = high.with(&low);
        assert_eq!((both.seconds, both.counts[0]), (2.0, 4));
        assert_eq!((both.resident, both.pool, both.disk, both.shortfall), (50, 5, 0, 3));
        assert_eq!(low.with(&high).resident, 50);
    }

    #[test]
    fn who_waited_most_is_told() {
        let before = Waits::from([((0, 7), 100), ((1, 8), 0)]);
        let now = Waits::from([((0, 7), 150), ((1, 8), 70), ((2, 9), 10)]);
        assert_eq!(most_waited(&before, &now), 70);
        // Another process in the slot.
        assert_eq!(most_waited(&before, &Waits::from([((0, 17), 30)])), 30);
        assert_eq!(most_waited(&before, &Waits::new()), 0);
    }
}
