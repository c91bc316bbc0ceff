//! Any bytes as a compressed block: refused or decompressed, and never a byte beyond the page written.
#![no_main]

use std::cell::RefCell;

use libfuzzer_sys::fuzz_target;
use uzswap_acomp::{Algorithm, Context, Training, Verdict};

const PAGE: usize = 4096;
const GUARD: usize = 256;

thread_local! {
    static CONTEXTS: RefCell<Vec<Context>> = RefCell::new(
        ["lz4", "zstd", "zstd:-3", "deflate", "deflate:6"]
            .into_iter()
            .map(|name| Context::new(Algorithm::parse(name).expect("a name")))
            .chain([with_dictionary()])
            .collect(),
    );
}

/// A dictionary of pages of counters, each from another number on.
fn with_dictionary() -> Context {
    let mut training = Training::new(1, None, 3600);
    while training.pages_wanted() > 0 {
        let first = training.pages_wanted() * 200;
        let page: Vec<u8> = (first..first + PAGE / 8).flat_map(|n| (n * n).to_le_bytes()).collect();
        training.push(&page);
    }
    let dictionary = loop {
        match training.step() {
            Some(Verdict::Wins(dictionary)) => break Some(dictionary),
            Some(Verdict::Loses) => panic!("these pages have half of their numbers in common"),
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
