//! A block device in memory: byte ranges, as pages.

use std::ops::Range;

use uzswap_mm::page::PAGE_SIZE;
use uzswap_mm::zpool::PoolKind;

use crate::counters::{Counter, Counters};
use crate::slot::Slot;
use crate::store::{Coder, Config, MakeError, Store};
use crate::table::{Table, Writer};

/// Why a range was not read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoError {
    /// It reaches beyond the end of the device; nothing has changed.
    BeyondEnd,
    /// The pool may not take more. The pages before the one that found no room are new, all others
    /// are old.
    NoSpace,
    /// A stored page is not what was stored. It stays so until all of it is written.
    Damaged,
}

/// One connection's working memory.
pub struct Worker {
    coder: Coder,
    page: Box<[u8; PAGE_SIZE]>,
}

/// A block device whose pages lie compressed in memory.
pub struct Device {
    bytes: u64,
    mem_limit: Option<u64>,
    table: Table,
    store: Store,
    counters: Counters,
}

/// A page, and which of its bytes are meant.
struct Piece {
    page: u64,
    within: Range<usize>,
}

impl Piece {
    fn is_whole(&self) -> bool {
        self.within.len() == PAGE_SIZE
    }
}

/// The pieces of `len` bytes from `offset`, in order.
fn pieces(offset: u64, len: u64) -> impl Iterator<Item = Piece> {
    let (mut at, end) = (offset, offset + len);
    let size = PAGE_SIZE as u64;
    std::iter::from_fn(move || {
        let page = at / size;
        let from = at;
        at = ((page + 1) * size).min(end);
        let within = (from % size) as usize..(at - page * size) as usize;
        (from < end).then_some(Piece { page, within })
    })
}

impl Device {
    /// A device in which nothing is written.
    ///
    /// # Errors
    /// What `config` breaks, or there is no address space.
    pub fn new(config: &Config) -> Result<Self, MakeError> {
        let store = Store::new(config)?;
        Ok(Self {
            bytes: config.bytes,
            mem_limit: config.mem_limit,
            table: Table::new(config.bytes / PAGE_SIZE as u64).map_err(MakeError::Memory)?,
            store,
            counters: Counters::new(),
        })
    }

    /// Working memory of one more connection.
    pub fn worker(&self) -> Worker {
        Worker {
            coder: self.store.coder(),
            page: Box::new([0; PAGE_SIZE]),
        }
    }

    /// Bytes of the device (`disksize`).
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes that the pool may take (`mem_limit`).
    pub fn mem_limit(&self) -> Option<u64> {
        self.mem_limit
    }

    /// Bytes that the pool takes (`mem_used_total`).
    pub fn mem_used_total(&self) -> u64 {
        self.store.bytes()
    }

    /// Compressor and allocator.
    pub fn kind(&self) -> PoolKind {
        self.store.kind()
    }

    /// What was counted so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Whether `len` bytes from `offset` lie in the device.
    ///
    /// # Errors
    /// [`IoError::BeyondEnd`].
    pub fn check(&self, offset: u64, len: u64) -> Result<(), IoError> {
        let is_within = offset.checked_add(len).is_some_and(|end| end <= self.bytes);
        is_within.then_some(()).ok_or(IoError::BeyondEnd)
    }

    /// Read the bytes from `offset`.
    ///
    /// # Errors
    /// [`IoError::BeyondEnd`], [`IoError::Damaged`]; `out` is undefined then.
    pub fn read(&self, worker: &mut Worker, offset: u64, out: &mut [u8]) -> Result<(), IoError> {
        self.check(offset, out.len() as u64)?;
        let mut rest = out;
        for piece in pieces(offset, rest.len() as u64) {
            let (part, behind) = rest.split_at_mut(piece.within.len());
            rest = behind;
            if piece.is_whole() {
                self.load(piece.page, &mut worker.coder, part)?;
            } else {
                self.load(piece.page, &mut worker.coder, &mut worker.page[..])?;
                part.copy_from_slice(&worker.page[piece.within]);
            }
        }
        Ok(())
    }

