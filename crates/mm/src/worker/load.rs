//! Loads: what a window holds is taken along, decompressed and mapped.
//!
//! A load of many pages is cut into pieces that several threads bring side by side, if there are
//! any that have nothing else to do ([`Threads::spread_load`]). Each is decompressed, then mapped
//! from its first page on until one is damaged or refused: what is mapped in the end are the first
//! pages of every piece. Whoever waits for a page is woken when its run is there: the program goes
//! on with the first piece while the others are brought, and may soon wait for one of them.

use core::ops::Range;

use uzswap_acomp::{Codec, SCATTER_MAX};

use super::contexts::Contexts;
use super::{Worker, fill, open, slice};
use crate::flight::underway::SERVERS_MAX;
use crate::machine::{Done, IoBuffer, Machine, Stop};
use crate::page::{PAGE_SIZE, PageRange, Vpn, fingerprint};
use crate::pages::swap_table::entry::Blob;
use crate::zpool::Block;

/// Pieces of a load at most.
pub(crate) const PIECES_MAX: usize = SERVERS_MAX;

/// Where the contents of one page of a load are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum PageSource {
    /// So many bytes in `blocks`, behind those of the loads before; of a page as it was in the
    /// pool, its fingerprint.
    Block(Codec, usize, Option<u32>),
    /// This word over and over.
    Filled(u32),
    /// So many bytes in `blocks` that are not what was written to the device.
    Damaged(usize),
}

impl PageSource {
    fn bytes(&self) -> usize {
        match self {
            Self::Block(_, len, _) | Self::Damaged(len) => *len,
            Self::Filled(_) => 0,
        }
    }

    /// How it is decompressed, if it is compressed.
    fn codec(&self) -> Option<Codec> {
        match self {
            Self::Block(codec, ..) if *codec != Codec::Raw => Some(*codec),
            _ => None,
        }
    }
}

/// What was brought of a piece of a load.
#[derive(Clone, Copy)]
pub(crate) struct Piece {
    /// Pages of the load before it.
    first: usize,
    /// Pages, from its first on, that came out whole, and that were mapped.
    pub(crate) loaded: usize,
    mapped: usize,
    /// What the page after these met. `None` as well where the machine did only a part: that shows
    /// when the rest is tried again.
    pub(crate) stop: Option<Stop>,
}

impl Piece {
    fn new(first: usize) -> Self {
        Self {
            first,
            loaded: 0,
            mapped: 0,
            stop: None,
        }
    }
}

/// A piece that is being brought.
struct Bringing<'a, D> {
    loads: &'a [PageSource],
    pages: &'a [Vpn],
    blocks: &'a [u8],
    /// Where it is decompressed.
    io: &'a mut [u8],
    contexts: &'a mut Contexts<D>,
    piece: Piece,
}

impl<D: uzswap_acomp::Device> Bringing<'_, D> {
    fn bring<M: Machine<Acomp = D>>(&mut self, machine: &M, map: impl Fn(PageRange, &[u8]) -> Done) {
        let loaded = decompress_all(machine, self.loads, self.blocks, self.io, self.contexts);
        let (mut mapped, mut stop) = (0, None);
        for run in neighbours(&self.pages[..loaded]) {
            let bytes = &self.io[mapped * PAGE_SIZE..(mapped + run.pages() as usize) * PAGE_SIZE];
            let done = map(run, bytes);
            mapped += done.pages as usize;
            stop = done.stop;
            if u64::from(done.pages) < run.pages() {
                break;
            }
        }
        self.piece = Piece {
            loaded,
            mapped,
            stop,
            ..self.piece
        };
    }
}

