//! The staging range: where reclaimed frames wait, unmapped but whole, for a second chance.
//!
//! There is no accessed bit for user space, so reclaim takes folios out of the mapping into this
//! range. A fault while a folio waits takes it back for the price of one move; one that is still
//! there when its turn comes is stored. Slots are handed out in units of 16, a run at a time; a run
//! holds whole folios one behind the other, each of which is stored as a unit.

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

use crate::page::{PageRange, Vpn};
use crate::pages::block::BlockRef;

/// Slots in a unit.
pub const UNIT: u32 = 16;

/// Consecutive slots that were filled together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StagedRun {
    /// First slot, a multiple of [`UNIT`].
    pub slot: u32,
    /// Slots handed out, a multiple of [`UNIT`].
    pub capacity: u32,
    /// Slots filled.
    pub len: u32,
    /// Many relatives had the pages: not the pool of each is to have a copy.
    pub is_for_device: bool,
}

impl StagedRun {
    /// What is left of it behind its first `done` slots.
    pub(crate) fn rest(self, done: u32) -> Self {
        Self {
            slot: self.slot + done,
            len: self.len - done,
            ..self
        }
    }
}

/// The slots and the runs waiting in them, oldest first.
pub struct Staging {
    owner: Vec<Vpn>,
    /// Of the folio that begins in the slot; 0 in all its other slots.
    order: Vec<u8>,
    /// Whether a frame is in the slot.
    has_frame: Vec<bool>,
    /// The block that the page whose frame it is was loaded from.
    kept: Vec<Option<BlockRef>>,
    /// Whether the page is known to hold what that block holds; means nothing where there is none.
    is_unwritten: Vec<bool>,
    unit_used: Vec<bool>,
    hand: usize,
    waiting: VecDeque<StagedRun>,
    frames: u64,
}

impl Staging {
    /// `slots` empty slots (rounded down to units).
    pub fn new(slots: u32) -> Self {
        let units = (slots / UNIT) as usize;
        Self {
            owner: vec![Vpn::new(0); units * UNIT as usize],
            order: vec![0; units * UNIT as usize],
            has_frame: vec![false; units * UNIT as usize],
            kept: vec![None; units * UNIT as usize],
            is_unwritten: vec![false; units * UNIT as usize],
            unit_used: vec![false; units],
            hand: 0,
            waiting: VecDeque::new(),
            frames: 0,
        }
    }

    /// Frames held in slots, those being given up included: they are resident memory.
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// Take `pages` consecutive slots (rounded up to units). `None`: no such run is free.
    pub fn alloc(&mut self, pages: u32) -> Option<StagedRun> {
        let (units, want) = (self.unit_used.len(), pages.div_ceil(UNIT) as usize);
        let starts = (self.hand..units).chain(0..self.hand);
        let start = starts
            .into_iter()
            .find(|s| s + want <= units && !self.unit_used[*s..s + want].contains(&true))?;
        self.unit_used[start..start + want].fill(true);
        self.hand = (start + want) % units;
        Some(StagedRun {
            slot: start as u32 * UNIT,
            capacity: want as u32 * UNIT,
            len: 0,
            is_for_device: false,
        })
    }

    /// Return the units of a run that nothing was put into.
    pub fn trim(&mut self, run: &mut StagedRun) {
        let used = run.len.next_multiple_of(UNIT);
        let first = (run.slot + used) / UNIT;
        self.unit_used[first as usize..((run.slot + run.capacity) / UNIT) as usize].fill(false);
        run.capacity = used;
    }

    /// Return the slots of a run; the frames that were in them are gone now.
    pub fn release(&mut self, run: StagedRun) {
        let first = (run.slot / UNIT) as usize;
        self.unit_used[first..first + (run.capacity / UNIT) as usize].fill(false);
        for slot in run.slot..run.slot + run.capacity {
            debug_assert!(self.kept[slot as usize].is_none(), "the words were published first");
            self.taken_back(slot);
        }
    }

    /// The frames of the `2^order` pages from `vpn` on entered the slots from `slot` on.
    pub fn fill(&mut self, slot: u32, vpn: Vpn, order: u32) {
        self.order[slot as usize] = order as u8;
        self.order[slot as usize + 1..slot as usize + (1 << order)].fill(0);
        for (slot, page) in (slot as usize..).zip(PageRange::new(vpn, 1 << order).iter()) {
            self.owner[slot] = page;
            self.frames += u64::from(!core::mem::replace(&mut self.has_frame[slot], true));
        }
    }

