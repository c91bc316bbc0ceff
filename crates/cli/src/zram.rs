//! `uzswap zram`: a block device in compressed memory, until a signal ends it.

use std::os::fd::AsFd;

use rustix::process::{Resource, Rlimit, Signal, setrlimit};
use serde_json::{Map, Value, json};
use uzswap_mm::zpool::PoolKind;
use uzswap_sys::job;
use uzswap_sys::launch::{self, Signals};
use uzswap_zram::{Config, Counter, Device, LIMIT_MIN, MakeError, Server};

use crate::output::warn_line;
use crate::zram_options::ZramOptions;
use crate::{Failure, describe, misuse, report};
use uzswap_ctl::size::Size;

/// Those that end it; all others are of no interest.
const ENDS: [Signal; 4] = [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT];
/// Counters in bytes. All others are numbers of pages or requests.
const IN_BYTES: [Counter; 3] = [Counter::OrigDataSize, Counter::ComprDataSize, Counter::MemUsedMax];

/// Serve a device until a signal ends it.
pub(crate) fn zram(options: &ZramOptions) -> Result<u8, Failure> {
    report::check("--stat-json", options.stat_json.as_deref())?;
    // A core file would hold what clients have written.
    let none = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    setrlimit(Resource::Core, none).map_err(|e| Failure::new(format!("no core file: {}", describe(e))))?;
    let device = match Device::new(&config(options)) {
        Ok(device) => device,
        Err(error) => return refuse(error, options),
    };
    // In front of the first thread: each inherits what is blocked.
    let signals = Signals::begin().map_err(|e| Failure::new(format!("signals: {}", describe(e))))?;
    let path = options.socket.display();
    let server = Server::bind(&options.socket).map_err(|e| Failure::new(format!("--socket {path}: {e}")))?;
    if !options.quiet {
        warn_line!("uzswap: zram of {} at nbd+unix:///?socket={path}", options.size);
    }
    let served = server.serve(&device, signals.as_fd(), || is_to_end(&signals));
    drop(server);
    if let Some(path) = &options.stat_json {
        report::write(path, counters(&device));
    }
    if !options.quiet {
        summary(&device);
    }
    served.map_err(|e| Failure::new(format!("waiting for clients: {e}")))?;
    Ok(0)
}

fn config(options: &ZramOptions) -> Config {
    let limit = options.mem_limit.as_ref().map(|given| given.value.0);
    Config {
        bytes: options.size.0,
        kind: PoolKind {
            zpool: options.zpool,
            compressor: options.compressor,
        },
        mem_limit: limit.filter(|bytes| *bytes != u64::MAX),
    }
}

/// The option that is wrong, or what the machine lacks.
fn refuse(error: MakeError, options: &ZramOptions) -> Result<u8, Failure> {
    match (error, &options.mem_limit) {
        (MakeError::Memory(_), _) => Err(Failure::new(format!("--size {}: {error}", options.size))),
        (MakeError::MemLimit(_), Some(given)) => {
            let least = Size(LIMIT_MIN);
            Ok(misuse(&format!("--mem-limit {given}: must be at least {least}")))
        }
        _ => Ok(misuse(&format!("--{error}"))),
    }
}

/// What the signals that have come ask for.
fn is_to_end(signals: &Signals) -> bool {
    let mut ends = false;
    while let Some(signal) = signals.next() {
        ends |= ENDS.iter().any(|end| end.as_raw() == signal.number);
        if signal.number == launch::SIGTSTP {
            job::stop();
        }
    }
    ends
}

/// As in `mm_stat`, where 0 is no limit.
fn mem_limit(device: &Device) -> u64 {
    device.mem_limit().unwrap_or(0)
}

/// One flat object: the counters under zram's names.
fn counters(device: &Device) -> Map<String, Value> {
    let mut map = Map::new();
    let mut put = |key: &str, value: Value| drop(map.insert(key.to_owned(), value));
    put("disksize", json!(device.bytes()));
    put("comp_algorithm", json!(device.kind().compressor.to_string()));
    put("zpool", json!(device.kind().zpool.name()));
    put("mem_used_total", json!(device.mem_used_total()));
    put("mem_limit", json!(mem_limit(device)));
    for counter in Counter::ALL {
        put(counter.name(), json!(device.counters().get(counter)));
    }
    map
}

fn summary(device: &Device) {
    let get = |counter| device.counters().get(counter);
    let orig = get(Counter::OrigDataSize);
    let ratio = orig as f64 / device.mem_used_total().max(1) as f64;
    warn_line!(
        "uzswap: zram of {}, {}, {}: mem_used_total {} (orig_data_size is {ratio:.2} times that), mem_limit {}",
        Size(device.bytes()),
        device.kind().compressor,
        device.kind().zpool,
        Size(device.mem_used_total()),
        Size(mem_limit(device)),
    );
    let words = Counter::ALL.map(|counter| match IN_BYTES.contains(&counter) {
        true => format!("{} {}", counter.name(), Size(get(counter))),
        false => format!("{} {}", counter.name(), get(counter)),
    });
    for line in words.chunks(7) {
        warn_line!("  {}", line.join(", "));
    }
}
