//! Where thread stacks are (MAP_STACK, MAP_GROWSDOWN): that memory is never managed, since the
//! kernel writes to a stack when its thread exits, when it cannot wait for a fault any more.
//!
//! The program's threads record stacks and forget what is unmapped of them; kswapd reads. A record
//! is a pair of words, and each step of a change leaves readers at least what is a stack still.
//! Changes of records are made one at a time: what is not forgotten when it should be would be
//! taken for a stack for ever.

use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use uzswap_mm::page::PAGE_SIZE;
use uzswap_sys::turn::Turn;
use uzswap_sys::{futex, thread};

use crate::fault::inline;
use crate::pager;

const RECORDS: usize = 16 * 1024;

static RANGES: [[AtomicUsize; 2]; RECORDS] = [const { [const { AtomicUsize::new(0) }; 2] }; RECORDS];
/// One more than the highest record ever used.
static USED: AtomicUsize = AtomicUsize::new(0);
/// Held while records are changed.
static LOCK: Turn = Turn::new();
/// Threads between making (or removing) a stack mapping and its record. While there are any, a
/// mapping that the scan sees may be an unrecorded stack.
static CHANGES_IN_FLIGHT: AtomicUsize = AtomicUsize::new(0);
/// 1: what is mapped now may be registered at once, whatever it is.
static IS_REGISTERING: AtomicU32 = AtomicU32::new(0);
/// How long somebody who is about to map a stack sleeps until that is looked at again.
const REGISTERING_NS: u64 = 1_000_000;

