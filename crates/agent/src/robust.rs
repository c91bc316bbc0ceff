//! Mutexes whose words the kernel writes to: robust ones, whose owner's death it tells whoever
//! waits, and those that inherit priority, at which threads wait in the kernel.
//!
//! It cannot wait for us where a page is not there, or is protected. As a thread ends it goes
//! through the list of what that has locked, and gives up for good at such a page; a call that
//! waits for a mutex, or hands it on, fails (EFAULT), at which glibc ends the program. So a page
//! stays in which such a mutex is locked. Programs that never ask for one pay nothing:
//! [`setrobust`] and [`setprotocol`] are where glibc's begin.
//!
//! # Why no death goes untold
//! 1. Whether a page may go is decided by what it holds when nobody can lock anything in it any
//!    more: it was moved, or is protected ([`Search::first_needed`]). Whoever locks a mutex writes
//!    to its page first, and finds it there again.
//! 2. A page that turns out to be needed goes back at once. Its owner may have ended in these
//!    microseconds, at which the kernel gave up. If it was ending, or had ended, when the page was
//!    back, kswapd tells in its place, once it is gone ([`deaths`]).
//! 3. What the program has copied, or inherited by a fork, names threads too. So a word is written
//!    to only if a neighbour in the owner's list led to its mutex when that was looked at, and if
//!    it is linked as it was then: whoever is ending changes his list no more. In a forked process
//!    whole lists are copies: the owner must have lived there when his page was back.
//! 4. A page that was found needed is looked at before it moves the next time ([`HELD`]). In a
//!    forked process each is, so that an owner who ends there is seen before ([`LOOKS_FIRST`]).
//!
//! # Why no call fails
//! Where mutexes inherit priority each page is looked at before it moves, too. Whoever calls the
//! kernel has found the mutex locked just before. One that nobody has taken over from a dead owner
//! counts as locked.
//!
//! docs/limits.md has what this does not see: lists that are not glibc's, and a mutex that is first
//! locked between that look and the move.

use alloc::vec::Vec;
use core::ffi::{c_int, c_uint};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use uzswap_mm::page::{PAGE_SIZE, PageRange, Vpn};
use uzswap_mm::zpool::Unlock;
use uzswap_sys::futex::RawLock;
use uzswap_sys::procfs::{ProcMem, ProcSelf, shares_memory};
use uzswap_sys::robust;
use uzswap_sys::robust::mutex::{ALIGN, BYTES, Locked, for_each_locked};
use uzswap_sys::{Errno, thread};

use crate::pager;
use deaths::Watched;

pub(crate) mod deaths;

/// The program may lock such mutexes.
static IS_ON: AtomicBool = AtomicBool::new(false);
/// The process has inherited its memory.
static IS_FORKED: AtomicBool = AtomicBool::new(false);
/// Pages are looked at before they move.
static LOOKS_FIRST: AtomicBool = AtomicBool::new(false);
/// Threads that are taking pages out without a look at them.
static BLIND: AtomicU32 = AtomicU32::new(0);
/// None is any more, nor will be.
static IS_SETTLED: AtomicBool = AtomicBool::new(false);

/// Whether the program may lock such mutexes.
pub(crate) fn is_on() -> bool {
    IS_ON.load(Ordering::SeqCst)
}

/// Held while pages are taken out, from before it is asked whether the program has robust mutexes
/// until they are gone.
pub(crate) struct Taking {
    looks: bool,
}

impl Taking {
    pub(crate) fn begin() -> Self {
        // Before IS_ON is read, and `turn_on` the other way round: one of the two sees the other.
        BLIND.fetch_add(1, Ordering::SeqCst);
        let looks = is_on();
        if looks {
            BLIND.fetch_sub(1, Ordering::SeqCst);
        }
        Self { looks }
    }

    /// Whether pages are to be looked at.
    pub(crate) fn looks(&self) -> bool {
        self.looks
    }
}

