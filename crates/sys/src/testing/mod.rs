//! What programs that test need and nothing else: memory, forks, calls and other processes as
//! programs have them, through libc, so that what the agent has replaced there runs.

mod calls;
mod lodger;
mod memory;
mod process;

pub use calls::{call, resident_pages};
pub use lodger::{Lodger, Pattern};
pub use memory::{Access, Kind, Memory, lock, shared_words};
pub use process::{adopt_orphans, fork_and, reap, reap_any};

use core::ffi::c_int;

use rustix::io::Errno;

unsafe extern "C" {
    fn __errno_location() -> *mut c_int;
}

/// What the last call of this thread that failed says.
fn errno() -> Errno {
    // SAFETY: libc gives each of its threads an errno, and this is one.
    Errno::from_raw_os_error(unsafe { *__errno_location() })
}
