//! Writes heap-like pages to standard output, for trying compressors on: `heap_pages [PAGES
//! [SEED]]`.

use std::io::Write;

use uzswap_workload::heap;

fn main() -> std::io::Result<()> {
    let mut numbers = std::env::args()
        .skip(1)
        .map(|arg| arg.parse().expect("PAGES and SEED are numbers"));
    let pages: u64 = numbers.next().unwrap_or(16_384);
    let seed = numbers.next().unwrap_or(1);
    let mut out = std::io::stdout().lock();
    let mut page = [0; heap::PAGE_SIZE];
    for index in 0..pages {
        heap::fill_page(seed, index, &mut page);
        out.write_all(&page)?;
    }
    Ok(())
}
