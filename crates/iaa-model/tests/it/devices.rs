//! Character devices, registers, commands and sysfs.

use uzswap_iaa_model::descriptor::{Descriptor, opcode};
use uzswap_iaa_model::device::QueueConfig;
use uzswap_iaa_model::device::caps::Caps;
use uzswap_iaa_model::machine::{Config, Errno, Process, Submission};

use crate::rig::*;

const CMD: u32 = 0xa0;
const CMDSTS: u32 = 0xa8;

fn dedicated(size: u16) -> Config {
    let caps = Caps::generation_2();
    Config {
        queues: vec![QueueConfig::dedicated(size, &caps)],
        ..Config::default()
    }
}

fn noop(i: u64) -> [u8; 64] {
    let d = Descriptor {
        completion_addr: RECORDS + 64 * i,
        ..descriptor(opcode::NOOP)
    };
    d.encode()
}

#[test]
fn who_may_open_and_map() {
    let rig = Rig::with(dedicated(16));
    let open = |process| rig.machine.open(process, rig.device, 0).err();
    assert_eq!(open(ME), Some(Errno::Busy), "the rig has it");
    let child = Process(101);
    assert_eq!(rig.file.map(child).err(), Some(Errno::NotPermitted));
    assert_eq!(rig.file.write(child, &[noop(0)]), Err(Errno::NotPermitted));
    assert_eq!(
        rig.machine.open(ME, rig.device, 1).err(),
        Some(Errno::NoDevice),
        "not configured"
    );
    assert_eq!(rig.machine.open(ME, 77, 0).err(), Some(Errno::NoDevice));
    let Rig {
        machine,
        file,
        portal,
        device,
        ..
    } = rig;
    drop(file);
    assert_eq!(
        machine.open(child, device, 0).err(),
        Some(Errno::Busy),
        "the mapping lives"
    );
    drop(portal);
    assert!(machine.open(child, device, 0).is_ok());
}

#[test]
fn write_in_place_of_a_portal() {
    let memory = memory();
    let config = Config {
        may_map: false,
        ..Config::default()
    };
    let machine = uzswap_iaa_model::machine::Machine::inline(config, memory.clone());
    let file = machine.open(ME, 1, 0).unwrap();
    assert_eq!(file.map(ME).err(), Some(Errno::NotPermitted));
    assert_eq!(file.write(ME, &[noop(0), noop(1), noop(2)]), Ok(192));
    assert_eq!(
        (0..4).map(|i| memory.load(RECORDS + 64 * i, 1)[0]).collect::<Vec<_>>(),
        [1, 1, 1, 0]
    );
}

#[test]
fn write_to_a_full_queue() {
    let mut config = Config {
        engines: 1,
        ..Config::default()
    };
    config.queues[0].threshold = 2;
    let rig = Rig::virtual_time(config);
    let batch: Vec<_> = (0..5).map(noop).collect();
    assert_eq!(rig.file.write(ME, &batch), Ok(3 * 64), "one on the engine, two waiting");
    assert_eq!(rig.file.write(ME, &batch[3..]), Err(Errno::Again));
    assert!(rig.machine.counters().refused >= 2 * 64);
    rig.machine.run();
    assert_eq!(rig.file.write(ME, &batch[3..]), Ok(128));
    rig.machine.run();
    assert!((0..5).all(|i| rig.status(RECORDS + 64 * i) == 1));
}

/// Beyond its size a dedicated queue loses descriptors, and says so in SWERR.
#[test]
fn credits_are_the_programs_business() {
    let rig = Rig::virtual_time(Config {
        engines: 1,
        ..dedicated(4)
    });
    (0..7).for_each(|i| rig.portal.movdir64b(&noop(i)));
    rig.machine.run();
    let done = (0..7).filter(|i| rig.status(RECORDS + 64 * i) == 1).count();
    assert_eq!(
        (done, rig.machine.counters().dropped),
        (5, 2),
        "one on the engine, four waiting"
    );
    assert_eq!(
        rig.machine.read64(rig.device, 0xc0) & 0xf,
        0xf,
        "valid, and another one"
    );
    assert!(rig.file.poll(ME).unwrap());
    assert_eq!(
        rig.portal.enqcmd(&noop(0)),
        Submission::Retry,
        "ENQCMD is for shared queues"
    );
}

