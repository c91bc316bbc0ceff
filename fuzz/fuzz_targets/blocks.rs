//! Any bytes as a compressed block: refused or decompressed, and never a byte beyond the page
//! written.
#![no_main]

use std::cell::RefCell;

use libfuzzer_sys::fuzz_target;
use uzswap_acomp::{Algorithm, Context, Training, Verdict};

const PAGE: usize = 4096;
const GUARD: usize = 256;

thread_local! {
    static CONTEXTS: RefCell<Vec<Context>> = RefCell::new(
        ["lz4", "words", "zstd", "zstd:-3", "deflate", "deflate:6"]
            .into_iter()
            .map(|name| Context::new(Algorithm::parse(name).expect("a name")))
            .chain([with_dictionary()])
            .collect(),
    );
}

/// Noise of 32 bytes: a record of a heap.
fn record(number: usize) -> [u8; 48] {
    let mut bytes = [0; 48];
    let mut x = (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    for byte in &mut bytes[..32] {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        *byte = x as u8;
    }
    bytes
}

/// A dictionary of pages of records that other pages have in another order: they compress with
/// them, not by themselves.
fn with_dictionary() -> Context {
    let mut training = Training::new(1, None, 3600);
    while training.pages_wanted() > 0 {
        let page = training.pages_wanted();
        let records = (0..PAGE / 48 + 1).flat_map(|i| record((page * 31 + i * (page % 7 * 2 + 3)) % 199));
        training.push(&records.take(PAGE).collect::<Vec<u8>>());
    }
    let dictionary = loop {
        match training.step() {
            Some(Verdict::Wins(dictionary)) => break Some(dictionary),
            Some(Verdict::Loses) => panic!("these pages have all of their records in common"),
            None => {}
        }
    };
    Context::new(Algorithm::ZstdDict { level: 1, dictionary })
}

fn decompress(context: &mut Context, block: &[u8]) -> Option<Vec<u8>> {
    let mut room = vec![0xa5; GUARD + PAGE + GUARD];
    let is_intact = context.decompress(block, &mut room[GUARD..GUARD + PAGE]);
    let guards = room[..GUARD].iter().chain(&room[GUARD + PAGE..]);
    assert!(
        guards.into_iter().all(|byte| *byte == 0xa5),
        "{} writes beyond its page",
        context.algorithm()
    );
    is_intact.then(|| room[GUARD..GUARD + PAGE].to_vec())
}

fuzz_target!(|bytes: &[u8]| {
    let Some((which, block)) = bytes.split_first() else {
        return;
    };
    CONTEXTS.with_borrow_mut(|contexts| {
        let n = contexts.len();
        let context = &mut contexts[usize::from(*which) % n];
        // A context that met a damaged block, or made one, must be as good as new.
        if let Some(page) = decompress(context, block) {
            let mut out = vec![0; PAGE];
            if let Ok(len) = context.compress_page(&page, &mut out) {
                assert!(decompress(context, &out[..len]).is_some_and(|back| back == page));
            }
        }
        let mut page = block.to_vec();
        page.resize(PAGE, *which);
        let mut out = vec![0; PAGE];
        if let Ok(len) = context.compress_page(&page, &mut out) {
            assert!(decompress(context, &out[..len]).is_some_and(|back| back == page));
        }
    });
});
