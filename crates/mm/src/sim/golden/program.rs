//! Programs of many pages, most of them on the device, that touch them as programs do: hot
//! clusters, sequences, now and then anything. What neighbours are worth, and how much of the pool
//! goes to the device, is decided here, and not among the few pages of a [`World`](super::World).

use std::format;
use std::string::String;

use uzswap_acomp::Algorithm;

use super::super::{BASE, SimMachine, VecArena, contents};
use super::{Numbers, counters};
use crate::page::{PageRange, Vpn};
use crate::zpool::{PoolKind, ZpoolType};
use crate::{Config, Effort, Fault, Mm, Portions, Replacement, Scan, Tunables, Worker};

pub(super) const PROGRAMS: u64 = 8;
/// Pages of one, if it does not say otherwise.
pub(super) const PAGES: u64 = 4096;
const HOT: u64 = 96;
const TOUCHES: u64 = 15_000;

/// What a program is given, in pages.
#[derive(Clone, Copy)]
pub(super) struct Given {
    /// Managed, from [`BASE`] on.
    pub(super) pages: u64,
    pub(super) resident: u64,
    pub(super) pool: u64,
    pub(super) device: u64,
    pub(super) portions: Portions,
    pub(super) replacement: Replacement,
}

impl Given {
    pub(super) const DEFAULT: Self = Self {
        pages: PAGES,
        resident: 640,
        pool: 320,
        device: 2 * PAGES,
        portions: Portions {
            folio_order: 0,
            give_up: 16,
        },
        replacement: Replacement::Workingset,
    };
}

pub(super) struct Program {
    pub(super) mm: Mm<parking_lot::RawMutex, SimMachine>,
    pub(super) worker: Worker<SimMachine>,
    resident: u64,
}

impl Program {
    pub(super) fn new(given: Given, compressor: Algorithm, tunables: &'static Tunables) -> Self {
        let machine = SimMachine::default();
        // With room for those that are locked.
        machine.table.set(Some(SimMachine::memory(given.pages as usize / 4)));
        let config = Config {
            portions: given.portions,
            page_cluster: 3,
            store_batch: 8,
            staging_slots: 2048,
            staged_most: 64,
            zswap_segment: 64,
            swap_pages: given.device,
            writes_plain: false,
            pool: PoolKind {
                zpool: ZpoolType::Zsmalloc,
                compressor: compressor.into(),
            },
            replacement: given.replacement,
            tunables,
        };
        let arena = VecArena::new(8 * given.pool as usize);
        let mm = Mm::new(machine, arena, config, SimMachine::vmstat());
        mm.manage(PageRange::new(Vpn::new(BASE), given.pages));
        mm.set_pool_limit(given.pool, given.pool * 9 / 10);
        let worker = Worker::new(&config, mm.machine());
        Self {
            mm,
            worker,
            resident: given.resident,
        }
    }

    fn is_mapped(&self, vpn: Vpn) -> bool {
        self.mm.machine().pages.borrow().contains_key(&vpn)
    }

    /// Touch a page, and write what compresses to it.
    pub(super) fn touch(&mut self, page: u64, writes: bool) {
        let is_new = self.bring(page);
        if writes {
            self.write(page, 4 * page + 2);
        }
        if is_new {
            self.make_room();
        }
    }

    /// Fault a page until it is there; whether it was not.
    pub(super) fn bring(&mut self, page: u64) -> bool {
        let vpn = Vpn::new(BASE + page);
        let is_new = !self.is_mapped(vpn);
        while !self.is_mapped(vpn) {
            assert!(self.mm.fault(&mut self.worker, vpn) != Fault::Lost, "{vpn:?} is lost");
        }
        is_new
    }

    pub(super) fn write(&mut self, page: u64, seed: u64) {
        let vpn = Vpn::new(BASE + page);
        let is_protected = || self.mm.machine().protected.borrow().contains(&vpn);
        while is_protected() {
            self.mm.write_fault(vpn, false);
        }
        let mut pages = self.mm.machine().pages.borrow_mut();
        pages.get_mut(&vpn).expect("mapped").copy_from_slice(&contents(seed));
    }

    pub(super) fn make_room(&mut self) {
        self.mm.tick();
        for _ in 0..64 {
            let gauges = self.mm.gauges();
            if gauges.resident + gauges.staged <= self.resident {
                return;
            }
            if self.shrink(Effort::Background).is_dry {
                self.shrink(Effort::Requested);
            }
        }
    }

    /// A round of reclaim. What refused since a relative has it has its sharing broken.
    pub(super) fn shrink(&mut self, effort: Effort) -> Scan {
        let scan = self.mm.shrink(&mut self.worker, 32, effort);
        for range in &scan.shared {
            self.mm
                .machine()
                .pinned
                .borrow_mut()
                .retain(|vpn| !range.contains(*vpn));
            self.mm.isolate_range(*range);
        }
        scan
    }

    /// What came of it, as one line.
    pub(super) fn line(&self, name: &str) -> String {
        let ledger = &self.mm.machine().ledger;
        let (calls, digest) = (ledger.calls(), ledger.digest());
        format!("{name} {calls} {digest:016x} {:016x}", counters(self.mm.stat()))
    }
}

pub(super) fn program(run: u64, tunables: &'static Tunables) -> String {
    let given = Given {
        portions: Portions {
            folio_order: run as u32 % 3 * 2,
            give_up: 16,
        },
        ..Given::DEFAULT
    };
    let mut program = Program::new(given, Algorithm::Lz4 { acceleration: 1 }, tunables);
    program.mm.machine().copies.set(run == 5);
    program.mm.set_shrinker(run % 2 == 1);
    let mut numbers = Numbers(run << 40);
    for touch in 0..TOUCHES {
        let [kind, at] = [(); 2].map(|()| numbers.next());
        let page = match (kind % 100, run % 4) {
            (0..70, 0 | 1) => (at % HOT * 37 % (PAGES / 4)) * 4 + kind / 100 % 4,
            (0..70, 2) => touch * 2 / 3 % PAGES,
            (0..70, _) => at % (PAGES / 8),
            (70..90, _) => (at % 64 * 61 + touch / 8) % PAGES,
            _ => at % PAGES,
        };
        program.touch(page, kind.is_multiple_of(3));
    }
    program.line(&format!("program {run}"))
}