    /// Write `bytes` from `offset` on, page by page.
    ///
    /// # Errors
    /// Any; the pages before the one that failed are new.
    pub fn write(&self, worker: &mut Worker, offset: u64, bytes: &[u8]) -> Result<(), IoError> {
        self.check(offset, bytes.len() as u64)?;
        let mut rest = bytes;
        for piece in pieces(offset, bytes.len() as u64) {
            let (part, behind) = rest.split_at(piece.within.len());
            rest = behind;
            let writer = self.table.lock_writer(piece.page);
            if piece.is_whole() {
                self.put(&writer, piece.page, &mut worker.coder, part)?;
            } else {
                self.change(&writer, &piece, worker, |bytes| bytes.copy_from_slice(part))?;
            }
        }
        Ok(())
    }

    /// Have `len` bytes from `offset` read as zeros. Whole pages are freed.
    ///
    /// # Errors
    /// As for [`write`](Self::write).
    pub fn write_zeroes(&self, worker: &mut Worker, offset: u64, len: u64) -> Result<(), IoError> {
        self.check(offset, len)?;
        for piece in pieces(offset, len) {
            if piece.is_whole() {
                self.empty(piece.page);
            } else {
                let writer = self.table.lock_writer(piece.page);
                self.change(&writer, &piece, worker, |bytes| bytes.fill(0))?;
            }
        }
        Ok(())
    }

    /// Free the whole pages within `len` bytes from `offset`; they read as zeros. Parts of pages
    /// stay as they are.
    ///
    /// # Errors
    /// [`IoError::BeyondEnd`].
    pub fn discard(&self, offset: u64, len: u64) -> Result<(), IoError> {
        self.check(offset, len)?;
        let size = PAGE_SIZE as u64;
        for page in offset.div_ceil(size)..(offset + len) / size {
            let is_freed = self.empty(page);
            self.counters.add(Counter::NotifyFree, is_freed.into());
        }
        Ok(())
    }

    /// Flip a bit of a page in the pool.
    #[cfg(test)]
    pub(crate) fn damage(&self, page: u64) {
        self.table.with(page, |slot| *slot = self.store.damaged(*slot));
    }

    fn load(&self, page: u64, coder: &mut Coder, out: &mut [u8]) -> Result<(), IoError> {
        self.store
            .get(&self.table, page, coder, out)
            .map_err(|_| IoError::Damaged)
    }

    /// Change a part of a page: read it, and write all of it.
    fn change(
        &self,
        writer: &Writer<'_>,
        piece: &Piece,
        worker: &mut Worker,
        f: impl FnOnce(&mut [u8]),
    ) -> Result<(), IoError> {
        let Worker { coder, page } = worker;
        self.load(piece.page, coder, &mut page[..])?;
        f(&mut page[piece.within.clone()]);
        self.put(writer, piece.page, coder, &page[..])
    }

    fn put(&self, writer: &Writer<'_>, page: u64, coder: &mut Coder, contents: &[u8]) -> Result<(), IoError> {
        let stored = self.store.put(coder, contents).or_else(|full| {
            let compacted = self.store.compact(&self.table).ok_or(full)?;
            self.counters.add(Counter::PagesCompacted, compacted);
            self.store
                .put(coder, contents)
                .or_else(|_| self.store.put_alone(coder, contents))
        });
        let slot = stored.map_err(|_| IoError::NoSpace)?;
        self.counters.reached(Counter::MemUsedMax, self.store.bytes());
        self.replace(writer, page, slot);
        Ok(())
    }

    /// Free a page. False: nothing was there.
    fn empty(&self, page: u64) -> bool {
        // Trimming a device that is empty takes no locks.
        if self.table.is_empty(page) {
            return false;
        }
        let writer = self.table.lock_writer(page);
        self.replace(&writer, page, Slot::Empty) != Slot::Empty
    }

    /// Give a page another word, and free what the old one named.
    fn replace(&self, _writer: &Writer<'_>, page: u64, slot: Slot) -> Slot {
        let old = self.table.with(page, |word| std::mem::replace(word, slot));
        self.counters.replaced(old, slot);
        self.store.free(old);
        old
    }
}
