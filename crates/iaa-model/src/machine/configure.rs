//! How the kernel lets an administrator configure devices: attributes, bind and unbind
//! (data sheet A2).
//!
//! The order in which `bind` finds fault is assumed. A configuration outlives `unbind`.

use super::Errno;
use super::state::State;
use crate::device::caps::{Caps, Opcodes};
use crate::device::{Device, Mode, QueueConfig, QueueKind, QueueState};

/// Software codes of cmd_status.
const DEVICE_ENABLED: u32 = 0x8000_0010;
const DEVICE_NOT_ENABLED: u32 = 0x8000_0020;
const QUEUE_ENABLED: u32 = 0x8000_0021;
const NO_GROUP: u32 = 0x8003_0000;
const NO_NAME: u32 = 0x8004_0000;
const NO_THRESHOLD: u32 = 0x8006_0000;
const NONE_CONFIGURED: u32 = 0x800d_0000;
const NO_SIZE: u32 = 0x800e_0000;

/// What a command of the register says, for those that enable and disable.
const ENABLE_DEVICE: u32 = 1 << 20;
const DISABLE_DEVICE: u32 = 2 << 20;
const ENABLE_QUEUE: u32 = 6 << 20;
const DISABLE_QUEUE: u32 = 7 << 20;

fn number(text: &str, least: u64, most: u64) -> Result<u64, Errno> {
    let number = text.trim().parse().ok();
    number
        .filter(|number| (least..=most).contains(number))
        .ok_or(Errno::Invalid)
}

/// `-1` is no group.
fn group_id(text: &str, caps: &Caps) -> Result<Option<u8>, Errno> {
    match text.trim() {
        "-1" => Ok(None),
        id => Ok(Some(number(id, 0, u64::from(caps.groups) - 1)? as u8)),
    }
}

/// Device and index of a name such as `wq1.0`.
fn indexed(name: &str, kind: &str) -> Option<(u32, usize)> {
    let (device, index) = name.strip_prefix(kind)?.split_once('.')?;
    Some((device.parse().ok()?, index.parse().ok()?))
}

fn set_queue(config: &mut QueueConfig, caps: &Caps, free: u64, name: &str, text: &str) -> Result<(), Errno> {
    match name {
        "mode" => {
            config.mode = match text.trim() {
                "shared" => Mode::Shared,
                "dedicated" => Mode::Dedicated,
                _ => return Err(Errno::Invalid),
            }
        }
        "type" => {
            config.kind = match text.trim() {
                "none" => QueueKind::None,
                "kernel" => QueueKind::Kernel,
                "user" => QueueKind::User,
                _ => return Err(Errno::Invalid),
            }
        }
        "driver_name" => text.trim().clone_into(&mut config.driver_name),
        "name" => text.trim().clone_into(&mut config.name),
        "size" => config.size = number(text, 0, free)? as u16,
        "threshold" if config.mode == Mode::Shared => config.threshold = number(text, 0, config.size.into())? as u16,
        "priority" => config.priority = number(text, 1, 15)? as u8,
        "group_id" => config.group = group_id(text, caps)?,
        "block_on_fault" => config.block_on_fault = number(text, 0, 1)? == 1,
        "max_transfer_size" => {
            let bytes = number(text, 1, caps.max_transfer())?;
            config.max_transfer_shift = bytes.next_power_of_two().trailing_zeros();
        }
        "op_config" => {
            let wanted = Opcodes::parse(text).filter(|wanted| wanted.and(&caps.op_cap) == *wanted);
            config.op_config = wanted.ok_or(Errno::Invalid)?;
        }
        "enqcmds_retries" => config.enqcmds_retries = number(text, 0, 64)? as u32,
        "threshold" => return Err(Errno::Invalid),
        _ => return Err(Errno::NoDevice),
    }
    Ok(())
}

fn set_group(flags: &mut u64, name: &str, text: &str) -> Result<(), Errno> {
    let (bit, most) = match name {
        "traffic_class_a" => (0, 7),
        "traffic_class_b" => (3, 7),
        "use_read_buffer_limit" => (7, 1),
        "read_buffers_reserved" => (8, 0xff),
        "read_buffers_allowed" => (20, 0xff),
        "desc_progress_limit" => (32, 3),
        _ => return Err(Errno::NoDevice),
    };
    *flags = *flags & !(most << bit) | number(text, 0, most)? << bit;
    Ok(())
}

