//! Bytes in and out.

use linux_raw_sys::general as nr;

use super::Call;
use crate::arena::Twin;
use crate::play::{Play, w};
use crate::things::FILE;

/// Buffers of a call at most; so many are one too many (UIO_MAXIOV).
const VECTORS: usize = 8;
const MANY_VECTORS: usize = 1025;
/// Calls that the guard does not make in pieces hold all their buffers: no more than twice so much.
const HELD: usize = 2 << 20;
const BAD: Twin = [usize::MAX; 2];

pub(super) const CALLS: &[Call] = &[
    ("read", 30, |p| {
        let (from, len) = (source(p), p.length());
        let buffer = p.output(len);
        p.call(nr::__NR_read, &[from, buffer, w(len)]);
    }),
    ("write", 30, |p| {
        let (to, len) = (sink(p), p.length());
        let buffer = p.output(len);
        p.call(nr::__NR_write, &[to, buffer, w(len)]);
    }),
    ("pread64", 30, |p| {
        let (file, len, at) = (file(p), p.length(), offset(p));
        let buffer = p.output(len);
        p.call(nr::__NR_pread64, &[file, buffer, w(len), at]);
    }),
    ("pwrite64", 30, |p| {
        let (file, len, at) = (file(p), p.length(), offset(p));
        let buffer = p.output(len);
        p.call(nr::__NR_pwrite64, &[file, buffer, w(len), at]);
    }),
    ("readv", 12, |p| {
        let (from, [list, count]) = (source(p), vectors(p));
        p.call(nr::__NR_readv, &[from, list, count]);
    }),
    ("writev", 12, |p| {
        let [list, count] = vectors(p);
        let to = sink_of_list(p);
        p.call(nr::__NR_writev, &[to, list, count]);
    }),
    ("preadv", 12, |p| {
        let (file, [list, count], at) = (file(p), vectors(p), offset(p));
        p.call(nr::__NR_preadv, &[file, list, count, at]);
    }),
    ("pwritev", 12, |p| {
        let (file, [list, count], at) = (file(p), vectors(p), offset(p));
        p.call(nr::__NR_pwritev, &[file, list, count, at]);
    }),
    ("preadv2", 8, |p| {
        let (from, [list, count], at) = (source(p), vectors(p), either(p));
        p.call(nr::__NR_preadv2, &[from, list, count, at]);
    }),
    ("pwritev2", 8, |p| {
        let ([list, count], at) = (vectors(p), either(p));
        let to = sink_of_list(p);
        p.call(nr::__NR_pwritev2, &[to, list, count, at]);
    }),
    // More than the guard holds at a time, seldom with a list that is wrong at its end.
    ("long", 2, |p| {
        let (from, to, file, at) = (source(p), sink(p), file(p), offset(p));
        let len = (2 << 20) + p.below(5 << 20);
        if p.one_in(2) {
            let buffer = p.output(len);
            match p.below(4) {
                0 => p.call(nr::__NR_read, &[from, buffer, w(len)]),
                1 => p.call(nr::__NR_write, &[to, buffer, w(len)]),
                2 => p.call(nr::__NR_pread64, &[file, buffer, w(len), at]),
                _ => p.call(nr::__NR_pwrite64, &[file, buffer, w(len), at]),
            }
            return;
        }
        let (a, b) = (p.output(len / 2), p.output(len / 2));
        let last = if p.one_in(4) { usize::MAX } else { 0 };
        let list = p.words(&[a, w(len / 2), b, w(len / 2), w(last), w(last)]);
        match p.below(4) {
            0 => p.call(nr::__NR_readv, &[from, list, w(3)]),
            1 => {
                let to = sink_of_list(p);
                p.call(nr::__NR_writev, &[to, list, w(3)]);
            }
            2 => p.call(nr::__NR_preadv, &[file, list, w(3), at]),
            _ => p.call(nr::__NR_pwritev, &[file, list, w(3), at]),
        }
    }),
    ("vmsplice", 4, |p| {
        let [list, count] = vectors(p);
        p.call(nr::__NR_vmsplice, &[p.things.spliced(), list, count, w(0)]);
        p.after(|p, _| p.things.compare_spliced());
    }),
    ("sendfile", 6, |p| {
        let (to, from, at) = (sink(p), file(p), place_in_file(p));
        let len = p.length();
        p.call(nr::__NR_sendfile, &[to, from, at, w(len)]);
    }),
    ("splice", 6, |p| {
        let pipe = p.below(2);
        let [out, into] = p.things.pipes[pipe];
        let (file, at, len) = (file(p), place_in_file(p), p.length());
        if p.one_in(2) {
            p.call(nr::__NR_splice, &[file, at, into, w(0), w(len), w(SPLICE_F_NONBLOCK)]);
        } else {
            p.call(nr::__NR_splice, &[out, w(0), file, at, w(len), w(SPLICE_F_NONBLOCK)]);
        }
    }),
    ("copy_file_range", 4, |p| {
        let (from, at, to, other) = (file(p), place_in_file(p), file(p), place_in_file(p));
        let len = p.length();
        p.call(nr::__NR_copy_file_range, &[from, at, to, other, w(len), w(0)]);
    }),
    ("getdents64", 6, |p| list(p, nr::__NR_getdents64)),
    ("getdents", 3, |p| list(p, nr::__NR_getdents)),
    ("getrandom", 4, |p| {
        let len = p.length();
        let buffer = p.loose(len);
        p.call(nr::__NR_getrandom, &[buffer, w(len), w(nr::GRND_NONBLOCK as usize)]);
    }),
];

