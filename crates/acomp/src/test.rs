use super::{Algorithm, Compressor, Context, Error, Op, Request, UnknownAlgorithm};
extern crate std;

use alloc::vec;
use alloc::vec::Vec;

const ALL: [&str; 10] = [
    "lz4",
    "words",
    "lz4:9",
    "zstd",
    "zstd:-3",
    "zstd:9",
    "zstd-dict",
    "deflate:6",
    "deflate-iaa",
    "deflate-iaa:dynamic",
];

/// Those of [`ALL`] that run: Miri runs no C.
fn that_run() -> impl Iterator<Item = &'static str> {
    ALL.into_iter()
        .filter(|name| !cfg!(miri) || name.starts_with("deflate"))
}

fn text_page() -> Vec<u8> {
    b"{\"name\":\"page\",\"refcount\":1}, "
        .iter()
        .copied()
        .cycle()
        .take(4096)
        .collect()
}

/// xorshift bytes: nothing compresses these.
fn noise_page() -> Vec<u8> {
    let mut x = 0x9e37_79b9_7f4a_7c15_u64;
    (0..4096)
        .map(|_| {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            x as u8
        })
        .collect()
}

#[test]
fn a_page_that_does_not_compress_is_no_error_of_its_batch() {
    for name in that_run() {
        let mut ctx = Context::new(Algorithm::parse(name).unwrap());
        let (text, noise) = (text_page(), noise_page());
        let mut out = vec![0; 3 * 3600];
        let mut results = Vec::new();
        let request = Request {
            op: Op::Compress,
            src: &[&text, &noise, &text],
            dst: &mut out,
            unit: 3600,
            deadline_ns: 0,
            clock: &|| unreachable!("nobody waits for a device"),
        };
        ctx.submit(request).wait(|i, _, outcome| {
            results.push((i, outcome));
            true
        });
        assert_eq!(results[1], (1, Err(Error::Poor)), "{name}");
        for i in [0, 2] {
            let mut back = vec![1; 4096];
            let len = results[i].1.unwrap();
            assert!(ctx.decompress(&out[i * 3600..i * 3600 + len], &mut back), "{name}");
            assert_eq!(back, text, "{name}");
        }
    }
}

#[test]
fn every_algorithm_gives_the_page_back() {
    for name in that_run() {
        let mut ctx = Context::new(Algorithm::parse(name).unwrap());
        let (page, mut out, mut back) = (text_page(), vec![0; 4096], vec![1; 4096]);
        for _ in 0..3 {
            let len = ctx.compress_page(&page, &mut out).unwrap();
            assert!(len < 1000, "{name}: {len}");
            assert!(ctx.decompress(&out[..len], &mut back), "{name}");
            assert_eq!(back, page, "{name}");
        }
    }
}

#[test]
fn a_damaged_block_is_refused_or_has_another_length() {
    for name in that_run() {
        let mut ctx = Context::new(Algorithm::parse(name).unwrap());
        let mut out = vec![0; 4096];
        let len = ctx.compress_page(&text_page(), &mut out).unwrap();
        assert!(!ctx.decompress(&out[..len - 3], &mut vec![0; 4096]), "{name}");
    }
}

#[test]
fn names_and_words_round_trip() {
    for name in ALL {
        let algorithm = Algorithm::parse(name).unwrap();
        assert_eq!(Algorithm::from_word(algorithm.to_word()), algorithm);
    }
    for name in [
        "lz4-parallel",
        "zstd-parallel:3",
        "zstd-dict:1",
        "zstd-dict-parallel:3",
        "deflate:1",
        "words-parallel",
        "deflate-iaa",
        "deflate-iaa:dynamic",
        "words",
        "lz4",
        "lz4:7",
    ] {
        let compressor = Compressor::parse(name).unwrap();
        assert_eq!(Compressor::from_word(compressor.to_word()), compressor);
        assert_eq!(std::string::ToString::to_string(&compressor), name);
    }
    assert_eq!(
        Compressor::parse("lz4:1-parallel").err(),
        Some(UnknownAlgorithm::Level { min: 1, max: 65 })
    );
    assert_eq!(Algorithm::parse("words:1"), Err(UnknownAlgorithm::NoLevels));
    assert_eq!(Algorithm::parse("lzo"), Err(UnknownAlgorithm::Name));
    let fixed = Algorithm::parse("deflate-iaa:fixed");
    assert_eq!(fixed, Algorithm::parse("deflate-iaa"));
    assert_eq!(Algorithm::parse("deflate-iaa:9"), Err(UnknownAlgorithm::Codes));
    assert_eq!(Algorithm::parse("deflate-iaa:canned"), Err(UnknownAlgorithm::Canned));
    assert_eq!(Compressor::parse("deflate-iaa-parallel"), Err(UnknownAlgorithm::Name));
    assert_eq!(
        Algorithm::parse("zstd:99"),
        Err(UnknownAlgorithm::Level { min: -7, max: 19 })
    );
    assert_eq!(
        Algorithm::parse("deflate:x"),
        Err(UnknownAlgorithm::Level { min: 1, max: 9 })
    );
}
