//! Devices that compress, for a group: the file that its processes share for them, and the model
//! in a thread of the launcher.

mod config;
mod host;
mod list;
pub(crate) mod options;
mod place;
mod selftest;

use std::os::fd::AsRawFd;

use serde_json::{Map, Value, json};
use uzswap_acomp::{Algorithm, Codes};
use uzswap_ctl::accel::{Accel, PAGE_COUNTS, Source, WORDS};
use uzswap_ctl::{Group, Tunable};
use uzswap_iaa::statistics::Statistics;
use uzswap_iaa::topology::{DEVICES, Topology};
use uzswap_sys::OwnedFd;
use uzswap_sys::shared::SharedWords;

use crate::group::{self, OpenGroup};
use crate::options::RunOptions;
use crate::output::print;
use crate::{Failure, describe};
use host::Host;
use options::{AccelCommand, SyncMode, Verb};
use place::Place;

/// `uzswap accel`
pub(crate) fn run(command: &AccelCommand) -> Result<u8, Failure> {
    match &command.verb {
        Verb::List(machine) => list::list(&Place::of(machine)?),
        Verb::Config(options) => config::config(options),
        Verb::Stat(options) => stat(options.group.as_deref(), options.json),
        Verb::Reset { group } => reset(group.as_deref()),
        Verb::Selftest(options) => selftest::selftest(options),
    }
}

/// A running group that has devices.
fn find(name: Option<&str>) -> Result<(OpenGroup, Accel), Failure> {
    let group = group::find(name)?;
    match file_of(&group.group) {
        Some((_, file)) => Ok((group, file)),
        None => Err(Failure::new(format!(
            "group {}: it has no devices; `uzswap run --compressor deflate-iaa` gives it some",
            group.name
        ))),
    }
}

