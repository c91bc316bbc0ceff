//! The engine's machine: two userfaultfds, the staging range, the swap files. Where the kernel
//! cannot move pages, there is one userfaultfd, the staging range is plain memory, and
//! [`crate::machine::isolation`] has what differs.
//!
//! The program's ranges and the staging range are registered with the *managed* userfaultfd, which
//! reports events. So the kernel refuses a move out (EAGAIN) from the moment a mapping starts to
//! change until the event was read. Pages of a mapping that replaced another are never mistaken for
//! the old ones. Moving out through a second descriptor, as the staging range alone would need, has
//! no such check.
//!
//! Giving frames up must not raise events of our own, so they are first moved on to a *trash*
//! range, registered with the other userfaultfd, and dropped there.

pub(crate) mod arena;
mod device;
pub(crate) mod fault_attr;
mod fds;
pub(crate) mod isolation;
pub(crate) mod opening;
pub(crate) mod remote;
pub(crate) mod swap_file;
pub(crate) mod wake;

use alloc::vec::Vec;

use uzswap_backing::{table_memory, with_staged};
use uzswap_ctl::{FailKind, Group};
use uzswap_mm::machine::{Clock, Done, Frames, Mapper, Memory, Stop, StoredPage, Threads, Unwritten};
use uzswap_mm::page::{MAX_ORDER, PAGE_SIZE, PageRange, Vpn};
use uzswap_mm::swap_table::TableMemory;
use uzswap_sys::aligned::AlignedBuf;
use uzswap_sys::cell::Leaked;
use uzswap_sys::crew::{Crew, HELPERS_MAX};
use uzswap_sys::mapping::{Discard, Mapping};
use uzswap_sys::thread;
use uzswap_sys::uffd::{Filled, Uffd};
use uzswap_sys::{Errno, closed, own_stack};

use self::arena::PoolArena;
use self::fault_attr::{FAULT_ATTR, FaultAttr};
use self::isolation::{CopyOut, Isolation, Protection};
use self::swap_file::Swap;
use crate::codec::accel::Accel;
use crate::cpu::resched;
use crate::cpu::vigil::VIGIL;
use crate::fault::inline;
use crate::fault::servers::{self, HELPERS};
use crate::guard;
use crate::guest::order::InOrder;
use crate::guest::{mmap, mremap};

pub(crate) use fds::{Fds, keeper};

/// Who helps with batches of a parallel compressor; nobody until the first time that one is asked
/// for.
pub(crate) static CREW: Crew = Crew::new(c"uzswap-crew", || {});

/// The machine of one process.
pub(crate) struct AgentMachine {
    fds: Leaked<Fds>,
    staging: &'static Mapping,
    pub(crate) trash: &'static Mapping,
    /// Bytes that a pool's range is reserved with.
    pool_bytes: usize,
    pub(crate) fail: &'static FaultAttr,
    /// Cores that a parallel compressor spreads a batch over.
    lanes: usize,
    /// Threads that serve faults.
    servers: usize,
    pub(crate) copy_out: CopyOut,
    pub(crate) protection: Protection,
    /// A page that is never registered: a fill of it can only fail, which tells why others would.
    nowhere: &'static Mapping,
    /// Devices that compress; nothing before they were looked for.
    pub(crate) accel: Leaked<Option<Accel>>,
}

/// Why protection was not changed.
fn not_protected(errno: Errno) -> Stop {
    match errno {
        // There is no such range there, or not all of it is registered.
        Errno::NOENT => Stop::Unmovable,
        errno => stop(errno),
    }
}

/// What an errno of a fill or move means to the engine.
pub(crate) fn stop(errno: Errno) -> Stop {
    match errno {
        // The program has closed what its threads serve faults with: the fault thread has it.
        Errno::BADF if own_stack::is_on_own_stack() => {
            inline::note_only_asking();
            Stop::Again
        }
        // No answer of the kernel's: a system call filter of the program. Nobody could be served
        // any more.
        Errno::PERM | Errno::ACCESS | Errno::NOSYS => panic!("the program forbids its pager to map pages: {errno}"),
        errno => uzswap_backing::stop(errno),
    }
}

pub(crate) fn done(filled: Filled) -> Done {
    uzswap_backing::done(filled, stop)
}

