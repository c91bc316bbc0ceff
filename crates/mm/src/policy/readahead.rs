//! How many pages a fault is worth: one, or more and more while faults follow a pattern.
//!
//! A few streams are remembered, each by what its last fault brought. A fault just above that goes
//! on forward, one just below it backward; a few pages between that are there already do not
//! matter, since whoever went over them did not fault. A fault as far from the last one as that was
//! from the one before goes on in strides. Each doubles the stream's window, up to a maximum; any
//! other fault starts a stream with a window of one page. Windows forward and backward are what is
//! left of naturally aligned folios, so sequential access settles on whole ones; those in strides
//! are pages that lie a stride apart.

use crate::page::{PageRange, Vpn};
use crate::policy::tunables::{STREAMS, Sequence};

/// What a fault may bring: every `step`th page of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    range: PageRange,
    step: u64,
}

impl Window {
    /// The aligned folio around `vpn`.
    pub(crate) fn around(vpn: Vpn, order: u32) -> Self {
        let start = Vpn::new(vpn.number() >> order << order);
        Self::of(PageRange::new(start, 1 << order))
    }

    /// All pages of `range`.
    pub(crate) fn of(range: PageRange) -> Self {
        Self { range, step: 1 }
    }

    /// `pages` pages, a `stride` of pages between two, of which `vpn` is the first.
    fn strided(vpn: Vpn, stride: i64, pages: u64) -> Self {
        let step = stride.unsigned_abs();
        let range = match stride {
            0.. => {
                let above = (pages - 1).min((PageRange::USER.end.number() - 1 - vpn.number()) / step) * step;
                PageRange::new(vpn, above + 1)
            }
            _ => {
                let below = (pages - 1).min(vpn.number() / step) * step;
                PageRange::new(Vpn::new(vpn.number() - below), below + 1)
            }
        };
        Self { range, step }
    }

    /// How many pages.
    pub(crate) fn pages(self) -> u64 {
        self.range.pages().div_ceil(self.step)
    }

    /// The pages that it lies among.
    pub(crate) fn range(self) -> PageRange {
        self.range
    }

    pub(crate) fn holds(self, page: Vpn) -> bool {
        self.range.contains(page) && (page.number() - self.range.start.number()).is_multiple_of(self.step)
    }

    /// Its pages above one of them, nearest first.
    pub(crate) fn above(self, vpn: Vpn) -> impl Iterator<Item = Vpn> {
        (vpn.number()..self.range.end.number())
            .step_by(self.step as usize)
            .skip(1)
            .map(Vpn::new)
    }

