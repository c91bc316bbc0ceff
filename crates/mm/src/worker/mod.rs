//! One thread's working memory: for stores, lanes that compress side by side; for loads, the blocks
//! of a run and the buffer that they are decompressed into.

use alloc::boxed::Box;
use alloc::vec::Vec;

use uzswap_acomp::{Algorithm, Codec, Compressor, Counts};

use crate::checksum;
use crate::machine::{IoBuffer, Machine};
use crate::page::{PAGE_SIZE, Vpn};
use crate::pages::swap_table::entry::Blob;
use crate::policy::density::Compressed;
use crate::policy::tunables::{COMPRESSED_MAX, IO_PAGES, RECLAIM_PAGES};
use crate::worker::contexts::Contexts;
use crate::worker::lane::{Lane, Outcome};
use crate::zpool::{Block, PoolKind};

mod contexts;
pub(crate) mod lane;
mod load;
pub(crate) mod measure;

use load::{PIECES_MAX, PageSource, Piece};

/// One thread's working memory.
pub struct Worker<M: Machine> {
    /// Which of the threads that serve faults it belongs to.
    server: usize,
    page: Box<[u8; PAGE_SIZE]>,
    /// Blocks of the current load, one behind the other, and how many bytes they are.
    blocks: M::Io,
    blocks_len: usize,
    /// Pages that a load may have.
    load_room: usize,
    /// What was taken out of the pool, or read from the device, for a load.
    loads: Vec<PageSource>,
    /// The pages that these are for, in order.
    load_pages: Vec<Vpn>,
    /// Those of them that are read from a device, which are all or none.
    reads: Vec<Blob>,
    /// Which of the slots that were read are open.
    opened: Vec<bool>,
    io: M::Io,
    io_pages: usize,
    /// Blocks that pages of the current folio were loaded from, one behind the other.
    kept: Vec<u8>,
    /// The pool that the current folio is compressed for.
    pub(crate) pool: PoolKind,
    /// Pages that are compressed between two visits to the pool.
    batch: usize,
    /// What becomes of each page of the current folio.
    pub(crate) outcomes: Vec<Outcome>,
    /// At least one, whose contexts loads are decompressed with too.
    lanes: Vec<Lane<M::Acomp>>,
    /// Contexts to decompress the pieces of a load with but the first, one for each thread that may
    /// help.
    piece_contexts: Vec<Contexts<M::Acomp>>,
    /// What was brought of each piece of the current load.
    pieces: Vec<Piece>,
}

/// Fill a page with one word.
fn fill(page: &mut [u8], word: u32) {
    for bytes in page.as_chunks_mut::<4>().0 {
        *bytes = word.to_ne_bytes();
    }
}

impl<M: Machine> Worker<M> {
    /// Working memory for the thread that serves the faults of an engine with this configuration.
    /// All of it is taken now.
    pub fn new(config: &crate::Config, machine: &M) -> Self {
        Self::for_server(config, machine, 0)
    }

    /// As [`new`](Self::new), where several serve faults, each with a number below
    /// [`SERVERS_MAX`](crate::SERVERS_MAX).
    pub fn for_server(config: &crate::Config, machine: &M, server: usize) -> Self {
        let worker = Self::with_room(config, machine, 1 << config.load_order_max());
        let mut worker = Self { server, ..worker };
        // The others only serve what was dealt out to them.
        if server == 0 {
            let helpers = machine.servers().min(PIECES_MAX) - 1;
            worker.piece_contexts.resize_with(helpers, Contexts::default);
            worker.prepare(config.pool.compressor, machine);
        }
        worker
    }

    /// As [`new`](Self::new), for a thread that does anything but that: it looks at a few pages at
    /// a time.
    pub fn for_reclaim(config: &crate::Config, machine: &M) -> Self {
        Self::with_room(config, machine, RECLAIM_PAGES)
    }

    fn with_room(config: &crate::Config, machine: &M, load_pages: usize) -> Self {
        let io_pages = load_pages.max(IO_PAGES);
        let folio = (1 << config.portions.folio_order).max(config.store_batch as usize);
        let mut worker = Self {
            server: 0,
            page: Box::new([0; PAGE_SIZE]),
            // Not of the heap: what no load is as large as to need is never touched.
            blocks: machine.io_buffer(load_pages),
            blocks_len: 0,
            load_room: load_pages,
            loads: Vec::with_capacity(load_pages),
            load_pages: Vec::with_capacity(load_pages),
            reads: Vec::with_capacity(load_pages),
            opened: Vec::with_capacity(io_pages),
            io: machine.io_buffer(io_pages),
            io_pages,
            kept: Vec::new(),
            pool: config.pool,
            batch: config.store_batch as usize,
            outcomes: Vec::with_capacity(folio),
            lanes: Vec::new(),
            piece_contexts: Vec::new(),
            pieces: Vec::with_capacity(PIECES_MAX),
        };
        worker.prepare(config.pool.compressor, machine);
        worker
    }

