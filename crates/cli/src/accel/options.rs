//! What `uzswap run` is told of devices that compress.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use uzswap_iaa_model::options::{ClockKind, Options};

use crate::choices::OnOff;

#[derive(Args, Clone)]
pub(crate) struct AccelOptions {
    /// Model of IAA devices, for deflate-iaa
    ///
    /// The launcher runs it. Keys are devices=N,engines=N,wqs=N,faults=PERMILLE,seed=N and others
    /// (docs/accelerators.md). Figures are the model's, not those of hardware.
    #[arg(long, value_name = "KEY=VALUE,...", value_parser = model)]
    pub(crate) iaa_model: Option<Model>,
    /// Read back what IAA made
    ///
    /// Its devices have just compressed it then (verify_compress).
    #[arg(long, value_name = "on|off", value_enum, default_value_t = OnOff::On)]
    pub(crate) iaa_verify: OnOff,
    /// How IAA gets pages
    ///
    /// sync: a thread submits the next when the one before is settled. async: as many as the queues
    /// take (sync_mode).
    #[arg(long, value_name = "sync|async", value_enum, default_value_t = SyncMode::Async)]
    pub(crate) iaa_sync_mode: SyncMode,
}

/// How many pages of a thread its devices have at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SyncMode {
    Sync,
    Async,
}

/// `uzswap accel`
#[derive(Args)]
pub(crate) struct AccelCommand {
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

#[derive(Subcommand)]
pub(crate) enum Verb {
    /// List devices and work queues, and why one cannot be used
    List(Machine),
    /// Configure devices for programs: work queues of type user, in one group with the engines
    Config(Config),
    /// Show the counters of a running group's devices
    Stat(Counters),
    /// Set the counters of a running group's devices to zero
    Reset {
        /// Name of the group, if there is more than one
        group: Option<String>,
    },
    /// Have each work queue prove itself: golden words, pages there and back, streams of software
    Selftest(Selftest),
}

/// Whose counters, and how.
#[derive(Args)]
pub(crate) struct Counters {
    /// Name of the group, if there is more than one
    pub(crate) group: Option<String>,
    /// One JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Whose devices.
#[derive(Args)]
pub(crate) struct Machine {
    /// Those of a model, made for this command alone: as for `uzswap run`
    #[arg(long, value_name = "KEY=VALUE,...", value_parser = model)]
    pub(crate) iaa_model: Option<Model>,
    /// Those that a directory in place of / describes, for tests
    #[arg(long, value_name = "DIR", hide = true, conflicts_with = "iaa_model")]
    pub(crate) root: Option<PathBuf>,
}

#[derive(Args)]
pub(crate) struct Config {
    #[command(flatten)]
    pub(crate) machine: Machine,
    /// Devices, the first that there are [default: all]
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) devices: Option<u32>,
    /// Work queues of each, which share its entries evenly
    #[arg(long, short = 'q', value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=8))]
    pub(crate) wqs: u32,
    /// Engines of each that work for them [default: all]
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=8))]
    pub(crate) engines: Option<u32>,
    /// Whether many processes submit to a queue, or one
    #[arg(long, value_name = "shared|dedicated", value_enum, default_value_t = Mode::Shared)]
    pub(crate) mode: Mode,
    /// Say what would be written, and write nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Args)]
pub(crate) struct Selftest {
    #[command(flatten)]
    pub(crate) machine: Machine,
    /// Pages that go there and back through each work queue
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub(crate) pages: u64,
}

/// Who submits to a work queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    Shared,
    Dedicated,
}

impl Mode {
    /// As sysfs has it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Shared => "shared",
            Self::Dedicated => "dedicated",
        }
    }
}

/// A model by its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Model {
    pub(crate) text: String,
    pub(crate) options: Options,
}

/// A model that programs can run on.
pub(crate) fn model(text: &str) -> Result<Model, String> {
    let options: Options = text.parse().map_err(|error| format!("{error}"))?;
    if options.clock == ClockKind::Virtual {
        return Err("iaa-model: `clock=virtual`: programs run in real time".into());
    }
    Ok(Model {
        text: text.to_owned(),
        options,
    })
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_model_is_taken_or_its_value_and_rule_are_named() {
        let model_of = |text| model(text).map(|model| model.options);
        let options = model_of("devices=4,engines=8,wqs=2,faults=50,seed=7,clock=real").unwrap();
        assert_eq!((options.devices, options.permille, options.seed), (4, 50, 7));
        assert_eq!(model_of(""), Ok(Options::default()));
        for (text, error) in [
            (
                "devices=65",
                "iaa-model: `devices=65`: it must be a number from 1 to 64",
            ),
            ("clock=virtual", "iaa-model: `clock=virtual`: programs run in real time"),
        ] {
            assert_eq!(model_of(text), Err(error.to_owned()));
        }
    }
}
