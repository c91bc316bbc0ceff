//! `uzswap-bench`: measures and prints tables.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    match uzswap_bench::run(&uzswap_bench::Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("uzswap-bench: {}", failure.line());
            ExitCode::FAILURE
        }
    }
}
