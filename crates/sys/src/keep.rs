//! Descriptors that must outlive the threads that use them.
//!
//! A process ends by all its threads ending at once, the pager's among them. If a userfaultfd is
//! gone before the last thread of the program is, a system call in the middle of copying from
//! memory finds missing pages that nobody watches any more: zeros, which it writes to a file or a
//! socket. So the launcher holds a copy until the whole process is gone. With the userfaultfd still
//! there, and nobody to serve it, the dying thread's copy fails, as it would at any fatal signal.
//!
//! A pager holds the one end of a pipe, its *lifeline*. Where that is cut and the process is not
//! gone, somebody may go on with its memory:
//!
//! ```text
//! SERVED   its pager lives; a byte on the lifeline: all that was swapped out is back,
//!    |     nothing is to be kept
//!    |     the lifeline is cut, or the process is gone
//!    v
//! PARTING  its threads die, or one replaces the image (execve) and the kernel reads its memory
//!    |     still: that one's faults fail. For a second at most, or until the process is gone or
//!    |     nobody has the memory
//!    v
//! OUTLIVED other processes have it, made with CLONE_VM or vfork, and their pager was killed.
//!          Where they need a page it is poisoned (SIGBUS), with one line said: what was there is
//!          lost to them, and zeros would be a lie. Until nobody has the memory
//! ```

use core::ffi::CStr;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{fstat, ftruncate};
use rustix::io::{Errno, Result};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{PidfdFlags, Resource, Rlimit, getpid, getrlimit, pidfd_open, setrlimit};
use rustix::thread::Timespec;

use alloc::string::String;
use alloc::vec::Vec;

use crate::PAGE_SIZE;
use crate::ask::{Ask, asks};
use crate::door::{Door, FDS, Received, send};
use crate::thread::pid;
use crate::time::now_ns;
use crate::uffd::{Event, Uffd};

pub(crate) const ANSWERED_WITHIN: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };
/// How long a process that lost its pager may take to end.
const GRACE_NS: u64 = 1_000_000_000;
/// How often it is looked whether anybody has the memory.
const LOOK_NS: u64 = 20_000_000;

/// Have whoever is bound to `path` keep a copy of `fd` until this process is gone, or a while after
/// the lifeline that is returned was closed, which must be in nobody's hands but the pager's.
///
/// # Errors
/// What `socket`, `pidfd_open` and `sendmsg` answer; ENOENT or ECONNREFUSED: nobody is bound there.
pub fn hand_over(path: &CStr, fd: BorrowedFd<'_>) -> Result<OwnedFd> {
    let process = pidfd_open(getpid(), PidfdFlags::empty())?;
    let (end, lifeline) = pipe_with(PipeFlags::CLOEXEC)?;
    send(path, pid() as u64, &[fd, process.as_fd(), end.as_fd()]).map(|()| lifeline)
}

/// Have whoever is bound to `path` lengthen a nameless file to `len` bytes, which RLIMIT_FSIZE
/// forbids this process. Returns when that is done, or could not be done.
///
/// # Errors
/// As for [`hand_over`].
pub fn have_lengthened(path: &CStr, file: BorrowedFd<'_>, len: u64) -> Result<()> {
    let (done, theirs) = pipe_with(PipeFlags::CLOEXEC)?;
    send(path, len, &[file, theirs.as_fd()])?;
    drop(theirs);
    // They close it. Where the launcher is stopped, the file stays as it is.
    poll(&mut [PollFd::new(&done, PollFlags::IN)], Some(&ANSWERED_WITHIN)).map(drop)
}

/// Lengthen `file` for a process that may not. Only one without a name: what members may write to
/// files of others is not for us to change. What is forbidden here as well is not tried: SIGXFSZ
/// would end this process.
fn lengthen(file: &OwnedFd, len: u64) {
    let is_ours = fstat(file).is_ok_and(|stat| stat.st_nlink == 0 && (stat.st_size as u64) < len);
    let may = getrlimit(Resource::Fsize).current.is_none_or(|limit| len <= limit);
    if is_ours && may {
        // As long as it is, if not: they look.
        let _ = ftruncate(file, len);
    }
}

