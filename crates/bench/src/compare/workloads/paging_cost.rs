//! What paging costs beside the compressor: 2 MiB folios, written once.

use rustix::time::{ClockId, clock_gettime};
use uzswap_acomp::{Algorithm, Context as Compressor};
use uzswap_workload::heap::{self, PAGE_SIZE};

use super::usemem::{Usemem, Variant};
use super::{MIB, Workload};
use crate::Failure;
use crate::compare::context::Context;
use crate::compare::equal_memory::Budget;
use crate::compare::results::Metric;
use crate::compare::session::{Outcome, Session};
use crate::compare::side::Side;

/// Pages compressed for the raw time: one of so many of the program's.
const SAMPLE_ONE_IN: u64 = 24;

/// `usemem --passes write` with large folios, and its pages compressed by themselves.
pub(super) struct PagingCost {
    usemem: Usemem,
}

impl PagingCost {
    pub(super) fn new(context: &Context) -> Self {
        let mib = context.full_or(1536, 256);
        let budget = Budget::Total {
            bytes: mib * MIB * 58 / 100,
            working_set: mib * MIB,
            resident_least: 0,
        };
        Self {
            usemem: Usemem {
                mib,
                sides: vec![Side::NoLimit, Side::Uzswap],
                budget: Some(budget),
                run_options: vec!["--folio-max", "2M", "--recompress", "none", "--compressor", "lz4"],
                ..Usemem::new(
                    "paging-cost",
                    "Cost of paging at 2 MiB",
                    "One process fills its memory once, with folios of 2 MiB and no recompression; what it cost more than \
                     without a limit is compared with what the compressor alone takes for the same pages",
                    &["write"],
                )
            },
        }
    }
}

impl Variant for PagingCost {
    fn usemem(&self) -> &Usemem {
        &self.usemem
    }

    fn metric(&self) -> Metric {
        Metric::new("raw_us", "compressor alone, a page", "us", false).digits(2)
    }

    fn run(&self, session: &Session) -> Result<Outcome, Failure> {
        let mut outcome = self.usemem.run(session)?;
        if session.prepared.side == Side::Uzswap {
            outcome.put("raw_us", raw_us(self.usemem.mib * MIB / PAGE_SIZE as u64));
        }
        Ok(outcome)
    }
}

/// Microseconds of this thread's processor time that lz4 takes for a page, in the mean over the
/// program's pages but zeros.
fn raw_us(pages: u64) -> f64 {
    let mut compressor = Compressor::new(Algorithm::Lz4 { acceleration: 1 });
    let (mut page, mut block) = ([0; PAGE_SIZE], [0; PAGE_SIZE]);
    let (mut seconds, mut compressed) = (0.0, 0);
    for index in (0..pages).step_by(SAMPLE_ONE_IN as usize) {
        heap::fill_page(1, index, &mut page);
        if page.iter().all(|byte| *byte == 0) {
            continue;
        }
        let began = thread_seconds();
        // A page that does not shrink takes its time too.
        let _ = std::hint::black_box(compressor.compress_page(&page, &mut block));
        seconds += thread_seconds() - began;
        compressed += 1;
    }
    seconds * 1e6 / f64::from(compressed.max(1))
}

fn thread_seconds() -> f64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}
