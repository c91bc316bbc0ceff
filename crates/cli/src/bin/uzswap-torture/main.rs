//! `uzswap-torture`: random memory operations against a shadow, to be run under a limit so small
//! that everything is evicted all the time.
//!
//! Each thread plays rounds. A round is decided by its seed alone: regions come and go, are
//! written, read, copied, moved, protected, torn, dropped, forked and shared (`moves.rs` has all of
//! it), and every read is compared. A difference prints the seed of the round and the step, and
//! `--round SEED` plays just that round again. Forked children draw from a seed of their own, which
//! their parent drew: they are played again with it.
//!
//! Children may outlive their parents. The first process becomes the parent of those, and ends when
//! all have ended.
//!
//!     uzswap run --memory-max 12M -- uzswap-torture --seconds 600 --threads 2

#![forbid(unsafe_code)]

mod advice;
mod contents;
mod islands;
mod kin;
mod ledger;
mod moves;
mod piece;
mod region;
mod round;

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Parser;
use uzswap_sys::testing;

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
    /// Most mappings that are made at a time, beside regions
    #[arg(long, default_value_t = 10_000)]
    islands: u64,
    /// Most processes at a time, beside the first
    #[arg(long, default_value_t = 3)]
    processes: u64,
    /// Leave other processes out
    #[arg(long)]
    no_fork: bool,
    /// Leave these moves out, by name, separated by commas; nothing else changes
    #[arg(long, value_delimiter = ',', value_parser = moves::place)]
    without: Vec<usize>,
    /// Play one round again
    #[arg(long)]
    round: Option<u64>,
    /// Say which round begins, and each step
    #[arg(long)]
    verbose: bool,
    /// Children that nobody waits for fail, without a word: to see that it is told
    #[arg(long, hide = true)]
    spoil: bool,
    /// Be a program that is outlived by a process which shares its memory
    #[arg(long, hide = true)]
    outlived: Option<u64>,
}

/// splitmix64: the seed of a round from that of the run, the thread and the number.
fn round_seed(seed: u64, thread: u64, number: u64) -> u64 {
    let mut x = seed ^ thread << 56 ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

fn play(options: &Options, seed: u64) {
    let scale = Scale {
        steps: options.steps,
        pages: options.pages,
        processes: if options.no_fork { 0 } else { options.processes },
        islands: options.islands,
        is_verbose: options.verbose,
        spoils: options.spoil,
        without: options.without.iter().fold(0, |all, place| all | 1 << place),
    };
    if options.verbose {
        println!("round {seed}");
    }
    let had_failed = ledger::has_failed();
    Round::new(seed, scale).play();
    if ledger::has_failed() && !had_failed {
        println!(
            "it was in this round, or beside it: --round {seed} --steps {}",
            options.steps
        );
    }
}

fn thread(options: &Options, thread: u64, until: Instant) {
    for number in 0.. {
        let is_over = options
            .rounds
            .map_or_else(|| Instant::now() >= until, |rounds| number >= rounds);
        if is_over || ledger::has_failed() {
            return;
        }
        play(options, round_seed(options.seed, thread, number));
    }
}

/// All threads, and beside them the reaper of those that nobody waits for.
fn play_all(options: &Options) {
    let until = Instant::now() + Duration::from_secs(options.seconds);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|all| {
        all.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                ledger::reap_forgotten();
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        std::thread::scope(|players| {
            for number in 0..options.threads {
                players.spawn(move || thread(options, number, until));
            }
        });
        is_over.store(true, Ordering::Relaxed);
    });
}

fn main() -> ExitCode {
    let options = Options::parse();
    if let Some(seed) = options.outlived {
        // It returns only if it could not be made.
        return kin::be_outlived(seed).map_or(ExitCode::SUCCESS, |()| ExitCode::FAILURE);
    }
    ledger::open();
    testing::adopt_orphans();
    // Regions are mapped by system calls of their own; this makes the process big enough to get its
    // pager.
    let ballast = vec![1u8; 8 << 20];
    if let Some(seed) = options.round {
        play(&options, seed);
    } else {
        play_all(&options);
    }
    ledger::reap_all();
    if ballast.iter().any(|byte| *byte != 1) {
        ledger::fail("DIFFERENCE in the ballast");
    }
    println!("{}", ledger::summary());
    if ledger::has_failed() {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}
