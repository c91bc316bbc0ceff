//! Calls that move more than may be held at a time: in pieces, where the kernel would have gone
//! page by page as well.
//!
//! | what the descriptor is | reads | writes |
//! |---|---|---|
//! | a file, a block device | piece by piece, until one is short | the same |
//! | a pipe, a terminal, a stream socket | the same; a small first may wait | piece by piece |
//! | anything else, as sockets that keep messages apart | as a whole | as a whole |
//! | what is told apart by its end (MSG_ZEROCOPY, MSG_OOB) | as a whole | as a whole |
//! | what is looked at only (MSG_PEEK) | as a whole | - |
//! | getrandom(2) | piece by piece | - |
//!
//! As for the kernel, an error counts only if nothing was moved before it; one that waits at a
//! socket is left there for the next call. Between two pieces
//! another thread may write to the same file. A read of a stream is short only if that is empty:
//! who waits for edges (EPOLLET) takes it for a sign of that.

use uzswap_ctl::Limit;
use uzswap_guard::reach::{Extent, Memory};
use uzswap_mm::page::PAGE_SIZE;
use uzswap_sys::closed::Access;
use uzswap_sys::guard::Call;
use uzswap_sys::populate::{Kind, begins_at, has_error_to_read, has_error_to_write, kind_of};
use uzswap_sys::{Errno, closed, thread};

use super::bring::{Reached, frame_of};
use super::{ADDRESSES, AGAIN_MAX, exec, ranges, release};
use crate::pager;

/// Of `memory.max` one call may hold one part in so many.
const SHARE: u64 = 8;
/// At least so much. Bytes.
const LEAST: u64 = 256 << 10;
/// A read of a stream holds so much of its buffer while it may wait, and the rest once there is
/// something: many threads may wait with large buffers. Bytes.
const WAITING: usize = 64 << 10;
/// Buffers of one call at most (UIO_MAXIOV), and bytes of one that names them.
pub(super) const VECTORS_MAX: usize = 1024;
const VECTOR: usize = 16;
/// What the kernel moves at most in one call.
pub(super) const MAX_RW_COUNT: usize = 0x7fff_f000;

const SYS_READ: usize = 0;
const SYS_WRITE: usize = 1;
const SYS_PREAD: usize = 17;
const SYS_PWRITE: usize = 18;
const SYS_READV: usize = 19;
const SYS_WRITEV: usize = 20;
const SYS_SENDTO: usize = 44;
const SYS_RECVFROM: usize = 45;
const SYS_MADVISE: usize = 28;
const SYS_LSEEK: usize = 8;
const SYS_PRLIMIT: usize = 302;
const SYS_GETRANDOM: usize = 318;
const MADV_POPULATE_WRITE: usize = 23;
const SYS_PREADV: usize = 295;
const SYS_PWRITEV: usize = 296;
const SYS_PREADV2: usize = 327;

/// Whose end is marked for the receiver, or who is told by a number of its own when it is over.
const WHOLE: usize = MSG_OOB | MSG_ZEROCOPY;
const MSG_OOB: usize = 0x1;
const MSG_ZEROCOPY: usize = 0x400_0000;
const MSG_PEEK: usize = 0x2;
const MSG_DONTWAIT: usize = 0x40;
const MSG_NOSIGNAL: usize = 0x4000;
const MSG_WAITALL: usize = 0x100;
const RWF_NOWAIT: usize = 0x8;

/// The fourth argument of a call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fourth {
    /// It has none.
    Nothing,
    /// A place in the file.
    Offset,
    /// Flags, and no address behind them.
    Flags,
}

/// How a call moves one buffer.
struct Way {
    /// The call for one buffer.
    single: usize,
    is_read: bool,
    fourth: Fourth,
    /// Its buffers are a list.
    is_list: bool,
}

fn way(call: &Call) -> Option<Way> {
    let way = |single, is_read, fourth, is_list| {
        Some(Way {
            single,
            is_read,
            fourth,
            is_list,
        })
    };
    let [_, _, _, flags, address, _] = call.args;
    match call.number {
        SYS_READ => way(SYS_READ, true, Fourth::Nothing, false),
        SYS_WRITE => way(SYS_WRITE, false, Fourth::Nothing, false),
        SYS_PREAD => way(SYS_PREAD, true, Fourth::Offset, false),
        SYS_PWRITE => way(SYS_PWRITE, false, Fourth::Offset, false),
        SYS_READV => way(SYS_READ, true, Fourth::Nothing, true),
        SYS_WRITEV => way(SYS_WRITE, false, Fourth::Nothing, true),
        SYS_PREADV => way(SYS_PREAD, true, Fourth::Offset, true),
        SYS_PWRITEV => way(SYS_PWRITE, false, Fourth::Offset, true),
        SYS_SENDTO if address == 0 && flags & WHOLE == 0 => way(SYS_SENDTO, false, Fourth::Flags, false),
        SYS_RECVFROM if address == 0 && flags & (MSG_WAITALL | MSG_OOB | MSG_PEEK) == 0 => {
            way(SYS_RECVFROM, true, Fourth::Flags, false)
        }
        _ => None,
    }
}

