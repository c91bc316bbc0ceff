//! Descriptors that must outlive the threads that use them.
//!
//! A process ends by all its threads ending at once, the pager's among them. If a userfaultfd is gone before the last
//! thread of the program is, a system call in the middle of copying from memory finds missing pages that nobody watches any more:
//! zeros, which it writes to a file or a socket. So the launcher holds a copy until the whole process is gone. With the
//! userfaultfd still there, and nobody to serve it, the dying thread's copy fails, as it would at any fatal signal.
//!
//! A process may also go on without its pager: `execve` ends all threads but one, and the kernel still reads that one's memory. It
//! would wait for ever for pages of it. So a pager holds the one end of a pipe, its *lifeline*, and what is kept is dropped
//! a while after the pager is gone, whatever became of the process.

use core::ffi::CStr;
use core::mem::MaybeUninit;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::{Errno, IoSlice, IoSliceMut, Result};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketAddrUnix, SocketFlags, SocketType, bind, recvmsg, sendmsg_addr, socket_with,
};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{PidfdFlags, Resource, Rlimit, getpid, getrlimit, pidfd_open, setrlimit};
use rustix::thread::{Timespec, nanosleep};

use alloc::vec::Vec;

use crate::time::now_ns;

/// How often, and how far apart, a keeper that is busy is tried: a queue holds few messages.
const TRIES: u32 = 50;
const PAUSE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 200_000,
};
/// A descriptor, its process, and the lifeline.
const FDS: usize = 3;
/// How long a descriptor is kept without its pager: threads that die with it are gone by then.
const GRACE_NS: u64 = 1_000_000_000;

fn socket() -> Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None)
}

/// Have whoever is bound to `path` keep a copy of `fd` until this process is gone, or a while after the lifeline that is returned was
/// closed, which must be in nobody's hands but the pager's.
///
/// # Errors
/// What `socket`, `pidfd_open` and `sendmsg` answer; ENOENT or ECONNREFUSED: nobody is bound there.
pub fn hand_over(path: &CStr, fd: BorrowedFd<'_>) -> Result<OwnedFd> {
    let (socket, address) = (socket()?, SocketAddrUnix::new(path)?);
    let process = pidfd_open(getpid(), PidfdFlags::empty())?;
    let (end, lifeline) = pipe_with(PipeFlags::CLOEXEC)?;
    let fds = [fd, process.as_fd(), end.as_fd()];
    for _ in 0..TRIES {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        control.push(SendAncillaryMessage::ScmRights(&fds));
        match sendmsg_addr(
            &socket,
            &address,
            &[IoSlice::new(&[0])],
            &mut control,
            SendFlags::NOSIGNAL,
        ) {
            Err(Errno::AGAIN) => drop(nanosleep(&PAUSE)),
            sent => return sent.map(|_| lifeline),
        }
    }
    Err(Errno::AGAIN)
}

/// Keeps what it is handed.
pub struct Keeper {
    socket: OwnedFd,
    kept: Vec<Kept>,
}

struct Kept {
    fds: [OwnedFd; FDS],
    /// When it was seen that its pager is gone.
    orphaned: Option<u64>,
}

impl Keeper {
    /// Bind to `path`, where nothing may be yet.
    ///
    /// # Errors
    /// What `socket` and `bind` answer.
    pub fn bind(path: &CStr) -> Result<Self> {
        let socket = socket()?;
        bind(&socket, &SocketAddrUnix::new(path)?)?;
        let kept = Vec::new();
        Ok(Self { socket, kept })
    }

    /// Have room for the descriptors of `processes` processes, if this process may. Children started from now on inherit that.
    pub fn make_room(processes: u64) {
        let limit = getrlimit(Resource::Nofile);
        let wanted = FDS as u64 * processes + limit.current.unwrap_or(0);
        let current = Some(limit.maximum.map_or(wanted, |maximum| maximum.min(wanted)));
        // With less, some process may go unkept.
        let _ = setrlimit(Resource::Nofile, Rlimit { current, ..limit });
    }

