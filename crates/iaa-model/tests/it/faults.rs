//! Data sheet A13's table: each fault shows as it must, once; random ones lose no descriptor.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use uzswap_iaa_model::descriptor::{Descriptor, opcode};
use uzswap_iaa_model::fault::{Fault, KernelCopy};
use uzswap_iaa_model::machine::{Clock, Config, Submission};
use uzswap_iaa_model::memory::Protection;
use uzswap_iaa_model::random::Random;
use uzswap_iaa_model::status::ErrorCode;

use crate::rig::*;

const PLAIN: &[u8] = b"what is compressed here is compressed here again, and again";

fn compression() -> Descriptor {
    reading(codec(opcode::COMPRESS, 0x6, PLAIN.len(), 4096), 1568)
}

/// A rig with fixed codes, and the stream of [`PLAIN`].
fn rig(config: Config) -> (Rig<uzswap_iaa_model::machine::Real>, Vec<u8>) {
    let rig = Rig::with(config);
    rig.memory.store(AECS, &fixed_aecs(true));
    let (_, stream) = rig.compress(PLAIN, &compression());
    (rig, stream)
}

fn sure(rig: &Rig<impl Clock>, name: &str) {
    assert!(
        rig.machine.injected().contains(&(name_of(name), 1)),
        "{name}: {:?}",
        rig.machine.injected()
    );
    let (record, output) = rig.compress(PLAIN, &compression());
    assert_eq!(record.status, 1, "{name}: the next one is not met");
    assert_eq!(oracle(&output), PLAIN, "{name}");
}

fn name_of(name: &str) -> &'static str {
    Box::leak(name.to_owned().into_boxed_str())
}

#[test]
fn records_that_say_so() {
    let (rig, stream) = rig(Config::default());
    let cases = [
        (Fault::Watchdog, 0x24),
        (Fault::Translation, 0x22),
        (Fault::PageRequestTimeout, 0x23),
        (Fault::PageFault { write: false }, 0x03),
        (Fault::PageFault { write: true }, 0x83),
        (Fault::DoesNotFit, 0x0a),
    ];
    for (fault, status) in cases {
        rig.machine.inject(fault);
        let (record, output) = rig.compress(PLAIN, &compression());
        assert_eq!((record.status, output.len()), (status, 0), "{fault:?}");
        sure(&rig, fault.name());
    }
    for code in ErrorCode::ALL {
        rig.machine.inject(Fault::Corrupt { code });
        let (record, _) = rig.compress(&stream, &inflate(stream.len(), 4096));
        assert_eq!((record.status, record.error_code), (0x0a, code as u8));
    }
}

#[test]
fn a_lying_device_reports_success() {
    let (rig, stream) = rig(Config::default());
    rig.machine.inject(Fault::WrongData);
    let (record, output) = rig.compress(PLAIN, &compression());
    assert_eq!((record.status, record.crc), (1, crc32(PLAIN)));
    assert!(oracle(&output) != PLAIN, "a stream of other data");
    rig.machine.inject(Fault::WrongCrc);
    let (record, output) = rig.compress(PLAIN, &compression());
    assert!(record.crc != crc32(PLAIN) && output == stream);
    rig.machine.inject(Fault::FlippedByte);
    let (record, output) = rig.compress(PLAIN, &compression());
    assert_eq!(record.crc, crc32(PLAIN));
    assert_eq!(output.iter().zip(&stream).filter(|(a, b)| a != b).count(), 1);
    for fault in [Fault::WrongData, Fault::FlippedByte] {
        rig.machine.inject(fault);
        let (record, output) = rig.compress(&stream, &inflate(stream.len(), 4096));
        assert_eq!((record.status, record.crc), (1, crc32(PLAIN)));
        assert!(output.len() == PLAIN.len() && output != PLAIN);
    }
    rig.machine.inject(Fault::Overflow { partial: true });
    let (record, output) = rig.compress(&stream, &inflate(stream.len(), 4096));
    assert_eq!(record.status, 0x0b);
    assert!(!output.is_empty() && output == PLAIN[..output.len()]);
    rig.machine.inject(Fault::Overflow { partial: false });
    assert_eq!(rig.compress(&stream, &inflate(stream.len(), 4096)).0.output_size, 0);
    sure(&rig, "wrong_crc");
}

