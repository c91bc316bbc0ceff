//! Robust mutexes, whose owner's death the kernel tells whoever waits.
//!
//! As a thread ends the kernel goes through the list of what it has locked, and gives up for good
//! at the first page that is not there, or is protected: it cannot wait for us. So a page stays in
//! which a robust mutex is locked. Programs that never ask for such a mutex pay nothing:
//! [`setrobust`] is where glibc's begin.
//!
//! # Why no death goes untold
//! 1. Whether a page may go is decided by what it holds when nobody can lock anything in it any
//!    more: it was moved, or is protected ([`Search::first_needed`]). Whoever locks a mutex writes
//!    to its page first, and finds it there again.
//! 2. A page that turns out to be needed goes back at once. Its owner may have ended in these
//!    microseconds, at which the kernel gave up. So it is remembered ([`Watched`]), and kswapd
//!    looks what became of the owner: of one that is gone whose id is still in the word nobody was
//!    told, so kswapd tells, for this mutex and those behind it in the list. Nobody else changes
//!    such a word: it says that it is locked.
//! 3. A word is written to only if its mutex was in the list of a thread of this memory: one that
//!    lived when the page was looked at, or that had ended since it was moved, where a neighbour in
//!    the list leads to it still. What a fork or the program itself has copied names threads too.
//! 4. A page that was found needed is looked at before it moves the next time ([`HELD`]).
//!
//! docs/limits.md has what this does not see: lists that are not glibc's.

use alloc::vec::Vec;
use core::ffi::{c_int, c_uint};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use lock_api::Mutex;
use uzswap_mm::page::{PAGE_SIZE, PageRange, Vpn};
use uzswap_mm::vmstat::Item;
use uzswap_sys::futex::RawLock;
use uzswap_sys::mapping::unshare;
use uzswap_sys::procfs::{ProcMem, shares_memory};
use uzswap_sys::robust::mutex::{ALIGN, BYTES, ENTRY, Links, Locked, for_each_locked};
use uzswap_sys::robust::{self, Owner};
use uzswap_sys::{Errno, thread, time};

use crate::hook::InOrder;
use crate::mailbox::mail;
use crate::pager::{self, Pager};

/// The program may lock robust mutexes.
static IS_ON: AtomicBool = AtomicBool::new(false);
/// The process has inherited its memory.
static IS_FORKED: AtomicBool = AtomicBool::new(false);
/// Threads that are taking pages out.
static LEAVING: AtomicU32 = AtomicU32::new(0);

/// Held while pages are taken out, from before it is asked whether the program [has robust
/// mutexes](is_on) until they are gone.
pub(crate) struct Taking(());

impl Taking {
    pub(crate) fn begin() -> Self {
        // Before IS_ON is read, and `turn_on` the other way round: one of the two sees the other.
        LEAVING.fetch_add(1, Ordering::SeqCst);
        Self(())
    }

    pub(crate) fn is_on(&self) -> bool {
        IS_ON.load(Ordering::SeqCst)
    }
}

impl Drop for Taking {
    fn drop(&mut self) {
        LEAVING.fetch_sub(1, Ordering::SeqCst);
    }
}

/// How long, and how often, the program waits for pages that are being taken out.
const PAUSES: u32 = 20_000;
const PAUSE_NS: u64 = 50_000;

/// From when this returns on no page leaves unseen.
pub(crate) fn turn_on() {
    if IS_ON.swap(true, Ordering::SeqCst) {
        return;
    }
    for _ in 0..PAUSES {
        if LEAVING.load(Ordering::SeqCst) == 0 {
            break;
        }
        pager::pause(PAUSE_NS);
    }
}

/// Of `pthread_mutexattr_t` of glibc, since 2.4.
pub(crate) const ATTRIBUTE: c_uint = 1 << 30;
const ROBUST: c_int = 1;
const STALLED: c_int = 0;

