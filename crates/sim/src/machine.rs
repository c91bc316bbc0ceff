//! The machine under each engine: pages have contents that are known by their number, and every
//! step takes its time on the core that runs.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::Arc;

use uzswap_acomp::Algorithm;
use uzswap_mm::machine::{Accelerators, Clock, Device, Done, Frames, IoBuffer, IoError, Mapper, Memory, Threads};
use uzswap_mm::page::{PAGE_SIZE, PageRange, Vpn};
use uzswap_mm::sim::VecArena;
use uzswap_mm::swap_table::TableMemory;

use crate::coder::Coder;
use crate::world::World;

/// A buffer for a device that there is not.
pub(crate) struct Buffer(Vec<u8>);

impl IoBuffer for Buffer {
    fn bytes(&self, len: usize) -> &[u8] {
        &self.0[..len]
    }

    fn bytes_mut(&mut self, len: usize) -> &mut [u8] {
        &mut self.0[..len]
    }
}

/// One process's part of the machine.
pub(crate) struct Machine {
    world: Arc<World>,
    /// Which engine this is.
    owner: usize,
    table: TableMemory,
    /// Pages of the program's memory, from `base` on, that are mapped.
    base: Vpn,
    mapped: RefCell<Vec<bool>>,
    staged: RefCell<BTreeMap<u32, Vpn>>,
    lanes: Cell<usize>,
}

impl Machine {
    /// For engine `owner`, whose program has `pages` pages.
    pub(crate) fn new(world: Arc<World>, owner: usize, table: TableMemory, pages: PageRange) -> Self {
        Self {
            world,
            owner,
            table,
            base: pages.start,
            mapped: RefCell::new(vec![false; pages.pages() as usize]),
            staged: RefCell::new(BTreeMap::new()),
            lanes: Cell::new(1),
        }
    }

    /// Cores that compress a batch together.
    pub(crate) fn set_lanes(&self, lanes: usize) {
        self.lanes.set(lanes);
    }

    fn at(&self, page: Vpn) -> usize {
        (page.number() - self.base.number()) as usize
    }

    /// Whether the program has this page in front of it.
    pub(crate) fn has(&self, page: Vpn) -> bool {
        self.mapped.borrow()[self.at(page)]
    }

    fn set(&self, page: Vpn, is_mapped: bool) {
        let at = self.at(page);
        self.mapped.borrow_mut()[at] = is_mapped;
    }

    /// The program drops these pages.
    pub(crate) fn forget(&self, run: PageRange) {
        run.iter().for_each(|page| self.set(page, false));
    }
}

impl Mapper for Machine {
    type Isolation = ();

    fn begin_isolation(&self) -> Option<()> {
        Some(())
    }

    fn copies(&self) -> bool {
        false
    }

    fn give_up(&self, (): &(), _: PageRange) -> Vec<Vpn> {
        Vec::new()
    }

    fn gave_up(&self) {}

    fn move_out(&self, vpn: Vpn, slot: u32, pages: u32) -> Done {
        let mut staged = self.staged.borrow_mut();
        for (page, slot) in PageRange::new(vpn, pages.into()).iter().zip(slot..) {
            self.set(page, false);
            staged.insert(slot, page);
        }
        Done::all(pages)
    }

    fn copy_out(&self, vpn: Vpn, slot: u32, pages: u32) -> Done {
        self.move_out(vpn, slot, pages)
    }

    fn move_in(&self, slot: u32, vpn: Vpn, pages: u32) -> Done {
        let mut staged = self.staged.borrow_mut();
        for (page, slot) in PageRange::new(vpn, pages.into()).iter().zip(slot..) {
            staged.remove(&slot);
            self.set(page, true);
        }
        Done::all(pages)
    }

    fn is_mapped(&self, _: Vpn) -> bool {
        true
    }

    fn keeps_mapping(&self, _: PageRange) -> bool {
        false
    }

    fn copy_in(&self, vpn: Vpn, bytes: &[u8], _: bool) -> Done {
        let pages = (bytes.len() / PAGE_SIZE) as u32;
        PageRange::new(vpn, pages.into())
            .iter()
            .for_each(|page| self.set(page, true));
        Done::all(pages)
    }

    fn wake(&self, _: Vpn, _: u32) {}
}

impl Frames for Machine {
    fn with_staged<T>(&self, slots: &[u32], f: impl FnOnce(&[&[u8]]) -> T) -> T {
        let staged = self.staged.borrow();
        // No two engines have the same page.
        let number = |page: Vpn| page.number() ^ (self.owner as u64) << 40;
        let pages: Vec<&[u8]> = slots
            .iter()
            .map(|slot| self.world.contents.page(number(staged[slot])))
            .collect();
        f(&pages)
    }

    fn drop_staged(&self, runs: &[(u32, u32)]) {
        let mut staged = self.staged.borrow_mut();
        for slot in runs.iter().flat_map(|(slot, pages)| *slot..slot + pages) {
            staged.remove(&slot);
        }
    }
}

impl Device for Machine {
    type Io = Buffer;

    fn io_buffer(&self, pages: usize) -> Buffer {
        Buffer(vec![0; pages * PAGE_SIZE])
    }

    fn charge_swap(&self, _: u64, _: u64) -> u64 {
        0
    }

    fn write_swap(&self, _: u32, _: &mut [u8]) -> Result<(), IoError> {
        Err(IoError::NoSpace)
    }

    fn read_swap(&self, _: u8, _: u32, _: &mut [u8]) -> Result<(), IoError> {
        Err(IoError::Failed)
    }

    fn open_swap(&self, _: u8, _: u32, _: &mut [u8]) -> bool {
        false
    }

    fn discard_swap(&self, _: u32, _: u32) {}
}

impl Memory for Machine {
    type Arena = VecArena;

    fn table_memory(&self) -> TableMemory {
        self.table
    }

    fn arena(&self) -> Option<VecArena> {
        None
    }
}

impl Threads for Machine {
    fn lanes(&self) -> usize {
        self.lanes.get()
    }

    /// Each lane on a core of its own: the time is that of the slowest.
    fn spread<L: Send>(&self, lanes: &mut [L], work: impl Fn(&mut L, &Self) + Sync) {
        let mut fork = self.world.fork();
        for lane in lanes {
            self.world.begin_lane(&fork);
            work(lane, self);
            self.world.end_lane(&mut fork);
        }
        self.world.join(&fork);
    }
}

impl Accelerators for Machine {
    type Acomp = Coder;

    fn acomp(&self, algorithm: Algorithm) -> Option<Coder> {
        Some(Coder::new(self.world.clone(), self.owner, algorithm.codec()))
    }
}

impl Clock for Machine {
    fn now_ns(&self) -> u64 {
        self.world.now()
    }
}
