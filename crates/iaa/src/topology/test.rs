use super::*;
use crate::aecs::DecompressAecs;
use crate::descriptor::Opcode;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::ToString;

/// Files by path.
#[derive(Clone, Default)]
struct Tree(BTreeMap<String, String>);

impl Sysfs for Tree {
    fn read(&self, path: &str) -> Option<String> {
        self.0.get(path).cloned()
    }

    fn list(&self, path: &str) -> Vec<String> {
        let below = self
            .0
            .keys()
            .filter_map(|file| file.strip_prefix(path)?.strip_prefix('/'));
        let names = below.map(|rest| rest.split('/').next().unwrap().to_string());
        let names: alloc::collections::BTreeSet<String> = names.collect();
        names.into_iter().collect()
    }
}

impl Tree {
    fn put(&mut self, directory: &str, attributes: &[(&str, &str)]) {
        for (name, value) in attributes {
            self.0.insert(format!("{directory}/{name}"), format!("{value}\n"));
        }
    }

    /// Two packages of four cores, each of two nodes; four devices of two queues each.
    fn seeds() -> Self {
        let mut tree = Self::default();
        for core in 0..8 {
            let directory = format!("/sys/devices/system/cpu/cpu{core}/topology");
            tree.put(&directory, &[("physical_package_id", &format!("{}", core / 4))]);
        }
        tree.put("/sys/devices/system/cpu", &[("online", "0-7"), ("cpufreq", "")]);
        for node in 0..4 {
            let directory = format!("/sys/devices/system/node/node{node}");
            tree.put(&directory, &[("cpulist", &format!("{}-{}", node * 2, node * 2 + 1))]);
        }
        for device in [1, 3, 5, 11] {
            tree.put_device(device, if device < 5 { 1 } else { 3 });
        }
        tree
    }

    fn put_device(&mut self, device: u32, node: u32) {
        let directory = format!("{DEVICES}/iax{device}");
        let attributes = [
            ("state", "enabled"),
            ("version", "0x100"),
            ("pasid_enabled", "1"),
            ("numa_node", &format!("{node}")),
            ("max_transfer_size", "2147483648"),
            ("max_work_queues_size", "128"),
            ("op_cap", OP_CAP),
            ("gen_cap", "0x71f10901f0105"),
            ("iaa_cap", "0x17d"),
        ];
        self.put(&directory, &attributes);
        self.put(&format!("{DEVICES}/iax{device}/engine{device}.0"), &[("group_id", "0")]);
        for queue in 0..2 {
            self.put_queue(device, queue);
        }
    }

    fn put_queue(&mut self, device: u32, queue: u32) {
        let directory = format!("{DEVICES}/iax{device}/wq{device}.{queue}");
        let mode = if queue == 0 { "dedicated" } else { "shared" };
        let attributes = [
            ("state", "enabled"),
            ("type", "user"),
            ("driver_name", "user"),
            ("mode", mode),
            ("size", "64"),
            ("threshold", if queue == 0 { "0" } else { "40" }),
            ("priority", "10"),
            ("group_id", "0"),
            ("block_on_fault", "1"),
            ("max_transfer_size", "2097152"),
            ("op_config", OP_CAP),
        ];
        self.put(&directory, &attributes);
        self.put(NODES, &[(&format!("wq{device}.{queue}"), "")]);
    }

    fn set(&mut self, path: &str, value: &str) -> &mut Self {
        self.0.insert(format!("{DEVICES}/{path}"), value.to_string());
        self
    }

    fn refusals(&self) -> Vec<String> {
        let refusals = Topology::discover(self).refusals;
        refusals.iter().map(ToString::to_string).collect()
    }
}

/// Opcodes 0, 2, 3, 42-44, 48, 49, 4c, 4d and 50-56.
const OP_CAP: &str = "00000000,00000000,00000000,00000000,00000000,007f331c,00000000,0000000d";