/// `pthread_mutexattr_setrobust`.
pub(crate) extern "C" fn setrobust(attributes: *mut c_uint, robustness: c_int) -> c_int {
    if robustness == ROBUST {
        turn_on();
    }
    // SAFETY: the program's attributes, as it would pass them to libc.
    let attributes = unsafe { attributes.as_mut() };
    match (attributes, robustness) {
        (Some(attributes), ROBUST) => *attributes |= ATTRIBUTE,
        (Some(attributes), STALLED) => *attributes &= !ATTRIBUTE,
        _ => return Errno::INVAL.raw_os_error(),
    }
    0
}

/// Pages in which something was found locked, each in the place that its number leads to. One that
/// takes another's place has that one looked at too late the next time, nothing else.
static HELD: [AtomicU64; HELD_MAX] = [const { AtomicU64::new(0) }; HELD_MAX];
const HELD_MAX: usize = 1 << 14;

fn place_of(page: Vpn) -> &'static AtomicU64 {
    &HELD[(page.number() ^ page.number() >> 14) as usize % HELD_MAX]
}

/// A mutex in a page that was taken out and put back, whose owner may have ended meanwhile.
struct Watched {
    addr: usize,
    owner: i32,
    /// When it is looked at next, and how often it was.
    due_ns: u64,
    looks: u32,
}

/// Those to look at. The oldest are given up where there are more: their owners have ended long
/// ago, or not then.
static WATCHED: Mutex<RawLock, Vec<Watched>> = Mutex::new(Vec::new());
const WATCHED_MAX: usize = 1 << 14;
/// From the kernel's giving up to its forgetting of the list is no time, but a thread may lose its
/// core there. Each look comes eight times later than the one before.
const FIRST_LOOK_NS: u64 = 2_000_000;
const LOOKS: u32 = 5;

/// Taken together with what lies before and behind a run of pages: what lies on both.
const BESIDE: usize = BYTES;

/// A look for mutexes that are locked in pages that have left.
pub(crate) struct Search<'a> {
    memory: Option<&'a ProcMem>,
    found: Vec<(usize, i32)>,
}

impl<'a> Search<'a> {
    /// `memory`: where the program's memory is read.
    pub(crate) fn new(memory: Option<&'a ProcMem>) -> Self {
        Self {
            memory,
            found: Vec::new(),
        }
    }

    /// How many of the `pages` pages from `vpn` on, up to the first in which something is locked
    /// that was found so before, may leave as far as is known now.
    pub(crate) fn known_free(&mut self, vpn: Vpn, pages: u32) -> u32 {
        let Some(memory) = self.memory else { return pages };
        let mut bytes = [0; PAGE_SIZE];
        let mut is_held = |page: Vpn| {
            let place = place_of(page);
            if place.load(Ordering::Relaxed) != page.number() {
                return false;
            }
            let is_there = memory.read(page.addr(), &mut bytes) == PAGE_SIZE;
            let is_needed = is_there && self.first_needed(page, &bytes).is_some();
            if !is_needed {
                place.store(0, Ordering::Relaxed);
            }
            is_needed
        };
        let held = (0..pages).find(|i| is_held(vpn.add(u64::from(*i))));
        // These have not left, so the kernel has found them.
        self.found.clear();
        held.unwrap_or(pages)
    }