/// A change of the stack records that surrounds the system call it records. Undisturbed, where no
/// turn is that sees to it: there is no pager yet.
pub(crate) struct StackChange(#[expect(dead_code, reason = "it ends with the change")] Option<Undisturbed>);

impl StackChange {
    pub(crate) fn begin() -> Self {
        // A filter may forbid even to block a signal.
        let undisturbed = (pager::active().is_none() && !inline::is_filtered()).then(Undisturbed::begin);
        loop {
            // SeqCst, as in `while_none_changes`: either that sees us, or we see it.
            CHANGES_IN_FLIGHT.fetch_add(1, Ordering::SeqCst);
            // A child whose pager is not there is waited for by nobody.
            if IS_REGISTERING.load(Ordering::SeqCst) == 0 || pager::active().is_none() {
                return Self(undisturbed);
            }
            CHANGES_IN_FLIGHT.fetch_sub(1, Ordering::SeqCst);
            match inline::is_filtered() {
                true => core::hint::spin_loop(),
                false => futex::wait(&IS_REGISTERING, 1, Some(REGISTERING_NS), false),
            }
        }
    }

    /// Record `[start, end)`. Beside another stack it lengthens that one's record; when all records
    /// are taken, it lengthens the nearest: what lies between is not managed then, but no stack is.
    pub(crate) fn add(&self, start: usize, end: usize) {
        let lock = Lock::take();
        if lock.is_some() && lengthen(|record| record.1 == start || record.0 == end, start, end) {
            return;
        }
        if !take_free(start, end) {
            let distance = |(from, to): (usize, usize)| start.saturating_sub(to).max(from.saturating_sub(end));
            let nearest = records().map(|(_, record)| distance(record)).min().unwrap_or(0);
            lengthen(|record| distance(record) <= nearest, start, end);
        }
    }

    /// Forget what is recorded of the `len` bytes from `start` on, before they are unmapped or
    /// mapped over, if the kernel does that.
    pub(crate) fn remove(&self, start: usize, len: usize) {
        let end = start
            .checked_add(len)
            .and_then(|end| end.checked_next_multiple_of(PAGE_SIZE));
        let Some(end) = end.filter(|end| start.is_multiple_of(PAGE_SIZE) && start < *end) else {
            return;
        };
        let overlaps = |(from, to): (usize, usize)| from < end && start < to;
        if !records().any(|(_, record)| overlaps(record)) {
            return;
        }
        // Without the lock it stays a stack, and is not managed.
        let Some(_lock) = Lock::take() else { return };
        for (i, (from, to)) in records().filter(|(_, record)| overlaps(*record)) {
            let [first, limit] = &RANGES[i];
            match (from < start, end < to) {
                // In two: it stays whole if there is no record for the second part.
                (true, true) => {
                    if take_free(end, to) {
                        limit.store(start, Ordering::SeqCst);
                    }
                }
                (true, false) => limit.store(start, Ordering::SeqCst),
                (false, true) => first.store(end, Ordering::SeqCst),
                (false, false) => {
                    limit.store(0, Ordering::SeqCst);
                    first.store(0, Ordering::SeqCst);
                }
            }
        }
    }
}

/// Stacks that move at a time; more are one, with what lies between.
const MOVED: usize = 16;

/// What is recorded of a range that is about to move.
pub(crate) struct Moving {
    start: usize,
    len: usize,
    pieces: [(usize, usize); MOVED],
    count: usize,
}

impl StackChange {
    /// Forget what is recorded of the `len` bytes from `start` on, before an mremap moves them:
    /// whoever maps a stack there afterwards records its own.
    pub(crate) fn lift(&self, start: usize, len: usize) -> Moving {
        // What is not aligned the kernel refuses.
        let len = if start.is_multiple_of(PAGE_SIZE) {
            len.min(usize::MAX / 2).next_multiple_of(PAGE_SIZE)
        } else {
            0
        };
        let end = start.saturating_add(len);
        let mut moving = Moving {
            start,
            len,
            pieces: [(0, 0); MOVED],
            count: 0,
        };
        for (_, (from, to)) in records().filter(|(_, (from, to))| *from < end && start < *to) {
            let piece = (from.max(start), to.min(end));
            if moving.count < MOVED {
                moving.pieces[moving.count] = piece;
                moving.count += 1;
            } else {
                let last = &mut moving.pieces[MOVED - 1];
                *last = (last.0.min(piece.0), last.1.max(piece.1));
            }
        }
        if moving.count > 0 {
            self.remove(start, len);
        }
        moving
    }

    /// The call failed: record it where it was.
    pub(crate) fn restore(&self, moving: &Moving) {
        for (from, to) in &moving.pieces[..moving.count] {
            self.add(*from, *to);
        }
    }

    /// Record it where it is now: `len` bytes from `start` on. What a stack has grown by is the
    /// stack's.
    pub(crate) fn put(&self, moving: &Moving, start: usize, len: usize) {
        let (old_end, end) = (moving.start.saturating_add(moving.len), start.saturating_add(len));
        for (from, to) in &moving.pieces[..moving.count] {
            let moved_to = match *to == old_end {
                true => end,
                false => end.min(start + (to - moving.start)),
            };
            let moved_from = start + (from - moving.start);
            if moved_from < moved_to {
                self.add(moved_from, moved_to);
            }
        }
    }
}

impl Drop for StackChange {
    fn drop(&mut self) {
        CHANGES_IN_FLIGHT.fetch_sub(1, Ordering::SeqCst);
    }
}

/// No handler of the program runs in this thread meanwhile, and it is not cancelled: one that left
/// a change by siglongjmp would have nothing registered any more. From before the turn, which
/// blocks signals as well, until after it.
pub(crate) struct Undisturbed(Option<u64>);

impl Undisturbed {
    pub(crate) fn begin() -> Self {
        Self(thread::block_asynchronous_signals())
    }
}

impl Drop for Undisturbed {
    fn drop(&mut self) {
        self.0.into_iter().for_each(thread::restore_signals);
    }
}

/// Records are changed by this thread alone, and no handler of the program comes in between: one
/// that leaves by siglongjmp would keep the lock for ever.
struct Lock {
    _undisturbed: Undisturbed,
}

impl Lock {
    /// `None`: a handler of a signal that the thread raised in here wants it too.
    fn take() -> Option<Self> {
        let _undisturbed = Undisturbed::begin();
        LOCK.take().then_some(Self { _undisturbed })
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        LOCK.end();
    }
}

/// A record of its own for `[start, end)`, if there is a free one.
fn take_free(start: usize, end: usize) -> bool {
    for (i, [first, limit]) in RANGES.iter().enumerate() {
        let is_free = first.load(Ordering::Relaxed) == 0;
        if is_free
            && first
                .compare_exchange(0, start, Ordering::SeqCst, Ordering::Relaxed)
                .is_ok()
        {
            limit.store(end, Ordering::SeqCst);
            USED.fetch_max(i + 1, Ordering::SeqCst);
            return true;
        }
    }
    false
}

/// Have the first record that `suits` cover `[start, end)` as well.
fn lengthen(suits: impl Fn((usize, usize)) -> bool, start: usize, end: usize) -> bool {
    let Some((i, _)) = records().find(|(_, record)| suits(*record)) else {
        return false;
    };
    let [first, limit] = &RANGES[i];
    limit.fetch_max(end, Ordering::SeqCst);
    first.fetch_min(start, Ordering::SeqCst);
    true
}

/// The records in use: which, first byte and end.
fn records() -> impl Iterator<Item = (usize, (usize, usize))> {
    RANGES[..USED.load(Ordering::SeqCst).min(RECORDS)]
        .iter()
        .map(|[first, limit]| (first.load(Ordering::SeqCst), limit.load(Ordering::SeqCst)))
        .enumerate()
        .filter(|(_, (first, _))| *first != 0)
}

/// Call `f` with each range that is a stack.
pub(crate) fn for_each(mut f: impl FnMut(usize, usize)) {
    records().for_each(|(_, (first, limit))| f(first, limit));
}

/// Whether `[start, end)` is recorded.
pub(crate) fn covers(start: usize, end: usize) -> bool {
    covering(start, end).is_some()
}

/// The record that has it.
fn covering(start: usize, end: usize) -> Option<usize> {
    records()
        .find(|(_, (first, limit))| *first <= start && end <= *limit)
        .map(|(i, _)| i)
}

/// Records that were asked for last, by address: threads ask again and again.
static LAST: [AtomicUsize; 64] = [const { AtomicUsize::new(0) }; 64];
/// So much of the addresses around the first one has the main stack to itself. Bytes.
const MAIN_ROOM: usize = 64 << 20;

/// Whether `[start, end)` is stack that is never managed. In a thread of the program, before it
/// makes a call.
pub(crate) fn is_stack(start: usize, end: usize) -> bool {
    if start.abs_diff(crate::init::main_stack()) < MAIN_ROOM {
        return true;
    }
    let last = &LAST[(start >> 16) % LAST.len()];
    let [first, limit] = &RANGES[last.load(Ordering::Relaxed)];
    if first.load(Ordering::SeqCst) <= start && end <= limit.load(Ordering::SeqCst) {
        return true;
    }
    let found = covering(start, end);
    found.inspect(|i| last.store(*i, Ordering::Relaxed)).is_some()
}

/// Whether a stack may be unrecorded at this moment.
pub(crate) fn is_changing() -> bool {
    CHANGES_IN_FLIGHT.load(Ordering::SeqCst) != 0
}

/// Register memory that others may map meanwhile: no stack. `None`: one may be on its way. Waits
/// for nobody, as whoever changes stacks may wait for the caller.
pub(crate) fn while_none_changes<T>(register: impl FnOnce() -> T) -> Option<T> {
    IS_REGISTERING.store(1, Ordering::SeqCst);
    let registered = (!is_changing()).then(register);
    IS_REGISTERING.store(0, Ordering::SeqCst);
    futex::wake_all(&IS_REGISTERING, false);
    registered
}

/// In a forked child: the threads that were between two steps do not exist here.
pub(crate) fn reset_in_child() {
    CHANGES_IN_FLIGHT.store(0, Ordering::SeqCst);
    IS_REGISTERING.store(0, Ordering::SeqCst);
    // Each step of a change leaves the records usable.
    LOCK.reset_in_child();
}
