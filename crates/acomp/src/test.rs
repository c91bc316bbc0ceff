use super::{Algorithm, Context, UnknownAlgorithm};
use alloc::vec;
use alloc::vec::Vec;

const ALL: [&str; 6] = ["lz4", "lz4:9", "zstd", "zstd:-3", "zstd:9", "deflate:6"];

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
fn every_algorithm_gives_the_page_back() {
    for name in ALL {
        let mut ctx = Context::new(Algorithm::parse(name).unwrap());
        let (page, mut out, mut back) = (text_page(), vec![0; 4096], vec![1; 4096]);
        for _ in 0..3 {
            let len = ctx.compress(&page, &mut out).unwrap();
            assert!(len < 1000, "{name}: {len}");
            assert!(ctx.decompress(&out[..len], &mut back), "{name}");
            assert_eq!(back, page, "{name}");
            assert_eq!(ctx.compress(&noise_page(), &mut out[..3600]), None, "{name}");
        }
    }
}

#[test]
fn a_damaged_block_is_refused_or_has_another_length() {
    for name in ALL {
        let mut ctx = Context::new(Algorithm::parse(name).unwrap());
        let mut out = vec![0; 4096];
        let len = ctx.compress(&text_page(), &mut out).unwrap();
        assert!(!ctx.decompress(&out[..len - 3], &mut vec![0; 4096]), "{name}");
    }
}

#[test]
fn names_and_words_round_trip() {
    for name in ALL {
        let algorithm = Algorithm::parse(name).unwrap();
        assert_eq!(Algorithm::from_word(algorithm.to_word()), algorithm);
    }
    assert_eq!(Algorithm::parse("lzo"), Err(UnknownAlgorithm::Name));
    assert_eq!(
        Algorithm::parse("zstd:99"),
        Err(UnknownAlgorithm::Level { min: -7, max: 19 })
    );
    assert_eq!(
        Algorithm::parse("deflate:x"),
        Err(UnknownAlgorithm::Level { min: 1, max: 9 })
    );
}
