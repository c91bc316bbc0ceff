//! What `/proc/self` tells about this process's memory.
//!
//! The files are opened once, by the thread that will read them: they stay bound to this address
//! space whatever the program does to its root directory, identity or descriptors later. They are
//! that thread's (`/proc/thread-self`): those of a process whose first thread has ended say that it
//! has no memory.

use core::ffi::CStr;
use core::mem::MaybeUninit;

use linux_raw_sys::general as raw;
use rustix::fd::OwnedFd;
use rustix::fs::{self, Mode, OFlags};
use rustix::io::{self, Errno, Result};
use rustix::ioctl::{self, Opcode, opcode};
use rustix::path::DecInt;

use crate::PAGE_SIZE;
use crate::creds::{self, Credentials};
use crate::maps::Maps;
pub use crate::maps::{Vma, for_each_wiped_on_fork};
use crate::remains;
use crate::thread::{self, is_filtered};

const SCAN: Opcode = opcode::read_write::<raw::pm_scan_arg>(b'f', 16);

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

/// Which pages PAGEMAP_SCAN finds: those of all of some categories and of any of some others (0: of
/// whichever), where to be in an inverted one means not to be in it.
struct Categories {
    inverted: u64,
    all_of: u64,
    any_of: u64,
}

impl Categories {
    fn any_of(any_of: u64) -> Self {
        Self {
            inverted: 0,
            all_of: 0,
            any_of,
        }
    }
}

/// What threads a process has, beside those of its pager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// Its first one, at least.
    Led,
    /// Others, but not its first one.
    Leaderless,
    /// None. The first one ended with this status.
    Over(i32),
}

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

