//! What became of descriptors: each has exactly one outcome.

use std::collections::BTreeMap;

/// How a descriptor ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// Its record has this status.
    Completed(u8),
    /// It ended with this status, and no record was asked for or possible.
    Unrecorded(u8),
    /// Its record went to the event log.
    Logged,
    /// Nothing was written, nor ever will be: an injected fault.
    Silent,
    /// Its queue or device went away under it.
    Aborted,
}

/// Counts of descriptors.
///
/// `submitted == refused + gone + dropped + accepted`, and `accepted` is the sum of all outcomes
/// and of those in flight.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Tries at a portal.
    pub submitted: u64,
    /// ENQCMD said "retry".
    pub refused: u64,
    /// The queue or its device was not there, or not on: the descriptor vanished.
    pub gone: u64,
    /// MOVDIR64B to a queue without room: the descriptor vanished, SWERR is latched.
    pub dropped: u64,
    /// Taken by a queue.
    pub accepted: u64,
    /// By the record's status.
    pub completed: BTreeMap<u8, u64>,
    /// Ended without a record.
    pub unrecorded: u64,
    /// Records that went to the event log.
    pub logged: u64,
    /// Records that the kernel copied from there.
    pub record_faults: u64,
    /// Records that it could or would not copy.
    pub record_fault_failures: u64,
    /// Never completed.
    pub silent: u64,
    /// Aborted.
    pub aborted: u64,
    /// Not ended yet.
    pub in_flight: u64,
}

impl Counters {
    /// Whether the equations hold.
    pub fn is_valid(&self) -> bool {
        let completed: u64 = self.completed.values().sum();
        let ended = completed + self.unrecorded + self.logged + self.silent + self.aborted;
        self.submitted == self.refused + self.gone + self.dropped + self.accepted
            && self.accepted == ended + self.in_flight
    }
}

/// Counters, and what they count if that was asked for.
#[derive(Default)]
pub(super) struct Ledger {
    pub counters: Counters,
    /// By the order of acceptance.
    pub trace: Option<Vec<(u64, Outcome)>>,
}

impl Ledger {
    /// Descriptor `sequence` has ended.
    pub fn end(&mut self, sequence: u64, outcome: Outcome) {
        let counters = &mut self.counters;
        match outcome {
            Outcome::Completed(status) => *counters.completed.entry(status).or_default() += 1,
            Outcome::Unrecorded(_) => counters.unrecorded += 1,
            Outcome::Logged => counters.logged += 1,
            Outcome::Silent => counters.silent += 1,
            Outcome::Aborted => counters.aborted += 1,
        }
        counters.in_flight -= 1;
        if let Some(trace) = &mut self.trace {
            trace.push((sequence, outcome));
        }
    }
}
