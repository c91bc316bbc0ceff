//! What a fill answers.

use rustix::io::{Errno, Result};

/// How far a fill came: `bytes` were done; `stop` says what the next page met, or `None` when all
/// were done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filled {
    /// Bytes done.
    pub bytes: usize,
    /// Why not more.
    pub stop: Option<Errno>,
}

impl Filled {
    /// `field` is the result field of the ioctl's argument: bytes done, a negative errno, or
    /// untouched.
    pub(super) fn decode(result: Result<()>, field: i64, len: usize) -> Self {
        match (result, usize::try_from(field)) {
            (Ok(()), _) => Self { bytes: len, stop: None },
            // A partial fill answers EAGAIN with the bytes done; what stopped it shows when the
            // rest is tried again.
            (Err(Errno::AGAIN), Ok(bytes)) if bytes > 0 => Self {
                bytes: bytes.min(len),
                stop: None,
            },
            (Err(errno), _) => Self {
                bytes: 0,
                stop: Some(errno),
            },
        }
    }
}
