//! Settings of the environment: UZSWAP_ and the name of the option, in capitals.

use std::ffi::{OsStr, OsString};

use clap::{Arg, Command};

use super::place::Place;
use super::{FALSE, Setting, TRUE, is_flag, settable};
use crate::Failure;

const PREFIX: &str = "UZSWAP_";

/// Whether there may be any.
pub(super) fn has_any() -> bool {
    std::env::vars_os().any(|(name, _)| name.as_encoded_bytes().starts_with(PREFIX.as_bytes()))
}

/// Those that are set. A variable without a value is none.
pub(super) fn settings(run: &Command) -> Result<Vec<Setting>, Failure> {
    of(run, |name| std::env::var_os(name))
}

pub(super) fn of(run: &Command, find: impl Fn(&str) -> Option<OsString>) -> Result<Vec<Setting>, Failure> {
    let found = settable(run).filter_map(|arg| {
        let name = variable(arg);
        let value = find(&name).filter(|value| !value.is_empty())?;
        Some((arg, name, value))
    });
    found
        .map(|(arg, name, value)| {
            let value = if is_flag(arg) { flag(value) } else { value };
            Setting::new(run, arg, value, Place::Variable(name))
        })
        .collect()
}

pub(super) fn variable(arg: &Arg) -> String {
    PREFIX.to_owned() + &arg.get_id().as_str().to_uppercase()
}

/// Flags are 1 or 0 in most environments.
fn flag(value: OsString) -> OsString {
    match value.as_encoded_bytes() {
        b"1" => OsStr::new(TRUE).to_owned(),
        b"0" => OsStr::new(FALSE).to_owned(),
        _ => value,
    }
}
