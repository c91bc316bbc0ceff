//! Any text as a compressor, an allocator or a size: read or refused with a message; what is read
//! is written the same.
#![no_main]
#![allow(dead_code, reason = "modules of the launcher, of which a part is under test")]

use libfuzzer_sys::fuzz_target;
use uzswap_ctl::size::Size;
use uzswap_acomp::Algorithm;
use uzswap_mm::zpool::ZpoolType;


fuzz_target!(|text: &str| {
    match Algorithm::parse(text) {
        Ok(algorithm) => {
            assert_eq!(Algorithm::parse(&algorithm.to_string()), Ok(algorithm));
            assert_eq!(Algorithm::from_word(algorithm.to_word()), algorithm);
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    if let Some(zpool) = ZpoolType::parse(text) {
        assert_eq!(zpool.to_string(), text);
        assert_eq!(ZpoolType::from_word(zpool.to_word()), zpool);
    }
    match text.parse::<Size>() {
        Ok(size) => assert!(!size.to_string().is_empty() && size.exact().parse() == Ok(size)),
        Err(error) => assert!(error.contains(text)),
    }
});