/// How far the call has come.
struct Moving<'a> {
    way: &'a Way,
    /// Of the program's call.
    frame: usize,
    fd: usize,
    /// Offset or flags.
    fourth: usize,
    moved: usize,
    most: usize,
    kind: Kind,
}

/// Make the call in pieces, if it has to be. Returns what the program gets.
pub(super) fn make(call: &Call) -> Option<isize> {
    if call.number == SYS_GETRANDOM {
        return random(call);
    }
    let way = way(call)?;
    let most = most()?;
    let [fd, at, count, fourth, ..] = call.args;
    let count = if way.is_list { count } else { count.min(MAX_RW_COUNT) };
    if !way.is_list && is_beyond(at, call.args[2]) {
        // As a whole the kernel refuses it.
        return None;
    }
    let may_wait = way.is_read && way.fourth != Fourth::Offset;
    // While it waits, what is not managed yet may come under care, and is brought then.
    let is_longer = |than, waits: bool| match way.is_list {
        false => Ok(count > than && (waits || may_be_out(at, count))),
        true => is_long_list(at, count, than, waits),
    };
    let mut is_long = match may_wait {
        true => is_longer(WAITING, true),
        false => is_longer(most, false),
    };
    if is_long == Ok(false) {
        return None;
    }
    // A filter may forbid to ask what it is: so only where that has to be known.
    let known = (may_wait && !exec::is_filtered()).then(|| kind_of(fd as i32));
    if may_wait && known.is_none_or(|kind| kind == Kind::File) {
        is_long = is_longer(most, false);
        if is_long == Ok(false) {
            return None;
        }
    }
    let kind = known.unwrap_or_else(|| kind_of(fd as i32));
    if kind == Kind::Other {
        return None;
    }
    if let Err(errno) = is_long {
        return Some(-(errno.raw_os_error() as isize));
    }
    let mut moving = Moving {
        way: &way,
        frame: frame_of(&call.args),
        fd,
        fourth,
        moved: 0,
        most,
        kind,
    };
    let result = match way.is_list {
        false => moving.buffer(at, count).map(drop),
        true => moving.list(at, count),
    };
    Some(match result {
        Err(errno) if moving.moved == 0 => -(errno.raw_os_error() as isize),
        _ => moving.moved as isize,
    })
}

/// Whether any of a buffer may be out.
fn may_be_out(start: usize, len: usize) -> bool {
    ranges::next(start, start.saturating_add(len)).is_some()
}

/// As [`make`], for getrandom(2), which a signal may end early as well.
fn random(call: &Call) -> Option<isize> {
    let [start, len, flags, ..] = call.args;
    let (most, len) = (most()?, len.min(MAX_RW_COUNT));
    if is_beyond(start, len) || len <= most || !may_be_out(start, len) {
        return None;
    }
    let mut done = 0;
    while done < len {
        let extent = Extent {
            start: start + done,
            len: most.min(len - done),
            is_written: true,
        };
        let args = [extent.start, extent.len, flags, 0, 0, 0];
        // SAFETY: a part of what the program's own call does.
        match holding(frame_of(&call.args), &[extent], || unsafe {
            thread::syscall_of_program(SYS_GETRANDOM, args)
        }) {
            Ok(got) => done += got,
            Err(errno) if done == 0 => return Some(-(errno.raw_os_error() as isize)),
            Err(_) => break,
        }
        if done < extent.start - start + extent.len {
            break;
        }
    }
    Some(done as isize)
}

