//! Dictionaries: bytes that many pages of this process have in common, which zstd may then refer to
//! from the first byte of a page on.
//!
//! A dictionary is the process's: it is never changed and never given up, since a block that needs
//! it may lie in the pool or on the swap device for as long as the process lives, and longer in
//! forked children, which inherit it with their memory. [`Training`] makes one from a sample of
//! pages, if it wins.
//!
//! Its bytes are raw contents, without entropy tables. Those that zstd's own trainer adds (`ZDICT`)
//! make compression faster by a tenth to a third, and pages that differ from the sample larger, by
//! up to 5 %; and the trainer calls malloc.

mod context;
mod cover;
mod training;

pub(crate) use context::DictionaryState;
pub use training::{Training, Verdict};

use alloc::boxed::Box;
use core::sync::atomic::{AtomicUsize, Ordering};

use uzswap_sys::cell::Leaked;

/// The number of a dictionary of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dictionary(u8);

/// Bytes of a dictionary.
const BYTES: usize = 16 << 10;

static TAKEN: AtomicUsize = AtomicUsize::new(0);
static CONTENTS: [Leaked<Box<[u8]>>; Dictionary::MAX] = [const { Leaked::new() }; Dictionary::MAX];

impl Dictionary {
    /// Dictionaries that a process, its forked ancestors included, can have.
    pub const MAX: usize = 11;

    /// The one of this number, which need not exist.
    pub(crate) const fn from_number(number: u8) -> Self {
        Self(number)
    }

    pub(crate) const fn number(self) -> u8 {
        self.0
    }

    /// Keep `bytes` for ever. `None`: there are as many as there can be.
    pub(crate) fn add(bytes: Box<[u8]>) -> Option<Self> {
        let next = |taken: usize| (taken < Self::MAX).then_some(taken + 1);
        // Relaxed: `Leaked` orders the contents.
        let taken = TAKEN.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).ok()?;
        CONTENTS[taken].set(bytes);
        Some(Self(taken as u8))
    }

    /// Its contents, if it exists.
    pub(crate) fn contents(self) -> Option<&'static [u8]> {
        Some(CONTENTS.get(usize::from(self.0))?.get()?)
    }

    /// Whether there can be another.
    pub fn is_room() -> bool {
        TAKEN.load(Ordering::Relaxed) < Self::MAX
    }

    /// The one that was made last.
    pub fn latest() -> Option<Self> {
        let numbers = (0..Self::MAX as u8).rev().map(Self);
        numbers.into_iter().find(|dictionary| dictionary.contents().is_some())
    }
}

#[cfg(test)]
mod test;
