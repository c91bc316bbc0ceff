//! Work queues: what they hold and what they allow.

use std::collections::{BTreeMap, VecDeque};

use super::caps::{Caps, Opcodes};
use crate::descriptor;
use crate::fault::Fault;

/// Who may use a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// Any process, by ENQCMD, which may be refused.
    Shared,
    /// One process, by MOVDIR64B, which counts its own credits.
    Dedicated,
}

/// Attribute `type`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QueueKind {
    /// Not configured.
    None,
    /// For the kernel's own drivers.
    Kernel,
    /// For user space.
    User,
}

/// Register wq_state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QueueState {
    /// Takes nothing.
    Off = 0,
    /// Takes descriptors.
    On = 1,
    /// Takes none and finishes those that it has.
    Busy = 2,
}

/// A queue's configuration (data sheet A2).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QueueConfig {
    /// Shared or dedicated.
    pub mode: Mode,
    /// none, kernel or user.
    pub kind: QueueKind,
    /// Attribute `driver_name`.
    pub driver_name: String,
    /// Attribute `name`.
    pub name: String,
    /// Entries.
    pub size: u16,
    /// Shared: the limited portal accepts below this occupancy.
    pub threshold: u16,
    /// 1 to 15: a weight.
    pub priority: u8,
    /// The group whose engines take from it.
    pub group: Option<u8>,
    /// Whether descriptors may block on faults.
    pub block_on_fault: bool,
    /// The largest transfer is `1 << max_transfer_shift` bytes.
    pub max_transfer_shift: u32,
    /// Opcodes that the queue allows.
    pub op_config: Opcodes,
    /// How often the kernel tries ENQCMDS for a `write`.
    pub enqcmds_retries: u32,
}

impl QueueConfig {
    /// A shared user queue of `size` entries in group 0, as data sheet A2's example configures it.
    pub fn user(size: u16, caps: &Caps) -> Self {
        Self {
            mode: Mode::Shared,
            kind: QueueKind::User,
            driver_name: "user".to_owned(),
            name: "app1".to_owned(),
            size,
            threshold: size,
            priority: 10,
            group: Some(0),
            block_on_fault: true,
            max_transfer_shift: 21,
            op_config: caps.op_cap,
            enqcmds_retries: 64,
        }
    }

    /// The same for one process at a time.
    pub fn dedicated(size: u16, caps: &Caps) -> Self {
        Self {
            mode: Mode::Dedicated,
            threshold: 0,
            ..Self::user(size, caps)
        }
    }

    /// A queue that nobody configured.
    pub fn absent(caps: &Caps) -> Self {
        Self {
            kind: QueueKind::None,
            driver_name: String::new(),
            name: String::new(),
            group: None,
            priority: 0,
            block_on_fault: false,
            ..Self::user(0, caps)
        }
    }

    /// Descriptors that may wait: entries are free again as soon as an engine has them.
    pub(crate) fn room(&self) -> usize {
        usize::from(match self.mode {
            Mode::Shared => self.threshold.min(self.size),
            Mode::Dedicated => self.size,
        })
    }
}

/// A descriptor in a queue.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// Unique in the machine, in the order of acceptance.
    pub sequence: u64,
    pub raw: [u8; descriptor::LEN],
    pub pasid: u32,
    pub fault: Option<Fault>,
}

/// An open file of the queue's character device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenFile {
    pub process: u64,
    pub pasid: u32,
    pub record_faults: u64,
    pub record_fault_failures: u64,
}

pub(crate) struct Queue {
    pub config: QueueConfig,
    pub state: QueueState,
    pub waiting: VecDeque<Entry>,
    /// On engines, or late.
    pub in_flight: BTreeMap<u64, Entry>,
    /// Work that was taken before the last abort.
    pub epoch: u64,
    /// Dedicated: the PASID that the queue was bound to.
    pub owner: Option<u32>,
    pub files: BTreeMap<u32, OpenFile>,
    /// Submissions that an injected fault still refuses.
    pub refusals: u32,
    /// How much of its share it has had: see the arbiter.
    pub pass: u64,
}

impl Queue {
    pub fn new(config: QueueConfig) -> Self {
        Self {
            config,
            state: QueueState::Off,
            waiting: VecDeque::new(),
            in_flight: BTreeMap::new(),
            epoch: 0,
            owner: None,
            files: BTreeMap::new(),
            refusals: 0,
            pass: 0,
        }
    }

    pub fn held(&self) -> usize {
        self.waiting.len() + self.in_flight.len()
    }

    /// Whether an injected fault refuses this submission.
    pub fn refuses(&mut self) -> bool {
        match self.refusals {
            0 => false,
            u32::MAX => true,
            _ => {
                self.refusals -= 1;
                true
            }
        }
    }

    /// Drop all that the queue holds, and say what that was.
    pub fn abort(&mut self) -> Vec<Entry> {
        self.epoch += 1;
        let on_engines = std::mem::take(&mut self.in_flight).into_values();
        on_engines.chain(self.waiting.drain(..)).collect()
    }
}
