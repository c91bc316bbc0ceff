//! The engine as a policy: the order in which it takes pages, over a simulated machine.

use uzswap_ctl::defaults::{self, SWAP_CLUSTER_MAX};
use uzswap_mm::page::{PAGE_SIZE, PageRange, Vpn};
use uzswap_mm::sim::{SimMachine, VecArena};
use uzswap_mm::swap_table::{LEAF_PAGES, TableMemory};
use uzswap_mm::vmstat::Item;
use uzswap_mm::{Config, Effort, Fault, Mm, Portions, Replacement, Tunables, Worker};

use super::trace::Trace;

/// Fewest pages that the engine can be asked to keep: it takes [`SWAP_CLUSTER_MAX`] at a time, as
/// kswapd does where folios are pages, and some wait for their second chance.
pub(crate) const CAPACITY_MIN: usize = 256;

/// Rounds after which there must be room, and faults after which a page must be there.
const ROUNDS_MAX: u32 = 1000;
const TRIES: u32 = 8;
/// Refault distances are told apart as finely, in parts of the limit, as in an agent with this one:
/// pages.
const SEGMENT_LIMIT: u64 = (256 << 20) / PAGE_SIZE as u64;
/// Pages that reclaim takes together if they are old and next to each other.
const WINDOW: u64 = 64;
/// More pages of a pool than pages that are stored.
const POOL_SLACK: usize = 4096;

/// Where the pages of a trace lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// Where the trace says.
    AsTraced,
    /// So far apart that none is taken along with another.
    Apart,
}

/// What the engine did with a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// Touches of pages that were in the pool.
    pub(crate) misses: usize,
    /// Touches of pages that waited for their second chance.
    pub(crate) second_chances: usize,
}

/// An engine with the pages of one trace.
struct Engine<'a> {
    mm: Mm<parking_lot::RawMutex, SimMachine>,
    worker: Worker<SimMachine>,
    vpns: &'a [Vpn],
    capacity: u64,
}

/// The pages of a trace, and memory for their swap table.
pub(crate) struct Space {
    vpns: Vec<Vpn>,
    table: TableMemory,
}

impl Space {
    /// Leaks the memory of a swap table, which must never be unmapped.
    pub(crate) fn new(trace: &Trace, layout: Layout) -> Self {
        let place = |(index, number)| match layout {
            Layout::AsTraced => number,
            Layout::Apart => index * WINDOW,
        };
        let vpns: Vec<Vpn> = (0..)
            .zip(trace.numbers().iter().copied())
            .map(place)
            .map(Vpn::new)
            .collect();
        let mut leaves: Vec<u64> = vpns.iter().map(|vpn| vpn.number() / LEAF_PAGES as u64).collect();
        leaves.sort_unstable();
        leaves.dedup();
        Self {
            table: SimMachine::memory(leaves.len()),
            vpns,
        }
    }

    /// Touch the pages of `trace`, which this is for, while at most `capacity` of them are
    /// resident, pages leave in this order and the engine decides by `tunables`.
    pub(crate) fn run(
        &self,
        trace: &Trace,
        capacity: usize,
        order: Replacement,
        tunables: &'static Tunables,
    ) -> Outcome {
        let mut engine = Engine::new(self, capacity, config(capacity, order, tunables));
        for index in trace.touches() {
            engine.touch(*index);
        }
        let count = |item| engine.mm.stat().get(item) as usize;
        Outcome {
            misses: count(Item::RefaultAnon),
            second_chances: count(Item::RestoreAnon),
        }
    }

    /// The pages from the first to the last.
    fn range(&self) -> PageRange {
        let numbers = || self.vpns.iter().map(|vpn| vpn.number());
        let (first, last) = (numbers().min().unwrap_or(0), numbers().max().unwrap_or(0));
        PageRange::new(Vpn::new(first), last + 1 - first)
    }
}

/// One page a fault, and nothing goes to a device: the order in which pages leave is all that is
/// left.
fn config(capacity: usize, order: Replacement, tunables: &'static Tunables) -> Config {
    let capacity = capacity as u64;
    let staged_most = defaults::staged_most(capacity);
    Config {
        portions: Portions {
            folio_order: 0,
            give_up: 1,
        },
        page_cluster: 0,
        store_batch: defaults::STORE_BATCH as u32,
        staging_slots: defaults::staging_slots(staged_most),
        staged_most,
        zswap_segment: capacity * defaults::zswap_segment(SEGMENT_LIMIT) / SEGMENT_LIMIT,
        swap_pages: 0,
        writes_plain: false,
        pool: defaults::POOL,
        replacement: order,
        tunables,
    }
}