/// As [`done`], for the program's side of a fill.
pub(crate) fn filled_in(filled: Filled) -> Done {
    uzswap_backing::filled_in(done(filled))
}

impl AgentMachine {
    /// Reserve staging and trash ranges of `slots` pages and register them. Pools get `pool_bytes`
    /// of address space each.
    ///
    /// # Errors
    /// What `mmap` and the registrations answer.
    pub(crate) fn new(fds: Fds, slots: u32, pool_bytes: usize, group: Group) -> Result<Self, Errno> {
        let reserve = || {
            Ok::<_, Errno>(
                Mapping::reserve_beside_data(slots as usize * PAGE_SIZE)?
                    .without_huge_pages()
                    .leak(),
            )
        };
        let nowhere = Mapping::reserve_beside_data(PAGE_SIZE)?.without_huge_pages().leak();
        let machine = Self {
            fds: Leaked::new(),
            staging: reserve()?,
            trash: reserve()?,
            pool_bytes,
            fail: &FAULT_ATTR,
            lanes: thread::cores().min(HELPERS_MAX + 1),
            servers: servers::threads(group),
            copy_out: CopyOut::default(),
            protection: Protection::default(),
            nowhere,
            accel: Leaked::new(),
        };
        machine.start(fds)?;
        Ok(machine)
    }

    /// Work with `fds` from now on: at the start, and in a forked child.
    ///
    /// # Errors
    /// What the registrations answer.
    pub(crate) fn start(&self, fds: Fds) -> Result<(), Errno> {
        self.register_own(&fds)?;
        self.fds.set(fds);
        Ok(())
    }

    fn register_own(&self, fds: &Fds) -> Result<(), Errno> {
        match &fds.isolation {
            Isolation::Move(trash, _) => {
                // What is protected when it moves may stay so, in swap of the kernel's: whoever
                // would have to let us write is us.
                fds.managed.register_missing(self.staging.addr(), self.staging.len())?;
                trash.register(self.trash.addr(), self.trash.len())?;
            }
            // A fork raises an event only if something is registered, and nothing of the program's
            // may be yet.
            Isolation::Copy(_) => fds.managed.register_missing(self.trash.addr(), PAGE_SIZE)?,
            Isolation::Close(_) => {}
        }
        self.protection.reset();
        Ok(())
    }

    /// What is ours is not registered with the userfaultfd for the program's memory any more.
    pub(crate) fn unregister_own(&self) {
        let fds = self.fds();
        let _ = match fds.isolation {
            Isolation::Move(..) => fds.managed.unregister(self.staging.addr(), self.staging.len()),
            Isolation::Copy(_) => fds.managed.unregister(self.trash.addr(), PAGE_SIZE),
            Isolation::Close(_) => Ok(()),
        };
    }

    /// Have `other` take the place of the userfaultfd for the program's memory, with which nothing
    /// is registered any more.
    ///
    /// # Errors
    /// What the system answers: nothing can be registered then.
    pub(crate) fn replace_managed(&self, other: &Uffd) -> Result<(), Errno> {
        let fds = self.fds();
        fds.managed.become_copy_of(other)?;
        self.register_own(fds)
    }