#[test]
fn capability_registers() {
    let rig = Rig::new();
    let read = |offset| rig.machine.read64(rig.device, offset);
    assert_eq!(read(0), 0x200);
    assert_eq!(read(0x20) & 0xff_ffff, 128 | 8 << 16);
    assert_eq!((read(0x30) & 0xff, read(0x38) & 0xff), (4, 8));
    assert_eq!((read(0x40), read(0x48)), (0b1101, 0b1_1100));
    assert_eq!(read(0x180), 0x103);
    assert_eq!(read(0x90) & 3, 1);
    let (groups, queues) = (0x100 * (read(0x60) & 0xffff), 0x100 * (read(0x60) >> 16 & 0xffff));
    assert_eq!(read(groups as u32), 0b11);
    assert_eq!(read(groups as u32 + 32), 0xff);
    assert_eq!(read(queues as u32), 64 | 64 << 32);
    assert_eq!(read(queues as u32 + 8) & 0xff, 0xa2, "shared, BOF, priority 10");
    assert_eq!(read(queues as u32 + 24) >> 30, 1, "on");
    assert_eq!(rig.machine.read64(99, 0), u64::MAX, "nothing there");
}

#[test]
fn commands_are_refused_by_state() {
    let rig = Rig::new();
    let command = |code: u32, operand: u32| {
        rig.machine.write32(rig.device, CMD, code << 20 | operand);
        rig.machine.read32(rig.device, CMDSTS)
    };
    let state = || {
        rig.machine
            .sysfs()
            .read(&format!("iax{0}/wq{0}.0/state", rig.device))
            .unwrap()
            .to_owned()
    };
    assert_eq!(command(1, 0), 0x10, "enabled already");
    assert_eq!(command(6, 0), 0x21, "the queue, too");
    assert_eq!(command(6, 99), 0x02);
    assert_eq!(command(30, 0), 0x01);
    assert_eq!(command(7, 0), 0);
    assert_eq!(state(), "disabled");
    assert_eq!(rig.machine.open(ME, rig.device, 0).err(), Some(Errno::NoDevice));
    assert_eq!(rig.portal.enqcmd(&noop(0)), Submission::Accepted, "it vanishes");
    assert_eq!((rig.status(RECORDS), rig.machine.counters().gone), (0, 1));
    assert_eq!(command(7, 0), 0x22);
    assert_eq!((command(6, 0), state()), (0, "enabled".to_owned()));
    assert_eq!(command(2, 0), 0);
    assert_eq!(command(2, 0), 0x20);
    assert_eq!(command(6, 0), 0x20);
    assert_eq!((command(1, 0), command(6, 0)), (0, 0));
    rig.portal.enqcmd(&noop(1));
    assert_eq!(rig.status(RECORDS + 64), 1);
    let cause = rig.machine.read32(rig.device, 0x98);
    assert_eq!(cause & 2, 2);
    rig.machine.write32(rig.device, 0x98, 2);
    assert_eq!(rig.machine.read32(rig.device, 0x98), cause & !2);
}

#[test]
fn drain_and_abort() {
    let rig = Rig::virtual_time(Config {
        engines: 1,
        ..Config::default()
    });
    let command = |code: u32| rig.machine.write32(rig.device, CMD, code << 20);
    (0..4).for_each(|i| assert_eq!(rig.portal.enqcmd(&noop(i)), Submission::Accepted));
    command(7);
    assert_eq!(rig.machine.read32(rig.device, CMDSTS), 1 << 31, "not done");
    assert_eq!(rig.machine.read64(rig.device, 0x90) & 3, 2, "drains");
    rig.portal.enqcmd(&noop(9));
    rig.machine.run();
    assert_eq!(rig.machine.read32(rig.device, CMDSTS), 0);
    assert!((0..4).all(|i| rig.status(RECORDS + 64 * i) == 1));
    assert_eq!(rig.status(RECORDS + 64 * 9), 0);
    command(6);
    (20..24).for_each(|i| assert_eq!(rig.portal.enqcmd(&noop(i)), Submission::Accepted));
    command(9);
    rig.machine.run();
    assert!((20..24).all(|i| rig.status(RECORDS + 64 * i) == 0));
    assert_eq!(rig.machine.counters().aborted, 4);
    rig.portal.enqcmd(&noop(30));
    rig.machine.run();
    assert_eq!(rig.status(RECORDS + 64 * 30), 1, "the queue is still on");
}

#[test]
fn aborted_with_a_record() {
    let rig = Rig::virtual_time(Config {
        abort_records: true,
        ..Config::default()
    });
    rig.portal.enqcmd(&noop(0));
    rig.machine.write32(rig.device, CMD, 5 << 20);
    assert_eq!(rig.status(RECORDS), 0x22);
    rig.machine.run();
    assert_eq!(rig.machine.counters().completed[&0x22], 1);
    assert_eq!(rig.machine.read64(rig.device, 0x90) & 3, 0, "off after a reset");
}

