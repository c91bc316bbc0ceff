//! What an engine has asked of its machine, as one number: two engines that decide alike have the
//! same.

use core::cell::Cell;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::machine::Done;
use crate::page::{PageRange, Vpn};

/// What may be asked. Questions that change nothing, and whose answer is always the same, are left
/// out.
#[derive(Clone, Copy, Debug)]
pub(super) enum Call {
    GiveUp,
    GaveUp,
    MoveOut,
    CopyOut,
    MoveIn,
    CopyIn,
    CopyInProtected,
    Unprotect,
    Protect,
    Unwritten,
    Wake,
    WithStaged,
    DropStaged,
    Arena,
    ChargeSwap,
    WriteSwap,
    ReadSwap,
    OpenSwap,
    DiscardSwap,
    Spread,
    SpreadLoad,
    Now,
}

/// The calls so far.
#[derive(Default)]
pub struct Ledger {
    digest: Cell<u64>,
    calls: Cell<u64>,
}

impl Ledger {
    /// A digest of all calls, in their order, with their arguments and what they came to.
    pub fn digest(&self) -> u64 {
        self.digest.get()
    }

    /// How many there were.
    pub fn calls(&self) -> u64 {
        self.calls.get()
    }

    pub(super) fn note<const N: usize>(&self, call: Call, words: [u64; N]) {
        let mut bytes = [0; 64];
        let all = core::iter::once(call as u64).chain(words);
        for (place, word) in bytes.chunks_exact_mut(8).zip(all) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        let digest = xxh3_64_with_seed(&bytes[..8 * (N + 1)], self.digest.get());
        self.digest.set(digest);
        self.calls.set(self.calls.get() + 1);
    }

    /// A call about pages from `vpn` and a slot on, of which so many were done.
    pub(super) fn note_pages(&self, call: Call, vpn: Vpn, slot: u32, pages: u32, done: Done) -> Done {
        let stop = done.stop.map_or(0, |stop| 1 + stop as u64);
        self.note(call, [vpn.number(), slot.into(), pages.into(), done.pages.into(), stop]);
        done
    }

    pub(super) fn note_run(&self, call: Call, run: PageRange) {
        self.note(call, [run.start.number(), run.pages()]);
    }
}
