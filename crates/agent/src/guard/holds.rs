//! Memory that system calls under way reach: it stays until they are over.
//!
//! A thread of the program, at a call:
//! 1. publishes what the call reaches;
//! 2. fence;
//! 3. waits while pages are on the move, and then looks at the words: what is there stays.
//!
//! A thread of the pager, under the engine's lock:
//! 1. says that pages are on the move;
//! 2. fence;
//! 3. looks at what is held, and passes over that;
//! 4. moves the others, publishes their words, and says that nothing moves any more.
//!
//! So either the pager sees the hold, or the call sees the word.
//!
//! A place belongs to a call, not to a thread: nothing has to be known of threads. A handler of a
//! signal that leaves a call by siglongjmp, or a thread that is cancelled, leaves its place taken,
//! and what it reached stays. The next call whose frame lies where its frame was has the place:
//! two that go on do not share one.

use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};

use uzswap_mm::page::{PAGE_SIZE, PageRange};
use uzswap_sys::futex;

/// Places, in groups that a word of bits tells about. As a rule the first of them suffice.
const GROUPS: usize = 512;
const FIRST_GROUPS: usize = 64;
const PLACES: usize = 32;
/// Extents that a place holds; more are joined with their nearest.
const EXTENTS: usize = 64;
/// How long a call sleeps before it looks again whether pages are on the move.
const LOOK_NS: u64 = 1_000_000;
/// Looks before that: a move takes some microseconds.
const SPINS: u32 = 200;

struct Place {
    /// Where the call keeps what lies on its stack until it is over; 0: not known.
    frame: AtomicUsize,
    count: AtomicUsize,
}

/// What a place holds: the first byte, and the end.
type Extents = [[AtomicUsize; 2]; EXTENTS];

impl Place {
    /// Hold this as well. What touches what is held is one with it; where all extents are used, so
    /// is what lies between this and the nearest.
    fn add(&self, extents: &Extents, start: usize, end: usize) {
        let count = self.count.load(Ordering::Relaxed);
        let distance = |[first, limit]: &[AtomicUsize; 2]| {
            let (first, limit) = (first.load(Ordering::Relaxed), limit.load(Ordering::Relaxed));
            first.saturating_sub(end).max(start.saturating_sub(limit))
        };
        let nearest = extents[..count].iter().min_by_key(|extent| distance(extent));
        let widened = nearest.filter(|extent| count == EXTENTS || distance(extent) == 0);
        if let Some([first, limit]) = widened {
            first.fetch_min(start, Ordering::Release);
            limit.fetch_max(end, Ordering::Release);
        } else if let Some([first, limit]) = extents.get(count) {
            first.store(start, Ordering::Relaxed);
            limit.store(end, Ordering::Relaxed);
            self.count.store(count + 1, Ordering::Release);
        }
    }
}

/// Groups that were ever needed: nobody looks at others.
static USED: AtomicUsize = AtomicUsize::new(FIRST_GROUPS);
static IS_TAKEN: [AtomicU32; GROUPS] = [const { AtomicU32::new(0) }; GROUPS];
static HELD: [[Place; PLACES]; GROUPS] = [const {
    [const {
        Place {
            frame: AtomicUsize::new(0),
            count: AtomicUsize::new(0),
        }
    }; PLACES]
}; GROUPS];
/// Apart from the places: a forked child looks at all of those.
static EXTENTS_HELD: [[Extents; PLACES]; GROUPS] =
    [const { [const { [const { [const { AtomicUsize::new(0) }; 2] }; EXTENTS] }; PLACES] }; GROUPS];
/// Forks since the first process: a call of before one holds nothing behind it, in the child.
static GENERATION: AtomicUsize = AtomicUsize::new(0);
/// Of a token, what says which place; above it, the generation.
const PLACE_BITS: u32 = 16;
const GENERATIONS: usize = 1 << 16;
/// Calls that found no place: nothing moves while there are any.
static WITHOUT: AtomicU64 = AtomicU64::new(0);
/// Pages are on the move, under the engine's lock.
pub(super) static IS_MOVING: AtomicU32 = AtomicU32::new(0);
/// Pages that were copied are being dropped, by the one thread that copies.
pub(super) static IS_DROPPING: AtomicU32 = AtomicU32::new(0);

