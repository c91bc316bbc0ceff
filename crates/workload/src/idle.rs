//! A heap of which most is cold: filled, then worked on in a few places, as a server between two
//! releases does.
//!
//! Which part is hot is decided for every cluster of [`CLUSTER_PAGES`] pages by itself: allocators
//! mix what is used with what is not.

use std::time::{Duration, Instant};

use crate::heap::{self, PAGE_SIZE, Rng};
use crate::latency::Histogram;
use crate::options::{Options, ParseError, bad_value};
use crate::proc_stat::ProcStat;
use crate::report::Report;

const CLUSTER_PAGES: usize = 4;
/// Of so many touches one is of a warm page, the others of hot ones.
const WARM_ONE_IN: u64 = 1000;
/// Of so many cold clusters one is checked in the end.
const CHECK_ONE_IN: usize = 64;

/// The options of `idle`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Idle {
    mib: usize,
    seed: u64,
    hot_percent: u64,
    warm_percent: u64,
    /// Timed.
    touches: u64,
    /// Before that, so that what is cold has gone.
    settle_touches: u64,
}

impl Idle {
    /// Reads the arguments that follow `idle`.
    pub(crate) fn parse(args: &[String]) -> Result<Self, ParseError> {
        let mut mib = None;
        let mut idle = Self {
            mib: 0,
            seed: 1,
            hot_percent: 20,
            warm_percent: 10,
            touches: 1_000_000,
            settle_touches: 500_000,
        };
        let mut options = Options::new(args);
        while let Some(option) = options.next() {
            match option {
                "--mb" => mib = Some(options.number::<std::num::NonZeroUsize>(option)?.get()),
                "--seed" => idle.seed = options.number(option)?,
                "--hot-percent" => idle.hot_percent = options.number(option)?,
                "--warm-percent" => idle.warm_percent = options.number(option)?,
                "--touches" => idle.touches = options.number(option)?,
                "--settle-touches" => idle.settle_touches = options.number(option)?,
                _ => return Err(ParseError::UnknownOption(option.to_owned())),
            }
        }
        if !(1..=100).contains(&idle.hot_percent) || idle.hot_percent + idle.warm_percent > 100 {
            let value = format!("{} + {}", idle.hot_percent, idle.warm_percent);
            return Err(bad_value(
                "--hot-percent + --warm-percent",
                &value,
                "must be from 1 to 100, some of it hot",
            ));
        }
        idle.mib = mib.ok_or(ParseError::MissingOption("--mb"))?;
        Ok(idle)
    }
}

/// Clusters by temperature.
#[derive(Default)]
struct Clusters {
    hot: Vec<usize>,
    warm: Vec<usize>,
    cold: Vec<usize>,
}

impl Clusters {
    fn new(options: &Idle, pages: usize) -> Self {
        let mut clusters = Self::default();
        let mut rng = Rng::new(options.seed ^ 0x686f_7400);
        for cluster in 0..pages / CLUSTER_PAGES {
            let drawn = rng.below(100);
            let list = match drawn {
                _ if cluster == 0 || drawn < options.hot_percent => &mut clusters.hot,
                _ if drawn < options.hot_percent + options.warm_percent => &mut clusters.warm,
                _ => &mut clusters.cold,
            };
            list.push(cluster);
        }
        clusters
    }

    fn draw(&self, rng: &mut Rng) -> usize {
        let is_warm = rng.below(WARM_ONE_IN) == 0 && !self.warm.is_empty();
        let list = if is_warm { &self.warm } else { &self.hot };
        rng.pick(list) * CLUSTER_PAGES + rng.below(CLUSTER_PAGES as u64) as usize
    }
}

