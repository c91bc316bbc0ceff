//! Which pages of an address space are there, alone, or protected: `/proc/self/pagemap`.

use linux_raw_sys::general as raw;
use rustix::fd::OwnedFd;
use rustix::io::{self, Result};
use rustix::ioctl::{self, Opcode, opcode};

use super::{ProcSelf, open};
use crate::PAGE_SIZE;

const SCAN: Opcode = opcode::read_write::<raw::pm_scan_arg>(b'f', 16);

const NO_REGION: raw::page_region = raw::page_region {
    start: 0,
    end: 0,
    categories: 0,
};

/// Which pages PAGEMAP_SCAN finds: those of all of some categories and of any of some others (0: of
/// whichever), where to be in an inverted one means not to be in it.
#[derive(Clone, Copy)]
pub(super) struct Categories {
    inverted: u64,
    all_of: u64,
    any_of: u64,
}

impl Categories {
    pub(super) fn any_of(any_of: u64) -> Self {
        Self {
            inverted: 0,
            all_of: 0,
            any_of,
        }
    }
}

/// Bits of a word of it.
const PRESENT: u64 = 1 << 63;
const SWAPPED: u64 = 1 << 62;

/// `/proc/self/pagemap`.
pub struct Pagemap(pub(crate) OwnedFd);

impl Pagemap {
    /// Open it.
    ///
    /// # Errors
    /// ENOENT when /proc is not mounted.
    pub fn open() -> Result<Self> {
        open(c"/proc/thread-self/pagemap").map(Self)
    }
}

impl ProcSelf {
    /// Call `found` for each run of present pages in `[start, end)`, as byte addresses.
    ///
    /// # Errors
    /// What the system answers.
    pub fn for_each_present(&self, start: usize, end: usize, found: impl FnMut(usize, usize)) -> Result<()> {
        match self.scans {
            true => self.for_each_of(Categories::any_of(raw::PAGE_IS_PRESENT.into()), start, end, found),
            false => self.for_each_word(PRESENT, start, end, found),
        }
    }

    /// As [`for_each_present`](Self::for_each_present), of pages that have contents, or are no
    /// longer as they were mapped: also those in the kernel's own swap, those on their way between
    /// two places, and guards.
    ///
    /// # Errors
    /// What the system answers.
    pub fn for_each_populated(&self, start: usize, end: usize, found: impl FnMut(usize, usize)) -> Result<()> {
        let any = Categories::any_of((raw::PAGE_IS_PRESENT | raw::PAGE_IS_SWAPPED).into());
        match self.scans {
            true => self.for_each_of(any, start, end, found),
            false => self.for_each_word(PRESENT | SWAPPED, start, end, found),
        }
    }

    /// As [`for_each_present`](Self::for_each_present), of those that are the kernel's one page of
    /// zeros: read, and never written.
    ///
    /// # Errors
    /// ENOTTY before Linux 6.7.
    pub fn for_each_zero(&self, start: usize, end: usize, found: impl FnMut(usize, usize)) -> Result<()> {
        self.for_each_of(Categories::any_of(raw::PAGE_IS_PFNZERO.into()), start, end, found)
    }

    fn for_each_of(
        &self,
        categories: Categories,
        start: usize,
        end: usize,
        mut found: impl FnMut(usize, usize),
    ) -> Result<()> {
        const REGIONS: usize = 64;
        let mut regions = [NO_REGION; REGIONS];
        let mut at = start;
        while at < end {
            let (n, walked) = self.scan(at, end, categories, &mut regions)?;
            for region in &regions[..n] {
                found(region.start as usize, region.end as usize);
            }
            if walked <= at {
                break;
            }
            at = walked;
        }
        Ok(())
    }

    /// Whether the page at `addr` is there and in no other process, as far as that can be told.
    pub fn is_alone(&self, addr: usize) -> bool {
        const PRESENT_AND_EXCLUSIVE: u64 = PRESENT | 1 << 56;
        let mut word = [0; 8];
        let read = io::pread(&self.pagemap, &mut word, (addr / PAGE_SIZE * 8) as u64);
        read.is_ok() && u64::from_ne_bytes(word) & PRESENT_AND_EXCLUSIVE == PRESENT_AND_EXCLUSIVE
    }

    /// The same for pages with any of these bits, by reading a word for each page.
    fn for_each_word(&self, any_of: u64, start: usize, end: usize, mut found: impl FnMut(usize, usize)) -> Result<()> {
        const PAGES: usize = 256;
        let mut run = None;
        let mut at = start;
        while at < end {
            let mut bytes = [0u8; PAGES * 8];
            let want = (end - at).div_ceil(PAGE_SIZE).min(PAGES);
            let n = io::pread(&self.pagemap, &mut bytes[..want * 8], (at / PAGE_SIZE * 8) as u64)?;
            for word in bytes[..n].as_chunks::<8>().0 {
                let is_one = u64::from_ne_bytes(*word) & any_of != 0;
                match (run, is_one) {
                    (None, true) => run = Some(at),
                    (Some(first), false) => {
                        found(first, at);
                        run = None;
                    }
                    _ => {}
                }
                at += PAGE_SIZE;
            }
            if n < 8 {
                break;
            }
        }
        if let Some(first) = run {
            found(first, at.min(end));
        }
        Ok(())
    }

