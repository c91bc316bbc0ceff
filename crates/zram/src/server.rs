//! The socket, and a thread for each connection.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io::{self, BufReader, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::Mode;
use rustix::process::umask;

use crate::device::Device;
use crate::nbd::handshake::{Outcome, shake_hands};
use crate::nbd::transmission::Transmission;

/// Connections at a time; each has a thread and the working memory of a compressor.
const CONNECTIONS_MAX: usize = 64;
/// Bytes of a path in the address of a socket, less the zero behind it.
const PATH_MAX: usize = 107;
/// How long clients may take to read their last replies.
const FAREWELL: Duration = Duration::from_secs(2);
/// Where there is no descriptor or thread for a client: how long it waits.
const PAUSE: Duration = Duration::from_millis(100);
/// A request and a page that is to be written come with one read.
const READ_AHEAD: usize = 8 << 10;

/// Why there is no socket.
#[derive(Debug)]
pub enum BindError {
    /// Something that is no socket has this name.
    NoSocket,
    /// Somebody listens there.
    InUse,
    /// The address of a socket does not hold the path.
    Long,
    /// What the system answered.
    System(io::Error),
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSocket => f.write_str("must be a new name: there is something that is no socket"),
            Self::InUse => f.write_str("must be a new name: somebody listens there"),
            Self::Long => write!(f, "must have at most {PATH_MAX} bytes"),
            Self::System(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for BindError {}

/// A socket of ours, removed when it is dropped.
pub struct Server {
    listener: UnixListener,
    path: PathBuf,
    /// Device and inode of the socket's name.
    identity: Option<(u64, u64)>,
}

/// The clients that are there, by number.
#[derive(Default)]
struct Clients {
    streams: Mutex<BTreeMap<u64, UnixStream>>,
    one_left: Condvar,
}

impl Server {
    /// Listen at `path`, for this user only. The name of a server that is gone is taken over.
    ///
    /// # Errors
    /// Why there is no socket.
    pub fn bind(path: &Path) -> Result<Self, BindError> {
        if path.as_os_str().len() > PATH_MAX {
            return Err(BindError::Long);
        }
        remove_stale(path)?;
        // Nobody else may connect, from the first moment on. The mask is the process's: other
        // threads make no files now.
        let mask = umask(Mode::RWXG | Mode::RWXO | Mode::XUSR);
        let bound = UnixListener::bind(path);
        umask(mask);
        let listener = bound.map_err(BindError::System)?;
        let server = Self {
            listener,
            path: path.to_owned(),
            identity: identity(path),
        };
        server.listener.set_nonblocking(true).map_err(BindError::System)?;
        Ok(server)
    }

    /// Serve `device` until `ends` says so, which is asked whenever `event` can be read. Clients
    /// are answered what they have asked for by then.
    ///
    /// # Errors
    /// Those of waiting.
    pub fn serve(&self, device: &Device, event: BorrowedFd<'_>, ends: impl FnMut() -> bool) -> io::Result<()> {
        let clients = Clients::default();
        thread::scope(|scope| {
            let waited = self.accept_until(
                event,
                ends,
                |stream, number| {
                    let (clients, name) = (&clients, format!("nbd-{number}"));
                    let serve = move || {
                        // An error is the client's: it has gone.
                        let _ = serve_client(&stream, device);
                        clients.leave(number);
                    };
                    thread::Builder::new().name(name).spawn_scoped(scope, serve).map(drop)
                },
                &clients,
            );
            clients.say_farewell();
            waited
        })
    }

    fn accept_until(
        &self,
        event: BorrowedFd<'_>,
        mut ends: impl FnMut() -> bool,
        spawn: impl Fn(UnixStream, u64) -> io::Result<()>,
        clients: &Clients,
    ) -> io::Result<()> {
        for number in 0.. {
            loop {
                let mut fds = [&event, &self.listener.as_fd()].map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN));
                match poll(&mut fds, None) {
                    Err(rustix::io::Errno::INTR) => continue,
                    other => other?,
                };
                if !fds[0].revents().is_empty() && ends() {
                    return Ok(());
                }
                if !fds[1].revents().is_empty() {
                    break;
                }
            }
            let welcomed = self.listener.accept().and_then(|(stream, _)| {
                stream.set_nonblocking(false)?;
                if clients.enter(number, stream.try_clone()?) {
                    spawn(stream, number).inspect_err(|_| clients.leave(number))?;
                }
                Ok(())
            });
            // One that went away in between is no reason to wait.
            if welcomed.is_err_and(|e| e.kind() != ErrorKind::WouldBlock) {
                thread::sleep(PAUSE);
            }
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.identity.is_some() && identity(&self.path) == self.identity {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    let found = fs::symlink_metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}

/// Remove a socket at which nobody listens.
fn remove_stale(path: &Path) -> Result<(), BindError> {
    match fs::symlink_metadata(path) {
        Ok(found) if !found.file_type().is_socket() => Err(BindError::NoSocket),
        Ok(_) => match UnixStream::connect(path) {
            Err(e) if e.kind() == ErrorKind::ConnectionRefused => fs::remove_file(path).map_err(BindError::System),
            Err(e) => Err(BindError::System(e)),
            Ok(_) => Err(BindError::InUse),
        },
        Err(_) => Ok(()),
    }
}

/// A connection: read with a little ahead, written at once.
struct Connection<'a> {
    input: BufReader<&'a UnixStream>,
    output: &'a UnixStream,
}

impl Read for Connection<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.input.read(buf)
    }
}

impl Write for Connection<'_> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.output.write(buf)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}

fn serve_client(stream: &UnixStream, device: &Device) -> io::Result<()> {
    let mut connection = Connection {
        input: BufReader::with_capacity(READ_AHEAD, stream),
        output: stream,
    };
    match shake_hands(&mut connection, device.bytes())? {
        Outcome::Transmission => Transmission::new(connection, device).serve(),
        Outcome::Close => Ok(()),
    }
}

impl Clients {
    fn streams(&self) -> MutexGuard<'_, BTreeMap<u64, UnixStream>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// False: there are too many.
    fn enter(&self, number: u64, stream: UnixStream) -> bool {
        let mut streams = self.streams();
        let is_welcome = streams.len() < CONNECTIONS_MAX;
        if is_welcome {
            streams.insert(number, stream);
        }
        is_welcome
    }

    fn leave(&self, number: u64) {
        if let Some(stream) = self.streams().remove(&number) {
            // Whoever has another descriptor of it learns that this is the end.
            let _ = stream.shutdown(Shutdown::Both);
        }
        self.one_left.notify_all();
    }

    /// Have no requests follow; after a while, hang up on those that do not read their replies.
    fn say_farewell(&self) {
        self.shut(Shutdown::Read);
        let streams = self.streams();
        let waited = self
            .one_left
            .wait_timeout_while(streams, FAREWELL, |streams| !streams.is_empty());
        drop(waited);
        self.shut(Shutdown::Both);
    }

    fn shut(&self, how: Shutdown) {
        for stream in self.streams().values() {
            let _ = stream.shutdown(how);
        }
    }
}