/// All that was swapped out is back: what is kept for this `lifeline` needs to be no longer.
pub fn let_go(lifeline: &OwnedFd) {
    let _ = rustix::io::write(lifeline, &[0]);
}

/// Keeps what it is handed.
pub struct Keeper {
    door: Door,
    kept: Vec<Kept>,
    lines: Vec<String>,
    asks: Vec<Ask>,
}

/// What it is told.
enum Message {
    Keep(Kept),
    Trace(Ask),
    /// It is done, or nobody knows what it was.
    Nothing,
}

/// Of a process that had this id.
struct Kept {
    pid: i32,
    memory: Uffd,
    state: State,
}

enum State {
    Served { process: OwnedFd, lifeline: OwnedFd },
    Parting { process: OwnedFd, since: u64 },
    Outlived { is_said: bool },
    Over,
}

impl Kept {
    /// The next state, and forked children of those who have the memory.
    fn step(&mut self, lines: &mut Vec<String>) -> Vec<Kept> {
        let now = now_ns();
        let mut children = Vec::new();
        self.state = match core::mem::replace(&mut self.state, State::Over) {
            State::Served { process, lifeline } => match (is_readable(&process), read_lifeline(&lifeline)) {
                (_, Some(true)) => State::Over,
                (false, None) => State::Served { process, lifeline },
                (true, _) | (_, Some(false)) => State::Parting { process, since: now },
            },
            state => state,
        };
        if let State::Served { .. } | State::Over = self.state {
            return children;
        }
        if !self.memory.has_memory() {
            self.state = State::Over;
            return children;
        }
        if let State::Parting { process, since } = &self.state {
            let _ = self.memory.read_events(|event| match event {
                // It is replacing the image, as all its other threads are gone.
                Event::Fault { addr, thread, .. } if thread == self.pid => fail(&self.memory, addr),
                // It may be dying.
                Event::Fault { .. } => {}
                event => children.extend(forked(self.pid, event)),
            });
            if is_readable(process) || now - *since > GRACE_NS {
                // Whoever waits still asks again, also whose fault its pager had read when it was
                // killed: nobody else knows of that one.
                wake_all(&self.memory);
                self.state = State::Outlived { is_said: false };
            }
        } else if let State::Outlived { is_said } = &mut self.state {
            let _ = self.memory.read_events(|event| match event {
                Event::Fault { addr, thread, .. } => {
                    if thread != self.pid && !core::mem::replace(is_said, true) {
                        lines.push(alloc::format!(
                            "uzswap: process {thread} gets SIGBUS: it has outlived process {}, which it shares its memory with, and what was swapped \
                             out is lost with that one's pager; end the latter by exit, or the former first",
                            self.pid
                        ));
                    }
                    fail(&self.memory, addr);
                }
                event => children.extend(forked(self.pid, event)),
            });
        }
        children
    }

    /// What is waited on.
    fn watched(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let memory = self.memory.as_fd();
        let (first, second) = match &self.state {
            State::Served { process, lifeline } => (process.as_fd(), Some(lifeline.as_fd())),
            State::Parting { process, .. } => (process.as_fd(), Some(memory)),
            State::Outlived { .. } | State::Over => (memory, None),
        };
        core::iter::once(first).chain(second)
    }

    fn is_orphan(&self) -> bool {
        !matches!(self.state, State::Served { .. })
    }
}

/// Wake all who wait for any page, also those whose faults somebody has read and not served.
fn wake_all(memory: &Uffd) {
    /// Above what nobody may map (`vm.mmap_min_addr`).
    const FIRST: usize = 1 << 20;
    const END: usize = (1 << 47) - PAGE_SIZE;
    memory.wake(FIRST, END - FIRST);
}

/// Whoever waits for the page gets SIGBUS, or EFAULT of a system call.
fn fail(memory: &Uffd, addr: usize) {
    let page = addr & !(PAGE_SIZE - 1);
    match memory.poison(page) {
        Ok(()) => {}
        // Linux before 6.6, where it waits until it is killed.
        Err(Errno::INVAL | Errno::NOTTY) => {}
        // There, protected from writing perhaps, which nobody needs any more; or mapped anew: it
        // looks again.
        Err(_) => {
            let _ = memory.unprotect(page, PAGE_SIZE);
            memory.wake(page, PAGE_SIZE);
        }
    }
}

