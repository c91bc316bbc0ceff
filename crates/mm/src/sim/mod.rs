//! A machine of vectors: a program's memory, staging slots and a disk, each step of which can fail.
//! For tests and Miri.

mod acomp;
mod device;
mod fault_attr;
#[cfg(test)]
mod golden;
mod ledger;
mod world;

pub use acomp::{MakeAcomp, SimAcomp};
pub use fault_attr::FaultAttr;
pub use ledger::Ledger;
pub use world::{BASE, OPS, PAGES, World, contents};

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::ops::Range;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use ledger::Call;

use crate::machine::{Clock, Done, Frames, IoBuffer, Mapper, Memory, Stop, Threads, Unwritten};
use crate::page::{PAGE_SIZE, PageRange, Vpn};
use crate::pages::swap_table::{self, TableMemory};
use crate::vmstat::{Vmstat, WORDS};
use crate::zpool::{Arena, SPAN_PAGES};

type Page = Box<[u8; PAGE_SIZE]>;

/// Pages of the pools that [`Memory::arena`] makes: more than a test needs.
pub const ARENA_PAGES: usize = 512;
/// Leaves of the swap table that the pages of a [`World`] take, wherever they are moved.
const WORLD_LEAVES: usize = 64;
/// What a failed write or read leaves behind.
static GARBAGE: [u8; PAGE_SIZE] = [0xee; PAGE_SIZE];

/// Pool memory in vectors, one a span.
pub struct VecArena(AtomicUsize);

impl VecArena {
    /// `pages` pages, in whole spans.
    pub fn new(pages: usize) -> Self {
        Self(AtomicUsize::new(pages / SPAN_PAGES))
    }
}

impl Arena for VecArena {
    type Span = Vec<u8>;

    fn take(&self) -> Option<Vec<u8>> {
        let one_less = |left: usize| left.checked_sub(1);
        let left = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less);
        left.is_ok().then(|| vec![0; SPAN_PAGES * PAGE_SIZE])
    }

    fn bytes<'a>(&'a self, span: &'a Vec<u8>, range: Range<usize>) -> &'a [u8] {
        &span[range]
    }

    fn bytes_mut<'a>(&'a self, span: &'a mut Vec<u8>, range: Range<usize>) -> &'a mut [u8] {
        &mut span[range]
    }

    fn release(&self, span: &mut Vec<u8>, pages: Range<usize>) {
        span[pages.start * PAGE_SIZE..pages.end * PAGE_SIZE].fill(0xdd);
    }
}

/// An I/O buffer in a vector.
pub struct VecIo(Vec<u8>);

impl IoBuffer for VecIo {
    fn bytes(&self, len: usize) -> &[u8] {
        &self.0[..len]
    }
    fn bytes_mut(&mut self, len: usize) -> &mut [u8] {
        &mut self.0[..len]
    }
}

/// The simulated machine.
#[derive(Default)]
pub struct SimMachine {
    /// The program's mapped pages.
    pub pages: RefCell<BTreeMap<Vpn, Page>>,
    /// Pages where the program has no mapping.
    pub unmapped: RefCell<BTreeSet<Vpn>>,
    /// Moves leave their mapping behind.
    pub keeps_mapping: Cell<bool>,
    /// Mapped pages that are protected from writing.
    pub protected: RefCell<BTreeSet<Vpn>>,
    /// Pages that refuse to move.
    pub pinned: RefCell<BTreeSet<Vpn>>,
    /// Pages that must stay.
    pub needed: RefCell<BTreeSet<Vpn>>,
    /// A mapping ends in front of this page: nothing is copied across.
    pub boundary: Cell<Option<Vpn>>,
    /// First slot of the last read, if it failed.
    failed_read: Cell<Option<u32>>,
    staging: RefCell<BTreeMap<u32, Page>>,
    disk: RefCell<BTreeMap<u32, Page>>,
    /// Memory for the swap table; `None`: as much as a `World` needs, which is leaked with each
    /// machine, of which a fuzzer makes many.
    pub table: Cell<Option<TableMemory>>,
    /// Pages cannot move.
    pub copies: Cell<bool>,
    /// Writes to the disk fail.
    pub disk_fails: Cell<bool>,
    /// Makes accelerators, if there are any.
    pub make_acomp: RefCell<Option<Box<MakeAcomp>>>,
    /// Steps that fail.
    pub fail: FaultAttr,
    /// What was asked of it.
    pub ledger: Ledger,
    /// How often whoever waits for a page was woken.
    woken: RefCell<BTreeMap<Vpn, u64>>,
    clock: Cell<u64>,
    /// What a look at it takes beside the least.
    look_ns: Cell<u64>,
    /// What a read of the disk takes.
    read_ns: Cell<u64>,
}

