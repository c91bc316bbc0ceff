//! What the kernel counted for this process, all of its threads together.

/// Clock ticks a second of all times in /proc: USER_HZ, 100 on every Linux of x86-64.
const TICKS: f64 = 100.0;

/// Counted since the process began.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct ProcStat {
    pub(crate) minor_faults: u64,
    pub(crate) major_faults: u64,
    pub(crate) user_seconds: f64,
    pub(crate) sys_seconds: f64,
}

impl ProcStat {
    /// All zeros where /proc is not mounted.
    pub(crate) fn own() -> Self {
        let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
        parse(&text).unwrap_or_default()
    }

    /// What was counted since `before`.
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            minor_faults: self.minor_faults - before.minor_faults,
            major_faults: self.major_faults - before.major_faults,
            user_seconds: self.user_seconds - before.user_seconds,
            sys_seconds: self.sys_seconds - before.sys_seconds,
        }
    }
}

/// The name of a program may have spaces and parentheses, so fields are counted from the last one
/// on.
fn parse(text: &str) -> Option<ProcStat> {
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    Some(ProcStat {
        minor_faults: number(7)?,
        major_faults: number(9)?,
        user_seconds: number(11)? as f64 / TICKS,
        sys_seconds: number(12)? as f64 / TICKS,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_counted_after_the_name() {
        let text = "7 (a) b) S 1 7 7 0 -1 4194304 100 3 20 5 250 75 1200 340 20 0 1 0 5\n";
        let expected = ProcStat {
            minor_faults: 100,
            major_faults: 20,
            user_seconds: 2.5,
            sys_seconds: 0.75,
        };
        assert_eq!(parse(text), Some(expected));
    }
}