/// The child of a process that has the memory of process `pid`, which it has a copy of: as little
/// of it as its parent.
fn forked(pid: i32, event: Event) -> Option<Kept> {
    match event {
        Event::Fork(memory) => Some(Kept {
            pid,
            memory,
            state: State::Outlived { is_said: false },
        }),
        _ => None,
    }
}

fn is_readable(fd: &OwnedFd) -> bool {
    let mut polled = [PollFd::new(fd, PollFlags::IN)];
    poll(&mut polled, Some(&Timespec::default())).is_ok_and(|n| n > 0)
}

/// `Some`: it is cut, or (true) it was said that nothing is to be kept.
fn read_lifeline(lifeline: &OwnedFd) -> Option<bool> {
    if !is_readable(lifeline) {
        return None;
    }
    Some(rustix::io::read(lifeline, &mut [0; 1]) == Ok(1))
}

impl Keeper {
    /// Bind to `path`, where nothing may be yet.
    ///
    /// # Errors
    /// What `socket` and `bind` answer.
    pub fn bind(path: &CStr) -> Result<Self> {
        Ok(Self {
            door: Door::bind(path)?,
            kept: Vec::new(),
            lines: Vec::new(),
            asks: Vec::new(),
        })
    }

    /// Have room for the descriptors of `processes` processes, if this process may. Children
    /// started from now on inherit that.
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

    /// Whether processes have memory whose own has lost its pager.
    pub fn is_outlived(&self) -> bool {
        self.kept.iter().any(Kept::is_orphan)
    }

    /// What is to be said on stderr, a line each.
    pub fn lines(&mut self) -> Vec<String> {
        core::mem::take(&mut self.lines)
    }

    /// Who asks to be traced.
    pub fn asks(&mut self) -> Vec<Ask> {
        core::mem::take(&mut self.asks)
    }

    /// The descriptors that it works with.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let kept = self.kept.iter();
        let kept = kept.flat_map(|kept| core::iter::once(kept.memory.as_fd()).chain(kept.watched()));
        core::iter::once(self.door.as_fd()).chain(kept)
    }

    /// Wait for something to happen, here or to `also`, for `wait_ns` at most, take what is handed
    /// over and drop what nobody needs any more.
    ///
    /// # Errors
    /// What `poll` answers, but for an interruption.
    pub fn step(&mut self, also: Option<BorrowedFd<'_>>, wait_ns: Option<u64>) -> Result<()> {
        let watched = self.kept.iter().flat_map(Kept::watched);
        let mut polled: Vec<_> = watched
            .chain([self.door.as_fd()])
            .chain(also)
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
            .collect();
        let look = self.is_outlived().then_some(LOOK_NS);
        let wait_ns = look.into_iter().chain(wait_ns).min();
        let timeout = wait_ns.map(|ns| Timespec {
            tv_sec: (ns / 1_000_000_000) as _,
            tv_nsec: (ns % 1_000_000_000) as _,
        });
        match poll(&mut polled, timeout.as_ref()) {
            Ok(0) if !self.is_outlived() => return Ok(()),
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
        let mut seen = polled.iter().map(|fd| !fd.revents().is_empty());
        let is_due: Vec<bool> = self
            .kept
            .iter()
            .map(|kept| {
                seen.by_ref()
                    .take(kept.watched().count())
                    .fold(kept.is_orphan(), |due, seen| due | seen)
            })
            .collect();
        let mut children = Vec::new();
        for (kept, _) in self.kept.iter_mut().zip(is_due).filter(|(_, is_due)| *is_due) {
            children.extend(kept.step(&mut self.lines));
        }
        self.kept.extend(children);
        self.kept.retain(|kept| !matches!(kept.state, State::Over));
        while let Some(message) = self.receive() {
            match message {
                Message::Keep(kept) => self.kept.push(kept),
                Message::Trace(ask) => self.asks.push(ask),
                Message::Nothing => {}
            }
        }
        Ok(())
    }

    /// The next message.
    fn receive(&self) -> Option<Message> {
        let Received { word, fds, sender } = self.door.receive()?;
        let mut fds = fds.into_iter();
        Some(match [fds.next(), fds.next(), fds.next()] {
            [Some(answer), None, None] => asks(word, sender, answer).map_or(Message::Nothing, Message::Trace),
            [Some(file), Some(_done), None] => {
                lengthen(&file, word);
                Message::Nothing
            }
            [Some(memory), Some(process), Some(lifeline)] => Message::Keep(Kept {
                pid: word as i32,
                memory: Uffd::received(memory),
                state: State::Served { process, lifeline },
            }),
            _ => Message::Nothing,
        })
    }
}

