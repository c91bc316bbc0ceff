//! What a system call reaches is brought, and held until it is over. In threads of the program.

use uzswap_guard::reach::{Extent, Memory};
use uzswap_mm::page::{PAGE_SIZE, Vpn};
use uzswap_mm::swap_table::entry::Slot;
use uzswap_sys::Errno;
use uzswap_sys::populate::{Populate, Readable, is_guard, populate, touch, write_populated};
use uzswap_sys::signal::{self, Plain};
use uzswap_sys::thread::{self, page_align};

use super::holds::Hold;
use super::{ADDRESSES, exec, ranges};
use crate::guest::{mmap, stacks};
use crate::pager;

/// How often a page is tried that leaves again before it can be held: never twice, once it is held.
const TRIES: u32 = 1000;

/// What is so short is brought though a page of it cannot be. Bytes.
const SHORT: usize = 4 * PAGE_SIZE;

/// So much above an address on a stack is taken for that stack. Bytes.
const OWN_STACK: usize = 64 << 10;

/// Where a call is kept that has these arguments: they lie on the stack until it is over.
pub(super) fn frame_of(args: &[usize; 6]) -> usize {
    args.as_ptr().addr()
}

/// The memory of one call.
pub(super) struct Reached {
    hold: Option<Hold>,
    near: usize,
    /// Where the call is kept that this is of, until it is over; 0: it is no call's.
    frame: usize,
    /// Words are not trusted: the kernel has met what was not there.
    is_thorough: bool,
    /// Nothing was held when the kernel met it.
    was_loose: bool,
    readable: Readable,
    /// Pages that were not there.
    pub(super) brought: u32,
}

impl Reached {
    /// `token`: of what is held already. `near`: an address on the stack of this thread.
    pub(super) fn new(token: usize, near: usize, is_thorough: bool) -> Self {
        let hold = Hold::of(token);
        Self {
            hold,
            near,
            frame: 0,
            is_thorough,
            was_loose: is_thorough && hold.is_none(),
            readable: Readable::default(),
            brought: 0,
        }
    }

    /// As [`new`](Self::new), of a call that has this frame ([`frame_of`]).
    pub(super) fn of_call(token: usize, frame: usize, is_thorough: bool) -> Self {
        Self {
            frame,
            ..Self::new(token, frame, is_thorough)
        }
    }

    /// What is held, for a word of the call.
    pub(super) fn token(&self) -> usize {
        self.hold.map_or(0, Hold::token)
    }

    /// Bring whole pages.
    fn see_to(&mut self, start: usize, end: usize, is_written: bool) {
        let known = |page| !self.is_thorough && is_there(page, is_written);
        if (start..end).step_by(PAGE_SIZE).all(known) {
            return;
        }
        if populate(start, end - start, is_written) == Populate::There {
            return;
        }
        for page in (start..end).step_by(PAGE_SIZE) {
            // What may not be written to may be read by who would only write to it at the end.
            let can_be = self.bring(page, is_written) || is_written && self.bring(page, false);
            // The kernel cannot have it either, and says so. It may have written what is behind it
            // before.
            if !can_be && end - start > SHORT {
                return;
            }
        }
    }

    /// Have the page at `page` mapped. False: it cannot be.
    fn bring(&mut self, page: usize, is_written: bool) -> bool {
        for _ in 0..TRIES {
            match populate(page, PAGE_SIZE, is_written) {
                Populate::There => return true,
                Populate::Refused(Errno::AGAIN | Errno::INTR) => {}
                Populate::Refused(_) => return false,
                // The end of a file that is mapped looks the same to who asks.
                Populate::Faults if ranges::next(page, page + PAGE_SIZE).is_none() => return false,
                // And a guard page of the program's.
                Populate::Faults if mmap::installs_guards() && is_guard(page) => return false,
                Populate::Faults => {
                    self.brought += 1;
                    touch(page, is_written);
                }
            }
        }
        false
    }
}

/// Whether the engine knows a page to be there, for the kernel to write to if `is_written`. Its
/// word does not say whether it is protected, as pages are whose blocks were kept.
fn is_there(page: usize, is_written: bool) -> bool {
    let Some(pager) = pager::inherited() else { return false };
    let is_mapped = matches!(
        pager.mm.lookup(Vpn::of_addr(page)),
        Slot::Resident { .. } | Slot::Cached(_)
    );
    // Asked after that: what is protected from now on is not what a call holds, or moves first.
    is_mapped && !(is_written && pager.mm.machine().protection.is_on())
}