/// Stands for the cipher, there and back.
fn seal(slot: u32, page: &mut [u8]) {
    page.iter_mut().for_each(|byte| *byte ^= slot as u8 | 1);
}

fn boxed(bytes: &[u8]) -> Page {
    let mut page = Box::new([0; PAGE_SIZE]);
    page.copy_from_slice(bytes);
    page
}

impl SimMachine {
    /// The page the program sees, if it is mapped.
    pub fn read(&self, vpn: Vpn) -> Option<Page> {
        self.pages.borrow().get(&vpn).cloned()
    }

    /// Frames in staging slots.
    pub fn staged_frames(&self) -> usize {
        self.staging.borrow().len()
    }

    /// How often whoever waits for `vpn` was woken.
    pub fn woken(&self, vpn: Vpn) -> u64 {
        self.woken.borrow().get(&vpn).copied().unwrap_or(0)
    }

    fn wake_run(&self, vpn: Vpn, pages: u32) {
        let mut woken = self.woken.borrow_mut();
        for page in PageRange::new(vpn, u64::from(pages)).iter() {
            *woken.entry(page).or_default() += 1;
        }
    }

    /// Whether a run lies on both sides of a border between two mappings.
    fn spans_boundary(&self, vpn: Vpn, pages: u32) -> bool {
        let end = vpn.add(u64::from(pages));
        self.boundary.get().is_some_and(|at| vpn < at && at < end)
    }

    fn take_out(&self, vpn: Vpn, slot: u32, pages: u32, copies: bool) -> Done {
        for i in 0..pages {
            let page = vpn.add(u64::from(i));
            let stop = |stop| Done {
                pages: i,
                stop: Some(stop),
            };
            if self.pinned.borrow().contains(&page) {
                return stop(Stop::Busy);
            }
            if self.needed.borrow().contains(&page) {
                return stop(Stop::Needed);
            }
            self.protected.borrow_mut().remove(&page);
            let frame = match copies {
                true => self.read(page),
                false => self.pages.borrow_mut().remove(&page),
            };
            let Some(frame) = frame else {
                return stop(Stop::Missing);
            };
            let old = self.staging.borrow_mut().insert(slot + i, frame);
            assert!(old.is_none(), "a staging slot was filled twice");
        }
        Done::all(pages)
    }

    fn leave(&self, vpn: Vpn, slot: u32, pages: u32, copies: bool) -> Done {
        let stops = [Stop::Again, Stop::Busy, Stop::NoMemory, Stop::Unmovable];
        if self.spans_boundary(vpn, pages) {
            return Done::none(Stop::Unmovable);
        }
        self.fail
            .cut_short(pages, &stops, |pages| self.take_out(vpn, slot, pages, copies))
    }

    fn put_in(&self, slot: u32, vpn: Vpn, pages: u32) -> Done {
        for i in 0..pages {
            if self.copies.get() && self.pages.borrow().contains_key(&vpn.add(u64::from(i))) {
                return Done {
                    pages: i,
                    stop: Some(Stop::Present),
                };
            }
            let frame = self
                .staging
                .borrow_mut()
                .remove(&(slot + i))
                .expect("moving a frame that is not staged");
            assert!(
                self.pages.borrow_mut().insert(vpn.add(u64::from(i)), frame).is_none(),
                "mapped twice"
            );
        }
        Done::all(pages)
    }