fn write_to(device: &mut Device, part: &str, name: &str, text: &str) -> Result<(), Errno> {
    let id = device.id;
    let of = |kind| indexed(part, kind).filter(|(device, _)| *device == id).map(|(_, i)| i);
    if let Some(i) = of("wq") {
        let used: u64 = device.queues.iter().map(|queue| u64::from(queue.config.size)).sum();
        let queue = device.queues.get_mut(i).ok_or(Errno::NoDevice)?;
        if queue.state != QueueState::Off {
            return Err(Errno::NotPermitted);
        }
        let free = u64::from(device.caps.entries).saturating_sub(used - u64::from(queue.config.size));
        return set_queue(&mut queue.config, &device.caps, free, name, text);
    }
    if device.is_enabled {
        return Err(Errno::NotPermitted);
    }
    if let (Some(i), "group_id") = (of("engine"), name) {
        let engine = device.engines.get_mut(i).ok_or(Errno::NoDevice)?;
        engine.group = group_id(text, &device.caps)?;
        return Ok(());
    }
    let group = of("group").and_then(|i| device.groups.get_mut(i));
    set_group(&mut group.ok_or(Errno::NoDevice)?.flags, name, text)
}

/// Why the kernel does not enable queue `i`; 0 if it does.
fn objection(device: &Device, i: usize) -> u32 {
    let queue = &device.queues[i];
    let config = &queue.config;
    match () {
        () if !device.is_running() => DEVICE_NOT_ENABLED,
        () if queue.state != QueueState::Off => QUEUE_ENABLED,
        () if config.kind == QueueKind::None => NONE_CONFIGURED,
        () if config.group.is_none() => NO_GROUP,
        () if config.name.is_empty() => NO_NAME,
        () if config.size == 0 => NO_SIZE,
        () if config.mode == Mode::Shared && config.threshold == 0 => NO_THRESHOLD,
        () => 0,
    }
}

impl State {
    /// A device, and its queue if the name is one of a queue.
    fn named(&mut self, name: &str) -> Result<(&mut Device, Option<usize>), Errno> {
        let (id, queue) = match indexed(name, "wq") {
            Some((id, queue)) => (id, Some(queue)),
            None => {
                let id = name.strip_prefix("iax").and_then(|id| id.parse().ok());
                (id.ok_or(Errno::NoDevice)?, None)
            }
        };
        let device = self.devices.get_mut(&id).ok_or(Errno::NoDevice)?;
        match queue {
            Some(queue) if queue >= device.queues.len() => Err(Errno::NoDevice),
            _ => Ok((device, queue)),
        }
    }

    pub fn write_attribute(&mut self, path: &str, text: &str) -> Result<(), Errno> {
        let mut parts = path.splitn(3, '/');
        let (Some(device), Some(part), Some(name)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(Errno::NoDevice);
        };
        let (device, _) = self.named(device)?;
        write_to(device, part, name, text)
    }

    pub fn bind(&mut self, name: &str) -> Result<(), Errno> {
        let (device, queue) = self.named(name)?;
        let (objection, command) = match queue {
            Some(i) => (objection(device, i), ENABLE_QUEUE | i as u32),
            None if device.is_enabled => (DEVICE_ENABLED, 0),
            None => (0, ENABLE_DEVICE),
        };
        device.software_status = objection;
        if objection == 0 {
            device.command(command);
        }
        if device.command_result() == 0 {
            Ok(())
        } else {
            Err(Errno::Invalid)
        }
    }

    pub fn unbind(&mut self, name: &str) -> Result<(), Errno> {
        let (device, queue) = self.named(name)?;
        device.software_status = 0;
        let enabled = match queue {
            Some(i) => device.queues[i].state == QueueState::On,
            None => device.is_enabled,
        };
        if !enabled {
            return Err(Errno::NoDevice);
        }
        device.command(queue.map_or(DISABLE_DEVICE, |i| DISABLE_QUEUE | i as u32));
        Ok(())
    }
}
