//! The driver's discovery reads the model's sysfs.

use uzswap_iaa::aecs::DecompressAecs;
use uzswap_iaa::descriptor::Opcode;
use uzswap_iaa::topology::{Mode, Topology};
use uzswap_iaa_model::machine::{Machine, Virtual};
use uzswap_iaa_model::options::Options;

use crate::adapters::{Files, Resident};

fn machine(options: &str) -> Machine<Virtual> {
    let options: Options = options.parse().unwrap();
    Machine::<Virtual>::new(options.config(), Resident::new(1, 1).regions)
}

fn discover(options: &str) -> Topology {
    Topology::discover(&Files(machine(options).sysfs()))
}

#[test]
fn four_devices_of_two_queues() {
    let found = discover("devices=4,engines=8,wqs=2");
    let numbers: Vec<_> = found.devices.iter().map(|device| device.number).collect();
    assert_eq!(numbers, [1, 3, 5, 7]);
    for device in &found.devices {
        assert_eq!((device.version, device.max_work_queues_size), (0x200, 128));
        assert_eq!((device.numa_node, device.max_transfer_size), (Some(0), 1 << 31));
        assert_eq!(device.queues.len(), 2);
    }
    for queue in found.queues() {
        assert_eq!((queue.mode, queue.size, queue.capacity()), (Mode::Shared, 64, 64));
        assert_eq!(
            (queue.priority, queue.group, queue.max_transfer_size),
            (10, Some(0), 1 << 21)
        );
        assert!(queue.block_on_fault && queue.cache_control && queue.header_generation);
        assert_eq!(queue.aecs, DecompressAecs::Format2);
        let opcodes = [Opcode::NOOP, Opcode::COMPRESS, Opcode::DECOMPRESS];
        assert!(opcodes.iter().all(|&opcode| queue.opcodes.contains(opcode)));
    }
    // The other six queues of each device have no size and are off: each says so.
    assert_eq!(found.refusals.len(), 4 * 6);
    let says = found.refusals[0].to_string();
    assert_eq!(says, "wq1.2: state is \"disabled\": the work queue must be enabled");
}

#[test]
fn generation_1_has_no_headers_and_the_other_aecs() {
    let found = discover("generation=1,wqs=8,mode=dedicated");
    assert_eq!(found.devices[0].version, 0x100);
    assert_eq!(found.queues().count(), 8);
    for queue in found.queues() {
        assert_eq!((queue.mode, queue.size, queue.capacity()), (Mode::Dedicated, 16, 16));
        assert!(!queue.header_generation);
        assert_eq!(queue.aecs, DecompressAecs::Format1);
    }
    assert_eq!(found.refusals, []);
}

#[test]
fn what_changes_is_found() {
    let machine = machine("devices=2,wqs=2");
    let discover = || Topology::discover(&Files(machine.sysfs()));
    machine.unbind("wq1.0").unwrap();
    assert_eq!(discover().queues().count(), 3);
    machine.write_attribute("iax1/wq1.0/size", "8").unwrap();
    machine.write_attribute("iax1/wq1.0/threshold", "8").unwrap();
    machine.bind("wq1.0").unwrap();
    assert_eq!(
        discover().queues().map(|queue| queue.size).collect::<Vec<_>>(),
        [8, 64, 64, 64]
    );
    assert!(machine.remove_device(1));
    assert_eq!(discover().devices.len(), 1);
    machine.add_device();
    assert_eq!(discover().queues().count(), 4);
}
