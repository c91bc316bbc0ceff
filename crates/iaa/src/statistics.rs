//! Counters, under the kernel's names where it has one (`iaa-crypto/global_stats`).
//!
//! # Counting
//! Of each direction, once all batches are collected:
//!
//! - `requests = calls + no_slot + full + no_queue + unfit + withdrawn`: a queue accepted the page,
//!   or the counter of the cause says why none did;
//! - `requests = done + incompressible + software + cancelled`: each page has one outcome.
//!
//! [`Snapshot::flaw`] evaluates both.

use crate::completion::{Direction, Status};
use crate::outcome::{Outcome, Why};
use core::ops::Deref;
use core::sync::atomic::{AtomicU64, Ordering};

/// A counter: one of its own, or a word that others count in as well, such as other processes.
#[derive(Debug)]
pub(crate) enum Counter {
    /// Its own.
    Own(AtomicU64),
    /// Shared with others, from before it was made and beyond.
    Shared(&'static AtomicU64),
}

impl Default for Counter {
    fn default() -> Self {
        Self::Own(AtomicU64::new(0))
    }
}

impl Deref for Counter {
    type Target = AtomicU64;

    fn deref(&self) -> &AtomicU64 {
        match self {
            Self::Own(word) => word,
            Self::Shared(word) => word,
        }
    }
}

macro_rules! counters {
    ($(#[$doc:meta])* $atomic:ident, $(#[$snapshot_doc:meta])* $snapshot:ident {
        $($(#[$field_doc:meta])* $field:ident,)*
    }) => {
        $(#[$doc])*
        #[derive(Debug, Default)]
        pub(crate) struct $atomic {
            $(pub $field: Counter,)*
        }

        $(#[$snapshot_doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $snapshot {
            $($(#[$field_doc])* pub $field: u64,)*
        }

        impl $atomic {
            const COUNTERS: usize = [$(stringify!($field)),*].len();

            /// Those of `words`, of which there are [`COUNTERS`](Self::COUNTERS).
            fn kept_in(words: &'static [AtomicU64]) -> Self {
                let mut words = words.iter();
                let mut next = || words.next().map_or_else(Counter::default, Counter::Shared);
                Self { $($field: next(),)* }
            }

            fn snapshot(&self) -> $snapshot {
                $snapshot { $($field: self.$field.load(Ordering::Relaxed),)* }
            }

            fn reset(&self) {
                $(self.$field.store(0, Ordering::Relaxed);)*
            }
        }
    };
}

counters! {
    /// Counters of one direction.
    DirectionCounters,
    /// What one direction's counters say.
    DirectionCounts {
        /// Pages submitted to a batch.
        requests,
        /// Pages that a queue accepted.
        calls,
        /// Pages that are done.
        done,
        /// Pages that do not fit, or were mitigated so.
        incompressible,
        /// Pages that software has to do.
        software,
        /// Pages whose batch was cancelled.
        cancelled,
        /// Bytes of streams: written by compressions, read by decompressions.
        bytes,
        /// Tries for a slot or a queue that came to nothing, after which a page tried again.
        retries,
        /// Pages that no queue got since all slots were taken.
        no_slot,
        /// Pages that no queue got since all were full.
        full,
        /// Pages that no queue got since there was none.
        no_queue,
        /// Pages that no queue takes.
        unfit,
        /// Pages that were cancelled before a queue got them.
        withdrawn,
    }
}

counters! {
    /// Counters of what goes wrong.
    ErrorCounters,
    /// What the counters of errors say.
    ErrorCounts {
        /// Records with an error that is neither of the next two.
        einval,
        /// Descriptors that were late, and records that say watchdog.
        timeout,
        /// Compressions that did not fit.
        comp_buf_overflow,
        /// Page faults after which a job was submitted again.
        fault_retries,
        /// Compressions that were read back.
        verify_calls,
        /// Those whose checksum differed.
        verify_failed,
        /// Answers that a device may be to blame for.
        suspect,
        /// Descriptors put into quarantine.
        late,
        /// Descriptors that came back from there.
        late_back,
    }
}

/// The driver's counters.
#[derive(Debug, Default)]
pub struct Statistics {
    directions: [DirectionCounters; 2],
    pub(crate) errors: ErrorCounters,
}

/// What the counters say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Compressions.
    pub compress: DirectionCounts,
    /// Decompressions.
    pub decompress: DirectionCounts,
    /// What went wrong.
    pub errors: ErrorCounts,
}

/// Add one. Relaxed: counters are read one by one.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl Statistics {
    /// Words that [`kept_in`](Self::kept_in) takes.
    pub const COUNTERS: usize = 2 * DirectionCounters::COUNTERS + ErrorCounters::COUNTERS;

    /// Counters in `words`, which others may count in as well: they go on from what is there.
    ///
    /// # Panics
    /// There are not [`COUNTERS`](Self::COUNTERS) of them.
    #[must_use]
    pub fn kept_in(words: &'static [AtomicU64]) -> Self {
        assert_eq!(words.len(), Self::COUNTERS, "a word for each counter");
        let (directions, errors) = words.split_at(2 * DirectionCounters::COUNTERS);
        let (compress, decompress) = directions.split_at(DirectionCounters::COUNTERS);
        Self {
            directions: [compress, decompress].map(DirectionCounters::kept_in),
            errors: ErrorCounters::kept_in(errors),
        }
    }

    pub(crate) fn of(&self, direction: Direction) -> &DirectionCounters {
        &self.directions[direction as usize]
    }

    /// Count a page's outcome, of which `why` says that no queue got it.
    pub(crate) fn settle(&self, direction: Direction, outcome: Outcome, why: Option<Why>) {
        let counters = self.of(direction);
        match why {
            Some(Why::NoSlot) => count(&counters.no_slot),
            Some(Why::Full) => count(&counters.full),
            Some(Why::NoQueue) => count(&counters.no_queue),
            Some(Why::Unfit) => count(&counters.unfit),
            _ => {}
        }
        match outcome {
            Outcome::Done(_) => count(&counters.done),
            Outcome::Incompressible => count(&counters.incompressible),
            Outcome::Software(_) => count(&counters.software),
            Outcome::Cancelled { .. } => count(&counters.cancelled),
        }
    }

    /// Count a record that is no success, as the kernel's driver does.
    pub(crate) fn count_error(&self, status: Status, is_incompressible: bool) {
        match status {
            _ if is_incompressible => count(&self.errors.comp_buf_overflow),
            Status::WATCHDOG => count(&self.errors.timeout),
            _ => count(&self.errors.einval),
        }
    }

    /// What they say now.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            compress: self.of(Direction::Compress).snapshot(),
            decompress: self.of(Direction::Decompress).snapshot(),
            errors: self.errors.snapshot(),
        }
    }

    /// Begin again (`iaa-crypto/stats_reset`). Pages under way are counted when they end only.
    pub fn reset(&self) {
        self.directions.iter().for_each(DirectionCounters::reset);
        self.errors.reset();
    }
}

impl DirectionCounts {
    /// Whether each request was accepted or has the counter of a cause.
    fn is_each_submitted_or_not(&self) -> bool {
        self.requests == self.calls + self.no_slot + self.full + self.no_queue + self.unfit + self.withdrawn
    }

    /// Whether each request has one outcome.
    fn has_each_an_outcome(&self) -> bool {
        self.requests == self.done + self.incompressible + self.software + self.cancelled
    }
}

impl Snapshot {
    /// The first equation that does not hold, if all batches are collected.
    #[must_use]
    pub fn flaw(&self) -> Option<&'static str> {
        let equations = [
            (
                self.compress.is_each_submitted_or_not(),
                "compressions: requests are not calls and causes",
            ),
            (
                self.compress.has_each_an_outcome(),
                "compressions: requests are not outcomes",
            ),
            (
                self.decompress.is_each_submitted_or_not(),
                "decompressions: requests are not calls and causes",
            ),
            (
                self.decompress.has_each_an_outcome(),
                "decompressions: requests are not outcomes",
            ),
        ];
        equations.into_iter().find(|&(holds, _)| !holds).map(|(_, says)| says)
    }

    /// Pages that were submitted and have no outcome yet.
    #[must_use]
    pub fn under_way(&self) -> u64 {
        let of = |counts: &DirectionCounts| {
            let ended = counts.done + counts.incompressible + counts.software + counts.cancelled;
            counts.requests.saturating_sub(ended)
        };
        of(&self.compress) + of(&self.decompress)
    }

    /// All counters with their names: first the kernel's, in its order.
    #[must_use]
    pub fn named(&self) -> [(&'static str, u64); 34] {
        let Self {
            compress,
            decompress,
            errors,
        } = self;
        [
            ("total_comp_calls", compress.calls),
            ("total_decomp_calls", decompress.calls),
            ("total_sw_comp_calls", compress.software),
            ("total_sw_decomp_calls", decompress.software),
            ("total_comp_bytes_out", compress.bytes),
            ("total_decomp_bytes_in", decompress.bytes),
            ("total_completion_einval_errors", errors.einval),
            ("total_completion_timeout_errors", errors.timeout),
            ("total_completion_comp_buf_overflow_errors", errors.comp_buf_overflow),
            ("comp_requests", compress.requests),
            ("comp_done", compress.done),
            ("comp_incompressible", compress.incompressible),
            ("comp_retries", compress.retries),
            ("comp_no_slot", compress.no_slot),
            ("comp_full", compress.full),
            ("comp_no_queue", compress.no_queue),
            ("comp_unfit", compress.unfit),
            ("comp_withdrawn", compress.withdrawn),
            ("comp_cancelled", compress.cancelled),
            ("decomp_requests", decompress.requests),
            ("decomp_done", decompress.done),
            ("decomp_retries", decompress.retries),
            ("decomp_no_slot", decompress.no_slot),
            ("decomp_full", decompress.full),
            ("decomp_no_queue", decompress.no_queue),
            ("decomp_unfit", decompress.unfit),
            ("decomp_withdrawn", decompress.withdrawn),
            ("decomp_cancelled", decompress.cancelled),
            ("fault_retries", errors.fault_retries),
            ("verify_calls", errors.verify_calls),
            ("verify_failed", errors.verify_failed),
            ("device_suspect", errors.suspect),
            ("late", errors.late),
            ("late_back", errors.late_back),
        ]
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::outcome::Done;

    #[test]
    fn the_equations_name_what_does_not_add_up() {
        let statistics = Statistics::default();
        let compress = statistics.of(Direction::Compress);
        assert_eq!(statistics.snapshot().flaw(), None);
        count(&compress.requests);
        assert_eq!(
            statistics.snapshot().flaw(),
            Some("compressions: requests are not calls and causes")
        );
        count(&compress.calls);
        assert_eq!(
            statistics.snapshot().flaw(),
            Some("compressions: requests are not outcomes")
        );
        let done = Done {
            length: 1,
            crc: 0,
            xor: 0,
        };
        statistics.settle(Direction::Compress, Outcome::Done(done), None);
        assert_eq!(statistics.snapshot().flaw(), None);
        count(&statistics.of(Direction::Decompress).requests);
        statistics.settle(Direction::Decompress, Outcome::Software(Why::Full), Some(Why::Full));
        assert_eq!(statistics.snapshot().flaw(), None);
        statistics.reset();
        assert_eq!(statistics.snapshot(), Snapshot::default());
    }

    #[test]
    fn two_count_in_the_same_words() {
        let words: alloc::vec::Vec<AtomicU64> = (0..Statistics::COUNTERS).map(|_| AtomicU64::new(0)).collect();
        let words: &'static [AtomicU64] = words.leak();
        let (one, other) = (Statistics::kept_in(words), Statistics::kept_in(words));
        count(&one.of(Direction::Compress).requests);
        count(&other.of(Direction::Compress).requests);
        count(&other.errors.late_back);
        let snapshot = Statistics::kept_in(words).snapshot();
        assert_eq!((snapshot.compress.requests, snapshot.errors.late_back), (2, 1));
        assert_eq!(snapshot.under_way(), 2);
        let used = words.iter().filter(|word| word.load(Ordering::Relaxed) != 0);
        assert_eq!(used.count(), 2);
    }

    #[test]
    fn names_are_given_once() {
        let named = Snapshot::default().named();
        let names: alloc::collections::BTreeSet<_> = named.iter().map(|&(name, _)| name).collect();
        assert_eq!(names.len(), named.len());
    }
}
