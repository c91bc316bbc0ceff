//! The engine's machine: a userfaultfd without events, as nobody but us changes the mappings of
//! regions.

use core::sync::atomic::{AtomicBool, Ordering};

use uzswap_acomp::NoDevice;
use uzswap_backing::{
    PoolArena, SwapBuffer, SwapFile, done, filled_in, in_truth, place, stop, table_memory, with_staged,
};
use uzswap_mm::machine::{Accelerators, Clock, Device, Done, Frames, IoError, Mapper, Memory, Stop, Threads};
use uzswap_mm::page::{PAGE_SIZE, PageRange, Vpn};
use uzswap_mm::swap_table::TableMemory;
use uzswap_sys::mapping::{Discard, Mapping};
use uzswap_sys::procfs::ProcSelf;
use uzswap_sys::uffd::Uffd;
use uzswap_sys::{Errno, thread, time};

use crate::Error;
use crate::pins::Pins;
use crate::settings::Plan;

/// How long the engine's lock is left to a fault that waits for it, at most, and how long that is
/// waited for without giving the core away.
const PATIENCE_NS: u64 = 200_000;
const SPIN_NS: u64 = 20_000;

/// What the pager's threads have open. No other thread has the descriptors.
pub(crate) struct Fds {
    pub(crate) managed: Uffd,
    pub(crate) proc: ProcSelf,
    pub(crate) swap: Option<SwapFile>,
    /// Whether the kernel waits for pages too.
    pub(crate) serves_system_calls: bool,
}

pub(crate) struct RegionMachine {
    pub(crate) fds: Fds,
    staging: &'static Mapping,
    table: TableMemory,
    pool_bytes: usize,
    pub(crate) pins: Pins,
    /// An empty slot was ever refused, so those that are to be filled may be poisoned. Changed and
    /// looked at with the pins' lock.
    has_refused: AtomicBool,
}

impl RegionMachine {
    /// Reserve a staging range of `slots` pages and register it.
    ///
    /// # Errors
    /// What the system answers.
    pub(crate) fn new(fds: Fds, plan: &Plan, slots: u32) -> Result<Self, Error> {
        let reserve = || {
            let staging = Mapping::reserve_beside_data(slots as usize * PAGE_SIZE)?.without_huge_pages();
            staging.keep_from_children()?;
            fds.managed.register_missing(staging.addr(), staging.len())?;
            Ok(staging.leak())
        };
        Ok(Self {
            staging: reserve().map_err(Error::system("a staging range"))?,
            table: table_memory(plan.pool_bytes()).map_err(Error::system("a range for the swap table"))?,
            pool_bytes: plan.pool_bytes(),
            pins: Pins::default(),
            has_refused: AtomicBool::new(false),
            fds,
        })
    }

    fn slot_addr(&self, slot: u32) -> usize {
        self.staging.addr() + slot as usize * PAGE_SIZE
    }

    /// Somebody reads all memory (a debugger, mlockall), and an empty slot at `addr` with it: an
    /// error is what they get. False: not now.
    pub(crate) fn refuse(&self, addr: usize) -> bool {
        let _none_is_filled = self.pins.lock();
        self.has_refused.store(true, Ordering::Relaxed);
        match self.fds.managed.poison(addr) {
            Err(Errno::AGAIN | Errno::NOMEM) => false,
            Ok(()) => true,
            // It was filled meanwhile.
            Err(_) => {
                self.fds.managed.wake(addr, PAGE_SIZE);
                true
            }
        }
    }

    /// Whether `addr` is in the staging range.
    pub(crate) fn is_staging(&self, addr: usize) -> bool {
        (self.staging.addr()..self.staging.addr() + self.staging.len()).contains(&addr)
    }
}

impl Mapper for RegionMachine {
    type Isolation = ();

    fn begin_isolation(&self) -> Option<()> {
        Some(())
    }

    fn copies(&self) -> bool {
        false
    }

    fn give_up(&self, (): &(), run: PageRange) -> Vec<Vpn> {
        // Nothing is copied out.
        run.iter().collect()
    }

    fn gave_up(&self) {}

    fn move_out(&self, vpn: Vpn, slot: u32, pages: u32) -> Done {
        let pins = self.pins.lock();
        let free = pins.before(vpn, pages);
        let behind = (free < pages).then_some(Stop::Needed);
        if free == 0 {
            return Done { pages: 0, stop: behind };
        }
        if self.has_refused.load(Ordering::Relaxed) {
            self.drop_staged(&[(slot, free)]);
        }
        let (to, len) = (self.slot_addr(slot), free as usize * PAGE_SIZE);
        let filled = self.fds.managed.move_pages(to, vpn.addr(), len, false);
        let moved = done(in_truth(&self.fds.proc, filled, len, to, true), stop);
        Done {
            stop: moved.stop.or(behind.filter(|_| moved.pages == free)),
            ..moved
        }
    }

    fn copy_out(&self, _: Vpn, _: u32, _: u32) -> Done {
        Done::none(Stop::Unmovable)
    }

