//! Faults on demand: data sheet A13's table, by script or at random from a seed.

use std::collections::{BTreeMap, VecDeque};

use crate::descriptor::{Descriptor, flag, opcode};
use crate::operation::is_suppressed;
use crate::random::Random;
use crate::status::ErrorCode;

/// When the kernel writes a record that the device could not write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KernelCopy {
    /// So many nanoseconds after the event was logged.
    After {
        /// Nanoseconds.
        ns: u64,
    },
    /// Never: only a deadline helps the program.
    Never,
}

/// What goes wrong with one descriptor, or because of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The queue is full for this and the next `tries - 1` submissions; `u32::MAX`: for ever.
    Full {
        /// Submissions that are refused.
        tries: u32,
    },
    /// The status stays 0, and nothing is written.
    NeverCompletes,
    /// Output and record are written so much later: choose it beyond the driver's deadline.
    Late {
        /// Nanoseconds.
        ns: u64,
    },
    /// The same within the deadline, so that others overtake it.
    OutOfOrder {
        /// Nanoseconds.
        ns: u64,
    },
    /// Status 24.
    Watchdog,
    /// Status 22.
    Translation,
    /// Status 23.
    PageRequestTimeout,
    /// Status 20, and the device halts until it is reset.
    HardwareError,
    /// Status 21, and the device halts until it is reset.
    ReadbackError,
    /// Status 03 or 83, and with BOF 04 or 84.
    PageFault {
        /// On the destination, else on the source.
        write: bool,
    },
    /// The record cannot be written: it goes to the event log, and the kernel may copy it.
    RecordFault {
        /// When.
        kernel: KernelCopy,
    },
    /// The output is that of other data; its checksums are right.
    WrongData,
    /// The output is right; the record's CRC is not.
    WrongCrc,
    /// One bit of the output is wrong.
    FlippedByte,
    /// Error 25 of a compression.
    DoesNotFit,
    /// Status 0b of a decompression.
    Overflow {
        /// Half of the output is there, else none.
        partial: bool,
    },
    /// A decompression's input is said to be corrupt.
    Corrupt {
        /// The error code.
        code: ErrorCode,
    },
    /// The queue is disabled while this one is in flight: what it holds is aborted.
    QueueDisabled,
    /// The queue is reset while this one is in flight: what it holds is aborted, its op_config is
    /// the device's again.
    QueueReset,
    /// The device goes, with all that it holds.
    DeviceRemoved,
    /// Another device comes.
    DeviceAdded,
    /// The queue's op_config loses the descriptor's opcode: status 10.
    OpConfigNarrowed,
}

impl Fault {
    /// The name under which it is counted.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Full { .. } => "full",
            Self::NeverCompletes => "never_completes",
            Self::Late { .. } => "late",
            Self::OutOfOrder { .. } => "out_of_order",
            Self::Watchdog => "watchdog",
            Self::Translation => "translation",
            Self::PageRequestTimeout => "page_request_timeout",
            Self::HardwareError => "hardware_error",
            Self::ReadbackError => "readback_error",
            Self::PageFault { write: false } => "page_fault_read",
            Self::PageFault { write: true } => "page_fault_write",
            Self::RecordFault { .. } => "record_fault",
            Self::WrongData => "wrong_data",
            Self::WrongCrc => "wrong_crc",
            Self::FlippedByte => "flipped_byte",
            Self::DoesNotFit => "does_not_fit",
            Self::Overflow { .. } => "overflow",
            Self::Corrupt { .. } => "corrupt",
            Self::QueueDisabled => "queue_disabled",
            Self::QueueReset => "queue_reset",
            Self::DeviceRemoved => "device_removed",
            Self::DeviceAdded => "device_added",
            Self::OpConfigNarrowed => "op_config_narrowed",
        }
    }

    /// Whether it can happen to `d`: a script waits for one to which it can.
    pub fn applies(&self, d: &Descriptor) -> bool {
        let codec = matches!(d.opcode, opcode::COMPRESS | opcode::DECOMPRESS);
        match self {
            Self::PageFault { write: false } => d.src1_size > 0,
            Self::PageFault { write: true } => d.dst_len() > 0,
            Self::RecordFault { .. } => d.has(flag::CRAV | flag::RCR),
            Self::WrongData | Self::FlippedByte => (codec || d.opcode == opcode::MEMMOVE) && !is_suppressed(d),
            Self::WrongCrc => codec,
            Self::DoesNotFit => d.opcode == opcode::COMPRESS,
            Self::Overflow { .. } => d.opcode == opcode::DECOMPRESS && !is_suppressed(d),
            Self::Corrupt { .. } => d.opcode == opcode::DECOMPRESS,
            _ => true,
        }
    }

    /// Whether a queue or device stays dead after it until the kernel, or a test, mends it.
    pub fn is_outage(&self) -> bool {
        matches!(
            self,
            Self::HardwareError
                | Self::ReadbackError
                | Self::QueueDisabled
                | Self::QueueReset
                | Self::DeviceRemoved
                | Self::OpConfigNarrowed
        )
    }
}

