//! Programs that fill memory and go over it again: `uzswap workload usemem`.

use std::collections::BTreeMap;

use serde_json::Value;
use uzswap_workload::latency::Histogram;

use super::{MIB, WITHOUT_ZRAM, Workload};
use crate::Failure;
use crate::compare::context::Context;
use crate::compare::equal_memory::Budget;
use crate::compare::results::Metric;
use crate::compare::session::{Outcome, Session};
use crate::compare::side::Side;

/// What takes longer than that was no access to memory that is there. Nanoseconds.
pub(super) const FAULT_NS: u64 = 1500;

/// Fewer say nothing of their latency.
const FAULTS_LEAST: u64 = 500;

/// One way to use it.
pub(super) struct Usemem {
    pub(super) name: String,
    pub(super) title: String,
    /// What it is about, before the sizes.
    pub(super) about: String,
    pub(super) processes: u64,
    /// Of each process.
    pub(super) mib: u64,
    /// Of all of them under the kernel's zswap.
    pub(super) resident_mib: u64,
    pub(super) passes: Vec<&'static str>,
    pub(super) rand_touches: u64,
    pub(super) contents: String,
    pub(super) sides: Vec<Side>,
    pub(super) budget: Option<Budget>,
    pub(super) run_options: Vec<&'static str>,
}

impl Usemem {
    pub(super) fn new(name: &str, title: &str, about: &str, passes: &[&'static str]) -> Self {
        Self {
            name: name.to_owned(),
            title: title.to_owned(),
            about: about.to_owned(),
            processes: 1,
            mib: 1536,
            resident_mib: 384,
            passes: passes.to_vec(),
            rand_touches: 100_000,
            contents: "heap".to_owned(),
            sides: Side::ALL.to_vec(),
            budget: None,
            run_options: Vec::new(),
        }
    }

    /// A quick run has 256 MiB in all.
    fn sized(mut self, context: &Context) -> Self {
        if context.is_quick {
            self.mib = 256 / self.processes;
            self.resident_mib = 64;
            self.rand_touches /= 5;
        }
        self
    }

    fn args(&self) -> Vec<String> {
        let mut args: Vec<String> = ["usemem", "--json", "--mb"].map(str::to_owned).to_vec();
        args.extend([self.mib.to_string(), "--passes".to_owned(), self.passes.join(",")]);
        args.extend(["--rand-touches".to_owned(), self.rand_touches.to_string()]);
        args.extend(["--contents".to_owned(), self.contents.clone()]);
        if self.processes > 1 {
            args.extend(["--processes".to_owned(), self.processes.to_string()]);
        }
        args
    }
}

/// The four that are about usemem itself.
pub(super) fn all(context: &Context) -> Vec<Box<dyn Workload>> {
    let write = Usemem::new(
        "usemem-write",
        "usemem: write",
        "One process fills its memory once, in order",
        &["write"],
    );
    let write_2 = Usemem {
        processes: 2,
        mib: 768,
        ..Usemem::new(
            "usemem-write-2",
            "usemem: two processes write",
            "Two processes fill their memory at the same time",
            &["write"],
        )
    };
    let read = Usemem::new(
        "usemem-read",
        "usemem: re-read",
        "One process fills its memory, reads it back in order, then at random with one thread and with two, and checks every byte",
        &["write", "seq", "rand", "rand:t2"],
    );
    let patterns = Usemem {
        mib: 512,
        resident_mib: 128,
        rand_touches: 50_000,
        sides: WITHOUT_ZRAM.to_vec(),
        ..Usemem::new(
            "usemem-patterns",
            "usemem: patterns",
            "Backwards, in strides, at random with 10 and with 70 of 100 pages written to, and 64 KiB and 2 MiB at a time",
            &[
                "write",
                "reverse",
                "stride",
                "rand:w10",
                "rand:w70",
                "rand:u64K",
                "rand:u2M",
            ],
        )
    };
    let headroom = Usemem {
        mib: 768,
        sides: vec![Side::NoLimit, Side::Uzswap],
        budget: Some(Budget::Total {
            bytes: context.full_or(2048, 1024) * MIB,
            working_set: 0,
            resident_least: 0,
        }),
        ..Usemem::new(
            "headroom",
            "A limit that is never reached",
            "One process fills its memory, reads it back in order, backwards and at random, under a limit far above what it needs",
            &["write", "seq", "reverse", "rand"],
        )
    };
    [write, write_2, read, patterns, headroom]
        .map(|usemem| Box::new(usemem.sized(context)) as Box<dyn Workload>)
        .into()
}

impl Workload for Usemem {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn title(&self) -> String {
        self.title.clone()
    }