impl Drop for Taking {
    fn drop(&mut self) {
        if !self.looks {
            BLIND.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

/// How long, and how often, the program waits for pages that are being taken out.
const PAUSES: u32 = 20_000;
const PAUSE_NS: u64 = 50_000;

/// From when this returns on no page leaves unseen.
pub(crate) fn turn_on() {
    IS_ON.store(true, Ordering::SeqCst);
    // Whoever comes second must wait as well.
    for _ in 0..PAUSES {
        if IS_SETTLED.load(Ordering::Relaxed) || BLIND.load(Ordering::SeqCst) == 0 {
            return IS_SETTLED.store(true, Ordering::Relaxed);
        }
        pager::pause(PAUSE_NS);
    }
}

/// As [`turn_on`], and each page is looked at before it moves.
pub(crate) fn look_first() {
    LOOKS_FIRST.store(true, Ordering::SeqCst);
    turn_on();
}

/// Of `pthread_mutexattr_t` of glibc, since 2.4.
pub(crate) const ATTRIBUTE: c_uint = 1 << 30;
/// Two bits of it: nothing, inherits priority, has a ceiling.
const PROTOCOL_SHIFT: u32 = 28;
pub(crate) const PROTOCOL: c_uint = 3 << PROTOCOL_SHIFT;
const INHERIT: c_int = 1;
const CEILING: c_int = 2;
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

/// `pthread_mutexattr_setprotocol`.
pub(crate) extern "C" fn setprotocol(attributes: *mut c_uint, protocol: c_int) -> c_int {
    if protocol == INHERIT {
        look_first();
    }
    // SAFETY: the program's attributes, as it would pass them to libc.
    let attributes = unsafe { attributes.as_mut() };
    match (attributes, protocol) {
        (Some(attributes), 0..=CEILING) => {
            *attributes = *attributes & !PROTOCOL | (protocol as c_uint) << PROTOCOL_SHIFT
        }
        _ => return Errno::INVAL.raw_os_error(),
    }
    0
}

/// Where something was found locked, each in the place that the number of its page leads to. One
/// that takes another's place has that one's page looked at too late the next time, nothing else.
static HELD: [AtomicUsize; HELD_MAX] = [const { AtomicUsize::new(0) }; HELD_MAX];
const HELD_MAX: usize = 1 << 14;

fn place_of(page: Vpn) -> &'static AtomicUsize {
    &HELD[(page.number() ^ page.number() >> 14) as usize % HELD_MAX]
}

/// Pages that are looked at together before they move, over the stack.
const PIECE: u32 = 8;

/// Whether a mutex at `addr` lies in `page`, or on its border.
fn is_in(addr: usize, page: Vpn) -> bool {
    addr < page.addr() + PAGE_SIZE && page.addr() < addr + BYTES
}

/// Taken together with what lies before and behind a run of pages: what lies on both.
const BESIDE: usize = BYTES;

/// Where the owner of a mutex is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Owner {
    /// In this memory.
    LivesHere,
    /// In a relative's, from which its name was copied.
    LivesElsewhere,
    Gone,
    /// We may not ask.
    Unknown,
}

fn owner(id: i32) -> Owner {
    let is_here = || thread::is_alive(id) || shares_memory(thread::tid(), id);
    match robust::owner(id) {
        robust::Owner::Lives if is_here() => Owner::LivesHere,
        // Unless it has ended between the two questions.
        robust::Owner::Lives if robust::owner(id) != robust::Owner::Gone => Owner::LivesElsewhere,
        robust::Owner::Lives | robust::Owner::Gone => Owner::Gone,
        robust::Owner::Unknown => Owner::Unknown,
    }
}

/// Whether who has a mutex keeps its page from leaving.
fn keeps(owner: Owner, locked: Locked) -> bool {
    match owner {
        Owner::LivesHere => true,
        Owner::LivesElsewhere | Owner::Gone => false,
        Owner::Unknown => locked.links.is_some() || locked.inherits,
    }
}

/// The same of a mutex whose owner is not known yet.
fn is_kept(locked: Locked) -> bool {
    // Whoever takes over from the dead asks the kernel.
    locked.owner.is_none_or(|id| keeps(owner(id), locked))
}

/// A look for mutexes that are locked in pages that leave. It ends when those that are needed are
/// back.
pub(crate) struct Search<'a> {
    memory: Option<&'a ProcMem>,
    proc: &'a ProcSelf,
    /// In pages that have left.
    found: Vec<Watched>,
    is_owed: bool,
}

impl<'a> Search<'a> {
    /// `memory`: where the program's memory is read; `proc`: where its threads are asked for.
    pub(crate) fn new(memory: Option<&'a ProcMem>, proc: &'a ProcSelf) -> Self {
        Self {
            memory,
            proc,
            found: Vec::new(),
            is_owed: false,
        }
    }

