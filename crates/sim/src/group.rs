//! Programs in one group, each with an engine of its own, below one limit.

use std::sync::Arc;

use parking_lot::RawMutex;
use uzswap_acomp::{Algorithm, Compressor};
use uzswap_mm::page::{MAX_ORDER, PAGE_SIZE, PageRange, Vpn};
use uzswap_mm::sim::VecArena;
use uzswap_mm::swap_table::LEAF_PAGES;
use uzswap_mm::swap_table::entry::Slot;
use uzswap_mm::vmstat::{Item, Vmstat};
use uzswap_mm::zpool::{PoolKind, ZpoolType};
use uzswap_mm::{Change, Config, Effort, Fault, Mm, Portions, Replacement, SwapOut, Tunables, Worker};

use crate::machine::Machine;
use crate::shelf::Shelf;
use crate::world::{Coder, World};

/// First page of every program: aligned for the largest folio.
const BASE: u64 = 1 << 20;
/// Pages of a pool beside what is stored: zspages that are not full.
const POOL_SLACK: usize = 4096;
/// Faults after which a page must be there.
const TRIES: u32 = 8;

/// How the engines are set up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    pub(crate) programs: usize,
    /// Pages of each.
    pub(crate) pages: u64,
    /// Pages of memory that all may have together.
    pub(crate) limit: u64,
    /// log2 of a folio's pages.
    pub(crate) order: u32,
    /// Folios are split into pages before they leave.
    pub(crate) splits: bool,
    /// Pages that a worker compresses between two visits to the pool.
    pub(crate) store_batch: usize,
    /// Pages that reclaim takes at once at least; 1: each folio by itself.
    pub(crate) reclaim_batch: u32,
    /// Cores that compress a batch together.
    pub(crate) lanes: usize,
    /// log2 of the pages that come back together (vm.page-cluster): 0 in the seeds' tests.
    pub(crate) page_cluster: u32,
    /// Pages below the limit that others than the programs reclaim to (kcompressd).
    pub(crate) margin: u64,
}

/// One program and its engine.
pub(crate) struct Program {
    pub(crate) mm: Mm<RawMutex, Machine>,
    worker: Worker<Machine>,
    resident: u64,
}

/// All of them.
pub(crate) struct Group {
    pub(crate) world: Arc<World>,
    pub(crate) programs: Vec<Program>,
    setup: Setup,
    /// Resident pages of all.
    resident: u64,
}

fn config(setup: &Setup, coder: &Coder, shelf: &Shelf) -> Config {
    let algorithm = match coder {
        Coder::Software { .. } => Algorithm::Zstd { level: 3 },
        Coder::Device { .. } => Algorithm::Deflate { level: 1 },
    };
    Config {
        portions: Portions {
            folio_order: setup.order,
            give_up: 1,
        },
        page_cluster: setup.page_cluster,
        store_batch: setup.store_batch as u32,
        staging_slots: 4 << MAX_ORDER,
        staged_most: 0,
        zswap_segment: 512,
        swap_pages: 0,
        writes_plain: false,
        pool: PoolKind {
            zpool: ZpoolType::Zsmalloc,
            compressor: Compressor {
                algorithm,
                is_parallel: setup.lanes > 1,
            },
        },
        replacement: Replacement::default(),
        tunables: if setup.reclaim_batch == 1 {
            shelf.one_by_one
        } else {
            &Tunables::DEFAULT
        },
    }
}

impl Group {
    /// Programs that have touched nothing yet.
    pub(crate) fn new(world: &Arc<World>, setup: Setup, shelf: &mut Shelf) -> Self {
        let config = config(&setup, &world.costs.coder, shelf);
        let pages = PageRange::new(Vpn::new(BASE), setup.pages);
        let leaves = (setup.pages as usize).div_ceil(LEAF_PAGES) + 1;
        let tables = shelf.tables(setup.programs, leaves);
        let program = |(owner, (table, counters))| {
            let machine = Machine::new(world.clone(), owner, table, pages);
            machine.set_lanes(setup.lanes);
            let arena = VecArena::new(setup.pages as usize + POOL_SLACK);
            let mm = Mm::new(machine, arena, config, Vmstat::new(counters));
            mm.manage(pages);
            mm.set_swap_cache(false);
            if setup.splits {
                mm.set_swap_out(SwapOut::Split);
            }
            let worker = Worker::new(&config, mm.machine());
            Program {
                mm,
                worker,
                resident: 0,
            }
        };
        Self {
            world: world.clone(),
            programs: tables.into_iter().enumerate().map(program).collect(),
            setup,
            resident: 0,
        }
    }

    /// The page of a program by its number.
    pub(crate) fn page(n: u64) -> Vpn {
        Vpn::new(BASE + n)
    }

    fn update(&mut self, program: usize) {
        let program = &mut self.programs[program];
        let gauges = program.mm.gauges();
        let resident = gauges.resident + gauges.staged;
        self.resident = self.resident + resident - program.resident;
        program.resident = resident;
    }

    /// Pages that the group is charged for.
    fn usage(&self) -> u64 {
        self.resident + self.world.stored_bytes() / PAGE_SIZE as u64
    }

    /// The program touches these pages, which it had not touched, or wants back.
    pub(crate) fn touch(&mut self, program: usize, pages: PageRange) {
        let Program { mm, worker, .. } = &mut self.programs[program];
        let costs = &self.world.costs;
        let missing = || pages.iter().filter(|page| !mm.machine().has(*page));
        if missing().next().is_none() {
            return;
        }
        self.world.work(costs.fault_ns);
        for page in missing().collect::<Vec<_>>() {
            let served = (0..TRIES).any(|_| mm.machine().has(page) || mm.fault(worker, page) == Fault::Served);
            assert!(served, "{page:?} faults for ever");
            self.world.work(costs.zero_ns);
        }
        self.update(program);
        self.make_room();
    }

