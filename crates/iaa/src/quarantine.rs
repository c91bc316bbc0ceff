//! Descriptors whose deadline has passed while the device may still answer.
//!
//! Until the record comes, the device may write to the record and the destination and read the
//! source. So neither the slot, nor the buffers, nor the queue's credit are used again before then.
//!
//! # Locking
//! One lock, taken only when something is late and by who sweeps. Nothing is waited for under it.

use crate::buffers::Pair;
use crate::queue::Queue;
use crate::slab::Slab;
use alloc::sync::Arc;
use alloc::vec::Vec;
use lock_api::{Mutex, RawMutex};

/// A descriptor that the device may still answer.
pub(crate) struct Late {
    pub slot: u32,
    /// Holds the queue, so that its portal outlives the descriptor.
    pub queue: Arc<Queue>,
    /// None: a job of the driver itself, which has no buffers of a caller.
    pub buffers: Option<Pair>,
}

/// The late descriptors: at most one a slot, so that adding never allocates.
pub(crate) struct Quarantine<R>(Mutex<R, Vec<Late>>);

impl<R: RawMutex> Quarantine<R> {
    pub fn new(slots: u32) -> Self {
        Self(Mutex::new(Vec::with_capacity(slots as usize)))
    }

    /// Keep `late` until its record comes.
    pub fn add(&self, late: Late) {
        self.0.lock().push(late);
    }

    /// How many are kept.
    pub fn len(&self) -> usize {
        self.0.lock().len()
    }

    /// Let go of those whose record has come (`has_come`, by the slot), or whose queue is drained.
    /// Their slots and credits go back, and `released` is called for each. Returns how many.
    pub fn sweep(&self, slab: &Slab, has_come: impl Fn(u32) -> bool, mut released: impl FnMut(Option<Pair>)) -> usize {
        let mut kept = self.0.lock();
        let before = kept.len();
        kept.retain(|late| {
            if !late.queue.is_drained() && !has_come(late.slot) {
                return true;
            }
            late.queue.finished();
            slab.give(late.slot);
            released(late.buffers);
            false
        });
        before - kept.len()
    }
}