    /// Its thread has nothing to do for a while: the memory of its buffers returns to the system.
    pub fn rest(&mut self) {
        self.blocks.give_back();
        self.io.give_back();
    }

    /// Whether that would free any.
    pub fn may_rest(&self) -> bool {
        self.blocks.has_memory() || self.io.has_memory()
    }

    /// Make the working memory that storing and loading with `compressor` needs.
    pub fn prepare(&mut self, compressor: Compressor, machine: &M) {
        self.prepare_batch(compressor, machine);
    }

    /// The same. Returns how many lanes store, and how many pages they are given at once.
    fn prepare_batch(&mut self, compressor: Compressor, machine: &M) -> (usize, usize) {
        let lanes = if compressor.is_parallel { machine.lanes() } else { 1 };
        for number in self.lanes.len()..lanes {
            self.lanes.push(Lane::new(number as u16, compressor.algorithm));
        }
        let mut batch = self.batch.max(compressor.batch_size(lanes));
        for lane in &mut self.lanes[..lanes] {
            let context = lane.contexts.get(machine, compressor.algorithm);
            batch = batch.max(lanes * context.batch_size());
        }
        for lane in &mut self.lanes[..lanes] {
            lane.reserve(batch.div_ceil(lanes));
        }
        for contexts in &mut self.piece_contexts {
            contexts.reader(machine, compressor.algorithm);
        }
        (lanes, batch)
    }

    /// In a forked child: go on with accelerators of its own.
    pub fn renew_devices(&mut self, machine: &M) {
        let lanes = self.lanes.iter_mut().map(|lane| &mut lane.contexts);
        lanes
            .chain(&mut self.piece_contexts)
            .for_each(|contexts| contexts.renew_devices(machine));
    }

    /// Which of the threads that serve faults it belongs to.
    pub fn server(&self) -> usize {
        self.server
    }

    /// A folio is about to be stored in the pool of `pool`.
    pub(crate) fn begin_folio(&mut self, pool: PoolKind) {
        self.outcomes.clear();
        self.kept.clear();
        self.pool = pool;
    }

    /// The next page of the folio was loaded from this block, which is kept.
    pub(crate) fn push_kept(&mut self, block: Block<'_>) {
        self.outcomes.push(Outcome::Kept {
            codec: block.codec,
            at: self.kept.len() as u32,
            len: block.bytes.len() as u32,
        });
        self.kept.extend_from_slice(block.bytes);
    }

    /// Whether a page in staging slot `slot` is what a kept block holds: first a look at the
    /// checksum behind the block, which tells most written pages, then the block itself.
    fn is_unwritten(&mut self, machine: &M, slot: u32, codec: Codec, at: u32, len: u32) -> bool {
        let Self { kept, lanes, page, .. } = self;
        let bytes = &kept[at as usize..(at + len) as usize];
        let (Some((block, checksum)), Some(algorithm)) = (checksum::split(bytes), codec.algorithm()) else {
            return false;
        };
        machine.with_staged(&[slot], |pages| {
            checksum::holds(checksum, pages[0])
                && lanes[0]
                    .contexts
                    .reader(machine, algorithm)
                    .decompress(block, &mut page[..])
                && page[..] == *pages[0]
        })
    }

    /// Compress the pages `first..first + len` of the current folio, whose first page is in staging
    /// slot `slot`; those that are not marked are passed over, as are those whose block is kept and
    /// holds. Returns how many there were.
    pub(crate) fn compress_batch(&mut self, machine: &M, slot: u32, first: usize) -> usize {
        let compressor = self.pool.compressor;
        let (lanes, batch) = self.prepare_batch(compressor, machine);
        let len = batch.min(self.outcomes.len() - first);
        for lane in &mut self.lanes[..lanes] {
            lane.algorithm = compressor.algorithm;
            lane.pages.clear();
        }
        for i in first..first + len {
            let staged = slot + i as u32;
            if let Outcome::Kept { codec, at, len } = self.outcomes[i] {
                self.outcomes[i] = match self.is_unwritten(machine, staged, codec, at, len) {
                    true => Outcome::Unwritten,
                    false => Outcome::Pending { note: 0 },
                };
            }
            if let Outcome::Pending { note } = self.outcomes[i] {
                self.lanes[i % lanes].pages.push((staged, note, i));
            }
        }
        machine.spread(&mut self.lanes[..lanes], |lane, machine| lane.compress(machine));
        for lane in &self.lanes[..lanes] {
            for ((_, _, i), outcome) in lane.pages.iter().zip(&lane.outcomes) {
                self.outcomes[*i] = *outcome;
            }
        }
        len
    }