    /// The descriptors. Not for a thread of the program, where their numbers are other files.
    #[track_caller]
    pub(crate) fn fds(&self) -> &'static Fds {
        if inline::is_on() && own_stack::is_on_own_stack() {
            panic!("a thread of the program wants a descriptor of the pager");
        }
        self.opened()
    }

    /// The userfaultfd for the program's memory: in all threads.
    pub(crate) fn managed(&self) -> &'static Uffd {
        &self.opened().managed
    }

    /// Wake the fault thread. In any thread, where faults are served inline.
    pub(crate) fn ring(&self) {
        self.opened().wake.set();
    }

    /// Map zeros at a page of memory that is not under our care. What stopped it, if anything did.
    pub(crate) fn map_zeros(&self, addr: usize) -> Option<Errno> {
        self.managed().copy(addr, &[0; PAGE_SIZE], true).stop
    }

    /// Whether a change of the mappings waits to be read.
    pub(crate) fn is_changing(&self) -> bool {
        self.managed().is_changing(self.nowhere())
    }

    /// For what is lent to the program's threads, and what is only in memory.
    pub(crate) fn opened(&self) -> &'static Fds {
        match self.fds.get() {
            Some(fds) => fds,
            None => unreachable!("set when the machine was made"),
        }
    }

    fn swap_file(&self, device: u8) -> Option<&Swap> {
        let fds = self.fds();
        match device {
            0 => fds.swap.as_ref(),
            n => fds.inherited.get(usize::from(n) - 1).map(|(swap, _)| swap),
        }
    }

    /// What a move came to that may have done more than the kernel says
    /// ([`in_truth`](uzswap_backing::in_truth)).
    pub(crate) fn in_truth(&self, filled: Filled, len: usize, ours: usize, arrived: bool) -> Filled {
        uzswap_backing::in_truth(&self.opened().proc, filled, len, ours, arrived)
    }

    pub(crate) fn staging(&self) -> &'static Mapping {
        self.staging
    }

    /// Copies of the program's pages in the slots from `slot` on.
    pub(crate) fn staged_bytes(&self, slot: u32, pages: u32) -> &[u8] {
        self.staging
            .bytes(slot as usize * PAGE_SIZE, pages as usize * PAGE_SIZE)
    }

    pub(crate) fn slot_addr(&self, slot: u32) -> usize {
        self.staging.addr() + slot as usize * PAGE_SIZE
    }

    /// Whether `addr` is in the staging range.
    pub(crate) fn is_staging(&self, addr: usize) -> bool {
        (self.staging.addr()..self.staging.addr() + self.staging.len()).contains(&addr)
    }

    /// Address of a page that is never registered.
    pub(crate) fn nowhere(&self) -> usize {
        self.nowhere.addr()
    }
}

impl AgentMachine {
    /// Whether there is address space for another server's I/O buffer.
    pub(crate) fn has_room_for_io(&self) -> bool {
        AlignedBuf::new(1 << MAX_ORDER).is_ok()
    }
}

impl Mapper for AgentMachine {
    /// The thread's turn to change mappings, if it takes one.
    type Isolation = Option<InOrder>;

    fn begin_isolation(&self) -> Option<Option<InOrder>> {
        match self.fds().isolation {
            Isolation::Move(..) | Isolation::Close(_) => Some(None),
            Isolation::Copy(_) => self.copy_out.begin().map(Some),
        }
    }

    fn copies(&self) -> bool {
        matches!(self.opened().isolation, Isolation::Copy(_))
    }

    fn may_have_guards(&self) -> bool {
        mmap::installs_guards()
    }

    fn unit_order(&self) -> u32 {
        match self.opened().isolation {
            Isolation::Close(_) => closed::unit_order(),
            Isolation::Move(..) | Isolation::Copy(_) => 0,
        }
    }

    fn give_up(&self, _: &Option<InOrder>, run: PageRange) -> Vec<Vpn> {
        self.give_up_run(run)
    }

    fn gave_up(&self) {
        self.copy_out.end_drop();
    }

    fn move_out(&self, vpn: Vpn, slot: u32, pages: u32) -> Done {
        if let Some(done) = self
            .fail
            .stop(&[Stop::Busy, Stop::Again, Stop::NoMemory, Stop::Unmovable])
        {
            return done;
        }
        VIGIL.leave();
        self.move_unneeded(vpn, slot, pages)
    }

    fn copy_out(&self, vpn: Vpn, slot: u32, pages: u32) -> Done {
        match self
            .fail
            .stop(&[Stop::Busy, Stop::Again, Stop::NoMemory, Stop::Unmovable])
        {
            Some(done) => done,
            None => self.copy_run(vpn, slot, pages),
        }
    }

    fn move_in(&self, slot: u32, vpn: Vpn, pages: u32) -> Done {
        self.settle_errand();
        if let Some(done) = self.fail.stop(&[Stop::Busy, Stop::Again, Stop::NoMemory]) {
            return done;
        }
        if !matches!(self.opened().isolation, Isolation::Move(..)) {
            return self.copy_back(slot, vpn, pages);
        }
        let (from, len) = (self.slot_addr(slot), pages as usize * PAGE_SIZE);
        let beat = VIGIL.beat();
        let filled = self.managed().move_pages(vpn.addr(), from, len, beat.is_none());
        let truth = self.in_truth(filled, len, from, false);
        let done = filled_in(truth);
        if beat.is_some() || truth != filled {
            self.wake_filled(beat, vpn, done.pages);
        }
        done
    }

