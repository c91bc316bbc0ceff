//! What somebody does without the engine's lock.

pub(crate) mod departing;
pub(crate) mod event;
pub(crate) mod freeze_log;
pub(crate) mod leaving;
pub(crate) mod underway;

use crate::pages::range_set::RangeSet;
use departing::Departing;
use freeze_log::Log;
use leaving::Leaving;
use underway::Underway;

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
