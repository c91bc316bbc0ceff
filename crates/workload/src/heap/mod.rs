//! A deterministic generator of heap-like pages.
//!
//! Page `index` of seed `seed` is one of the 4096 pages of a fixed 16 MiB corpus, stamped in three
//! places so that no two pages are the same and no page can stand in for another:
//!
//! ```text
//!    0        8                 2048      2056                  4088     4096
//!    | index  |     corpus      | mix      |       corpus       | !mix    |
//!
//!    mix = hash of seed and index
//! ```
//!
//! Copying a corpus page costs a fraction of a microsecond, far less than paging it, so what a
//! benchmark times is the memory and not the generator. Which corpus page is taken depends on seed
//! and index, in aligned runs of [`RUN_PAGES`]: neighbours in memory are of one kind, as in a real
//! heap, and large folios find what they would find there. Zero-filled corpus pages are left
//! unstamped: they must stay recognisable as zero pages.
//!
//! LZ4 at level 1 shrinks these pages to 1 / 2.3, page by page, zero pages included; `corpus.rs`
//! has the figures.

mod corpus;
mod layout;
mod rng;

pub use corpus::RUN_PAGES;
pub use rng::Rng;

/// Bytes in a page.
pub const PAGE_SIZE: usize = 4096;

const MIX_AT: usize = PAGE_SIZE / 2;
const TAIL_AT: usize = PAGE_SIZE - size_of::<u64>();

/// Generates the corpus now (some tens of milliseconds) rather than in the first [`fill_page`].
pub fn prepare() {
    corpus::pages();
}

/// Writes page `index` of `seed` into `page`.
///
/// # Panics
/// If `page` is not [`PAGE_SIZE`] bytes long.
pub fn fill_page(seed: u64, index: u64, page: &mut [u8]) {
    fill_from(corpus::pages(), seed, index, page);
}

/// All template pages.
pub(crate) fn templates() -> &'static [u8] {
    corpus::pages()
}

/// The same with other template pages, of which there are whole runs.
pub(crate) fn fill_from(templates: &[u8], seed: u64, index: u64, page: &mut [u8]) {
    let at = template_index(seed, index, templates.len() / PAGE_SIZE);
    let template = &templates[at * PAGE_SIZE..][..PAGE_SIZE];
    page.copy_from_slice(template);
    if !corpus::is_zero(template) {
        stamp(seed, index, page);
    }
}

/// Whether every byte of `page` is what [`fill_page`] writes for `seed` and `index`.
#[must_use]
pub fn page_matches(seed: u64, index: u64, page: &[u8]) -> bool {
    let mut expected = [0; PAGE_SIZE];
    fill_page(seed, index, &mut expected);
    page == expected
}

fn template_index(seed: u64, index: u64, template_pages: usize) -> usize {
    let run_pages = RUN_PAGES as u64;
    let run_first = rng::mix(seed, index / run_pages) / run_pages * run_pages;
    let template = (run_first + index % run_pages) % template_pages as u64;
    template as usize
}

fn stamp(seed: u64, index: u64, page: &mut [u8]) {
    let mix = rng::mix(seed, index);
    put_word(page, 0, index);
    put_word(page, MIX_AT, mix);
    put_word(page, TAIL_AT, !mix);
}

fn put_word(page: &mut [u8], at: usize, word: u64) {
    page[at..at + size_of::<u64>()].copy_from_slice(&word.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page_of(seed: u64, index: u64) -> Vec<u8> {
        let mut page = vec![0xa5; PAGE_SIZE];
        fill_page(seed, index, &mut page);
        page
    }

    #[test]
    fn a_page_is_a_function_of_seed_and_index() {
        for index in [0, 1, 17, 4096, u64::MAX] {
            assert_eq!(page_of(7, index), page_of(7, index));
            assert!(page_matches(7, index, &page_of(7, index)));
        }
    }

    #[test]
    fn one_changed_bit_is_noticed() {
        let mut page = page_of(1, 2);
        for at in [0, 1000, TAIL_AT, PAGE_SIZE - 1] {
            page[at] ^= 1;
            assert!(!page_matches(1, 2, &page));
            page[at] ^= 1;
        }
        assert!(page_matches(1, 2, &page));
    }

    #[test]
    fn no_page_stands_in_for_another() {
        let pages: Vec<_> = (0..2000)
            .map(|index| page_of(3, index))
            .filter(|page| !corpus::is_zero(page))
            .collect();
        let distinct: std::collections::HashSet<_> = pages.iter().collect();
        assert_eq!(distinct.len(), pages.len());
    }

    #[test]
    fn a_seed_changes_the_contents() {
        let same = (0..1000)
            .filter(|&index| page_of(1, index) == page_of(2, index))
            .count();
        assert!(
            same < 20,
            "{same} of 1000 pages are the same, more than zero pages explain"
        );
    }

    #[test]
    fn a_short_page_does_not_match() {
        assert!(!page_matches(1, 2, &page_of(1, 2)[..100]));
    }
}
