//! `devices=4,engines=8,wqs=2,faults=PERMILLE,seed=N,clock=virtual`: a model by a line of text.

use std::fmt;
use std::str::FromStr;

use crate::device::caps::Caps;
use crate::device::{Mode, QueueConfig};
use crate::machine::Config;

/// Which clock a machine is to have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClockKind {
    /// [`Real`](crate::machine::Real).
    Real,
    /// [`Virtual`](crate::machine::Virtual).
    Virtual,
}

/// What the text says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// `devices`: 1 to 64.
    pub devices: u32,
    /// `engines` of each device: 1 to 8.
    pub engines: u8,
    /// `wqs` of each device, which share its 128 entries: 1 to 8.
    pub queues: u8,
    /// `mode` of all queues: `shared` or `dedicated`.
    pub mode: Mode,
    /// `generation`: 1 or 2.
    pub generation: u8,
    /// `nodes` that the devices are spread over: 1 to 64.
    pub nodes: u32,
    /// `faults` of 1000 descriptors: 0 to 1000.
    pub permille: u32,
    /// `outage` in milliseconds after which the kernel mends what broke: 1 to 60000. Without it no
    /// random fault breaks a queue or a device.
    pub outage_ms: Option<u32>,
    /// `late` in milliseconds: 1 to 60000.
    pub late_ms: u32,
    /// `seed`: any number of 64 bits.
    pub seed: u64,
    /// `threads` that run descriptors in real time: 0 to 64; 0: whoever submits does.
    pub threads: u32,
    /// `map`: whether portals can be mapped, `yes` or `no`.
    pub may_map: bool,
    /// `churn` in milliseconds: so often a device is removed, or added again, by whoever runs the
    /// machine: 10 to 60000. Without it devices stay.
    pub churn_ms: Option<u32>,
    /// `clock`: `real` or `virtual`.
    pub clock: ClockKind,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            devices: 1,
            engines: 8,
            queues: 2,
            mode: Mode::Shared,
            generation: 2,
            nodes: 1,
            permille: 0,
            outage_ms: None,
            late_ms: 20,
            seed: 0,
            threads: 0,
            may_map: true,
            churn_ms: None,
            clock: ClockKind::Real,
        }
    }
}

/// An option that is not one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OptionsError {
    /// The part of the text.
    part: String,
    /// What would have been right.
    rule: String,
}

impl fmt::Display for OptionsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "iaa-model: `{}`: {}", self.part, self.rule)
    }
}

impl std::error::Error for OptionsError {}

const KEYS: &str = "it must be KEY=VALUE with one of devices, engines, wqs, mode, generation, nodes, faults, outage, \
                    late, seed, threads, map, churn, clock";

fn number<T: TryFrom<u64>>(value: &str, least: u64, most: u64) -> Result<T, String> {
    let rule = || format!("it must be a number from {least} to {most}");
    let number: u64 = value.parse().map_err(|_| rule())?;
    let in_range = (least..=most).contains(&number);
    T::try_from(number).ok().filter(|_| in_range).ok_or_else(rule)
}

fn choice<T: Copy>(value: &str, choices: [(&str, T); 2]) -> Result<T, String> {
    let found = choices.iter().find(|(name, _)| *name == value);
    found
        .map(|(_, choice)| *choice)
        .ok_or_else(|| format!("it must be {} or {}", choices[0].0, choices[1].0))
}

impl Options {
    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "devices" => self.devices = number(value, 1, 64)?,
            "engines" => self.engines = number(value, 1, 8)?,
            "wqs" => self.queues = number(value, 1, 8)?,
            "mode" => self.mode = choice(value, [("shared", Mode::Shared), ("dedicated", Mode::Dedicated)])?,
            "generation" => self.generation = number(value, 1, 2)?,
            "nodes" => self.nodes = number(value, 1, 64)?,
            "faults" => self.permille = number(value, 0, 1000)?,
            "outage" => self.outage_ms = Some(number(value, 1, 60_000)?),
            "late" => self.late_ms = number(value, 1, 60_000)?,
            "seed" => self.seed = number(value, 0, u64::MAX)?,
            "threads" => self.threads = number(value, 0, 64)?,
            "map" => self.may_map = choice(value, [("yes", true), ("no", false)])?,
            "churn" => self.churn_ms = Some(number(value, 10, 60_000)?),
            "clock" => self.clock = choice(value, [("real", ClockKind::Real), ("virtual", ClockKind::Virtual)])?,
            _ => return Err(KEYS.to_owned()),
        }
        Ok(())
    }

    /// The machine that the text asks for.
    pub fn config(&self) -> Config {
        let caps = match self.generation {
            1 => Caps::generation_1(),
            _ => Caps::generation_2(),
        };
        let size = caps.entries / u16::from(self.queues);
        let queue = match self.mode {
            Mode::Shared => QueueConfig::user(size, &caps),
            Mode::Dedicated => QueueConfig::dedicated(size, &caps),
        };
        let ns = |ms: u32| u64::from(ms) * 1_000_000;
        Config {
            devices: self.devices,
            engines: self.engines,
            queues: vec![queue; usize::from(self.queues)],
            caps,
            nodes: self.nodes,
            seed: self.seed,
            permille: u64::from(self.permille),
            outage_ns: self.outage_ms.map(ns),
            late_ns: ns(self.late_ms),
            may_map: self.may_map,
            ..Config::default()
        }
    }
}

impl FromStr for Options {
    type Err = OptionsError;

    /// Keys in any order, each at most once; those that are not there have their defaults.
    fn from_str(text: &str) -> Result<Self, OptionsError> {
        let mut options = Self::default();
        let mut seen = Vec::new();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let error = |rule: String| OptionsError {
                part: part.to_owned(),
                rule,
            };
            let (key, value) = part.split_once('=').ok_or_else(|| error(KEYS.to_owned()))?;
            if seen.contains(&key) {
                return Err(error(format!("{key} must be there once")));
            }
            seen.push(key);
            options.set(key, value).map_err(error)?;
        }
        Ok(options)
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_whole_line() {
        let options: Options = "devices=4,engines=8,wqs=2,faults=50,seed=7,clock=virtual"
            .parse()
            .unwrap();
        let expected = Options {
            devices: 4,
            permille: 50,
            seed: 7,
            clock: ClockKind::Virtual,
            ..Options::default()
        };
        assert_eq!(options, expected);
        assert_eq!(options.config().queues.iter().map(|queue| queue.size).sum::<u16>(), 128);
        assert_eq!("".parse(), Ok(Options::default()));
    }

    #[test]
    fn an_error_names_the_value_and_the_rule() {
        let error = |text: &str| text.parse::<Options>().unwrap_err().to_string();
        assert_eq!(error("wqs=9"), "iaa-model: `wqs=9`: it must be a number from 1 to 8");
        assert_eq!(
            error("seed=x"),
            "iaa-model: `seed=x`: it must be a number from 0 to 18446744073709551615"
        );
        assert_eq!(
            error("clock=fast"),
            "iaa-model: `clock=fast`: it must be real or virtual"
        );
        assert_eq!(error("wqs=2,wqs=2"), "iaa-model: `wqs=2`: wqs must be there once");
        assert!(error("device=1").starts_with("iaa-model: `device=1`: it must be KEY=VALUE with one of devices,"));
        assert!(error("devices").contains("KEY=VALUE"));
    }
}