impl Memory for Reached {
    fn reach(&mut self, extent: Extent) {
        let (mut at, end) = (extent.start & !(PAGE_SIZE - 1), page_align(extent.start + extent.len));
        // Whether it is registered or not: it may be before the call is over. Stacks are not, but
        // for those that the program makes of other memory, for coroutines.
        let is_near = (self.near..self.near + OWN_STACK).contains(&at) && end <= self.near + OWN_STACK;
        if !(is_near && stacks::is_stack(at, end)) {
            let (near, frame) = (self.near, self.frame);
            self.hold.get_or_insert_with(|| Hold::take(near, frame)).add(at, end);
        }
        if self.was_loose && ranges::next(at, end).is_some() {
            // It may have come back before it was held: the kernel is to look again.
            self.brought = self.brought.max(1);
        }
        while let Some((start, limit)) = (at < end).then(|| ranges::next(at, end)).flatten() {
            self.see_to(start, limit, extent.is_written);
            at = limit;
        }
    }

    fn read(&mut self, addr: usize, bytes: &mut [u8]) -> bool {
        if self.readable.read(addr, bytes) {
            return true;
        }
        // A word that says too much is not believed twice: who gets no list makes less of a call.
        let Some(end) = addr.checked_add(bytes.len()).filter(|end| *end < ADDRESSES) else {
            return false;
        };
        let mut pages = (addr & !(PAGE_SIZE - 1)..end).step_by(PAGE_SIZE);
        pages.all(|page| self.bring(page, false)) && self.readable.read(addr, bytes)
    }

    fn is_own(&self, process: usize) -> bool {
        let pid = thread::pid() as usize;
        let is_id = (1..=i32::MAX as usize).contains(&process);
        // A thread of it is the process, too.
        process == pid || is_id && !exec::is_filtered() && thread::is_alive(pid as i32, process as i32)
    }

    fn is_again(&self) -> bool {
        self.is_thorough
    }
}

/// So much of the stack below a call, and above it, is used until it is over. Bytes.
const STACK_BELOW: usize = 32 << 10;
const STACK_ABOVE: usize = 4 << 10;

/// The stack of this thread, which is brought and stays.
pub(crate) struct StackHeld(usize);

/// Hold the stack, in case that is managed, while nothing of it could be brought.
pub(crate) fn hold_stack() -> StackHeld {
    let here = 0usize;
    let near = (&raw const here).addr();
    if ranges::next(near - STACK_BELOW, near + STACK_ABOVE).is_none() {
        return StackHeld(0);
    }
    let mut reached = Reached::new(0, near, false);
    reached.reach(Extent {
        start: near - STACK_BELOW,
        len: STACK_BELOW + STACK_ABOVE,
        is_written: true,
    });
    StackHeld(reached.token())
}

impl Drop for StackHeld {
    fn drop(&mut self) {
        Hold::of(self.0).into_iter().for_each(Hold::release);
    }
}

/// A value of the program's, which is brought.
pub(super) fn read<T: Plain>(at: usize) -> Option<T> {
    signal::read(|bytes| {
        let mut reached = Reached::new(0, (&raw const at).addr(), false);
        reached.reach(Extent {
            start: at,
            len: bytes.len(),
            is_written: false,
        });
        let is_read = reached.read(at, bytes);
        reached.hold.into_iter().for_each(Hold::release);
        is_read
    })
}

/// A word of the program's, which is brought.
pub(super) fn word_at(at: usize) -> Option<usize> {
    read::<u64>(at).map(|word| word as usize)
}

/// Words of the program's from `at` on, `count` of them, which are brought; the others are 0.
pub(crate) fn words_at<const N: usize>(at: usize, count: usize) -> Option<[usize; N]> {
    let mut words = [0; N];
    for (n, word) in words.iter_mut().take(count).enumerate() {
        *word = word_at(at.checked_add(n * size_of::<usize>())?)?;
    }
    Some(words)
}

/// Write a value to the program's memory. False: it cannot be.
pub(super) fn write<T: Plain>(at: usize, value: &T) -> bool {
    let bytes = signal::bytes(value);
    let mut reached = Reached::new(0, (&raw const at).addr(), false);
    reached.reach(Extent {
        start: at,
        len: bytes.len(),
        is_written: true,
    });
    let is_written = write_populated(at, bytes);
    reached.hold.into_iter().for_each(Hold::release);
    is_written
}
