//! One run of a workload under a side: prepared, run, measured, put back.

use std::collections::BTreeMap;
use std::path::Path;

use super::context::Context;
use super::procfs::{counters, cpu_seconds, kswapds, read};
use super::results::{Latency, MemoryUse, Run};
use super::session::{Outcome, Session};
use super::side::{Prepared, Side};
use super::workloads::Workload;
use crate::Failure;

/// Of /proc/vmstat.
const COUNTERS: [&str; 15] = [
    "pgfault",
    "pgmajfault",
    "zswpin",
    "zswpout",
    "zswpwb",
    "pswpin",
    "pswpout",
    "swpin_zero",
    "swpout_zero",
    "swap_ra",
    "swap_ra_hit",
    "thp_fault_alloc",
    "thp_swpout",
    "thp_swpout_fallback",
    "workingset_refault_anon",
];
/// How often a run is made whose program the kernel kills for memory although there is swap left.
const ATTEMPTS: u32 = 4;
/// From this one on without swap readahead, whose pages fill a small control group: that is what
/// most of these kills are of.
const WITHOUT_READAHEAD: u32 = 2;

/// What a run is given.
#[derive(Clone, Copy)]
pub(crate) struct Terms {
    pub(crate) side: Side,
    pub(crate) pair: u32,
    /// Bytes; 0: none.
    pub(crate) limit: u64,
    /// For resident memory and pool together; 0: none.
    pub(crate) target: u64,
    /// Of uzswap's pool; none: uzswap's default.
    pub(crate) max_pool_percent: Option<u64>,
    /// The kernel reads swap pages ahead, as the machine is set to (its page-cluster).
    pub(crate) has_readahead: bool,
}

/// Run it, again if the kernel kills it.
pub(crate) fn run(context: &Context, workload: &dyn Workload, terms: Terms) -> Result<Run, Failure> {
    for oom_kills in 0..ATTEMPTS {
        let terms = Terms {
            has_readahead: terms.has_readahead && oom_kills < WITHOUT_READAHEAD,
            ..terms
        };
        match attempt(context, workload, terms)? {
            Attempt::Ran(run) => return Ok(Run { oom_kills, ..*run }),
            Attempt::OomKilled => {}
        }
    }
    Err(Failure::new(format!(
        "{}: {}: killed for memory {ATTEMPTS} times",
        workload.name(),
        terms.side.name()
    )))
}

enum Attempt {
    Ran(Box<Run>),
    OomKilled,
}

fn attempt(context: &Context, workload: &dyn Workload, terms: Terms) -> Result<Attempt, Failure> {
    let mut prepared = terms.side.prepare(context, terms.limit)?;
    if terms.side.is_kernel() && !terms.has_readahead {
        prepared.switch_readahead_off()?;
    }
    if let Some(percent) = terms.max_pool_percent {
        prepared.add_run_options(&["--max-pool-percent", &percent.to_string()]);
    }
    prepared.add_run_options(workload.run_options());
    if workload.has_default_options() {
        prepared.hide_control_groups();
    }
    let reclaimers = kswapds();
    let before = (counters(&read("/proc/vmstat")), cpu_seconds(&reclaimers));
    let session = Session {
        context,
        prepared: &prepared,
        is_shared: workload.is_shared_after_fork(),
    };
    let outcome = match workload.run(&session) {
        Ok(outcome) => outcome,
        Err(_) if prepared.oom_kills() > 0 => return Ok(Attempt::OomKilled),
        Err(Failure { line, .. }) => {
            return Err(Failure::new(format!(
                "{}: {}: {line}",
                workload.name(),
                terms.side.name()
            )));
        }
    };
    let kswapd_seconds = cpu_seconds(&reclaimers) - before.1;
    let counters = read_counters(&prepared, &before.0)?;
    Ok(Attempt::Ran(Box::new(assemble(
        terms,
        outcome,
        counters,
        kswapd_seconds,
    ))))
}

