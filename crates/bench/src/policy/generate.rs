//! Traces of the kinds that the workloads make.

use uzswap_workload::heap::Rng;
use uzswap_workload::zipf::Zipf;

use super::trace::Trace;
use crate::options::Policy as Options;

/// As `uzswap workload idle` has them (`crates/workload/src/idle.rs`): clusters of so many pages
/// are hot, warm or cold by themselves, so many percent of them hot and warm; of so many touches
/// one is of a warm page, and of so many cold clusters one is looked at in the end.
const CLUSTER_PAGES: u64 = 4;
const HOT_PERCENT: u64 = 20;
const WARM_PERCENT: u64 = 10;
const WARM_ONE_IN: u64 = 1000;
const CHECK_ONE_IN: usize = 64;

/// Scans of all memory in a trace, and working sets one after the other in another.
const SCANS: u64 = 10;
const PHASES: u64 = 5;

/// All of them.
pub(crate) fn all(options: &Options) -> Vec<Trace> {
    let maker = Maker {
        pages: options.pages.into(),
        touches: options.touches.into(),
        seed: options.seed,
    };
    vec![
        Trace::new("zipf", maker.zipf()),
        Trace::new("idle-heavy", maker.idle_heavy()),
        Trace::new("hot set, scans", maker.scans()),
        Trace::new("moving hot set", maker.phases()),
        Trace::new("loop", maker.laps()),
        Trace::new("uniform", maker.uniform()),
    ]
}

/// What all traces have in common: pages are numbered from 0 on.
struct Maker {
    pages: u64,
    /// About.
    touches: u64,
    seed: u64,
}

impl Maker {
    fn rng(&self) -> Rng {
        Rng::new(self.seed)
    }

    /// Keys of a cache, a page each.
    fn zipf(&self) -> Vec<u64> {
        let (zipf, mut rng) = (Zipf::new(self.pages), self.rng());
        (0..self.touches).map(|_| zipf.draw(&mut rng)).collect()
    }

    /// A heap that is filled, then worked on in a few places; in the end some of the rest is looked
    /// at.
    fn idle_heavy(&self) -> Vec<u64> {
        let (clusters, mut rng) = (Clusters::new(self.seed, self.pages), self.rng());
        let fill = 0..self.pages;
        let work: Vec<u64> = (0..self.touches).map(|_| clusters.draw(&mut rng)).collect();
        let check = clusters.cold.iter().step_by(CHECK_ONE_IN);
        fill.chain(work)
            .chain(check.map(|cluster| cluster * CLUSTER_PAGES))
            .collect()
    }

    /// A hot set, and now and then a scan of everything, as of a garbage collector or a backup.
    fn scans(&self) -> Vec<u64> {
        let (clusters, mut rng) = (Clusters::new(self.seed, self.pages), self.rng());
        let hot = self.touches.saturating_sub(SCANS * self.pages) / SCANS;
        let mut trace = Vec::new();
        for _ in 0..SCANS {
            trace.extend((0..hot).map(|_| clusters.draw_hot(&mut rng)));
            trace.extend(0..self.pages);
        }
        trace
    }

    /// Hot sets that follow each other, as of a program with phases.
    fn phases(&self) -> Vec<u64> {
        let mut rng = self.rng();
        let mut trace = Vec::new();
        for phase in 0..PHASES {
            let clusters = Clusters::new(self.seed + phase, self.pages);
            trace.extend((0..self.touches / PHASES).map(|_| clusters.draw_hot(&mut rng)));
        }
        trace
    }

    /// Everything, over and over: more than fits.
    fn laps(&self) -> Vec<u64> {
        (0..self.touches.div_ceil(self.pages))
            .flat_map(|_| 0..self.pages)
            .collect()
    }

    fn uniform(&self) -> Vec<u64> {
        let mut rng = self.rng();
        (0..self.touches).map(|_| rng.below(self.pages)).collect()
    }
}

/// Clusters by temperature.
#[derive(Default)]
struct Clusters {
    hot: Vec<u64>,
    warm: Vec<u64>,
    cold: Vec<u64>,
}

impl Clusters {
    fn new(seed: u64, pages: u64) -> Self {
        let mut clusters = Self::default();
        let mut rng = Rng::new(seed ^ 0x686f_7400);
        for cluster in 0..pages / CLUSTER_PAGES {
            let list = match rng.below(100) {
                drawn if cluster == 0 || drawn < HOT_PERCENT => &mut clusters.hot,
                drawn if drawn < HOT_PERCENT + WARM_PERCENT => &mut clusters.warm,
                _ => &mut clusters.cold,
            };
            list.push(cluster);
        }
        clusters
    }

    fn draw(&self, rng: &mut Rng) -> u64 {
        match rng.below(WARM_ONE_IN) {
            0 if !self.warm.is_empty() => page_of(&self.warm, rng),
            _ => page_of(&self.hot, rng),
        }
    }

    fn draw_hot(&self, rng: &mut Rng) -> u64 {
        page_of(&self.hot, rng)
    }
}

fn page_of(clusters: &[u64], rng: &mut Rng) -> u64 {
    rng.pick(clusters) * CLUSTER_PAGES + rng.below(CLUSTER_PAGES)
}

#[cfg(test)]
mod test {
    use super::*;

    const MAKER: Maker = Maker {
        pages: 1024,
        touches: 20_000,
        seed: 1,
    };

    #[test]
    fn a_trace_follows_from_its_seed() {
        assert_eq!(MAKER.idle_heavy(), MAKER.idle_heavy());
        assert_ne!(MAKER.uniform(), Maker { seed: 2, ..MAKER }.uniform());
    }

    #[test]
    fn hot_sets_are_as_large_as_they_should_be() {
        let clusters = Clusters::new(1, 400_000);
        let percent = |list: &[u64]| list.len() as f64 / 1000.0;
        assert!((percent(&clusters.hot) - 20.0).abs() < 1.0 && (percent(&clusters.warm) - 10.0).abs() < 1.0);
    }

    #[test]
    fn every_scan_passes_all_pages() {
        let trace = Trace::new("", MAKER.scans());
        assert_eq!(trace.pages(), 1024);
        assert_eq!(trace.touches().len(), 20_000 / 10 * 10);
    }
}
