//! What one core does of a batch: its contexts, its pages and their blocks.

use alloc::vec;
use alloc::vec::Vec;

use uzswap_acomp::{Algorithm, Codec, Context, Device, Error, Op};

use crate::checksum;
use crate::machine::{Machine, SCATTER_MAX};
use crate::page::{fingerprint, same_filled};
use crate::policy::tunables::COMPRESSED_MAX;
use crate::worker::contexts::{Contexts, submit};
use crate::zpool::Handle;

/// What storing a staged page came to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Was not marked busy: nothing to do.
    NotOurs,
    /// Marked, and nothing is known yet; `note`: of its word.
    Pending { note: u32 },
    /// Marked, and a copy of the block that it was loaded from is in the worker's memory.
    Kept { codec: Codec, at: u32, len: u32 },
    /// It holds what the block holds that it was loaded from.
    Unwritten,
    /// This word over and over.
    Filled(u32),
    /// Compressed to `len` bytes, the `at`th block of lane `lane`.
    Compressed { lane: u16, at: u16, len: u16 },
    /// Does not compress; its fingerprint, and whether that is all that was looked at.
    Incompressible { fingerprint: u32, is_known: bool },
    /// The compressor failed.
    Failed,
    /// Its bytes are in the pool.
    Stored { handle: Handle, len: u32 },
}

impl Outcome {
    /// Its page needs its frame no more.
    pub(crate) fn is_done(&self) -> bool {
        matches!(self, Self::Stored { .. } | Self::Unwritten | Self::Filled(_))
    }

    /// Its page cannot be stored.
    pub(crate) fn is_refused(&self) -> bool {
        matches!(self, Self::Incompressible { .. } | Self::Failed)
    }
}

/// What one core does of a batch.
pub(crate) struct Lane<D> {
    number: u16,
    pub(crate) contexts: Contexts<D>,
    pub(crate) algorithm: Algorithm,
    /// Pages given to it: staging slot, note, and number within the folio.
    pub(crate) pages: Vec<(u32, u32, usize)>,
    slots: Vec<u32>,
    /// What became of each.
    pub(crate) outcomes: Vec<Outcome>,
    /// Compressed pages, each in its own `COMPRESSED_MAX` bytes.
    pub(crate) blocks: Vec<u8>,
}

impl<D: Device> Lane<D> {
    pub(crate) fn new(number: u16, algorithm: Algorithm) -> Self {
        Self {
            number,
            contexts: Contexts::default(),
            algorithm,
            pages: Vec::new(),
            slots: Vec::new(),
            outcomes: Vec::new(),
            blocks: Vec::new(),
        }
    }

    pub(crate) fn reserve(&mut self, pages: usize) {
        self.pages.reserve(pages);
        self.slots.reserve(pages);
        self.outcomes.reserve(pages);
        let len = pages * COMPRESSED_MAX;
        if self.blocks.len() != len {
            self.blocks = vec![0; len];
        }
    }

    pub(crate) fn compress<M: Machine<Acomp = D>>(&mut self, machine: &M) {
        self.slots.clear();
        self.slots.extend(self.pages.iter().map(|(slot, ..)| *slot));
        self.outcomes.clear();
        let Self {
            number,
            contexts,
            algorithm,
            pages,
            slots,
            outcomes,
            blocks,
        } = self;
        for (notes, slots) in pages.chunks(SCATTER_MAX).zip(slots.chunks(SCATTER_MAX)) {
            let first = outcomes.len();
            let blocks = &mut blocks[first * COMPRESSED_MAX..];
            machine.with_staged(slots, |pages| {
                outcomes.extend(pages.iter().zip(notes).map(|(page, (_, note, _))| look(page, *note)));
                compress_pending(
                    contexts.get(machine, *algorithm),
                    &|| machine.now_ns(),
                    pages,
                    &mut outcomes[first..],
                    blocks,
                    |at, len| Outcome::Compressed {
                        lane: *number,
                        at: (first + at) as u16,
                        len: len as u16,
                    },
                );
            });
        }
    }
}

/// What can be said of a page without compressing it.
fn look(page: &[u8], note: u32) -> Outcome {
    if let Some(word) = same_filled(page) {
        return Outcome::Filled(word);
    }
    if note != 0 && note == fingerprint(page) {
        return Outcome::Incompressible {
            fingerprint: note,
            is_known: true,
        };
    }
    Outcome::Pending { note }
}

/// Compress those of `pages` of which nothing is known yet.
fn compress_pending<D: Device>(
    context: &mut Context<D>,
    clock: &dyn Fn() -> u64,
    pages: &[&[u8]],
    outcomes: &mut [Outcome],
    blocks: &mut [u8],
    compressed: impl Fn(usize, usize) -> Outcome,
) {
    let (mut list, mut numbers, mut n) = ([[].as_slice(); SCATTER_MAX], [0; SCATTER_MAX], 0);
    for (i, page) in pages.iter().enumerate() {
        if matches!(outcomes[i], Outcome::Pending { .. }) {
            (list[n], numbers[n]) = (page, i);
            n += 1;
        }
    }
    submit(context, Op::Compress, &list[..n], blocks, COMPRESSED_MAX, clock).wait(|at, block, len| {
        let page = list[at];
        let with_checksum = len.and_then(|len| checksum::append(block, len, page).ok_or(Error::Poor));
        outcomes[numbers[at]] = match with_checksum {
            Ok(len) => compressed(at, len),
            Err(Error::Poor) => Outcome::Incompressible {
                fingerprint: fingerprint(page),
                is_known: false,
            },
            Err(Error::Failed) => Outcome::Failed,
        };
        true
    });
}
