//! A heap of which 70 % is cold.

use super::usemem::read_passes;
use super::{MIB, WITHOUT_ZRAM, Workload};
use crate::Failure;
use crate::compare::context::Context;
use crate::compare::equal_memory::Budget;
use crate::compare::results::Metric;
use crate::compare::session::{Outcome, Session};
use crate::compare::side::Side;

/// Of the heap, for resident memory and pool together.
const TOTAL_PERCENT: u64 = 40;

/// `uzswap workload idle`.
pub(super) struct Idle {
    mib: u64,
    /// Before what is timed: seconds of a program that runs for days. Each hot page has to be seen
    /// to be hot by then.
    settle_touches: u64,
    touches: u64,
}

impl Idle {
    pub(super) fn new(context: &Context) -> Self {
        Self {
            mib: context.full_or(1024, 256),
            settle_touches: context.full_or(4_000_000, 150_000),
            touches: context.full_or(1_200_000, 150_000),
        }
    }
}

impl Workload for Idle {
    fn name(&self) -> String {
        "idle-heavy".to_owned()
    }

    fn title(&self) -> String {
        "Idle-heavy heap".to_owned()
    }

    fn description(&self) -> String {
        format!(
            "A heap of {} MiB, of which 20 % is hot, 10 % touched once in a thousand times and 70 % never, in clusters of 16 KiB. \
             {TOTAL_PERCENT} % of it for resident memory and pool together. Settling is {} visits of a page that check \
             all of its bytes, work {} more.",
            self.mib, self.settle_touches, self.touches
        )
    }

    fn metrics(&self) -> Vec<Metric> {
        vec![
            Metric::new("work.seconds", "work", "s", false).digits(3),
            Metric::new("settle.seconds", "settling", "s", false).digits(3),
            Metric::new("fill.seconds", "filling", "s", false).digits(3),
            Metric::new("work.p50", "fault p50", "us", false),
            Metric::new("work.p99", "fault p99", "us", false),
            Metric::new("work.p99.9", "fault p99.9", "us", false),
        ]
    }

    fn sides(&self) -> Vec<Side> {
        WITHOUT_ZRAM.to_vec()
    }

    fn budget(&self) -> Budget {
        Budget::Total {
            bytes: self.mib * MIB * TOTAL_PERCENT / 100,
            working_set: self.mib * MIB,
            // The hot set and what comes with it.
            resident_least: self.mib * MIB * 24 / 100,
        }
    }

    fn run(&self, session: &Session) -> Result<Outcome, Failure> {
        let args = [
            "idle".to_owned(),
            "--mb".to_owned(),
            self.mib.to_string(),
            "--touches".to_owned(),
            self.touches.to_string(),
            "--settle-touches".to_owned(),
            self.settle_touches.to_string(),
        ];
        let measured = session.run(&session.workload_program(&args), None)?;
        let stdout = String::from_utf8_lossy(&measured.output.stdout).into_owned();
        let mut outcome = Outcome::from(measured);
        for (name, pass) in read_passes(&stdout)? {
            pass.put_into(&name, &mut outcome);
        }
        outcome.latencies.retain(|name, _| name == "work");
        Ok(outcome)
    }
}
