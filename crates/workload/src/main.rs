//! `uzswap-workload`: programs to run under a memory limit, each checking every byte that it reads
//! back.

#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    uzswap_workload::program::run(&args)
}
