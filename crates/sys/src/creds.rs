//! Credentials. In Linux each thread has its own, and libc changes only those of threads that it
//! knows: so the threads made here take on what the program's have, all of them, before the program
//! goes on ([`ask`], [`take_on`]). The memory that they share is the program's to write, so what
//! any of them holds it holds.

use alloc::vec::Vec;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use linux_raw_sys::general as raw;
use lock_api::Mutex;
use rustix::io::Result;

use crate::futex::RawLock;
use crate::thread::{pid, syscall};
use crate::x86_64::instructions;

/// Of a thread, as its `status` tells them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Credentials {
    /// Real, effective, saved and that of the filesystem.
    users: [u32; 4],
    groups: [u32; 4],
    others: Vec<u32>,
    inheritable: u64,
    permitted: u64,
    effective: u64,
    bounding: u64,
    ambient: u64,
}

const HEADER_VERSION: u32 = 0x2008_0522;
const CAP_LAST: usize = 63;
const PR_SET_KEEPCAPS: usize = 8;
const PR_CAPBSET_READ: usize = 23;
const PR_CAPBSET_DROP: usize = 24;
const PR_CAP_AMBIENT: usize = 47;
const PR_CAP_AMBIENT_RAISE: usize = 2;
const PR_CAP_AMBIENT_CLEAR_ALL: usize = 4;

/// A system call that reads what `args` point to, if they do.
///
/// # Safety
/// Pointers among `args` are to what the call reads or writes.
unsafe fn call(nr: u32, args: [usize; 5]) -> Result<usize> {
    let [a, b, c, d, e] = args;
    // SAFETY: the caller's promise.
    unsafe { syscall(nr as usize, [a, b, c, d, e, 0]) }
}

fn prctl(args: [usize; 5]) -> Result<usize> {
    // SAFETY: those used here take integers.
    unsafe { call(raw::__NR_prctl, args) }
}

/// Effective, permitted and inheritable capabilities, a half each.
type Halves = [[u32; 3]; 2];

fn capabilities() -> Halves {
    let header = [HEADER_VERSION, 0];
    let mut halves: Halves = [[0; 3]; 2];
    // SAFETY: a header of that version, and room for two halves.
    let _ = unsafe {
        call(
            raw::__NR_capget,
            [header.as_ptr() as usize, halves.as_mut_ptr() as usize, 0, 0, 0],
        )
    };
    halves
}

/// Whether the calling thread has CAP_SYS_NICE: without it who is SCHED_IDLE stays so.
pub fn may_schedule() -> bool {
    const CAP_SYS_NICE: u32 = 23;
    let [[effective, ..], _] = capabilities();
    effective & 1 << CAP_SYS_NICE != 0
}

/// Whether the calling thread has CAP_SYS_PTRACE, which fork events of a userfaultfd take, in the
/// first namespace of users: root of another has less.
pub fn may_trace() -> bool {
    const CAP_SYS_PTRACE: u32 = 19;
    /// The first namespace's, in every kernel (`PROC_USER_INIT_INO`).
    const FIRST: u64 = 0xefff_fffd;
    let [[effective, ..], _] = capabilities();
    let namespace = rustix::fs::stat(c"/proc/self/ns/user");
    effective & 1 << CAP_SYS_PTRACE != 0 && namespace.is_ok_and(|namespace| namespace.st_ino == FIRST)
}

/// What kind of namespace a descriptor of this thread is of, as the flag of clone(2). `None`: of
/// none.
pub fn kind_of_namespace(fd: usize) -> Option<usize> {
    const NS_GET_NSTYPE: usize = 0xb703;
    // SAFETY: takes a descriptor, and no memory.
    unsafe { call(raw::__NR_ioctl, [fd, NS_GET_NSTYPE, 0, 0, 0]) }.ok()
}

fn set_capabilities(halves: &Halves) {
    let header = [HEADER_VERSION, 0];
    // SAFETY: as above. Refused where it would be more than there is.
    let _ = unsafe {
        call(
            raw::__NR_capset,
            [header.as_ptr() as usize, halves.as_ptr() as usize, 0, 0, 0],
        )
    };
}

impl Credentials {
    /// Of the text of `/proc/PID/status`. `None`: it is none.
    pub fn parse(status: &[u8]) -> Option<Self> {
        let mut all = Self::default();
        let mut seen = 0;
        for line in status.split(|byte| *byte == b'\n') {
            let Some(colon) = line.iter().position(|byte| *byte == b':') else {
                continue;
            };
            let (name, value) = (&line[..colon], &line[colon + 1..]);
            let words = || value.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
            let mask = |to: &mut u64| *to = words().next().map_or(0, |word| number(word, 16));
            let four = |to: &mut [u32; 4]| {
                to.iter_mut()
                    .zip(words())
                    .for_each(|(to, word)| *to = number(word, 10) as u32)
            };
            match name {
                b"Uid" => four(&mut all.users),
                b"Gid" => four(&mut all.groups),
                b"Groups" => all.others.extend(words().map(|word| number(word, 10) as u32)),
                b"CapInh" => mask(&mut all.inheritable),
                b"CapPrm" => mask(&mut all.permitted),
                b"CapEff" => mask(&mut all.effective),
                b"CapBnd" => mask(&mut all.bounding),
                b"CapAmb" => mask(&mut all.ambient),
                _ => continue,
            }
            seen += 1;
        }
        (seen >= 7).then_some(all)
    }