    /// The first page, of those from `vpn` on that hold `bytes`, in which something is locked by a
    /// thread that lives. Nobody may be able to lock anything in them any more.
    pub(crate) fn first_needed(&mut self, vpn: Vpn, bytes: &[u8]) -> Option<u32> {
        let (start, len) = (vpn.addr(), bytes.len());
        let mut first = None;
        let mut meet = |search: &mut Self, at: usize, locked: Locked, page: usize| {
            let is_needed = search.is_needed(at, locked, |at| {
                let bytes = bytes.get(at.checked_sub(start)?..)?.first_chunk()?;
                Some(usize::from_ne_bytes(*bytes))
            });
            if is_needed && first.is_none_or(|first| page < first) {
                first = Some(page);
            }
        };
        // On the border in front, inside, on the border behind.
        if let Some(pair) = self.pair_around(start, bytes, 0) {
            for_each_locked(&pair, ALIGN..BESIDE, |at, locked| {
                meet(self, start - BESIDE + at, locked, 0);
            });
        }
        for_each_locked(bytes, 0..len, |at, locked| {
            meet(self, start + at, locked, at / PAGE_SIZE);
        });
        if let Some(pair) = self.pair_around(start, bytes, len) {
            let last = (len - 1) / PAGE_SIZE;
            for_each_locked(&pair, ALIGN..BESIDE, |at, locked| {
                meet(self, start + len - BESIDE + at, locked, last);
            });
        }
        if let Some(first) = first {
            let page = vpn.add(first as u64);
            place_of(page).store(page.number(), Ordering::Relaxed);
        }
        first.map(|first| first as u32)
    }

    /// The bytes on both sides of a border, one of which is in the program's memory. `None`: that
    /// is not there, so nothing that lies on the border is locked.
    fn pair_around(&self, start: usize, bytes: &[u8], border: usize) -> Option<[u8; 2 * BESIDE]> {
        let mut pair = [0; 2 * BESIDE];
        let (front, behind) = pair.split_at_mut(BESIDE);
        let (ours, theirs, from) = match border {
            0 => (behind, front, start.checked_sub(BESIDE)?),
            border => (front, behind, start + border),
        };
        let at = border.saturating_sub(BESIDE);
        ours.copy_from_slice(bytes.get(at..at + BESIDE)?);
        (self.memory?.read(from, theirs) == BESIDE).then_some(pair)
    }

    /// Whether the mutex at `addr` keeps its page, which is remembered. `left` reads what has left
    /// with it.
    fn is_needed(&mut self, addr: usize, locked: Locked, left: impl Fn(usize) -> Option<usize>) -> bool {
        let id = locked.owner;
        match robust::owner(id) {
            Owner::Lives if thread::is_alive(id) || shares_memory(thread::tid(), id) => {
                if locked.links.is_some() {
                    self.found.push((addr, id));
                }
                true
            }
            // A thread of a relative, from whose memory this was copied.
            Owner::Lives => false,
            Owner::Gone => {
                // What a forked child has inherited names threads of its parent, which are older
                // than it is: ids are given out in order.
                let is_inherited = IS_FORKED.load(Ordering::Relaxed) && id <= thread::pid();
                let read = |at| left(at).or_else(|| self.pointer(at));
                let is_ours = !is_inherited && locked.is_linked(addr, read);
                if is_ours {
                    self.found.push((addr, id));
                }
                is_ours
            }
            Owner::Unknown => locked.links.is_some(),
        }
    }

    fn pointer(&self, at: usize) -> Option<usize> {
        let mut bytes = [0; size_of::<usize>()];
        let read = self.memory?.read(at, &mut bytes);
        (read == bytes.len()).then(|| usize::from_ne_bytes(bytes))
    }
}

impl Drop for Search<'_> {
    /// What was found has left for a moment.
    fn drop(&mut self) {
        if self.found.is_empty() {
            return;
        }
        let due_ns = time::now_ns() + FIRST_LOOK_NS;
        let mut watched = WATCHED.lock();
        let surplus = (watched.len() + self.found.len()).saturating_sub(WATCHED_MAX);
        let surplus = surplus.min(watched.len());
        watched.drain(..surplus);
        watched.extend(self.found.drain(..).map(|(addr, owner)| Watched {
            addr,
            owner,
            due_ns,
            looks: 0,
        }));
    }
}

/// Pages that are needed and could not go back at once, as an event had to be read first.
static OWED: Mutex<RawLock, Vec<PageRange>> = Mutex::new(Vec::new());

/// Have kswapd bring these back.
pub(crate) fn owe(pages: PageRange) {
    OWED.lock().push(pages);
    if let Some(pager) = pager::inherited() {
        pager.mail.post(mail::RECLAIM);
    }
}