#[test]
fn full_for_some_tries() {
    let (rig, _) = rig(Config::default());
    rig.machine.inject(Fault::Full { tries: 3 });
    let raw = descriptor(opcode::NOOP).encode();
    let tries: Vec<_> = (0..4).map(|_| rig.portal.enqcmd(&raw)).collect();
    assert_eq!(
        tries,
        [
            Submission::Retry,
            Submission::Retry,
            Submission::Retry,
            Submission::Accepted
        ]
    );
    sure(&rig, "full");
    rig.machine.inject(Fault::Full { tries: u32::MAX });
    assert!((0..5000).all(|_| rig.portal.enqcmd(&raw) == Submission::Retry));
    assert!(rig.machine.counters().is_valid());
}

#[test]
fn never_and_late() {
    let rig = Rig::virtual_time(Config::default());
    rig.memory.store(AECS, &fixed_aecs(true));
    rig.memory.store(SRC, PLAIN);
    rig.machine.inject(Fault::NeverCompletes);
    rig.machine.inject(Fault::Late { ns: 1_000_000 });
    for i in 0..3 {
        let d = Descriptor {
            completion_addr: RECORDS + 64 * i,
            dst_addr: DST + 4096 * i,
            ..compression()
        };
        rig.portal.enqcmd(&d.encode());
    }
    rig.machine.advance(500_000);
    let seen = || {
        (0..3)
            .map(|i| (rig.status(RECORDS + 64 * i), rig.memory.load(DST + 4096 * i, 1)[0]))
            .collect::<Vec<_>>()
    };
    let first = seen()[2].1;
    assert_eq!(seen(), [(0, 0), (0, 0), (1, first)]);
    rig.machine.run();
    assert_eq!(seen(), [(0, 0), (1, first), (1, first)], "output and record are late");
    assert_eq!(rig.machine.counters().silent, 1);
    assert!(rig.machine.counters().is_valid());
}

#[test]
fn out_of_order() {
    let rig = Rig::virtual_time(Config::default());
    rig.machine.inject(Fault::OutOfOrder { ns: 10_000 });
    let at = |i: u64| Descriptor {
        completion_addr: RECORDS + 64 * i,
        ..descriptor(opcode::NOOP)
    };
    (0..2).for_each(|i| assert_eq!(rig.portal.enqcmd(&at(i).encode()), Submission::Accepted));
    rig.machine.advance(5_000);
    assert_eq!((rig.status(RECORDS), rig.status(RECORDS + 64)), (0, 1));
    rig.machine.run();
    assert_eq!(rig.status(RECORDS), 1);
}

#[test]
fn a_halt_lasts_until_a_reset() {
    for (fault, status) in [(Fault::HardwareError, 0x20), (Fault::ReadbackError, 0x21)] {
        let (rig, _) = rig(Config::default());
        rig.machine.inject(fault);
        assert_eq!(rig.compress(PLAIN, &compression()).0.status, status);
        assert_eq!(rig.machine.read64(rig.device, 0x90) & 3, 3);
        assert_eq!(rig.machine.read32(rig.device, 0x98) & 0x10, 0x10);
        assert_eq!(rig.machine.sysfs().read("iax1/state"), Some("disabled"));
        assert_eq!(rig.compress(PLAIN, &compression()).0.status, 0, "dead");
        rig.machine.restore(rig.device);
        sure(&rig, fault.name());
    }
}

