//! What each page of the address space is: a byte for a gigabyte that is alike, or a word for each
//! 512 pages that are, or a byte for each page.
//!
//! ```text
//! region (1 GiB)  a state, which all of its pages have; SPLIT or SPLITTING, as below
//! block (2 MiB)   a word: its slab, if it ever had one, and
//!                   a state, which all of its pages have,
//!                   SPLIT: each page has its own, in the slab,
//!                   SPLITTING: somebody writes those
//! ```
//! A program may reserve terabytes and touch little of it, here and there. So what is alike costs
//! next to nothing, and what is not a slab. A block keeps its slab: who reads it may be late.
//!
//! Of one page one thread alone writes the state at a time, of a block several.

use core::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use rustix::io::Result;

use crate::PAGE_SIZE;
use crate::cell::Leaked;
use crate::words::{bytes, halves};

/// Bytes of addresses that a program has, of a region and of a block.
const ADDRESSES: usize = 1 << 47;
const REGION: usize = 1 << 30;
const BLOCK: usize = 2 << 20;
/// Bytes of a slab, and slabs that there are addresses for: for 16 TiB of blocks that are split.
const SLAB: usize = BLOCK / PAGE_SIZE;
const SLABS: usize = 8 << 20;

/// In the low byte of a block's word, and of a region.
const SPLIT: u8 = 255;
const SPLITTING: u8 = 254;
/// Above it.
const SLAB_SHIFT: u32 = 8;

/// The states.
pub(super) struct States {
    regions: &'static [AtomicU8],
    blocks: &'static [AtomicU32],
    slabs: &'static [AtomicU8],
    /// Slabs that were given out.
    used: AtomicU32,
}

static STATES: Leaked<States> = Leaked::new();

/// Have a state for each page, if there is none yet.
///
/// # Errors
/// ENOMEM: the address space (RLIMIT_AS) does not hold them.
pub(super) fn begin() -> Result<()> {
    if STATES.get().is_none() {
        let states = States {
            regions: bytes(ADDRESSES / REGION)?,
            blocks: halves(ADDRESSES / BLOCK * size_of::<AtomicU32>())?,
            slabs: bytes(SLABS * SLAB)?,
            used: AtomicU32::new(0),
        };
        STATES.get_or_set(|| states);
    }
    Ok(())
}

/// What is said of a region, or of a block.
enum Block<'a> {
    /// All of its pages are this.
    Alike(u8),
    /// Each is what its byte says.
    Split(&'a [AtomicU8]),
}

impl States {
    /// The state that all pages of a region have. `None`: each block has its own.
    fn of_region(&self, region: usize) -> Option<u8> {
        loop {
            match self.regions[region].load(Ordering::SeqCst) {
                SPLIT => return None,
                SPLITTING => core::hint::spin_loop(),
                state => return Some(state),
            }
        }
    }

    fn blocks_of(region: usize) -> core::ops::Range<usize> {
        const BLOCKS: usize = REGION / BLOCK;
        region * BLOCKS..(region + 1) * BLOCKS
    }

    /// Each block of a region has its own state from now on.
    fn split_region(&self, region: usize) {
        while let Some(state) = self.of_region(region) {
            let word = &self.regions[region];
            let taken = word.compare_exchange(state, SPLITTING, Ordering::SeqCst, Ordering::SeqCst);
            if taken.is_ok() {
                Self::blocks_of(region).for_each(|block| self.make_alike(block, state));
                word.store(SPLIT, Ordering::SeqCst);
            }
        }
    }

