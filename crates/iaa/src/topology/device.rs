//! A device and its work queues.

use super::parse::{Attributes, number, numbers};
use super::{Cores, DEVICES, NODES, Opcodes, Refusal, Sysfs};
use crate::aecs::DecompressAecs;
use crate::descriptor::Opcode;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// `iaa_cap` bit 0: generation 2, AECS format 2.
const IAA_CAP_GENERATION_2: u64 = 1;
/// `iaa_cap` bit 8: the device makes dynamic headers.
const IAA_CAP_HEADER_GENERATION: u64 = 1 << 8;
/// `gen_cap` bit 0: a work queue may block on faults.
const GEN_CAP_BLOCK_ON_FAULT: u64 = 1;
/// `gen_cap` bit 2: a descriptor may choose to write to the cache.
const GEN_CAP_CACHE_CONTROL: u64 = 1 << 2;

/// What discovery reads of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Its number: m of `iax<m>`.
    pub number: u32,
    /// Its version register: 0x100 is generation 1, 0x200 generation 2.
    pub version: u32,
    /// Its NUMA node, if it has one.
    pub numa_node: Option<u32>,
    /// The package that it belongs to; 0 if the node does not say.
    pub package: u32,
    /// What its engines can.
    pub op_cap: Opcodes,
    /// Its capabilities for compression.
    pub iaa_cap: u64,
    /// Its general capabilities.
    pub gen_cap: u64,
    /// Bytes that a descriptor may move at most.
    pub max_transfer_size: u64,
    /// Entries of all its work queues.
    pub max_work_queues_size: u32,
    /// Its work queues of use, by number.
    pub queues: Vec<WorkQueue>,
}

/// Names a work queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkQueueId {
    /// The device.
    pub device: u32,
    /// The queue's number there.
    pub queue: u32,
}

impl WorkQueueId {
    /// The path of its character device.
    #[must_use]
    pub fn node(self) -> String {
        format!("{NODES}/{self}")
    }
}

impl core::fmt::Display for WorkQueueId {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "wq{}.{}", self.device, self.queue)
    }
}

/// Who may submit to a work queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Every process that may open it; ENQCMD says when it is full.
    Shared,
    /// One process, which must count its descriptors itself: MOVDIR64B never refuses.
    Dedicated,
}

/// What discovery reads of a work queue, with what it inherits from its device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkQueue {
    /// Its name.
    pub id: WorkQueueId,
    /// Who may submit.
    pub mode: Mode,
    /// Descriptors that it holds.
    pub size: u32,
    /// Of a shared one: it takes no more from user space beyond this many.
    pub threshold: u32,
    /// Its weight among the device's queues, 1 to 15.
    pub priority: u32,
    /// Its group, which ties it to engines.
    pub group: Option<u32>,
    /// What may be submitted.
    pub opcodes: Opcodes,
    /// Bytes that a descriptor may move at most.
    pub max_transfer_size: u64,
    /// Whether a descriptor may block on a fault.
    pub block_on_fault: bool,
    /// Whether a descriptor may choose to write to the cache.
    pub cache_control: bool,
    /// Whether the device makes dynamic headers.
    pub header_generation: bool,
    /// The AECS that canned decompression needs.
    pub aecs: DecompressAecs,
}

impl WorkQueue {
    /// How many descriptors may be in flight.
    #[must_use]
    pub fn capacity(&self) -> u32 {
        match self.mode {
            Mode::Shared => self.threshold,
            Mode::Dedicated => self.size,
        }
    }
}

impl Device {
    /// Read a device and its queues. Queues that are not of use go to `refusals`.
    pub(super) fn discover(
        sysfs: &(impl Sysfs + ?Sized),
        number: u32,
        cores: &Cores,
        refusals: &mut Vec<Refusal>,
    ) -> Result<Self, Refusal> {
        let object = format!("iax{number}");
        let attributes = Attributes {
            sysfs,
            directory: format!("{DEVICES}/{object}"),
            object,
        };
        attributes.must_be("state", "enabled", "the device must be enabled")?;
        attributes.must_be("pasid_enabled", "1", "user space needs PASIDs: intel_iommu=on,sm_on")?;
        let mut device = Self::read(&attributes, number, cores)?;
        let mut names = sysfs.list(&attributes.directory);
        names.sort_by_key(|name| numbers::<2>(name, "wq"));
        let nodes = sysfs.list(NODES);
        for [owner, queue] in names.iter().filter_map(|name| numbers::<2>(name, "wq")) {
            if owner != number {
                continue;
            }
            match device.read_queue(&attributes, queue, &nodes) {
                Ok(queue) => device.queues.push(queue),
                Err(refusal) => refusals.push(refusal),
            }
        }
        device.check_sizes(&attributes)?;
        Ok(device)
    }