#[test]
fn queues_and_devices_that_go() {
    for fault in [Fault::QueueDisabled, Fault::QueueReset, Fault::DeviceRemoved] {
        let rig = Rig::virtual_time(Config::default());
        rig.machine.inject(fault);
        let at = |i: u64| Descriptor {
            completion_addr: RECORDS + 64 * i,
            ..descriptor(opcode::NOOP)
        };
        (0..20).for_each(|i| assert_eq!(rig.portal.enqcmd(&at(i).encode()), Submission::Accepted));
        rig.machine.run();
        let counters = rig.machine.counters();
        assert!(
            counters.is_valid() && counters.in_flight == 0 && counters.aborted > 0,
            "{counters:?}"
        );
        assert_eq!(rig.status(RECORDS), 0, "the one that met it has no record");
        rig.machine.restore(rig.device);
        let file = rig.machine.open(ME, rig.device, 0).unwrap();
        file.map(ME).unwrap().enqcmd(&at(30).encode());
        rig.machine.run();
        assert_eq!(rig.status(RECORDS + 64 * 30), 1);
    }
}

#[test]
fn a_device_that_comes_and_an_opcode_that_goes() {
    let (rig, stream) = rig(Config::default());
    rig.machine.inject(Fault::DeviceAdded);
    assert_eq!(rig.compress(PLAIN, &compression()).0.status, 1);
    assert_eq!(rig.machine.devices(), [1, 3]);
    rig.machine.inject(Fault::OpConfigNarrowed);
    assert_eq!(rig.compress(PLAIN, &compression()).0.status, 0x10);
    assert_eq!(rig.compress(PLAIN, &compression()).0.status, 0x10, "it stays so");
    assert_eq!(rig.compress(&stream, &inflate(stream.len(), 4096)).0.status, 1);
    let config = rig.machine.sysfs().read("iax1/wq1.0/op_config").unwrap().to_owned();
    assert!(config.contains("00000014"), "{config}");
    rig.machine.restore(rig.device);
    sure(&rig, "op_config_narrowed");
}

#[test]
fn records_by_way_of_the_event_log() {
    let rig = Rig::virtual_time(Config::default());
    let after = KernelCopy::After { ns: 7_000 };
    rig.machine.inject(Fault::RecordFault { kernel: after });
    rig.machine.inject(Fault::RecordFault {
        kernel: KernelCopy::Never,
    });
    for i in 0..2 {
        let d = Descriptor {
            completion_addr: RECORDS + 64 * i,
            ..descriptor(opcode::NOOP)
        };
        rig.portal.enqcmd(&d.encode());
    }
    rig.machine.advance(1_000);
    let log = rig.machine.event_log(rig.device);
    assert_eq!(log.len(), 2);
    assert_eq!(
        (log[0][1], log[0][64]),
        (0x1a, 1),
        "status 1a in the header, the record behind it"
    );
    assert_eq!(rig.machine.read64(rig.device, 0xf0), 2 << 32, "tail 2, head 0");
    assert_eq!(rig.machine.read32(rig.device, 0x98) & 0x20, 0x20);
    rig.machine.run();
    assert_eq!((rig.status(RECORDS), rig.status(RECORDS + 64)), (1, 0));
    let counters = rig.machine.counters();
    assert_eq!(
        (counters.logged, counters.record_faults, counters.record_fault_failures),
        (2, 1, 1)
    );
    let tree = rig.machine.sysfs();
    let text: Vec<_> = tree
        .files()
        .filter(|(path, _)| path.contains("cr_fault"))
        .map(|(_, text)| text)
        .collect();
    assert_eq!(text, ["1", "2"], "failures, faults");
}

/// A record whose page is not there: the kernel brings it, or cannot.
#[test]
fn records_that_really_fault() {
    for (protection, status) in [(Protection::UntilTouched, 1), (Protection::Absent, 0)] {
        let rig = Rig::virtual_time(Config::default());
        rig.memory.protect(RECORDS, 64, protection);
        rig.portal.enqcmd(&descriptor(opcode::NOOP).encode());
        rig.machine.run();
        assert_eq!(rig.status(RECORDS), status);
        assert_eq!(rig.machine.counters().record_fault_failures, u64::from(status == 0));
    }
}