    /// Change the states of `[start, end)`, which lies in a region, and may be all of it.
    fn update_in_region(&self, start: usize, end: usize, change: &impl Fn(u8) -> u8) {
        let (region, is_all) = (start / REGION, end - start == REGION);
        if let Some(state) = self.of_region(region) {
            let changed = change(state);
            if changed == state {
                return;
            }
            if is_all && changed < SPLITTING {
                // Nobody else has a page of it to change.
                return self.regions[region].store(changed, Ordering::SeqCst);
            }
            self.split_region(region);
        }
        let mut at = start;
        while at < end {
            let limit = ((at / BLOCK + 1) * BLOCK).min(end);
            self.update_in(at, limit, change);
            at = limit;
        }
        let alike = |block: usize| match self.of(block) {
            Block::Alike(state) => Some(state),
            Block::Split(_) => None,
        };
        let mut states = Self::blocks_of(region).map(alike);
        if is_all
            && let Some(Some(first)) = states.next()
            && states.all(|state| state == Some(first))
        {
            self.regions[region].store(first, Ordering::SeqCst);
        }
    }

    fn of(&self, block: usize) -> Block<'_> {
        loop {
            let word = self.blocks[block].load(Ordering::SeqCst);
            match word as u8 {
                SPLIT => {
                    let slab = (word >> SLAB_SHIFT) as usize - 1;
                    return Block::Split(&self.slabs[slab * SLAB..(slab + 1) * SLAB]);
                }
                SPLITTING => core::hint::spin_loop(),
                state => return Block::Alike(state),
            }
        }
    }

    /// The end of the region, the block or the page that is alike from `at` on, and its state.
    fn alike_from(&self, at: usize) -> (usize, u8) {
        let end = |len: usize| (at / len + 1) * len;
        if let Some(state) = self.of_region(at / REGION) {
            return (end(REGION), state);
        }
        match self.of(at / BLOCK) {
            Block::Alike(state) => (end(BLOCK), state),
            Block::Split(pages) => (end(PAGE_SIZE), pages[at % BLOCK / PAGE_SIZE].load(Ordering::SeqCst)),
        }
    }

    /// All pages of a block are alike. Nobody else has a page of it to change.
    fn make_alike(&self, block: usize, state: u8) {
        let slab = self.blocks[block].load(Ordering::SeqCst) >> SLAB_SHIFT << SLAB_SHIFT;
        self.blocks[block].store(slab | u32::from(state), Ordering::SeqCst);
    }

    /// Each page of a block has its own state from now on.
    fn split(&self, block: usize) -> &[AtomicU8] {
        loop {
            let state = match self.of(block) {
                Block::Split(pages) => return pages,
                Block::Alike(state) => state,
            };
            let word = self.blocks[block].load(Ordering::SeqCst);
            let slab = word >> SLAB_SHIFT;
            let splitting = slab << SLAB_SHIFT | u32::from(SPLITTING);
            let is_taken = word as u8 == state
                && self.blocks[block]
                    .compare_exchange(word, splitting, Ordering::SeqCst, Ordering::SeqCst)
                    .is_ok();
            if !is_taken {
                continue;
            }
            let slab = match slab {
                0 => self.used.fetch_add(1, Ordering::Relaxed) + 1,
                slab => slab,
            };
            let first = (slab as usize - 1) * SLAB;
            for page in &self.slabs[first..first + SLAB] {
                page.store(state, Ordering::SeqCst);
            }
            self.blocks[block].store(slab << SLAB_SHIFT | u32::from(SPLIT), Ordering::SeqCst);
        }
    }

    /// Change the states of `[start, end)`, which lies in a block, and may be all of it.
    fn update_in(&self, start: usize, end: usize, change: &impl Fn(u8) -> u8) {
        let (block, is_all) = (start / BLOCK, end - start == BLOCK);
        if let Block::Alike(state) = self.of(block) {
            let changed = change(state);
            if changed == state {
                return;
            }
            if is_all && changed < SPLITTING {
                return self.make_alike(block, changed);
            }
        }
        let first = start % BLOCK / PAGE_SIZE;
        let pages = &self.split(block)[first..first + (end - start).div_ceil(PAGE_SIZE)];
        let mut is_alike = is_all;
        for page in pages {
            let changed = change(page.load(Ordering::SeqCst));
            page.store(changed, Ordering::SeqCst);
            is_alike &= changed == pages[0].load(Ordering::SeqCst);
        }
        let state = pages[0].load(Ordering::SeqCst);
        if is_alike && state < SPLITTING {
            self.make_alike(block, state);
        }
    }
}