/// What one call holds: a place, from 1 on, and the generation. Not a guard that drops: it lies in
/// a word of the call.
#[derive(Clone, Copy)]
pub(super) struct Hold(usize);

const _: () = assert!(GROUPS * PLACES + 1 < 1 << PLACE_BITS);

impl Hold {
    /// A hold of nothing yet. `near`: an address on the calling thread's stack, so that threads
    /// seldom meet. `frame`: as in [`Place`].
    pub(super) fn take(near: usize, frame: usize) -> Self {
        let first = (near >> 14).wrapping_mul(0x9e37_79b9) >> 8;
        let first = (0..FIRST_GROUPS).map(|n| (first + n) % FIRST_GROUPS);
        for group in first.chain(FIRST_GROUPS..GROUPS) {
            if group >= FIRST_GROUPS {
                // Before a place of it is taken.
                USED.fetch_max(group + 1, Ordering::SeqCst);
            }
            let taken = &IS_TAKEN[group];
            let mut bits = taken.load(Ordering::Relaxed);
            if let Some(left) = left_by(group, bits, frame) {
                return left;
            }
            while bits != u32::MAX {
                let place = bits.trailing_ones();
                match taken.compare_exchange_weak(bits, bits | 1 << place, Ordering::SeqCst, Ordering::Relaxed) {
                    Ok(_) => {
                        HELD[group][place as usize].frame.store(frame, Ordering::Relaxed);
                        return Self::in_generation(1 + group * PLACES + place as usize);
                    }
                    Err(now) => bits = now,
                }
            }
        }
        WITHOUT.fetch_add(1, Ordering::SeqCst);
        Self::in_generation(1 + GROUPS * PLACES)
    }

    fn in_generation(place: usize) -> Self {
        Self(place | (GENERATION.load(Ordering::Relaxed) % GENERATIONS) << PLACE_BITS)
    }

    /// The one that a word of a call names. `None`: 0, or it was the parent's call, which a handler
    /// of a signal forked in: its place may be another's here.
    pub(super) fn of(token: usize) -> Option<Self> {
        let is_own = token >> PLACE_BITS == GENERATION.load(Ordering::Relaxed) % GENERATIONS;
        (token != 0 && is_own).then_some(Self(token))
    }

    /// Not 0.
    pub(super) fn token(self) -> usize {
        self.0
    }

    fn number(self) -> usize {
        (self.0 & ((1 << PLACE_BITS) - 1)) - 1
    }

    fn place(self) -> Option<&'static Place> {
        let n = self.number();
        HELD.get(n / PLACES).map(|group| &group[n % PLACES])
    }

    /// Hold `[start, end)` as well. What of it is there when this returns stays.
    pub(super) fn add(self, start: usize, end: usize) {
        self.publish(start, end);
        wait_for_moves();
    }

    /// As [`add`](Self::add), of what is not on the move.
    fn publish(self, start: usize, end: usize) {
        if let Some(place) = self.place() {
            let n = self.number();
            place.add(&EXTENTS_HELD[n / PLACES][n % PLACES], start, end);
        }
        fence(Ordering::SeqCst);
    }

    /// Let go.
    pub(super) fn release(self) {
        let n = self.number();
        let Some(place) = self.place() else {
            WITHOUT.fetch_sub(1, Ordering::SeqCst);
            return;
        };
        place.count.store(0, Ordering::Release);
        place.frame.store(0, Ordering::Relaxed);
        IS_TAKEN[n / PLACES].fetch_and(!(1 << (n % PLACES)), Ordering::Release);
    }
}

/// What another process reaches, held by the fault thread. That waits for no move: who drops what
/// it copied waits for the fault thread.
pub(crate) struct HeldForOther(Hold);

impl HeldForOther {
    /// `[start, end)` stays, but for what is on the move ([`has_settled`](Self::has_settled)).
    pub(crate) fn begin(start: usize, end: usize) -> Self {
        let hold = Hold::take(start, 0);
        hold.publish(start, end);
        Self(hold)
    }

