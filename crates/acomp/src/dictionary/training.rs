//! Making a dictionary from a sample of pages, in steps of a fraction of a millisecond, and
//! deciding whether it wins.
//!
//! Every other page of the sample is held out: the dictionary is chosen from the rest
//! ([`cover`](super::cover)), and has to compress those held out into fewer bytes than what is in
//! use now, by [`GAIN_PERCENT`]. On heaps of CPython, Redis and node 64 pages to choose from give
//! what 512 give, within 1 %.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use uzswap_sys::PAGE_SIZE;

use super::cover::{Cover, SEGMENT};
use super::{BYTES, Dictionary};
use crate::{Algorithm, Context, zstd};

/// Pages to choose from, and as many held out.
const PAGES: usize = 64;
const SEGMENTS: usize = BYTES / SEGMENT;
/// Bytes of the sample that one segment is chosen from.
const PIECE: usize = PAGES * PAGE_SIZE / SEGMENTS;
/// What a dictionary must save of the held-out pages' bytes to be used.
const GAIN_PERCENT: u64 = 3;

/// How a training ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// This dictionary saves enough.
    Wins(Dictionary),
    /// What is in use is as good, or there can be no more dictionaries.
    Loses,
}

/// A dictionary in the making.
pub struct Training {
    level: i32,
    cover: Cover,
    /// The two halves of the sample.
    chosen_from: Vec<u8>,
    held_out: Vec<u8>,
    /// Steps done.
    at: usize,
    dictionary: Vec<u8>,
    /// What is in use, and what would take its place.
    incumbent: Context,
    candidate: Option<zstd::State>,
    /// Bytes that each makes of the held-out pages.
    incumbent_bytes: u64,
    candidate_bytes: u64,
    block: Box<[u8]>,
}

impl Training {
    /// For zstd at `level`, against the `latest` dictionary, or against none. A block of more than
    /// `block_max` bytes counts as a page.
    pub fn new(level: i32, latest: Option<Dictionary>, block_max: usize) -> Self {
        Self {
            level,
            cover: Cover::new(),
            chosen_from: Vec::with_capacity(PAGES * PAGE_SIZE),
            held_out: Vec::with_capacity(PAGES * PAGE_SIZE),
            at: 0,
            dictionary: Vec::with_capacity(BYTES),
            incumbent: Context::new(Algorithm::ZstdDict {
                level,
                dictionary: latest,
            }),
            candidate: None,
            incumbent_bytes: 0,
            candidate_bytes: 0,
            block: vec![0; block_max].into(),
        }
    }

    /// Pages that the sample lacks.
    pub fn pages_wanted(&self) -> usize {
        2 * PAGES - (self.chosen_from.len() + self.held_out.len()) / PAGE_SIZE
    }

    /// Add a page to the sample, which lacks one.
    pub fn push(&mut self, page: &[u8]) {
        let half = match self.pages_wanted() % 2 {
            0 => &mut self.chosen_from,
            _ => &mut self.held_out,
        };
        half.extend_from_slice(page);
    }

    /// One step, once the sample is complete. `None`: there are more.
    pub fn step(&mut self) -> Option<Verdict> {
        const CHOOSE: usize = PAGES;
        const JUDGE: usize = CHOOSE + SEGMENTS;
        const END: usize = JUDGE + PAGES;
        let at = self.at;
        self.at += 1;
        match at {
            0..CHOOSE => self.cover.count(at as u8 + 1, page(&self.chosen_from, at)),
            CHOOSE..JUDGE => self.choose(at - CHOOSE),
            JUDGE..END => self.judge(at - JUDGE),
            _ => return Some(self.verdict()),
        }
        None
    }

    fn choose(&mut self, piece: usize) {
        let piece = &self.chosen_from[piece * PIECE..][..PIECE];
        self.dictionary
            .extend_from_slice(self.cover.take_best(piece).unwrap_or_default());
    }

    fn judge(&mut self, number: usize) {
        let page = page(&self.held_out, number);
        if self.candidate.is_none() {
            self.candidate = zstd::State::with_dictionary(self.level, &self.dictionary);
        }
        let bytes = |len: Option<usize>| len.unwrap_or(PAGE_SIZE) as u64;
        self.incumbent_bytes += bytes(self.incumbent.compress_page(page, &mut self.block).ok());
        // One byte of a block is the dictionary's number.
        let (_, room) = self.block.split_at_mut(1);
        let candidate = self.candidate.as_mut();
        let len = candidate.and_then(|zstd| zstd.compress(page, room).ok());
        self.candidate_bytes += bytes(len.map(|len| len + 1));
    }

    fn verdict(&mut self) -> Verdict {
        let wins = self.candidate_bytes * 100 < self.incumbent_bytes * (100 - GAIN_PERCENT);
        let dictionary = wins.then(|| Dictionary::add(self.dictionary.as_slice().into()));
        dictionary.flatten().map_or(Verdict::Loses, Verdict::Wins)
    }
}

fn page(pages: &[u8], number: usize) -> &[u8] {
    &pages[number * PAGE_SIZE..][..PAGE_SIZE]
}
