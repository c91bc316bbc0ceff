//! A device that does as each page's script says, and its fallback.

use alloc::vec::Vec;
use alloc::{format, vec};
use core::cell::Cell;

use super::{Counts, each};
use crate::{Algorithm, Codec, Context, Device, Error, Op, Outcome, Request, SCATTER_MAX};

const ALGORITHM: Algorithm = Algorithm::Deflate { level: 1 };
const PAGE: usize = 4096;
const UNIT: usize = 2048;
const DEADLINE: u64 = 100;

/// What the device does with a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    /// Do it, and say so at the so manieth poll.
    Do(usize),
    Poor,
    Leave,
    Never,
    /// Say that it came to this many bytes.
    Claim(usize),
    /// Do it, and flip a bit.
    Flip,
}

/// Does as the acts say, the first for the first page.
struct Script {
    acts: Vec<Act>,
    software: Context,
    results: Vec<Option<(Vec<u8>, Outcome)>>,
    polls: usize,
    cancelled: usize,
}

impl Script {
    fn new(acts: &[Act]) -> Self {
        Self {
            acts: acts.to_vec(),
            software: Context::new(ALGORITHM),
            results: Vec::new(),
            polls: 0,
            cancelled: 0,
        }
    }
}

impl Device for &mut Script {
    fn codec(&self) -> Codec {
        ALGORITHM.codec()
    }

    fn batch_size(&self) -> usize {
        self.acts.len()
    }

    fn submit(&mut self, op: Op, src: &[&[u8]], unit: usize, _: u64) {
        assert!(
            self.results.iter().all(Option::is_none),
            "the request before is under way"
        );
        self.polls = 0;
        self.results.clear();
        for src in src {
            let mut out = vec![0; unit];
            let outcome = match op {
                Op::Compress => self
                    .software
                    .compress_page(src, &mut out)
                    .map_or(Outcome::Poor, Outcome::Done),
                Op::Decompress => match self.software.decompress(src, &mut out) {
                    true => Outcome::Done(unit),
                    false => Outcome::Software,
                },
            };
            self.results.push(Some((out, outcome)));
        }
    }

    fn poll(&mut self, _: u64) {
        self.polls += 1;
    }

    fn collect(&mut self, page: usize, out: &mut [u8]) -> Option<Outcome> {
        let (result, outcome) = self.results[page].as_mut().expect("collected once");
        match self.acts[page] {
            Act::Never => return None,
            Act::Do(polls) if self.polls < polls => return None,
            Act::Do(_) => {}
            Act::Poor => *outcome = Outcome::Poor,
            Act::Leave => *outcome = Outcome::Software,
            Act::Claim(len) => *outcome = Outcome::Done(len),
            Act::Flip => result[7] ^= 1,
        }
        out.copy_from_slice(result);
        self.results[page].take().map(|(_, outcome)| outcome)
    }

    fn cancel(&mut self) {
        self.cancelled += self.results.iter().flatten().count();
        self.results.clear();
    }
}

fn pages(n: usize) -> Vec<Vec<u8>> {
    let page = |n| format!("page {n}, ").bytes().cycle().take(PAGE).collect();
    (0..n).map(page).collect()
}