    fn copy_pages(&self, vpn: Vpn, bytes: &[u8]) -> Done {
        let mut pages = self.pages.borrow_mut();
        for (i, page) in bytes.chunks_exact(PAGE_SIZE).enumerate() {
            let at = vpn.add(i as u64);
            if pages.contains_key(&at) {
                return Done {
                    pages: i as u32,
                    stop: Some(Stop::Present),
                };
            }
            pages.insert(at, boxed(page));
        }
        Done::all((bytes.len() / PAGE_SIZE) as u32)
    }

    /// Memory for a swap table of so many leaves.
    pub fn memory(leaves: usize) -> TableMemory {
        let words: Vec<swap_table::atomic::AtomicU64> = (0..TableMemory::words_for(leaves))
            .map(|_| swap_table::atomic::AtomicU64::new(0))
            .collect();
        TableMemory {
            words: Vec::leak(words),
            release: |words| words.iter().for_each(|word| word.store(0, Ordering::Relaxed)),
        }
    }

    /// Counters of their own for one engine.
    pub fn vmstat() -> Vmstat {
        Vmstat::new(Vec::leak((0..WORDS).map(|_| AtomicU64::new(0)).collect()))
    }
}

impl Mapper for SimMachine {
    type Isolation = ();

    fn begin_isolation(&self) -> Option<()> {
        Some(())
    }

    fn copies(&self) -> bool {
        self.copies.get()
    }

    fn give_up(&self, (): &(), run: PageRange) -> Vec<Vpn> {
        self.ledger.note_run(Call::GiveUp, run);
        let mut pages = self.pages.borrow_mut();
        let mut refuses = |vpn: &Vpn| {
            let is_kept = pages.contains_key(vpn) && self.fail.should_fail().is_some();
            if !is_kept {
                pages.remove(vpn);
            }
            is_kept
        };
        run.iter().filter(|vpn| refuses(vpn)).collect()
    }

    fn gave_up(&self) {
        self.ledger.note(Call::GaveUp, []);
    }

    fn move_out(&self, vpn: Vpn, slot: u32, pages: u32) -> Done {
        let done = self.leave(vpn, slot, pages, false);
        self.ledger.note_pages(Call::MoveOut, vpn, slot, pages, done)
    }

    fn copy_out(&self, vpn: Vpn, slot: u32, pages: u32) -> Done {
        let done = self.leave(vpn, slot, pages, true);
        self.ledger.note_pages(Call::CopyOut, vpn, slot, pages, done)
    }

    fn move_in(&self, slot: u32, vpn: Vpn, pages: u32) -> Done {
        let stops = [Stop::Again, Stop::Busy, Stop::NoMemory];
        let done = self
            .fail
            .cut_short(pages, &stops, |pages| self.put_in(slot, vpn, pages));
        self.wake_run(vpn, done.pages);
        self.ledger.note_pages(Call::MoveIn, vpn, slot, pages, done)
    }

    fn copy_in(&self, vpn: Vpn, bytes: &[u8], wake: bool) -> Done {
        let pages = (bytes.len() / PAGE_SIZE) as u32;
        if self.spans_boundary(vpn, pages) {
            return self
                .ledger
                .note_pages(Call::CopyIn, vpn, 0, pages, Done::none(Stop::Unmovable));
        }
        let done = self.fail.cut_short(pages, &[Stop::Again, Stop::NoMemory], |pages| {
            self.copy_pages(vpn, &bytes[..pages as usize * PAGE_SIZE])
        });
        if wake {
            self.wake_run(vpn, done.pages);
        }
        self.ledger.note_pages(Call::CopyIn, vpn, wake.into(), pages, done)
    }

    fn copy_in_protected(&self, vpn: Vpn, bytes: &[u8], wake: bool) -> Done {
        self.ledger.note(Call::CopyInProtected, []);
        let done = self.copy_in(vpn, bytes, wake);
        if !self.copies.get() {
            let run = PageRange::new(vpn, done.pages.into());
            self.protected.borrow_mut().extend(run.iter());
        }
        done
    }

