//! The agent's own allocator: talc over one reserved range, never the program's malloc.
//!
//! The range is reserved address space; a page of it becomes memory when it is first used. talc's ready-made source for
//! Unix is unfinished upstream, and allocators that map through libc would enter the functions that the agent has
//! replaced (reference/crates.md B4), so one range is claimed on first use.

use core::alloc::{GlobalAlloc, Layout};
use core::sync::atomic::{AtomicUsize, Ordering};

use talc::base::Talc;
use talc::base::binning::Binning;
use talc::source::Source;

/// Address space reserved for the agent's metadata. At 16 bytes a managed page this serves 4 TiB.
const RESERVE: usize = 16 << 30;

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
            .find_map(|len| crate::mapping::Mapping::reserve(len).ok())
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
}

impl Heap {
    /// An allocator that reserves its range when it is first asked.
    #[allow(clippy::new_without_default, reason = "a const constructor for a static")]
    pub const fn new() -> Self {
        Self {
            inner: Inner::new(ReserveOnce { done: false }),
            live: AtomicUsize::new(0),
        }
    }

    /// Bytes given out and not yet returned.
    pub fn live_bytes(&self) -> usize {
        self.live.load(Ordering::Relaxed)
    }
}

// SAFETY: forwards to talc, whose contract is the same; the counter does not influence it.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
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
