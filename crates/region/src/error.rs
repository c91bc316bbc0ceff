//! Why something cannot be had.

use core::fmt;
use std::borrow::Cow;

use uzswap_sys::Errno;

/// Why something cannot be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// A value breaks a rule: one line that names both.
    Value(String),
    /// The system lacks or refuses something.
    System {
        /// What.
        what: Cow<'static, str>,
        /// Its errno.
        errno: i32,
    },
}

impl Error {
    pub(crate) fn system(what: impl Into<Cow<'static, str>>) -> impl FnOnce(Errno) -> Self {
        let what = what.into();
        move |errno| Self::System {
            what,
            errno: errno.raw_os_error(),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value(line) => f.write_str(line),
            Self::System { what, errno } => {
                write!(f, "{what}: {}", std::io::Error::from_raw_os_error(*errno))
            }
        }
    }
}

impl std::error::Error for Error {}

/// What every region needs, and where it can be had.
pub(crate) const USERFAULTFD: &str =
    "userfaultfd with move (Linux 6.8 or later, where no filter of system calls forbids it)";