#[test]
fn devices_come_and_go() {
    let rig = Rig::with(Config {
        devices: 2,
        nodes: 2,
        ..Config::default()
    });
    assert_eq!(rig.machine.sysfs().list(""), ["iax1", "iax3"]);
    assert!(rig.machine.remove_device(1));
    assert_eq!(rig.machine.sysfs().list(""), ["iax3"]);
    assert_eq!(rig.portal.enqcmd(&noop(0)), Submission::Accepted);
    assert_eq!(rig.machine.open(ME, 1, 0).err(), Some(Errno::NoDevice));
    assert_eq!(rig.machine.add_device(), 1);
    assert_eq!(rig.portal.enqcmd(&noop(0)), Submission::Accepted);
    assert_eq!(
        (rig.status(RECORDS), rig.machine.counters().gone),
        (0, 2),
        "the portal led to another device"
    );
    assert!(!rig.machine.add_device_as(3));
    let file = rig.machine.open(ME, 1, 0).unwrap();
    file.map(ME).unwrap().enqcmd(&noop(0));
    assert_eq!(rig.status(RECORDS), 1);
}

#[test]
fn sysfs_text() {
    let rig = Rig::new();
    let tree = rig.machine.sysfs();
    let read = |path: &str| tree.read(path).unwrap_or_else(|| panic!("{path} is not there"));
    assert_eq!(
        read("iax1/op_cap"),
        "00000000,00000000,00000000,00000000,00000000,0000001c,00000000,0000000d"
    );
    assert_eq!((read("iax1/version"), read("iax1/iaa_cap")), ("0x200", "0x103"));
    assert_eq!(read("iax1/max_transfer_size"), "2147483648");
    assert_eq!(
        (
            read("iax1/wq1.0/size"),
            read("iax1/wq1.0/threshold"),
            read("iax1/wq1.0/mode")
        ),
        ("64", "64", "shared")
    );
    assert_eq!(
        (read("iax1/wq1.0/type"), read("iax1/wq1.0/driver_name")),
        ("user", "user")
    );
    assert_eq!(
        (read("iax1/wq1.2/state"), read("iax1/wq1.2/group_id")),
        ("disabled", "-1")
    );
    assert_eq!((read("iax1/engine1.7/group_id"), read("iax1/clients")), ("0", "1"));
    assert!(tree.list("iax1").contains(&"group1.3"));
    let files: Vec<_> = tree
        .list("iax1/wq1.0")
        .into_iter()
        .filter(|name| name.starts_with("file"))
        .collect();
    assert_eq!(files.len(), 1);
    assert_eq!(tree.read(&format!("iax1/wq1.0/{}/pid", files[0])), Some("100"));
}

/// By registers as by the kernel.
#[test]
fn only_a_queue_that_is_off_is_configured() {
    let rig = Rig::new();
    let queues = 0x100 * (rig.machine.read64(rig.device, 0x60) >> 16 & 0xffff) as u32;
    rig.machine.write64(rig.device, queues, 10 | 5 << 32);
    assert_eq!(rig.machine.read64(rig.device, queues), 64 | 64 << 32, "it is on");
    rig.machine.write32(rig.device, CMD, 7 << 20);
    rig.machine.write64(rig.device, queues, 10 | 5 << 32);
    assert_eq!(rig.machine.read64(rig.device, queues), 10 | 5 << 32);
    rig.machine.write64(rig.device, queues + 40, 0);
    rig.machine.write32(rig.device, CMD, 6 << 20);
    assert_eq!(
        rig.run(&codec(opcode::COMPRESS, 0x16, 1, 9)).status,
        0x10,
        "op_config has no COMPRESS"
    );
    let caps = Caps::generation_2();
    assert!(!rig.machine.configure(rig.device, 0, QueueConfig::user(9, &caps)));
    assert!(rig.machine.configure(rig.device, 5, QueueConfig::user(9, &caps)));
}