    fn read(attributes: &Attributes<'_, impl Sysfs + ?Sized>, number: u32, cores: &Cores) -> Result<Self, Refusal> {
        let node = attributes.value("numa_node", "must be a node, or -1", |text| match text {
            "" | "-1" => Some(None),
            text => text.parse().ok().map(Some),
        })?;
        let op_cap = attributes.value("op_cap", "must be hexadecimal words", Opcodes::parse)?;
        for opcode in [Opcode::COMPRESS, Opcode::DECOMPRESS] {
            if !op_cap.contains(opcode) {
                let rule = "the device must compress (bit 0x43) and decompress (bit 0x42)";
                return Err(attributes.refuse("op_cap", &attributes.text("op_cap"), rule));
            }
        }
        Ok(Self {
            number,
            version: attributes.small_number_or("version", 0x100)?,
            numa_node: node,
            package: node.and_then(|node| cores.package_of_node(node)).unwrap_or(0),
            op_cap,
            iaa_cap: attributes.number_or("iaa_cap", 0)?,
            gen_cap: attributes.number_or("gen_cap", 0)?,
            max_transfer_size: attributes.value("max_transfer_size", "must be a number of bytes", some_number)?,
            max_work_queues_size: attributes.small_number_or("max_work_queues_size", 128)?,
            queues: Vec::new(),
        })
    }

    fn read_queue(
        &self,
        device: &Attributes<'_, impl Sysfs + ?Sized>,
        queue: u32,
        nodes: &[String],
    ) -> Result<WorkQueue, Refusal> {
        let id = WorkQueueId {
            device: self.number,
            queue,
        };
        let attributes = Attributes {
            sysfs: device.sysfs,
            directory: format!("{}/{id}", device.directory),
            object: id.to_string(),
        };
        attributes.must_be("state", "enabled", "the work queue must be enabled")?;
        attributes.must_be("type", "user", "user space needs a work queue of type user")?;
        attributes.must_be("driver_name", "user", "the driver user must be bound")?;
        let mode = attributes.value("mode", "must be shared or dedicated", |text| match text {
            "shared" => Some(Mode::Shared),
            "dedicated" => Some(Mode::Dedicated),
            _ => None,
        })?;
        let size = attributes.value("size", "must be a number of entries, at least 1", |text| {
            some_number(text)?.try_into().ok()
        })?;
        let threshold = attributes.small_number_or("threshold", 0)?;
        if mode == Mode::Shared && !(1..=size).contains(&threshold) {
            let rule = "of a shared work queue it must be 1 to size";
            return Err(attributes.refuse("threshold", &threshold.to_string(), rule));
        }
        let op_config = attributes.value("op_config", "must be hexadecimal words", |text| match text {
            "" => Some(self.op_cap),
            text => Opcodes::parse(text),
        })?;
        let opcodes = op_config.intersection(&self.op_cap);
        if !opcodes.contains(Opcode::COMPRESS) && !opcodes.contains(Opcode::DECOMPRESS) {
            let rule = "must allow compression (bit 0x43) or decompression (bit 0x42)";
            return Err(attributes.refuse("op_config", &attributes.text("op_config"), rule));
        }
        if !nodes.contains(&id.to_string()) {
            return Err(attributes.refuse(
                "cdev_minor",
                &attributes.text("cdev_minor"),
                "/dev/iax must have its node",
            ));
        }
        let may_block = attributes.number_or("block_on_fault", 0)? == 1;
        let max_transfer = attributes.number_or("max_transfer_size", self.max_transfer_size)?;
        Ok(WorkQueue {
            id,
            mode,
            size,
            threshold,
            priority: attributes.small_number_or("priority", 1)?,
            group: attributes.text("group_id").parse().ok(),
            opcodes,
            max_transfer_size: max_transfer.min(self.max_transfer_size),
            block_on_fault: may_block && self.gen_cap & GEN_CAP_BLOCK_ON_FAULT != 0,
            cache_control: self.gen_cap & GEN_CAP_CACHE_CONTROL != 0,
            header_generation: self.iaa_cap & IAA_CAP_HEADER_GENERATION != 0,
            aecs: if self.iaa_cap & IAA_CAP_GENERATION_2 != 0 {
                DecompressAecs::Format2
            } else {
                DecompressAecs::Format1
            },
        })
    }

    /// The queues share the device's entries.
    fn check_sizes(&self, attributes: &Attributes<'_, impl Sysfs + ?Sized>) -> Result<(), Refusal> {
        let sizes: u64 = self.queues.iter().map(|queue| u64::from(queue.size)).sum();
        if sizes > u64::from(self.max_work_queues_size) {
            let value = self.max_work_queues_size.to_string();
            return Err(attributes.refuse(
                "max_work_queues_size",
                &value,
                "the sizes of its work queues must not exceed it",
            ));
        }
        Ok(())
    }
}

/// A number that is not 0.
fn some_number(text: &str) -> Option<u64> {
    number(text).filter(|&number| number != 0)
}
