//! What is read off a run, and how it is printed.

use super::trial::Observed;
use crate::samples::Samples;
use crate::table::grouped;

/// A line of the tables.
pub(crate) struct Metric {
    pub(crate) label: &'static str,
    /// `None`: the run did not say.
    pub(crate) read: fn(&Observed) -> Option<f64>,
    pub(crate) digits: usize,
    /// Times differ from round to round: their spread is printed too, and how a row compares with
    /// the first of its family.
    pub(crate) is_time: bool,
}

const fn time(label: &'static str, read: fn(&Observed) -> Option<f64>) -> Metric {
    Metric {
        label,
        read,
        digits: 2,
        is_time: true,
    }
}

const fn size(label: &'static str, read: fn(&Observed) -> Option<f64>, digits: usize) -> Metric {
    Metric {
        label,
        read,
        digits,
        is_time: false,
    }
}

/// In the order in which they are printed.
pub(crate) const METRICS: [Metric; 11] = [
    time("write throughput (MB/s)", |run| rate(&run.stdout, "write")),
    time("re-read throughput (MB/s)", |run| rate(&run.stdout, "seq")),
    time("elapsed time (sec)", |run| Some(run.elapsed)),
    time("sys time (sec)", |run| Some(run.cpu.sys)),
    time("user time (sec)", |run| Some(run.cpu.user)),
    size("zswpout", |run| counter(run, "zswpout"), 0),
    size("zswpin", |run| counter(run, "zswpin"), 0),
    size("zswpwb", |run| counter(run, "zswpwb"), 0),
    size("pswpout", |run| counter(run, "pswpout"), 0),
    size(
        "pool maximum (MiB)",
        |run| Some(run.pool.bytes as f64 / f64::from(1 << 20)),
        1,
    ),
    size("ratio", |run| Some(run.pool.ratio()), 2),
];

impl Metric {
    /// A value with as many digits as it deserves.
    pub(crate) fn format(&self, samples: &Samples) -> String {
        let median = samples.median();
        match self.digits {
            // A pool that no look at the group file has seen.
            1.. if median == 0.0 && !self.is_time => "-".to_owned(),
            0 => grouped(median.round() as u64),
            digits => format!("{median:.digits$}"),
        }
    }
}

fn counter(run: &Observed, name: &str) -> Option<f64> {
    run.counters.get(name)?.as_f64()
}

/// The MB/s of a pass, from the line that uzswap-workload prints.
fn rate(stdout: &str, pass: &str) -> Option<f64> {
    let line = stdout
        .lines()
        .find(|line| line.split_whitespace().next() == Some(pass))?;
    let words: Vec<&str> = line.split_whitespace().collect();
    let unit = words.iter().position(|word| *word == "MB/s")?;
    words.get(unit.checked_sub(1)?)?.parse().ok()
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn rates_are_read_from_the_lines_of_the_workload() {
        let stdout = "write 0.251 s  512.5 MB/s  0 bad pages\nseq   0.500 s  256.0 MB/s  0 bad pages\n";
        assert_eq!(rate(stdout, "write"), Some(512.5));
        assert_eq!(rate(stdout, "seq"), Some(256.0));
        assert_eq!(rate(stdout, "rand"), None);
        assert_eq!(rate("write", "write"), None);
    }
}
