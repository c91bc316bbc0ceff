//! Deaths that the kernel could not tell, since a page was out for a moment: kswapd tells them.

use alloc::vec::Vec;

use lock_api::Mutex;
use uzswap_mm::page::{PAGE_SIZE, PageRange};
use uzswap_mm::vmstat::Item;
use uzswap_mm::zpool::Unlock;
use uzswap_sys::futex::RawLock;
use uzswap_sys::mapping::unshare;
use uzswap_sys::procfs::ProcSelf;
use uzswap_sys::robust::mutex::{BYTES, ENTRY, Links, Locked};
use uzswap_sys::{Errno, robust, time};

use super::{Owner, is_on, owner};
use crate::hook::InOrder;
use crate::mailbox::mail;
use crate::pager::{self, Pager};

/// A mutex in a page that was out for a moment, in which its owner may have ended.
pub(super) struct Watched {
    addr: usize,
    owner: i32,
    /// How it lies in the owner's list: that changes no more if the owner was ending.
    links: Links,
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

impl Watched {
    /// The mutex at `addr`, which is in its owner's list.
    pub(super) fn new(addr: usize, owner: i32, links: Links) -> Self {
        Self {
            addr,
            owner,
            links,
            due_ns: time::now_ns() + FIRST_LOOK_NS,
            looks: 0,
        }
    }
}

/// Watch these, unless their owner does not end yet: they are back, so whatever ends him finds
/// them. `proc`: where that is asked; `None`: they are not back.
pub(super) fn watch(mut found: Vec<Watched>, proc: Option<&ProcSelf>) {
    let mut last = None;
    let mut may_have_ended = |owner: i32| match last {
        Some((known, answer)) if known == owner => answer,
        _ => {
            let answer = !proc.is_some_and(|proc| proc.lives_on(owner));
            last = Some((owner, answer));
            answer
        }
    };
    found.retain(|one| may_have_ended(one.owner));
    if found.is_empty() {
        return;
    }
    let mut watched = WATCHED.lock();
    let surplus = (watched.len() + found.len()).saturating_sub(WATCHED_MAX);
    let surplus = surplus.min(watched.len());
    watched.drain(..surplus);
    watched.extend(found);
}

/// Pages that are needed and could not go back at once, as an event had to be read first.
static OWED: Mutex<RawLock, Vec<PageRange>> = Mutex::new(Vec::new());

/// Have kswapd bring these back.
pub(super) fn owe(pages: PageRange) {
    OWED.lock().push(pages);
    if let Some(pager) = pager::inherited() {
        pager.mail.post(mail::RECLAIM);
    }
}

fn bring_owed(pager: &Pager) {
    let owed = core::mem::take(&mut *OWED.lock());
    for pages in owed {
        pager.unsharing.begin(pages);
        let (mut at, end) = (pages.start.addr(), pages.end.addr());
        while at < end
            && let Ok(Some(vma)) = pager.fds().proc.vma_at_or_after(at)
        {
            let part = PageRange::of_bytes(vma.start.clamp(at, end), vma.end.min(end));
            // Whatever else is mapped there now is not ours to write to.
            if vma.is_plain_data() && bring(part).is_err() {
                // One of them may have been unmapped, the others may be there.
                for page in part.iter() {
                    let _ = bring(PageRange::new(page, 1));
                }
            }
            at = vma.end;
        }
    }
}

fn bring(pages: PageRange) -> Result<(), Errno> {
    unshare(pages.start.addr(), pages.pages() as usize * PAGE_SIZE)
}

/// Entries that the kernel goes through at most (ROBUST_LIST_LIMIT).
const LIST_MAX: u32 = 2048;

/// By kswapd: tell them.
pub(crate) fn tell(pager: &Pager) {
    if !is_on() {
        return;
    }
    bring_owed(pager);
    let now = time::now_ns();
    let due = |watched: &mut Watched| watched.due_ns <= now;
    // Whoever takes pages out adds to them, and waits for nothing.
    let all: Vec<_> = WATCHED.lock().extract_if(.., due).collect();
    for mut watched in all {
        match owner(watched.owner) {
            Owner::LivesHere => {
                watched.looks += 1;
                watched.due_ns = now + (FIRST_LOOK_NS << (3 * watched.looks));
                if watched.looks < LOOKS {
                    WATCHED.lock().push(watched);
                }
            }
            // Another has its id by now, or it has another memory.
            Owner::Gone | Owner::LivesElsewhere => tell_list(pager, watched),
            Owner::Unknown => {}
        }
    }
    pager.unsharing.end();
}

/// Tell of this mutex, and of those behind it in the list of their owner, which has ended.
fn tell_list(pager: &Pager, first: Watched) {
    // No mapping is changed by libc meanwhile.
    let Some(_turn) = InOrder::attempt() else {
        let later = Watched::new(first.addr, first.owner, first.links);
        return WATCHED.lock().push(later);
    };
    let (mut at, mut before) = (first.addr, first.links.before);
    for _ in 0..LIST_MAX {
        let page = at & !(PAGE_SIZE - 1);
        let pages = PageRange::of_bytes(page, (at + BYTES).next_multiple_of(PAGE_SIZE));
        // What has left again comes back whatever the limit: nobody else makes room.
        pager.unsharing.begin(pages);
        let vma = pager.fds().proc.vma_at_or_after(at).ok().flatten();
        if !vma.is_some_and(|vma| vma.start <= at && at + BYTES <= vma.end && vma.is_plain_data()) {
            return;
        }
        // There, and not protected: futex calls wait for neither. Before Linux 5.14 it is as it is.
        let _ = bring(pages);
        let Some(locked) = read(pager, at) else { return };
        let Some(links) = locked.links.filter(|links| links.before == before) else {
            return;
        };
        if locked.owner != Some(first.owner) || at == first.addr && links != first.links {
            return;
        }
        // SAFETY: mapped, and by libc nothing else is meanwhile. kswapd holds no lock, and its
        // fault is served whatever the limit.
        let is_told = unsafe { robust::tell_death(at, first.owner, !locked.inherits) };
        pager.mm.stat().add(Item::DeathTold, u64::from(is_told));
        if !is_told || links.next <= ENTRY {
            return;
        }
        (at, before) = (links.next - ENTRY, at + ENTRY);
    }
}

/// The mutex at `addr`, if its page is there.
fn read(pager: &Pager, addr: usize) -> Option<Locked> {
    let mut bytes = [0; BYTES];
    let read = pager.mm.machine().memory()?.read(addr, &mut bytes);
    (read == BYTES).then(|| Locked::read(&bytes))?
}

/// In a forked child: what its parent has found is its parent's.
pub(super) fn reset_in_child(orphans: &impl Unlock<RawLock>) {
    orphans.unlock(&WATCHED);
    orphans.unlock(&OWED);
    WATCHED.lock().clear();
    OWED.lock().clear();
}