impl<'a> Engine<'a> {
    fn new(space: &'a Space, capacity: usize, config: Config) -> Self {
        // What an earlier engine left.
        (space.table.release)(space.table.words);
        let machine = SimMachine::default();
        machine.table.set(Some(space.table));
        let arena = VecArena::new(space.vpns.len() + POOL_SLACK);
        let mm = Mm::new(machine, arena, config, SimMachine::vmstat());
        mm.manage(space.range());
        Self {
            worker: Worker::new(&config, mm.machine()),
            mm,
            vpns: &space.vpns,
            capacity: capacity as u64,
        }
    }

    fn touch(&mut self, index: u32) {
        let vpn = self.vpns[index as usize];
        if self.is_mapped(vpn) {
            return;
        }
        self.fault(vpn);
        self.write(vpn, index);
        self.make_room();
    }

    fn is_mapped(&self, vpn: Vpn) -> bool {
        self.mm.machine().pages.borrow().contains_key(&vpn)
    }

    fn fault(&mut self, vpn: Vpn) {
        for _ in 0..TRIES {
            assert_ne!(self.mm.fault(&mut self.worker, vpn), Fault::Lost, "{vpn:?}");
            if self.is_mapped(vpn) {
                return;
            }
        }
        panic!("{vpn:?} faults for ever");
    }

    /// Something that compresses, but is not one word over and over: only what is in the pool has a
    /// shadow.
    fn write(&self, vpn: Vpn, index: u32) {
        if let Some(page) = self.mm.machine().pages.borrow_mut().get_mut(&vpn) {
            page[..4].copy_from_slice(&(index + 1).to_ne_bytes());
        }
    }

    /// What kswapd does, at once: no fault comes meanwhile.
    fn make_room(&mut self) {
        for _ in 0..ROUNDS_MAX {
            let gauges = self.mm.gauges();
            if gauges.resident + gauges.staged <= self.capacity {
                return;
            }
            let scan = self.mm.shrink(&mut self.worker, SWAP_CLUSTER_MAX, Effort::Background);
            if scan.is_dry {
                self.mm.shrink(&mut self.worker, SWAP_CLUSTER_MAX, Effort::Requested);
            }
        }
        panic!("reclaim came to nothing: {:?}", self.mm.gauges());
    }
}

#[cfg(test)]
mod test {
    use uzswap_workload::heap::Rng;
    use uzswap_workload::zipf::Zipf;

    use super::super::baseline::BASELINES;
    use super::*;

    const TUNABLES: &Tunables = &Tunables::DEFAULT;

    const PAGES: u64 = 1000;

    fn run(trace: &Trace, layout: Layout) -> Outcome {
        Space::new(trace, layout).run(trace, 300, Replacement::default(), TUNABLES)
    }

    #[test]
    fn what_fits_is_never_missed() {
        let trace = Trace::new("", (0..5000).map(|touch| touch % 250));
        for layout in [Layout::AsTraced, Layout::Apart] {
            let outcome = run(&trace, layout);
            assert_eq!(outcome.misses, 0, "{layout:?}");
        }
    }

    #[test]
    fn a_loop_over_a_third_more_than_fits_misses_less_than_half() {
        // Neighbours in the loop are none in the address space, or it would be a sequence.
        let trace = Trace::new("", (0..40 * PAGES).map(|touch| touch * 7 % PAGES));
        let touches = 39 * PAGES as usize;
        let misses = Space::new(&trace, Layout::AsTraced)
            .run(&trace, 750, Replacement::default(), TUNABLES)
            .misses;
        assert!(misses < touches / 2, "{misses} of {touches}");
    }

    #[test]
    fn the_optimum_is_not_beaten() {
        let (zipf, mut rng) = (Zipf::new(PAGES), Rng::new(1));
        let trace = Trace::new("", (0..20_000).map(|_| zipf.draw(&mut rng)));
        let optimum = BASELINES[0].misses(&trace, 300);
        for layout in [Layout::AsTraced, Layout::Apart] {
            let outcome = run(&trace, layout);
            assert!(
                outcome.misses >= optimum && outcome.second_chances > 0,
                "{outcome:?} {optimum}"
            );
        }
    }

    #[test]
    fn a_space_is_used_again() {
        let trace = Trace::new("", (0..5000).map(|touch| touch * 7 % PAGES));
        let space = Space::new(&trace, Layout::AsTraced);
        let run = || space.run(&trace, 300, Replacement::default(), TUNABLES);
        assert_eq!(run(), run());
    }
}
