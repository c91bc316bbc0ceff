//! Costs that make a column come out as published: three figures of it, three costs.

use crate::seeds::Column;
use crate::shelf::Shelf;
use crate::usemem::{Outcome, Usemem};
use crate::world::{Coder, Costs};

/// What is chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Fit {
    /// Nanoseconds of each page that leaves, beside its compression: chosen by the throughput.
    pub(crate) per_page_ns: f64,
    /// Of each page that is stored or dropped, under locks that all have in common: chosen by the
    /// time in the kernel, much of which is that of processes that exit.
    pub(crate) locked_ns: f64,
    /// How much slower and faster processes are: chosen by the elapsed time.
    pub(crate) spread: f64,
}

/// Which of a page's costs is chosen by the throughput.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Knob {
    /// Everything but compression.
    Store,
    /// What a device takes beside its engine's time.
    Latency,
}

const ROUNDS: u32 = 12;
/// Rounds after which a round goes half as far as the first.
const HALVED_AFTER: f64 = 5.0;
/// Processes are not farther apart: whoever exits before others are half done is another test.
const SPREAD_MAX: f64 = 0.2;
const PER_PAGE_MAX: f64 = 100_000.0;

impl Knob {
    /// The costs with this one set.
    pub(crate) fn set(self, costs: Costs, ns: f64) -> Costs {
        match (self, costs.coder) {
            (
                Self::Latency,
                Coder::Device {
                    submit_ns,
                    compress_ns,
                    decompress_ns,
                    batch,
                    verifies,
                    spreads,
                    ..
                },
            ) => Costs {
                coder: Coder::Device {
                    submit_ns,
                    compress_ns,
                    decompress_ns,
                    latency_ns: ns,
                    batch,
                    verifies,
                    spreads,
                },
                ..costs
            },
            _ => Costs { store_ns: ns, ..costs },
        }
    }
}

impl Fit {
    /// The run and the costs with what was chosen.
    pub(crate) fn apply(&self, run: Usemem, costs: Costs, knob: Knob) -> (Usemem, Costs) {
        let costs = Costs {
            locked_ns: self.locked_ns,
            ..knob.set(costs, self.per_page_ns)
        };
        let spread = self.spread;
        (Usemem { spread, ..run }, costs)
    }
}

/// How far an outcome is from a column, as a part of it: the elapsed time counts half.
fn error(outcome: &Outcome, column: &Column) -> f64 {
    let off = |simulated: f64, published: f64| (simulated / published - 1.0).abs();
    off(outcome.throughput, column.throughput)
        + off(outcome.system_s, column.system_s)
        + off(outcome.elapsed_s, column.elapsed_s) / 2.0
}

/// Choose by a column: the best of some rounds, each of which goes on from what the last was off
/// by.
pub(crate) fn fit(run: Usemem, costs: Costs, knob: Knob, column: &Column, shelf: &mut Shelf) -> (Fit, Outcome) {
    let mut fit = Fit {
        per_page_ns: 8000.0,
        locked_ns: 300.0,
        spread: 0.04,
    };
    let mut best = (f64::INFINITY, fit, Outcome::default());
    let processes = run.setup.programs as f64;
    let goal = run.mean_write_s(column.throughput);
    for round in 0..ROUNDS {
        // Costs move each other: small steps settle.
        let step = 0.8 / (1.0 + f64::from(round) / HALVED_AFTER);
        let (trial, trial_costs) = fit.apply(run, costs, knob);
        let outcome = trial.run(trial_costs, shelf);
        let error = error(&outcome, column);
        if error < best.0 {
            best = (error, fit, outcome);
        }
        let pages = outcome.zswpout / processes;
        let write = run.mean_write_s(outcome.throughput);
        let system = (column.system_s - outcome.system_s) / processes;
        let elapsed = column.elapsed_s - outcome.elapsed_s - system;
        fit.per_page_ns = (fit.per_page_ns + step * (goal - write) * 1e9 / pages).clamp(0.0, PER_PAGE_MAX);
        let exit = (system - (goal - write)) * 1e9 / outcome.zswpout;
        fit.locked_ns = (fit.locked_ns + step * exit).max(0.0);
        fit.spread = (fit.spread + step / 4.0 * elapsed / column.elapsed_s).clamp(0.0, SPREAD_MAX);
    }
    (best.1, best.2)
}
