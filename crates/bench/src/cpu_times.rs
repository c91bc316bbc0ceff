//! Processor time of this process, of its children, as getrusage(2) has it, and of others, from
//! /proc/PID/stat.

use crate::Failure;

/// Clock ticks a second of all times in /proc: USER_HZ, 100 on every Linux of x86-64.
const TICKS: f64 = 100.0;
/// Fields of /proc/self/stat after the name: utime, stime, cutime, cstime.
const UTIME: usize = 11;

/// Seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct CpuTimes {
    pub(crate) user: f64,
    pub(crate) sys: f64,
}

impl CpuTimes {
    /// Of this process.
    pub(crate) fn own() -> Result<Self, Failure> {
        read(UTIME)
    }

    /// Of the children that were waited for, and of theirs.
    pub(crate) fn children() -> Result<Self, Failure> {
        read(UTIME + 2)
    }

    /// User and system time, seconds.
    pub(crate) fn total(self) -> f64 {
        self.user + self.sys
    }

    /// What was used since `before`.
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            user: self.user - before.user,
            sys: self.sys - before.sys,
        }
    }
}

/// Of a process, all its threads together. `None`: it is not there.
pub(crate) fn of_process(pid: u32) -> Option<CpuTimes> {
    parse(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?, UTIME)
}

fn read(field: usize) -> Result<CpuTimes, Failure> {
    let text = std::fs::read_to_string("/proc/self/stat").map_err(|e| Failure::new(format!("/proc/self/stat: {e}")))?;
    parse(&text, field).ok_or_else(|| Failure::new(format!("/proc/self/stat: cannot read '{}'", text.trim_end())))
}

/// The name of a program may have spaces and parentheses, so fields are counted from the last one
/// on.
fn parse(text: &str, field: usize) -> Option<CpuTimes> {
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let seconds = |i: usize| Some(fields.get(i)?.parse::<u64>().ok()? as f64 / TICKS);
    Some(CpuTimes {
        user: seconds(field)?,
        sys: seconds(field + 1)?,
    })
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn fields_are_counted_after_the_name() {
        let text = "7 (a) b) S 1 7 7 0 -1 4194304 100 0 0 0 250 75 1200 340 20 0 1 0 5\n";
        assert_eq!(parse(text, UTIME), Some(CpuTimes { user: 2.5, sys: 0.75 }));
        assert_eq!(parse(text, UTIME + 2), Some(CpuTimes { user: 12.0, sys: 3.4 }));
        assert!(CpuTimes::own().is_ok());
    }
}
