//! Whether a process whose pager has ended has its memory still. What the kernel tells of a pager's
//! threads ([`crate::shared`]) ends with the last of those, and threads of the program may take
//! longer: on a busy machine by a second.

use rustix::fs::{self, Mode, OFlags};
use rustix::io;
use rustix::path::DecInt;

use crate::thread::is_filtered;

/// Fields of /proc/PID/stat, counted from the first behind the name.
const STATE: usize = 0;
const THREADS: usize = 17;
const START: usize = 19;
const START_STACK: usize = 25;

/// Whether `stat` is that of a process that has ended.
pub(crate) fn has_ended(stat: &[u8]) -> bool {
    matches!(field(stat, STATE), b"Z" | b"X")
}

fn field(stat: &[u8], field: usize) -> &[u8] {
    let name = stat.iter().rposition(|byte| *byte == b')').unwrap_or(stat.len());
    let mut fields = stat[name..].split(|byte| *byte == b' ').skip(1);
    fields.nth(field).unwrap_or_default()
}

fn number(text: &[u8]) -> u64 {
    text.iter()
        .take_while(|byte| byte.is_ascii_digit())
        .fold(0, |n: u64, byte| {
            n.wrapping_mul(10).wrapping_add(u64::from(byte - b'0'))
        })
}

/// Where the stack of the program begins that `stat` (/proc/PID/stat) tells of: another program's
/// begins elsewhere. 0: it cannot be told.
pub(crate) fn image(stat: &[u8]) -> u64 {
    number(field(stat, START_STACK))
}

/// When the process began, in clock ticks.
pub(crate) fn start(stat: &[u8]) -> u64 {
    number(field(stat, START))
}

fn holds(stat: &[u8], then: u64, began: u64) -> bool {
    // The last of its threads lets go of the memory before it counts as ended.
    let is_over = has_ended(stat) && number(field(stat, THREADS)) <= 1;
    let now = image(stat);
    !is_over && (then == 0 || now == 0 || now == then) && (began == 0 || began == start(stat))
}

/// Whether process `pid` may have the memory that it had when
/// [`ProcSelf::image`](crate::procfs::ProcSelf::image) was `image`, and
/// [`ProcSelf::start`](crate::procfs::ProcSelf::start) `start`; 0: not known. One that is not seen
/// (another PID namespace, another root directory, a filter of system calls) has none, as far as
/// anybody knows.
pub fn may_hold_memory(pid: u32, image: u64, start: u64) -> bool {
    if is_filtered() {
        return false;
    }
    let mut buf = [0; 1024];
    read_stat(pid, &mut buf).is_ok_and(|n| holds(&buf[..n], image, start))
}

/// Whether it is seen that process `pid` has not that memory any more. Allocates nothing.
pub fn is_seen_without_memory(pid: u32, image: u64, start: u64) -> bool {
    let mut buf = [0; 1024];
    read_stat(pid, &mut buf).is_ok_and(|n| !holds(&buf[..n], image, start))
}

pub(crate) fn read_stat(pid: u32, buf: &mut [u8]) -> io::Result<usize> {
    let proc = fs::open(c"/proc", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    let process = fs::openat(&proc, DecInt::new(pid), OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    let stat = fs::openat(&process, c"stat", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    io::pread(&stat, buf, 0)
}

#[cfg(test)]
mod test {
    extern crate std;

    use std::process::Command;

    use super::*;

    #[test]
    fn who_has_ended_has_no_memory() {
        assert!(may_hold_memory(std::process::id(), 0, 0));
        assert!(!is_seen_without_memory(std::process::id(), 0, 0));
        let mut child = Command::new("true").spawn().unwrap();
        while may_hold_memory(child.id(), 0, 0) {
            std::thread::yield_now();
        }
        // Nobody has waited for it: there is something to read.
        assert!(std::fs::read(std::format!("/proc/{}/stat", child.id())).is_ok());
        assert!(is_seen_without_memory(child.id(), 0, 0));
        child.wait().unwrap();
        assert!(!may_hold_memory(child.id(), 0, 0) && !is_seen_without_memory(child.id(), 0, 0));
    }

    #[test]
    fn who_runs_another_program_has_not_what_it_had() {
        let proc = crate::procfs::ProcSelf::open().unwrap();
        let (own, began) = (proc.image(), proc.start());
        assert!(own != 0 && began != 0);
        assert!(may_hold_memory(std::process::id(), own, began));
        assert!(!may_hold_memory(std::process::id(), own + 4096, began));
        // Another process has its number here.
        assert!(!may_hold_memory(std::process::id(), own, began + 1));
        let odd = b"7 (a) b) Z 1 7 7 0 -1 0 0 0 0 0 0 0 0 0 20 0 2 0 9 9 9 9 1 1 4096 0";
        assert!(holds(odd, 4096, 0) && !holds(odd, 8192, 0));
    }
}