    fn description(&self) -> String {
        let Self {
            about,
            mib,
            resident_mib,
            ..
        } = self;
        let each = if self.processes > 1 { " each" } else { "" };
        let held = match self.budget {
            None => format!("{resident_mib} MiB resident under the kernel's zswap"),
            Some(Budget::Resident { bytes, .. } | Budget::Total { bytes, .. }) => {
                format!("a limit of {} MiB", bytes / MIB)
            }
            Some(Budget::Unlimited) => "no limit".to_owned(),
        };
        format!("{about}. {mib} MiB{each}, {held}.")
    }

    fn metrics(&self) -> Vec<Metric> {
        let mut metrics: Vec<Metric> = Vec::new();
        for pass in &self.passes {
            if !metrics.iter().any(|metric| metric.key == format!("{pass}.rate")) {
                metrics.extend(metrics_of(pass));
            }
        }
        metrics
    }

    fn sides(&self) -> Vec<Side> {
        self.sides.clone()
    }

    fn budget(&self) -> Budget {
        self.budget.unwrap_or(Budget::Resident {
            bytes: self.resident_mib * MIB,
            working_set: self.processes * self.mib * MIB,
        })
    }

    fn run_options(&self) -> &[&'static str] {
        &self.run_options
    }

    fn run(&self, session: &Session) -> Result<Outcome, Failure> {
        let measured = session.run(&session.workload_program(&self.args()), None)?;
        let stdout = String::from_utf8_lossy(&measured.output.stdout).into_owned();
        let mut outcome = Outcome::from(measured);
        for (name, pass) in read_passes(&stdout)? {
            pass.put_into(&name, &mut outcome);
        }
        Ok(outcome)
    }
}

/// What is known of a pass.
fn metrics_of(pass: &str) -> Vec<Metric> {
    let label = |what: &str| format!("{pass} {what}");
    let rate = Metric::new(format!("{pass}.rate"), label("throughput"), "MB/s", true);
    if !pass.starts_with("rand") {
        return vec![rate];
    }
    let latency = |percentile: &str| {
        let key = format!("{pass}.{percentile}");
        Metric::new(key, label(&format!("fault {percentile}")), "us", false)
    };
    vec![
        Metric::new(format!("{pass}.faults"), label("faults"), "1/s", true).digits(0),
        latency("p50"),
        latency("p99"),
        latency("p99.9"),
        rate,
    ]
}

/// What the processes' passes of one name came to together.
#[derive(Default)]
pub(super) struct PassResult {
    /// MB/s, MB = 2^20 bytes: of each process over its own time, added up.
    pub(super) rate: f64,
    /// Of the longest.
    pub(super) seconds: f64,
    pub(super) touches: u64,
    pub(super) major_faults: u64,
    pub(super) touch_ns: Histogram,
}

impl PassResult {
    /// Figures and, of what can be called a fault, a histogram.
    pub(super) fn put_into(&self, name: &str, outcome: &mut Outcome) {
        let faults = self.touch_ns.from_ns(FAULT_NS);
        outcome.put(format!("{name}.rate"), self.rate);
        outcome.put(format!("{name}.seconds"), self.seconds);
        outcome.put(format!("{name}.faults"), faults.count() as f64 / self.seconds);
        outcome.put(format!("{name}.major_faults"), self.major_faults as f64);
        // What a scheduler does to a program that does not fault is no fault latency.
        if faults.count() < FAULTS_LEAST {
            return;
        }
        for (percentile, share) in [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)] {
            if let Some(ns) = faults.percentile(share) {
                outcome.put(format!("{name}.{percentile}"), ns / 1000.0);
            }
        }
        outcome.latencies.insert(name.to_owned(), faults);
    }
}

