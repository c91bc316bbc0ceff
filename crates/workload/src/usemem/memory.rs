//! The memory that is used, and its shares.

use std::time::{Duration, Instant};

use super::pass::Pass;
use crate::contents::{Contents, write_again};
use crate::heap::{PAGE_SIZE, Rng};
use crate::latency::Histogram;

/// Memory that starts on a page boundary and that nothing has touched yet, and how often each page
/// was written again.
pub(crate) struct Memory {
    bytes: Vec<u8>,
    start: usize,
    generations: Vec<u8>,
}

/// Pages that one thread goes over.
pub(crate) struct Share<'a> {
    /// Index of its first page.
    first: usize,
    bytes: &'a mut [u8],
    generations: &'a mut [u8],
}

/// What going over a share came to.
#[derive(Default)]
pub(crate) struct Outcome {
    pub(crate) touches: u64,
    pub(crate) bad_pages: u64,
    pub(crate) touch_ns: Histogram,
}

impl Outcome {
    pub(crate) fn merge(&mut self, other: &Self) {
        self.touches += other.touches;
        self.bad_pages += other.bad_pages;
        self.touch_ns.merge(&other.touch_ns);
    }
}

impl Memory {
    pub(crate) fn new(pages: usize) -> Self {
        let bytes = vec![0; (pages + 1) * PAGE_SIZE];
        let start = bytes.as_ptr().align_offset(PAGE_SIZE);
        Self {
            bytes,
            start,
            // Not zeroed lazily: it is not to fault while touches are timed.
            generations: vec![1; pages],
        }
    }

    fn pages(&self) -> usize {
        self.generations.len()
    }

    /// One contiguous share for each of `threads`.
    pub(crate) fn shares(&mut self, threads: usize) -> Vec<Share<'_>> {
        let (pages, start) = (self.pages(), self.start);
        let share_pages = pages.div_ceil(threads);
        let bytes = self.bytes[start..][..pages * PAGE_SIZE].chunks_mut(share_pages * PAGE_SIZE);
        let generations = self.generations.chunks_mut(share_pages);
        let numbered = (0..).step_by(share_pages).zip(bytes.zip(generations));
        numbered
            .map(|(first, (bytes, generations))| Share {
                first,
                bytes,
                generations,
            })
            .collect()
    }
}

impl Share<'_> {
    fn page(&mut self, page: usize) -> &mut [u8] {
        &mut self.bytes[page * PAGE_SIZE..][..PAGE_SIZE]
    }

    /// Fill every page.
    pub(crate) fn fill(&mut self, contents: &Contents, seed: u64) -> Outcome {
        let mut outcome = Outcome::default();
        self.generations.fill(0);
        for at in 0..self.generations.len() {
            let index = (self.first + at) as u64;
            let page = self.page(at);
            outcome.touch_ns.record(timed_write(page));
            contents.fill(seed, index, 0, page);
            outcome.touches += 1;
        }
        outcome
    }

    /// Touch and check pages as `pass` says, `touches` of them if it is at random.
    pub(crate) fn go_over(
        &mut self,
        pass: &Pass,
        number: u64,
        contents: &Contents,
        seed: u64,
        touches: u64,
    ) -> Outcome {
        let mut outcome = Outcome::default();
        let mut rng = Rng::new(seed ^ (number << 56) ^ ((self.first as u64) << 16));
        let draws_seed = rng.next_u64();
        let pages = self.generations.len();
        for unit in pass.units(pages, touches, draws_seed) {
            let is_write = rng.below(100) < pass.write_percent;
            let first = unit * pass.unit_pages;
            for at in first..(first + pass.unit_pages).min(pages) {
                self.touch(at, is_write, contents, seed, &mut outcome);
            }
        }
        outcome
    }

    fn touch(&mut self, at: usize, is_write: bool, contents: &Contents, seed: u64, outcome: &mut Outcome) {
        let (index, generation) = ((self.first + at) as u64, self.generations[at]);
        let page = self.page(at);
        outcome
            .touch_ns
            .record(if is_write { timed_write(page) } else { timed_read(page) });
        outcome.touches += 1;
        outcome.bad_pages += u64::from(!contents.matches(seed, index, generation, page));
        if is_write {
            let next = generation.checked_add(1).unwrap_or(1);
            write_again(next, index, page);
            self.generations[at] = next;
        }
    }
}

/// How long the first access takes. The black boxes keep it between the two looks at the clock.
fn timed_read(page: &[u8]) -> Duration {
    let began = Instant::now();
    std::hint::black_box(std::hint::black_box(page)[0]);
    began.elapsed()
}

/// The same for an access that writes what is there already.
fn timed_write(page: &mut [u8]) -> Duration {
    let began = Instant::now();
    let page = std::hint::black_box(page);
    page[0] = std::hint::black_box(page[0]);
    began.elapsed()
}
