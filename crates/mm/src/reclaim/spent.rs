//! Frames whose pages are stored, until they are given up: many at a time, for it costs two TLB
//! flushes on every core, however many they are.

use alloc::vec::Vec;

use lock_api::RawMutex;

use crate::Mm;
use crate::machine::Machine;
use crate::pages::staging::StagedRun;

/// Runs of which no frame is named by a word any more. They stay charged until
/// [`Mm::give_up_spent`].
#[derive(Default)]
pub(crate) struct Spent {
    runs: Vec<StagedRun>,
    slots: u64,
}

impl Spent {
    pub(crate) fn push(&mut self, run: StagedRun) {
        self.slots += u64::from(run.len);
        self.runs.push(run);
    }

    /// Slots of the runs: at least as many as there are frames in them.
    pub(crate) fn slots(&self) -> u64 {
        self.slots
    }
}

impl<R: RawMutex, M: Machine> Mm<R, M> {
    /// Give the frames up, and after them the slots.
    pub(crate) fn give_up_spent(&self, spent: &mut Spent) {
        let Spent { mut runs, .. } = core::mem::take(spent);
        runs.sort_unstable_by_key(|run| run.slot);
        // Others give up frames in the slots between ours at the same time, so only runs side by
        // side go as one.
        for beside in runs.chunk_by(|a, b| a.slot + a.capacity == b.slot) {
            let frames = self.with_for_reclaim(|inner| {
                let mut frames: Vec<(u32, u32)> = Vec::new();
                for (slot, pages) in beside.iter().flat_map(|run| inner.pages.staging.frames_of(*run)) {
                    match frames.last_mut() {
                        Some((first, n)) if *first + *n == slot => *n += pages,
                        _ => frames.push((slot, pages)),
                    }
                }
                frames
            });
            // No word names these frames any more, so none of them leaves before we drop it.
            self.machine.drop_staged(&frames);
        }
        if !runs.is_empty() {
            self.with(|inner| runs.into_iter().for_each(|run| inner.pages.staging.release(run)));
        }
    }
}
