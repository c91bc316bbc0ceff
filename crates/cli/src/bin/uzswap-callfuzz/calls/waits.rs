//! Waiting for several, and for words.

use linux_raw_sys::general as nr;

use super::Call;
use super::bytes::{sink, source};
use crate::arena::Twin;
use crate::play::{Play, w};

const MASK: usize = 8;
/// Words of a set of descriptors.
const SET: usize = 16;
const PRIVATE: usize = 128;
const TID_OF_NOBODY: usize = 0;

pub(super) const CALLS: &[Call] = &[
    ("poll", 10, |p| {
        let (list, count) = polled(p);
        let time = w(p.below(2));
        p.call(nr::__NR_poll, &[list, count, time]);
    }),
    ("ppoll", 10, |p| {
        let (list, count) = polled(p);
        let (time, mask) = (p.time(0, 1000), mask(p));
        p.call(nr::__NR_ppoll, &[list, count, time, mask, w(MASK)]);
    }),
    ("select", 8, |p| {
        let ([a, b, c], count) = sets(p);
        let time = p.time(0, 50);
        p.call(nr::__NR_select, &[count, a, b, c, time]);
    }),
    ("pselect6", 8, |p| {
        let ([a, b, c], count) = sets(p);
        let (time, mask) = (p.time(0, 1000), mask(p));
        let mask = if p.one_in(3) { w(0) } else { p.words(&[mask, w(MASK)]) };
        p.call(nr::__NR_pselect6, &[count, a, b, c, time, mask]);
    }),
    ("epoll_ctl", 8, |p| {
        let (what, on) = (1 + p.below(3), if p.one_in(2) { source(p) } else { sink(p) });
        let mut event = (p.below(32) as u32).to_le_bytes().to_vec();
        event.extend(p.random.next_u64().to_le_bytes());
        let event = p.input(&event);
        p.call(nr::__NR_epoll_ctl, &[p.things.epolls, w(what), on, event]);
    }),
    ("epoll_wait", 6, |p| {
        let [events, most] = events(p);
        p.call(nr::__NR_epoll_wait, &[p.things.epolls, events, most, w(0)]);
    }),
    ("epoll_pwait", 6, |p| {
        let ([events, most], mask) = (events(p), mask(p));
        p.call(
            nr::__NR_epoll_pwait,
            &[p.things.epolls, events, most, w(0), mask, w(MASK)],
        );
    }),
    ("epoll_pwait2", 6, |p| {
        let ([events, most], mask, time) = (events(p), mask(p), p.time(0, 1000));
        p.call(
            nr::__NR_epoll_pwait2,
            &[p.things.epolls, events, most, time, mask, w(MASK)],
        );
    }),
    ("futex", 20, futex),
    ("futex_wake", 4, |p| {
        let word = word(p, 7);
        p.call(nr::__NR_futex_wake, &[word, w(1), w(1), w(2 | PRIVATE)]);
    }),
    ("futex_wait", 4, |p| {
        let (word, time) = (word(p, 7), p.time(1, 1000));
        let value = p.pick(&[7, 8, 8]);
        p.call(nr::__NR_futex_wait, &[word, w(value), w(1), w(2 | PRIVATE), time, w(1)]);
    }),
    ("futex_requeue", 4, |p| {
        let words = waited(p, 2);
        p.call(nr::__NR_futex_requeue, &[words, w(0), w(1), w(1)]);
    }),
    ("futex_waitv", 6, |p| {
        let count = 1 + p.below(40);
        let (words, time) = (waited(p, count), p.time(1, 1000));
        p.call(nr::__NR_futex_waitv, &[words, w(count), w(0), time, w(1)]);
    }),
];

fn polled(p: &mut Play) -> (Twin, Twin) {
    let count = match p.below(50) {
        0 => 1 << 21,
        1..5 => p.below(700),
        _ => p.below(12),
    };
    let mut bytes = [Vec::new(), Vec::new()];
    for _ in 0..count.min(700) {
        let (on, events) = (if p.one_in(2) { source(p) } else { sink(p) }, p.below(64) as u16);
        for (bytes, on) in bytes.iter_mut().zip(on) {
            bytes.extend((on as u32).to_le_bytes());
            bytes.extend(u32::from(events).to_le_bytes());
        }
    }
    let [a, b] = &bytes;
    (p.twin_input(a, b), w(count))
}