/// The lines of JSON that the workload prints.
pub(super) fn read_passes(stdout: &str) -> Result<BTreeMap<String, PassResult>, Failure> {
    let mut passes: BTreeMap<String, PassResult> = BTreeMap::new();
    for line in stdout.lines() {
        let unreadable = || Failure::new(format!("the workload printed '{line}'"));
        let value: Value = serde_json::from_str(line).map_err(|_| unreadable())?;
        let name = value["pass"].as_str().ok_or_else(unreadable)?;
        let seconds = value["seconds"].as_f64().ok_or_else(unreadable)?;
        let touches = value["touches"].as_u64().ok_or_else(unreadable)?;
        let pass = passes.entry(name.to_owned()).or_default();
        pass.rate += touches as f64 / 256.0 / seconds.max(1e-6);
        pass.seconds = pass.seconds.max(seconds);
        pass.touches += touches;
        pass.major_faults += value["major_faults"].as_u64().unwrap_or(0);
        for (ns, count) in value["touch_ns"].as_object().into_iter().flatten() {
            let ns = ns.parse().map_err(|_| unreadable())?;
            pass.touch_ns.add(ns, count.as_u64().unwrap_or(0));
        }
    }
    Ok(passes)
}

/// A use of it that differs in what it measures besides, and in little else.
pub(super) trait Variant {
    fn usemem(&self) -> &Usemem;

    /// What it measures besides.
    fn metric(&self) -> Metric;

    fn pairs(&self, asked: u32) -> u32 {
        asked
    }

    fn prepare(&mut self, _: &Context) -> Result<(), Failure> {
        Ok(())
    }

    fn run(&self, session: &Session) -> Result<Outcome, Failure>;
}

impl<V: Variant> Workload for V {
    fn name(&self) -> String {
        self.usemem().name()
    }

    fn title(&self) -> String {
        self.usemem().title()
    }

    fn description(&self) -> String {
        self.usemem().description()
    }

    fn metrics(&self) -> Vec<Metric> {
        let mut metrics = self.usemem().metrics();
        metrics.push(self.metric());
        metrics
    }

    fn sides(&self) -> Vec<Side> {
        self.usemem().sides()
    }

    fn budget(&self) -> Budget {
        self.usemem().budget()
    }

    fn run_options(&self) -> &[&'static str] {
        self.usemem().run_options()
    }

    fn pairs(&self, asked: u32) -> u32 {
        Variant::pairs(self, asked)
    }

    fn prepare(&mut self, context: &Context) -> Result<(), Failure> {
        Variant::prepare(self, context)
    }

    fn run(&self, session: &Session) -> Result<Outcome, Failure> {
        Variant::run(self, session)
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn rates_of_processes_add_up() {
        let line = r#"{"pass":"write","seconds":2.0,"touches":512,"major_faults":3,"touch_ns":{"500":2,"4096":510}}"#;
        let passes = read_passes(&format!("{line}\n{line}\n")).unwrap();
        let write = &passes["write"];
        assert_eq!((write.rate, write.seconds, write.major_faults), (2.0, 2.0, 6));
        assert_eq!(write.touch_ns.from_ns(FAULT_NS).count(), 1020);
    }

    #[test]
    fn a_line_that_is_none_is_shown() {
        let Err(Failure { line, .. }) = read_passes("Killed\n") else {
            panic!("it is no JSON")
        };
        assert!(line.contains("Killed"));
    }

    #[test]
    fn every_pass_has_its_metrics_once() {
        let usemem = Usemem::new("a", "b", "c", &["write", "seq", "seq", "rand"]);
        let keys: Vec<String> = usemem.metrics().into_iter().map(|metric| metric.key).collect();
        assert_eq!(keys.iter().filter(|key| *key == "seq.rate").count(), 1);
        assert!(keys.contains(&"rand.p99.9".to_owned()));
    }
}
