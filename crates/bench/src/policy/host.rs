//! The simulated machine with a swap table as large as a trace needs: that of the tests has room for 2,048 pages.

use uzswap_mm::machine::{Done, IoError, Machine};
use uzswap_mm::page::{PageRange, Vpn};
use uzswap_mm::sim::{SimMachine, VecArena, VecIo};
use uzswap_mm::swap_table::TableMemory;

/// A [`SimMachine`] but for its swap table.
pub(crate) struct Host {
    pub(crate) sim: SimMachine,
    pub(crate) table: TableMemory,
}

impl Machine for Host {
    type Arena = VecArena;
    type Io = VecIo;
    type Isolation = ();

    fn begin_isolation(&self) -> Option<()> {
        self.sim.begin_isolation()
    }

    fn copies(&self) -> bool {
        self.sim.copies()
    }

    fn give_up(&self, isolation: &(), run: PageRange) -> Vec<Vpn> {
        self.sim.give_up(isolation, run)
    }

    fn gave_up(&self) {
        self.sim.gave_up();
    }

    fn move_out(&self, vpn: Vpn, slot: u32, pages: u32) -> Done {
        self.sim.move_out(vpn, slot, pages)
    }

    fn move_in(&self, slot: u32, vpn: Vpn, pages: u32) -> Done {
        self.sim.move_in(slot, vpn, pages)
    }

    fn copy_in(&self, vpn: Vpn, bytes: &[u8], wake: bool) -> Done {
        self.sim.copy_in(vpn, bytes, wake)
    }

    fn wake(&self, vpn: Vpn, pages: u32) {
        self.sim.wake(vpn, pages);
    }

    fn with_staged<T>(&self, slots: &[u32], f: impl FnOnce(&[&[u8]]) -> T) -> T {
        self.sim.with_staged(slots, f)
    }

    fn drop_staged(&self, runs: &[(u32, u32)]) {
        self.sim.drop_staged(runs);
    }

    fn table_memory(&self) -> TableMemory {
        self.table
    }

    fn arena(&self) -> Option<VecArena> {
        self.sim.arena()
    }

    fn io_buffer(&self, pages: usize) -> VecIo {
        self.sim.io_buffer(pages)
    }

    fn write_swap(&self, slot: u32, bytes: &mut [u8]) -> Result<(), IoError> {
        self.sim.write_swap(slot, bytes)
    }

    fn read_swap(&self, device: u8, slot: u32, bytes: &mut [u8]) -> Result<(), IoError> {
        self.sim.read_swap(device, slot, bytes)
    }

    fn open_swap(&self, device: u8, slot: u32, page: &mut [u8]) -> bool {
        self.sim.open_swap(device, slot, page)
    }

    fn discard_swap(&self, slot: u32, slots: u32) {
        self.sim.discard_swap(slot, slots);
    }

    fn lanes(&self) -> usize {
        1
    }

    fn spread<L: Send>(&self, lanes: &mut [L], work: impl Fn(&mut L, &Self) + Sync) {
        lanes.iter_mut().for_each(|lane| work(lane, self));
    }

    fn now_ns(&self) -> u64 {
        self.sim.now_ns()
    }
}
