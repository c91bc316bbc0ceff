//! Which mappings are ours to manage.
//!
//! Private anonymous memory that is not code ([`is_data`]), from 64 KiB up or where smaller ones
//! are many ([`small`]), and the heap. Never: stacks, shared or file mappings, huge pages, our own
//! memory, and the pages in which the kernel keeps words of the first thread.
//!
//! A thread's stack looks like any other memory in `/proc/self/maps`, and must not be managed: the
//! kernel writes to it when the thread exits, when it can no longer wait for a fault. So the
//! replaced `mmap` records what it maps for stacks ([`StackChange`]), and the scan passes over
//! those. The kernel reads that list then, too: of other threads it begins on their stacks, of the
//! first one where the loader has put it.

use alloc::vec::Vec;
use core::sync::atomic::{AtomicUsize, Ordering};

use uzswap_mm::page::{PAGE_SIZE, PageRange};
use uzswap_mm::{Change, Changes};
use uzswap_sys::futex::RawLock;
use uzswap_sys::mapping::own;
use uzswap_sys::procfs::Vma;
use uzswap_sys::thread::page_align;
use uzswap_sys::{Errno, closed};

use super::window::Window;
use super::{order, small, stacks, strays};
use crate::guard;
use crate::machine::{AgentMachine, Fds};
use crate::pager::{Pager, blocking};

/// Smallest mapping that is managed while those that are smaller are few.
pub(crate) const MIN_BYTES: usize = 64 * 1024;

/// Smallest mapping that is managed now.
pub(crate) fn least_bytes() -> usize {
    if small::are_ours() { PAGE_SIZE } else { MIN_BYTES }
}

/// Whether memory that may be executed and written is managed. The kernel moves none of it. Copying
/// knows of a device that writes to it meanwhile (O_DIRECT) only where calls hold their buffers.
pub(crate) fn manages_executable_data() -> bool {
    guard::is_on() && !blocking::is_on()
}

fn is_data(vma: &Vma) -> bool {
    vma.is_private_anonymous_data() || manages_executable_data() && vma.is_executable_data()
}

/// The library's own image: its segments and what the loader mapped behind them.
pub(crate) fn agent_image() -> (usize, usize) {
    unsafe extern "C" {
        static _end: u8;
        static __ehdr_start: u8;
    }
    (&raw const __ehdr_start as usize, page_align(&raw const _end as usize))
}

/// Call `f` with every range that must not be managed, whatever its mapping looks like.
fn for_each_excluded(mut f: impl FnMut(usize, usize)) {
    stacks::for_each(&mut f);
    for_each_of_ours(&mut f);
    for (start, end) in crate::init::main_words() {
        f(start, end);
    }
}

/// Call `f` with every range that is the pager's own.
fn for_each_of_ours(mut f: impl FnMut(usize, usize)) {
    own::for_each(&mut f);
    let (start, end) = agent_image();
    f(start, end);
}

pub(crate) fn is_of_ours(start: usize, end: usize) -> bool {
    let mut overlaps = false;
    for_each_of_ours(|s, e| overlaps |= s < end && start < e);
    overlaps
}

/// What must not be managed, as ranges in order that do not touch.
struct Excluded(Vec<(usize, usize)>);

impl Excluded {
    /// As it is now. `None`: cannot tell. Asked after the look at mappings: a stack that was
    /// visible to that look is either still in flight here or recorded.
    fn now() -> Option<Self> {
        let mut ranges = Vec::new();
        for_each_excluded(|start, end| ranges.push((start, end)));
        if stacks::is_changing() {
            return None;
        }
        ranges.sort_unstable();
        ranges.dedup_by(|next, last| {
            let touches = next.0 <= last.1;
            if touches {
                last.1 = last.1.max(next.1);
            }
            touches
        });
        Some(Self(ranges))
    }