    /// How much of `[start, start + len)`, from its beginning on, is populated with pages (be they
    /// present or on their way between two places), or, if its first page is not, how much is not:
    /// bytes, and which of the two.
    ///
    /// # Errors
    /// ENOTTY before Linux 6.7.
    pub fn leading_run(&self, start: usize, len: usize) -> Result<(usize, bool)> {
        let any = u64::from(raw::PAGE_IS_PRESENT | raw::PAGE_IS_SWAPPED);
        let mut regions = [NO_REGION; 2];
        let (n, _) = self.scan(start, start + len, Categories::any_of(any), &mut regions)?;
        Ok(match regions[..n].first() {
            None => (len, false),
            Some(first) if first.start as usize > start => (first.start as usize - start, false),
            Some(first) => (first.end as usize - start, true),
        })
    }

    /// Pass the first byte and the end of each run of pages of `[start, start + len)` that are
    /// present and protected from writing (`Uffd::protect`) to `f`: of the first `N` runs.
    ///
    /// # Errors
    /// ENOTTY before Linux 6.7.
    pub fn protected_runs<const N: usize>(
        &self,
        start: usize,
        len: usize,
        mut f: impl FnMut(usize, usize),
    ) -> Result<()> {
        let (written, present) = (u64::from(raw::PAGE_IS_WRITTEN), u64::from(raw::PAGE_IS_PRESENT));
        let categories = Categories {
            inverted: written,
            all_of: written | present,
            any_of: 0,
        };
        let mut regions = [NO_REGION; N];
        let (n, _) = self.scan(start, start + len, categories, &mut regions)?;
        for region in &regions[..n] {
            f(region.start as usize, region.end as usize);
        }
        Ok(())
    }

    /// One PAGEMAP_SCAN for pages of `categories`: regions found, and where it ended.
    pub(super) fn scan(
        &self,
        start: usize,
        end: usize,
        categories: Categories,
        regions: &mut [raw::page_region],
    ) -> Result<(usize, usize)> {
        // SAFETY: pm_scan_arg is plain integers, for which all zeroes is a value.
        let mut scan: raw::pm_scan_arg = unsafe { core::mem::zeroed() };
        scan.size = size_of::<raw::pm_scan_arg>() as u64;
        (scan.start, scan.end) = (start as u64, end as u64);
        (scan.vec, scan.vec_len) = (regions.as_mut_ptr() as u64, regions.len() as u64);
        scan.category_inverted = categories.inverted;
        scan.category_mask = categories.all_of;
        scan.category_anyof_mask = categories.any_of;
        // Nothing is returned about the pages: neighbours with different answers would be different
        // regions.
        scan.return_mask = 0;
        // SAFETY: the opcode is paired with its argument type, whose vector is `regions`, of the
        // length given.
        let n = unsafe { ioctl::ioctl(&self.pagemap, ScanCall(&mut scan))? };
        Ok((n, scan.walk_end as usize))
    }
}

/// PAGEMAP_SCAN answers with the number of regions, which the ready-made ioctl patterns drop.
struct ScanCall<'a>(&'a mut raw::pm_scan_arg);

// SAFETY: the request reads and writes the pm_scan_arg and the vector that it points to.
unsafe impl ioctl::Ioctl for ScanCall<'_> {
    type Output = usize;
    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        SCAN
    }

    fn as_ptr(&mut self) -> *mut core::ffi::c_void {
        (&raw mut *self.0).cast()
    }

    unsafe fn output_from_ptr(out: ioctl::IoctlOutput, _: *mut core::ffi::c_void) -> Result<usize> {
        Ok(out as usize)
    }
}

#[cfg(all(test, not(miri)))]
mod test {
    extern crate std;

    use alloc::vec::Vec;

    use super::*;
    use crate::mapping::Mapping;

    #[test]
    fn pages_are_found_with_and_without_queries() {
        let mut mapping = Mapping::reserve(600 * PAGE_SIZE).unwrap().without_huge_pages();
        for page in [0, 1, 255, 256, 257, 599] {
            mapping.write(page * PAGE_SIZE, &[1]);
        }
        let present = |proc: ProcSelf| {
            let mut runs = Vec::new();
            let (start, end) = (mapping.addr(), mapping.addr() + mapping.len());
            proc.for_each_present(start, end, |from, to| {
                runs.push(((from - start) / PAGE_SIZE, (to - start) / PAGE_SIZE));
            })
            .unwrap();
            runs
        };
        let expected = [(0, 2), (255, 258), (599, 600)];
        assert_eq!(present(ProcSelf::open().unwrap()), expected);
        assert_eq!(present(ProcSelf::open_without_queries().unwrap()), expected);
    }

    #[test]
    fn a_page_that_was_only_read_is_known() {
        let mut mapping = Mapping::reserve(3 * PAGE_SIZE).unwrap().without_huge_pages();
        let (start, end) = (mapping.addr(), mapping.addr() + mapping.len());
        mapping.write(0, &[0]);
        let mut byte = [1];
        // Or the compiler leaves it out.
        mapping.read(PAGE_SIZE, core::hint::black_box(&mut byte));
        let mut found = Vec::new();
        let proc = ProcSelf::open().unwrap();
        let scanned = proc.for_each_zero(start, end, |from, to| found.push((from - start, to - start)));
        assert!(scanned.is_err() || found == [(PAGE_SIZE, 2 * PAGE_SIZE)], "{found:?}");
    }
}