/// What a thread passed to the exit system call, of its line of `stat`.
fn exit_status(stat: &[u8]) -> i32 {
    let code = stat.trim_ascii().rsplit(|&b| b == b' ').next().map_or(0, number);
    (code >> 8 & 0xff) as i32
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

    /// Call `found` for each run of present pages in `[start, end)`, as byte addresses.
    ///
    /// # Errors
    /// What the system answers.
    pub fn for_each_present(&self, start: usize, end: usize, mut found: impl FnMut(usize, usize)) -> Result<()> {
        if !self.scans {
            return self.for_each_present_word(start, end, found);
        }
        const REGIONS: usize = 64;
        let mut regions = [NO_REGION; REGIONS];
        let mut at = start;
        while at < end {
            let (n, walked) = self.scan(at, end, Categories::any_of(raw::PAGE_IS_PRESENT.into()), &mut regions)?;
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
        const PRESENT_AND_EXCLUSIVE: u64 = 1 << 63 | 1 << 56;
        let mut word = [0; 8];
        let read = io::pread(&self.pagemap, &mut word, (addr / PAGE_SIZE * 8) as u64);
        read.is_ok() && u64::from_ne_bytes(word) & PRESENT_AND_EXCLUSIVE == PRESENT_AND_EXCLUSIVE
    }

    /// [`for_each_present`](Self::for_each_present) by reading a word for each page.
    fn for_each_present_word(&self, start: usize, end: usize, mut found: impl FnMut(usize, usize)) -> Result<()> {
        const PAGES: usize = 256;
        const PRESENT: u64 = 1 << 63;
        let mut run = None;
        let mut at = start;
        while at < end {
            let mut bytes = [0u8; PAGES * 8];
            let want = (end - at).div_ceil(PAGE_SIZE).min(PAGES);
            let n = io::pread(&self.pagemap, &mut bytes[..want * 8], (at / PAGE_SIZE * 8) as u64)?;
            for word in bytes[..n].as_chunks::<8>().0 {
                let is_present = u64::from_ne_bytes(*word) & PRESENT != 0;
                match (run, is_present) {
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
    fn scan(
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

    /// How far the end of this process is, which has `ours` threads beside the program's. The last
    /// thread that libc knows ends all of them; by the exit system call each ends alone.
    pub fn life(&self, ours: u32) -> Life {
        /// What links a directory has without any in it.
        const LINKS: u64 = 2;
        let (Some(tasks), Some([statm, stat, _])) = (&self.tasks, &self.leader) else {
            return Life::Led;
        };
        let mut buf = [0; 1024];
        let has_leader = io::pread(statm, &mut buf, 0).map_or(true, |n| !buf[..n].starts_with(b"0 "));
        // The first thread counts as long as there are others.
        let threads = fs::fstat(tasks).map_or(u64::MAX, |of| of.st_nlink - LINKS);
        match has_leader {
            true => Life::Led,
            false if threads > 1 + u64::from(ours) => Life::Leaderless,
            false => {
                let n = io::pread(stat, &mut buf, 0).unwrap_or(0);
                Life::Over(exit_status(&buf[..n]))
            }
        }
    }

    /// Where the stack of the program that the process runs begins; 0: it cannot be told.
    pub fn image(&self) -> u64 {
        let mut buf = [0; 1024];
        let stat = self.leader.as_ref().map(|[_, stat, _]| io::pread(stat, &mut buf, 0));
        stat.and_then(|read| read.ok()).map_or(0, |n| remains::image(&buf[..n]))
    }

    /// What the calling thread holds.
    pub fn own_credentials(&self) -> Option<Credentials> {
        creds::read(&open(c"/proc/thread-self/status").ok()?)
    }

    /// What the program's first thread holds.
    pub fn credentials(&self) -> Option<Credentials> {
        creds::read(&self.leader.as_ref()?[2])
    }

    /// Whether a child of this process has its memory (CLONE_VM, vfork), as far as we may know. One
    /// that has been left by such a child is not found.
    pub fn shares_memory(&self) -> bool {
        let Some(tasks) = self.tasks.as_ref().filter(|_| !is_filtered()) else {
            return false;
        };
        let mut space = [MaybeUninit::uninit(); 2048];
        let _ = fs::seek(tasks, fs::SeekFrom::Start(0));
        let mut threads = fs::RawDir::new(tasks, &mut space);
        let mut shares = false;
        while let Some(Ok(thread)) = threads.next() {
            let mut path = [0; 32];
            let (name, file) = (thread.file_name().to_bytes(), b"/children");
            if name.len() + file.len() < path.len() && name != b"." && name != b".." {
                path[..name.len()].copy_from_slice(name);
                path[name.len()..][..file.len()].copy_from_slice(file);
                shares |= CStr::from_bytes_until_nul(&path).is_ok_and(|path| has_child_with_our_memory(tasks, path));
            }
        }
        shares
    }

    /// How a thread of this process is scheduled. `None`: there is none, or a filter of system
    /// calls may not allow to look.
    pub fn scheduling(&self, thread: i32) -> Option<Scheduling> {
        self.with_stat(thread, Scheduling::parse)?
    }

    /// What `f` makes of the `stat` of a thread of this process.
    fn with_stat<T>(&self, thread: i32, f: impl FnOnce(&[u8]) -> T) -> Option<T> {
        if is_filtered() {
            return None;
        }
        let id = DecInt::new(thread);
        let (mut path, mut len) = ([0; 32], 0);
        for part in [id.as_bytes(), b"/stat"] {
            path[len..][..part.len()].copy_from_slice(part);
            len += part.len();
        }
        let path = CStr::from_bytes_until_nul(&path).ok()?;
        let stat = fs::openat(
            self.tasks.as_ref()?,
            path,
            OFlags::RDONLY | OFlags::CLOEXEC,
            Mode::empty(),
        )
        .ok()?;
        let mut buf = [0; 1024];
        let n = io::pread(&stat, &mut buf, 0).ok()?;
        Some(f(&buf[..n]))
    }
}

/// Whether one of the processes that the file at `path` names has the memory of this one.
fn has_child_with_our_memory(tasks: &OwnedFd, path: &CStr) -> bool {
    const KCMP_VM: usize = 1;
    let Ok(file) = fs::openat(tasks, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()) else {
        return false;
    };
    // The process's first thread may be gone, and its hold on the memory with it.
    let me = thread::tid() as usize;
    let has_ours = |child: usize| {
        let args = [me, child, KCMP_VM, 0, 0, 0];
        // SAFETY: compares two processes, touches no memory.
        child != 0 && unsafe { thread::syscall(raw::__NR_kcmp as usize, args) } == Ok(0)
    };
    let (mut child, mut buf) = (0, [0; 512]);
    while let Ok(n @ 1..) = io::read(&file, &mut buf) {
        for byte in &buf[..n] {
            match byte {
                b'0'..=b'9' => child = child * 10 + usize::from(byte - b'0'),
                _ if has_ours(child) => return true,
                _ => child = 0,
            }
        }
    }
    has_ours(child)
}

/// Of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scheduling {
    /// It runs, or would if it had a core.
    pub is_runnable: bool,
    /// Where it runs, or ran until it fell asleep.
    pub core: usize,
    /// As usual: SCHED_OTHER or SCHED_BATCH.
    pub is_fair: bool,
}

/// The fields of a line of `/proc/PID/stat` (proc_pid_stat(5)) from this one on.
const STATE: usize = 3;

fn fields_of(stat: &[u8]) -> Option<impl Iterator<Item = &[u8]>> {
    // The name in the second field may hold anything.
    let begin = stat.iter().rposition(|&b| b == b')')? + 2;
    Some(stat.get(begin..)?.split(|&b| b == b' '))
}

impl Scheduling {
    /// Of a line of `/proc/PID/stat`.
    fn parse(stat: &[u8]) -> Option<Self> {
        const PROCESSOR: usize = 39;
        const POLICY: usize = 41;
        let mut fields = fields_of(stat)?;
        let is_runnable = fields.next()? == b"R";
        let core = number(fields.nth(PROCESSOR - STATE - 1)?);
        let policy = number(fields.nth(POLICY - PROCESSOR - 1)?) as u32;
        Some(Self {
            is_runnable,
            core,
            is_fair: matches!(policy, raw::SCHED_NORMAL | raw::SCHED_BATCH),
        })
    }
}

/// Whether two processes have one memory, as a vfork child and its parent have. False also where
/// that cannot be known.
pub fn shares_memory(one: i32, other: i32) -> bool {
    const KCMP_VM: usize = 1;
    let args = [one as usize, other as usize, KCMP_VM, 0, 0, 0];
    // SAFETY: kcmp(2) compares, and takes integers alone.
    let compared = unsafe { crate::thread::syscall(raw::__NR_kcmp as usize, args) };
    compared == Ok(0)
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

#[cfg(all(test, not(miri)))]
mod test {
    extern crate std;

    use alloc::vec::Vec;

    use super::*;
    use crate::mapping::Mapping;

    #[test]
    fn a_thread_is_where_it_says() {
        let proc = ProcSelf::open().unwrap();
        let found = (0..100).any(|_| {
            let core = crate::affinity::current_core();
            let scheduling = proc.scheduling(crate::thread::tid()).unwrap();
            scheduling.is_runnable && scheduling.is_fair && scheduling.core == core
        });
        assert!(found);
        assert_eq!(proc.scheduling(0), None);
        let stat = alloc::format!("7 (a) b) S{} 5 0 {} 0\n", " 1".repeat(35), raw::SCHED_FIFO);
        let parsed = Scheduling {
            is_runnable: false,
            core: 5,
            is_fair: false,
        };
        assert_eq!(Scheduling::parse(stat.as_bytes()), Some(parsed));
        assert_eq!(Scheduling::parse(b"7 (a"), None);
    }

    #[test]
    fn a_process_has_one_memory_with_itself() {
        let me = crate::thread::pid();
        // Where kcmp may be used at all.
        assert!(shares_memory(me, me) || !shares_memory(me, 1));
        assert!(!shares_memory(me, 1));
    }

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
}