/// Fills, settles, works, checks; prints a line for each step, and returns how many bad pages it
/// met.
pub(crate) fn run(options: &Idle) -> u64 {
    heap::prepare();
    let pages = (options.mib << 20) / PAGE_SIZE;
    let clusters = Clusters::new(options, pages);
    let mut memory = vec![0; (pages + 1) * PAGE_SIZE];
    // A page that is visited is one page of the system's: two neighbours each would make a quarter
    // of the heap hot where a fifth is asked for.
    let aligned = memory.as_ptr().align_offset(PAGE_SIZE);
    let memory = &mut memory[aligned..][..pages * PAGE_SIZE];
    let mut rng = Rng::new(options.seed);
    let mut sums = Vec::with_capacity(pages);
    let began = (ProcStat::own(), Instant::now());
    for (index, page) in (0..).zip(memory.chunks_exact_mut(PAGE_SIZE)) {
        heap::fill_page(options.seed, index, page);
        sums.push(sum(page));
    }
    let mut bad_pages = print("fill", began, pages as u64, 0, Histogram::default());
    let mut visit = |name: &str, draws: &mut dyn Iterator<Item = usize>| {
        let began = (ProcStat::own(), Instant::now());
        let (mut touch_ns, mut bad, mut touches) = (Histogram::default(), 0, 0);
        for at in draws {
            let page = &memory[at * PAGE_SIZE..][..PAGE_SIZE];
            touch_ns.record(timed_touch(page));
            bad += u64::from(sum(page) != sums[at]);
            touches += 1;
        }
        bad_pages += print(name, began, touches, bad, touch_ns);
    };
    visit(
        "settle",
        &mut (0..options.settle_touches).map(|_| clusters.draw(&mut rng)),
    );
    visit("work", &mut (0..options.touches).map(|_| clusters.draw(&mut rng)));
    visit(
        "check",
        &mut clusters
            .cold
            .iter()
            .step_by(CHECK_ONE_IN)
            .map(|cluster| cluster * CLUSTER_PAGES),
    );
    bad_pages
}

/// How long the first access takes.
fn timed_touch(page: &[u8]) -> Duration {
    let began = Instant::now();
    std::hint::black_box(std::hint::black_box(page)[0]);
    began.elapsed()
}

/// Of all words, each weighed by its place: what a page is checked by without the templates that it
/// was made of, which would be one more hot set.
fn sum(page: &[u8]) -> u64 {
    let words = page
        .chunks_exact(8)
        .map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")));
    words.fold(0, |sum: u64, word| {
        sum.rotate_left(5).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ word
    })
}

fn print(name: &str, began: (ProcStat, Instant), touches: u64, bad_pages: u64, touch_ns: Histogram) -> u64 {
    let report = Report {
        pass: name.to_owned(),
        seconds: began.1.elapsed().as_secs_f64(),
        touches,
        bad_pages,
        counted: ProcStat::own().since(began.0),
        touch_ns,
    };
    println!("{}", report.to_json());
    bad_pages
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Idle, ParseError> {
        let args: Vec<String> = line.split(' ').map(str::to_owned).collect();
        Idle::parse(&args)
    }

    #[test]
    fn finds_what_it_wrote() {
        assert_eq!(run(&parse("--mb 4 --touches 5000 --settle-touches 10").unwrap()), 0);
    }

    #[test]
    fn shares_are_about_as_asked_for() {
        let clusters = Clusters::new(&parse("--mb 1").unwrap(), 400_000);
        let percent = |list: &[usize]| list.len() as f64 / 1000.0;
        assert!((percent(&clusters.hot) - 20.0).abs() < 1.0 && (percent(&clusters.warm) - 10.0).abs() < 1.0);
        assert!((percent(&clusters.cold) - 70.0).abs() < 1.0);
    }

    #[test]
    fn names_the_value_it_refuses() {
        let message = parse("--mb 1 --hot-percent 99").unwrap_err().to_string();
        assert!(message.contains("99 + 10"), "{message}");
        assert_eq!(parse("--seed 1"), Err(ParseError::MissingOption("--mb")));
    }
}
