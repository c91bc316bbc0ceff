//! Printing that never ends the launcher: whoever reads may have gone, and a disk may be full.

use std::fmt::Arguments;
use std::io::{ErrorKind, Write};

use crate::{Failure, log};

/// One line on stderr, in one write. Where it goes nowhere that is so.
pub(crate) fn print_error(line: &str) {
    let _ = std::io::stderr().write_all(format!("{line}\n").as_bytes());
}

/// A line for whoever listens to the log.
pub(crate) fn warn(line: Arguments<'_>) {
    log::tell(log::Event::message(&line.to_string()));
}

/// What was asked for, on stdout.
///
/// # Errors
/// It could not be written. A reader that has gone wants no more, which is no error.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    write(text).map(drop)
}

/// The same; whether anybody reads it.
///
/// # Errors
/// As of [`print()`].
pub(crate) fn write(text: &str) -> Result<bool, Failure> {
    let mut out = std::io::stdout().lock();
    printed(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

/// What became of something on stdout; whether anybody reads it.
///
/// # Errors
/// As of [`print()`].
pub(crate) fn printed(result: std::io::Result<()>) -> Result<bool, Failure> {
    match result {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(e) => Err(Failure::new(format!("standard output: {e}"))),
    }
}

/// A line of the log, which is stderr: `eprintln!` panics where that is a pipe that nobody reads.
macro_rules! warn_line {
    ($($arg:tt)*) => { $crate::output::warn(format_args!($($arg)*)) };
}

/// A line on stdout, with the newline; an error is returned from the caller.
macro_rules! say {
    ($($arg:tt)*) => { $crate::output::print(&(format!($($arg)*) + "\n"))? };
}

pub(crate) use {say, warn_line};