const SPLICE_F_NONBLOCK: usize = 2;

fn list(p: &mut Play, number: u32) {
    let len = match p.below(3) {
        0 => p.below(100),
        1 => p.below(2000),
        _ => p.below(40_000),
    };
    let buffer = p.output(len);
    p.call(number, &[p.things.listings, buffer, w(len)]);
    p.after(|p, [answer, _]| {
        if answer == 0 {
            p.things.rewind_listings();
        }
        Ok(())
    });
}

pub(super) fn file(p: &mut Play) -> Twin {
    let files = p.things.files.clone();
    if p.one_in(100) { BAD } else { p.pick(&files) }
}

fn anything(p: &mut Play, end: usize) -> Twin {
    let pair = p.below(2);
    match p.below(20) {
        0 => BAD,
        1 => p.things.counters,
        2 => p.things.timers,
        3 => p.things.watches,
        4 => p.things.places,
        5..=6 => p.things.endless[pair],
        7..=9 => p.things.pipes[pair][end],
        10..=12 => p.things.streams[pair].ends[end],
        13..=14 => p.things.datagrams[pair].ends[end],
        _ => file(p),
    }
}

/// Something to read from.
pub(super) fn source(p: &mut Play) -> Twin {
    anything(p, 0)
}

/// Something to write to.
pub(super) fn sink(p: &mut Play) -> Twin {
    anything(p, 1)
}

/// The same, for several buffers. In pieces they fill a pipe or a socket otherwise, so that it
/// takes a little more or less.
fn sink_of_list(p: &mut Play) -> Twin {
    const LONG: usize = 2 << 20;
    if p.planned() > LONG { file(p) } else { sink(p) }
}

/// A place in a file.
fn offset(p: &mut Play) -> Twin {
    match p.below(30) {
        0 => w(usize::MAX),
        1..10 => w(0),
        _ => w(p.below(FILE + 5000)),
    }
}

/// A place in a file, or -1: where it is.
fn either(p: &mut Play) -> Twin {
    if p.one_in(2) { w(usize::MAX) } else { offset(p) }
}

/// Where such a place stands, or nowhere.
fn place_in_file(p: &mut Play) -> Twin {
    let [at, _] = offset(p);
    if p.one_in(4) { w(0) } else { p.input(&at.to_le_bytes()) }
}

/// A list of buffers, and how many.
pub(super) fn vectors(p: &mut Play) -> [Twin; 2] {
    let count = match p.below(40) {
        0 => MANY_VECTORS,
        1..4 => p.below(60),
        _ => p.below(VECTORS),
    };
    let buffers = count.min(60);
    let mut words: Vec<Twin> = Vec::new();
    for _ in 0..buffers {
        let is_any = p.one_in(4) && p.planned() < HELD;
        let len = if is_any { p.length().min(HELD) } else { p.below(300) };
        words.push(p.output(len));
        words.push(w(len));
    }
    [p.words(&words), w(count)]
}
