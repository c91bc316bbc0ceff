//! The command line of `uzswap-workload`.

use std::process::ExitCode;

use crate::options::{Failure, ParseError};
use crate::{idle, redis, usemem};

const USAGE: &str = "\
usage: uzswap-workload usemem --mb N [--seed S] [--threads T] [--processes P] [--passes PASS,...] [--rand-touches N]
                              [--contents heap|random|zero|FILE] [--json]
       uzswap-workload idle --mb N [--seed S] [--hot-percent P] [--warm-percent P] [--touches N] [--settle-touches N]
       uzswap-workload redis-load --port P --mb N [--value-bytes N]
       uzswap-workload redis-get --port P --keys N [--requests N] [--clients N] [--keys-drawn uniform|zipf]

usemem fills N MiB with pages and goes over them again, checking every byte. A PASS is write, seq, reverse, stride or
rand, write first, and may have :wN (of 100 pages touched N are written to), :uSIZE (pages are touched SIZE at a time,
4K to 2M) and :tN (by N threads), as in rand:w70:u64K:t2. FILE holds pages to fill with, a dump of a heap for instance.
One line a pass: seconds, MB/s (MB = 2^20 bytes) or us/touch, and the pages that were not as written; with --json also
processor time, faults and how long each touch took.

idle fills N MiB and then works on a hot part of it, seldom on a warm one and never on the rest.
redis-load fills a server of 127.0.0.1, redis-get reads from it.
Exit status: 0 when every page was as written, 1 when one was not or nothing could be done, 2 for a command line that
cannot be understood.";

/// Runs the command that `args` name; what it returns is the program's exit status.
pub fn run(args: &[String]) -> ExitCode {
    let Some((command, rest)) = args.split_first() else {
        return reject("no command given: the commands are usemem, idle, redis-load and redis-get");
    };
    let result = match command.as_str() {
        "usemem" => usemem::Usemem::parse(rest).map(|options| usemem::run(&options)),
        "idle" => idle::Idle::parse(rest).map(|options| Ok(idle::run(&options))),
        "redis-load" => redis::Load::parse(rest).map(|options| redis::load(&options)),
        "redis-get" => redis::Get::parse(rest).map(|options| redis::get(&options)),
        "--help" | "-h" => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        _ => Err(ParseError::UnknownCommand(command.clone())),
    };
    match result {
        Ok(outcome) => exit_code(outcome),
        Err(error) => reject(&error.to_string()),
    }
}

fn exit_code(outcome: Result<u64, Failure>) -> ExitCode {
    match outcome {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(Failure(line)) => {
            eprintln!("uzswap-workload: {line}");
            ExitCode::FAILURE
        }
    }
}

fn reject(reason: &str) -> ExitCode {
    eprintln!("uzswap-workload: {reason}\n\n{USAGE}");
    ExitCode::from(2)
}
