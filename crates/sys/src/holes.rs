//! Addresses at which a forked child has nothing (`MADV_DONTFORK`), and may not get anything.
//!
//! A child that still has a pointer to what its parent had there must end with SIGSEGV. Left alone,
//! the kernel gives the hole to the child's next large mapping, and the pointer reads and writes
//! that. So a handler of `pthread_atfork` maps it without access before anybody else can.
//!
//! The handler runs in a child of a process with threads: it takes no lock and no memory. Ranges
//! are words that it reads as they are. One that is half written belongs to a region that no
//! pointer leads to yet.

use alloc::boxed::Box;
use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

use rustix::io::{Errno, Result};
use rustix::mm::{self, MapFlags, ProtFlags};

use crate::PAGE_SIZE;

/// Ranges of a chunk: with its other words four pages.
const RANGES: usize = 1023;
/// So often a range is halved: a thousandth of it stays open around what lies there.
const HALVES: u32 = 10;
/// In [`Range::len`]: free.
const FREE: usize = 0;
/// In [`Range::len`]: somebody's, who has not written where it is yet. No range is as short.
const TAKEN: usize = 1;

unsafe extern "C" {
    fn pthread_atfork(
        prepare: Option<unsafe extern "C" fn()>,
        parent: Option<unsafe extern "C" fn()>,
        child: Option<unsafe extern "C" fn()>,
    ) -> c_int;
}

#[derive(Debug)]
struct Range {
    start: AtomicUsize,
    len: AtomicUsize,
}

/// They are never given back: a child's handler may read them at any time.
struct Chunk {
    ranges: [Range; RANGES],
    /// Of them, those that are not free.
    taken: AtomicUsize,
    next: AtomicPtr<Chunk>,
}

static CHUNKS: AtomicPtr<Chunk> = AtomicPtr::new(core::ptr::null_mut());
static IS_REGISTERED: AtomicBool = AtomicBool::new(false);

/// A range that children forked from now on have without access. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Hole {
    range: &'static Range,
    taken: &'static AtomicUsize,
}

impl Hole {
    /// # Errors
    /// ENOMEM: there is no memory for the handler.
    pub(crate) fn keep(start: usize, len: usize) -> Result<Self> {
        debug_assert!(len >= PAGE_SIZE, "whole pages");
        register()?;
        let hole = chunks().find_map(Chunk::take).unwrap_or_else(Chunk::grow);
        hole.range.start.store(start, Ordering::Relaxed);
        // Release: pairs with acquire in `close`, for the start.
        hole.range.len.store(len, Ordering::Release);
        Ok(hole)
    }
}

impl Drop for Hole {
    fn drop(&mut self) {
        self.range.len.store(FREE, Ordering::Release);
        self.taken.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Chunk {
    /// A range that is free now.
    fn take(&'static self) -> Option<Hole> {
        if self.taken.load(Ordering::Relaxed) >= RANGES {
            return None;
        }
        let take = |range: &&Range| {
            let len = &range.len;
            len.load(Ordering::Relaxed) == FREE
                && len
                    .compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok()
        };
        let range = self.ranges.iter().find(take)?;
        self.taken.fetch_add(1, Ordering::Relaxed);
        Some(Hole {
            range,
            taken: &self.taken,
        })
    }

    /// The first range of a chunk of its own, which is the first that others look at.
    fn grow() -> Hole {
        let chunk: &'static Chunk = Box::leak(Box::new(Chunk {
            ranges: [const {
                Range {
                    start: AtomicUsize::new(0),
                    len: AtomicUsize::new(FREE),
                }
            }; RANGES],
            taken: AtomicUsize::new(0),
            next: AtomicPtr::new(core::ptr::null_mut()),
        }));
        let hole = chunk.take().expect("nobody knows of it yet");
        let new = core::ptr::from_ref(chunk).cast_mut();
        let mut first = CHUNKS.load(Ordering::Acquire);
        loop {
            chunk.next.store(first, Ordering::Relaxed);
            // Release: pairs with acquire in `chunks`, for what is in it.
            match CHUNKS.compare_exchange_weak(first, new, Ordering::Release, Ordering::Acquire) {
                Ok(_) => return hole,
                Err(other) => first = other,
            }
        }
    }
}

fn chunks() -> impl Iterator<Item = &'static Chunk> {
    let at = |chunk: &AtomicPtr<Chunk>| {
        // SAFETY: null, or a chunk that was leaked before it was stored there.
        unsafe { chunk.load(Ordering::Acquire).as_ref() }
    };
    core::iter::successors(at(&CHUNKS), move |chunk| at(&chunk.next))
}

/// Whoever comes twice, or together with another, has the handler run twice, which does no harm.
fn register() -> Result<()> {
    if IS_REGISTERED.load(Ordering::Acquire) {
        return Ok(());
    }
    // SAFETY: the handler does nothing that a child of a process with threads may not do, and is
    // there as long as this library, with which it goes.
    match unsafe { pthread_atfork(None, None, Some(close)) } {
        0 => {
            IS_REGISTERED.store(true, Ordering::Release);
            Ok(())
        }
        errno => Err(Errno::from_raw_os_error(errno)),
    }
}

/// In a child, before its `fork` returns.
unsafe extern "C" fn close() {
    for range in chunks().flat_map(|chunk| &chunk.ranges) {
        // Acquire: pairs with release in `keep`.
        let len = range.len.load(Ordering::Acquire);
        if len > TAKEN {
            take_away(range.start.load(Ordering::Relaxed), len, HALVES);
        }
    }
}

/// Map a range without access. Where something lies already, what another handler has mapped or
/// the parent where it had just unmapped a region, that stays, and the halves around it are tried.
fn take_away(start: usize, len: usize, halves: u32) {
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED_NOREPLACE;
    // SAFETY: replaces nothing.
    let mapped = unsafe { mm::mmap_anonymous(start as *mut _, len, ProtFlags::empty(), flags) };
    if mapped == Err(Errno::EXIST) && halves > 0 && len > PAGE_SIZE {
        let half = (len / 2).next_multiple_of(PAGE_SIZE);
        take_away(start, half, halves - 1);
        take_away(start + half, len - half, halves - 1);
    }
}