    /// The parts of a mapping that may be managed: neighbours with equal flags share one kernel
    /// mapping, so a stack may be glued to an arena.
    fn manageable_parts(&self, vma: &Vma) -> Vec<(usize, usize)> {
        let stack = crate::init::main_stack();
        // What libc keeps of the first thread, and the kernel writes to, is small.
        let [(words, _), _] = crate::init::main_words();
        let is_small = vma.end - vma.start < MIN_BYTES;
        if vma.start <= stack && stack < vma.end || is_small && vma.start <= words && words < vma.end {
            return Vec::new();
        }
        let first = self.0.partition_point(|(_, end)| *end <= vma.start);
        let excluded = self.0[first..]
            .iter()
            .copied()
            .take_while(|(start, _)| *start < vma.end);
        let (mut parts, least) = (Vec::new(), least_bytes());
        let mut at = vma.start;
        for (start, end) in excluded.chain([(vma.end, vma.end)]) {
            if start > at && start - at >= least {
                parts.push((at, start));
            }
            at = at.max(end);
        }
        parts
    }
}

/// Mappings from which on the next one is registered before `mmap` returns. The kernel joins a
/// mapping to its registered neighbour only as long as it is untouched. A process may have 65,530
/// mappings (vm.max_map_count).
const MANY: usize = 1 << 13;
/// Mappings of the process, as the last walk found them.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Whether the process has so many mappings that they may become too many.
pub(crate) fn are_many() -> bool {
    // Where memory is closed most of them are ours.
    COUNT.load(Ordering::Relaxed) >= MANY && !closed::is_on()
}

/// Go through all mappings and take those under our care that should be and are not. Returns what
/// is to be looked at again soon; `None`: all of them.
pub(crate) fn scan_all(pager: &Pager, fds: &Fds) -> Option<Vec<(usize, usize)>> {
    let (mut vmas, mut count, mut small) = (Vec::new(), 0, 0);
    let looked = fds.proc.for_each_vma(|vma| {
        count += 1;
        if is_worth_it(&vma) {
            vmas.push(vma);
        } else if is_data(&vma) {
            small += vma.end - vma.start;
        }
    });
    COUNT.store(count, Ordering::Relaxed);
    if small::note_found(small) {
        return scan_all(pager, fds);
    }
    looked.ok().map(|()| scan(pager, fds, &vmas))
}

/// As [`scan_all`], for the mappings in these ranges alone.
pub(crate) fn scan_ranges(pager: &Pager, fds: &Fds, ranges: &[(usize, usize)]) -> Vec<(usize, usize)> {
    let (mut vmas, mut again) = (Vec::new(), Vec::new());
    for (start, end) in ranges {
        let mut at = *start;
        while at < *end {
            let Ok(next) = fds.proc.vma_at_or_after(at) else {
                again.push((at, *end));
                break;
            };
            let Some(vma) = next.filter(|vma| vma.start < *end) else {
                break;
            };
            at = vma.end;
            if is_worth_it(&vma) {
                vmas.push(vma);
            }
        }
    }
    again.extend(scan(pager, fds, &vmas));
    again
}

fn scan(pager: &Pager, fds: &Fds, vmas: &[Vma]) -> Vec<(usize, usize)> {
    let mut turns = order::Turns::default();
    let mut is_done = |vma: &Vma, excluded: &Excluded| {
        let parts = excluded.manageable_parts(vma).into_iter();
        parts.fold(true, |all, (start, end)| {
            all & manage(pager, fds, vma, start, end, &mut turns)
        })
    };
    let excluded = Excluded::now();
    vmas.iter()
        .filter(|vma| !excluded.as_ref().is_some_and(|excluded| is_done(vma, excluded)))
        .map(|vma| (vma.start, vma.end))
        .collect()
}

/// Whether every change of the program's mappings has been applied as it was made: none is
/// expected, or none is under way.
pub(crate) fn settle(pager: &Pager) -> bool {
    pager.mm.with_changes(|changes| settle_in(pager, changes))
}

/// As [`settle`], under the lock that changes are read and applied under.
pub(crate) fn settle_in(pager: &Pager, changes: &mut Changes<'_, RawLock, AgentMachine>) -> bool {
    let is_late = changes.is_expecting() && pager.fds().managed.is_changing(pager.mm.machine().nowhere());
    if !is_late {
        changes.settle();
    }
    !is_late
}

