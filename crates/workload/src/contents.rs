//! Where the pages of a workload come from.

use std::borrow::Cow;
use std::io::Read;
use std::path::Path;

use crate::heap::{self, PAGE_SIZE, RUN_PAGES, Rng};

/// Pages of noise; each page of memory is a stamped copy of one, which is as incompressible.
const NOISE_PAGES: usize = 1024;
/// The most that is read of a file.
const FILE_MAX: u64 = 64 << 20;
/// Where a page that was written to again says so.
const GENERATION_AT: usize = PAGE_SIZE / 4;

/// Pages to fill memory with, each a function of a seed and its index.
#[derive(Clone, Debug)]
pub struct Contents {
    templates: Cow<'static, [u8]>,
}

impl Contents {
    /// As [`heap`] makes them.
    #[must_use]
    pub fn heap() -> Self {
        Self {
            templates: Cow::Borrowed(heap::templates()),
        }
    }

    /// Pages that do not compress.
    #[must_use]
    pub fn random() -> Self {
        let mut rng = Rng::new(0x6e6f_6973_6500);
        let words = (0..NOISE_PAGES * PAGE_SIZE / 8).flat_map(|_| rng.next_u64().to_le_bytes());
        Self {
            templates: Cow::Owned(words.collect()),
        }
    }

    /// Zeros.
    #[must_use]
    pub fn zero() -> Self {
        Self {
            templates: Cow::Owned(vec![0; RUN_PAGES * PAGE_SIZE]),
        }
    }

    /// Those of a file, up to its last whole run of [`RUN_PAGES`] and 64 MiB at most.
    ///
    /// # Errors
    /// If it cannot be read or holds less than one run.
    pub fn file(path: &Path) -> std::io::Result<Self> {
        let mut bytes = Vec::new();
        std::fs::File::open(path)?.take(FILE_MAX).read_to_end(&mut bytes)?;
        bytes.truncate(bytes.len() / (RUN_PAGES * PAGE_SIZE) * RUN_PAGES * PAGE_SIZE);
        if bytes.is_empty() {
            return Err(std::io::Error::other("must hold 64 KiB at least"));
        }
        Ok(Self {
            templates: Cow::Owned(bytes),
        })
    }

    /// Writes page `index` of `seed`, as it is after it was written to `generation` times more,
    /// into `page`.
    ///
    /// # Panics
    /// If `page` is not [`PAGE_SIZE`] bytes long.
    pub fn fill(&self, seed: u64, index: u64, generation: u8, page: &mut [u8]) {
        heap::fill_from(&self.templates, seed, index, page);
        write_again(generation, index, page);
    }

    /// Whether `page` is what [`fill`](Self::fill) writes.
    #[must_use]
    pub fn matches(&self, seed: u64, index: u64, generation: u8, page: &[u8]) -> bool {
        let mut expected = [0; PAGE_SIZE];
        self.fill(seed, index, generation, &mut expected);
        page == expected
    }
}

/// What a write to a page that is there already changes: one word. Generation 0 is the page as it
/// was filled.
pub fn write_again(generation: u8, index: u64, page: &mut [u8]) {
    if generation > 0 {
        let word = (index << 8 | u64::from(generation)).to_le_bytes();
        page[GENERATION_AT..][..8].copy_from_slice(&word);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pages_of_the_heap_are_the_same_here() {
        let mut page = [0; PAGE_SIZE];
        for index in [0, 5, 70_000] {
            Contents::heap().fill(9, index, 0, &mut page);
            assert!(heap::page_matches(9, index, &page));
        }
    }

    #[test]
    fn a_generation_is_noticed() {
        for contents in [Contents::heap(), Contents::random(), Contents::zero()] {
            let mut page = [0; PAGE_SIZE];
            contents.fill(1, 2, 0, &mut page);
            assert!(contents.matches(1, 2, 0, &page) && !contents.matches(1, 2, 1, &page));
            write_again(1, 2, &mut page);
            assert!(contents.matches(1, 2, 1, &page) && !contents.matches(1, 2, 2, &page));
        }
    }

    #[test]
    fn noise_is_no_page_twice() {
        let contents = Contents::random();
        let (mut one, mut two) = ([0; PAGE_SIZE], [0; PAGE_SIZE]);
        contents.fill(1, 1, 0, &mut one);
        contents.fill(1, 2, 0, &mut two);
        assert_ne!(one, two);
    }

    #[test]
    fn a_file_that_is_too_short_is_refused() {
        assert!(Contents::file(Path::new("/dev/null")).is_err());
        assert!(Contents::file(Path::new("/nonexistent")).is_err());
    }
}