#[cfg(all(test, not(miri)))]
mod test {
    extern crate std;
    use super::*;

    #[test]
    fn a_descriptor_is_kept() {
        let path = alloc::format!("/tmp/uzswap-keep-{}\0", crate::thread::pid());
        let path = CStr::from_bytes_with_nul(path.as_bytes()).unwrap();
        // No userfaultfd: nobody asks it anything before it is let go.
        let event = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap();
        assert_eq!(hand_over(path, event.as_fd()).map(drop), Err(Errno::NOENT));
        let mut keeper = Keeper::bind(path).unwrap();
        let lifeline = hand_over(path, event.as_fd()).unwrap();
        keeper.step(None, None).unwrap();
        assert_eq!(keeper.kept(), 1);
        let_go(&lifeline);
        while keeper.kept() > 0 {
            keeper.step(None, None).unwrap();
        }
        rustix::fs::unlink(path).unwrap();
    }

    /// Its pager was killed between reading the fault and serving it.
    #[test]
    fn who_waits_for_a_page_that_the_dead_have_read_asks_again() {
        let Ok(memory) = Uffd::open(0) else { return };
        let mapping = crate::mapping::Mapping::reserve(PAGE_SIZE).unwrap();
        memory.register(mapping.addr(), PAGE_SIZE).unwrap();
        let ended = rustix::event::eventfd(1, rustix::event::EventfdFlags::CLOEXEC).unwrap();
        let asked = |memory: &Uffd| {
            let mut faults = 0;
            while faults == 0 {
                let _ = memory.read_events(|event| faults += u32::from(matches!(event, Event::Fault { .. })));
                std::thread::yield_now();
            }
        };
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| mapping.bytes(0, 1)[0]);
            asked(&memory);
            let mut kept = Kept {
                pid: pid(),
                memory,
                state: State::Parting {
                    process: ended,
                    since: now_ns(),
                },
            };
            kept.step(&mut Vec::new());
            assert!(matches!(kept.state, State::Outlived { .. }));
            asked(&kept.memory);
            kept.memory.copy(mapping.addr(), &[7; PAGE_SIZE], true);
            assert_eq!(waits.join().unwrap(), 7);
        });
    }

    #[test]
    fn files_without_a_name_are_lengthened() {
        let path = alloc::format!("/tmp/uzswap-lengthen-{}\0", crate::thread::pid());
        let path = CStr::from_bytes_with_nul(path.as_bytes()).unwrap();
        let mut keeper = Keeper::bind(path).unwrap();
        let named = alloc::format!("/tmp/uzswap-named-{}", crate::thread::pid());
        let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::CREATE;
        let file = rustix::fs::open(named.as_str(), flags, rustix::fs::Mode::RWXU).unwrap();
        let mut lengthen = |len| {
            std::thread::scope(|scope| {
                let asks = scope.spawn(|| have_lengthened(path, file.as_fd(), len));
                keeper.step(None, None).unwrap();
                asks.join().unwrap().unwrap();
            });
            fstat(&file).unwrap().st_size
        };
        assert_eq!(lengthen(4096), 0);
        rustix::fs::unlink(named.as_str()).unwrap();
        assert_eq!(lengthen(8192), 8192);
        assert_eq!(lengthen(4096), 8192);
        let limit = getrlimit(Resource::Fsize);
        let current = Some(1 << 30);
        setrlimit(Resource::Fsize, Rlimit { current, ..limit }).unwrap();
        assert_eq!(lengthen(2 << 30), 8192);
        assert_eq!(lengthen(1 << 30), 1 << 30);
        setrlimit(Resource::Fsize, limit).unwrap();
        assert_eq!(keeper.kept(), 0);
        rustix::fs::unlink(path).unwrap();
    }
}