    /// Descriptors kept now.
    pub fn kept(&self) -> usize {
        self.kept.len()
    }

    /// The descriptors that it works with.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let kept = self.kept.iter().flat_map(|kept| &kept.fds);
        core::iter::once(&self.socket).chain(kept).map(AsFd::as_fd)
    }

    /// Wait for something to happen, here or to `also`, for `wait_ns` at most, take what is handed over and drop what nobody needs any more.
    ///
    /// # Errors
    /// What `poll` answers, but for an interruption.
    pub fn step(&mut self, also: Option<BorrowedFd<'_>>, wait_ns: Option<u64>) -> Result<()> {
        let watched = self.kept.iter().flat_map(|kept| [&kept.fds[1], &kept.fds[2]]);
        let mut polled: Vec<_> = core::iter::once(&self.socket)
            .chain(watched)
            .map(|fd| PollFd::new(fd, PollFlags::IN))
            .collect();
        // A lifeline that is cut stays so: not looked at again until its time is over.
        let is_orphan = |kept: &Kept| kept.orphaned.is_some();
        for (i, kept) in self.kept.iter().enumerate().filter(|(_, kept)| is_orphan(kept)) {
            polled[2 + 2 * i] = PollFd::new(&kept.fds[1], PollFlags::IN);
        }
        let look = self.kept.iter().any(is_orphan).then_some(GRACE_NS / 10);
        let wait_ns = look.into_iter().chain(wait_ns).min();
        let timeout = wait_ns.map(|ns| Timespec {
            tv_sec: (ns / 1_000_000_000) as _,
            tv_nsec: (ns % 1_000_000_000) as _,
        });
        let own = polled.len();
        polled.extend(also.as_ref().map(|fd| PollFd::new(fd, PollFlags::IN)));
        match poll(&mut polled, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
        let seen: Vec<bool> = polled[1..own].iter().map(|fd| !fd.revents().is_empty()).collect();
        let now = now_ns();
        for (kept, seen) in self.kept.iter_mut().zip(seen.chunks_exact(2)) {
            if seen[1] {
                kept.orphaned.get_or_insert(now);
            }
        }
        let mut gone = seen.chunks_exact(2).map(|seen| seen[0]);
        self.kept.retain(|kept| {
            let is_over = kept.orphaned.is_some_and(|since| now - since > GRACE_NS);
            !gone.next().unwrap_or(false) && !is_over
        });
        while let Some(handed) = self.receive() {
            self.kept.extend(handed.map(|fds| Kept { fds, orphaned: None }));
        }
        Ok(())
    }

    /// The next message: `Some(None)` if it is none of ours.
    fn receive(&self) -> Option<Option<[OwnedFd; FDS]>> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut byte = [0];
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
        recvmsg(&self.socket, &mut [IoSliceMut::new(&mut byte)], &mut control, flags).ok()?;
        let fds: Vec<OwnedFd> = control
            .drain()
            .flat_map(|message| match message {
                RecvAncillaryMessage::ScmRights(fds) => fds.collect(),
                _ => Vec::new(),
            })
            .collect();
        Some(fds.try_into().ok())
    }
}

#[cfg(all(test, not(miri)))]
mod test {
    use super::*;

    #[test]
    fn a_descriptor_is_kept() {
        let path = alloc::format!("/tmp/uzswap-keep-{}\0", crate::thread::pid());
        let path = CStr::from_bytes_with_nul(path.as_bytes()).unwrap();
        let event = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap();
        assert_eq!(hand_over(path, event.as_fd()).map(drop), Err(Errno::NOENT));
        let mut keeper = Keeper::bind(path).unwrap();
        let lifeline = hand_over(path, event.as_fd()).unwrap();
        keeper.step(None, None).unwrap();
        assert_eq!(keeper.kept(), 1);
        drop(lifeline);
        while keeper.kept() > 0 {
            keeper.step(None, None).unwrap();
        }
        rustix::fs::unlink(path).unwrap();
    }
}
