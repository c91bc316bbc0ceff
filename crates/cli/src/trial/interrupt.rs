//! Being told to end: SIGINT, SIGTERM and SIGHUP end the run that is under way, and what was
//! measured is printed.

use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::{flag, low_level};

use crate::Failure;

/// The signal that came, if one did. It stays.
pub(crate) struct Interrupt {
    number: Arc<AtomicUsize>,
    /// Can be read once one came.
    came: UnixStream,
}

impl Interrupt {
    /// From now on these signals do not end this process.
    pub(crate) fn begin() -> Result<Self, Failure> {
        let number = Arc::new(AtomicUsize::new(0));
        let begin = || {
            let (came, tell) = UnixStream::pair()?;
            for signal in [SIGINT, SIGTERM, SIGHUP] {
                // Nobody who ignores it is to be ended by it: nohup, jobs in the background.
                if !is_ignored(signal) {
                    flag::register_usize(signal, number.clone(), signal as usize)?;
                    low_level::pipe::register(signal, tell.try_clone()?)?;
                }
            }
            Ok(came)
        };
        let came = begin().map_err(|e: std::io::Error| Failure::new(format!("signals: {e}")))?;
        Ok(Self { number, came })
    }

    pub(crate) fn signal(&self) -> Option<u8> {
        let number = self.number.load(Ordering::Relaxed);
        (number != 0).then_some(number as u8)
    }
}

impl AsFd for Interrupt {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.came.as_fd()
    }
}

fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & 1 << (signal - 1) != 0)
}
