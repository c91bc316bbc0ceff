//! What calls are made on: of each thing two, which go through the same.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, IntoRawFd};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use linux_raw_sys::{general as nr, net};
use rustix::fs::MemfdFlags;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use uzswap_sys::testing;

use crate::arena::Twin;

/// Bytes of each file at first.
pub(crate) const FILE: usize = 8 << 20;
/// Names in the directory that stays.
const ENTRIES: usize = 300;
pub(crate) const SEMAPHORES: usize = 3000;
const IPC_PRIVATE: usize = 0;
const IPC_CREAT: usize = 0o1000;
const IPC_RMID: usize = 0;

/// A pair of sockets.
pub(crate) struct Sockets {
    pub(crate) ends: [Twin; 2],
}

pub(crate) struct Things {
    base: PathBuf,
    /// Regular files, and one in memory.
    pub(crate) files: Vec<Twin>,
    /// Where reading and writing never ends.
    pub(crate) endless: Vec<Twin>,
    /// Their ends to read and to write.
    pub(crate) pipes: Vec<[Twin; 2]>,
    pub(crate) streams: Vec<Sockets>,
    pub(crate) datagrams: Vec<Sockets>,
    pub(crate) listeners: Twin,
    pub(crate) epolls: Twin,
    pub(crate) counters: Twin,
    pub(crate) timers: Twin,
    pub(crate) watches: Twin,
    /// Directories in which names come and go.
    pub(crate) places: Twin,
    /// One that stays, for both.
    pub(crate) fixed: usize,
    pub(crate) fixed_file: usize,
    pub(crate) messages: Twin,
    pub(crate) semaphores: Twin,
    pub(crate) segment: usize,
    /// A message queue, and a timer of the process.
    pub(crate) queues: Option<Twin>,
    pub(crate) clocks: Option<Twin>,
    /// Each its own place in the directory that stays.
    pub(crate) listings: Twin,
    /// A listener that both know.
    pub(crate) named: usize,
    terminals: Twin,
    spliced: [(File, File); 2],
    /// What landlock adds rules to.
    pub(crate) rules: Twin,
    pub(crate) process: usize,
    pub(crate) process_file: usize,
}

pub(crate) fn close(descriptor: isize) {
    if descriptor >= 0 {
        testing::call(nr::__NR_close, [descriptor as usize, 0, 0, 0, 0, 0], &mut []);
    }
}

fn number(what: &str, call: u32, args: [usize; 6]) -> Result<usize, String> {
    let result = testing::call(call, args, &mut []);
    usize::try_from(result).map_err(|_| format!("{what}: errno {}", -result))
}

fn twin(make: impl Fn(usize) -> Result<usize, String>) -> Result<Twin, String> {
    Ok([make(0)?, make(1)?])
}

fn said(what: impl std::fmt::Display, error: impl std::fmt::Display) -> String {
    format!("{what}: {error}")
}

fn kept(descriptor: impl IntoRawFd) -> usize {
    descriptor.into_raw_fd() as usize
}

fn of_letter(which: usize) -> &'static str {
    ["a", "b"][which]
}

fn fill(mut file: &File) -> Result<(), String> {
    let bytes: Vec<u8> = (0..FILE).map(|n| 0x80 | (n ^ n >> 9) as u8).collect();
    file.write_all(&bytes).map_err(|error| said("filling a file", error))
}

fn sockets(kind: SocketType) -> Result<Sockets, String> {
    let pair = || rustix::net::socketpair(AddressFamily::UNIX, kind, SocketFlags::NONBLOCK, None);
    let pair = || pair().map_err(|errno| said("socketpair", errno));
    let [(a, b), (c, d)] = [pair()?, pair()?];
    Ok(Sockets {
        ends: [[kept(a), kept(c)], [kept(b), kept(d)]],
    })
}

fn pipe() -> Result<[Twin; 2], String> {
    let pair = || rustix::pipe::pipe_with(rustix::pipe::PipeFlags::NONBLOCK).map_err(|errno| said("pipe", errno));
    let [(a, b), (c, d)] = [pair()?, pair()?];
    Ok([[kept(a), kept(c)], [kept(b), kept(d)]])
}

