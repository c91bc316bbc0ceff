//! Storing: staged frames go into the pool, a batch at a time.
//!
//! First half, under the lock: the oldest run's pages are marked busy. Then, without it, each is compressed. Second half,
//! under the lock: the pages that are still marked get their bytes into the pool and their word published. Only then
//! are the frames given up. A page that was faulted, unmapped or dropped meanwhile is simply no longer marked.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use lock_api::RawMutex;
use uzswap_acomp::{Algorithm, Context};

use crate::machine::{IoBuffer, Machine};
use crate::page::{PAGE_SIZE, Vpn, same_filled};
use crate::staging::StagedRun;
use crate::swap_table::entry::Slot;
use crate::vmstat::Item;
use crate::zpool::{Arena, PoolKind};
use crate::{Inner, Mm};

/// A page whose compressed form is longer than this is stored as it is: it would take a whole page anyway.
const COMPRESSED_MAX: usize = 3_600;

/// Pages of a worker's I/O buffer: a writeback, or a readahead of at most `page_cluster`.
pub(crate) const IO_PAGES: usize = 64;

/// One thread's working memory.
pub struct Worker<M: Machine> {
    /// One for each compressor that was met.
    contexts: Vec<Context>,
    /// The pool that the current batch is compressed for.
    pool: PoolKind,
    page: Box<[u8; PAGE_SIZE]>,
    /// Compressed pages of the current batch, each in its own `COMPRESSED_MAX` bytes.
    blocks: Vec<u8>,
    outcomes: Vec<Outcome>,
    /// What was taken out of the pool for a load.
    loads: Vec<Load>,
    /// Of [`IO_PAGES`] pages.
    io: M::Io,
}

/// One page of a load.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Load {
    /// So many bytes in `blocks`, behind those of the loads before.
    Block(Algorithm, usize),
    /// This word over and over.
    Filled(u32),
}

impl Load {
    fn bytes(&self) -> usize {
        match self {
            Self::Block(_, len) => *len,
            Self::Filled(_) => 0,
        }
    }
}

/// Fill a page with one word.
fn fill(page: &mut [u8], word: u32) {
    for bytes in page.as_chunks_mut::<4>().0 {
        *bytes = word.to_ne_bytes();
    }
}

/// What compressing a staged page came to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// Was not marked busy: nothing to do.
    NotOurs,
    Filled(u32),
    Compressed(usize),
    Incompressible,
}

impl<M: Machine> Worker<M> {
    /// Working memory for one thread of an engine with this configuration. All of it is taken now.
    pub fn new(config: &crate::Config, machine: &M) -> Self {
        let batch = config.store_batch as usize;
        let cluster = 1 << config.page_cluster;
        assert!(cluster <= IO_PAGES, "a load is decompressed into the I/O buffer");
        Self {
            contexts: vec![Context::new(config.pool.algorithm)],
            pool: config.pool,
            page: Box::new([0; PAGE_SIZE]),
            blocks: vec![0; (batch * COMPRESSED_MAX).max(cluster * PAGE_SIZE)],
            outcomes: Vec::with_capacity(batch),
            loads: Vec::with_capacity(cluster),
            io: machine.io_buffer(IO_PAGES),
        }
    }

    pub(crate) fn page(&self) -> &[u8] {
        &self.page[..]
    }

    pub(crate) fn zero_page(&mut self) -> bool {
        self.fill_page(0)
    }

    pub(crate) fn fill_page(&mut self, word: u32) -> bool {
        fill(&mut self.page[..], word);
        true
    }

    pub(crate) fn copy_page(&mut self, bytes: &[u8]) -> bool {
        self.page.copy_from_slice(bytes);
        true
    }

    /// Fill the worker's page from a stored block. False: the block is damaged.
    pub(crate) fn decompress(&mut self, algorithm: Algorithm, block: &[u8]) -> bool {
        if block.len() == PAGE_SIZE {
            return self.copy_page(block);
        }
        context(&mut self.contexts, algorithm).decompress(block, &mut self.page[..])
    }

    /// Make the working memory for `algorithm` now.
    pub fn prepare(&mut self, algorithm: Algorithm) {
        context(&mut self.contexts, algorithm);
    }

    pub(crate) fn read_page(&mut self, machine: &M, device: u8, slot: u32) -> bool {
        if machine.read_swap(device, slot, self.io.bytes_mut(PAGE_SIZE)).is_err() {
            return false;
        }
        self.page.copy_from_slice(self.io.bytes(PAGE_SIZE));
        true
    }

    /// Forget the blocks of the last load.
    pub(crate) fn begin_loads(&mut self) {
        self.loads.clear();
    }

