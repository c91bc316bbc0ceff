//! Single steps of the engine over a simulated machine: what a page costs when no system call is
//! made. Sampled as Criterion does: a warm-up, then batches, of which the median and the spread are
//! printed and outliers counted.

use std::time::{Duration, Instant};

use serde_json::json;
use uzswap_acomp::{Algorithm, Context};
use uzswap_mm::page::{PAGE_SIZE, PageRange, Vpn, fingerprint, same_filled};
use uzswap_mm::sim::{BASE, PAGES, World};
use uzswap_workload::heap;

use crate::Failure;
use crate::export::Sheet;
use crate::export::sheet::{SPREAD, spread};
use crate::options::Steps;
use crate::samples::Samples;
use crate::table::Table;

const WARM_UP: Duration = Duration::from_millis(200);
/// How long a batch takes, about.
const BATCH: Duration = Duration::from_millis(10);
/// Slots of the simulated device, and pages of its pool.
const SWAP_PAGES: u64 = 200;
const ARENA_PAGES: usize = 512;

type World96 = World<parking_lot::RawMutex>;

/// Something to time: what it is called, and what one iteration does to how many pages.
struct Step {
    name: &'static str,
    pages: u64,
    iterate: Box<dyn FnMut()>,
}

impl Step {
    fn new(name: &'static str, pages: u64, iterate: impl FnMut() + 'static) -> Self {
        Self {
            name,
            pages,
            iterate: Box::new(iterate),
        }
    }

    fn take(&mut self, iterations: u64) -> Duration {
        let began = Instant::now();
        (0..iterations).for_each(|_| (self.iterate)());
        began.elapsed()
    }

    /// Iterations of one batch, after the warm-up.
    fn calibrate(&mut self) -> u64 {
        let (mut iterations, began) = (1, Instant::now());
        loop {
            let took = self.take(iterations);
            if began.elapsed() >= WARM_UP && took >= BATCH / 2 {
                return (iterations as f64 * BATCH.as_secs_f64() / took.as_secs_f64()).max(1.0) as u64;
            }
            if took < BATCH {
                iterations *= 2;
            }
        }
    }

    /// Nanoseconds for each page, a sample a batch.
    fn sample(&mut self, batches: u32) -> Samples {
        let iterations = self.calibrate();
        let pages = (iterations * self.pages) as f64;
        (0..batches)
            .map(|_| self.take(iterations).as_nanos() as f64 / pages)
            .collect()
    }
}

/// Measure and print.
pub(crate) fn run(options: &Steps) -> Result<(), Failure> {
    let outputs = options.files.create()?;
    let columns = ["step"].into_iter().chain(SPREAD).chain(["outliers"]);
    let mut sheet = Sheet::new("steps, ns a page", columns);
    let mut table = Table::default();
    table.rule();
    table.row(["ns a page", "median", "lowest", "highest", "std. deviation", "outliers"]);
    table.rule();
    for mut step in steps() {
        let samples = step.sample(options.batches);
        table.row([
            step.name.to_owned(),
            format!("{:.1}", samples.median()),
            format!("{:.1}", samples.min()),
            format!("{:.1}", samples.max()),
            format!("{:.1}", samples.standard_deviation()),
            samples.outliers().to_string(),
        ]);
        let values = std::iter::once(json!(step.name)).chain(spread(&samples));
        sheet.row(values.chain([json!(samples.outliers())]));
    }
    table.rule();
    println!(
        "{} batches of about {} ms each\n{table}",
        options.batches,
        BATCH.as_millis()
    );
    outputs.write(&[sheet])
}

fn steps() -> Vec<Step> {
    let mut steps = vec![
        Step::new(
            "look for one repeated word",
            64,
            over_pages(|page| {
                std::hint::black_box(same_filled(page));
            }),
        ),
        Step::new(
            "fingerprint",
            64,
            over_pages(|page| {
                std::hint::black_box(fingerprint(page));
            }),
        ),
    ];
    let compressors = [
        ("words: compress", Algorithm::Words),
        ("lz4: compress", Algorithm::Lz4 { acceleration: 1 }),
        ("zstd 1: compress", Algorithm::Zstd { level: 1 }),
        ("deflate 1: compress", Algorithm::Deflate { level: 1 }),
    ];
    steps.extend(compressors.map(|(name, algorithm)| compress(name, algorithm)));
    steps.push(first_touch());
    steps.push(second_chance());
    steps.push(round_trip());
    steps
}

/// Each of 64 pages of a heap that are not zeros.
fn over_pages(mut visit: impl FnMut(&[u8; PAGE_SIZE]) + 'static) -> impl FnMut() + 'static {
    let pages = heap_pages();
    move || pages.iter().for_each(|page| visit(page))
}

fn heap_pages() -> Vec<Box<[u8; PAGE_SIZE]>> {
    let pages = (0..).map(|index| {
        let mut page = Box::new([0; PAGE_SIZE]);
        heap::fill_page(1, index, page.as_mut_slice());
        page
    });
    pages
        .filter(|page| page.iter().any(|byte| *byte != 0))
        .take(64)
        .collect()
}

fn compress(name: &'static str, algorithm: Algorithm) -> Step {
    let mut context = Context::new(algorithm);
    let mut block = vec![0; PAGE_SIZE];
    let visit = move |page: &[u8; PAGE_SIZE]| {
        let _ = std::hint::black_box(context.compress_page(page, &mut block));
    };
    Step::new(name, 64, over_pages(visit))
}

fn world() -> World96 {
    let mut world = World96::new(SWAP_PAGES, ARENA_PAGES);
    for (index, page) in (0..PAGES).zip(heap_pages().iter().cycle()) {
        world.write_bytes(Vpn::new(BASE + index), page.to_vec());
    }
    world
}

fn all() -> PageRange {
    PageRange::new(Vpn::new(BASE), PAGES)
}

fn touch_all(world: &mut World96) {
    (0..PAGES).for_each(|page| world.check(Vpn::new(BASE + page)));
}

/// Pages that were never there.
fn first_touch() -> Step {
    let mut world = world();
    Step::new("first touch, and MADV_DONTNEED", PAGES, move || {
        world.remove(all());
        touch_all(&mut world);
    })
}

/// Out into the staging range and back.
fn second_chance() -> Step {
    let mut world = world();
    Step::new("isolated, and taken back", PAGES, move || {
        let mut at = 0;
        while at < PAGES {
            // The staging range holds 64 pages.
            world.mm.isolate_range(PageRange::new(Vpn::new(BASE + at), 32));
            touch_all(&mut world);
            at += 32;
        }
    })
}

/// Out into the pool and back.
fn round_trip() -> Step {
    let mut world = world();
    Step::new("stored with lz4, and loaded", PAGES, move || {
        for first in (0..PAGES).step_by(32) {
            world.mm.isolate_range(PageRange::new(Vpn::new(BASE + first), 32));
            while world.mm.store_staged(&mut world.worker) > 0 {}
        }
        touch_all(&mut world);
    })
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn every_step_can_be_repeated() {
        for mut step in steps() {
            step.take(2);
        }
    }
}