fn file_pipe() -> Result<(File, File), String> {
    let made = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::NONBLOCK);
    let (out, into) = made.map_err(|errno| said("pipe", errno))?;
    Ok((out.into(), into.into()))
}

/// Two sockets that have no names and are connected to nobody.
pub(crate) fn fresh_sockets() -> Twin {
    let kind = net::SOCK_STREAM as usize | nr::O_NONBLOCK as usize;
    let fresh = || number("socket", nr::__NR_socket, [net::AF_UNIX as usize, kind, 0, 0, 0, 0]);
    [0; 2].map(|_: usize| fresh().unwrap_or(usize::MAX))
}

fn make_directory(path: &Path) -> Result<(), String> {
    fs::create_dir_all(path).map_err(|error| said(path.display(), error))
}

/// Make the directory that stays, and what is in it.
fn make_fixed(fixed: &Path) -> Result<(), String> {
    make_directory(&fixed.join("full"))?;
    for n in 0..ENTRIES {
        let path = fixed.join("full").join(format!("{n:0width$}", width = 1 + n % 90));
        File::create(&path).map_err(|error| said(path.display(), error))?;
    }
    File::create(fixed.join("file"))
        .map_err(|error| said("a file", error))
        .and_then(|file| fill(&file))?;
    symlink("file", fixed.join("link")).map_err(|error| said("a link", error))
}