pub(super) fn mask(p: &mut Play) -> Twin {
    // No signal may come: all are blocked.
    if p.one_in(2) { w(0) } else { p.input(&[0xff; MASK]) }
}

/// Three sets of descriptors that are the same for both.
fn sets(p: &mut Play) -> ([Twin; 3], Twin) {
    let count = p.below(SET * 64);
    let bytes = count.div_ceil(64) * 8;
    let set = |p: &mut Play| {
        if p.one_in(4) {
            return w(0);
        }
        let mut set = vec![0u8; bytes];
        for on in [p.things.endless[0][0], p.things.endless[1][0], p.things.fixed] {
            let (byte, bit) = (on / 8, on % 8);
            if p.one_in(2) && byte < bytes {
                set[byte] |= 1 << bit;
            }
        }
        p.input(&set)
    };
    ([set(p), set(p), set(p)], w(count))
}

fn events(p: &mut Play) -> [Twin; 2] {
    const EVENT: usize = 12;
    let most = p.below(30);
    [p.output(most * EVENT), w(most)]
}

/// A word that threads may wait for.
fn word(p: &mut Play, value: u32) -> Twin {
    // Where it is not aligned the call is refused: not too often.
    loop {
        let word = p.input(&value.to_le_bytes());
        if word[0].is_multiple_of(4) || p.one_in(10) {
            return word;
        }
    }
}

/// An array of `struct futex_waitv`: the last is another than it is said to be.
fn waited(p: &mut Play, count: usize) -> Twin {
    let mut words = Vec::new();
    for n in 0..count {
        let word = word(p, 7);
        words.extend([w(7 + usize::from(n + 1 == count)), word, w(2 | PRIVATE)]);
    }
    p.words(&words)
}

fn futex(p: &mut Play) {
    let (a, b) = (word(p, 7), word(p, 9));
    // FUTEX_WAKE, REQUEUE, CMP_REQUEUE, WAKE_OP, WAKE_BITSET: nobody waits.
    match p.below(8) {
        0 => p.call(nr::__NR_futex, &[a, w(1 | PRIVATE), w(3)]),
        1 => p.call(nr::__NR_futex, &[a, w(3 | PRIVATE), w(1), w(1), b]),
        2 => p.call(nr::__NR_futex, &[a, w(4 | PRIVATE), w(1), w(1), b, w(7)]),
        // Set the other word to 5, or add to it, and compare it with 9.
        3 => {
            let what = p.pick(&[0, 1, 2, 3, 4]) << 28 | 5 << 12 | 9;
            p.call(nr::__NR_futex, &[a, w(5 | PRIVATE), w(1), w(1), b, w(what)]);
        }
        4 => p.call(nr::__NR_futex, &[a, w(10 | PRIVATE), w(1), w(0), w(0), w(3)]),
        // FUTEX_WAIT: of another value, or for a short time.
        5 => {
            let (value, time) = (p.pick(&[7, 8, 8, 8]), p.time(0, 1000));
            p.call(nr::__NR_futex, &[a, w(PRIVATE), w(value), time]);
        }
        // FUTEX_WAIT_BITSET: until a moment that is over.
        6 => {
            let (value, time) = (p.pick(&[7, 8]), p.time(1, 0));
            p.call(nr::__NR_futex, &[a, w(9 | PRIVATE), w(value), time, w(0), w(3)]);
        }
        // FUTEX_LOCK_PI, TRYLOCK_PI, UNLOCK_PI.
        _ => {
            let (free, what) = (word(p, TID_OF_NOBODY as u32), p.pick(&[6, 8, 7]));
            p.call(nr::__NR_futex, &[free, w(what | PRIVATE), w(0), w(0)]);
        }
    }
}