/// A script waits for a descriptor that its fault can happen to.
#[test]
fn a_script_waits() {
    let (rig, stream) = rig(Config::default());
    rig.machine.inject(Fault::Corrupt {
        code: ErrorCode::BlockType,
    });
    assert_eq!(rig.compress(PLAIN, &compression()).0.status, 1);
    assert_eq!(rig.compress(&stream, &inflate(stream.len(), 64)).0.error_code, 13);
}

/// Threads submit, faults strike, devices come and go: each descriptor has one outcome. A record
/// of success with the right checksum has the right output, unless an engine was told to lie.
#[test]
fn threads_under_fire() {
    let rig = Rig::threads(
        Config {
            devices: 3,
            permille: 50,
            outage_ns: Some(2_000_000),
            late_ns: 1_000_000,
            seed: 5,
            trace: true,
            ..Config::default()
        },
        2,
    );
    rig.memory.store(AECS, &fixed_aecs(true));
    let (rig, wrong) = (&rig, &AtomicU64::new(0));
    std::thread::scope(|scope| {
        for worker in 0..3u64 {
            scope.spawn(move || submit_many(rig, worker, wrong));
        }
        let mut random = Random::new(9);
        for _ in 0..20 {
            std::thread::sleep(Duration::from_millis(5));
            let devices = rig.machine.devices();
            if devices.len() > 1 {
                rig.machine
                    .remove_device(devices[random.below(devices.len() as u64) as usize]);
            }
            rig.machine.add_device();
        }
    });
    let deadline = Instant::now() + Duration::from_secs(20);
    while rig.machine.counters().in_flight > 0 {
        assert!(Instant::now() < deadline, "{:?}", rig.machine.counters());
        std::thread::sleep(Duration::from_millis(1));
    }
    let counters = rig.machine.counters();
    assert!(counters.is_valid(), "{counters:?}");
    let lies = rig
        .machine
        .injected()
        .into_iter()
        .filter(|(name, _)| ["wrong_data", "flipped_byte"].contains(name));
    assert!(wrong.load(Ordering::Relaxed) <= lies.map(|(_, count)| count).sum());
    let mut seen = BTreeMap::new();
    for (sequence, _) in rig.machine.outcomes() {
        *seen.entry(sequence).or_insert(0) += 1;
    }
    assert!(seen.values().all(|outcomes| *outcomes == 1) && seen.len() as u64 == counters.accepted);
}

fn submit_many(rig: &Rig<uzswap_iaa_model::machine::Real>, worker: u64, wrong: &AtomicU64) {
    let mut random = Random::new(worker);
    for i in 0..300u64 {
        // Each descriptor has buffers of its own: a late one may write at any time.
        let slot = worker * 300 + i;
        let devices = rig.machine.devices();
        let Some(device) = devices.get(random.below(devices.len().max(1) as u64) as usize) else {
            continue;
        };
        let Ok(file) = rig.machine.open(ME, *device, (i % 2) as u8) else {
            continue;
        };
        let plain = page(&mut random, i, 200);
        let d = Descriptor {
            src1_addr: SRC + 256 * slot,
            src1_size: 200,
            dst_addr: DST + 512 * slot,
            completion_addr: RECORDS + 64 * slot,
            max_dst_size: 512,
            ..compression()
        };
        rig.memory.store(d.src1_addr, &plain);
        let Ok(portal) = file.map(ME) else { continue };
        if (0..100).all(|_| portal.enqcmd(&d.encode()) == Submission::Retry) {
            continue;
        }
        let deadline = Instant::now() + Duration::from_millis(20);
        while rig.status(d.completion_addr) == 0 && Instant::now() < deadline {
            std::thread::yield_now();
        }
        let record = rig.record(d.completion_addr);
        if record.status == 1 && record.crc == crc32(&plain) {
            let output = rig.memory.load(d.dst_addr, record.output_size as usize);
            let right = miniz_oxide::inflate::decompress_to_vec(&output).is_ok_and(|bytes| bytes == plain);
            wrong.fetch_add(u64::from(!right), Ordering::Relaxed);
        }
    }
}