impl Things {
    pub(crate) fn new() -> Result<Self, String> {
        let process = std::process::id() as usize;
        let base = std::env::temp_dir().join(format!("uzswap-callfuzz.{process}"));
        let open = |path: &Path| File::open(path).map(kept).map_err(|error| said(path.display(), error));
        let fixed = base.join("fixed");
        make_fixed(&fixed)?;
        let regular = |name: &'static str| {
            let base = &base;
            move |which: usize| {
                let path = base.join(format!("{name}.{}", of_letter(which)));
                let mut options = File::options();
                options.read(true).write(true).create(true).truncate(true);
                let file = options.open(&path).map_err(|error| said(path.display(), error))?;
                fill(&file)?;
                Ok(kept(file))
            }
        };
        let in_memory = |_| {
            let file = rustix::fs::memfd_create("twin", MemfdFlags::ALLOW_SEALING);
            let file = File::from(file.map_err(|errno| said("memfd_create", errno))?);
            fill(&file)?;
            Ok(kept(file))
        };
        let endless = |path: &str| {
            let file = File::options().read(true).write(true).open(path);
            file.map(|file| [kept(file); 2]).map_err(|error| said(path, error))
        };
        let listener = |name: &str| {
            let path = base.join(name);
            let listener = UnixListener::bind(path).map_err(|error| said("bind", error))?;
            listener
                .set_nonblocking(true)
                .map_err(|error| said("a listener", error))?;
            Ok::<_, String>(kept(listener))
        };
        let place = |which| {
            let path = base.join(of_letter(which));
            make_directory(&path)?;
            open(&path)
        };
        let nonblocking = nr::O_NONBLOCK as usize;
        let ipc = IPC_CREAT | 0o600;
        Ok(Self {
            files: vec![twin(regular("data"))?, twin(regular("more"))?, twin(in_memory)?],
            endless: vec![endless("/dev/zero")?, endless("/dev/null")?],
            pipes: vec![pipe()?, pipe()?],
            streams: vec![sockets(SocketType::STREAM)?, sockets(SocketType::STREAM)?],
            datagrams: vec![sockets(SocketType::DGRAM)?, sockets(SocketType::SEQPACKET)?],
            listeners: [listener("listener.a")?, listener("listener.b")?],
            epolls: twin(|_| number("epoll", nr::__NR_epoll_create1, [0; 6]))?,
            counters: twin(|_| number("eventfd", nr::__NR_eventfd2, [5, nonblocking, 0, 0, 0, 0]))?,
            timers: twin(|_| number("timerfd", nr::__NR_timerfd_create, [1, nonblocking, 0, 0, 0, 0]))?,
            watches: twin(|_| number("inotify", nr::__NR_inotify_init1, [nonblocking, 0, 0, 0, 0, 0]))?,
            places: twin(place)?,
            fixed: open(&fixed)?,
            fixed_file: open(&fixed.join("file"))?,
            messages: twin(|_| number("msgget", nr::__NR_msgget, [IPC_PRIVATE, ipc, 0, 0, 0, 0]))?,
            semaphores: twin(|_| number("semget", nr::__NR_semget, [IPC_PRIVATE, SEMAPHORES, ipc, 0, 0, 0]))?,
            segment: number("shmget", nr::__NR_shmget, [IPC_PRIVATE, 1 << 16, ipc, 0, 0, 0])?,
            queues: None,
            clocks: None,
            listings: twin(|_| open(&fixed.join("full")))?,
            named: listener("named")?,
            terminals: endless("/dev/ptmx").or_else(|_| endless("/dev/null"))?,
            spliced: [file_pipe()?, file_pipe()?],
            rules: [usize::MAX; 2],
            process,
            process_file: number("pidfd_open", nr::__NR_pidfd_open, [process, 0, 0, 0, 0, 0])?,
            base,
        })
    }

    /// The path of the directory that stays, or of one of those that change.
    pub(crate) fn path(&self, name: &str) -> String {
        self.base.join(name).to_string_lossy().into_owned()
    }

    /// Be in the directory in which its names come and go.
    pub(crate) fn enter(&mut self, which: usize) {
        testing::call(nr::__NR_fchdir, [self.places[which], 0, 0, 0, 0, 0], &mut []);
    }

    /// Be where nothing changes.
    pub(crate) fn stay(&mut self, _which: usize) {
        testing::call(nr::__NR_fchdir, [self.fixed, 0, 0, 0, 0, 0], &mut []);
    }

    /// Both are to find the same limit.
    pub(crate) fn forbid_cores(&mut self) {
        let none = rustix::process::Rlimit {
            current: Some(0),
            maximum: Some(0),
        };
        let _ = rustix::process::setrlimit(rustix::process::Resource::Core, none);
    }

    pub(crate) fn spliced(&self) -> Twin {
        [0, 1].map(|n: usize| self.spliced[n].1.as_raw_fd() as usize)
    }

    /// Take out what was put into the pipes of vmsplice.
    pub(crate) fn compare_spliced(&mut self) -> Result<(), String> {
        let [a, b] = self.spliced.each_mut().map(|(out, _)| {
            let mut bytes = Vec::new();
            // It ends with EAGAIN.
            let _ = out.read_to_end(&mut bytes);
            bytes
        });
        let at = a.iter().zip(&b).position(|(a, b)| a != b);
        match a == b {
            true => Ok(()),
            false => Err(format!(
                "{} and {} bytes were spliced, which differ at {at:?}",
                a.len(),
                b.len()
            )),
        }
    }

    pub(crate) fn terminals(&self) -> Twin {
        self.terminals
    }

    pub(crate) fn rewind_listings(&mut self) {
        for listing in self.listings {
            testing::call(nr::__NR_lseek, [listing, 0, 0, 0, 0, 0], &mut []);
        }
    }

    /// The files of each pair hold the same.
    pub(crate) fn compare_files(&self) -> Result<(), String> {
        let read = |descriptor: usize| {
            fs::read(format!("/proc/self/fd/{descriptor}")).map_err(|error| said("reading it again", error))
        };
        for [a, b] in &self.files {
            let (a, b) = (read(*a)?, read(*b)?);
            if a != b {
                let at = a.iter().zip(&b).position(|(a, b)| a != b);
                return Err(format!("files of {} and {} bytes differ at {at:?}", a.len(), b.len()));
            }
        }
        Ok(())
    }
}

impl Drop for Things {
    fn drop(&mut self) {
        let _ = std::env::set_current_dir("/");
        let _ = fs::remove_dir_all(&self.base);
        let control = |call, args| testing::call(call, args, &mut []);
        for which in 0..2 {
            control(nr::__NR_msgctl, [self.messages[which], IPC_RMID, 0, 0, 0, 0]);
            control(nr::__NR_semctl, [self.semaphores[which], 0, IPC_RMID, 0, 0, 0]);
        }
        control(nr::__NR_shmctl, [self.segment, IPC_RMID, 0, 0, 0, 0]);
    }
}
