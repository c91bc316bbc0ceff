//! Datagrams with descriptors, on a socket with a name: a word, and what belongs to it.

use alloc::vec::Vec;
use core::ffi::CStr;
use core::mem::MaybeUninit;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::stat;
use rustix::io::{Errno, IoSlice, IoSliceMut, Result};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketAddrUnix, SocketFlags, SocketType, bind, connect, getsockname, recvmsg, sendmsg, sendmsg_addr,
    socket_with, sockopt::set_socket_passcred,
};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::geteuid;
use rustix::thread::{Timespec, nanosleep};

/// How often, and how far apart, a receiver that is busy is tried: a queue holds few messages.
const TRIES: u32 = 1000;
const PAUSE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 200_000,
};
/// Descriptors of a datagram at most.
pub(crate) const FDS: usize = 3;

/// Where somebody is bound.
pub struct Bell(OwnedFd);

/// To whoever is bound to `path`, once: as [`Bell::hand_over`], without a call that a filter of the
/// program's may not know of us.
pub(crate) fn send(path: &CStr, word: u64, fds: &[BorrowedFd<'_>]) -> Result<()> {
    let (socket, address) = (socket()?, SocketAddrUnix::new(path)?);
    patiently(word, fds, |bytes, control| {
        sendmsg_addr(&socket, &address, &[IoSlice::new(bytes)], control, SendFlags::NOSIGNAL)
    })
}

/// A name without a file, which the kernel has found. Anybody of the network namespace may send
/// there: the word has to show who does. Whoever sends has to know that it is the same namespace.
#[derive(Clone, Copy)]
pub struct Found(pub u64);

impl Found {
    /// To whoever is bound to it: a word and a descriptor.
    ///
    /// # Errors
    /// What `socket` and `sendmsg` answer; EAGAIN: the queue is full; ECONNREFUSED: nobody is bound
    /// to it.
    pub fn send(self, word: u64, fd: BorrowedFd<'_>) -> Result<()> {
        let bytes = self.0.to_ne_bytes();
        let len = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        let (socket, address) = (socket()?, SocketAddrUnix::new_abstract_name(&bytes[..len])?);
        once(word, &[fd], |bytes, control| {
            sendmsg_addr(&socket, &address, &[IoSlice::new(bytes)], control, SendFlags::NOSIGNAL)
        })
    }
}

/// Which network namespace this thread is in. `None`: without /proc.
pub fn network() -> Option<u64> {
    stat(c"/proc/thread-self/ns/net").ok().map(|stat| stat.st_ino)
}

/// Send until the receiver has room.
fn patiently(
    word: u64,
    fds: &[BorrowedFd<'_>],
    send: impl Fn(&[u8], &mut SendAncillaryBuffer<'_, '_, '_>) -> Result<usize>,
) -> Result<()> {
    for _ in 0..TRIES {
        match once(word, fds, &send) {
            Err(Errno::AGAIN) => drop(nanosleep(&PAUSE)),
            sent => return sent,
        }
    }
    Err(Errno::AGAIN)
}

fn once(
    word: u64,
    fds: &[BorrowedFd<'_>],
    send: impl Fn(&[u8], &mut SendAncillaryBuffer<'_, '_, '_>) -> Result<usize>,
) -> Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(fds));
    send(&word.to_ne_bytes(), &mut control).map(drop)
}

/// A datagram as it came.
pub struct Received {
    pub word: u64,
    pub fds: Vec<OwnedFd>,
    /// The process that sent it, if it is of this user; else 0.
    pub sender: i32,
}

/// Who is bound to a name.
pub struct Door(OwnedFd);

fn socket() -> Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None)
}

impl Bell {
    /// To whoever is bound to `path` now.
    ///
    /// # Errors
    /// What `socket` and `connect` answer; ENOENT or ECONNREFUSED: nobody is.
    pub fn connect(path: &CStr) -> Result<Self> {
        let socket = socket()?;
        connect(&socket, &SocketAddrUnix::new(path)?)?;
        Ok(Self(socket))
    }

    /// Send a word, two descriptors, and the one end of a pipe: he sees it end when the other end,
    /// which is returned, is closed. Who is busy is waited for, not for ever.
    ///
    /// # Errors
    /// What `pipe` and `sendmsg` answer; ECONNREFUSED: nobody is there any more.
    pub fn hand_over(&self, word: u64, [first, second]: [BorrowedFd<'_>; 2]) -> Result<OwnedFd> {
        let (end, lifeline) = pipe_with(PipeFlags::CLOEXEC)?;
        patiently(word, &[first, second, end.as_fd()], |bytes, control| {
            sendmsg(&self.0, &[IoSlice::new(bytes)], control, SendFlags::NOSIGNAL)
        })?;
        Ok(lifeline)
    }

    /// Send a word.
    ///
    /// # Errors
    /// EAGAIN: the queue is full; ECONNREFUSED: nobody is there any more.
    pub fn ring(&self, word: u64) -> Result<()> {
        rustix::net::send(&self.0, &word.to_ne_bytes(), SendFlags::NOSIGNAL).map(drop)
    }
}

impl Door {
    /// Bind to `path`, where nothing may be yet.
    ///
    /// # Errors
    /// What `socket` and `bind` answer.
    pub fn bind(path: &CStr) -> Result<Self> {
        let socket = socket()?;
        bind(&socket, &SocketAddrUnix::new(path)?)?;
        // Who sends, as this process sees him.
        set_socket_passcred(&socket, true)?;
        Ok(Self(socket))
    }

    /// Bind to a name without a file that the kernel finds: five digits.
    ///
    /// # Errors
    /// What `socket`, `bind` and `getsockname` answer.
    pub fn bind_anywhere() -> Result<(Self, Found)> {
        let socket = socket()?;
        bind(&socket, &SocketAddrUnix::new_unnamed())?;
        let address = SocketAddrUnix::try_from(getsockname(&socket)?)?;
        let name = address.abstract_name().ok_or(Errno::INVAL)?;
        let mut bytes = [0; size_of::<u64>()];
        bytes.get_mut(..name.len()).ok_or(Errno::INVAL)?.copy_from_slice(name);
        Ok((Self(socket), Found(u64::from_ne_bytes(bytes))))
    }

    /// The next datagram that has come.
    pub fn receive(&self) -> Option<Received> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS), ScmCredentials(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut word = [0; 8];
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
        recvmsg(&self.0, &mut [IoSliceMut::new(&mut word)], &mut control, flags).ok()?;
        let mut received = Received {
            word: u64::from_ne_bytes(word),
            fds: Vec::new(),
            sender: 0,
        };
        for message in control.drain() {
            match message {
                RecvAncillaryMessage::ScmRights(rights) => received.fds.extend(rights),
                // What another user asks for is nothing to us.
                RecvAncillaryMessage::ScmCredentials(who) if who.uid == geteuid() => {
                    received.sender = who.pid.as_raw_pid();
                }
                _ => {}
            }
        }
        Some(received)
    }
}

impl AsFd for Door {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Whether the other end of a pipe is closed.
pub fn is_over(end: &OwnedFd) -> bool {
    let mut polled = [PollFd::new(end, PollFlags::empty())];
    poll(&mut polled, Some(&Timespec::default())).is_ok_and(|n| n > 0)
}

#[cfg(all(test, not(miri)))]
mod test {
    use super::*;

    #[test]
    fn a_word_comes_with_its_descriptors_and_nobody_rings_at_a_door_that_is_gone() {
        let path = alloc::format!("/tmp/uzswap-door-{}\0", crate::thread::pid());
        let path = CStr::from_bytes_with_nul(path.as_bytes()).unwrap();
        assert_eq!(Bell::connect(path).err(), Some(Errno::NOENT));
        let door = Door::bind(path).unwrap();
        let bell = Bell::connect(path).unwrap();
        let event = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap();
        let lifeline = bell.hand_over(7, [event.as_fd(), event.as_fd()]).unwrap();
        bell.ring(8).unwrap();
        let [first, second] = [(); 2].map(|()| door.receive().unwrap());
        assert_eq!(
            (first.word, first.fds.len(), first.sender),
            (7, 3, crate::thread::pid())
        );
        assert!(!is_over(&first.fds[2]));
        drop(lifeline);
        assert!(is_over(&first.fds[2]));
        assert_eq!((second.word, second.fds.len()), (8, 0));
        assert!(door.receive().is_none());
        drop(door);
        assert_eq!(bell.ring(9), Err(Errno::CONNREFUSED));
        rustix::fs::unlink(path).unwrap();
    }

    #[test]
    fn a_descriptor_comes_to_a_name_that_the_kernel_has_found() {
        let (door, name) = Door::bind_anywhere().unwrap();
        let event = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap();
        name.send(7, event.as_fd()).unwrap();
        let received = door.receive().unwrap();
        assert_eq!((received.word, received.fds.len()), (7, 1));
        drop(door);
        assert_eq!(name.send(8, event.as_fd()), Err(Errno::CONNREFUSED));
    }
}
