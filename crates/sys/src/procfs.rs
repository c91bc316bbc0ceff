//! What `/proc/self` tells about this process's memory.
//!
//! The files are opened once, by the thread that will read them: they stay bound to this address space whatever the
//! program does to its root directory, identity or descriptors later.

use core::ffi::CStr;

use linux_raw_sys::general as raw;
use rustix::fd::OwnedFd;
use rustix::fs::{self, Mode, OFlags};
use rustix::io::{self, Errno, Result};
use rustix::ioctl::{self, Opcode, opcode};

use crate::PAGE_SIZE;

const QUERY: Opcode = opcode::read_write::<raw::procmap_query>(b'f', 17);
const SCAN: Opcode = opcode::read_write::<raw::pm_scan_arg>(b'f', 16);

const VMA_READABLE: u64 = 1;
const VMA_WRITABLE: u64 = 2;
const VMA_EXECUTABLE: u64 = 4;
const VMA_SHARED: u64 = 8;
const COVERING_OR_NEXT_VMA: u64 = 16;

/// A mapping of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vma {
    /// First byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
    flags: u64,
    is_file: bool,
}

impl Vma {
    /// Private anonymous memory that is not executable, whatever else its protection is: it may change later.
    pub fn is_private_anonymous_data(&self) -> bool {
        self.is_private_anonymous() && self.flags & VMA_EXECUTABLE == 0
    }

    /// As that, executable or not.
    pub fn is_private_anonymous(&self) -> bool {
        !self.is_file && self.flags & VMA_SHARED == 0
    }
}

/// Sizes from `statm` and `smaps_rollup`, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Address space.
    pub virt: usize,
    /// Resident anonymous memory, own or shared after a fork (`RssAnon`).
    pub anon: usize,
}

const NO_REGION: raw::page_region = raw::page_region {
    start: 0,
    end: 0,
    categories: 0,
};

/// The open files.
pub struct ProcSelf {
    maps: OwnedFd,
    pagemap: OwnedFd,
    statm: OwnedFd,
    smaps: OwnedFd,
}

fn open(path: &CStr) -> Result<OwnedFd> {
    fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
}

impl ProcSelf {
    /// Open the files.
    ///
    /// # Errors
    /// ENOENT when /proc is not mounted.
    pub fn open() -> Result<Self> {
        Ok(Self {
            maps: open(c"/proc/self/maps")?,
            pagemap: open(c"/proc/self/pagemap")?,
            statm: open(c"/proc/self/statm")?,
            smaps: open(c"/proc/self/smaps_rollup")?,
        })
    }

    /// The mapping that covers `addr` or else the next one above. `None`: there is none.
    ///
    /// # Errors
    /// ENOTTY before Linux 6.11.
    pub fn vma_at_or_after(&self, addr: usize) -> Result<Option<Vma>> {
        // SAFETY: procmap_query is plain integers, for which all zeroes is a value.
        let mut query: raw::procmap_query = unsafe { core::mem::zeroed() };
        query.size = size_of::<raw::procmap_query>() as u64;
        query.query_flags = COVERING_OR_NEXT_VMA;
        query.query_addr = addr as u64;
        // SAFETY: the opcode is paired with its argument type; no name or build-id buffers are passed.
        match unsafe { ioctl::ioctl(&self.maps, ioctl::Updater::<QUERY, _>::new(&mut query)) } {
            Ok(()) => Ok(Some(Vma {
                start: query.vma_start as usize,
                end: query.vma_end as usize,
                flags: query.vma_flags & (VMA_READABLE | VMA_WRITABLE | VMA_EXECUTABLE | VMA_SHARED),
                is_file: query.inode != 0,
            })),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    /// Call `found` for each run of present pages in `[start, end)`, as byte addresses.
    ///
    /// # Errors
    /// ENOTTY before Linux 6.7.
    pub fn for_each_present(&self, start: usize, end: usize, mut found: impl FnMut(usize, usize)) -> Result<()> {
        const REGIONS: usize = 64;
        let mut regions = [NO_REGION; REGIONS];
        let mut at = start;
        while at < end {
            let (n, walked) = self.scan(at, end, u64::from(raw::PAGE_IS_PRESENT), &mut regions)?;
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

    /// How much of `[start, start + len)`, from its beginning on, is populated with pages (be they present or on their way
    /// between two places), or, if its first page is not, how much is not: bytes, and which of the two.
    ///
    /// # Errors
    /// ENOTTY before Linux 6.7.
    pub fn leading_run(&self, start: usize, len: usize) -> Result<(usize, bool)> {
        let any = u64::from(raw::PAGE_IS_PRESENT | raw::PAGE_IS_SWAPPED);
        let mut regions = [NO_REGION; 2];
        let (n, _) = self.scan(start, start + len, any, &mut regions)?;
        Ok(match regions[..n].first() {
            None => (len, false),
            Some(first) if first.start as usize > start => (first.start as usize - start, false),
            Some(first) => (first.end as usize - start, true),
        })
    }

    /// One PAGEMAP_SCAN for pages of any of `categories`: regions found, and where it ended.
    fn scan(
        &self,
        start: usize,
        end: usize,
        categories: u64,
        regions: &mut [raw::page_region],
    ) -> Result<(usize, usize)> {
        // SAFETY: pm_scan_arg is plain integers, for which all zeroes is a value.
        let mut scan: raw::pm_scan_arg = unsafe { core::mem::zeroed() };
        scan.size = size_of::<raw::pm_scan_arg>() as u64;
        (scan.start, scan.end) = (start as u64, end as u64);
        (scan.vec, scan.vec_len) = (regions.as_mut_ptr() as u64, regions.len() as u64);
        scan.category_anyof_mask = categories;
        // Nothing is returned about the pages: neighbours with different answers would be different regions.
        scan.return_mask = 0;
        // SAFETY: the opcode is paired with its argument type, whose vector is `regions`, of the length given.
        let n = unsafe { ioctl::ioctl(&self.pagemap, ScanCall(&mut scan))? };
        Ok((n, scan.walk_end as usize))
    }

    /// Address space and resident anonymous memory: one cheap read.
    ///
    /// # Errors
    /// What `pread` answers.
    pub fn sizes(&self) -> Result<Sizes> {
        let mut buf = [0u8; 128];
        let n = io::pread(&self.statm, &mut buf, 0)?;
        let mut fields = buf[..n].split(|&b| b == b' ').map(number);
        let mut next = || fields.next().unwrap_or(0) * PAGE_SIZE;
        let (virt, resident, shared) = (next(), next(), next());
        Ok(Sizes {
            virt,
            anon: resident.saturating_sub(shared),
        })
    }

    /// Bytes of anonymous memory that other processes share with us (after a fork), counting each page by the part
    /// that is not ours: `Anonymous - Pss_Anon`. Walks every mapping: milliseconds for a gigabyte.
    ///
    /// # Errors
    /// What `pread` answers.
    pub fn shared_anon(&self) -> Result<usize> {
        let mut buf = [0u8; 2048];
        let n = io::pread(&self.smaps, &mut buf, 0)?;
        let field = |name: &[u8]| {
            let line = buf[..n].split(|&b| b == b'\n').find(|line| line.starts_with(name));
            line.map_or(0, |line| number(line[name.len()..].trim_ascii()) * 1024)
        };
        Ok(field(b"Anonymous:").saturating_sub(field(b"Pss_Anon:")))
    }
}

/// The decimal number at the start of `text`.
fn number(text: &[u8]) -> usize {
    text.iter()
        .take_while(|b| b.is_ascii_digit())
        .fold(0, |n, b| n * 10 + usize::from(b - b'0'))
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
