//! `uzswap-torture`: random memory operations against a shadow, to be run under a limit so small that everything is
//! evicted all the time.
//!
//! Each thread plays rounds. A round is decided by its seed alone: regions come and go, are written, read, copied, moved,
//! protected, dropped and forked, and every read is compared. A difference prints the seed of the round and
//! the step, and `--round SEED` plays just that round again.
//!
//!     uzswap run --memory-max 12M -- uzswap-torture --seconds 600 --threads 2

#![forbid(unsafe_code)]

mod region;
mod round;

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::Parser;

use round::{Round, Scale};

/// Random memory operations against a shadow
#[derive(Parser, Clone)]
struct Options {
    /// Seed of everything
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Play for so long
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Play so many rounds a thread instead
    #[arg(long)]
    rounds: Option<u64>,
    /// Threads that play
    #[arg(long, default_value_t = 2)]
    threads: u64,
    /// Operations of a round
    #[arg(long, default_value_t = 2000)]
    steps: u64,
    /// Largest region, in pages
    #[arg(long, default_value_t = 512)]
    pages: u64,
    /// Leave forks out
    #[arg(long)]
    no_fork: bool,
    /// Play one round again
    #[arg(long)]
    round: Option<u64>,
}

/// splitmix64: the seed of a round from that of the run, the thread and the number.
fn round_seed(seed: u64, thread: u64, number: u64) -> u64 {
    let mut x = seed ^ thread << 56 ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

static FAILED: AtomicBool = AtomicBool::new(false);
static STEPS: AtomicU64 = AtomicU64::new(0);
static FORKS: AtomicU64 = AtomicU64::new(0);

fn play(options: &Options, seed: u64) {
    let scale = Scale {
        steps: options.steps,
        pages: options.pages,
        forks: !options.no_fork,
    };
    let outcome = Round::new(seed, scale).play();
    STEPS.fetch_add(outcome.steps, Ordering::Relaxed);
    FORKS.fetch_add(outcome.forks, Ordering::Relaxed);
    if let Some(difference) = outcome.difference {
        FAILED.store(true, Ordering::Relaxed);
        println!(
            "DIFFERENCE in round {seed}: {difference}\nreplay with --round {seed} --steps {}",
            options.steps
        );
    }
}

fn thread(options: &Options, thread: u64, until: Instant) {
    for number in 0.. {
        let is_over = options
            .rounds
            .map_or_else(|| Instant::now() >= until, |rounds| number >= rounds);
        if is_over || FAILED.load(Ordering::Relaxed) {
            return;
        }
        play(options, round_seed(options.seed, thread, number));
    }
}

fn main() -> ExitCode {
    let options = Options::parse();
    // Regions are mapped by system calls of their own; this makes the process big enough to get its pager.
    let ballast = vec![1u8; 8 << 20];
    if let Some(seed) = options.round {
        play(&options, seed);
    } else {
        let until = Instant::now() + Duration::from_secs(options.seconds);
        std::thread::scope(|scope| {
            for number in 0..options.threads {
                let options = &options;
                scope.spawn(move || thread(options, number, until));
            }
        });
    }
    if ballast.iter().any(|byte| *byte != 1) {
        println!("DIFFERENCE in the ballast");
        FAILED.store(true, Ordering::Relaxed);
    }
    println!(
        "{} steps, {} forks",
        STEPS.load(Ordering::Relaxed),
        FORKS.load(Ordering::Relaxed)
    );
    if FAILED.load(Ordering::Relaxed) {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}
