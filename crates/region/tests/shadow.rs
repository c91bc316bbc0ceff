//! Every page reads back as it was written, whatever the limit, by several threads.

mod common;

use uzswap_region::{Region, Settings, stats};

const PAGE: usize = 4096;
const LEN: usize = 208 << 20;
const THREADS: usize = 4;

/// xorshift64*.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
}

/// Contents of all kinds: zeros, one word, words of a heap, noise, and a byte here and there.
fn write(page: &mut [u8], random: &mut Random) {
    match random.below(8) {
        0 => page.fill(0),
        1 => page.fill(random.next() as u8),
        2 => page.iter_mut().for_each(|byte| *byte = random.next() as u8),
        3..6 => {
            let base = random.next() & 0x7fff_ffff_f000;
            for word in page.chunks_exact_mut(8) {
                let value = if random.below(3) == 0 {
                    base + random.below(4096) as u64
                } else {
                    random.below(64) as u64
                };
                word.copy_from_slice(&value.to_ne_bytes());
            }
        }
        _ => page[random.below(PAGE)] ^= 1 + random.below(255) as u8,
    }
}

fn work(pages: &mut [&mut [u8]], shadow: &mut [&mut [u8]], operations: usize, seed: u64) {
    let mut random = Random(seed);
    let mut at = 0;
    for operation in 0..operations {
        // Some in sequence.
        at = if operation % 64 < 16 {
            (at + 1) % pages.len()
        } else {
            random.below(pages.len())
        };
        assert!(
            *pages[at] == *shadow[at],
            "thread {seed}, operation {operation}, page {at}"
        );
        if random.below(3) > 0 {
            write(shadow[at], &mut random);
            pages[at].copy_from_slice(shadow[at]);
        }
    }
    for (at, (page, shadow)) in pages.iter().zip(shadow).enumerate() {
        assert!(**page == **shadow, "thread {seed}, at the end, page {at}");
    }
}

/// Pages in turn to each thread.
fn deal(bytes: &mut [u8]) -> Vec<Vec<&mut [u8]>> {
    let mut hands: Vec<Vec<_>> = (0..THREADS).map(|_| Vec::new()).collect();
    for (i, page) in bytes.chunks_mut(PAGE).enumerate() {
        hands[(i / 3) % THREADS].push(page);
    }
    hands
}

fn operations() -> usize {
    std::env::var("UZSWAP_REGION_OPERATIONS").map_or(if cfg!(debug_assertions) { 500 } else { 2000 }, |text| {
        text.parse().expect("a number")
    })
}

/// `percent`, then where the swap file is, if there is one.
fn run(task: &str) {
    let mut words = task.split(' ');
    let percent: usize = words.next().unwrap().parse().unwrap();
    let mut settings = Settings::default().limit((LEN / 100 * percent) as u64);
    let swap = words.next();
    if let Some(swap) = swap {
        settings = settings.swap(swap);
    }
    if let Some(compressor) = words.next() {
        settings = settings.compressor(compressor);
    }
    settings.start().unwrap();
    let mut region = Region::new(LEN).unwrap();
    let mut shadow = vec![0; LEN];
    std::thread::scope(|scope| {
        let hands = deal(&mut region).into_iter().zip(deal(&mut shadow));
        for (thread, (mut pages, mut shadow)) in hands.enumerate() {
            scope.spawn(move || work(&mut pages, &mut shadow, operations(), 1 + thread as u64));
        }
    });
    let stats = stats();
    let of = |name| stats.get(name).unwrap();
    let counted: Vec<_> = (stats.iter().filter(|(_, value)| *value > 0))
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    eprintln!("{task}: {}", counted.join(" "));
    assert!(of("pgsteal_anon") > 0, "nothing left");
    if swap.is_some() {
        assert!(
            of("memory.peak") <= of("memory.max"),
            "{} of {}",
            of("memory.peak"),
            of("memory.max")
        );
    }
}

#[track_caller]
fn checks(name: &str, task: &str) {
    match common::task() {
        Some(task) => run(&task),
        None if !common::has_userfaultfd() => {}
        None => drop(common::succeeds(common::child(name, task))),
    }
}

fn swap() -> String {
    std::env::temp_dir().to_str().expect("a name of UTF-8").to_owned()
}

#[test]
fn at_a_fiftieth_with_a_swap_file() {
    checks("at_a_fiftieth_with_a_swap_file", &format!("2 {}", swap()));
}

#[test]
fn at_a_tenth_with_a_swap_file() {
    checks("at_a_tenth_with_a_swap_file", &format!("10 {} lz4", swap()));
}

#[test]
fn at_a_fiftieth() {
    checks("at_a_fiftieth", "2");
}

#[test]
fn at_a_half() {
    checks("at_a_half", "50");
}
