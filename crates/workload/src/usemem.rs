//! Fill memory, read it back, touch it at random: how fast, and is every byte still there?
//!
//! Each thread writes and re-reads its own contiguous share. Random touches go anywhere, so with several threads
//! they meet on the same pages.

use std::time::{Duration, Instant};

use uzswap_workload::heap::{self, PAGE_SIZE, Rng};

use crate::options::{Pass, Usemem};

/// Runs the passes, prints a line for each, and returns how many bad pages they met.
pub(crate) fn run(options: &Usemem) -> u64 {
    heap::prepare();
    let mut memory = Memory::new(options.mib.get() << 20);
    options
        .passes
        .iter()
        .map(|&pass| run_pass(pass, options, memory.pages()))
        .sum()
}

/// Zeroed memory that starts on a page boundary and that nothing has touched yet.
struct Memory {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl Memory {
    fn new(len: usize) -> Self {
        let bytes = vec![0; len + PAGE_SIZE];
        let start = bytes.as_ptr().align_offset(PAGE_SIZE);
        Self { bytes, start, len }
    }

    fn pages(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..][..self.len]
    }
}

fn run_pass(pass: Pass, options: &Usemem, pages: &mut [u8]) -> u64 {
    let mib = pages.len() as f64 / f64::from(1 << 20);
    let start = Instant::now();
    let bad_pages = match pass {
        Pass::Write => write(options, pages),
        Pass::Seq => read_in_order(options, pages),
        Pass::Rand => touch_at_random(options, pages),
    };
    let rate = match pass {
        Pass::Write | Pass::Seq => format!("{:.1} MB/s", mib / start.elapsed().as_secs_f64()),
        Pass::Rand => format!("{:.2} us/touch", touch_us(options, start.elapsed())),
    };
    let name = format!("{pass:?}").to_lowercase();
    println!(
        "{name:5} {:.3} s  {rate}  {bad_pages} bad pages",
        start.elapsed().as_secs_f64()
    );
    bad_pages
}

/// What one touch took, as the thread that made it saw it.
fn touch_us(options: &Usemem, elapsed: Duration) -> f64 {
    elapsed.as_secs_f64() * 1e6 / touches_per_thread(options).max(1) as f64
}

fn touches_per_thread(options: &Usemem) -> u64 {
    options.rand_touches / options.threads.get() as u64
}

fn write(options: &Usemem, pages: &mut [u8]) -> u64 {
    let share_pages = share_pages(options, pages);
    std::thread::scope(|scope| {
        for (thread, share) in pages.chunks_mut(share_pages * PAGE_SIZE).enumerate() {
            let first = (thread * share_pages) as u64;
            scope.spawn(move || {
                for (index, page) in (first..).zip(share.chunks_exact_mut(PAGE_SIZE)) {
                    heap::fill_page(options.seed, index, page);
                }
            });
        }
    });
    0
}

fn read_in_order(options: &Usemem, pages: &[u8]) -> u64 {
    let share_pages = share_pages(options, pages);
    let shares = pages.chunks(share_pages * PAGE_SIZE).enumerate();
    sum_over_threads(shares.map(|(thread, share)| {
        let first = (thread * share_pages) as u64;
        move || {
            let numbered = (first..).zip(share.chunks_exact(PAGE_SIZE));
            numbered
                .filter(|&(index, page)| !heap::page_matches(options.seed, index, page))
                .count() as u64
        }
    }))
}

fn touch_at_random(options: &Usemem, pages: &[u8]) -> u64 {
    let page_count = (pages.len() / PAGE_SIZE) as u64;
    sum_over_threads((0..options.threads.get() as u64).map(|thread| {
        move || {
            let mut rng = Rng::new(options.seed ^ (thread << 32));
            let draws = (0..touches_per_thread(options)).map(|_| rng.below(page_count));
            draws
                .filter(|&index| !heap::page_matches(options.seed, index, page_at(pages, index)))
                .count() as u64
        }
    }))
}

fn share_pages(options: &Usemem, pages: &[u8]) -> usize {
    (pages.len() / PAGE_SIZE).div_ceil(options.threads.get())
}

fn page_at(pages: &[u8], index: u64) -> &[u8] {
    &pages[index as usize * PAGE_SIZE..][..PAGE_SIZE]
}

/// Runs `jobs` on a thread each and adds up what they return.
fn sum_over_threads<F: FnOnce() -> u64 + Send>(jobs: impl Iterator<Item = F>) -> u64 {
    std::thread::scope(|scope| {
        let threads: Vec<_> = jobs.map(|job| scope.spawn(job)).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("a worker does not panic"))
            .sum()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(threads: usize) -> Usemem {
        let line = format!("--mb 3 --threads {threads} --rand-touches 1000");
        let args: Vec<String> = line.split(' ').map(str::to_owned).collect();
        Usemem::parse(&args).unwrap()
    }

    #[test]
    fn finds_what_it_wrote() {
        for threads in [1, 2, 5] {
            assert_eq!(run(&options(threads)), 0);
        }
    }

    #[test]
    fn counts_bad_pages() {
        let options = options(2);
        let mut memory = Memory::new(3 << 20);
        write(&options, memory.pages());
        memory.pages()[5 * PAGE_SIZE + 77] ^= 1;
        memory.pages()[700 * PAGE_SIZE] ^= 1;
        assert_eq!(read_in_order(&options, memory.pages()), 2);
    }
}