    /// Order of the folio that began in `slot` when it was filled, if it was not split since.
    pub fn order(&self, slot: u32) -> u32 {
        u32::from(self.order[slot as usize])
    }

    /// The folio that begins in `slot` is pages by themselves from now on.
    pub fn split(&mut self, slot: u32) {
        self.order[slot as usize] = 0;
    }

    /// The frame in a slot, if there is one, left it.
    pub fn taken_back(&mut self, slot: u32) {
        self.frames -= u64::from(core::mem::replace(&mut self.has_frame[slot as usize], false));
    }

    /// The page whose frame is in the slot has a block still.
    pub(crate) fn keep(&mut self, slot: u32, kept: BlockRef) {
        debug_assert!(self.kept[slot as usize].is_none());
        self.kept[slot as usize] = Some(kept);
    }

    /// Whether the page whose frame entered the slot holds what its block holds, if it has one.
    pub(crate) fn set_unwritten(&mut self, slot: u32, is_unwritten: bool) {
        self.is_unwritten[slot as usize] = is_unwritten;
    }

    /// Whether it is known to.
    pub(crate) fn is_unwritten(&self, slot: u32) -> bool {
        self.is_unwritten[slot as usize]
    }

    /// Its block.
    pub(crate) fn kept(&self, slot: u32) -> Option<BlockRef> {
        self.kept[slot as usize]
    }

    /// It has none any more.
    pub(crate) fn take_kept(&mut self, slot: u32) -> Option<BlockRef> {
        self.kept[slot as usize].take()
    }

    /// None of them has one any more.
    pub(crate) fn take_all_kept(&mut self) -> Vec<BlockRef> {
        self.kept.iter_mut().filter_map(Option::take).collect()
    }

    /// All blocks.
    #[cfg(any(test, feature = "sim"))]
    pub(crate) fn blocks(&self) -> impl Iterator<Item = BlockRef> {
        self.kept.iter().flatten().copied()
    }

    /// All of them.
    pub(crate) fn kept_mut(&mut self) -> impl Iterator<Item = &mut BlockRef> {
        self.kept.iter_mut().flatten()
    }

    /// The frames in a run's slots, as runs of neighbours: first slot and how many.
    pub fn frames_of(&self, run: StagedRun) -> Vec<(u32, u32)> {
        let slots = &self.has_frame[run.slot as usize..(run.slot + run.len) as usize];
        let mut runs: Vec<(u32, u32)> = Vec::new();
        for (i, has_frame) in (run.slot..).zip(slots) {
            match runs.last_mut() {
                _ if !has_frame => {}
                Some((first, n)) if *first + *n == i => *n += 1,
                _ => runs.push((i, 1)),
            }
        }
        runs
    }

    /// Which page's frame a slot holds (or held: the page's word decides).
    pub fn owner(&self, slot: u32) -> Vpn {
        self.owner[slot as usize]
    }

    /// The owner's mapping moved: its page has another number now.
    pub fn set_owner(&mut self, slot: u32, vpn: Vpn) {
        self.owner[slot as usize] = vpn;
    }

    /// A run joins those that wait, as the youngest.
    pub fn push(&mut self, run: StagedRun) {
        self.waiting.push_back(run);
    }

    /// The run that has waited longest leaves. Empty ones give their slots up on the way: there is
    /// nothing to store in them, which reclaim would take for the end of what it can do.
    pub fn pop_oldest(&mut self) -> Option<StagedRun> {
        while let Some(run) = self.waiting.pop_front() {
            if !self.frames_of(run).is_empty() {
                return Some(run);
            }
            self.release(run);
        }
        None
    }

    /// Runs that wait with no frame left, since all were taken back, give their slots up. Whether
    /// there were any.
    pub fn release_empty(&mut self) -> bool {
        let waiting = core::mem::take(&mut self.waiting);
        let (before, mut kept) = (waiting.len(), VecDeque::new());
        for run in waiting {
            if self.frames_of(run).is_empty() {
                self.release(run);
            } else {
                kept.push_back(run);
            }
        }
        self.waiting = kept;
        self.waiting.len() < before
    }
}
