use alloc::vec;
use alloc::vec::Vec;

use super::codec::{compress, decompress};
use super::{State, WORDS};

/// Room for any page, and more than any takes.
const ROOM: usize = 4096 + 512;

/// splitmix64.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }
}

/// A page of words of every class, as often as `seed` says.
fn page(seed: u64) -> [u8; 4096] {
    let mut rng = Rng(seed);
    let kinds = rng.next();
    let mut words: Vec<u64> = Vec::new();
    while words.len() < 512 {
        let random = rng.next();
        let kind = kinds >> (random % 16 * 4) & 15;
        let before = words.len().checked_sub(1 + (random >> 32) as usize % 300);
        let before = before.map_or(random, |at| words[at]);
        words.push(match kind {
            0..=3 => 0,
            4..=6 => before,
            7..=9 => before & !0xffff | random & 0xffff,
            10 => random & 0xffff,
            11 => random & 0xffff_ffff,
            12 => random << 32,
            13 => random << 32 | before & 0xffff_ffff,
            _ => random,
        });
    }
    let mut page = [0; 4096];
    for (bytes, word) in page.as_chunks_mut::<8>().0.iter_mut().zip(words) {
        *bytes = word.to_le_bytes();
    }
    page
}

fn cases() -> u64 {
    if cfg!(miri) { 8 } else { 2000 }
}

#[test]
fn every_page_comes_back() {
    for seed in 0..cases() {
        let (page, mut out) = (page(seed), vec![0; ROOM]);
        let len = compress(&page, &mut out, usize::MAX).expect("there is room");
        assert!(len <= 4096 + 192 + 8);
        let mut back = [1; 4096];
        assert!(decompress(&out[..len], &mut back), "seed {seed}");
        assert!(back == page, "seed {seed}");
    }
}

#[test]
fn a_page_of_zeros_is_its_list_of_groups() {
    let mut out = vec![0; ROOM];
    assert_eq!(compress(&[0; 4096], &mut out, usize::MAX), Some(8));
}

#[test]
fn what_does_not_fit_is_refused() {
    let mut out = vec![0; ROOM];
    for seed in 0..cases() / 10 {
        let page = page(seed);
        let len = compress(&page, &mut out, usize::MAX).expect("there is room");
        let short = len.saturating_sub(1 + seed as usize % 64);
        assert_eq!(compress(&page, &mut out[..short], usize::MAX), None);
    }
}

/// Noise at first, which says that it is lz4's, then what only words makes small.
#[test]
#[cfg_attr(miri, ignore = "C")]
fn a_page_that_was_given_up_is_tried_again_if_lz4_refuses_it() {
    let mut rng = Rng(3);
    let (mut page, mut out, mut back) = ([0; 4096], [0; 3600], [0; 4096]);
    for (i, word) in page.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        let noise = rng.next();
        *word = if i < 200 { noise } else { noise & 0xffff_ffff }.to_le_bytes();
    }
    let mut state = State::new();
    let len = state.compress(&page, &mut out).expect("it fits");
    assert_eq!((out[0], len < 3100), (WORDS, true), "{len} bytes");
    assert_eq!(State::decompress(&out[..len], &mut back), Some(4096));
    assert!(back == page);
}

#[test]
fn a_damaged_block_is_a_wrong_page_or_none_at_all() {
    let mut rng = Rng(7);
    for seed in 0..cases() {
        let (mut out, mut back) = (vec![0; ROOM], [0; 4096]);
        let len = compress(&page(seed), &mut out, usize::MAX).expect("there is room");
        let at = rng.next() as usize % len;
        out[at] ^= 1 << (rng.next() % 8);
        let _ = decompress(&out[..len], &mut back);
        assert!(
            !decompress(&out[..rng.next() as usize % 11], &mut back),
            "shorter than any"
        );
    }
}