/// Whether `[start, end)` lies in one mapping and may be managed.
fn is_still_manageable(fds: &Fds, start: usize, end: usize) -> bool {
    let mut at = start;
    while at < end {
        let Ok(Some(vma)) = fds.proc.vma_at_or_after(at) else {
            return false;
        };
        // What is closed in parts is several for the kernel.
        let is_one = vma.end >= end || closed::is_on();
        if vma.start > at || !is_one || !is_data(&vma) {
            return false;
        }
        at = vma.end;
    }
    !stacks::is_changing() && !is_excluded(start, end)
}

fn is_excluded(start: usize, end: usize) -> bool {
    let stack = crate::init::main_stack();
    let mut excluded = start <= stack && stack < end;
    for_each_excluded(|s, e| excluded |= s < end && start < e);
    excluded
}

/// Take `[start, end)` under our care if it is one mapping, however small, beside managed memory.
/// It is the turn of the thread that mapped it, which waits. False: not now.
pub(crate) fn join(pager: &Pager, fds: &Fds, start: usize, end: usize) -> bool {
    if !is_still_manageable(fds, start, end) {
        return !stacks::is_changing();
    }
    let range = PageRange::of_bytes(start, end);
    // A neighbour that has just grown is registered already, but not managed yet.
    let besides = [start - PAGE_SIZE, end].map(|page| manage_mapping_of(pager, fds, page));
    match besides {
        [Some(true), _] | [_, Some(true)] => register_and_adopt(pager, fds, range, end),
        [None, _] | [_, None] => false,
        _ => true,
    }
}

/// Take the mapping around a page under our care if it should be. Whether the page is managed then;
/// `None`: not known now.
fn manage_mapping_of(pager: &Pager, fds: &Fds, page: usize) -> Option<bool> {
    let vma = fds.proc.vma_at_or_after(page).ok().flatten();
    if let Some(vma) = vma.filter(|vma| vma.start <= page && is_worth_it(vma)) {
        let is_all = Excluded::now()?
            .manageable_parts(&vma)
            .into_iter()
            .all(|(start, end)| register_and_adopt(pager, fds, PageRange::of_bytes(start, end), end));
        is_all.then_some(())?;
    }
    let page = PageRange::of_bytes(page, page + PAGE_SIZE);
    Some(pager.mm.with_changes(|changes| changes.gaps(page).is_empty()))
}

fn is_worth_it(vma: &Vma) -> bool {
    vma.end - vma.start >= least_bytes() && is_data(vma)
}

/// Take `[start, end)` of `vma` under our care if it is not yet. False: not now.
///
/// A mapping of which only a part is registered is two: the kernel joins them again when the rest
/// is registered, but not if both were touched meanwhile, and the program's mremap takes one. So
/// the ends that we register to must be the mapping's when it happens. It is our turn to change
/// mappings: nothing is unmapped or replaced meanwhile, and whatever is mapped or grows, lies
/// wholly in the hole behind the mapping, which is registered along with it.
fn manage(pager: &Pager, fds: &Fds, vma: &Vma, start: usize, end: usize, turns: &mut order::Turns) -> bool {
    let range = PageRange::of_bytes(start, end);
    if pager.mm.with_changes(|changes| changes.gaps(range).is_empty()) {
        return true;
    }
    let Some(_turn) = turns.next() else {
        return false;
    };
    let mapping_at = |at| fds.proc.vma_at_or_after(at).ok().flatten();
    if mapping_at(start).is_none_or(|now| (now.start, now.end) != (vma.start, vma.end)) {
        return false;
    }
    let hole_end = match end == vma.end {
        true => mapping_at(end).map_or(end, |next| next.start),
        false => end,
    };
    register_and_adopt(pager, fds, range, hole_end)
}