fn bring_owed(pager: &Pager) {
    let owed = core::mem::take(&mut *OWED.lock());
    for pages in owed {
        pager.unsharing.begin(pages);
        // Unless it was unmapped.
        let _ = unshare(pages.start.addr(), pages.pages() as usize * PAGE_SIZE);
    }
}

/// Entries that the kernel goes through at most (ROBUST_LIST_LIMIT).
const LIST_MAX: u32 = 2048;

/// By kswapd: tell the deaths that the kernel could not.
pub(crate) fn tell_deaths(pager: &Pager) {
    if !IS_ON.load(Ordering::Relaxed) {
        return;
    }
    bring_owed(pager);
    let now = time::now_ns();
    let due = |watched: &mut Watched| watched.due_ns <= now;
    // Whoever takes pages out adds to them, and waits for nothing.
    let all: Vec<_> = WATCHED.lock().extract_if(.., due).collect();
    for mut watched in all {
        match robust::owner(watched.owner) {
            Owner::Lives => {
                watched.looks += 1;
                watched.due_ns = now + (FIRST_LOOK_NS << (3 * watched.looks));
                if watched.looks < LOOKS {
                    WATCHED.lock().push(watched);
                }
            }
            Owner::Gone => tell_list(pager, watched.addr, watched.owner),
            Owner::Unknown => {}
        }
    }
    pager.unsharing.end();
}

/// Tell of the mutex at `addr`, and of those behind it in the list of their owner, which has ended.
fn tell_list(pager: &Pager, addr: usize, owner: i32) {
    let mut at = addr;
    for _ in 0..LIST_MAX {
        let page = at & !(PAGE_SIZE - 1);
        let pages = PageRange::of_bytes(page, (at + BYTES).next_multiple_of(PAGE_SIZE));
        // What has left again comes back whatever the limit: nobody else makes room.
        pager.unsharing.begin(pages);
        let Some(locked) = read(pager, at, pages).filter(|locked| locked.owner == owner) else {
            return;
        };
        // No mapping is changed by libc meanwhile, so what can be written to now can be still.
        let Some(turn) = InOrder::attempt() else {
            // Later.
            return watch_again(at, owner);
        };
        let vma = pager.fds().proc.vma_at_or_after(at).ok().flatten();
        if !vma.is_some_and(|vma| vma.start <= at && at + BYTES <= vma.end && vma.is_plain_data()) {
            return;
        }
        // SAFETY: mapped, and may be written to. kswapd holds no lock, and its fault is served
        // whatever the limit.
        let is_told = unsafe { robust::tell_death(at, owner, !locked.inherits) };
        pager.mm.stat().add(Item::DeathTold, u64::from(is_told));
        drop(turn);
        match locked.links {
            Some(Links { next, .. }) if next > ENTRY => at = next - ENTRY,
            _ => return,
        }
    }
}

fn watch_again(addr: usize, owner: i32) {
    WATCHED.lock().push(Watched {
        addr,
        owner,
        due_ns: time::now_ns() + FIRST_LOOK_NS,
        looks: 0,
    });
}

/// The mutex at `addr`, in `pages`.
fn read(pager: &Pager, addr: usize, pages: PageRange) -> Option<Locked> {
    let memory = pager.mm.machine().memory()?;
    let mut bytes = [0; BYTES];
    if memory.read(addr, &mut bytes) < BYTES {
        unshare(pages.start.addr(), pages.pages() as usize * PAGE_SIZE).ok()?;
        if memory.read(addr, &mut bytes) < BYTES {
            return None;
        }
    }
    Locked::read(&bytes)
}

/// In a forked child: nobody takes pages out, and what its parent has found is its parent's.
pub(crate) fn reset_in_child() {
    IS_FORKED.store(true, Ordering::Relaxed);
    LEAVING.store(0, Ordering::SeqCst);
    if let Some(mut watched) = WATCHED.try_lock() {
        watched.clear();
    }
    if let Some(mut owed) = OWED.try_lock() {
        owed.clear();
    }
}