    fn unprotect(&self, run: PageRange) -> Option<Stop> {
        self.ledger.note_run(Call::Unprotect, run);
        if self.spans_boundary(run.start, run.pages() as u32) {
            return Some(Stop::Unmovable);
        }
        let done = self.fail.cut_short(run.pages() as u32, &[Stop::Again], |pages| {
            let run = PageRange::new(run.start, pages.into());
            self.protected.borrow_mut().retain(|page| !run.contains(*page));
            Done::all(pages)
        });
        if done.stop.is_none() {
            self.wake_run(run.start, run.pages() as u32);
        }
        done.stop
    }

    fn protect(&self, run: PageRange) -> Option<Stop> {
        self.ledger.note_run(Call::Protect, run);
        if self.spans_boundary(run.start, run.pages() as u32) {
            return Some(Stop::Unmovable);
        }
        let done = self.fail.cut_short(run.pages() as u32, &[Stop::Again], |pages| {
            let mapped = self.pages.borrow();
            let run = PageRange::new(run.start, pages.into());
            self.protected
                .borrow_mut()
                .extend(run.iter().filter(|page| mapped.contains_key(page)));
            Done::all(pages)
        });
        done.stop
    }

    fn unwritten(&self, run: PageRange) -> Unwritten {
        self.ledger.note_run(Call::Unwritten, run);
        let mut unwritten = Unwritten::NONE;
        let protected = self.protected.borrow();
        for (page, _) in run
            .iter()
            .filter(|page| protected.contains(page))
            .zip(0..Unwritten::RUNS)
        {
            unwritten.push(PageRange::new(page, 1));
        }
        unwritten
    }

    fn wake(&self, vpn: Vpn, pages: u32) {
        self.ledger.note(Call::Wake, [vpn.number(), pages.into()]);
        self.wake_run(vpn, pages);
    }

    fn is_mapped(&self, page: Vpn) -> bool {
        !self.unmapped.borrow().contains(&page)
    }

    fn keeps_mapping(&self, _: PageRange) -> bool {
        self.keeps_mapping.get()
    }
}

impl Frames for SimMachine {
    fn with_staged<T>(&self, slots: &[u32], f: impl FnOnce(&[&[u8]]) -> T) -> T {
        for slot in slots {
            self.ledger.note(Call::WithStaged, [(*slot).into()]);
        }
        let staging = self.staging.borrow();
        let pages: Vec<&[u8]> = slots.iter().map(|slot| &staging[slot][..]).collect();
        f(&pages)
    }

    fn drop_staged(&self, runs: &[(u32, u32)]) {
        for (slot, pages) in runs {
            self.ledger.note(Call::DropStaged, [(*slot).into(), (*pages).into()]);
        }
        for slot in runs.iter().flat_map(|(slot, pages)| *slot..slot + pages) {
            let frame = self.staging.borrow_mut().remove(&slot);
            assert!(frame.is_some(), "giving up an empty slot");
        }
    }
}

impl Memory for SimMachine {
    type Arena = VecArena;

    fn table_memory(&self) -> TableMemory {
        self.table.get().unwrap_or_else(|| Self::memory(WORLD_LEAVES))
    }

    fn arena(&self) -> Option<VecArena> {
        self.ledger.note(Call::Arena, []);
        self.fail.should_fail().is_none().then(|| VecArena::new(ARENA_PAGES))
    }
}

impl Threads for SimMachine {
    const PIECE_MIN: usize = 4;

    fn lanes(&self) -> usize {
        3
    }

    fn spread<L: Send>(&self, lanes: &mut [L], work: impl Fn(&mut L, &Self) + Sync) {
        self.ledger.note(Call::Spread, [lanes.len() as u64]);
        lanes.iter_mut().for_each(|lane| work(lane, self));
    }

    fn servers(&self) -> usize {
        3
    }

    /// Backward: they may be brought in any order.
    fn spread_load<L: Send>(&self, pieces: &mut [L], work: impl Fn(&mut L, &Self) + Sync) {
        self.ledger.note(Call::SpreadLoad, [pieces.len() as u64]);
        pieces.iter_mut().rev().for_each(|piece| work(piece, self));
    }
}

impl Clock for SimMachine {
    fn now_ns(&self) -> u64 {
        self.clock.set(self.clock.get() + 100 + self.look_ns.get());
        self.ledger.note(Call::Now, []);
        self.clock.get()
    }
}