fn stat(name: Option<&str>, is_json: bool) -> Result<u8, Failure> {
    let (group, _) = find(name)?;
    let mut map = Map::new();
    counters(&group.group, &mut map);
    let text = match is_json {
        true => format!("{:#}\n", Value::Object(map)),
        false => map
            .into_iter()
            .map(|(key, value)| format!("{key} {}\n", plain(&value)))
            .collect(),
    };
    print(&text)?;
    Ok(0)
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn reset(name: Option<&str>) -> Result<u8, Failure> {
    find(name)?.1.reset_counters();
    Ok(0)
}

/// The devices of a group that this process runs.
pub(crate) struct Devices {
    /// The file's: agents open it by its number.
    fd: OwnedFd,
    source: Source,
    codes: Codes,
    verify: bool,
    is_sync: bool,
    host: Option<Host>,
}

/// The codes that these compressors want of a device.
///
/// # Errors
/// Two of them want different ones.
fn codes_of(compressor: Algorithm, recompress: Option<Algorithm>) -> Result<Option<Codes>, Failure> {
    match (compressor.codes(), recompress.and_then(Algorithm::codes)) {
        (Some(one), Some(other)) if one != other => Err(Failure::new(format!(
            "--compressor {compressor} and --recompress {}: the devices of a group have one kind of codes",
            recompress.map_or_else(String::new, |algorithm| algorithm.to_string())
        ))),
        (one, other) => Ok(one.or(other)),
    }
}

impl Devices {
    /// What the options ask for. `None`: nothing compresses but processors.
    ///
    /// # Errors
    /// What the system refuses to a model.
    pub(crate) fn begin(options: &RunOptions, group: &OpenGroup) -> Result<Option<Self>, Failure> {
        let codes = codes_of(options.compressor.algorithm, options.recompress.0)?;
        let model = options.accel.iaa_model.as_ref();
        let source = match (model, codes) {
            (Some(_), _) => Source::Model,
            (None, Some(_)) => Source::Hardware,
            (None, None) => return Ok(None),
        };
        let fail = |e| Failure::new(format!("memory that processes share for deflate-iaa: {}", describe(e)));
        let (words, fd) = SharedWords::in_memory(c"uzswap-iaa", WORDS).map_err(fail)?;
        let file = Accel::create(words.words());
        let host = match model {
            Some(model) => Some(Host::begin(file, model, group)?),
            None => None,
        };
        Ok(Some(Self {
            fd,
            source,
            codes: codes.unwrap_or(Codes::Fixed),
            verify: options.accel.iaa_verify.is_on(),
            is_sync: options.accel.iaa_sync_mode == SyncMode::Sync,
            host,
        }))
    }

    /// Tell the group's processes.
    pub(crate) fn tell(&self, group: &Group) {
        for (tunable, value) in [
            (Tunable::IaaPid, u64::from(std::process::id())),
            (Tunable::IaaFd, self.fd.as_raw_fd() as u64),
            (Tunable::IaaVerify, u64::from(self.verify)),
            (Tunable::IaaSync, u64::from(self.is_sync)),
            (Tunable::IaaDynamic, u64::from(self.codes == Codes::Dynamic)),
            (Tunable::Iaa, self.source.to_word()),
        ] {
            group.set(tunable, value);
        }
    }

    /// Stop the model, if this process runs one: what waits for it goes on by software.
    pub(crate) fn end(&mut self) {
        self.host = None;
    }
}

/// Whether there are the devices that the options ask for.
///
/// # Errors
/// A compressor that needs a device, and why there is none.
pub(crate) fn check(options: &RunOptions) -> Result<(), Failure> {
    match codes_of(options.compressor.algorithm, options.recompress.0)? {
        Some(_) if options.accel.iaa_model.is_none() => find_hardware(options),
        _ => Ok(()),
    }
}

/// Whether devices of this machine can be used.
fn find_hardware(options: &RunOptions) -> Result<(), Failure> {
    let topology = Topology::discover(&Place::of_system());
    if topology.queues().next().is_some() {
        return Ok(());
    }
    let why = match topology.refusals.first() {
        Some(refusal) => refusal.to_string(),
        None => format!("{DEVICES} has no iax device"),
    };
    let name = match options.compressor.algorithm.codes() {
        Some(_) => format!("--compressor {}", options.compressor),
        None => format!("--recompress {}", options.recompress),
    };
    Err(Failure::new(format!(
        "{name}: no IAA work queue can be used: {why}; `uzswap accel list` says more; deflate is the same by software, \
         --iaa-model the same on a model"
    )))
}

/// Whether a running group can compress so from now on.
///
/// # Errors
/// Why it cannot.
pub(crate) fn check_set(group: &Group, word: u64) -> Result<(), Failure> {
    let algorithm = Algorithm::from_word(word);
    let Some(codes) = algorithm.codes() else { return Ok(()) };
    if Source::from_word(group.get(Tunable::Iaa)).is_none() {
        return Err(Failure::new(format!(
            "'{algorithm}': the group was not started with deflate-iaa or --iaa-model"
        )));
    }
    let own = match group.is_on(Tunable::IaaDynamic) {
        true => Codes::Dynamic,
        false => Codes::Fixed,
    };
    if codes != own {
        return Err(Failure::new(format!(
            "'{algorithm}': the group's devices were started as {}",
            Algorithm::DeflateIaa { codes: own }
        )));
    }
    Ok(())
}

/// The file of a group that has devices, as long as its launcher lives.
pub(crate) fn file_of(group: &Group) -> Option<(Source, Accel)> {
    let source = Source::from_word(group.get(Tunable::Iaa))?;
    let [pid, fd] = [Tunable::IaaPid, Tunable::IaaFd].map(|key| group.get(key) as i32);
    let words = SharedWords::open_of_process(pid, fd, WORDS).ok()?;
    Some((source, Accel::open(words.words())?))
}

/// Counters of devices: those of the driver under the kernel's names, of the contract, of each
/// queue, and of the model.
pub(crate) fn counters(group: &Group, map: &mut Map<String, Value>) {
    let Some((source, file)) = file_of(group) else { return };
    let mut put = |key: String, value: Value| drop(map.insert(key, value));
    let source = match source {
        Source::Hardware => "hardware",
        Source::Model => "MODEL",
    };
    put("iaa".into(), json!(source));
    put("iaa/verify_compress".into(), json!(group.get(Tunable::IaaVerify)));
    let sync_mode = if group.is_on(Tunable::IaaSync) { "sync" } else { "async" };
    put("iaa/sync_mode".into(), json!(sync_mode));
    let driver = Statistics::kept_in(file.driver(Statistics::COUNTERS)).snapshot();
    for (name, value) in driver.named() {
        put(format!("iaa/{name}"), json!(value));
    }
    put("iaa/under_way".into(), json!(driver.under_way()));
    for (name, word) in PAGE_COUNTS.iter().zip(file.pages()) {
        let value = word.load(std::sync::atomic::Ordering::Relaxed);
        put(format!("iaa/acomp_{name}"), json!(value));
    }
    for (device, queue, counts) in file.queues() {
        let names = ["comp_calls", "comp_bytes", "decomp_calls", "decomp_bytes"];
        for (name, value) in names.into_iter().zip(counts) {
            put(format!("iaa/wq{device}.{queue}/{name}"), json!(value));
        }
    }
    if source == "MODEL" {
        put("iaa/model_openings".into(), json!(file.openings()));
        for (name, value) in file.model().named() {
            put(format!("iaa/model_{name}"), json!(value));
        }
    }
}

/// What the summary says of devices.
pub(crate) fn summary(group: &Group) -> Option<String> {
    let (source, file) = file_of(group)?;
    let of = |i: usize| file.pages()[i].load(std::sync::atomic::Ordering::Relaxed);
    let by_software = of(3) + of(4) + of(5);
    let source = match source {
        Source::Hardware => "devices".to_owned(),
        Source::Model => format!("a MODEL of devices ({} faults injected)", file.model().injected),
    };
    Some(format!(
        "  iaa: {source}: {} pages, {} done, {} poor, {by_software} by software instead",
        of(0),
        of(1),
        of(2)
    ))
}
