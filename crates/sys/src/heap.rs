//! The agent's own allocator: talc over one reserved range, never the program's malloc.
//!
//! The range is reserved address space; a page of it becomes memory when it is first used. talc's
//! ready-made source for Unix is unfinished upstream, and allocators that map through libc would
//! enter the functions that the agent has replaced (reference/crates.md B4), so one range is
//! claimed on first use.

use core::alloc::{GlobalAlloc, Layout};
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use talc::base::Talc;
use talc::base::binning::Binning;
use talc::source::Source;

/// Address space reserved for the agent's metadata. At 16 bytes a managed page this serves 4 TiB.
/// Miri backs it all.
const RESERVE: usize = if cfg!(miri) { 64 << 20 } else { 16 << 30 };

#[derive(Debug)]
struct ReserveOnce {
    done: bool,
}

// SAFETY: acquire maps memory by a system call of its own and enters no allocator.
unsafe impl Source for ReserveOnce {
    fn acquire<B: Binning>(talc: &mut Talc<Self, B>, _: Layout) -> Result<(), ()> {
        if talc.source.done {
            return Err(());
        }
        let mapping = [RESERVE, RESERVE / 16, RESERVE / 256]
            .into_iter()
            .find_map(|len| crate::mapping::Mapping::reserve_beside_data(len).ok())
            .ok_or(())?
            .without_huge_pages();
        let (base, len) = (mapping.addr(), mapping.len());
        core::mem::forget(mapping);
        talc.source.done = true;
        // SAFETY: freshly mapped for this purpose, never unmapped, known to nobody else.
        unsafe { talc.claim(core::ptr::with_exposed_provenance_mut(base), len) };
        Ok(())
    }
}

type Inner = talc::sync::TalcLock<crate::futex::RawLock, ReserveOnce, talc::base::binning::DefaultBinning>;

/// A global allocator for the agent that counts what it has given out.
pub struct Heap {
    inner: Inner,
    live: AtomicUsize,
    fails: AtomicBool,
}

impl Heap {
    /// An allocator that reserves its range when it is first asked.
    #[allow(clippy::new_without_default, reason = "a const constructor for a static")]
    pub const fn new() -> Self {
        Self {
            inner: Inner::new(ReserveOnce { done: false }),
            live: AtomicUsize::new(0),
            fails: AtomicBool::new(false),
        }
    }

    /// For tests: have the next allocation find nothing left.
    pub fn fail_next(&self) {
        self.fails.store(true, Ordering::Relaxed);
    }

    /// Bytes given out and not yet returned.
    pub fn live_bytes(&self) -> usize {
        self.live.load(Ordering::Relaxed)
    }
}

// SAFETY: forwards to talc, whose contract is the same; the counter does not influence it.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // A load first: the line is shared as long as nothing is made to fail.
        if self.fails.load(Ordering::Relaxed) && self.fails.swap(false, Ordering::Relaxed) {
            return core::ptr::null_mut();
        }
        self.live.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise about `layout` is passed on.
        unsafe { self.inner.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        self.live.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise about `ptr` and `layout` is passed on.
        unsafe { self.inner.dealloc(ptr, layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        self.live.fetch_add(new_size, Ordering::Relaxed);
        self.live.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise about `ptr`, `layout` and `new_size` is passed on.
        unsafe { self.inner.realloc(ptr, layout, new_size) }
    }
}

#[cfg(test)]
mod test {
    extern crate std;

    use super::*;
    use alloc::vec::Vec;

    /// Allocations of many sizes by two threads, each full of its own bytes while others come and
    /// go.
    #[test]
    fn blocks_keep_their_bytes_and_all_come_back() {
        const ROUNDS: usize = if cfg!(miri) { 40 } else { 2_000 };
        let heap = Heap::new();
        let life = |thread: usize| {
            let mut live: Vec<(*mut u8, Layout, u8)> = Vec::new();
            let free = |(block, layout, byte): (*mut u8, Layout, u8)| {
                // SAFETY: `block` is from `heap`, of `layout`, all of it written, and freed only
                // here.
                unsafe {
                    assert!(core::slice::from_raw_parts(block, layout.size()) == std::vec![byte; layout.size()]);
                    heap.dealloc(block, layout);
                }
            };
            for round in 0..ROUNDS {
                let (size, byte) = (1 + round * 7919 % 5000, (round * 2 + thread) as u8);
                let layout = Layout::from_size_align(size, 1 << (round % 13)).unwrap();
                // SAFETY: the size is not 0; the block is written as far as it is long.
                unsafe {
                    let mut block = heap.alloc(layout);
                    assert!(!block.is_null() && block.addr().is_multiple_of(layout.align()));
                    block.write_bytes(byte, size);
                    let mut kept = layout;
                    if round % 3 == 0 {
                        kept = Layout::from_size_align(size * 2, layout.align()).unwrap();
                        block = heap.realloc(block, layout, size * 2);
                        assert!(!block.is_null() && block.addr().is_multiple_of(layout.align()));
                        block.add(size).write_bytes(byte, size);
                    }
                    live.push((block, kept, byte));
                }
                if live.len() > 8 {
                    free(live.swap_remove(round % 8));
                }
            }
            live.into_iter().for_each(free);
        };
        std::thread::scope(|scope| {
            scope.spawn(|| life(0));
            life(1);
        });
        assert_eq!(heap.live_bytes(), 0);
    }
}