    /// Whether whose these are may get rights by becoming another program: root that has given up
    /// some.
    pub fn may_gain(&self) -> bool {
        self.users.contains(&0) && self.permitted != self.bounding
    }

    /// Have the calling thread hold these. What it may not do it leaves: it holds less then.
    fn assume(&self) {
        let _ = prctl([PR_SET_KEEPCAPS, 1, 0, 0, 0]);
        // All that is permitted, as the rest needs some of it.
        let mut own = capabilities();
        own.iter_mut().for_each(|half| half[0] = half[1]);
        set_capabilities(&own);
        let (count, others) = (self.others.len(), self.others.as_ptr() as usize);
        // SAFETY: so many groups.
        let _ = unsafe { call(raw::__NR_setgroups, [count, others, 0, 0, 0]) };
        for (nr_of_three, nr_of_filesystem, [real, effective, saved, filesystem]) in [
            (raw::__NR_setresgid, raw::__NR_setfsgid, self.groups),
            (raw::__NR_setresuid, raw::__NR_setfsuid, self.users),
        ] {
            if nr_of_three == raw::__NR_setresuid {
                self.bound();
            }
            // SAFETY: integers.
            let _ = unsafe { call(nr_of_three, [real as usize, effective as usize, saved as usize, 0, 0]) };
            // SAFETY: an integer.
            let _ = unsafe { call(nr_of_filesystem, [filesystem as usize, 0, 0, 0, 0]) };
        }
        let own = capabilities();
        let mut halves: Halves = [[0; 3]; 2];
        for (i, (half, own)) in halves.iter_mut().zip(own).enumerate() {
            let part = |mask: u64| (mask >> (32 * i)) as u32;
            let permitted = part(self.permitted) & own[1];
            *half = [part(self.effective) & permitted, permitted, part(self.inheritable)];
        }
        set_capabilities(&halves);
        let _ = prctl([PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0]);
        for capability in (0..=CAP_LAST).filter(|capability| self.ambient >> capability & 1 != 0) {
            let _ = prctl([PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, capability, 0, 0]);
        }
        let _ = prctl([PR_SET_KEEPCAPS, 0, 0, 0, 0]);
    }

    /// Give up what this thread could never get any more.
    fn bound(&self) {
        for capability in (0..=CAP_LAST).filter(|capability| self.bounding >> capability & 1 == 0) {
            if prctl([PR_CAPBSET_READ, capability, 0, 0, 0]) == Ok(1) {
                let _ = prctl([PR_CAPBSET_DROP, capability, 0, 0, 0]);
            }
        }
    }
}

fn number(word: &[u8], radix: u32) -> u64 {
    core::str::from_utf8(word)
        .ok()
        .and_then(|word| u64::from_str_radix(word, radix).ok())
        .unwrap_or(0)
}

/// More threads than a pager has.
const SEATS: usize = 64;
/// What a thread has taken on: its process above, the number of what was asked for below.
static SEATED: [AtomicU64; SEATS] = [const { AtomicU64::new(0) }; SEATS];
static TAKEN: AtomicU32 = AtomicU32::new(0);
/// The number of what is asked for, which begins with nothing.
static ASKED: AtomicU32 = AtomicU32::new(0);
static WANTED: Mutex<RawLock, Option<Credentials>> = Mutex::new(None);

/// Marks a thread that has a seat in the block at its thread pointer: libc's have a pointer there.
const MARK: u64 = 0x757a_7377_6170 << 16;
/// Where that is.
pub(crate) const SEAT_OFFSET: usize = 16;

/// A seat for the threads of one memory, and what says so in their block.
pub(crate) fn new_seat() -> (usize, [u8; 8]) {
    let seat = TAKEN.fetch_add(1, Ordering::Relaxed) as usize;
    assert!(seat < SEATS, "more than {SEATS} threads");
    (seat, (MARK | seat as u64).to_ne_bytes())
}

/// A thread is about to be made, by one that has taken on all that was asked for.
pub(crate) fn sit_down(seat: usize) {
    let now = (pid() as u64) << 32 | u64::from(ASKED.load(Ordering::Acquire));
    SEATED[seat].store(now, Ordering::Release);
}

/// It could not be made, or has ended.
pub(crate) fn stand_up(seat: usize) {
    SEATED[seat].store(0, Ordering::Release);
}

/// All threads that had one have ended.
pub(crate) fn stand_all_up() {
    (0..SEATS).for_each(stand_up);
}

/// This thread ends.
pub(crate) fn leave() {
    if let Some(seat) = own_seat() {
        seat.store(0, Ordering::Release);
    }
}