fn request<'a>(op: Op, src: &'a [&'a [u8]], dst: &'a mut [u8], clock: &'a dyn Fn() -> u64) -> Request<'a> {
    let unit = match op {
        Op::Compress => UNIT,
        Op::Decompress => PAGE,
    };
    Request {
        op,
        src,
        dst,
        unit,
        deadline_ns: DEADLINE,
        clock,
    }
}

/// Compress as many pages as there are acts; for each its block, or why it has none.
fn compress(script: &mut Script) -> (Vec<Result<Vec<u8>, Error>>, Counts) {
    let pages = pages(script.acts.len());
    let src: Vec<&[u8]> = pages.iter().map(Vec::as_slice).collect();
    let (mut dst, now) = (vec![0; src.len() * UNIT], Cell::new(0));
    let clock = || now.replace(now.get() + 1);
    let mut context = Context::with_device(ALGORITHM, Some(script));
    let mut found = vec![None; src.len()];
    context
        .submit(request(Op::Compress, &src, &mut dst, &clock))
        .wait(|i, block, len| {
            assert_eq!(
                found[i].replace(len.map(|len| block[..len].to_vec())),
                None,
                "settled twice"
            );
            true
        });
    let found = found.into_iter().map(|result| result.expect("settled")).collect();
    (found, context.counts())
}

/// Decompress as many pages as there are acts.
fn decompress(script: &mut Script) -> Counts {
    let pages = pages(script.acts.len());
    let mut software = Context::new(ALGORITHM);
    let mut blocks = vec![[0; UNIT]; pages.len()];
    let src: Vec<&[u8]> = pages
        .iter()
        .zip(&mut blocks)
        .map(|(page, block)| {
            let len = software.compress_page(page, block).unwrap();
            &block[..len]
        })
        .collect();
    let (mut dst, now) = (vec![0; src.len() * PAGE], Cell::new(0));
    let clock = || now.replace(now.get() + 1);
    let mut context = Context::with_device(ALGORITHM, Some(script));
    let mut right = 0;
    context
        .submit(request(Op::Decompress, &src, &mut dst, &clock))
        .wait(|i, page, len| {
            let is_right = len == Ok(PAGE) && page == pages[i];
            right += usize::from(is_right);
            is_right
        });
    assert_eq!(right, src.len());
    context.counts()
}

fn is_page(block: &Result<Vec<u8>, Error>, page: &[u8]) -> bool {
    let mut back = vec![0; PAGE];
    let block = block.as_ref().expect("a block");
    Context::new(ALGORITHM).decompress(block, &mut back) && back == page
}

#[test]
fn each_page_is_settled_whatever_the_device_says() {
    let acts = [
        Act::Do(1),
        Act::Leave,
        Act::Do(9),
        Act::Poor,
        Act::Never,
        Act::Claim(UNIT + 1),
        Act::Do(3),
    ];
    let mut script = Script::new(&acts);
    let (blocks, counts) = compress(&mut script);
    for (i, (block, page)) in blocks.iter().zip(pages(acts.len())).enumerate() {
        match acts[i] {
            Act::Poor => assert_eq!(*block, Err(Error::Poor)),
            _ => assert!(is_page(block, &page), "{i}"),
        }
    }
    let expected = Counts {
        pages: 7,
        done: 3,
        poor: 1,
        refused: 1,
        wrong: 1,
        late: 1,
        cancelled: 0,
    };
    assert_eq!((counts, script.cancelled), (expected, 1));
    assert!(counts.is_valid() && counts.fallbacks() == 3);
}

#[test]
fn what_is_decompressed_wrong_is_softwares() {
    let acts = [
        Act::Flip,
        Act::Do(2),
        Act::Claim(PAGE - 1),
        Act::Poor,
        Act::Leave,
        Act::Never,
    ];
    let counts = decompress(&mut Script::new(&acts));
    assert_eq!((counts.done, counts.wrong, counts.refused, counts.late), (1, 2, 2, 1));
    assert!(counts.is_valid(), "{counts:?}");
}

/// No page waits beyond the deadline: the first look after it ends the wait.
#[test]
fn the_deadline_is_kept() {
    let (mut script, now) = (Script::new(&[Act::Never, Act::Leave, Act::Leave]), Cell::new(0));
    let mut context = Context::with_device(ALGORITHM, Some(&mut script));
    let pages = pages(3);
    let src: Vec<&[u8]> = pages.iter().map(Vec::as_slice).collect();
    let mut dst = vec![0; 3 * UNIT];
    let clock = || now.get();
    let mut batch = context.submit(request(Op::Compress, &src, &mut dst, &clock));
    let mut settled = Vec::new();
    let mut poll = |at| {
        now.set(at);
        batch.poll(|i, _, len| {
            settled.push((at, i));
            len.is_ok()
        })
    };
    // While the device has one, software does one at a time.
    assert_eq!([0, 1, 2, DEADLINE - 1].map(&mut poll), [2, 1, 1, 1]);
    assert_eq!(poll(DEADLINE), 0);
    assert_eq!(settled, [(0, 1), (1, 2), (DEADLINE, 0)]);
    drop(batch);
    assert_eq!((context.counts().late, script.cancelled), (1, 1));
}

#[test]
fn a_request_that_is_given_up_is_cancelled() {
    let mut script = Script::new(&[Act::Never; 2]);
    let mut context = Context::with_device(ALGORITHM, Some(&mut script));
    let pages = pages(2);
    let src: Vec<&[u8]> = pages.iter().map(Vec::as_slice).collect();
    let mut dst = vec![0; 2 * UNIT];
    let nothing = |_: usize, _: &mut [u8], _: Result<usize, Error>| unreachable!();
    assert_eq!(
        context
            .submit(request(Op::Compress, &src, &mut dst, &|| 0))
            .poll(nothing),
        2
    );
    context.submit(request(Op::Compress, &src, &mut dst, &|| 0)).cancel();
    core::mem::forget(context.submit(request(Op::Compress, &src, &mut dst, &|| 0)));
    // The device is free for the next request nevertheless.
    let mut done = 0;
    context
        .submit(request(Op::Compress, &src, &mut dst, &|| u64::MAX))
        .wait(|_, _, _| {
            done += 1;
            true
        });
    assert_eq!((done, script.cancelled), (2, 8));
}

#[test]
fn a_context_without_a_device_looks_at_no_clock() {
    let mut context = Context::new(ALGORITHM);
    let pages = pages(SCATTER_MAX);
    let src: Vec<&[u8]> = pages.iter().map(Vec::as_slice).collect();
    let mut dst = vec![0; SCATTER_MAX * UNIT];
    let clock = || unreachable!("nobody waits for a device");
    let mut order = Vec::new();
    let left = context
        .submit(request(Op::Compress, &src, &mut dst, &clock))
        .poll(|i, _, len| {
            order.push(i);
            len.is_ok()
        });
    assert!(left == 0 && order.into_iter().eq(0..SCATTER_MAX));
    assert_eq!((context.counts(), context.batch_size()), (Counts::default(), 1));
}

#[test]
fn the_batch_is_the_devices() {
    let mut script = Script::new(&[Act::Leave; 32]);
    assert_eq!(Context::with_device(ALGORITHM, Some(&mut script)).batch_size(), 32);
}

#[test]
#[should_panic(expected = "zstd:1 is not its fallback")]
fn a_device_has_the_codec_of_its_fallback() {
    Context::with_device(Algorithm::Zstd { level: 1 }, Some(&mut Script::new(&[])));
}

#[test]
#[should_panic(expected = "65 pages: a request has at most 64")]
fn a_request_has_so_many_pages() {
    let mut context = Context::new(ALGORITHM);
    let _ = context.submit(request(Op::Compress, &[[].as_slice(); 65], &mut [], &|| 0));
}

#[test]
#[should_panic(expected = "no room for 2 units of 2048 bytes")]
fn a_request_has_a_unit_for_each_page() {
    let mut context = Context::new(ALGORITHM);
    let mut dst = vec![0; 2 * UNIT - 1];
    let _ = context.submit(request(Op::Compress, &[[].as_slice(); 2], &mut dst, &|| 0));
}

#[test]
fn sets_are_read_in_order() {
    assert!(each(0b1000_0101).eq([0, 2, 7]));
    assert!(each(u64::MAX).eq(0..64) && each(0).next().is_none());
}
