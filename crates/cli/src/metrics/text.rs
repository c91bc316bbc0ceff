//! OpenMetrics' text format, version 1.0. Own code, as libraries for it keep the metrics themselves
//! and write a sum for each histogram, which nobody counts here.

use std::fmt::Write;

pub(super) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    Gauge,
    Counter,
    Histogram,
    Info,
}

/// A metric with its unit, which its name ends with.
pub(super) struct Family<'a> {
    pub(super) name: String,
    pub(super) of_type: Type,
    pub(super) unit: &'a str,
    pub(super) help: &'a str,
}

/// A name and a value.
pub(super) type Label<'a> = (&'a str, &'a str);

/// Text that grows by families, each followed by its samples.
#[derive(Default)]
pub(super) struct Text(String);

impl Text {
    pub(super) fn family(&mut self, family: &Family<'_>) {
        let of_type = match family.of_type {
            Type::Gauge => "gauge",
            Type::Counter => "counter",
            Type::Histogram => "histogram",
            Type::Info => "info",
        };
        let (name, unit) = (&family.name, family.unit);
        let _ = writeln!(self.0, "# TYPE {name} {of_type}");
        if !unit.is_empty() {
            let _ = writeln!(self.0, "# UNIT {name} {unit}");
        }
        let _ = writeln!(self.0, "# HELP {name} {}", escaped(family.help));
    }

    /// One value of a family.
    pub(super) fn sample(&mut self, family: &Family<'_>, labels: &[Label<'_>], value: impl std::fmt::Display) {
        let suffix = match family.of_type {
            Type::Gauge => "",
            Type::Counter => "_total",
            Type::Histogram => "_bucket",
            Type::Info => "_info",
        };
        self.0 += &family.name;
        self.0 += suffix;
        for (i, (label, value)) in labels.iter().enumerate() {
            let before = if i == 0 { '{' } else { ',' };
            let _ = write!(self.0, "{before}{label}=\"{}\"", escaped(value));
        }
        let after = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.0, "{after} {value}");
    }

    pub(super) fn end(mut self) -> String {
        self.0 += "# EOF\n";
        self.0
    }
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn families_and_samples_are_lines() {
        let mut text = Text::default();
        let counter = Family {
            name: "a_seconds".to_owned(),
            of_type: Type::Counter,
            unit: "seconds",
            help: "of \"a\"\nor \\",
        };
        text.family(&counter);
        text.sample(&counter, &[("group", "x\"y"), ("pid", "7")], 0.5);
        let gauge = Family {
            name: "b".to_owned(),
            of_type: Type::Gauge,
            unit: "",
            help: "of b",
        };
        text.family(&gauge);
        text.sample(&gauge, &[], u64::MAX);
        let expected = "# TYPE a_seconds counter\n\
                        # UNIT a_seconds seconds\n\
                        # HELP a_seconds of \\\"a\\\"\\nor \\\\\n\
                        a_seconds_total{group=\"x\\\"y\",pid=\"7\"} 0.5\n\
                        # TYPE b gauge\n\
                        # HELP b of b\n\
                        b 18446744073709551615\n\
                        # EOF\n";
        assert_eq!(text.end(), expected);
    }
}