fn own_seat() -> Option<&'static AtomicU64> {
    SEATED.get((instructions::thread_word() ^ MARK) as usize)
}

/// Take on what is asked for, if that was not done. Called by threads made here whenever one has
/// waited.
pub fn take_on() {
    let asked = ASKED.load(Ordering::Acquire);
    let Some(seat) = own_seat() else { return };
    let taken_on = seat.load(Ordering::Relaxed);
    if taken_on as u32 == asked {
        return;
    }
    let wanted = WANTED.lock();
    if let Some(wanted) = &*wanted {
        wanted.assume();
    }
    // What was wanted under this lock: the number is raised under it as well.
    let asked = u64::from(ASKED.load(Ordering::Acquire));
    seat.store(taken_on & !u64::from(u32::MAX) | asked, Ordering::Release);
}

/// Have all threads made here take on `credentials`, as soon as each looks ([`take_on`]), which the
/// caller sees to.
pub fn ask(credentials: &Credentials) {
    let mut wanted = WANTED.lock();
    *wanted = Some(credentials.clone());
    ASKED.fetch_add(1, Ordering::Release);
}

/// Whether all threads made here have taken on what was asked for.
pub fn have_all_taken_on() -> bool {
    let (me, asked) = (pid() as u32, ASKED.load(Ordering::Acquire));
    SEATED.iter().all(|seat| {
        let seat = seat.load(Ordering::Acquire);
        (seat >> 32) as u32 != me || seat as u32 == asked
    })
}

/// In a forked child: what was asked for is what the forking thread has, and its threads are made
/// from that one.
pub fn reset_in_child() {
    if WANTED.is_locked() {
        // SAFETY: locked by a thread of the parent, which does not exist here and does no more than
        // read or replace what is replaced next.
        unsafe { WANTED.force_unlock() };
    }
}

/// The credentials in an open `status`.
pub(crate) fn read(status: &rustix::fd::OwnedFd) -> Option<Credentials> {
    with_text(status, Credentials::parse)
}

/// How many filters of system calls the calling thread has. `None`: not known (Linux before 5.9).
pub fn filters_of_calls() -> Option<u64> {
    use rustix::fs::{Mode, OFlags};
    let status = rustix::fs::open(
        c"/proc/thread-self/status",
        OFlags::RDONLY | OFlags::CLOEXEC,
        Mode::empty(),
    );
    with_text(&status.ok()?, |text| {
        let mut lines = text.split(|byte| *byte == b'\n');
        let value = lines.find_map(|line| line.strip_prefix(b"Seccomp_filters:"))?;
        Some(number(value.trim_ascii(), 10))
    })
}

/// What the text of a `status` says.
fn with_text<T>(status: &rustix::fd::OwnedFd, parse: impl Fn(&[u8]) -> Option<T>) -> Option<T> {
    /// Longer than it is with two hundred groups.
    const LONG: usize = 4 << 10;
    /// As long as it is with as many groups as there may be.
    const LONGEST: usize = 1 << 20;
    let mut space = [MaybeUninit::uninit(); LONG];
    let (text, _) = rustix::io::pread(status, &mut space[..], 0).ok()?;
    if text.len() < LONG {
        return parse(text);
    }
    let mut text = alloc::vec![0; LONGEST];
    let n = rustix::io::pread(status, &mut text[..], 0).ok()?;
    parse(&text[..n])
}

#[cfg(all(test, not(miri)))]
mod test {
    use super::*;

    #[test]
    fn namespaces_say_what_they_are() {
        use rustix::fd::AsRawFd;
        let flags = rustix::fs::OFlags::RDONLY;
        let kind = |path| {
            let file = rustix::fs::open(path, flags, rustix::fs::Mode::empty()).unwrap();
            kind_of_namespace(file.as_raw_fd() as usize)
        };
        assert_eq!(kind(c"/proc/self/ns/user"), Some(raw::CLONE_NEWUSER as usize));
        assert_eq!(kind(c"/proc/self/stat"), None);
    }

    #[test]
    fn what_a_status_says_is_read() {
        let text = b"Name:\ta: b\nUid:\t1\t2\t3\t4\nGid:\t5\t6\t7\t8\nGroups:\t9 10 \nCapInh:\t0000000000000001\nCapPrm:\t00000000000000ff\nCapEff:\t000000000000000f\nCapBnd:\t000001ffffffffff\nCapAmb:\t0000000000000000\n";
        let all = Credentials::parse(text).unwrap();
        assert_eq!((all.users, all.groups), ([1, 2, 3, 4], [5, 6, 7, 8]));
        assert_eq!(all.others, [9, 10]);
        assert_eq!((all.inheritable, all.permitted, all.effective), (1, 255, 15));
        assert_eq!((all.bounding, all.ambient), (0x1ff_ffff_ffff, 0));
        assert_eq!(Credentials::parse(b"Name:\ta\n"), None);
    }

    #[test]
    fn a_thread_of_libc_has_no_seat() {
        assert!(own_seat().is_none());
    }
}