#[test]
fn four_devices_of_two_queues_each() {
    let topology = Topology::discover(&Tree::seeds());
    assert_eq!(topology.refusals, []);
    let devices: Vec<_> = topology
        .devices
        .iter()
        .map(|device| (device.number, device.package))
        .collect();
    assert_eq!(devices, [(1, 0), (3, 0), (5, 1), (11, 1)]);
    assert_eq!(topology.cores.packages(), [0, 0, 0, 0, 1, 1, 1, 1]);
    assert_eq!(
        (topology.cores.package_of_node(3), topology.cores.package_of_node(9)),
        (Some(1), None)
    );
    let names: Vec<_> = topology.queues().map(|queue| queue.id.to_string()).collect();
    assert_eq!(
        names,
        ["wq1.0", "wq1.1", "wq3.0", "wq3.1", "wq5.0", "wq5.1", "wq11.0", "wq11.1"]
    );
}

#[test]
fn a_queue_has_what_it_and_its_device_allow() {
    let topology = Topology::discover(&Tree::seeds());
    let [dedicated, shared] = &topology.devices[0].queues[..] else {
        panic!("two queues");
    };
    assert_eq!((dedicated.mode, dedicated.capacity()), (Mode::Dedicated, 64));
    assert_eq!((shared.mode, shared.capacity()), (Mode::Shared, 40));
    assert_eq!((shared.priority, shared.group), (10, Some(0)));
    assert_eq!(shared.max_transfer_size, 2 << 20);
    assert!(shared.block_on_fault && shared.header_generation && shared.cache_control);
    assert_eq!(shared.aecs, DecompressAecs::Format2);
    assert_eq!(shared.id.node(), "/dev/iax/wq1.1");
    assert!(shared.opcodes.contains(Opcode::COMPRESS) && !shared.opcodes.contains(Opcode(0x41)));
}

