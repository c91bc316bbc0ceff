//! Settings of the environment: UZSWAP_ and the name of the option, in capitals.

use std::ffi::{OsStr, OsString};

use clap::{Arg, Command};
use uzswap_ctl::{ENV_GIVEN_GROUP, ENV_GROUP, ENV_RECORD};

use super::near::nearest;
use super::place::Place;
use super::{FALSE, Setting, TRUE, is_flag, settable};
use crate::Failure;

const PREFIX: &str = "UZSWAP_";
/// No settings, but what processes of a group have, and builds, tests and benchmarks. Cargo tells
/// what it runs all that the build script told.
const OTHERS: [&str; 13] = [
    ENV_GROUP,
    ENV_GIVEN_GROUP,
    ENV_RECORD,
    "UZSWAP_AGENT",
    "UZSWAP_AGENT_FINGERPRINT",
    "UZSWAP_BENCH_WAY",
    "UZSWAP_COMMIT",
    "UZSWAP_GOLDEN",
    "UZSWAP_IMAGE",
    "UZSWAP_REGION_OPERATIONS",
    "UZSWAP_REGION_TASK",
    "UZSWAP_TEST_OPTIONS",
    "UZSWAP_VERSION",
];

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

/// Names of all variables that have a value.
pub(super) fn names() -> impl Iterator<Item = OsString> {
    std::env::vars_os()
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, _)| name)
}

/// What is to be said of variables that are named as settings and are none.
pub(super) fn strays(run: &Command, names: impl Iterator<Item = OsString>) -> Vec<String> {
    let known: Vec<String> = settable(run).map(variable).collect();
    let is_known = |name: &String| known.contains(name) || OTHERS.contains(&name.as_str()) || is_of_a_service(name);
    let names = names.filter_map(|name| name.into_string().ok());
    let strays = names.filter(|name| name.starts_with(PREFIX) && !is_known(name));
    let line = |name: String| match nearest(&name[PREFIX.len()..], known.iter().map(|name| &name[PREFIX.len()..])) {
        Some(near) => {
            format!("{name} of the environment sets no option of `uzswap run`; the nearest is {PREFIX}{near}")
        }
        None => format!(
            "{name} of the environment sets nothing: no option of `uzswap run` that a variable can set has that name"
        ),
    };
    strays.map(line).collect()
}

/// Kubernetes and Docker's links tell each container of those beside it, which may have our name.
fn is_of_a_service(name: &str) -> bool {
    ["_SERVICE_", "_PORT_", "_ENV_"].iter().any(|word| name.contains(word)) || name.ends_with("_PORT")
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