    /// Take along a stored block.
    pub(crate) fn push_load(&mut self, algorithm: Algorithm, block: &[u8]) {
        let at: usize = self.loads.iter().map(Load::bytes).sum();
        self.blocks[at..at + block.len()].copy_from_slice(block);
        self.loads.push(Load::Block(algorithm, block.len()));
    }

    /// Take along a page of one word over and over.
    pub(crate) fn push_filled(&mut self, word: u32) {
        self.loads.push(Load::Filled(word));
    }

    /// Blocks of this load.
    pub(crate) fn loads(&self) -> usize {
        self.loads.len()
    }

    /// How many of the first `pages` pages of this load are zeros, and how many were no block.
    pub(crate) fn filled_among(&self, pages: usize) -> (u64, u64) {
        let zeros = self.loads[..pages].iter().filter(|load| **load == Load::Filled(0));
        let filled = self.loads[..pages].iter().filter(|load| load.bytes() == 0);
        (zeros.count() as u64, filled.count() as u64)
    }

    /// Decompress the blocks into the I/O buffer. Returns how many came out whole before the first that is damaged.
    pub(crate) fn decompress_loads(&mut self) -> usize {
        let mut at = 0;
        for (i, load) in self.loads.iter().enumerate() {
            let page = &mut self.io.bytes_mut((i + 1) * PAGE_SIZE)[i * PAGE_SIZE..];
            let (algorithm, len) = match *load {
                Load::Filled(word) => {
                    fill(page, word);
                    continue;
                }
                Load::Block(algorithm, len) => (algorithm, len),
            };
            let block = &self.blocks[at..at + len];
            if len == PAGE_SIZE {
                page.copy_from_slice(block);
            } else if !context(&mut self.contexts, algorithm).decompress(block, page) {
                return i;
            }
            at += len;
        }
        self.loads.len()
    }

    /// Copy the worker's page to page `i` of the I/O buffer.
    pub(crate) fn page_to_io(&mut self, i: usize) {
        self.io.bytes_mut((i + 1) * PAGE_SIZE)[i * PAGE_SIZE..].copy_from_slice(&self.page[..]);
    }

    /// The I/O buffer.
    pub(crate) fn io(&mut self) -> &mut M::Io {
        &mut self.io
    }

    fn block(&self, i: usize, len: usize) -> &[u8] {
        &self.blocks[i * COMPRESSED_MAX..i * COMPRESSED_MAX + len]
    }

    /// Compress the staged page `bytes` as number `i` of the batch.
    fn compress(&mut self, i: usize, bytes: &[u8]) -> Outcome {
        if let Some(word) = same_filled(bytes) {
            return Outcome::Filled(word);
        }
        let out = &mut self.blocks[i * COMPRESSED_MAX..(i + 1) * COMPRESSED_MAX];
        context(&mut self.contexts, self.pool.algorithm)
            .compress(bytes, out)
            .map_or(Outcome::Incompressible, Outcome::Compressed)
    }
}

/// The context for `algorithm`, made when it is first asked for.
fn context(contexts: &mut Vec<Context>, algorithm: Algorithm) -> &mut Context {
    let at = contexts.iter().position(|context| context.algorithm() == algorithm);
    let at = at.unwrap_or_else(|| {
        contexts.push(Context::new(algorithm));
        contexts.len() - 1
    });
    &mut contexts[at]
}

impl<R: RawMutex, M: Machine> Mm<R, M> {
    /// Store the run that has been staged longest. Returns how many pages were stored; `None`: nothing is staged.
    pub fn store_oldest(&self, worker: &mut Worker<M>) -> Option<u64> {
        let run = self.pop_staged()?;
        let mut stored = 0;
        let mut refused = false;
        for first in (0..run.len).step_by(self.config.store_batch as usize) {
            let batch = StagedRun {
                slot: run.slot + first,
                capacity: 0,
                len: (run.len - first).min(self.config.store_batch),
            };
            self.with_for_reclaim(|inner| inner.mark_busy(worker, batch));
            let started = self.machine.now_ns();
            self.compress(worker, batch);
            let (n, left) = self.with_for_reclaim(|inner| inner.publish_batch(self, worker, batch));
            stored += n;
            refused |= left;
            let took = self.machine.now_ns().saturating_sub(started);
            if let Some(each) = took.checked_div(n) {
                (0..n).for_each(|_| self.stat.record_store(each));
            }
        }
        self.give_up(run, refused);
        self.stat.add(Item::PgSteal, stored);
        Some(stored)
    }

    /// Take the run that has been staged longest.
    pub(crate) fn pop_staged(&self) -> Option<StagedRun> {
        self.with_for_reclaim(|inner| match inner.frozen {
            Some(_) => None,
            None => inner.staging.pop_oldest(),
        })
    }