/// Decompress `loads`, whose blocks lie one behind the other, into `io`: those of one codec that
/// are neighbours at once. Returns how many came out whole before the first that is damaged.
fn decompress_all<M: Machine>(
    machine: &M,
    loads: &[PageSource],
    mut blocks: &[u8],
    io: &mut [u8],
    contexts: &mut Contexts<M::Acomp>,
) -> usize {
    let mut whole = 0;
    let alike = |a: &PageSource, b: &PageSource| a.codec().is_some() && a.codec() == b.codec();
    for run in loads.chunk_by(alike).flat_map(|run| run.chunks(SCATTER_MAX)) {
        let (bytes, rest) = blocks.split_at(run.iter().map(PageSource::bytes).sum());
        blocks = rest;
        let pages = &mut io[whole * PAGE_SIZE..][..run.len() * PAGE_SIZE];
        let done = match run[0] {
            PageSource::Filled(word) => {
                fill(pages, word);
                1
            }
            PageSource::Damaged(_) => 0,
            PageSource::Block(codec, _, fingerprint) => match codec.algorithm() {
                Some(algorithm) => {
                    let lens = run.iter().map(PageSource::bytes);
                    contexts.decompress_all(machine, algorithm, lens, bytes, pages)
                }
                None => {
                    let block = Block {
                        codec,
                        bytes,
                        fingerprint,
                    };
                    contexts.decompress(machine, block, pages).into()
                }
            },
        };
        whole += done;
        if done < run.len() {
            break;
        }
    }
    whole
}

/// Pages as runs of neighbours.
fn neighbours(pages: &[Vpn]) -> impl Iterator<Item = PageRange> {
    pages
        .chunk_by(|page, next| page.add(1) == *next)
        .map(|run| PageRange::new(run[0], run.len() as u64))
}

/// Put `bytes` behind the first `len` of a buffer.
fn append(buffer: &mut impl IoBuffer, len: &mut usize, bytes: &[u8]) {
    let before = core::mem::replace(len, *len + bytes.len());
    buffer.bytes_mut(*len)[before..].copy_from_slice(bytes);
}

impl<M: Machine> Worker<M> {
    /// Take along a blob that will be in the I/O buffer when the device was read:
    /// [`take_reads`](Self::take_reads).
    pub(crate) fn push_read(&mut self, page: Vpn, blob: Blob) {
        self.load_pages.push(page);
        self.reads.push(blob);
        self.loads.push(PageSource::Block(blob.codec, blob.len as usize, None));
    }

    /// The I/O buffer holds slots of the device from `first` on: open those that blobs of this load
    /// lie in and take the blobs out of them.
    pub(crate) fn take_reads(&mut self, machine: &M, device: u8, first: u32) {
        self.opened.clear();
        self.opened.resize(self.io_pages, false);
        for (blob, load) in self.reads.iter().zip(&mut self.loads) {
            let is_open = open(machine, device, &mut self.io, &mut self.opened, blob, first);
            append(&mut self.blocks, &mut self.blocks_len, slice(&self.io, blob, first));
            if !is_open {
                *load = PageSource::Damaged(blob.len as usize);
            }
        }
    }

    /// Forget the blocks of the last load.
    pub(crate) fn begin_loads(&mut self) {
        self.loads.clear();
        self.load_pages.clear();
        self.reads.clear();
        self.blocks_len = 0;
    }

    /// Take along a stored block.
    pub(crate) fn push_load(&mut self, page: Vpn, block: Block<'_>) {
        self.load_pages.push(page);
        append(&mut self.blocks, &mut self.blocks_len, block.bytes);
        self.loads
            .push(PageSource::Block(block.codec, block.bytes.len(), block.fingerprint));
    }

    /// Take along a page of one word over and over.
    pub(crate) fn push_filled(&mut self, page: Vpn, word: u32) {
        self.load_pages.push(page);
        self.loads.push(PageSource::Filled(word));
    }

    /// Pages that a load may have.
    pub(crate) fn load_room(&self) -> usize {
        self.load_room
    }

    /// Blocks of this load.
    pub(crate) fn loads(&self) -> u64 {
        self.loads.len() as u64
    }

    /// The pages of this load.
    pub(crate) fn load_pages(&self) -> &[Vpn] {
        &self.load_pages
    }

    /// How many of these pages of the load are zeros, and how many were no block.
    pub(crate) fn filled_among(&self, pages: Range<usize>) -> (u64, u64) {
        let loads = &self.loads[pages];
        let zeros = loads.iter().filter(|load| **load == PageSource::Filled(0));
        let filled = loads.iter().filter(|load| load.bytes() == 0);
        (zeros.count() as u64, filled.count() as u64)
    }

    /// Those of these pages of the load that were stored as they are, with their fingerprints.
    pub(crate) fn raw_among(&self, pages: Range<usize>) -> impl Iterator<Item = (Vpn, u32)> {
        pages.filter_map(|i| match self.loads[i] {
            PageSource::Block(Codec::Raw, _, known) => {
                let bytes = || &self.io.bytes((i + 1) * PAGE_SIZE)[i * PAGE_SIZE..];
                Some((self.load_pages[i], known.unwrap_or_else(|| fingerprint(bytes()))))
            }
            _ => None,
        })
    }