#[test]
fn op_cap_is_read_from_its_last_word() {
    let set = Opcodes::parse(OP_CAP).unwrap();
    let present = (0..=255).filter(|&number| set.contains(Opcode(number)));
    let expected = [0x00, 0x02, 0x03, 0x42, 0x43, 0x44, 0x48, 0x49, 0x4c, 0x4d].into_iter();
    assert!(present.eq(expected.chain(0x50..=0x56)));
    assert_eq!(
        Opcodes::parse("d"),
        Some([Opcode(0), Opcode(2), Opcode(3)].into_iter().collect())
    );
    for bad in ["", "x", "+f", "1,,2", "123456789", "0,0,0,0,0,0,0,0,0"] {
        assert_eq!(Opcodes::parse(bad), None, "{bad}");
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a line for each refusal")]
fn what_is_not_of_use_says_value_and_rule() {
    let says = |path: &str, value: &str| Tree::seeds().set(path, value).refusals();
    let cases = [
        (
            "iax1/state",
            "disabled",
            "iax1: state is \"disabled\": the device must be enabled",
        ),
        (
            "iax1/pasid_enabled",
            "0",
            "iax1: pasid_enabled is \"0\": user space needs PASIDs: intel_iommu=on,sm_on",
        ),
        ("iax1/numa_node", "x", "iax1: numa_node is \"x\": must be a node, or -1"),
        ("iax1/op_cap", "zz", "iax1: op_cap is \"zz\": must be hexadecimal words"),
        (
            "iax1/op_cap",
            "d",
            "iax1: op_cap is \"d\": the device must compress (bit 0x43) and decompress (bit 0x42)",
        ),
        (
            "iax1/max_transfer_size",
            "0",
            "iax1: max_transfer_size is \"0\": must be a number of bytes",
        ),
        ("iax1/iaa_cap", "many", "iax1: iaa_cap is \"many\": must be a number"),
        (
            "iax1/version",
            "0x100000000",
            "iax1: version is \"0x100000000\": must be a number below 2^32",
        ),
        (
            "iax1/max_work_queues_size",
            "64",
            "iax1: max_work_queues_size is \"64\": the sizes of its work queues must not exceed it",
        ),
        (
            "iax1/wq1.0/state",
            "disabled",
            "wq1.0: state is \"disabled\": the work queue must be enabled",
        ),
        (
            "iax1/wq1.0/type",
            "kernel",
            "wq1.0: type is \"kernel\": user space needs a work queue of type user",
        ),
        (
            "iax1/wq1.0/driver_name",
            "crypto",
            "wq1.0: driver_name is \"crypto\": the driver user must be bound",
        ),
        (
            "iax1/wq1.0/mode",
            "half",
            "wq1.0: mode is \"half\": must be shared or dedicated",
        ),
        (
            "iax1/wq1.0/size",
            "",
            "wq1.0: size is \"\": must be a number of entries, at least 1",
        ),
        (
            "iax1/wq1.1/threshold",
            "65",
            "wq1.1: threshold is \"65\": of a shared work queue it must be 1 to size",
        ),
        (
            "iax1/wq1.1/op_config",
            "0000000d",
            "wq1.1: op_config is \"0000000d\": must allow compression (bit 0x43) or decompression (bit 0x42)",
        ),
    ];
    for (path, value, complaint) in cases {
        assert_eq!(says(path, value), [complaint], "{path} = {value}");
    }
}

#[test]
fn a_queue_without_a_node_is_not_of_use() {
    let mut tree = Tree::seeds();
    tree.0.remove("/dev/iax/wq3.1");
    let topology = Topology::discover(&tree);
    assert_eq!(topology.queues().count(), 7);
    assert_eq!(
        topology.refusals[0].to_string(),
        "wq3.1: cdev_minor is \"\": /dev/iax must have its node"
    );
}

#[test]
fn older_kernels_lack_attributes() {
    let mut tree = Tree::seeds();
    for path in ["iax1/iaa_cap", "iax1/gen_cap", "iax1/wq1.1/op_config", "iax1/numa_node"] {
        tree.0.remove(&format!("{DEVICES}/{path}"));
    }
    let topology = Topology::discover(&tree);
    let device = &topology.devices[0];
    assert_eq!((device.numa_node, device.package, device.iaa_cap), (None, 0, 0));
    let queue = &device.queues[1];
    assert_eq!((queue.opcodes, queue.aecs), (device.op_cap, DecompressAecs::Format1));
    assert!(!queue.block_on_fault && !queue.header_generation && !queue.cache_control);
}

#[test]
fn a_device_whose_queues_are_all_of_no_use_is_left_out() {
    let mut tree = Tree::seeds();
    tree.set("iax5/wq5.0/state", "disabled")
        .set("iax5/wq5.1/state", "disabled");
    let topology = Topology::discover(&tree);
    assert_eq!((topology.devices.len(), topology.refusals.len()), (3, 2));
}

#[test]
fn a_machine_without_devices_has_none() {
    assert_eq!(Topology::discover(&Tree::default()), Topology::default());
}

#[test]
fn the_first_word_of_a_list_may_be_a_range() {
    assert_eq!(parse::list("0-2,5,7-8"), Some(alloc::vec![0, 1, 2, 5, 7, 8]));
    assert_eq!(parse::list(""), Some(alloc::vec![]));
    for bad in ["x", "3-1", "0-99999999", "8192"] {
        assert_eq!(parse::list(bad), None, "{bad}");
    }
}

proptest::proptest! {
    /// Whatever an attribute says, discovery ends, and what it lets through keeps the rules.
    #[test]
    fn any_value_is_taken_or_refused(
        attribute in 0..21usize,
        value in proptest::prop_oneof!["[0-9]{0,12}", "0x[0-9a-f]{0,17}", "[-+,.0-9a-z]{0,20}", "\\PC{0,8}"],
    ) {
        let mut tree = Tree::seeds();
        let mut paths: Vec<_> = tree.0.keys().filter(|path| path.contains("/iax1/")).cloned().collect();
        paths.push("/sys/devices/system/cpu/cpu2/topology/physical_package_id".into());
        paths.push("/sys/devices/system/node/node1/cpulist".into());
        tree.0.insert(paths[attribute % paths.len()].clone(), value);
        let topology = Topology::discover(&tree);
        for queue in topology.queues() {
            proptest::prop_assert!((1..=queue.size).contains(&queue.capacity()));
            proptest::prop_assert!(queue.max_transfer_size <= 2 << 30);
        }
        proptest::prop_assert!(topology.queues().count() >= 6);
    }
}

#[test]
fn a_core_with_an_absurd_number_is_no_core() {
    let mut tree = Tree::seeds();
    tree.put(
        "/sys/devices/system/cpu/cpu4294967295/topology",
        &[("physical_package_id", "0")],
    );
    assert_eq!(Topology::discover(&tree).cores.packages().len(), 8);
}