    /// Its pages below one of them, nearest first.
    pub(crate) fn below(self, vpn: Vpn) -> impl Iterator<Item = Vpn> {
        let steps = (vpn.number() - self.range.start.number()) / self.step;
        (1..=steps).map(move |n| Vpn::new(vpn.number() - n * self.step))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pattern {
    Forward,
    Backward,
    /// So many pages from one fault to the next: seen once if the order is 0. Not 0.
    Stride(i64),
}

#[derive(Clone, Copy)]
struct Stream {
    /// Its last fault, and what was to be brought then.
    last: Ahead,
    window: Window,
}

/// What a fault is worth.
#[derive(Clone, Copy)]
pub(crate) struct Ahead {
    fault: Vpn,
    stream: usize,
    pattern: Pattern,
    order: u32,
}

impl Ahead {
    /// Whether it follows a pattern.
    pub(crate) fn is_expected(self) -> bool {
        self.order > 0
    }

    /// log2 of the neighbours that it is worth.
    pub(crate) fn folio_order(self) -> u32 {
        match self.pattern {
            Pattern::Forward | Pattern::Backward => self.order,
            Pattern::Stride(_) => 0,
        }
    }

    /// The pages that it is worth from `vpn` on: what was passed is not wanted again.
    pub(crate) fn window(self, vpn: Vpn) -> Window {
        match self.pattern {
            Pattern::Stride(stride) if self.order > 0 => Window::strided(vpn, stride, 1 << self.order),
            Pattern::Forward | Pattern::Backward | Pattern::Stride(_) => {
                let folio = Window::around(vpn, self.order).range;
                Window::of(match self.pattern {
                    Pattern::Backward => PageRange {
                        end: vpn.add(1),
                        ..folio
                    },
                    Pattern::Forward | Pattern::Stride(_) => PageRange { start: vpn, ..folio },
                })
            }
        }
    }
}

/// The recent streams.
pub(crate) struct Streams {
    tunables: &'static Sequence,
    streams: [Option<Stream>; STREAMS],
    hand: usize,
}

impl Streams {
    /// None yet.
    pub(crate) fn new(tunables: &'static Sequence) -> Self {
        Self {
            tunables,
            streams: [None; STREAMS],
            hand: 0,
        }
    }

    /// What a fault on `vpn` is worth, at most `2^max` pages; the caller says with
    /// [`advance`](Self::advance) what it makes of it. `is_there`: whether a page need not be
    /// brought.
    pub(crate) fn follow(&mut self, vpn: Vpn, max: u32, is_there: impl Fn(Vpn) -> bool) -> Ahead {
        let next = self.streams.iter().enumerate().filter_map(|(i, stream)| {
            let stream = (*stream)?;
            let (pattern, order) = stream.goes_on_at(self.tunables, vpn, &is_there)?;
            Some(Ahead {
                fault: vpn,
                stream: i,
                pattern,
                order: order.min(max),
            })
        });
        next.max_by_key(|ahead| ahead.order).unwrap_or_else(|| self.start(vpn))
    }

    /// A fault that continues nothing: it may be the second in strides. What may be the first
    /// stays, as it may be of something else.
    fn start(&mut self, vpn: Vpn) -> Ahead {
        let newest_first = (0..STREAMS).map(|n| self.streams[(self.hand + STREAMS - n) % STREAMS]);
        let stride = newest_first.flatten().find_map(|first| {
            let stride = vpn.number() as i64 - first.last.fault.number() as i64;
            let is_short = (2..=self.tunables.stride_max).contains(&stride.unsigned_abs());
            (first.last.order == 0 && is_short).then_some(stride)
        });
        self.hand = (self.hand + 1) % STREAMS;
        Ahead {
            fault: vpn,
            stream: self.hand,
            pattern: stride.map_or(Pattern::Forward, Pattern::Stride),
            order: 0,
        }
    }

    /// A fault that is worth `ahead` brings the pages of `window` that are not there.
    pub(crate) fn advance(&mut self, ahead: Ahead, window: Window) {
        self.streams[ahead.stream] = Some(Stream { last: ahead, window });
    }

    /// What was to be brought with `vpn` was not: its next fault is worth one page. Every stream
    /// that leads to it goes, whatever is there by then: one that stayed would widen the next try.
    pub(crate) fn narrow(&mut self, vpn: Vpn) {
        for stream in &mut self.streams {
            let leads_to = |stream: &Stream| stream.goes_on_at(self.tunables, vpn, &|_| true).is_some();
            stream.take_if(|stream| stream.window.holds(vpn) || leads_to(stream));
        }
    }
}

impl Stream {
    /// How a fault on `vpn` goes on with it, and what it is worth then, if it does.
    fn goes_on_at(self, tunables: &Sequence, vpn: Vpn, is_there: &impl Fn(Vpn) -> bool) -> Option<(Pattern, u32)> {
        if self.last.order > 0 && self.window.holds(vpn) {
            // Not everything was brought.
            return Some((self.last.pattern, self.last.order));
        }
        let next = |pattern| match pattern == self.last.pattern {
            true => (pattern, self.last.order + 1),
            false => (pattern, 1),
        };
        let gap = (1 << self.last.order) - 1;
        let PageRange { start, end } = self.window.range;
        let passes = |start, end| PageRange { start, end }.iter().all(is_there);
        if vpn >= end && vpn.number() - end.number() <= gap && passes(end, vpn) {
            return Some(next(Pattern::Forward));
        }
        if vpn < start && start.number() - vpn.number() <= gap + 1 && passes(vpn.add(1), start) {
            return Some(next(Pattern::Backward));
        }
        match self.last.pattern {
            Pattern::Stride(stride) if self.is_strides_on(tunables, vpn, stride, is_there) => {
                Some(next(self.last.pattern))
            }
            Pattern::Forward | Pattern::Backward | Pattern::Stride(_) => None,
        }
    }

    /// Whether `vpn` is what comes next in strides.
    fn is_strides_on(self, tunables: &Sequence, vpn: Vpn, stride: i64, is_there: &impl Fn(Vpn) -> bool) -> bool {
        // Of what it brought, the page that is farthest on.
        let farthest = match (self.last.order, stride) {
            (0, _) => self.last.fault.number(),
            (_, 0..) => self.window.range.end.number() - 1,
            _ => self.window.range.start.number(),
        } as i64;
        let ahead = vpn.number() as i64 - farthest;
        let (strides, rest) = (ahead / stride, ahead % stride);
        let is_skipped = |n: i64| is_there(Vpn::new((farthest + n * stride) as u64));
        rest == 0 && (1..=tunables.skip_max as i64).contains(&strides) && (1..strides).all(is_skipped)
    }
}

#[cfg(test)]
mod test {
    use alloc::vec::Vec;

    use super::*;
    use crate::policy::tunables::Tunables;

    const MAX: u32 = 4;
    const SEQUENCE: &Sequence = &Tunables::DEFAULT.sequence;

    /// The windows of faults as long as `next` finds another, each the first page that is not
    /// there.
    fn windows(streams: &mut Streams, faults: usize, next: impl Fn(&dyn Fn(Vpn) -> bool) -> Vpn) -> Vec<Window> {
        let mut there: Vec<Window> = Vec::new();
        for _ in 0..faults {
            let is_there = |page| there.iter().any(|window| window.holds(page));
            let vpn = next(&is_there);
            let ahead = streams.follow(vpn, MAX, is_there);
            let window = ahead.window(vpn);
            streams.advance(ahead, window);
            there.push(window);
        }
        there
    }

    #[test]
    fn faults_in_sequence_get_whole_folios() {
        let forward = |is_there: &dyn Fn(Vpn) -> bool| (0x1000..).map(Vpn::new).find(|page| !is_there(*page)).unwrap();
        let got = windows(&mut Streams::new(SEQUENCE), 8, forward);
        assert_eq!(
            got.iter().map(|window| window.pages()).collect::<Vec<_>>(),
            [1, 1, 2, 4, 8, 16, 16, 16]
        );
        assert!(
            got.iter()
                .all(|window| window.range.start.alignment() >= window.pages().ilog2())
        );
        let backward =
            |is_there: &dyn Fn(Vpn) -> bool| (0..0x1fff).rev().map(Vpn::new).find(|page| !is_there(*page)).unwrap();
        let got = windows(&mut Streams::new(SEQUENCE), 8, backward);
        assert_eq!(
            got.iter().map(|window| window.pages()).collect::<Vec<_>>(),
            [1, 2, 4, 8, 16, 16, 16, 16]
        );
    }

    #[test]
    fn pages_that_are_there_are_passed_over() {
        let mut streams = Streams::new(SEQUENCE);
        let mut fault = |vpn: u64, is_there: &dyn Fn(Vpn) -> bool| {
            let ahead = streams.follow(Vpn::new(vpn), MAX, is_there);
            streams.advance(ahead, ahead.window(Vpn::new(vpn)));
            ahead.order
        };
        let orders = [0x1000, 0x1001, 0x1002, 0x1004].map(|vpn| fault(vpn, &|_| false));
        assert_eq!(orders, [0, 1, 2, 3]);
        assert_eq!(fault(0x100b, &|page| page.number() < 0x100b), 4);
        // What lies between was not there: whoever went over it would have faulted.
        assert_eq!(fault(0x1012, &|_| false), 0);
        // In the window, and was not brought with the others.
        assert_eq!(fault(0x100d, &|_| false), 4);
    }

    #[test]
    fn a_fault_that_was_narrowed_is_worth_one_page() {
        let mut streams = Streams::new(SEQUENCE);
        // Below, above and in strides: three streams lead to one page.
        for vpn in [0x1001, 0x0fff, 0x1020, 0x1010].map(Vpn::new) {
            let ahead = streams.follow(vpn, MAX, |_| false);
            streams.advance(ahead, ahead.window(vpn));
        }
        let vpn = Vpn::new(0x1000);
        assert!(streams.follow(vpn, MAX, |_| false).is_expected());
        streams.narrow(vpn);
        assert!(!streams.follow(vpn, MAX, |_| false).is_expected());
    }

    #[test]
    fn strides_are_followed_both_ways() {
        for stride in [16, -16] {
            let start = 0x4000;
            let next = |is_there: &dyn Fn(Vpn) -> bool| {
                (0..)
                    .map(|n| Vpn::new((start + n * stride) as u64))
                    .find(|page| !is_there(*page))
                    .unwrap()
            };
            let got = windows(&mut Streams::new(SEQUENCE), 7, next);
            assert_eq!(
                got.iter().map(|window| window.pages()).collect::<Vec<_>>(),
                [1, 1, 2, 4, 8, 16, 16],
                "{stride}"
            );
            assert_eq!(got[6].step, 16);
        }
    }

    #[test]
    fn a_window_in_strides_is_some_pages_of_its_range() {
        let window = Window::strided(Vpn::new(100), -8, 4);
        assert_eq!(
            window.range(),
            PageRange {
                start: Vpn::new(76),
                end: Vpn::new(101)
            }
        );
        let near = |pages: &mut dyn Iterator<Item = Vpn>| pages.map(Vpn::number).collect::<Vec<_>>();
        assert_eq!(near(&mut window.below(Vpn::new(100))), [92, 84, 76]);
        assert_eq!(near(&mut window.above(Vpn::new(84))), [92, 100]);
        assert!(window.holds(Vpn::new(84)) && !window.holds(Vpn::new(85)));
        // There is nothing below the first page.
        assert_eq!(Window::strided(Vpn::new(10), -8, 4).range().start, Vpn::new(2));
    }
}
