//! Fill memory, read it back, touch it in some order: how fast, and is every byte still there?
//!
//! Each thread has a contiguous share of the memory, and goes over that. Several processes have
//! memory of their own each.

mod memory;
mod options;
mod pass;

use std::process::{Command, Stdio};
use std::time::Instant;

use crate::contents::Contents;
use crate::heap::PAGE_SIZE;
use crate::options::Failure;
use crate::proc_stat::ProcStat;
use crate::report::Report;
use memory::{Memory, Outcome};
pub(crate) use options::Usemem;
use pass::{Order, Pass};

/// Runs the passes, prints a line for each, and returns how many bad pages they met.
pub(crate) fn run(options: &Usemem) -> Result<u64, Failure> {
    if options.processes.get() > 1 {
        return copies(options);
    }
    let contents = options.contents()?;
    let mut memory = Memory::new((options.mib.get() << 20) / PAGE_SIZE);
    let mut bad_pages = 0;
    for (number, pass) in (0..).zip(&options.passes) {
        let report = run_pass(pass, number, options, &contents, &mut memory);
        bad_pages += report.bad_pages;
        print(pass, &report, options);
    }
    Ok(bad_pages)
}

/// `number` tells passes apart that draw pages at random: what one of them touched is not what the
/// next one does.
fn run_pass(pass: &Pass, number: u64, options: &Usemem, contents: &Contents, memory: &mut Memory) -> Report {
    let threads = pass.threads.unwrap_or(options.threads.get());
    let touches = options.rand_touches / threads as u64;
    let (before, began) = (ProcStat::own(), Instant::now());
    let mut total = Outcome::default();
    std::thread::scope(|scope| {
        let work = |share: &mut memory::Share<'_>| match pass.order {
            Order::Write => share.fill(contents, options.seed),
            _ => share.go_over(pass, number, contents, options.seed, touches),
        };
        let spawn = |mut share| scope.spawn(move || work(&mut share));
        let running: Vec<_> = memory.shares(threads).into_iter().map(spawn).collect();
        for thread in running {
            total.merge(&thread.join().expect("a worker does not panic"));
        }
    });
    Report {
        pass: pass.name.clone(),
        seconds: began.elapsed().as_secs_f64(),
        touches: total.touches,
        bad_pages: total.bad_pages,
        counted: ProcStat::own().since(before),
        touch_ns: total.touch_ns,
    }
}

fn print(pass: &Pass, report: &Report, options: &Usemem) {
    if options.json {
        println!("{}", report.to_json());
        return;
    }
    let mib = report.touches as f64 * PAGE_SIZE as f64 / f64::from(1 << 20);
    // What one touch took, as the thread that made it saw it.
    let thread_touches = report.touches / pass.threads.unwrap_or(options.threads.get()) as u64;
    let rate = match pass.order {
        Order::Rand => format!("{:.2} us/touch", report.seconds * 1e6 / thread_touches.max(1) as f64),
        _ => format!("{:.1} MB/s", mib / report.seconds),
    };
    println!(
        "{:5} {:.3} s  {rate}  {} bad pages",
        report.pass, report.seconds, report.bad_pages
    );
}

/// Runs this program once for each process; what each printed comes out in one piece. Returns how
/// many of them failed.
fn copies(options: &Usemem) -> Result<u64, Failure> {
    let failed = |e: std::io::Error| Failure(format!("--processes {}: {e}", options.processes));
    let exe = std::env::current_exe().map_err(failed)?;
    let children = (0..options.processes.get()).map(|number| {
        Command::new(&exe)
            .args(without_processes(std::env::args().skip(1)))
            .args(["--seed", &(options.seed + number as u64).to_string()])
            .stdout(Stdio::piped())
            .spawn()
    });
    let children: Vec<_> = children.collect::<Result<_, _>>().map_err(failed)?;
    let mut failures = 0;
    for child in children {
        let output = child.wait_with_output().map_err(failed)?;
        print!("{}", String::from_utf8_lossy(&output.stdout));
        failures += u64::from(!output.status.success());
    }
    Ok(failures)
}

fn without_processes(mut args: impl Iterator<Item = String>) -> Vec<String> {
    let mut kept = Vec::new();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--processes" => drop(args.next()),
            _ => kept.push(arg),
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(line: &str) -> Usemem {
        let args: Vec<String> = line.split(' ').map(str::to_owned).collect();
        Usemem::parse(&args).unwrap()
    }

    #[test]
    fn finds_what_it_wrote() {
        let passes = "write,seq,rand:w70,reverse:w10:u64K,stride:w50:u2M,rand:u64K:t3,seq";
        for threads in [1, 2, 5] {
            let line = format!("--mb 3 --threads {threads} --rand-touches 1000 --passes {passes}");
            assert_eq!(run(&options(&line)).unwrap(), 0);
        }
    }

    #[test]
    fn every_kind_of_contents_comes_back() {
        for contents in ["heap", "random", "zero"] {
            let line = format!("--mb 2 --passes write,seq:w20,seq --contents {contents}");
            assert_eq!(run(&options(&line)).unwrap(), 0);
        }
    }

    #[test]
    fn counts_bad_pages() {
        let (options, contents) = (options("--mb 3 --passes write,seq"), Contents::heap());
        let mut memory = Memory::new(768);
        run_pass(&options.passes[0], 0, &options, &contents, &mut memory);
        let mut other = Memory::new(768);
        let report = run_pass(&options.passes[1], 1, &options, &contents, &mut other);
        assert_eq!((report.touches, report.bad_pages), (768, 768));
        let report = run_pass(&options.passes[1], 1, &options, &contents, &mut memory);
        assert_eq!(
            (report.touches, report.bad_pages, report.touch_ns.count()),
            (768, 0, 768)
        );
    }

    #[test]
    fn copies_are_single_processes() {
        let args = "usemem --mb 3 --processes 2 --json".split(' ').map(str::to_owned);
        assert_eq!(without_processes(args), ["usemem", "--mb", "3", "--json"]);
    }
}
