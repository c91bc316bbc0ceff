//! What `/proc/self` tells about this process's memory.
//!
//! The files are opened once, by the thread that will read them: they stay bound to this address
//! space whatever the program does to its root directory, identity or descriptors later. They are
//! that thread's (`/proc/thread-self`): those of a process whose first thread has ended say that it
//! has no memory.

mod pagemap;
mod tasks;

use core::ffi::CStr;

use rustix::fd::OwnedFd;
use rustix::fs::{self, Mode, OFlags};
use rustix::io::{self, Errno, Result};

use self::pagemap::Categories;
pub use self::pagemap::Pagemap;
pub use self::tasks::{Life, Scheduling, Told, hide_threads, is_traced, shares_memory, threads};

use crate::PAGE_SIZE;
use crate::creds::{self, Credentials};
use crate::maps::Maps;
pub use crate::maps::{Vma, for_each_wiped_on_fork};
use crate::remains;

/// Sizes from `statm` and `smaps_rollup`, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Address space.
    pub virt: usize,
    /// Resident anonymous memory, own or shared after a fork (`RssAnon`).
    pub anon: usize,
}

/// The open files.
pub struct ProcSelf {
    pub(crate) maps: Maps,
    pagemap: OwnedFd,
    statm: OwnedFd,
    smaps: OwnedFd,
    /// For hints, and to know whether the program has ended.
    tasks: Option<OwnedFd>,
    /// `statm`, `stat` and `status` of the process's first thread.
    leader: Option<[OwnedFd; 3]>,
    /// PAGEMAP_SCAN (Linux 6.7) may be used.
    scans: bool,
}

fn open(path: &CStr) -> Result<OwnedFd> {
    fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
}

/// Those of [`ProcSelf::leader`].
fn open_leader() -> Result<[OwnedFd; 3]> {
    Ok([
        open(c"/proc/self/statm")?,
        open(c"/proc/self/stat")?,
        open(c"/proc/self/status")?,
    ])
}

impl ProcSelf {
    /// Open the files.
    ///
    /// # Errors
    /// ENOENT when /proc is not mounted.
    pub fn open() -> Result<Self> {
        Self::open_with(Pagemap::open()?)
    }

    /// As [`open`](Self::open), with a file that is open already.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    pub fn open_with(pagemap: Pagemap) -> Result<Self> {
        let mut proc = Self::open_old(pagemap)?;
        proc.maps = Maps::open(true)?;
        proc.scans = proc.scan(0, 0, Categories::any_of(0), &mut []) != Err(Errno::NOTTY);
        Ok(proc)
    }

    /// The same, to be read as the files were before Linux 6.7.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    pub fn open_without_queries() -> Result<Self> {
        Self::open_old(Pagemap::open()?)
    }

    fn open_old(pagemap: Pagemap) -> Result<Self> {
        Ok(Self {
            maps: Maps::open(false)?,
            pagemap: pagemap.0,
            statm: open(c"/proc/thread-self/statm")?,
            smaps: open(c"/proc/thread-self/smaps_rollup")?,
            tasks: open(c"/proc/self/task").ok(),
            leader: open_leader().ok(),
            scans: false,
        })
    }

    /// The mapping that covers `addr` or else the next one above. `None`: there is none.
    ///
    /// # Errors
    /// What the system answers.
    pub fn vma_at_or_after(&self, addr: usize) -> Result<Option<Vma>> {
        self.maps.at_or_after(addr)
    }

    /// Call `found` with each mapping, lowest first.
    ///
    /// # Errors
    /// What the system answers.
    pub fn for_each_vma(&self, found: impl FnMut(Vma)) -> Result<()> {
        self.maps.for_each(found)
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

    /// Bytes of anonymous memory that other processes share with us (after a fork), counting each
    /// page by the part that is not ours: `Anonymous - Pss_Anon`. Walks every mapping: milliseconds
    /// for a gigabyte.
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

    /// Where the stack of the program that the process runs begins; 0: it cannot be told.
    pub fn image(&self) -> u64 {
        self.of_stat(remains::image)
    }

    /// When the process began, in clock ticks since the machine did; 0: it cannot be told.
    pub fn start(&self) -> u64 {
        self.of_stat(remains::start)
    }

    fn of_stat(&self, read: impl Fn(&[u8]) -> u64) -> u64 {
        let mut buf = [0; 1024];
        let stat = self.leader.as_ref().map(|[_, stat, _]| io::pread(stat, &mut buf, 0));
        stat.and_then(|read| read.ok()).map_or(0, |n| read(&buf[..n]))
    }

    /// Whether pages are found without a look at each address (PAGEMAP_SCAN, Linux 6.7).
    pub fn scans(&self) -> bool {
        self.scans
    }

    /// What the calling thread holds.
    pub fn own_credentials(&self) -> Option<Credentials> {
        creds::read(&open(c"/proc/thread-self/status").ok()?)
    }

    /// What the program's first thread holds.
    pub fn credentials(&self) -> Option<Credentials> {
        creds::read(&self.leader.as_ref()?[2])
    }
}

/// The decimal number at the start of `text`.
fn number(text: &[u8]) -> usize {
    text.iter()
        .take_while(|b| b.is_ascii_digit())
        .fold(0, |n, b| n * 10 + usize::from(b - b'0'))
}
