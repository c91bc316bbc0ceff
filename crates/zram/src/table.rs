//! The word of each page, and the locks that pages share.
//!
//! Neighbouring pages have different locks, so that two connections in one stretch of the device
//! seldom meet.

use std::sync::atomic::{AtomicU64, Ordering};

use uzswap_mm::page::PAGE_SIZE;
use uzswap_sys::Errno;
use uzswap_sys::words::{discard_words, words};

use crate::Mutex;
use crate::slot::Slot;

/// Locks of each kind: a power of two, many more than there are cores.
const LOCKS: usize = 1024;

/// What alone may change a page, until it is dropped.
pub(crate) type Writer<'a> = lock_api::MutexGuard<'a, uzswap_sys::futex::RawLock, ()>;

/// The words of a device.
pub(crate) struct Table {
    words: &'static [AtomicU64],
    writers: Box<[Mutex<()>]>,
    locks: Box<[Mutex<()>]>,
}

fn locks() -> Box<[Mutex<()>]> {
    (0..LOCKS).map(|_| Mutex::new(())).collect()
}

impl Table {
    /// `pages` pages in which nothing was written. Their words take memory when they are first
    /// written.
    ///
    /// # Errors
    /// ENOMEM.
    pub(crate) fn new(pages: u64) -> Result<Self, Errno> {
        let bytes = usize::try_from(pages)
            .ok()
            .and_then(|n| n.checked_mul(size_of::<u64>()));
        let bytes = bytes
            .and_then(|n| n.checked_next_multiple_of(PAGE_SIZE))
            .ok_or(Errno::NOMEM)?;
        Ok(Self {
            words: words(bytes)?,
            writers: locks(),
            locks: locks(),
        })
    }

    /// Wait until nobody else changes `page`, or one of those that share its lock.
    pub(crate) fn lock_writer(&self, page: u64) -> Writer<'_> {
        self.writers[page as usize % LOCKS].lock()
    }

    /// Whether nothing is written in `page`, as far as can be seen without its lock.
    pub(crate) fn is_empty(&self, page: u64) -> bool {
        self.words[page as usize].load(Ordering::Relaxed) == 0
    }

    /// Look at the word of `page` and change it; nobody else does meanwhile, nor frees what it
    /// names.
    pub(crate) fn with<T>(&self, page: u64, f: impl FnOnce(&mut Slot) -> T) -> T {
        let _lock = self.locks[page as usize % LOCKS].lock();
        let word = &self.words[page as usize];
        // Relaxed: the lock orders them.
        let mut slot = Slot::from_bits(word.load(Ordering::Relaxed));
        let before = slot;
        let result = f(&mut slot);
        if slot != before {
            word.store(slot.to_bits(), Ordering::Relaxed);
        }
        result
    }

    /// The pages in which something is written, as far as can be seen without their locks.
    pub(crate) fn written(&self) -> impl Iterator<Item = u64> {
        (0..self.words.len() as u64).filter(|page| !self.is_empty(*page))
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        // The address space stays: whoever serves a device does so until the process ends.
        discard_words(self.words);
    }
}
