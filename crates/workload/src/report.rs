//! A pass's line of JSON: numbers and plain names only, so that it needs no library.

use crate::latency::Histogram;
use crate::proc_stat::ProcStat;

/// What a pass came to.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) pass: String,
    pub(crate) seconds: f64,
    /// Pages touched.
    pub(crate) touches: u64,
    /// Pages that were not as written.
    pub(crate) bad_pages: u64,
    pub(crate) counted: ProcStat,
    /// How long the first access to each page took.
    pub(crate) touch_ns: Histogram,
}

impl Report {
    /// One line, without its end.
    pub(crate) fn to_json(&self) -> String {
        let buckets: Vec<String> = self
            .touch_ns
            .used()
            .map(|(ns, count)| format!("\"{ns}\":{count}"))
            .collect();
        let Self {
            pass,
            seconds,
            touches,
            bad_pages,
            counted,
            ..
        } = self;
        format!(
            "{{\"pass\":\"{pass}\",\"seconds\":{seconds:.6},\"touches\":{touches},\"bad_pages\":{bad_pages},\
             \"minor_faults\":{},\"major_faults\":{},\"user_seconds\":{:.2},\"sys_seconds\":{:.2},\
             \"touch_ns\":{{{}}}}}",
            counted.minor_faults,
            counted.major_faults,
            counted.user_seconds,
            counted.sys_seconds,
            buckets.join(",")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_every_figure() {
        let mut report = Report {
            pass: "rand:w10".to_owned(),
            seconds: 1.5,
            touches: 3,
            ..Report::default()
        };
        report.touch_ns.add(4096, 3);
        assert_eq!(
            report.to_json(),
            "{\"pass\":\"rand:w10\",\"seconds\":1.500000,\"touches\":3,\"bad_pages\":0,\"minor_faults\":0,\
             \"major_faults\":0,\"user_seconds\":0.00,\"sys_seconds\":0.00,\"touch_ns\":{\"4096\":3}}"
        );
    }
}
