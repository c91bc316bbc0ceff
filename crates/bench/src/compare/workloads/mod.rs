//! What is run.

mod analytics;
mod build;
mod contents;
mod idle;
mod paging_cost;
mod programs;
mod redis;
mod start;
mod usemem;

use super::context::Context;
use super::equal_memory::Budget;
use super::results::Metric;
use super::session::{Outcome, Session};
use super::side::Side;
use crate::Failure;

/// Something to run under each side in turn.
pub(crate) trait Workload {
    /// One word, as --only and the results have it.
    fn name(&self) -> String;
    /// A heading.
    fn title(&self) -> String;
    /// What is done, in a sentence or two.
    fn description(&self) -> String;
    /// What it measures, the first the one that matters most. Processor time and memory are added.
    fn metrics(&self) -> Vec<Metric>;
    /// Whom it is run under.
    fn sides(&self) -> Vec<Side> {
        Side::ALL.to_vec()
    }
    /// Once prepared.
    fn budget(&self) -> Budget;
    /// More options of `uzswap run`.
    fn run_options(&self) -> &[&'static str] {
        &[]
    }
    /// Whether uzswap gets no option but its limit, and programs see no control group.
    fn has_default_options(&self) -> bool {
        false
    }
    /// Whether its processes share memory after a fork.
    fn is_shared_after_fork(&self) -> bool {
        false
    }
    /// How often each side runs, where `asked` is what the user wants.
    fn pairs(&self, asked: u32) -> u32 {
        asked
    }
    /// Before the first run. An error is why it cannot be run here.
    fn prepare(&mut self, _context: &Context) -> Result<(), Failure> {
        Ok(())
    }
    /// Once.
    fn run(&self, session: &Session) -> Result<Outcome, Failure>;
}

/// All of them, in the order in which they are run.
pub(crate) fn all(context: &Context) -> Vec<Box<dyn Workload>> {
    let mut all = usemem::all(context);
    all.push(Box::new(paging_cost::PagingCost::new(context)));
    all.extend(contents::all(context));
    all.push(Box::new(idle::Idle::new(context)));
    all.push(Box::new(redis::Redis::new(context)));
    all.push(Box::new(build::Build::default()));
    all.push(Box::new(analytics::Analytics::new(context)));
    all.push(Box::new(start::Start::new(context)));
    all.extend(programs::all(context));
    all
}

const MIB: u64 = 1 << 20;
/// zram differs from zswap in the two that write and read memory; elsewhere its time is better
/// spent.
const WITHOUT_ZRAM: [Side; 3] = [Side::NoLimit, Side::Zswap, Side::Uzswap];
