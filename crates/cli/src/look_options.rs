//! What the commands are told that show running groups.

use std::net::SocketAddr;

use clap::Args;

use crate::number::number;
use crate::setting;

#[derive(Args)]
pub(crate) struct ListOptions {
    /// Show the processes of each group as well
    #[arg(long, short)]
    pub(crate) all: bool,
    /// One JSON array, sizes in bytes; with --watch one in each line
    #[arg(long)]
    pub(crate) json: bool,
    /// A line of CSV for each, sizes in bytes, time in seconds since 1970
    #[arg(long, conflicts_with_all = ["json", "diff"])]
    pub(crate) csv: bool,
    #[command(flatten)]
    pub(crate) again: AgainOptions,
}

#[derive(Args)]
pub(crate) struct StatOptions {
    /// Name of the group, if there is more than one
    pub(crate) group: Option<String>,
    /// Show every counter, a line each, in its own unit; --json has them all
    #[arg(long, short)]
    pub(crate) all: bool,
    /// One JSON object with every counter; with --watch one in each line
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) again: AgainOptions,
}

/// Whether to look once or again and again.
#[derive(Args, Clone, Copy, Default)]
pub(crate) struct AgainOptions {
    /// Look again every so many seconds, until stopped or the group has ended
    #[arg(long, short, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "1", allow_negative_numbers = true, value_parser = interval)]
    pub(crate) watch: Option<f64>,
    /// Show what changed since the look before, from the second look on; looks every second unless
    /// --watch says otherwise
    #[arg(long, short)]
    pub(crate) diff: bool,
    /// Looks [default: one, or with --watch and --diff until stopped]
    #[arg(long, short = 'n', value_name = "N", allow_negative_numbers = true, value_parser = number(1..=u64::MAX))]
    pub(crate) count: Option<u64>,
}

#[derive(Args)]
pub(crate) struct TopOptions {
    /// Seconds between two looks
    #[arg(long, short, value_name = "SECONDS", default_value_t = 1.0, allow_negative_numbers = true, value_parser = interval)]
    pub(crate) interval: f64,
    /// So many tables as lines, the first of which has no rates [default: until stopped]
    #[arg(long, short = 'n', value_name = "N", allow_negative_numbers = true, value_parser = number(1..=u64::MAX))]
    pub(crate) count: Option<u64>,
    /// Tables as lines, one below the other, as where there is no terminal
    #[arg(long, short = 'b')]
    pub(crate) plain: bool,
}

#[derive(Args)]
pub(crate) struct GetOptions {
    /// Name of the group
    pub(crate) group: String,
    /// Which settings [default: all]
    #[arg(value_name = "KEY", value_parser = setting::name)]
    pub(crate) keys: Vec<String>,
    /// One JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct MetricsOptions {
    /// Serve them over HTTP, at /metrics, until stopped
    #[arg(long, value_name = "HOST:PORT", num_args = 0..=1, default_missing_value = "127.0.0.1:9184", value_parser = address)]
    pub(crate) listen: Option<SocketAddr>,
}

/// Seconds.
fn interval(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok().filter(|n| (0.1..=3600.0).contains(n));
    seconds.ok_or_else(|| format!("'{text}' must be a number of seconds from 0.1 to 3600"))
}

/// No name is looked up: an address that was not meant would be open to others.
fn address(text: &str) -> Result<SocketAddr, String> {
    let text_of = match text.strip_prefix("localhost:") {
        Some(port) => format!("127.0.0.1:{port}"),
        None => text.to_owned(),
    };
    let rule = |_| format!("'{text}' is not an address with a port: write one as 127.0.0.1:9184 or [::1]:9184");
    text_of.parse().map_err(rule)
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn an_address_has_a_port() {
        for (text, expected) in [
            ("127.0.0.1:9184", "127.0.0.1:9184"),
            ("localhost:80", "127.0.0.1:80"),
            ("[::1]:9184", "[::1]:9184"),
            ("0.0.0.0:0", "0.0.0.0:0"),
        ] {
            assert_eq!(address(text).unwrap().to_string(), expected);
        }
        for text in [
            "",
            ":9184",
            "9184",
            "127.0.0.1",
            "example.org:80",
            "127.0.0.1:65536",
            "::1:9184x",
        ] {
            let error = address(text).unwrap_err();
            assert!(
                error.contains(&format!("'{text}'")) && error.contains("write one"),
                "{error}"
            );
        }
    }

    #[test]
    fn an_interval_is_neither_nothing_nor_for_ever() {
        assert_eq!((interval("0.5"), interval("3600")), (Ok(0.5), Ok(3600.0)));
        for text in ["", "0", "-1", "nan", "inf", "3601", "1s"] {
            let error = interval(text).unwrap_err();
            assert!(
                error.contains(&format!("'{text}'")) && error.contains("0.1 to 3600"),
                "{error}"
            );
        }
    }
}