    /// How many of the `pages` pages from `vpn` on, up to the first in which something is locked
    /// that was found so before, may leave as far as is known now.
    pub(crate) fn known_free(&mut self, vpn: Vpn, pages: u32) -> u32 {
        let Some(memory) = self.memory else { return pages };
        let is_held = |i: &u32| self.is_held(memory, vpn.add(u64::from(*i)));
        let free = (0..pages).find(is_held).unwrap_or(pages);
        match LOOKS_FIRST.load(Ordering::Relaxed) {
            true => self.first_locked(memory, vpn, free).unwrap_or(free),
            false => free,
        }
    }

    /// Whether what was found locked in `page` is so still.
    fn is_held(&self, memory: &ProcMem, page: Vpn) -> bool {
        let place = place_of(page);
        let addr = place.load(Ordering::Relaxed);
        if addr == 0 || !is_in(addr, page) {
            return false;
        }
        let mut bytes = [0; BYTES];
        let is_there = memory.read(addr, &mut bytes) == BYTES;
        let locked = Locked::read(&bytes).filter(|_| is_there);
        let is_held = locked.is_some_and(is_kept);
        if !is_held {
            place.store(0, Ordering::Relaxed);
        }
        is_held
    }

    /// The first of the `pages` pages from `vpn` on, which are there, in which anything is locked.
    fn first_locked(&mut self, memory: &ProcMem, vpn: Vpn, pages: u32) -> Option<u32> {
        let mut bytes = [0; PIECE as usize * PAGE_SIZE];
        let first = (0..pages).step_by(PIECE as usize).find_map(|at| {
            let len = PIECE.min(pages - at) as usize * PAGE_SIZE;
            let start = vpn.add(u64::from(at));
            let read = memory.read(start.addr(), &mut bytes[..len]) / PAGE_SIZE * PAGE_SIZE;
            // Behind one that is missing none leaves.
            (read > 0)
                .then(|| self.first_needed(start, &bytes[..read]))?
                .map(|first| at + first)
        });
        // They have not left, so the kernel finds what is locked there.
        self.found.clear();
        first
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
            if is_needed {
                let page = vpn.add(page as u64);
                place_of(page).store(at, Ordering::Relaxed);
                first = first.into_iter().chain([page]).min();
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
        first.map(|first| (first.number() - vpn.number()) as u32)
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

    /// Whether the mutex at `addr` keeps its page. Remembered if it is in its owner's list. `left`
    /// reads what has left with it.
    fn is_needed(&mut self, addr: usize, locked: Locked, left: impl Fn(usize) -> Option<usize>) -> bool {
        let Some(id) = locked.owner else { return true };
        let owner = owner(id);
        let may_tell = match owner {
            Owner::LivesHere => true,
            // Of a forked process's memory all may be a copy: it was alive when we looked before.
            Owner::Gone => !IS_FORKED.load(Ordering::Relaxed),
            Owner::LivesElsewhere | Owner::Unknown => false,
        };
        let read = |at| left(at).or_else(|| self.pointer(at));
        let links = locked.links.filter(|_| may_tell && locked.is_linked(addr, read));
        self.found.extend(links.map(|links| Watched::new(addr, id, links)));
        links.is_some() || keeps(owner, locked)
    }

    fn pointer(&self, at: usize) -> Option<usize> {
        let mut bytes = [0; size_of::<usize>()];
        let read = self.memory?.read(at, &mut bytes);
        (read == bytes.len()).then(|| usize::from_ne_bytes(bytes))
    }

    /// Have kswapd bring back what could not go back at once.
    pub(crate) fn owe(&mut self, pages: PageRange) {
        self.is_owed = true;
        deaths::owe(pages);
    }
}

impl Drop for Search<'_> {
    fn drop(&mut self) {
        let found = core::mem::take(&mut self.found);
        if !found.is_empty() {
            deaths::watch(found, (!self.is_owed).then_some(self.proc));
        }
    }
}

/// In a forked child: nobody takes pages out.
pub(crate) fn reset_in_child(orphans: &impl Unlock<RawLock>) {
    IS_FORKED.store(true, Ordering::Relaxed);
    LOOKS_FIRST.store(true, Ordering::Relaxed);
    BLIND.store(0, Ordering::SeqCst);
    deaths::reset_in_child(orphans);
}
