//! What pages hold: one of a few kinds, each with the length that it is compressed to. No page is
//! really compressed: its block names its kind.

use uzswap_mm::page::PAGE_SIZE;

use crate::random::Random;

/// Kinds of pages.
const KINDS: usize = 64;
/// At the front of a block that names a kind.
const MARK: [u8; 4] = *b"kind";
/// Bytes that the engine puts behind each block.
const CHECKSUM: usize = 4;
/// The shortest block: the mark, the kind.
const LEAST: usize = 8;
/// How far blocks are from the mean at most, in parts of it.
const SPREAD: f64 = 0.1;

/// The kinds.
pub(crate) struct Contents {
    pages: Vec<Box<[u8; PAGE_SIZE]>>,
    lens: Vec<usize>,
}

impl Contents {
    /// Pages that are `ratio` times as long as what is stored of them.
    pub(crate) fn new(seed: u64, ratio: f64) -> Self {
        let mut random = Random::new(seed);
        let page = |kind: usize| {
            let mut page = Box::new([0; PAGE_SIZE]);
            for word in page.as_chunks_mut::<8>().0 {
                *word = random.next().to_le_bytes();
            }
            page[..LEAST].copy_from_slice(&(kind as u64).to_le_bytes());
            page
        };
        let mean = PAGE_SIZE as f64 / ratio - CHECKSUM as f64;
        // As many above the mean as below.
        let len = |kind: usize| {
            let off = (kind as f64 + 0.5) / KINDS as f64 * 2.0 - 1.0;
            ((mean * (1.0 + SPREAD * off)) as usize).max(LEAST)
        };
        Self {
            pages: (0..KINDS).map(page).collect(),
            lens: (0..KINDS).map(len).collect(),
        }
    }

    /// What page number `n` holds.
    pub(crate) fn page(&self, n: u64) -> &[u8] {
        let mixed = Random::new(n).next();
        &self.pages[mixed as usize % KINDS][..]
    }

    /// Write the block of a page to `out`. `None`: it is not one of these, or there is no room.
    pub(crate) fn compress(&self, page: &[u8], out: &mut [u8]) -> Option<usize> {
        let kind = u64::from_le_bytes(page.get(..LEAST)?.try_into().ok()?);
        let len = *self.lens.get(usize::try_from(kind).ok()?)?;
        let out = out.get_mut(..len)?;
        out.fill(0);
        out[..4].copy_from_slice(&MARK);
        out[4..LEAST].copy_from_slice(&(kind as u32).to_le_bytes());
        Some(len)
    }

    /// Write the page that a block is of to `out`. `None`: it is not a block of these.
    pub(crate) fn decompress(&self, block: &[u8], out: &mut [u8]) -> Option<usize> {
        let (mark, kind) = (block.get(..4)?, block.get(4..LEAST)?);
        let kind = u32::from_le_bytes(kind.try_into().ok()?) as usize;
        let page = self.pages.get(kind).filter(|_| mark == MARK)?;
        out.get_mut(..PAGE_SIZE)?.copy_from_slice(&page[..]);
        Some(PAGE_SIZE)
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn pages_come_back_and_are_as_long_as_asked() {
        let contents = Contents::new(1, 2.5);
        let (mut block, mut page, mut bytes) = ([0; PAGE_SIZE], [0; PAGE_SIZE], 0);
        for n in 0..2000 {
            let len = contents.compress(contents.page(n), &mut block).unwrap();
            assert_eq!(contents.decompress(&block[..len], &mut page), Some(PAGE_SIZE));
            assert_eq!(page[..], *contents.page(n));
            bytes += len + CHECKSUM;
        }
        let ratio = 2000.0 * PAGE_SIZE as f64 / bytes as f64;
        assert!((ratio - 2.5).abs() < 0.05, "{ratio}");
    }

    #[test]
    fn what_is_no_block_is_refused() {
        let contents = Contents::new(1, 2.0);
        let mut page = [0; PAGE_SIZE];
        assert_eq!(contents.decompress(&[], &mut page), None);
        assert_eq!(contents.decompress(b"kind\xff\xff\xff\xff", &mut page), None);
        assert_eq!(contents.compress(&[0xff; PAGE_SIZE], &mut [0; PAGE_SIZE]), None);
    }
}
