//! The system's log, as of syslog(3): there the launcher's copy in the background says what it has
//! to say, as it has no stderr.

use std::os::unix::net::UnixDatagram;
use std::path::Path;

use uzswap_sys::thread::pid;

/// Where journald and all the other daemons listen.
pub(super) const SOCKET: &str = "/dev/log";
/// A warning (4) of a daemon (3), as RFC 3164 numbers them.
const PRIORITY: u32 = 3 << 3 | 4;

/// One message. Where nobody listens, or there is no room at once, that is so: nobody waits.
pub(super) fn write(socket: &Path, line: &str) {
    let text = line.strip_prefix("uzswap: ").unwrap_or(line);
    let message = format!("<{PRIORITY}>uzswap[{}]: {text}", pid());
    let send = |log: UnixDatagram| {
        log.set_nonblocking(true)?;
        log.send_to(message.as_bytes(), socket)
    };
    let _ = UnixDatagram::unbound().and_then(send);
}
