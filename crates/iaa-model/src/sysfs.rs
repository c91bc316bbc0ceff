//! What `/sys/bus/dsa/devices/` says of the devices (data sheet A2).
//!
//! Text as the kernel prints it, without the line's end. Attributes that nothing in the model
//! depends on have the values of a device nobody touched.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

use crate::device::queue::Queue;
use crate::device::{Device, Mode, QueueKind, QueueState};

/// Files by their paths below `/sys/bus/dsa/devices/`, such as `iax1/wq1.0/size`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Tree(BTreeMap<String, String>);

impl Tree {
    /// The text of a file.
    pub fn read(&self, path: &str) -> Option<&str> {
        self.0.get(path).map(String::as_str)
    }

    /// Names in a directory; the root is the empty path.
    pub fn list(&self, directory: &str) -> Vec<&str> {
        let below = |path: &'_ String| {
            let rest = match directory {
                "" => Some(0),
                _ => (path.starts_with(directory) && path[directory.len()..].starts_with('/'))
                    .then_some(directory.len() + 1),
            };
            rest.map(|at| at..path[at..].find('/').map_or(path.len(), |end| at + end))
        };
        let names = self.0.keys().filter_map(|path| below(path).map(|part| &path[part]));
        names.collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// All files, in the order of their paths.
    pub fn files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(path, text)| (path.as_str(), text.as_str()))
    }

    pub(crate) fn of<'a>(devices: impl Iterator<Item = &'a Device>) -> Self {
        let mut tree = Self::default();
        devices.for_each(|device| tree.put_device(device));
        tree
    }

    fn put(&mut self, directory: &str, name: &str, value: impl Display) {
        self.0.insert(format!("{directory}/{name}"), value.to_string());
    }

    fn put_device(&mut self, device: &Device) {
        let (id, caps) = (device.id, &device.caps);
        let at = format!("iax{id}");
        let state = if device.is_running() { "enabled" } else { "disabled" };
        self.put(&at, "version", format_args!("{:#x}", caps.version));
        self.put(&at, "state", state);
        self.put(&at, "pasid_enabled", 1);
        self.put(&at, "numa_node", device.numa_node);
        self.put(&at, "max_transfer_size", caps.max_transfer());
        self.put(&at, "max_work_queues", caps.queues);
        self.put(&at, "max_work_queues_size", caps.entries);
        self.put(&at, "max_engines", caps.engines);
        self.put(&at, "max_groups", caps.groups);
        self.put(&at, "op_cap", caps.op_cap.text());
        self.put(&at, "gen_cap", format_args!("{:#x}", caps.gen_cap()));
        self.put(&at, "iaa_cap", format_args!("{:#x}", caps.iaa_cap));
        self.put(&at, "cmd_status", format_args!("{:#x}", device.command_result()));
        let error = device
            .sw_error
            .as_ref()
            .map(super::device::SwError::encode)
            .unwrap_or_default();
        let words: Vec<_> = error.iter().map(|word| format!("{word:#018x}")).collect();
        self.put(&at, "errors", words.join(","));
        self.put(&at, "event_log_size", device.event_log.size());
        let files: usize = device.queues.iter().map(|queue| queue.files.len()).sum();
        self.put(&at, "clients", files);
        self.put(&at, "configurable", 1);
        self.put(&at, "cdev_major", 234);
        for (i, queue) in device.queues.iter().enumerate() {
            self.put_queue(device, queue, i);
        }
        for (i, group) in device.groups.iter().enumerate() {
            let at = format!("iax{id}/group{id}.{i}");
            self.put(&at, "traffic_class_a", group.flags & 7);
            self.put(&at, "traffic_class_b", group.flags >> 3 & 7);
            self.put(&at, "use_read_buffer_limit", group.flags >> 7 & 1);
            self.put(&at, "read_buffers_reserved", group.flags >> 8 & 0xff);
            self.put(&at, "read_buffers_allowed", group.flags >> 20 & 0xff);
            self.put(&at, "desc_progress_limit", group.flags >> 32 & 3);
        }
        for (i, engine) in device.engines.iter().enumerate() {
            self.put(&format!("iax{id}/engine{id}.{i}"), "group_id", group_id(engine.group));
        }
    }

    fn put_queue(&mut self, device: &Device, queue: &Queue, i: usize) {
        let config = &queue.config;
        let at = format!("iax{0}/wq{0}.{i}", device.id);
        let is_on = queue.state == QueueState::On && device.is_running();
        self.put(&at, "state", if is_on { "enabled" } else { "disabled" });
        let mode = match config.mode {
            Mode::Shared => "shared",
            Mode::Dedicated => "dedicated",
        };
        let kind = match config.kind {
            QueueKind::None => "none",
            QueueKind::Kernel => "kernel",
            QueueKind::User => "user",
        };
        self.put(&at, "mode", mode);
        self.put(&at, "type", kind);
        self.put(&at, "driver_name", &config.driver_name);
        self.put(&at, "name", &config.name);
        self.put(&at, "size", config.size);
        self.put(&at, "threshold", config.threshold);
        self.put(&at, "priority", config.priority);
        self.put(&at, "group_id", group_id(config.group));
        self.put(&at, "block_on_fault", u8::from(config.block_on_fault));
        self.put(&at, "max_transfer_size", 1u64 << config.max_transfer_shift);
        self.put(&at, "ats_disable", 0);
        self.put(&at, "prs_disable", 0);
        self.put(&at, "op_config", device.caps.op_cap.and(&config.op_config).text());
        self.put(&at, "enqcmds_retries", config.enqcmds_retries);
        self.put(&at, "occupancy", queue.waiting.len());
        self.put(&at, "cdev_minor", i);
        for (number, file) in &queue.files {
            let at = format!("{at}/file{number}");
            self.put(&at, "cr_faults", file.record_faults);
            self.put(&at, "cr_fault_failures", file.record_fault_failures);
            self.put(&at, "pid", file.process);
        }
    }
}

/// The kernel says -1 of what is in no group.
fn group_id(group: Option<u8>) -> i32 {
    group.map_or(-1, i32::from)
}
