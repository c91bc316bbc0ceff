//! What is known of the threads of this process, and of its children: `/proc/self/task`.

use core::ffi::CStr;
use core::mem::MaybeUninit;

use linux_raw_sys::general as raw;
use rustix::fd::OwnedFd;
use rustix::fs::{self, Mode, OFlags};
use rustix::io;
use rustix::path::DecInt;

use super::{ProcSelf, number};
use crate::thread::{self, is_filtered};

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

/// What a thread passed to the exit system call, of its line of `stat`.
fn exit_status(stat: &[u8]) -> i32 {
    let code = stat.trim_ascii().rsplit(|&b| b == b' ').next().map_or(0, number);
    (code >> 8 & 0xff) as i32
}

/// What links a directory has without any in it.
const LINKS: u64 = 2;

/// How a call tells of a file: `struct stat`, or `struct statx`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    Stat,
    Statx,
}

/// A thread of the program has asked of the file at `path`, and the kernel has told it, at `at`.
/// Where that is the directory of this process's threads, its links count the program's alone:
/// sandboxes that want one thread look there.
pub fn hide_threads(path: usize, told: Told, at: usize) {
    // A descriptor alone needs no path.
    if path == 0 || !names_own_tasks(path) {
        return;
    }
    let ours = u64::from(thread::count());
    let at = core::ptr::with_exposed_provenance_mut::<u8>(at);
    // SAFETY: the kernel has just written all of it there, for this thread.
    unsafe {
        match told {
            Told::Stat => {
                let mut stat = at.cast::<fs::Stat>().read_unaligned();
                if is_of_proc(stat.st_mode, stat.st_size as u64, fs::major(stat.st_dev)) {
                    stat.st_nlink = without(stat.st_nlink, ours);
                    at.cast::<fs::Stat>().write_unaligned(stat);
                }
            }
            Told::Statx => {
                let mut stat = at.cast::<fs::Statx>().read_unaligned();
                if is_of_proc(stat.stx_mode.into(), stat.stx_size, stat.stx_dev_major) {
                    stat.stx_nlink = without(stat.stx_nlink.into(), ours) as u32;
                    at.cast::<fs::Statx>().write_unaligned(stat);
                }
            }
        }
    }
}

/// How many threads this process has. `None`: /proc is not there.
pub fn threads() -> Option<u32> {
    let tasks = fs::stat(c"/proc/self/task").ok()?;
    let is_it = is_of_proc(tasks.st_mode, tasks.st_size as u64, fs::major(tasks.st_dev));
    is_it.then(|| tasks.st_nlink.saturating_sub(LINKS) as u32)
}

/// Whether some process traces this one, as a debugger does.
pub fn is_traced() -> bool {
    const FIELD: &[u8] = b"\nTracerPid:\t";
    let mut status = [0; 512];
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let status = fs::open(c"/proc/self/status", flags, Mode::empty())
        .and_then(|file| rustix::io::read(&file, &mut status))
        .map_or(&[][..], |len| &status[..len]);
    let at = status.windows(FIELD.len()).position(|line| line == FIELD);
    at.is_some_and(|at| status.get(at + FIELD.len()).is_some_and(|digit| *digit != b'0'))
}

/// The links of a directory of threads, without those of `ours`.
fn without(links: u64, ours: u64) -> u64 {
    links.saturating_sub(ours).max(LINKS + 1).min(links)
}

/// Whether a file may be that directory: a relative path names another one in most places. /proc
/// has no device, and no directory there has a size.
fn is_of_proc(mode: u32, size: u64, major: u32) -> bool {
    fs::FileType::from_raw_mode(mode) == fs::FileType::Directory && size == 0 && major == 0
}

/// Whether the string at `path`, which the kernel has just read, names that directory.
fn names_own_tasks(path: usize) -> bool {
    // SAFETY: up to its end, the string is there.
    let byte = |n: usize| unsafe { *core::ptr::with_exposed_provenance::<u8>(path + n) };
    let follows = |from: usize, text: &[u8]| text.iter().enumerate().all(|(n, expected)| byte(from + n) == *expected);
    let proc = b"/proc/";
    let from = if follows(0, proc) { proc.len() } else { 0 };
    let own = b"self";
    let mut space = [0; 10];
    let process = match follows(from, own) {
        true => own,
        false if byte(from).is_ascii_digit() => decimal(thread::pid() as u32, &mut space),
        false => return false,
    };
    let tasks = b"/task";
    let end = from + process.len() + tasks.len();
    follows(from, process)
        && follows(from + process.len(), tasks)
        && (byte(end) == 0 || byte(end) == b'/' && byte(end + 1) == 0)
}

/// A number's digits, at the end of `space`.
fn decimal(mut number: u32, space: &mut [u8; 10]) -> &[u8] {
    let mut first = space.len();
    while number > 0 || first == space.len() {
        first -= 1;
        space[first] = b'0' + (number % 10) as u8;
        number /= 10;
    }
    &space[first..]
}

impl ProcSelf {
    /// How far the end of this process is, which has `ours` threads beside the program's. The last
    /// thread that libc knows ends all of them; by the exit system call each ends alone.
    pub fn life(&self, ours: u32) -> Life {
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
    let Ok(file) = fs::openat(tasks, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()) else {
        return false;
    };
    // The process's first thread may be gone, and its hold on the memory with it.
    let me = thread::tid();
    let has_ours = |child| child != 0 && shares_memory(me, child);
    let (mut child, mut buf) = (0, [0; 512]);
    while let Ok(n @ 1..) = io::read(&file, &mut buf) {
        for byte in &buf[..n] {
            match byte {
                b'0'..=b'9' => child = child * 10 + i32::from(byte - b'0'),
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
    let compared = unsafe { thread::syscall(raw::__NR_kcmp as usize, args) };
    compared == Ok(0)
}

#[cfg(all(test, not(miri)))]
mod test {
    extern crate std;

    use super::*;

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
}