/// Register `range`, look at it again, adopt its pages. All of it under the engine's lock, so that
/// no event is read or applied in between. False: not now.
///
/// Reclaim must never move pages out of a mapping that is not registered (they would read as
/// zeros), so all of this has to hold before a page gets a word:
/// 1. `register` of exactly the range succeeded: mappings that lay in it then are registered;
/// 2. one mapping covers the range now. If it is not one of those of 1, they were unmapped
///    meanwhile, and that event waits to be read, since we hold the lock under which events are
///    read;
/// 3. no event waits (`is_changing`): so it is one of those of 1.
///
/// Two things are deliberately not done here:
/// 1. A range that turns out to have changed is not unregistered again. It may have been moved
///    here, with pages that are swapped out, by an mremap whose event waits to be read. Registered
///    but unmanaged memory is harmless: a missing page of it gets zeros, and nothing of it is ever
///    reclaimed.
/// 2. Pages of managed ranges that have no word are not adopted, though MADV_FREE leaves such
///    pages. They may be about to be dropped by a madvise whose event was applied already;
///    reclaiming one now would bring its old contents back.
fn register_and_adopt(pager: &Pager, fds: &Fds, range: PageRange, hole_end: usize) -> bool {
    let (start, end) = (range.start.addr(), range.end.addr());
    guard::note_registering(start, end);
    let mut adopted = 0;
    let is_settled = pager.mm.with_changes(|changes| {
        if changes.gaps(range).is_empty() {
            return true;
        }
        if closed::is_on() {
            // A call that begins waits until it is closed, and finds what it reaches; what others
            // hold is mapped by now.
            guard::begin_moves(range);
            guard::note_registering(start, end);
        }
        // What is registered and not taken under our care is an address whose departure shows
        // nothing (`mm/flight/departing.rs`): not while a change is under way that would leave it
        // so.
        if fds.managed.is_changing(pager.mm.machine().nowhere()) {
            return false;
        }
        // Refused when something in the hole cannot be registered, or is ours by now; the exact
        // range decides. No stack may be among it: a thread begins on its own with no other to take
        // a signal on.
        let is_hole = hole_end > end;
        if is_hole && stacks::while_none_changes(|| register_unless_excluded(fds, start, hole_end)).is_none() {
            return false;
        }
        // Mapped in the hole since, and registered with it.
        let mut at = end;
        while at < hole_end
            && let Ok(Some(vma)) = fds.proc.vma_at_or_after(at)
            && vma.start < hole_end
        {
            guard::note_registering(vma.start, vma.end.min(hole_end));
            at = vma.end;
        }
        match register_unless_excluded(fds, start, end) {
            Some(Ok(())) => {}
            // Too many mappings.
            Some(Err(Errno::NOMEM)) if closed::is_on() => return false,
            // It is no such memory.
            Some(Err(_)) => return true,
            None => return false,
        }
        if !is_still_manageable(fds, start, end) || fds.managed.is_changing(pager.mm.machine().nowhere()) {
            return false;
        }
        changes.settle();
        for gap in changes.gaps(range) {
            let present = present_pages(fds, gap.start.addr(), gap.end.addr());
            adopted += changes.manage(gap, &present, false);
        }
        true
    });
    pager.memcg.note_adopted(adopted);
    is_settled
}

/// Register `[start, end)`. `None`: not all of it is the program's.
///
/// Nothing of ours may ever be registered: whoever serves faults would wait for himself. A thread
/// of the pager may map something of ours wherever nothing is mapped, at any time. So it is looked
/// for here, and none is made until this is done.
fn register_unless_excluded(fds: &Fds, start: usize, end: usize) -> Option<Result<(), Errno>> {
    own::while_none_is_made(|| (!is_excluded(start, end)).then(|| fds.register(start, end)))
}

/// As [`register_unless_excluded`], for what has contents that are out: only what is ours is passed
/// over. A stack that is recorded there is a mistake, of the records.
fn register_unless_ours(fds: &Fds, start: usize, end: usize) -> Option<Result<(), Errno>> {
    own::while_none_is_made(|| (!is_of_ours(start, end)).then(|| fds.register(start, end)))
}

