//! Registers of BAR 0 (data sheet A10).
//!
//! Tables of groups and queues stand at offsets that the model chose; register 60 says where.
//! Assumed: the code of WQCFG's stride, and where wq_state stands in WQCFG's occupancy words.

use super::queue::{Entry, Mode, Queue, QueueState};
use super::{CommandError, Device};

pub(super) const CAUSE_ERROR: u64 = 0x1;
pub(super) const CAUSE_COMMAND: u64 = 0x2;
pub(super) const CAUSE_HALT: u64 = 0x10;
pub(super) const CAUSE_EVENT_LOG: u64 = 0x20;

const GENERAL_CONFIG: u32 = 0x80;
const GENERAL_CONTROL: u32 = 0x88;
const INTERRUPT_CAUSE: u32 = 0x98;
const COMMAND: u32 = 0xa0;
const SW_ERROR: u32 = 0xc0;
/// Offsets of the tables, in units of 0x100.
const GROUPS_AT: u32 = 0x4;
const QUEUES_AT: u32 = 0x8;
const MSIX_AT: u32 = 0x10;
/// Bytes of an entry of either table.
const STRIDE: u32 = 64;
/// WQCFG's stride as WQCAP gives it: `32 << 1`.
const STRIDE_CODE: u64 = 1;

impl Device {
    /// The quadword at `offset`, a multiple of 8. What is no register reads as 0.
    pub fn read_register(&self, offset: u32) -> u64 {
        let caps = &self.caps;
        match offset {
            0x00 => u64::from(caps.version),
            0x10 => caps.gen_cap(),
            0x20 => self.queue_cap(),
            0x30 => u64::from(caps.groups),
            0x38 => u64::from(caps.engines),
            0x40..0x60 => caps.op_cap.quadword(((offset - 0x40) / 8) as usize),
            0x60 => u64::from(GROUPS_AT) | u64::from(QUEUES_AT) << 16 | u64::from(MSIX_AT) << 32,
            GENERAL_CONFIG => self.general_config,
            GENERAL_CONTROL => self.general_control,
            0x90 => self.state(),
            INTERRUPT_CAUSE => self.interrupt_cause,
            0xa8 => self.command_status,
            SW_ERROR..0xe0 => {
                let words = self.sw_error.as_ref().map(super::SwError::encode).unwrap_or_default();
                words[((offset - SW_ERROR) / 8) as usize]
            }
            0xe8 => self.event_log.size() as u64,
            0xf0 => self.event_log.status(),
            0x180 => caps.iaa_cap,
            _ => self.read_table(offset),
        }
    }

    /// Write the quadword at `offset`. What the write aborts is returned. Registers that cannot be
    /// written, or not now, stay as they are.
    pub fn write_register(&mut self, offset: u32, value: u64) -> Vec<Entry> {
        match offset {
            GENERAL_CONFIG => self.general_config = value,
            GENERAL_CONTROL => self.general_control = value,
            // Ones clear.
            INTERRUPT_CAUSE => self.interrupt_cause &= !value,
            COMMAND => return self.command(value as u32),
            SW_ERROR if value & 1 == 1 => self.sw_error = None,
            _ => self.write_table(offset, value),
        }
        Vec::new()
    }

    /// Whether ones clear bits of this register.
    pub fn is_cleared_by_ones(offset: u32) -> bool {
        matches!(offset, INTERRUPT_CAUSE | SW_ERROR)
    }

    /// CMDSTS's lower byte as an error, for the sysfs attribute.
    pub fn command_result(&self) -> u32 {
        match self.command_status as u32 {
            _ if self.software_status != 0 => self.software_status,
            done if done == CommandError::None as u32 => 0,
            error => error | 1 << 31,
        }
    }

    fn queue_cap(&self) -> u64 {
        let modes = 1 << 48 | 1 << 49;
        let rest = 1 << 51 | 1 << 52 | 1 << 54;
        u64::from(self.caps.entries) | u64::from(self.caps.queues) << 16 | STRIDE_CODE << 24 | modes | rest
    }

    /// GENSTS: 0 off, 1 on, 2 drain, 3 halt; 3:2 says that a device reset ends a halt.
    fn state(&self) -> u64 {
        match () {
            () if self.is_halted => 3,
            () if !self.is_enabled => 0,
            () if self.pending.is_some() => 2,
            () => 1,
        }
    }

