//! The fixed pages that every heap page is a stamped copy of.
//!
//! Runs of [`RUN_PAGES`] pages share one kind of [contents](Contents), in the proportions of
//! [`RUNS`]. Those were set by compressing the pages one by one with liblz4 1.9.4, level 1 (a page
//! that does not shrink counts as 4096 bytes). `cargo run --release --example heap_pages` writes
//! pages to repeat that with any compressor.
//!
//! | contents | ratio |
//! |---|---|
//! | objects | 2.12 |
//! | tables | 2.04 |
//! | strings | 3.66 |
//! | records | 2.11 |
//! | numbers | 1.48 |
//! | random | 1.00 |
//! | zero | 158 |
//! | 1.5 GiB, seeds 1 to 4 | 2.29 to 2.30; without zero pages 2.24 |

use std::sync::OnceLock;

use super::PAGE_SIZE;
use super::layout::{self, Contents};
use super::rng::Rng;

/// Pages of one kind that lie together: 64 KiB.
pub const RUN_PAGES: usize = 16;

/// Pages in the corpus: 16 MiB, little beside what is filled from it, much beside a processor's
/// cache.
const CORPUS_PAGES: usize = 4096;

/// How many runs hold what.
const RUNS: [(Contents, usize); 7] = [
    (Contents::Objects, 90),
    (Contents::Tables, 36),
    (Contents::Strings, 65),
    (Contents::Records, 44),
    (Contents::Numbers, 8),
    (Contents::Random, 7),
    (Contents::Zero, 6),
];

const CORPUS_SEED: u64 = 0x7a73_7761_7021;

/// All [`CORPUS_PAGES`] pages.
pub(super) fn pages() -> &'static [u8] {
    static CORPUS: OnceLock<Vec<u8>> = OnceLock::new();
    CORPUS.get_or_init(generate)
}

/// Whether `page` holds nothing but zeros. Stops at the first byte that is not.
pub(super) fn is_zero(page: &[u8]) -> bool {
    page.iter().all(|&byte| byte == 0)
}

fn generate() -> Vec<u8> {
    let mut rng = Rng::new(CORPUS_SEED);
    let mut corpus = vec![0; CORPUS_PAGES * PAGE_SIZE];
    let runs = shuffled_runs(&mut rng);
    for (run, contents) in corpus.chunks_exact_mut(RUN_PAGES * PAGE_SIZE).zip(runs) {
        for page in run.chunks_exact_mut(PAGE_SIZE) {
            layout::write(contents, &mut rng, page);
        }
    }
    corpus
}

fn shuffled_runs(rng: &mut Rng) -> Vec<Contents> {
    let mut runs: Vec<_> = RUNS
        .iter()
        .flat_map(|&(contents, count)| std::iter::repeat_n(contents, count))
        .collect();
    assert_eq!(runs.len() * RUN_PAGES, CORPUS_PAGES);
    for last in (1..runs.len()).rev() {
        let other = rng.below(last as u64 + 1) as usize;
        runs.swap(last, other);
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_pages_are_as_many_as_planned() {
        let zero_pages = pages().chunks_exact(PAGE_SIZE).filter(|page| is_zero(page)).count();
        let planned: usize = RUNS.iter().filter(|run| run.0 == Contents::Zero).map(|run| run.1).sum();
        assert_eq!(zero_pages, planned * RUN_PAGES);
    }

    #[test]
    fn every_corpus_is_the_same() {
        assert_eq!(generate(), generate());
    }
}