    /// These pages of the load, those that are neighbours together.
    pub(crate) fn load_runs(&self, pages: Range<usize>) -> impl Iterator<Item = PageRange> {
        neighbours(&self.load_pages[pages])
    }

    /// Decompress the load into the I/O buffer. Returns how many came out whole before the first
    /// that is damaged.
    pub(crate) fn decompress_loads(&mut self, machine: &M) -> usize {
        let blocks = self.blocks.bytes(self.blocks_len);
        let io = self.io.bytes_mut(self.loads.len() * PAGE_SIZE);
        decompress_all(machine, &self.loads, blocks, io, &mut self.lanes[0].contexts)
    }

    /// Decompress the load and map it with `map`, which gets a run, its bytes, and whether they are
    /// of one of several pieces; by pieces if others may help (`spreads`).
    /// [`brought`](Self::brought) and [`piece_of`](Self::piece_of) say how far that came.
    pub(crate) fn bring_loads(
        &mut self,
        machine: &M,
        spreads: bool,
        map: impl Fn(&M, PageRange, &[u8], bool) -> Done + Sync,
    ) {
        let each = self.piece_pages(spreads);
        let Self {
            loads,
            load_pages,
            lanes,
            piece_contexts,
            pieces,
            ..
        } = self;
        let mut blocks = self.blocks.bytes(self.blocks_len);
        let io = self.io.bytes_mut(loads.len() * PAGE_SIZE).chunks_mut(each * PAGE_SIZE);
        let contexts = core::iter::once(&mut lanes[0].contexts).chain(piece_contexts);
        let mut cut = loads
            .chunks(each)
            .zip(load_pages.chunks(each))
            .zip(io.zip(contexts))
            .enumerate()
            .map(|(i, ((loads, pages), (io, contexts)))| {
                let (own, rest) = blocks.split_at(loads.iter().map(PageSource::bytes).sum());
                blocks = rest;
                Bringing {
                    loads,
                    pages,
                    blocks: own,
                    io,
                    contexts,
                    piece: Piece::new(i * each),
                }
            });
        let mut bringing: [Option<Bringing<'_, M::Acomp>>; PIECES_MAX] = core::array::from_fn(|_| cut.next());
        let count = bringing.iter().flatten().count();
        machine.spread_load(&mut bringing[..count], |bringing, machine| {
            if let Some(bringing) = bringing {
                bringing.bring(machine, |run, bytes| map(machine, run, bytes, count > 1));
            }
        });
        pieces.clear();
        pieces.extend(bringing.into_iter().flatten().map(|bringing| bringing.piece));
    }

    /// Pages of each piece of the load.
    fn piece_pages(&self, spreads: bool) -> usize {
        let most = if spreads { 1 + self.piece_contexts.len() } else { 1 };
        let pieces = (self.loads.len() / M::PIECE_MIN).clamp(1, most);
        self.loads.len().div_ceil(pieces).max(1)
    }

    /// Nothing was brought of this load.
    pub(crate) fn bring_nothing(&mut self) {
        self.pieces.clear();
    }

    /// Which of the pages of the load are mapped now, as runs of them.
    pub(crate) fn brought(&self) -> impl Iterator<Item = Range<usize>> {
        let mapped = self.pieces.iter().map(|piece| piece.first..piece.first + piece.mapped);
        let mut mapped = mapped.filter(|run| !run.is_empty()).peekable();
        core::iter::from_fn(move || {
            let mut run = mapped.next()?;
            while let Some(next) = mapped.next_if(|next| next.start == run.end) {
                run.end = next.end;
            }
            Some(run)
        })
    }

    /// Whether a page of the load is mapped now.
    pub(crate) fn has_brought(&self, page: Vpn) -> bool {
        self.brought().any(|run| self.load_pages[run].contains(&page))
    }

    /// The piece of the load that a page of it is in. `None`: nothing was brought.
    pub(crate) fn piece_of(&self, page: Vpn) -> Option<Piece> {
        let at = self.load_pages.iter().position(|of_load| *of_load == page)?;
        self.pieces.iter().rev().find(|piece| piece.first <= at).copied()
    }
}

#[cfg(test)]
mod test;