    /// Reclaim until the group is at its limit.
    fn make_room(&mut self) {
        let mut fruitless = 0;
        while fruitless < self.programs.len() && self.usage() > self.setup.limit {
            let reclaimed = self.reclaim(self.setup.limit);
            fruitless = if reclaimed { 0 } else { fruitless + 1 };
        }
    }

    /// One round of somebody who is no program, if the group is near its limit.
    pub(crate) fn reclaim_ahead(&mut self) -> bool {
        let target = self.setup.limit - self.setup.margin;
        self.usage() > target && self.reclaim(target)
    }

    /// One round, from the program that has most. Whether anything was stored.
    fn reclaim(&mut self, target: u64) -> bool {
        let excess = self.usage().saturating_sub(target);
        let most = (0..self.programs.len()).max_by_key(|i| (self.programs[*i].resident, *i));
        let Some(most) = most else { return false };
        let want = (excess as u32).max(self.setup.reclaim_batch);
        let Program { mm, worker, .. } = &mut self.programs[most];
        let scan = mm.shrink(worker, want, Effort::Requested);
        self.update(most);
        scan.reclaimed > 0
    }

    /// The program, which is over, drops the pages of a run. What of them is stored takes its time.
    pub(crate) fn drop_pages(&mut self, program: usize, pages: PageRange) {
        let mm = &self.programs[program].mm;
        let before = mm.gauges().stored;
        mm.machine().forget(pages);
        mm.change(Change::Remove(pages));
        let stored = before - mm.gauges().stored;
        self.world.work(self.world.costs.drop_ns * stored as f64);
        self.world.hold(self.world.costs.locked_ns * stored as f64);
        self.world.drop_stored(program, stored, before);
        self.update(program);
    }

    /// Whether a page of a program is in the pool.
    pub(crate) fn is_stored(&self, program: usize, page: Vpn) -> bool {
        matches!(self.programs[program].mm.slot(page), Slot::Zswap(_))
    }

    /// A counter, of all programs.
    pub(crate) fn count(&self, item: Item) -> u64 {
        self.programs.iter().map(|program| program.mm.stat().get(item)).sum()
    }
}

#[cfg(test)]
mod test {
    use uzswap_mm::vmstat::OrderItem;

    use super::*;
    use crate::contents::Contents;
    use crate::world::{Accelerators, Costs};

    fn costs(coder: Coder) -> Costs {
        Costs {
            fault_ns: 100.0,
            zero_ns: 10.0,
            store_ns: 1000.0,
            locked_ns: 100.0,
            store_share: 1.0,
            load_ns: 500.0,
            drop_ns: 50.0,
            store_batch: 1,
            coder,
        }
    }

    fn group(setup: Setup, coder: Coder) -> Group {
        let contents = Contents::new(1, 2.0);
        let world = World::new(costs(coder), Accelerators::SEEDS, contents, vec![1.0; setup.programs]);
        Group::new(&Arc::new(world), setup, &mut Shelf::default())
    }

    const SETUP: Setup = Setup {
        programs: 2,
        pages: 256,
        limit: 256,
        order: 4,
        splits: false,
        store_batch: 8,
        reclaim_batch: 32,
        lanes: 1,
        page_cluster: 0,
        margin: 0,
    };
    const SOFTWARE: Coder = Coder::Software {
        compress_ns: 5000.0,
        decompress_ns: 2000.0,
    };

    /// Pages of folios of 64K that were stored whole.
    fn whole(group: &Group) -> u64 {
        let folios = |program: &Program| program.mm.stat().folios(OrderItem::ZswpOut, 4);
        group.programs.iter().map(folios).sum::<u64>() * 16
    }

    /// Touch everything in turn, in folios.
    fn write(group: &mut Group) {
        for page in (0..SETUP.pages).step_by(16) {
            for program in 0..SETUP.programs {
                group.world.run_on(program);
                group.touch(program, PageRange::new(Group::page(page), 16));
            }
        }
    }

    #[test]
    fn a_group_stays_below_its_limit_and_folios_leave_whole() {
        let mut group = group(SETUP, SOFTWARE);
        write(&mut group);
        let out = group.count(Item::ZswpOut);
        // 512 pages in 256, where each that leaves takes half a page.
        assert!((500..=512).contains(&out), "{out}");
        assert!(whole(&group) > out * 9 / 10);
        assert!(group.usage() <= SETUP.limit);
        assert!(group.world.system_ns() >= out * 6000);
    }

    #[test]
    fn split_folios_leave_page_by_page() {
        let mut group = group(Setup { splits: true, ..SETUP }, SOFTWARE);
        write(&mut group);
        assert!(group.count(Item::ZswpOut) >= 500);
        assert_eq!(whole(&group), 0);
    }

    #[test]
    fn what_is_stored_comes_back_and_what_is_dropped_is_not_charged() {
        let mut group = group(SETUP, SOFTWARE);
        write(&mut group);
        let before = group.world.stored_bytes();
        group.world.run_on(0);
        group.touch(0, PageRange::new(Group::page(0), 16));
        assert_eq!(group.count(Item::ZswpIn), 16);
        for program in 0..SETUP.programs {
            group.drop_pages(program, PageRange::new(Group::page(0), SETUP.pages));
        }
        assert!(before > 0);
        assert_eq!((group.usage(), group.world.stored_bytes()), (0, 0));
    }
}