    fn read_table(&self, offset: u32) -> u64 {
        match at(offset) {
            Some(Place::Group(group, word)) if group < self.groups.len() => self.read_group(group, word),
            Some(Place::Queue(queue, word)) if queue < self.queues.len() => read_queue(&self.queues[queue], word),
            _ => 0,
        }
    }

    fn read_group(&self, group: usize, word: u32) -> u64 {
        match word {
            0 => members(group, self.queues.iter().map(|queue| queue.config.group)),
            32 => members(group, self.engines.iter().map(|engine| engine.group)),
            40 => self.groups[group].flags,
            _ => 0,
        }
    }

    /// Groups change while the device is disabled, a queue while it is off.
    fn write_table(&mut self, offset: u32, value: u64) {
        match at(offset) {
            Some(Place::Group(group, word)) if group < self.groups.len() && !self.is_enabled => {
                self.write_group(group, word, value);
            }
            Some(Place::Queue(queue, word)) => match self.queues.get_mut(queue) {
                Some(queue) if queue.state == QueueState::Off => write_queue(queue, word, value),
                _ => {}
            },
            _ => {}
        }
    }

    fn write_group(&mut self, group: usize, word: u32, value: u64) {
        let group = group as u8;
        let member = |of: &mut Option<u8>, i: usize| match value >> i & 1 {
            1 => *of = Some(group),
            _ if *of == Some(group) => *of = None,
            _ => {}
        };
        match word {
            0 => {
                let queues = self.queues.iter_mut().enumerate();
                queues.for_each(|(i, queue)| member(&mut queue.config.group, i));
            }
            32 => {
                let engines = self.engines.iter_mut().enumerate();
                engines.for_each(|(i, engine)| member(&mut engine.group, i));
            }
            40 => self.groups[usize::from(group)].flags = value,
            _ => {}
        }
    }
}

/// A bit for each of those whose groups are listed, set for those in `group`.
fn members(group: usize, groups: impl Iterator<Item = Option<u8>>) -> u64 {
    let bit = |(i, of): (usize, Option<u8>)| u64::from(of == Some(group as u8)) << i;
    groups.enumerate().map(bit).sum()
}

/// An entry of a table, and the byte in it.
enum Place {
    Group(usize, u32),
    Queue(usize, u32),
}

fn at(offset: u32) -> Option<Place> {
    let entry = |table: u32| ((offset - table * 0x100) / STRIDE) as usize;
    match offset / 0x100 {
        page if page >= MSIX_AT => None,
        page if page >= QUEUES_AT => Some(Place::Queue(entry(QUEUES_AT), offset % STRIDE)),
        page if page >= GROUPS_AT => Some(Place::Group(entry(GROUPS_AT), offset % STRIDE)),
        _ => None,
    }
}

fn read_queue(queue: &Queue, word: u32) -> u64 {
    let config = &queue.config;
    match word {
        0 => u64::from(config.size) | u64::from(config.threshold) << 32,
        8 => {
            u64::from(config.mode == Mode::Dedicated)
                | u64::from(config.block_on_fault) << 1
                | u64::from(config.priority) << 4
                | u64::from(queue.owner.unwrap_or(0)) << 8
                | u64::from(queue.owner.is_some()) << 28
                | u64::from(config.max_transfer_shift) << 32
        }
        24 => queue.waiting.len() as u64 | (queue.state as u64) << 30,
        32..64 => config.op_config.quadword(((word - 32) / 8) as usize),
        _ => 0,
    }
}

fn write_queue(queue: &mut Queue, word: u32, value: u64) {
    let config = &mut queue.config;
    match word {
        0 => {
            config.size = value as u16;
            config.threshold = (value >> 32) as u16;
        }
        8 => {
            config.mode = if value & 1 == 1 { Mode::Dedicated } else { Mode::Shared };
            config.block_on_fault = value >> 1 & 1 == 1;
            config.priority = (value >> 4 & 15) as u8;
            queue.owner = (value >> 28 & 1 == 1).then_some((value >> 8 & 0xf_ffff) as u32);
            config.max_transfer_shift = (value >> 32 & 31) as u32;
        }
        32..64 => config.op_config.set_quadword(((word - 32) / 8) as usize, value),
        _ => {}
    }
}