/// Have writes to protected pages reported of all that is managed, and of all that will be. False:
/// not now.
///
/// Mappings are registered whole: two halves registered for different things would be two for
/// mremap. It is our turn to change mappings, so none is joined or moved meanwhile. What raw system
/// calls change, and what refuses, stays as it is: pages cannot be protected there.
pub(crate) fn watch_writes(pager: &Pager, fds: &Fds) -> bool {
    let Some(_turn) = order::InOrder::attempt() else {
        return false;
    };
    fds.managed.begin_protecting();
    for range in pager.mm.managed() {
        let mut at = range.start.addr();
        loop {
            let vma = match fds.proc.vma_at_or_after(at) {
                Ok(Some(vma)) if vma.start < range.end.addr() => vma,
                Ok(_) => break,
                Err(_) => return false,
            };
            // Something else may lie there by now.
            if vma.is_private_anonymous() {
                guard::note_registering(vma.start, vma.end);
                let _ = register_unless_excluded(fds, vma.start, vma.end);
            }
            at = vma.end;
        }
    }
    true
}

fn present_pages(fds: &Fds, start: usize, end: usize) -> Vec<PageRange> {
    let mut present = Vec::new();
    if closed::is_on() {
        closed::for_each_open(start, end, |start, end| present.push(PageRange::of_bytes(start, end)));
        return present;
    }
    // Pages that are missed stay unknown until a later scan: they are merely not reclaimed.
    let _ = fds
        .proc
        .for_each_present(start, end, |start, end| present.push(PageRange::of_bytes(start, end)));
    present
}

/// In a forked child: register every managed range anew and find out which pages are mapped,
/// whatever their words say. False: a range cannot be registered, so what is out of it is lost.
///
/// What the parent managed the child manages, whatever the records of stacks say: they may name
/// more than is stacks ([`stacks::StackChange::add`]), and a word that is dropped is a page that
/// reads as zeros. `was_watched`: nothing of it was without a userfaultfd since.
pub(crate) fn register_inherited(pager: &Pager, fds: &Fds, was_watched: bool) -> bool {
    let mut window = Window::default();
    pager.mm.managed().into_iter().all(|range| {
        let mut at = range.start.addr();
        while at < range.end.addr() {
            let Ok(vma) = window.at_or_after(fds, at) else {
                return false;
            };
            let (start, end) = vma.map_or((range.end.addr(), range.end.addr()), |vma| {
                (vma.start.clamp(at, range.end.addr()), vma.end.min(range.end.addr()))
            });
            // What the child did not inherit (MADV_DONTFORK) has no contents; something of ours may
            // lie there by now. Managed memory may have become executable since.
            let is_other = vma.is_some_and(|vma| !vma.is_private_anonymous()) || is_of_ours(start, end);
            let is_gone = start >= end || is_other;
            let gone = if is_gone { at..end.max(start) } else { at..start };
            if !gone.is_empty() {
                pager
                    .mm
                    .change(Change::Unmap(PageRange::of_bytes(gone.start, gone.end)));
                closed::forget(gone.start, gone.end);
            }
            if is_gone {
                at = end.max(start);
                continue;
            }
            // The whole mapping if possible: a registered part would split it, of which mremap
            // would move one.
            let whole = vma.and_then(|vma| {
                guard::note_registering(vma.start, vma.end);
                register_unless_excluded(fds, vma.start, vma.end)
            });
            let whole = whole.filter(Result::is_ok);
            match whole.or_else(|| register_unless_ours(fds, start, end)) {
                Some(Ok(())) => {}
                // Something of ours lay there, or does since: it is looked at again.
                answer => {
                    window = Window::default();
                    if answer.is_some() && window.at_or_after(fds, at) == Ok(vma) {
                        return false;
                    }
                    continue;
                }
            }
            if !was_watched {
                match strays::drop_strays(pager, fds, start, end) {
                    Ok(false) => {}
                    Ok(true) => continue,
                    Err(_) => return false,
                }
            }
            fds.unprotect_inherited(start, end);
            let present = present_pages(fds, start, end);
            pager
                .mm
                .with_changes(|changes| changes.manage(PageRange::of_bytes(start, end), &present, true));
            at = end;
        }
        true
    })
}