/// The state of the page at `addr`; 0 where nothing was ever said.
pub(super) fn get(addr: usize) -> u8 {
    let Some(states) = STATES.get().filter(|_| addr < ADDRESSES) else {
        return 0;
    };
    states.alike_from(addr).1
}

/// Change the states of the pages of `[start, end)`.
pub(super) fn update(start: usize, end: usize, change: impl Fn(u8) -> u8) {
    let Some(states) = STATES.get() else { return };
    let end = end.min(ADDRESSES);
    let mut at = start;
    while at < end {
        let limit = ((at / REGION + 1) * REGION).min(end);
        states.update_in_region(at, limit, &change);
        at = limit;
    }
}

/// The end of the pages from `start` on that are alike in the bits of `mask`, and these bits.
pub(super) fn run(start: usize, end: usize, mask: u8) -> (usize, u8) {
    let bits = get(start) & mask;
    let Some(states) = STATES.get() else { return (end, bits) };
    let mut at = start;
    while at < end.min(ADDRESSES) {
        let (next, state) = states.alike_from(at);
        if state & mask != bits {
            return (at, bits);
        }
        at = next;
    }
    (end, bits)
}

#[cfg(all(test, not(miri)))]
mod test {
    use super::*;

    /// Where no mapping is.
    const FREE: usize = 1 << 44;

    #[test]
    fn what_is_alike_is_one_run() {
        begin().unwrap();
        assert_eq!(
            (get(FREE), run(FREE, FREE + 8 * BLOCK, 255)),
            (0, (FREE + 8 * BLOCK, 0))
        );
        update(FREE, FREE + 4 * BLOCK, |_| 5);
        assert_eq!(run(FREE, FREE + 8 * BLOCK, 255), (FREE + 4 * BLOCK, 5));
        let (first, last) = (FREE + BLOCK + PAGE_SIZE, FREE + 2 * BLOCK + PAGE_SIZE);
        update(first, last, |state| state | 2);
        assert_eq!(
            [get(first - PAGE_SIZE), get(first), get(last - PAGE_SIZE), get(last)],
            [5, 7, 7, 5]
        );
        assert_eq!(run(FREE, FREE + 4 * BLOCK, 255), (first, 5));
        assert_eq!(run(first, FREE + 4 * BLOCK, 255), (last, 7));
        assert_eq!(run(FREE, FREE + 8 * BLOCK, 4), (FREE + 4 * BLOCK, 4));
        update(FREE, FREE + 4 * BLOCK, |_| 0);
        assert_eq!(run(FREE, FREE + 8 * BLOCK, 255), (FREE + 8 * BLOCK, 0));
        assert_eq!((get(ADDRESSES), get(usize::MAX)), (0, 0));
        // Regions, and one that is alike again.
        let base = 1 << 45;
        let end = base + 3 * REGION;
        update(base, end, |_| 3);
        update(base + REGION + BLOCK, base + REGION + 2 * BLOCK, |_| 9);
        assert_eq!(run(base, end, 255), (base + REGION + BLOCK, 3));
        assert_eq!(run(base + REGION + BLOCK, end, 255), (base + REGION + 2 * BLOCK, 9));
        update(base, end, |state| state | 8);
        assert_eq!((run(base, end, 8), get(base + REGION + BLOCK)), ((end, 8), 9));
        update(base, end, |_| 0);
        assert_eq!(run(base, end, 255), (end, 0));
    }

    #[test]
    fn threads_split_a_block_once() {
        extern crate std;
        begin().unwrap();
        let base = FREE + (1 << 40);
        for round in 0..200 {
            let block = base + round * BLOCK;
            update(block, block + BLOCK, |_| 1);
            std::thread::scope(|scope| {
                for n in 0..4 {
                    let page = block + n * PAGE_SIZE;
                    scope.spawn(move || update(page, page + PAGE_SIZE, |state| state | 8));
                }
            });
            assert_eq!(run(block, block + BLOCK, 255), (block + 4 * PAGE_SIZE, 9));
        }
    }
}
