//! Segments of the swap device that somebody keeps elsewhere, or is about to: what lies there stays
//! readable by his doing, and nothing is written to them
//! ([`pages::swap_slots`](crate::pages::swap_slots)).

use alloc::vec::Vec;

use lock_api::RawMutex;

use crate::Mm;
use crate::machine::Machine;

/// Where to look for segments that are worth setting aside.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// The first cluster.
    pub from: u32,
    /// How many.
    pub clusters: u32,
    /// Slots of a segment that must be in use.
    pub least: u32,
}

impl<R: RawMutex, M: Machine> Mm<R, M> {
    /// Segments of this device may be set aside, which nothing was written to yet.
    pub fn allow_aside(&self) {
        self.with(|inner| inner.pages.slots.allow_aside());
    }

    /// Segments that are not aside and are as full as asked, and where to look next.
    pub fn full_segments(&self, look: Look) -> (Vec<u32>, u32) {
        self.with(|inner| {
            let slots = &inner.pages.slots;
            let next = look.from.saturating_add(look.clusters);
            let next = if next < slots.clusters() { next } else { 0 };
            (slots.full_segments(look.from, look.clusters, look.least), next)
        })
    }

    /// Hand out no slot of a segment until [`bring_back`](Self::bring_back). False: not now.
    pub fn set_aside(&self, segment: u32) -> bool {
        self.with(|inner| inner.pages.slots.set_aside(segment))
    }

    /// What lies in the segment is here and nowhere else, or nothing does: it is as any other.
    pub fn bring_back(&self, segment: u32) {
        self.with(|inner| inner.pages.slots.bring_back(segment));
    }

    /// All segments that are aside.
    pub fn segments_aside(&self) -> Vec<u32> {
        self.with(|inner| inner.pages.slots.segments_aside().collect())
    }

    /// Those of them that nothing is needed of.
    pub fn emptied_segments(&self) -> Vec<u32> {
        self.with(|inner| inner.pages.slots.emptied_segments().collect())
    }
}
