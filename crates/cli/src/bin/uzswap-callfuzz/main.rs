//! `uzswap-callfuzz`: random system calls with memory that is out, each compared with the same call
//! on memory that is there. To be run under a limit far below what it has.
//!
//! Each call is made twice: with addresses in memory that a pager looks after, and with the same
//! places of shared memory, which none does. What it is made on there is two of as well: files,
//! pipes, sockets, queues. Results and bytes are compared. All is decided by the seed.
//!
//! | file | what |
//! |---|---|
//! | `arena` | the two memories |
//! | `things` | what calls are made on |
//! | `play` | planning a call, making it twice, comparing |
//! | `calls` | the calls |
//! | `history` | which calls have used which places |
//!
//!     uzswap run --guard on --memory-max 24M -- uzswap-callfuzz --calls 100000 --seed 1

#![forbid(unsafe_code)]

mod arena;
mod calls;
mod history;
mod play;
mod things;

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Parser;
use uzswap_sys::testing::{Kind, Memory};
use uzswap_workload::heap::Rng;

use arena::{Arenas, PAGE};
use play::Play;
use things::Things;

/// Random system calls with memory that is out
#[derive(Parser)]
struct Options {
    /// Seed of everything
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Make so many calls
    #[arg(long, default_value_t = 10_000)]
    calls: u64,
    /// Only calls of these names, separated by commas
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Leave calls of these names out, separated by commas
    #[arg(long, value_delimiter = ',')]
    without: Vec<String>,
    /// Memory that is given to calls, in MiB
    #[arg(long, default_value_t = 48)]
    mebibytes: usize,
    /// Memory that is touched between batches of calls, so that the other goes out, in MiB
    #[arg(long, default_value_t = 32)]
    pressure: usize,
    /// Calls of a batch
    #[arg(long, default_value_t = 600)]
    batch: usize,
    /// A thread that touches memory while calls are made
    #[arg(long)]
    disturb: bool,
    /// Batches between two comparisons of all memory
    #[arg(long, default_value_t = 100)]
    thorough: u64,
    /// Say each call
    #[arg(long)]
    verbose: bool,
}

/// Changes of protections before a batch.
const CHANGES: usize = 10;
/// Bytes that the disturbing thread touches, one page after the other.
const DISTURBING: usize = 16 << 20;

/// The places in the list of calls that are played, each as often as it weighs.
fn chosen(options: &Options) -> Result<Vec<usize>, String> {
    let unknown = |name: &&String| !calls::all().iter().any(|call| call.0 == **name);
    if let Some(name) = options.only.iter().chain(&options.without).find(unknown) {
        return Err(format!("there is no call {name}"));
    }
    let is_played = |name: &str| {
        let is_named = |names: &[String]| names.iter().any(|one| one == name);
        (options.only.is_empty() || is_named(&options.only)) && !is_named(&options.without)
    };
    let calls = calls::all().iter().enumerate().filter(|(_, call)| is_played(call.0));
    Ok(calls
        .flat_map(|(kind, call)| std::iter::repeat_n(kind, call.1))
        .collect())
}

/// Touch one page after the other.
fn touch(memory: &mut Memory, pages: usize, stamp: u8) {
    for page in 0..pages.min(memory.len() / PAGE) {
        memory.bytes_mut(page * PAGE + usize::from(stamp), 1)[0] ^= stamp;
    }
}

fn play(options: &Options) -> Result<Play, String> {
    let kinds = chosen(options)?;
    let map = |len| Memory::map(len, Kind::Heap).map_err(|errno| errno.to_string());
    let mut pressure = map(options.pressure << 20)?;
    (0..pressure.len() / PAGE).for_each(|page| pressure.bytes_mut(page * PAGE, PAGE)[1..].fill(page as u8));
    let arenas = Arenas::new(options.mebibytes << 20)?;
    let mut play = Play::new(Rng::new(options.seed), arenas, Things::new()?, calls::all().len());
    for batch in 1.. {
        play.begin_batch();
        let changes = play.below(CHANGES);
        let mut random = play.random.clone();
        play.arenas.change(&mut random, changes);
        let mut plans = Vec::new();
        let most = options.batch.min((options.calls - play.calls_made()) as usize);
        while plans.len() < most && !play.is_full() {
            let kind = play.pick(&kinds);
            plans.push((kind, play.plan(kind, calls::all()[kind].2)));
        }
        // Sometimes not all that was prepared goes out.
        let pages = (1 + play.below(4)) * pressure.len() / PAGE / 3;
        touch(&mut pressure, pages, batch as u8);
        for (kind, plan) in plans {
            let made = play.calls_made();
            if options.verbose {
                println!("{made}: {} {:x?}", calls::all()[kind].0, plan.ranges());
            }
            play.make(plan).map_err(|what| {
                let (name, seed) = (calls::all()[kind].0, options.seed);
                format!("DIFFERENCE in {name}, --seed {seed}, call {made} of batch {batch}: {what}")
            })?;
        }
        let is_over = play.calls_made() == options.calls;
        if is_over || batch % options.thorough == 0 {
            thorough(&mut play)?;
        }
        if is_over {
            break;
        }
    }
    Ok(play)
}

/// Nothing else has changed either.
fn thorough(play: &mut Play) -> Result<(), String> {
    if let Some(at) = play.arenas.difference(0, play.arenas.len()) {
        return Err(format!("DIFFERENCE which no call was to make: {}", play.describe(at)));
    }
    play.history.forget();
    play.things
        .compare_files()
        .map_err(|what| format!("DIFFERENCE: {what}"))
}

fn report(play: &Play) {
    let lines = calls::all()
        .iter()
        .zip(&play.counts)
        .filter(|(_, count)| count.made > 0);
    let mut counted: Vec<String> = lines
        .map(|(call, count)| format!("{} {}/{}/{}", call.0, count.made, count.cold, count.faults))
        .collect();
    counted.sort();
    println!("{}", counted.join(", "));
    let sum = |of: fn(&play::Count) -> u64| play.counts.iter().map(of).sum::<u64>();
    println!(
        "{} calls of {} kinds, {} with memory that was out, {} refused for it",
        play.calls_made(),
        counted.len(),
        sum(|count| count.cold),
        sum(|count| count.faults)
    );
}

fn main() -> ExitCode {
    let options = Options::parse();
    // Before there are threads: the signals of one are those of all.
    calls::prepare();
    let is_over = AtomicBool::new(false);
    let played = std::thread::scope(|threads| {
        if options.disturb {
            threads.spawn(|| {
                let Ok(mut memory) = Memory::map(DISTURBING, Kind::Heap) else {
                    return;
                };
                for round in 0.. {
                    if is_over.load(Ordering::Relaxed) {
                        return;
                    }
                    touch(&mut memory, DISTURBING / PAGE, round as u8);
                }
            });
        }
        let played = play(&options);
        is_over.store(true, Ordering::Relaxed);
        played
    });
    match played {
        Ok(play) => {
            report(&play);
            ExitCode::SUCCESS
        }
        Err(what) => {
            println!("{what}");
            ExitCode::FAILURE
        }
    }
}
