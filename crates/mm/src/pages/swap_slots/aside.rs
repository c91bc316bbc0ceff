//! Segments of the swap device that are set aside: what lies there may be elsewhere, so nothing is
//! written to them. Their free slots count as taken. A segment that nothing is needed of any more
//! is *emptied*; whoever set it aside brings it back.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::ops::Range;

use super::{Bitmap, CLUSTER, SwapSlots};

/// Slots of a segment: those of a word of a bitmap.
pub const SEGMENT: u32 = u64::BITS;
/// Segments of a cluster.
const SEGMENTS: u32 = CLUSTER / SEGMENT;

/// Segments by their numbers.
#[derive(Default)]
pub(super) struct Aside {
    /// Slots that a writer holds, which nothing has been published of yet. `None`: no segment is
    /// ever set aside, and a write pays nothing for it.
    writing: Option<BTreeSet<u32>>,
    all: BTreeSet<u32>,
    /// Those of them of which no slot has a count or a pin.
    emptied: BTreeSet<u32>,
}

impl Aside {
    /// A writer holds these slots.
    pub(super) fn begin_write(&mut self, first: u32, slots: u32) {
        if let Some(writing) = &mut self.writing {
            writing.extend(first..first + slots);
        }
    }

    /// He holds them no more, if he ever did.
    pub(super) fn end_write(&mut self, first: u32, slots: u32) {
        if let Some(writing) = &mut self.writing {
            for slot in first..first + slots {
                writing.remove(&slot);
            }
        }
    }

    /// Whether a writer holds any of these slots, or might.
    fn is_written(&self, slots: Range<u32>) -> bool {
        let written = |writing: &BTreeSet<u32>| writing.range(slots).next().is_some();
        self.writing.as_ref().is_none_or(written)
    }

    /// Those of cluster `at`.
    fn of(&self, at: u32) -> impl Iterator<Item = u32> {
        self.all.range(at * SEGMENTS..(at + 1) * SEGMENTS).copied()
    }

    /// Add the slots of cluster `at` that are set aside.
    pub(super) fn add_to(&self, at: u32, taken: &mut Bitmap) {
        self.of(at)
            .for_each(|segment| taken[(segment % SEGMENTS) as usize] = u64::MAX);
    }
}

impl SwapSlots {
    /// Segments may be set aside from now on. Nothing has been written yet.
    pub fn allow_aside(&mut self) {
        self.aside.writing.get_or_insert_default();
    }

    /// Whether segments may be.
    pub fn may_set_aside(&self) -> bool {
        self.aside.writing.is_some()
    }

    /// Segments of the clusters from `first` on, `clusters` of them, that have `least` slots in use
    /// or more and are not set aside.
    pub fn full_segments(&self, first: u32, clusters: u32, least: u32) -> Vec<u32> {
        let end = self.clusters.len().min((first + clusters) as usize) as u32;
        let of = |at: u32| {
            let used = self.clusters[at as usize].used();
            (0..SEGMENTS)
                .filter(move |word| used[*word as usize].count_ones() >= least)
                .map(move |word| at * SEGMENTS + word)
        };
        (first..end)
            .flat_map(of)
            .filter(|segment| !self.aside.all.contains(segment))
            .collect()
    }

    /// Clusters that there are.
    pub fn clusters(&self) -> u32 {
        self.clusters.len() as u32
    }

    /// Hand out no slot of a segment until [`bring_back`](Self::bring_back). False: not now, as
    /// somebody writes to it, or there is nothing in it.
    pub fn set_aside(&mut self, segment: u32) -> bool {
        let (at, word) = (segment / SEGMENTS, (segment % SEGMENTS) as usize);
        let first = segment * SEGMENT;
        let is_written = self.aside.is_written(first..first + SEGMENT);
        let beyond = self.beyond(at);
        let is_used = |taken: &Bitmap| taken[word] & !beyond[word] != 0;
        let cluster = self.clusters.get_mut(at as usize);
        let Some(cluster) = cluster.filter(|cluster| is_used(&cluster.taken) && !is_written) else {
            return false;
        };
        cluster.taken[word] = u64::MAX;
        self.aside.all.insert(segment);
        self.note_emptied(at);
        self.look_whether_full(at);
        true
    }

    /// A segment that was set aside is as any other.
    pub fn bring_back(&mut self, segment: u32) {
        if self.aside.all.remove(&segment) {
            self.aside.emptied.remove(&segment);
            self.retake(segment / SEGMENTS);
        }
    }

    /// All that are set aside.
    pub fn segments_aside(&self) -> impl Iterator<Item = u32> {
        self.aside.all.iter().copied()
    }

    /// Those of them that nothing is needed of.
    pub fn emptied_segments(&self) -> impl Iterator<Item = u32> {
        self.aside.emptied.iter().copied()
    }

    /// Slot `within` of cluster `at`, which nobody needs any more, is in a segment that is set
    /// aside.
    pub(super) fn stays_aside(&mut self, at: u32, within: u32) -> bool {
        let is_aside = self.aside.all.contains(&(at * SEGMENTS + within / SEGMENT));
        if is_aside {
            self.note_emptied(at);
        }
        is_aside
    }

    /// Segments of cluster `at` may have been emptied.
    pub(super) fn note_emptied(&mut self, at: u32) {
        if self.aside.of(at).next().is_none() {
            return;
        }
        let needed = self.needed(at);
        let is_empty = |segment: &u32| needed[(segment % SEGMENTS) as usize] == 0;
        let emptied: Vec<u32> = self.aside.of(at).filter(is_empty).collect();
        self.aside.emptied.extend(emptied);
    }
}