    fn copy_in(&self, vpn: Vpn, bytes: &[u8], wake: bool) -> Done {
        self.fill(vpn, wake, |uffd, wake| uffd.copy(vpn.addr(), bytes, wake))
    }

    fn copy_in_protected(&self, vpn: Vpn, bytes: &[u8], wake: bool) -> Done {
        match self.protects() {
            true => self.fill(vpn, wake, |uffd, wake| uffd.copy_protected(vpn.addr(), bytes, wake)),
            false => {
                self.want_protection();
                self.copy_in(vpn, bytes, wake)
            }
        }
    }

    fn unprotect(&self, run: PageRange) -> Option<Stop> {
        self.unprotect_run(run)
    }

    fn protect(&self, run: PageRange) -> Option<Stop> {
        self.protect_run(run)
    }

    fn unwritten(&self, run: PageRange) -> Unwritten {
        self.unwritten_of(run)
    }

    fn wake(&self, vpn: Vpn, pages: u32) {
        let (addr, len) = (vpn.addr(), pages as usize * PAGE_SIZE);
        match self.copies() {
            // Whoever waits to write to what was to leave.
            true => self.managed().unprotect_and_wake(addr, len),
            false => self.managed().wake(addr, len),
        }
    }

    fn is_mapped(&self, page: Vpn) -> bool {
        let next = self.fds().proc.vma_at_or_after(page.addr()).ok().flatten();
        next.is_some_and(|vma| vma.start <= page.addr())
    }

    fn end_moves(&self) {
        guard::end_moves();
    }

    fn keeps_mapping(&self, from: PageRange) -> bool {
        mremap::is_keeping(from.start.addr())
    }
}

impl Frames for AgentMachine {
    fn with_staged<T>(&self, slots: &[u32], f: impl FnOnce(&[&[u8]]) -> T) -> T {
        with_staged(self.staging, slots, f)
    }

    fn drop_staged(&self, runs: &[(u32, u32)]) {
        let (Some((first, _)), Some((last, pages))) = (runs.first(), runs.last()) else {
            return;
        };
        let Isolation::Move(trash, _) = &self.fds().isolation else {
            return runs.iter().for_each(|(slot, pages)| self.discard_slots(*slot, *pages));
        };
        runs.iter()
            .for_each(|(slot, pages)| self.move_to_trash(trash, *slot, *pages));
        let (offset, end) = (*first as usize * PAGE_SIZE, (last + pages) as usize * PAGE_SIZE);
        // What lies between the runs is empty in the trash range.
        if self.trash.discard(offset, end - offset, Discard::DontNeed).is_err() {
            panic!("MADV_DONTNEED on the trash range");
        }
    }

    fn note_stored(&self, stored: impl Iterator<Item = StoredPage>) {
        if let Some(recorder) = &self.fds().recorder {
            recorder.note_stored(self, stored);
        }
    }
}

impl Memory for AgentMachine {
    type Arena = PoolArena;

    fn table_memory(&self) -> TableMemory {
        table_memory(self.pool_bytes).expect("address space for the swap table")
    }

    fn arena(&self) -> Option<PoolArena> {
        if self.fail.fails(FailKind::ArenaEnomem) {
            return None;
        }
        PoolArena::reserve(self.pool_bytes).ok()
    }
}

impl Threads for AgentMachine {
    fn lanes(&self) -> usize {
        self.lanes
    }

    fn spread<L: Send>(&self, lanes: &mut [L], work: impl Fn(&mut L, &Self) + Sync) {
        CREW.spread(lanes, |lane| work(lane, self));
    }

    fn servers(&self) -> usize {
        self.servers
    }

    fn spread_load<L: Send>(&self, pieces: &mut [L], work: impl Fn(&mut L, &Self) + Sync) {
        HELPERS.spread(pieces, |piece| work(piece, self));
    }

    fn cond_resched(&self, faults_wait: impl Fn() -> bool) {
        let has_faults = || self.fds().managed.has_events();
        resched::cond_resched(has_faults, faults_wait);
    }
}

impl Clock for AgentMachine {
    fn now_ns(&self) -> u64 {
        uzswap_sys::time::now_ns()
    }
}