fn assemble(terms: Terms, outcome: Outcome, counters: BTreeMap<String, u64>, kswapd_seconds: f64) -> Run {
    let mut figures = outcome.figures;
    let cpu = outcome.cpu.total() + if terms.side.is_kernel() { kswapd_seconds } else { 0.0 };
    let count = |name: &str| counters.get(name).copied().unwrap_or(0);
    let stored = (count("zswpout") + count("swpout_zero")).max(count("pswpout")) * 4096;
    figures.insert("cpu".to_owned(), cpu);
    if terms.side != Side::NoLimit && stored > 0 {
        let gib = stored as f64 / f64::from(1 << 30);
        figures.insert("stored_gib".to_owned(), gib);
        figures.insert("cpu_per_gib".to_owned(), cpu / gib);
    }
    if let Some(ratio) = outcome.watched.ratio {
        figures.insert("ratio".to_owned(), ratio);
    }
    let latencies = outcome.latencies.iter();
    Run {
        side: terms.side,
        pair: terms.pair,
        figures,
        latencies: latencies
            .map(|(name, one)| (name.clone(), Latency::from(one)))
            .collect(),
        counters,
        memory: MemoryUse {
            limit: terms.limit,
            target: if terms.side == Side::NoLimit { 0 } else { terms.target },
            ..outcome.watched.memory
        },
        timeline: outcome.watched.timeline,
        oom_kills: 0,
        has_readahead: terms.has_readahead,
    }
}

/// Those of uzswap are its own: the kernel knows nothing of its swap.
fn read_counters(prepared: &Prepared, before: &BTreeMap<String, u64>) -> Result<BTreeMap<String, u64>, Failure> {
    if let Some(path) = &prepared.stat_json {
        return stat_json(path);
    }
    let after = counters(&read("/proc/vmstat"));
    let difference = |name: &str| {
        let since = before.get(name).copied().unwrap_or(0);
        Some((name.to_owned(), after.get(name)?.saturating_sub(since)))
    };
    Ok(COUNTERS.into_iter().filter_map(difference).collect())
}

/// The numbers of the object that `uzswap run --stat-json` wrote, but for folio sizes that never
/// came up.
fn stat_json(path: &Path) -> Result<BTreeMap<String, u64>, Failure> {
    let unreadable = |e: String| Failure::new(format!("{}: {e}", path.display()));
    // A workload may have started uzswap in its own way.
    if !path.exists() {
        return Ok(BTreeMap::new());
    }
    let text = std::fs::read_to_string(path).map_err(|e| unreadable(e.to_string()))?;
    let object: serde_json::Map<String, serde_json::Value> =
        serde_json::from_str(&text).map_err(|e| unreadable(e.to_string()))?;
    let numbers = object
        .into_iter()
        .filter_map(|(name, value)| Some((name, value.as_u64()?)));
    Ok(numbers
        .filter(|(name, value)| *value > 0 || !name.starts_with("hugepages"))
        .collect())
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::compare::sampler::Watched;
    use crate::cpu_times::CpuTimes;

    fn outcome() -> Outcome {
        Outcome {
            figures: BTreeMap::new(),
            latencies: BTreeMap::new(),
            cpu: CpuTimes { user: 1.0, sys: 2.0 },
            watched: Watched::default(),
        }
    }

    fn terms(side: Side) -> Terms {
        Terms {
            side,
            pair: 1,
            limit: 0,
            target: 7,
            max_pool_percent: None,
            has_readahead: true,
        }
    }

    #[test]
    fn the_kernels_threads_count_for_its_sides() {
        let counted = || BTreeMap::from([("zswpout".to_owned(), 1 << 18), ("pswpout".to_owned(), 5)]);
        let run = assemble(terms(Side::Zswap), outcome(), counted(), 0.5);
        assert_eq!((run.figures["cpu"], run.figures["cpu_per_gib"]), (3.5, 3.5));
        let run = assemble(terms(Side::Uzswap), outcome(), counted(), 0.5);
        assert_eq!(run.figures["cpu"], 3.0);
        let run = assemble(terms(Side::NoLimit), outcome(), counted(), 0.5);
        assert!(!run.figures.contains_key("cpu_per_gib") && run.memory.target == 0);
    }
}
