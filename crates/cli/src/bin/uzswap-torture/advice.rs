//! All kinds of madvise, and what each does to the contents.

use std::ops::Range;

use uzswap_sys::testing::Access;

use crate::region::{Heritage, Region, sectors, span};

pub(crate) const MADV_DONTNEED: i32 = 4;
const MADV_FREE: i32 = 8;
const MADV_DONTFORK: i32 = 10;
const MADV_WIPEONFORK: i32 = 18;
const MADV_KEEPONFORK: i32 = 19;
const MADV_POPULATE_READ: i32 = 22;
const MADV_POPULATE_WRITE: i32 = 23;
pub(crate) const MADV_DONTNEED_LOCKED: i32 = 24;
const MADV_GUARD_INSTALL: i32 = 102;
const MADV_GUARD_REMOVE: i32 = 103;

/// Those that say something of the mapping, and so may cut it: NORMAL, RANDOM, SEQUENTIAL,
/// HUGEPAGE, NOHUGEPAGE, DONTDUMP, DODUMP. Not MERGEABLE: from then on memory that is read-only
/// could not leave (docs/compatibility.md), and there is much of it here.
const OF_MAPPINGS: [i32; 7] = [0, 1, 2, 14, 15, 16, 17];
/// Those that say something of the pages: WILLNEED, COLD, PAGEOUT, COLLAPSE.
const OF_PAGES: [i32; 4] = [3, 20, 21, 25];
/// Most pages to populate at a time: they cannot leave meanwhile.
const POPULATED: usize = 64;
/// Most pages to lock at a time.
const LOCKED: usize = 8;

impl Region {
    /// Pages become zeros.
    pub(crate) fn discard(&mut self, pages: &Range<usize>, advice: i32) {
        let (at, len) = span(pages);
        if self.memory.advise(at, len, advice).is_ok() {
            self.zeroed(pages);
        }
    }

    /// MADV_FREE leaves each page old or zero, so it is written anew.
    pub(crate) fn free_and_write(&mut self, pages: &Range<usize>, id: u64) {
        let (at, len) = span(pages);
        let _ = self.memory.advise(at, len, MADV_FREE);
        for sector in sectors(pages) {
            self.write(sector, id + sector as u64);
        }
    }

    /// Advice that changes no contents, and may be refused.
    pub(crate) fn advise(&mut self, pages: &Range<usize>, number: u64) {
        let (at, len) = span(pages);
        let number = number as usize;
        if number.is_multiple_of(2) {
            let _ = self.memory.advise(at, len, OF_PAGES[number / 2 % OF_PAGES.len()]);
        } else {
            let _ = self.memory.advise(at, len, OF_MAPPINGS[number / 2 % OF_MAPPINGS.len()]);
            if *pages != self.all() {
                self.cut(pages);
            }
        }
    }

    /// Have pages mapped that may be. Those that the caller may touch must come.
    pub(crate) fn populate(&mut self, pages: Range<usize>, for_writing: bool) -> Result<(), String> {
        let pages = pages.start..pages.end.min(pages.start + POPULATED);
        let (at, len) = span(&pages);
        let (advice, may) = if for_writing {
            (MADV_POPULATE_WRITE, self.is_writable(&pages))
        } else {
            (MADV_POPULATE_READ, self.is_readable(&pages))
        };
        match self.memory.advise(at, len, advice) {
            Err(errno) if may => Err(format!("advice {advice} was refused: {errno}\n{}", self.maps())),
            _ => Ok(()),
        }
    }

    /// Lock a few pages, and unlock them.
    pub(crate) fn lock(&mut self, pages: Range<usize>) {
        let pages = pages.start..pages.end.min(pages.start + LOCKED);
        if self.is_readable(&pages) {
            let (at, len) = span(&pages);
            let _ = self.memory.lock_for_a_moment(at, len);
            self.cut(&pages);
        }
    }

    /// Put guards over pages, which makes them zeros, or take them away.
    pub(crate) fn guard(&mut self, pages: &Range<usize>) {
        let (at, len) = span(pages);
        let is_guarded = !self.has_guards(pages);
        let advice = if is_guarded {
            MADV_GUARD_INSTALL
        } else {
            MADV_GUARD_REMOVE
        };
        if self.memory.advise(at, len, advice).is_ok() {
            if is_guarded {
                self.zeroed(pages);
            }
            self.state[pages.clone()]
                .iter_mut()
                .for_each(|page| page.is_guarded = is_guarded);
        }
    }

    /// What children are to find from now on. What is several mappings could not be told apart
    /// later.
    pub(crate) fn bequeath(&mut self, number: u64) {
        if !self.is_whole(&self.all()) {
            return;
        }
        let (advice, heritage) = match (self.heritage, number % 3) {
            (Heritage::Copy, 0) => (MADV_DONTFORK, Heritage::Nothing),
            (Heritage::Copy, _) => (MADV_WIPEONFORK, Heritage::Zeros),
            (Heritage::Zeros, 0) => (MADV_KEEPONFORK, Heritage::Copy),
            _ => return,
        };
        if self.memory.advise(0, self.memory.len(), advice).is_ok() {
            self.heritage = heritage;
        }
    }

    /// Whether a process that shares it may do what it likes.
    pub(crate) fn is_plain(&self) -> bool {
        self.heritage == Heritage::Copy
            && self
                .state
                .iter()
                .all(|page| page.access == Access::Write && !page.is_guarded && !page.is_seam)
    }
}
