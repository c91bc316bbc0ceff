//! What somebody does without the engine's lock.

pub(crate) mod departing;
pub(crate) mod leaving;

use crate::fork::Log;
use crate::pages::range_set::RangeSet;
use crate::swapin::bring::Underway;
use departing::Departing;
use leaving::Leaving;

/// What is not at rest.
#[derive(Default)]
pub(crate) struct Flight {
    /// What a thread brings.
    pub(crate) underway: Underway,
    /// What is copied out and mapped still.
    pub(crate) leaving: Leaving,
    /// Mappings whose events were read before older ones.
    pub(crate) departing: Departing,
    /// Where moves are not tried ([`crate::Mm::note_unmovable`]).
    pub(crate) unmovable: RangeSet,
    /// The engine stands still for a fork: what happened since.
    pub(crate) frozen: Option<Log>,
    /// Entries carry the `writeback` mark: of one writeback or recompression at a time.
    pub(crate) is_writing_back: bool,
}