/// Populate what the program asks for (MADV_POPULATE_READ, MADV_POPULATE_WRITE), piece by piece:
/// the kernel stops at the first page that is not there. What it populated may leave as it goes on,
/// as under any limit.
///
/// # Errors
/// As madvise.
pub(super) fn populate(start: usize, len: usize, advice: usize) -> Result<(), Errno> {
    let piece = most().unwrap_or(usize::MAX);
    let is_written = advice == MADV_POPULATE_WRITE;
    let access = if is_written { Access::Write } else { Access::Read };
    let advise = |start, len| {
        // SAFETY: a part of what the program's own call does, which changes no contents.
        let advised = unsafe { thread::syscall_of_program(SYS_MADVISE, [start, len, advice, 0, 0, 0]) };
        // What is closed is forbidden, as far as the kernel knows.
        match advised {
            Err(Errno::INVAL) if closed::meets_closed(start, len, access) => Err(Errno::FAULT),
            advised => advised,
        }
    };
    let end = start.checked_add(len).ok_or(Errno::INVAL)?;
    // The program's call is not at hand. No signal ends this one early.
    let frame = [0; 6];
    if !start.is_multiple_of(PAGE_SIZE) || len == 0 {
        return advise(start, len).map(drop);
    }
    for at in (start..end).step_by(piece) {
        let len = piece.min(end - at);
        let extent = Extent {
            start: at,
            len,
            is_written,
        };
        holding(frame_of(&frame), &[extent], || advise(at, len))?;
    }
    Ok(())
}

/// Make a call that reaches these, as a part of the one that has this frame.
pub(super) fn holding(
    frame: usize,
    extents: &[Extent],
    call: impl Fn() -> Result<usize, Errno>,
) -> Result<usize, Errno> {
    let mut reached = Reached::of_call(0, frame, false);
    extents.iter().for_each(|extent| reached.reach(*extent));
    let mut result = call();
    for _ in 0..AGAIN_MAX {
        if result != Err(Errno::FAULT) {
            break;
        }
        // Registered without being known as such, or nowhere.
        let mut thorough = Reached::of_call(reached.token(), frame, true);
        extents.iter().for_each(|extent| thorough.reach(*extent));
        let brought = thorough.brought;
        reached = thorough;
        if brought == 0 {
            break;
        }
        result = call();
    }
    release(reached.token());
    result
}

/// Bytes that one call may hold.
pub(super) fn most() -> Option<usize> {
    // Also before there is a pager: a call may wait until there is one.
    let limit = pager::group()?.get(Limit::MemoryMax);
    Some((limit / SHARE).max(LEAST) as usize & !(PAGE_SIZE - 1))
}

/// A buffer of a list.
pub(super) fn vector(list: usize, n: usize) -> Option<(usize, usize)> {
    let mut bytes = [0; VECTOR];
    let mut reached = Reached::new(0, (&raw const bytes).addr(), false);
    let at = list + n * VECTOR;
    reached.reach(Extent {
        start: at,
        len: VECTOR,
        is_written: false,
    });
    let is_read = reached.read(at, &mut bytes);
    release(reached.token());
    let (start, len) = bytes.split_at(VECTOR / 2);
    let word = |bytes: &[u8]| bytes.try_into().map(usize::from_le_bytes).unwrap_or(0);
    is_read.then(|| (word(start), word(len)))
}

/// Whether a buffer lies where none can.
pub(super) fn is_beyond(start: usize, len: usize) -> bool {
    start.checked_add(len).is_none_or(|end| end > ADDRESSES - PAGE_SIZE)
}

/// Whether the buffers of a list that may be out, or all, are more than may be held at a time.
///
/// # Errors
/// EFAULT, EINVAL: it cannot be read, or one has no length, or no place. The kernel looks at all
/// of it first.
fn is_long_list(list: usize, count: usize, most: usize, all: bool) -> Result<bool, Errno> {
    if count > VECTORS_MAX || list == 0 || list >= ADDRESSES {
        return Ok(false);
    }
    let (mut held, mut error) = (0usize, None);
    for n in 0..count {
        let Some((start, len)) = vector(list, n) else {
            error = Some(Errno::FAULT);
            break;
        };
        if len > isize::MAX as usize {
            error = Some(Errno::INVAL);
            break;
        }
        if is_beyond(start, len) {
            error = Some(Errno::FAULT);
        } else if all || may_be_out(start, len) {
            held = held.saturating_add(len);
        }
    }
    match error.filter(|_| held > most) {
        Some(errno) => Err(errno),
        // Where it is short the kernel says so itself.
        None => Ok(held > most),
    }
}

