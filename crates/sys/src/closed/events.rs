//! What the kernel would tell of changes of mappings, told by the threads that make them.

use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use super::Changing;
use crate::futex;
use crate::uffd::Event;

const FREE: u32 = 0;
const TAKEN: u32 = 1;
const POSTED: u32 = 2;

/// A place for an event: what it is, and its three words.
struct Place {
    state: AtomicU32,
    kind: AtomicU32,
    words: [AtomicUsize; 3],
}

const UNMAP: u32 = 0;
const REMOVE: u32 = 1;
const REMAP: u32 = 2;

/// Places: threads change mappings one at a time, but a second may not have waited for its turn.
static EVENTS: [Place; 8] = [const {
    Place {
        state: AtomicU32::new(FREE),
        kind: AtomicU32::new(0),
        words: [const { AtomicUsize::new(0) }; 3],
    }
}; 8];

/// An event that was posted.
pub struct Posted(&'static AtomicU32);

impl Posted {
    /// Whether it was read, after `ns` at most.
    pub fn is_read_within(&self, ns: u64) -> bool {
        if self.0.load(Ordering::Acquire) == POSTED {
            futex::wait(self.0, POSTED, Some(ns), false);
        }
        self.0.load(Ordering::Acquire) != POSTED
    }
}

impl Drop for Posted {
    fn drop(&mut self) {
        self.0.store(FREE, Ordering::Release);
    }
}

/// Tell the fault thread what was changed: `[from, from + len)` was unmapped.
pub fn post_unmap(_: &Changing, start: usize, end: usize) -> Posted {
    post(UNMAP, [start, end, 0])
}

/// It was dropped.
pub fn post_remove(_: &Changing, start: usize, end: usize) -> Posted {
    post(REMOVE, [start, end, 0])
}

/// It is at `to` now.
pub fn post_remap(_: &Changing, from: usize, to: usize, len: usize) -> Posted {
    post(REMAP, [from, to, len])
}

fn post(kind: u32, words: [usize; 3]) -> Posted {
    let take = |place: &&Place| {
        let taken = place
            .state
            .compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed);
        taken.is_ok()
    };
    let place = loop {
        match EVENTS.iter().find(take) {
            Some(place) => break place,
            None => rustix::thread::sched_yield(),
        }
    };
    place.kind.store(kind, Ordering::Relaxed);
    for (to, word) in place.words.iter().zip(words) {
        to.store(word, Ordering::Relaxed);
    }
    place.state.store(POSTED, Ordering::Release);
    Posted(&place.state)
}

/// Whether there are events to read.
pub(crate) fn has_events() -> bool {
    EVENTS.iter().any(|place| place.state.load(Ordering::Acquire) == POSTED)
}

/// Read them. In the fault thread.
pub(crate) fn read_events(mut f: impl FnMut(Event)) {
    for place in EVENTS
        .iter()
        .filter(|place| place.state.load(Ordering::Acquire) == POSTED)
    {
        let [first, second, third] = place.words.each_ref().map(|word| word.load(Ordering::Relaxed));
        f(match place.kind.load(Ordering::Relaxed) {
            UNMAP => Event::Unmap {
                start: first,
                end: second,
            },
            REMOVE => Event::Remove {
                start: first,
                end: second,
            },
            _ => Event::Remap {
                from: first,
                to: second,
                len: third,
            },
        });
        place.state.store(TAKEN, Ordering::Release);
        futex::wake_all(&place.state, false);
    }
}

/// In a forked child.
pub(super) fn reset_in_child() {
    for place in &EVENTS {
        place.state.store(FREE, Ordering::Relaxed);
    }
}
