//! The pages to store: heap-like ones, or those of a file.

use std::io::Read;

use uzswap_mm::page::PAGE_SIZE;
use uzswap_workload::heap;

use crate::Failure;
use crate::options::Allocators;

/// Whole pages, one after the other.
pub(crate) struct Corpus(Vec<u8>);

impl Corpus {
    pub(crate) fn new(options: &Allocators) -> Result<Self, Failure> {
        let most = (options.mb as usize) << 20;
        match &options.corpus {
            None => Ok(Self::heap_like(options.seed, most)),
            Some(path) => {
                let name = path.display();
                let bytes = read_at_most(path, most).map_err(|e| Failure::new(format!("--corpus {name}: {e}")))?;
                Self::from_bytes(bytes).ok_or_else(|| {
                    Failure::new(format!("--corpus {name}: must be at least a page of {PAGE_SIZE} bytes"))
                })
            }
        }
    }

    /// `len` bytes of pages as a program's heap holds them.
    pub(crate) fn heap_like(seed: u64, len: usize) -> Self {
        let mut bytes = vec![0; len];
        for (index, page) in (0..).zip(bytes.chunks_exact_mut(PAGE_SIZE)) {
            heap::fill_page(seed, index, page);
        }
        Self(bytes)
    }

    /// A last page that is not whole is left out. `None`: there is no page.
    fn from_bytes(mut bytes: Vec<u8>) -> Option<Self> {
        bytes.truncate(bytes.len() / PAGE_SIZE * PAGE_SIZE);
        (!bytes.is_empty()).then_some(Self(bytes))
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len() / PAGE_SIZE
    }

    pub(crate) fn page(&self, index: usize) -> &[u8] {
        &self.0[index * PAGE_SIZE..][..PAGE_SIZE]
    }
}

fn read_at_most(path: &std::path::Path, most: usize) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(most as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn only_whole_pages_count() {
        assert!(Corpus::from_bytes(vec![1; PAGE_SIZE - 1]).is_none());
        let corpus = Corpus::from_bytes(vec![1; 2 * PAGE_SIZE + 9]).expect("two pages");
        assert_eq!((corpus.len(), corpus.page(1)), (2, &[1; PAGE_SIZE][..]));
    }
}
