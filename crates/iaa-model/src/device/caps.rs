//! What a device can do: version, GENCAP, IAACAP, OPCAP and how many there are of each thing
//! (data sheet A2, A10).

use crate::descriptor::opcode;

/// A set of opcodes: 256 bits, as op_cap and op_config hold them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Opcodes([u32; 8]);

impl Opcodes {
    /// The set of `codes`.
    pub fn of(codes: &[u8]) -> Self {
        let mut set = Self::default();
        codes.iter().for_each(|code| set.insert(*code));
        set
    }

    /// Whether `code` is in.
    pub fn has(&self, code: u8) -> bool {
        self.0[usize::from(code / 32)] >> (code % 32) & 1 == 1
    }

    /// Put `code` in.
    pub fn insert(&mut self, code: u8) {
        self.0[usize::from(code / 32)] |= 1 << (code % 32);
    }

    /// Take `code` out.
    pub fn remove(&mut self, code: u8) {
        self.0[usize::from(code / 32)] &= !(1 << (code % 32));
    }

    /// What is in both.
    pub fn and(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i] & other.0[i]))
    }

    /// One of the four quadwords of the register.
    pub fn quadword(&self, i: usize) -> u64 {
        u64::from(self.0[2 * i]) | u64::from(self.0[2 * i + 1]) << 32
    }

    /// Replace one of the four quadwords.
    pub fn set_quadword(&mut self, i: usize, value: u64) {
        self.0[2 * i] = value as u32;
        self.0[2 * i + 1] = (value >> 32) as u32;
    }

    /// The set that a text of this kind names. `None`: it is no such text.
    pub fn parse(text: &str) -> Option<Self> {
        let mut set = Self::default();
        let words: Vec<_> = text.trim().rsplit(',').collect();
        for (i, word) in words.iter().enumerate() {
            *set.0.get_mut(i)? = u32::from_str_radix(word, 16).ok()?;
        }
        Some(set)
    }

    /// The text in sysfs: words of 32 bits, opcodes 0 to 31 in the last.
    pub fn text(&self) -> String {
        let words: Vec<_> = self.0.iter().rev().map(|word| format!("{word:08x}")).collect();
        words.join(",")
    }
}

/// Bits of IAACAP.
pub mod iaa {
    /// Format 2 of the AECS, and what else generation 2 has at least.
    pub const GEN_2: u64 = 1 << 0;
    /// `drop_initial_bits` of the AECS works.
    pub const DROP_BITS: u64 = 1 << 1;
    /// HDR_GEN works.
    pub const HEADER_GENERATION: u64 = 1 << 8;
}

/// Bits of GENCAP.
pub mod general {
    /// Queues may block on faults.
    pub const BLOCK_ON_FAULT: u64 = 1 << 0;
    /// MEMMOVE may overlap.
    pub const OVERLAP: u64 = 1 << 1;
    /// CC is allowed for destinations in memory and for those in the cache.
    pub const CACHE_CONTROL: u64 = 3 << 2;
    /// Readback of the destination works.
    pub const READBACK: u64 = 1 << 8;
    /// Where the shift of the largest transfer stands.
    pub const MAX_TRANSFER_AT: u32 = 16;
    /// Queues and groups can be configured.
    pub const CONFIGURABLE: u64 = 1 << 31;
    /// Decompression works.
    pub const DECOMPRESS: u64 = 1 << 40;
}

/// A device's capabilities: they never change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Caps {
    /// 0x100 for generation 1, 0x200 for generation 2.
    pub version: u32,
    /// IAACAP, see [`iaa`].
    pub iaa_cap: u64,
    /// GENCAP without the largest transfer, see [`general`].
    pub general: u64,
    /// What the model does, and nothing else.
    pub op_cap: Opcodes,
    /// The largest transfer is `1 << max_transfer_shift` bytes.
    pub max_transfer_shift: u32,
    /// Entries that all queues share.
    pub entries: u16,
    /// Work queues.
    pub queues: u8,
    /// Groups.
    pub groups: u8,
    /// Engines.
    pub engines: u8,
    /// Engines that compress: the first so many.
    pub compress_engines: u8,
}

impl Caps {
    /// Sapphire Rapids: format 1 of the AECS and no header generation.
    pub fn generation_1() -> Self {
        let codes = [
            opcode::NOOP,
            opcode::DRAIN,
            opcode::MEMMOVE,
            opcode::DECOMPRESS,
            opcode::COMPRESS,
            opcode::CRC64,
        ];
        let general = general::BLOCK_ON_FAULT
            | general::OVERLAP
            | general::CACHE_CONTROL
            | general::CONFIGURABLE
            | general::DECOMPRESS;
        Self {
            version: 0x100,
            iaa_cap: 0,
            general,
            op_cap: Opcodes::of(&codes),
            max_transfer_shift: 31,
            entries: 128,
            queues: 8,
            groups: 4,
            engines: 8,
            compress_engines: 2,
        }
    }

    /// The same with format 2, drop-initial-bits and header generation.
    pub fn generation_2() -> Self {
        Self {
            version: 0x200,
            iaa_cap: iaa::GEN_2 | iaa::DROP_BITS | iaa::HEADER_GENERATION,
            ..Self::generation_1()
        }
    }

    /// Whether all bits of IAACAP in `bits` are there.
    pub fn has(&self, bits: u64) -> bool {
        self.iaa_cap & bits == bits
    }

    /// GENCAP.
    pub fn gen_cap(&self) -> u64 {
        self.general | u64::from(self.max_transfer_shift) << general::MAX_TRANSFER_AT
    }

    /// The largest transfer in bytes.
    pub fn max_transfer(&self) -> u64 {
        1 << self.max_transfer_shift
    }
}