/// What a script that configures devices does: unbind, write attributes, bind.
#[test]
fn configuration_by_attributes() {
    let rig = Rig::new();
    let machine = &rig.machine;
    let write = |path: &str, text: &str| machine.write_attribute(path, text);
    let status = || machine.sysfs().read("iax1/cmd_status").unwrap().to_owned();
    assert_eq!(write("iax1/wq1.0/size", "16"), Err(Errno::NotPermitted), "enabled");
    assert_eq!(write("iax1/engine1.0/group_id", "1"), Err(Errno::NotPermitted));
    assert_eq!(machine.bind("iax1"), Err(Errno::Invalid));
    assert_eq!(status(), "0x80000010");
    assert_eq!(machine.unbind("iax1"), Ok(()));
    assert_eq!(machine.bind("wq1.0"), Err(Errno::Invalid));
    assert_eq!(status(), "0x80000020");
    for (path, text) in [
        ("iax1/wq1.0/size", "100"),
        ("iax1/wq1.0/threshold", "65"),
        ("iax1/wq1.0/priority", "0"),
        ("iax1/wq1.0/mode", "open"),
        ("iax1/wq1.0/group_id", "4"),
        ("iax1/wq1.0/op_config", "00000002"),
    ] {
        assert_eq!(write(path, text), Err(Errno::Invalid), "{path} {text}");
    }
    assert_eq!(write("iax1/wq1.9/size", "1"), Err(Errno::NoDevice));
    assert_eq!(write("iax1/wq1.0/colour", "red"), Err(Errno::NoDevice));
    // A group that compresses and one that does not.
    for engine in 2..8 {
        assert_eq!(write(&format!("iax1/engine1.{engine}/group_id"), "1"), Ok(()));
    }
    for (path, text) in [
        ("iax1/wq1.0/size", "32"),
        ("iax1/wq1.0/threshold", "32"),
        ("iax1/wq1.1/group_id", "1"),
        ("iax1/wq1.1/op_config", "0000001c,00000000,0000000d\n"),
        ("iax1/wq1.2/type", "user"),
        ("iax1/wq1.2/name", "third"),
        ("iax1/group1.1/traffic_class_a", "5"),
    ] {
        assert_eq!(write(path, text), Ok(()), "{path} {text}");
    }
    assert_eq!(machine.bind("iax1"), Ok(()));
    for (path, text, code) in [
        ("iax1/wq1.2/group_id", "0", "0x80030000"),
        ("iax1/wq1.2/size", "8", "0x800e0000"),
        ("iax1/wq1.2/threshold", "8", "0x80060000"),
    ] {
        let _ = machine.write_attribute("iax1/wq1.2/threshold", "0");
        assert_eq!(machine.bind("wq1.2"), Err(Errno::Invalid));
        assert_eq!(status(), code);
        assert_eq!(write(path, text), Ok(()));
    }
    for queue in ["wq1.0", "wq1.1", "wq1.2"] {
        assert_eq!(machine.bind(queue), Ok(()), "{queue}: {}", status());
    }
    assert_eq!(machine.bind("wq1.2"), Err(Errno::Invalid));
    assert_eq!(status(), "0x80000021");
    assert_eq!(rig.run(&codec(opcode::COMPRESS, 0x3006, 100, 200)).status, 1);
    let other = machine.open(ME, 1, 1).unwrap().map(ME).unwrap();
    other.enqcmd(&codec(opcode::COMPRESS, 0x3006, 100, 200).encode());
    assert_eq!(rig.status(RECORDS), 0x10, "none of its engines compresses");
    other.enqcmd(&noop(1));
    assert_eq!(rig.status(RECORDS + 64), 1);
    assert_eq!(machine.sysfs().read("iax1/group1.1/traffic_class_a"), Some("5"));
}

/// Once a device is gone, nothing that it held writes to memory any more.
#[test]
fn no_write_after_a_removal() {
    for round in 0..30 {
        let rig = Rig::threads(Config::default(), 2);
        rig.memory.store(AECS, &fixed_aecs(true));
        for i in 0..40 {
            let d = Descriptor {
                completion_addr: RECORDS + 64 * i,
                dst_addr: DST + 8192 * i,
                ..reading(codec(opcode::COMPRESS, 0x6, 4096, 8192), 1568)
            };
            rig.portal.enqcmd(&d.encode());
        }
        std::thread::sleep(std::time::Duration::from_micros(100 * round));
        rig.machine.remove_device(rig.device);
        let memory = || (rig.memory.load(RECORDS, 64 * 40), rig.memory.load(DST, 8192 * 40));
        let before = memory();
        std::thread::sleep(std::time::Duration::from_millis(2));
        assert!(memory() == before);
        let counters = rig.machine.counters();
        assert!(counters.is_valid() && counters.in_flight == 0, "{counters:?}");
    }
}