    fn compress(&self, worker: &mut Worker<M>, batch: StagedRun) {
        for i in 0..batch.len {
            if worker.outcomes[i as usize] != Outcome::NotOurs {
                let outcome = self
                    .machine
                    .with_staged(batch.slot + i, |bytes| worker.compress(i as usize, bytes));
                worker.outcomes[i as usize] = outcome;
            }
        }
    }

    /// The words are published: the frames may go. Slots whose page could neither be stored nor put back stay.
    pub(crate) fn give_up(&self, run: StagedRun, refused: bool) {
        if !refused {
            // No word names these frames any more, so none of them leaves before we drop it.
            let frames = self.with(|inner| inner.staging.frames_of(run));
            self.machine.drop_staged(&frames);
            self.with(|inner| inner.staging.release(run));
            return;
        }
        self.with(|inner| {
            let frames = inner.staging.frames_of(run).into_iter();
            for slot in frames.flat_map(|(slot, pages)| slot..slot + pages) {
                let is_waiting =
                    matches!(inner.table.lookup(inner.staging.owner(slot)), Slot::Staged { slot: s, .. } if s == slot);
                if !is_waiting {
                    self.machine.drop_staged(&[(slot, 1)]);
                    inner.staging.taken_back(slot);
                }
            }
            inner.staging.push(run);
        });
    }
}

impl<A: Arena> Inner<A> {
    /// First half: mark what is still staged, so that a fault copies instead of moving.
    fn mark_busy<M: Machine>(&mut self, worker: &mut Worker<M>, batch: StagedRun) {
        worker.outcomes.clear();
        worker.pool = self.pool.current();
        for slot in batch.slot..batch.slot + batch.len {
            let vpn = self.staging.owner(slot);
            let is_ours = self.table.lookup(vpn) == (Slot::Staged { slot, busy: false });
            if is_ours {
                self.publish(vpn, Slot::Staged { slot, busy: true });
            }
            worker
                .outcomes
                .push(if is_ours { Outcome::Filled(0) } else { Outcome::NotOurs });
        }
    }

    /// Second half: returns how many pages were stored, and whether some are staged still.
    fn publish_batch<R, M>(&mut self, mm: &Mm<R, M>, worker: &mut Worker<M>, batch: StagedRun) -> (u64, bool)
    where
        R: RawMutex,
        M: Machine<Arena = A>,
    {
        let (mut stored, mut left) = (0, false);
        // Another pool has become current: what was compressed for the old one does not belong into it.
        let is_stale = worker.pool != self.pool.current();
        for i in 0..batch.len {
            let (slot, outcome) = (batch.slot + i, worker.outcomes[i as usize]);
            let vpn = self.staging.owner(slot);
            if outcome == Outcome::NotOurs || self.table.lookup(vpn) != (Slot::Staged { slot, busy: true }) {
                continue;
            }
            if is_stale {
                self.publish(vpn, Slot::Staged { slot, busy: false });
                left = true;
                continue;
            }
            let is_stored = match outcome {
                Outcome::NotOurs => false,
                Outcome::Filled(word) => {
                    let item = if word == 0 { Item::SwpOutZero } else { Item::SameFilled };
                    mm.stat.add(item, 1);
                    self.publish(vpn, Slot::Filled { word });
                    true
                }
                Outcome::Compressed(len) => self.store_block(mm, vpn, worker.block(i as usize, len)),
                Outcome::Incompressible if self.drains() => {
                    mm.machine.with_staged(slot, |page| self.store_block(mm, vpn, page))
                }
                Outcome::Incompressible => {
                    mm.stat.add(Item::RejectCompressPoor, 1);
                    false
                }
            };
            stored += u64::from(is_stored);
            left |= !is_stored && !self.put_back(mm, vpn, slot);
        }
        (stored, left)
    }

    fn store_block<R, M>(&mut self, mm: &Mm<R, M>, vpn: Vpn, block: &[u8]) -> bool
    where
        R: RawMutex,
        M: Machine<Arena = A>,
    {
        let Ok(handle) = self.pool.store(block) else {
            mm.stat.add(Item::RejectAllocFail, 1);
            return false;
        };
        let tag = self.zswap_lru_add(vpn);
        self.publish(
            vpn,
            Slot::Zswap {
                handle,
                len: block.len() as u32,
                writeback: false,
                tag,
            },
        );
        mm.stat.add(Item::ZswpOut, 1);
        true
    }

    /// A page that cannot be stored goes back to its mapping. False: not now; it stays staged.
    fn put_back<R, M>(&mut self, mm: &Mm<R, M>, vpn: Vpn, slot: u32) -> bool
    where
        R: RawMutex,
        M: Machine<Arena = A>,
    {
        if mm.machine.move_in(slot, vpn, 1).pages == 1 {
            self.staging.taken_back(slot);
            self.publish_resident(vpn, 0);
            return true;
        }
        self.publish(vpn, Slot::Staged { slot, busy: false });
        false
    }
}
