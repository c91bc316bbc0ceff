//! `uzswap-bench`: measures and prints tables.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;

/// As clap's, of what it refuses itself.
const MISUSED: u8 = 2;

fn main() -> ExitCode {
    match uzswap_bench::run(&uzswap_bench::Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("uzswap-bench: {}", failure.line());
            match failure.is_misuse() {
                true => ExitCode::from(MISUSED),
                false => ExitCode::FAILURE,
            }
        }
    }
}
