//! Any words as a command line, and any text as KEY=VALUE for `uzswap set` or as a list of
//! failures: taken, or refused with a message that names the value.
#![no_main]
#![allow(dead_code, reason = "modules of the launcher, of which a part is under test")]

use clap::Parser;
use libfuzzer_sys::fuzz_target;
use options::{Cli, Command, fail_kinds};
use uzswap_ctl::FailKind;

#[path = "../../crates/cli/src/accel"]
mod accel {
    pub(crate) mod options;
}
#[path = "../../crates/cli/src/cgroup.rs"]
mod cgroup;
#[path = "../../crates/cli/src/choices.rs"]
mod choices;
#[path = "../../crates/cli/src/given.rs"]
mod given;
#[path = "../../crates/cli/src/look_options.rs"]
mod look_options;
#[path = "../../crates/cli/src/jupyter"]
mod jupyter {
    pub(crate) mod options;
}
#[path = "../../crates/cli/src/log"]
mod log {
    pub(crate) mod options;
    pub(crate) use self::options::{LogTo, log_to};
}
#[path = "../../crates/cli/src/memory_max.rs"]
mod memory_max;
#[path = "../../crates/cli/src/number.rs"]
mod number;
#[path = "../../crates/cli/src/options.rs"]
mod options;
#[path = "../../crates/cli/src/recompress.rs"]
mod recompress;
#[path = "../../crates/cli/src/report"]
mod report {
    pub(crate) mod options;
    pub(crate) use self::options::ReportOptions;
}
#[path = "../../crates/cli/src/setting.rs"]
mod setting;
#[path = "../../crates/cli/src/sim_options.rs"]
mod sim_options;
#[path = "../../crates/cli/src/stall.rs"]
mod stall;
#[path = "../../crates/cli/src/trial"]
mod trial {
    pub(crate) mod options;
}
#[path = "../../crates/cli/src/zram_options.rs"]
mod zram_options;

fn check_run(options: &options::RunOptions) {
    assert!(!options.cmd.is_empty());
    assert!(options.fail_kinds < 1 << FailKind::ALL.len());
    assert!(options.folio_max.is_none_or(|order| order <= 9) && options.page_cluster <= 5 && (1..=512).contains(&options.batch));
    assert!((1..=100).contains(&options.accept_threshold_percent));
    assert!(options.accel.iaa_model.as_ref().is_none_or(|model| (1..=64).contains(&model.options.devices)));
}

fuzz_target!(|text: &str| {
    match setting::parse(text) {
        Ok((key, _)) => assert!(text.contains('='), "{key:?}"),
        Err(error) => assert!(error.contains(text.split('=').next().unwrap_or_default())),
    }
    if let Err(error) = fail_kinds(text) {
        assert!(error.contains("the failures are"));
    }
    let words = ["uzswap"].into_iter().chain(text.split('\n'));
    match Cli::try_parse_from(words) {
        Ok(Cli {
            command: Command::Run(options),
        }) => check_run(&options),
        Ok(_) => {}
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
