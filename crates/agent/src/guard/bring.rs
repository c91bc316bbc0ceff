//! What a system call reaches is brought, and held until it is over. In threads of the program.

use uzswap_guard::reach::{Extent, Memory};
use uzswap_mm::page::{PAGE_SIZE, Vpn};
use uzswap_mm::swap_table::entry::Slot;
use uzswap_sys::Errno;
use uzswap_sys::guard::{Populate, is_guard, populate, read_populated, touch};
use uzswap_sys::thread::page_align;

use super::holds::Hold;
use super::ranges;
use crate::{mmap, pager};

/// How often a page is tried that leaves again before it can be held: never twice, once it is held.
const TRIES: u32 = 1000;

/// The memory of one call.
pub(super) struct Reached {
    hold: Option<Hold>,
    near: usize,
    /// Also what is not known to be registered.
    is_thorough: bool,
    /// Pages that were not there.
    pub(super) brought: u32,
}

impl Reached {
    /// `token`: of what is held already. `near`: an address on the stack of this thread.
    pub(super) fn new(token: usize, near: usize, is_thorough: bool) -> Self {
        Self {
            hold: Hold::of(token),
            near,
            is_thorough,
            brought: 0,
        }
    }

    /// What is held, for a word of the call.
    pub(super) fn token(&self) -> usize {
        self.hold.map_or(0, Hold::token)
    }

    /// Hold and bring whole pages.
    fn see_to(&mut self, start: usize, end: usize, is_written: bool) {
        let near = self.near;
        self.hold.get_or_insert_with(|| Hold::take(near)).add(start, end);
        if (start..end).step_by(PAGE_SIZE).all(|page| is_there(page, is_written)) {
            return;
        }
        if populate(start, end - start, is_written) == Populate::There {
            return;
        }
        for page in (start..end).step_by(PAGE_SIZE) {
            if !self.bring(page, is_written) {
                // The kernel cannot have it either, and says so.
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
                // A guard page of the program's looks the same to who asks.
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
    let may_be_protected = is_written && pager.mm.machine().protects();
    let word = || pager.mm.lookup(Vpn::of_addr(page));
    !may_be_protected && matches!(word(), Slot::Resident { .. } | Slot::Cached(_))
}

impl Memory for Reached {
    fn reach(&mut self, extent: Extent) {
        let (mut at, end) = (extent.start & !(PAGE_SIZE - 1), page_align(extent.start + extent.len));
        if self.is_thorough {
            return self.see_to(at, end, extent.is_written);
        }
        while let Some((start, limit)) = (at < end).then(|| ranges::next(at, end)).flatten() {
            self.see_to(start, limit, extent.is_written);
            at = limit;
        }
    }

    fn read(&mut self, addr: usize, bytes: &mut [u8]) -> bool {
        read_populated(addr, bytes)
    }
}