impl Moving<'_> {
    fn list(&mut self, list: usize, count: usize) -> Result<(), Errno> {
        for n in 0..count {
            let (start, len) = vector(list, n).ok_or(Errno::FAULT)?;
            let left = MAX_RW_COUNT - self.moved;
            if !self.buffer(start, len.min(left))? {
                break;
            }
        }
        Ok(())
    }

    /// Move one buffer. False: that was all there is.
    fn buffer(&mut self, start: usize, len: usize) -> Result<bool, Errno> {
        let mut done = 0;
        while done < len {
            let want = (len - done).min(self.most(len - done));
            let got = self.piece(start + done, want)?;
            done += got;
            self.moved += got;
            if got < want || self.is_at_limit() || self.has_error() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether an error waits at a socket: the kernel does not look for one once it has moved
    /// something.
    fn has_error(&self) -> bool {
        let has_error = match self.way.is_read {
            true => has_error_to_read,
            false => has_error_to_write,
        };
        self.kind == Kind::Socket && !exec::is_filtered() && has_error(self.fd as i32)
    }

    /// Whether the file is as long as the program may make one (RLIMIT_FSIZE). A write that begins
    /// there raises SIGXFSZ, where one that comes there is short.
    fn is_at_limit(&self) -> bool {
        const FSIZE: usize = 1;
        const CURRENT: usize = 1;
        if self.way.is_read || self.kind != Kind::File || exec::is_filtered() {
            return false;
        }
        let mut limits = [u64::MAX; 2];
        let asked = [0, FSIZE, 0, limits.as_mut_ptr().expose_provenance(), 0, 0];
        // SAFETY: both only look; the kernel writes two words, which are ours.
        let at = unsafe {
            match self.way.fourth {
                _ if thread::syscall(SYS_PRLIMIT, asked).is_err() || limits[0] == u64::MAX => return false,
                Fourth::Offset => Ok(self.fourth + self.moved),
                _ => thread::syscall(SYS_LSEEK, [self.fd, 0, CURRENT, 0, 0, 0]),
            }
        };
        at.is_ok_and(|at| begins_at(self.fd as i32, at as u64).is_some_and(|at| at >= limits[0]))
    }

    /// Bytes of a piece at most, of so many that are left. A pipe takes what is beyond whole pages
    /// first, into a page that has room: so it is part of the first piece.
    fn most(&self, left: usize) -> usize {
        let beyond = left % PAGE_SIZE;
        match self.kind {
            Kind::Stream | Kind::Socket if self.way.is_read && self.moved == 0 => WAITING,
            Kind::Stream | Kind::Socket if !self.way.is_read && beyond > 0 => self.most - PAGE_SIZE + beyond,
            _ => self.most,
        }
    }

    fn piece(&self, start: usize, len: usize) -> Result<usize, Errno> {
        let extent = Extent {
            start,
            len,
            is_written: self.way.is_read,
        };
        // Some of a stream is there already: what is not yet is not waited for.
        let may_not_wait = self.way.is_read && self.kind != Kind::File && self.moved > 0;
        // The other end of a socket may go between two pieces: no SIGPIPE for what is short.
        let is_quiet = !self.way.is_read && self.kind == Kind::Socket && self.moved > 0 && !exec::is_filtered();
        let fourth = match self.way.fourth {
            Fourth::Nothing => 0,
            Fourth::Offset => self.fourth + self.moved,
            Fourth::Flags if may_not_wait => self.fourth | MSG_DONTWAIT,
            Fourth::Flags if is_quiet => self.fourth | MSG_NOSIGNAL,
            Fourth::Flags => self.fourth,
        };
        let vector = [start, len];
        let (number, args) = match self.way.fourth {
            Fourth::Nothing if may_not_wait && self.kind == Kind::Socket => {
                (SYS_RECVFROM, [self.fd, start, len, MSG_DONTWAIT, 0, 0])
            }
            Fourth::Nothing if may_not_wait => {
                let vector = vector.as_ptr().expose_provenance();
                (SYS_PREADV2, [self.fd, vector, 1, usize::MAX, 0, RWF_NOWAIT])
            }
            Fourth::Nothing if is_quiet => (SYS_SENDTO, [self.fd, start, len, MSG_NOSIGNAL, 0, 0]),
            _ => (self.way.single, [self.fd, start, len, fourth, 0, 0]),
        };
        // SAFETY: a part of what the program's own call does.
        holding(self.frame, &[extent], || unsafe {
            thread::syscall_of_program(number, args)
        })
    }
}

/// Part of a process_vm_readv(2) or process_vm_writev(2): of both ends an address and how many
/// bytes.
pub(super) fn transfer(number: usize, process: usize, here: [usize; 2], there: [usize; 2]) -> Result<usize, Errno> {
    let [here, there] = [&here, &there].map(|vector| vector.as_ptr().expose_provenance());
    // SAFETY: a part of what the program's own call does.
    unsafe { thread::syscall_of_program(number, [process, here, 1, there, 1, 0]) }
}