/// Decides which descriptors meet a fault.
#[derive(Clone, Debug)]
pub struct Injector {
    random: Random,
    script: VecDeque<Fault>,
    permille: u64,
    outages: bool,
    late_ns: u64,
    injected: BTreeMap<&'static str, u64>,
}

impl Injector {
    /// Of 1000 descriptors about `permille` meet a fault. Outages are among them only if somebody
    /// mends them; late ones are late by `late_ns`.
    pub fn new(seed: u64, permille: u64, outages: bool, late_ns: u64) -> Self {
        Self {
            random: Random::new(seed),
            script: VecDeque::new(),
            permille,
            outages,
            late_ns,
            injected: BTreeMap::new(),
        }
    }

    /// The next descriptor that `fault` can happen to meets it, after those scripted before.
    pub fn script(&mut self, fault: Fault) {
        self.script.push_back(fault);
    }

    /// Change how many of 1000 descriptors meet a fault at random.
    pub fn set_permille(&mut self, permille: u64) {
        self.permille = permille;
    }

    /// Faults that met a descriptor, by [`Fault::name`].
    pub fn injected(&self) -> &BTreeMap<&'static str, u64> {
        &self.injected
    }

    /// The fault that `d` meets, if any.
    pub(crate) fn draw(&mut self, d: &Descriptor) -> Option<Fault> {
        let fault = match self.script.front() {
            Some(fault) if fault.applies(d) => self.script.pop_front(),
            _ if self.random.below(1000) < self.permille => self.pick(d),
            _ => None,
        }?;
        *self.injected.entry(fault.name()).or_default() += 1;
        Some(fault)
    }

    /// One of those that can happen to `d`, all of them alike likely.
    fn pick(&mut self, d: &Descriptor) -> Option<Fault> {
        let random = &mut self.random;
        let kernel = match random.below(2) {
            0 => KernelCopy::Never,
            _ => KernelCopy::After { ns: self.late_ns / 8 },
        };
        let code = ErrorCode::ALL[random.below(ErrorCode::ALL.len() as u64) as usize];
        let choices = [
            Fault::Full {
                tries: 1 + random.below(16) as u32,
            },
            Fault::NeverCompletes,
            Fault::Late { ns: self.late_ns },
            Fault::OutOfOrder { ns: self.late_ns / 64 },
            Fault::Watchdog,
            Fault::Translation,
            Fault::PageRequestTimeout,
            Fault::PageFault { write: false },
            Fault::PageFault { write: true },
            Fault::RecordFault { kernel },
            Fault::WrongData,
            Fault::WrongCrc,
            Fault::FlippedByte,
            Fault::DoesNotFit,
            Fault::Overflow { partial: false },
            Fault::Overflow { partial: true },
            Fault::Corrupt { code },
            Fault::HardwareError,
            Fault::ReadbackError,
            Fault::QueueDisabled,
            Fault::QueueReset,
            Fault::DeviceRemoved,
            Fault::OpConfigNarrowed,
        ];
        let outages = self.outages;
        let possible = |fault: &&Fault| fault.applies(d) && (outages || !fault.is_outage());
        let possible: Vec<_> = choices.iter().filter(possible).collect();
        possible
            .get(random.below(possible.len() as u64) as usize)
            .map(|fault| **fault)
    }
}