    /// Add what was compressed of these pages of the current folio.
    pub(crate) fn count_compressed(&self, pages: core::ops::Range<usize>, compressed: &mut Compressed) {
        for outcome in &self.outcomes[pages] {
            let bytes = match outcome {
                Outcome::Compressed { len, .. } => u64::from(*len),
                Outcome::Incompressible { is_known: false, .. } => PAGE_SIZE as u64,
                _ => continue,
            };
            compressed.pages += 1;
            compressed.bytes += bytes;
        }
    }

    /// Two of these pages of the current folio that were compressed.
    pub(crate) fn two_compressed(&self, pages: core::ops::Range<usize>) -> Option<[usize; 2]> {
        let mut compressed = pages.filter(|page| matches!(self.outcomes[*page], Outcome::Compressed { .. }));
        Some([compressed.next()?, compressed.next()?])
    }

    /// A compressed page of the current batch.
    pub(crate) fn block(&self, lane: u16, at: u16, len: u16) -> &[u8] {
        let start = usize::from(at) * COMPRESSED_MAX;
        &self.lanes[usize::from(lane)].blocks[start..start + usize::from(len)]
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
    pub(crate) fn decompress(&mut self, machine: &M, block: Block<'_>) -> bool {
        self.lanes[0].contexts.decompress(machine, block, &mut self.page[..])
    }

    /// Compress the worker's page with `algorithm`, for recompression: its block, if it has one of
    /// at most `max` bytes.
    pub(crate) fn compress_page(&mut self, machine: &M, algorithm: Algorithm, max: usize) -> Option<&[u8]> {
        let Lane { contexts, blocks, .. } = &mut self.lanes[0];
        let block = &mut blocks[..max.min(COMPRESSED_MAX)];
        let len = contexts.compress_page(machine, algorithm, &self.page[..], block)?;
        Some(&block[..len])
    }

    /// Bring a page on the device into the worker's page. False: it cannot be read, or is damaged.
    pub(crate) fn read_page(&mut self, machine: &M, blob: &Blob) -> bool {
        let (first, last) = blob.slots();
        self.opened.clear();
        self.opened.resize(self.io_pages, false);
        self.read_slots(machine, blob.device, first, last)
            && open(machine, blob.device, &mut self.io, &mut self.opened, blob, first)
            && self.lanes[0].contexts.decompress(
                machine,
                Block {
                    codec: blob.codec,
                    bytes: slice(&self.io, blob, first),
                    fingerprint: None,
                },
                &mut self.page[..],
            )
    }

    /// Read slots of a device, at most [`io_pages`](Self::io_pages) of them, into the I/O buffer.
    /// An error is believed when it comes twice.
    pub(crate) fn read_slots(&mut self, machine: &M, device: u8, first: u32, last: u32) -> bool {
        let bytes = (last + 1 - first) as usize * PAGE_SIZE;
        (0..2).any(|_| machine.read_swap(device, first, self.io.bytes_mut(bytes)).is_ok())
    }

    /// What became of the pages that accelerators were given for this thread.
    pub fn accelerator_counts(&self) -> Counts {
        let lanes = self.lanes.iter().map(|lane| lane.contexts.counts());
        lanes.chain(self.piece_contexts.iter().map(Contexts::counts)).sum()
    }

    /// Copy the worker's page to byte `at` of the I/O buffer.
    pub(crate) fn page_to_io(&mut self, at: usize) {
        self.io.bytes_mut(at + PAGE_SIZE)[at..].copy_from_slice(&self.page[..]);
    }

    /// Copy page `i` of the I/O buffer to the worker's page.
    pub(crate) fn page_from_io(&mut self, i: usize) {
        self.page
            .copy_from_slice(&self.io.bytes((i + 1) * PAGE_SIZE)[i * PAGE_SIZE..]);
    }

    /// Pages of the I/O buffer.
    pub(crate) fn io_pages(&self) -> usize {
        self.io_pages
    }

    /// The I/O buffer, to be written to.
    pub(crate) fn io(&mut self) -> &mut M::Io {
        &mut self.io
    }
}

/// Open the slots that a blob lies in, in a buffer that begins with slot `first`, if they are not.
/// False: one is damaged.
fn open<M: Machine>(machine: &M, device: u8, io: &mut M::Io, opened: &mut [bool], blob: &Blob, first: u32) -> bool {
    let (from, to) = blob.slots();
    (from..=to).all(|slot| {
        let i = (slot - first) as usize;
        let page = &mut io.bytes_mut((i + 1) * PAGE_SIZE)[i * PAGE_SIZE..];
        // One that is damaged is tried again for the next blob in it, and is damaged for that one
        // as well.
        opened[i] = opened[i] || machine.open_swap(device, slot, page);
        opened[i]
    })
}

/// The bytes of a blob in a buffer that begins with slot `first`.
fn slice<'a>(io: &'a impl IoBuffer, blob: &Blob, first: u32) -> &'a [u8] {
    let start = blob.at as usize * Blob::UNIT - first as usize * PAGE_SIZE;
    &io.bytes(start + blob.len as usize)[start..]
}