    fn move_in(&self, slot: u32, vpn: Vpn, pages: u32) -> Done {
        let (from, len) = (self.slot_addr(slot), pages as usize * PAGE_SIZE);
        let filled = self.fds.managed.move_pages(vpn.addr(), from, len, true);
        let truth = in_truth(&self.fds.proc, filled, len, from, false);
        let done = filled_in(done(truth, stop));
        if truth != filled {
            self.wake(vpn, done.pages);
        }
        done
    }

    fn is_mapped(&self, _: Vpn) -> bool {
        true
    }

    fn keeps_mapping(&self, _: PageRange) -> bool {
        false
    }

    fn copy_in(&self, vpn: Vpn, bytes: &[u8], wake: bool) -> Done {
        filled_in(done(self.fds.managed.copy(vpn.addr(), bytes, wake), stop))
    }

    fn wake(&self, vpn: Vpn, pages: u32) {
        self.fds.managed.wake(vpn.addr(), pages as usize * PAGE_SIZE);
    }
}

impl Frames for RegionMachine {
    fn with_staged<T>(&self, slots: &[u32], f: impl FnOnce(&[&[u8]]) -> T) -> T {
        with_staged(self.staging, slots, f)
    }

    fn drop_staged(&self, runs: &[(u32, u32)]) {
        for (slot, pages) in runs {
            let (offset, len) = (*slot as usize * PAGE_SIZE, *pages as usize * PAGE_SIZE);
            if let Err(errno) = self.staging.discard(offset, len, Discard::DontNeed) {
                panic!("MADV_DONTNEED on the staging range: {errno}");
            }
        }
    }
}

impl Device for RegionMachine {
    type Io = SwapBuffer;

    fn io_buffer(&self, pages: usize) -> SwapBuffer {
        SwapBuffer::new(pages)
    }

    fn charge_swap(&self, _: u64, want: u64) -> u64 {
        want
    }

    fn write_swap(&self, slot: u32, bytes: &mut [u8]) -> Result<(), IoError> {
        self.fds.swap.as_ref().ok_or(IoError::NoSpace)?.write(slot, bytes)
    }

    fn read_swap(&self, _: u8, slot: u32, bytes: &mut [u8]) -> Result<(), IoError> {
        let swap = self.fds.swap.as_ref().ok_or(IoError::Failed)?;
        swap.file
            .read_at(bytes, place(slot))
            .map_err(|_: Errno| IoError::Failed)
    }

    fn open_swap(&self, _: u8, slot: u32, page: &mut [u8]) -> bool {
        self.fds.swap.as_ref().is_some_and(|swap| swap.open(slot, page))
    }

    fn discard_swap(&self, slot: u32, slots: u32) {
        if let Some(swap) = &self.fds.swap {
            swap.discard(slot, slots);
        }
    }
}

impl Memory for RegionMachine {
    type Arena = PoolArena;

    fn table_memory(&self) -> TableMemory {
        self.table
    }

    fn arena(&self) -> Option<PoolArena> {
        PoolArena::reserve_from_children(self.pool_bytes).ok()
    }
}

impl Threads for RegionMachine {
    fn lanes(&self) -> usize {
        1
    }

    fn spread<L: Send>(&self, lanes: &mut [L], work: impl Fn(&mut L, &Self) + Sync) {
        lanes.iter_mut().for_each(|lane| work(lane, self));
    }

    fn cond_resched(&self, faults_wait: impl Fn() -> bool) {
        if !faults_wait() {
            return;
        }
        let began = time::now_ns();
        let mut took = 0;
        while faults_wait() && took < PATIENCE_NS {
            match took {
                0..SPIN_NS => core::hint::spin_loop(),
                _ => thread::yield_now(),
            }
            took = time::now_ns() - began;
        }
    }
}

impl Accelerators for RegionMachine {
    type Acomp = NoDevice;
}

impl Clock for RegionMachine {
    fn now_ns(&self) -> u64 {
        time::now_ns()
    }
}

#[cfg(test)]
mod test {
    use std::io::Write;

    use super::*;
    use crate::{Region, limit, pager};

    #[test]
    fn who_reads_empty_slots_gets_an_error_and_they_are_filled_later() {
        if let Err(error) = limit(4 << 20) {
            return eprintln!("not tested: {error}");
        }
        let mut region = Region::new(16 << 20).unwrap();
        let pager = pager::started().unwrap();
        let staging = pager.mm.machine().staging;
        let (_kept, mut pipe) = std::io::pipe().unwrap();
        for at in (0..staging.len()).step_by(PAGE_SIZE) {
            assert!(pipe.write(staging.bytes(at, PAGE_SIZE)).is_err());
        }
        let byte = |n: usize| (n / PAGE_SIZE % 251) as u8;
        region.iter_mut().enumerate().for_each(|(n, to)| *to = byte(n));
        assert!(region.iter().enumerate().all(|(n, of)| *of == byte(n)));
        assert!(pager.progress().reclaimed > 0);
    }
}