    /// Whether nothing is: from then on what is there stays.
    pub(crate) fn has_settled(&self) -> bool {
        [&IS_MOVING, &IS_DROPPING]
            .iter()
            .all(|moves| moves.load(Ordering::SeqCst) == 0)
    }
}

impl Drop for HeldForOther {
    fn drop(&mut self) {
        self.0.release();
    }
}

/// The place, of the taken ones of a group, of a call whose frame was there: it is over, as that is
/// the caller's now. It holds nothing any more.
fn left_by(group: usize, taken: u32, frame: usize) -> Option<Hold> {
    if frame == 0 {
        return None;
    }
    let is_left = |place: &usize| taken & 1 << place != 0 && HELD[group][*place].frame.load(Ordering::Relaxed) == frame;
    let place = (0..PLACES).find(is_left)?;
    HELD[group][place].count.store(0, Ordering::Release);
    Some(Hold::in_generation(1 + group * PLACES + place))
}

fn wait_for_moves() {
    for moves in [&IS_MOVING, &IS_DROPPING] {
        let mut spins = 0;
        while moves.load(Ordering::SeqCst) != 0 {
            if spins < SPINS {
                spins += 1;
                core::hint::spin_loop();
            } else {
                futex::wait(moves, 1, Some(LOOK_NS), false);
            }
        }
    }
}

/// Pages are on the move from now on.
pub(super) fn begin(moves: &AtomicU32) {
    moves.store(1, Ordering::SeqCst);
    fence(Ordering::SeqCst);
}

/// Words say where they are.
pub(super) fn end(moves: &AtomicU32) {
    if moves.load(Ordering::Relaxed) != 0 {
        moves.store(0, Ordering::SeqCst);
        futex::wake_all(moves, false);
    }
}

/// The first page of `run` that a call holds. To be asked after [`begin`].
pub(super) fn first_held(run: PageRange) -> Option<u64> {
    if WITHOUT.load(Ordering::SeqCst) > 0 {
        return Some(0);
    }
    let (start, mut first) = (run.start.addr(), None);
    each_held(start, run.end.addr(), |from, _| {
        first = Some(first.map_or(from, |first: usize| first.min(from)));
    });
    first.map(|first| ((first - start) / PAGE_SIZE) as u64)
}

/// What calls hold of `[start, end)`, whole pages: those that do not know yet what was said before.
pub(super) fn for_each_held(start: usize, end: usize, found: impl FnMut(usize, usize)) {
    fence(Ordering::SeqCst);
    each_held(start, end, found);
}

fn each_held(start: usize, end: usize, mut found: impl FnMut(usize, usize)) {
    let used = USED.load(Ordering::SeqCst);
    for ((taken, group), extents) in IS_TAKEN.iter().zip(&HELD).zip(&EXTENTS_HELD).take(used) {
        let mut bits = taken.load(Ordering::SeqCst);
        while bits != 0 {
            let n = bits.trailing_zeros() as usize;
            bits &= bits - 1;
            let count = group[n].count.load(Ordering::Acquire).min(EXTENTS);
            for [from, to] in &extents[n][..count] {
                let (from, to) = (from.load(Ordering::Acquire), to.load(Ordering::Acquire));
                if from < end && start < to {
                    found(from.max(start), to.min(end));
                }
            }
        }
    }
}

/// In a forked child: the calls of other threads are not here, and nothing moves.
///
/// Both words are looked at, as the kernel copies their pages at two moments. A count that is 0 is
/// not written: its page would be memory of this child's own from then on.
pub(super) fn reset_in_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
    for (taken, group) in IS_TAKEN.iter().zip(&HELD).take(USED.load(Ordering::Relaxed)) {
        let counted = group.iter().filter(|place| place.count.load(Ordering::Relaxed) != 0);
        counted.for_each(|place| place.count.store(0, Ordering::Relaxed));
        taken.store(0, Ordering::Relaxed);
    }
    WITHOUT.store(0, Ordering::Relaxed);
    IS_DROPPING.store(0, Ordering::Relaxed);
    IS_MOVING.store(0, Ordering::Release);
}
