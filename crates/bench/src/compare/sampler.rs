//! Looks at a running program, its pool and its faults again and again.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::procfs::{family, rss_anon};
use super::results::MemoryUse;
use super::side::{Pool, Probe};

const INTERVAL: Duration = Duration::from_millis(50);
/// Samples kept for the plots: more than their pixels need.
const KEPT: usize = 240;

/// One look. Bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Sample {
    pub(crate) seconds: f64,
    /// Without the pool.
    pub(crate) resident: u64,
    pub(crate) pool: u64,
    pub(crate) disk: u64,
    /// Counted since the first sample.
    pub(crate) major_faults: u64,
}

/// All that was seen of one run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watched {
    pub(crate) memory: MemoryUse,
    pub(crate) timeline: Vec<Sample>,
    /// When most was used.
    pub(crate) parts: Parts,
    /// Bytes of pages for each byte of the pool, when that was largest.
    pub(crate) ratio: Option<f64>,
}

/// Where memory is. Bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Parts {
    /// Without those below.
    resident: u64,
    staged: u64,
    pool: u64,
    kept: u64,
    metadata: u64,
}

impl Parts {
    fn new(sample: &Sample, pool: &Pool) -> Self {
        let others = pool.staged_bytes + pool.kept_bytes + pool.agent_bytes;
        Self {
            resident: sample.resident.saturating_sub(others),
            staged: pool.staged_bytes,
            pool: sample.pool,
            kept: pool.kept_bytes,
            metadata: pool.agent_bytes,
        }
    }

    pub(crate) fn named(self) -> [(&'static str, u64); 5] {
        [
            ("resident", self.resident),
            ("staged", self.staged),
            ("pool", self.pool),
            ("kept", self.kept),
            ("metadata", self.metadata),
        ]
    }
}

impl Watched {
    fn note(&mut self, sample: Sample, stored_bytes: u64) {
        let memory = &mut self.memory;
        if sample.pool > memory.pool_peak {
            self.ratio = Some(stored_bytes as f64 / sample.pool as f64);
        }
        memory.resident_peak = memory.resident_peak.max(sample.resident);
        memory.pool_peak = memory.pool_peak.max(sample.pool);
        memory.total_peak = memory.total_peak.max(sample.resident + sample.pool);
        memory.disk_peak = memory.disk_peak.max(sample.disk);
        self.timeline.push(sample);
    }
}

/// Watch process `pid` and its descendants until `is_over`. If they share memory (`is_shared`),
/// what they are charged for is taken and not what each of them has mapped.
pub(crate) fn watch(pid: u32, probe: &Probe, is_shared: bool, is_over: &AtomicBool) -> Watched {
    let (mut watched, began) = (Watched::default(), Instant::now());
    let mut faults_before = None;
    while !is_over.load(Ordering::Relaxed) {
        let pool = probe.look();
        let anonymous = match pool.charged_bytes {
            Some(bytes) if is_shared => bytes,
            _ => family(pid).into_iter().map(rss_anon).sum(),
        };
        let inside = if pool.is_inside { pool.bytes } else { 0 };
        let before = *faults_before.get_or_insert(pool.major_faults);
        let sample = Sample {
            seconds: began.elapsed().as_secs_f64(),
            resident: anonymous.saturating_sub(inside),
            pool: pool.bytes,
            disk: pool.disk_bytes,
            major_faults: pool.major_faults.saturating_sub(before),
        };
        if sample.resident + sample.pool > watched.memory.total_peak {
            watched.parts = Parts::new(&sample, &pool);
        }
        watched.note(sample, pool.stored_bytes);
        std::thread::sleep(INTERVAL);
    }
    watched.timeline = thinned(&watched.timeline);
    watched
}

/// At most [`KEPT`] samples, evenly.
fn thinned(timeline: &[Sample]) -> Vec<Sample> {
    let step = timeline.len().div_ceil(KEPT).max(1);
    timeline.iter().copied().step_by(step).collect()
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn peaks_are_of_one_time() {
        let mut watched = Watched::default();
        let sample = |resident, pool| Sample {
            resident,
            pool,
            ..Sample::default()
        };
        watched.note(sample(100, 10), 20);
        watched.note(sample(60, 40), 100);
        assert_eq!(watched.memory.resident_peak, 100);
        assert_eq!((watched.memory.pool_peak, watched.memory.total_peak), (40, 110));
        assert_eq!(watched.ratio, Some(2.5));
    }

    #[test]
    fn long_timelines_are_thinned() {
        assert_eq!(thinned(&vec![Sample::default(); 1000]).len(), 200);
        assert_eq!(thinned(&[Sample::default(); 3]).len(), 3);
    }
}
