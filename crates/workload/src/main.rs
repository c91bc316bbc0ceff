//! `uzswap-workload`: programs to run under a memory limit, each checking every byte that it reads back.

#![forbid(unsafe_code)]

mod options;
mod usemem;

use std::process::ExitCode;

const USAGE: &str = "\
usage: uzswap-workload usemem --mb N [--seed S] [--threads T] [--passes write,seq,rand] [--rand-touches N]

usemem fills N MiB with heap-like pages, reads them back in order, then at random places, and checks every byte.
One line a pass: seconds, MB/s (MB = 2^20 bytes) or us/touch, and the pages that were not as written.
Exit status: 0 when every page was as written, 1 when one was not, 2 for a command line that cannot be understood.";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.split_first() {
        Some((command, rest)) if command == "usemem" => match options::Usemem::parse(rest) {
            Ok(options) => exit_code(usemem::run(&options)),
            Err(error) => reject(&error.to_string()),
        },
        Some((command, _)) if command == "--help" || command == "-h" => {
            println!("{USAGE}");
            ExitCode::SUCCESS
        }
        Some((command, _)) => reject(&format!("unknown command `{command}`: the only one is usemem")),
        None => reject("no command given: the only one is usemem"),
    }
}

fn exit_code(bad_pages: u64) -> ExitCode {
    if bad_pages == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn reject(reason: &str) -> ExitCode {
    eprintln!("uzswap-workload: {reason}\n\n{USAGE}");
    ExitCode::from(2)
}
