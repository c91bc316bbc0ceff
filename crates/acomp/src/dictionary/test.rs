extern crate std;

use alloc::vec;
use alloc::vec::Vec;

use super::{Dictionary, Training, Verdict};
use crate::{Algorithm, Codec, Context, Error};

const PAGE: usize = 4096;
const BLOCK_MAX: usize = 3600;
const RECORD: usize = 48;

struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }
}

/// Pages of which each is different records of the same few hundred: they compress with each other,
/// not by themselves.
fn pages(world: u64, n: usize) -> Vec<Vec<u8>> {
    let records: Vec<Vec<u8>> = {
        let mut noise = Noise(world);
        (0..200).map(|_| noise.bytes(RECORD)).collect()
    };
    let mut noise = Noise(world + 1);
    let mut page = || -> Vec<u8> {
        let mut page = Vec::new();
        while page.len() < PAGE {
            page.extend(&records[noise.next() as usize % records.len()]);
            page.extend([0; 8]);
        }
        page.truncate(PAGE);
        page
    };
    (0..n).map(|_| page()).collect()
}

fn train(latest: Option<Dictionary>, sample: &[Vec<u8>]) -> Verdict {
    let mut training = Training::new(1, latest, BLOCK_MAX);
    for page in sample {
        training.push(page);
    }
    assert_eq!(training.pages_wanted(), 0);
    core::iter::repeat_with(|| training.step())
        .flatten()
        .next()
        .expect("an end")
}

fn dictionary(world: u64) -> Dictionary {
    match train(None, &pages(world, 128)) {
        Verdict::Wins(dictionary) => dictionary,
        Verdict::Loses => panic!("a dictionary of these pages wins"),
    }
}

fn context(dictionary: Dictionary) -> Context {
    Context::new(Algorithm::ZstdDict {
        level: 1,
        dictionary: Some(dictionary),
    })
}

#[test]
#[cfg_attr(miri, ignore = "C, and half a mebibyte of pages to learn from")]
fn blocks_are_shorter_and_read_back_with_their_dictionary_only() {
    let (ours, others) = (dictionary(77), dictionary(78));
    assert_ne!(ours, others);
    let (mut with, mut plain, mut wrong) = (
        context(ours),
        Context::new(Algorithm::Zstd { level: 1 }),
        context(others),
    );
    let page = &pages(77, 130)[129];
    let (mut block, mut back) = (vec![0; PAGE], vec![1; PAGE]);
    let without = plain.compress_page(page, &mut block).unwrap();
    let len = with.compress_page(page, &mut block).unwrap();
    assert!(len * 10 < without * 9, "{len} bytes, {without} without");
    for _ in 0..2 {
        assert!(with.decompress(&block[..len], &mut back));
        assert_eq!(&back, page);
        assert!(!wrong.decompress(&block[..len], &mut back), "another dictionary");
        assert!(!plain.decompress(&block[..len], &mut back), "no dictionary");
        assert!(!with.decompress(&block[..len - 3], &mut back), "cut off");
        assert!(!with.decompress(&[], &mut back), "nothing");
    }
    let noise = Noise(5).bytes(PAGE);
    assert_eq!(with.compress_page(&noise, &mut block[..BLOCK_MAX]), Err(Error::Poor));
}

#[test]
#[cfg_attr(miri, ignore = "C, and half a mebibyte of pages to learn from")]
fn what_does_not_win_is_not_used() {
    let mut noise = Noise(9);
    let random: Vec<Vec<u8>> = (0..128).map(|_| noise.bytes(PAGE)).collect();
    assert_eq!(train(None, &random), Verdict::Loses);
    assert_eq!(train(None, &vec![vec![7; PAGE]; 128]), Verdict::Loses);
    let ours = dictionary(80);
    assert_eq!(
        train(Some(ours), &pages(80, 128)),
        Verdict::Loses,
        "no better than the first"
    );
}

#[test]
fn a_dictionary_that_does_not_exist_is_refused() {
    let codec = Codec::from_bits(15);
    assert_eq!(codec.to_bits(), 15);
    let mut missing = Context::new(codec.algorithm().unwrap());
    assert!(!missing.decompress(&[11, 0, 0], &mut [0; PAGE]));
    assert_eq!(missing.compress_page(&[0; PAGE], &mut [0; PAGE]), Err(Error::Failed));
    for bits in 0..16 {
        assert_eq!(Codec::from_bits(bits).to_bits(), bits);
    }
}
