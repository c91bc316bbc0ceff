//! Descriptors: 64 bytes, little endian (data sheet A5).

/// Bytes of a descriptor.
pub const LEN: usize = 64;

/// Opcodes that the model knows by name. All others are answered as unsupported.
pub mod opcode {
    /// Does nothing, and completes.
    pub const NOOP: u8 = 0x00;
    /// Completes when all that came before it in its queue has.
    pub const DRAIN: u8 = 0x02;
    /// Copies source 1 to the destination.
    pub const MEMMOVE: u8 = 0x03;
    /// Reads DEFLATE.
    pub const DECOMPRESS: u8 = 0x42;
    /// Writes DEFLATE.
    pub const COMPRESS: u8 = 0x43;
    /// CRC of 64 bits with a polynomial of one's own.
    pub const CRC64: u8 = 0x44;
}

/// The 24 flag bits.
pub mod flag {
    /// Fence: only a batch has a use for it, and IAX has none.
    pub const FENCE: u32 = 0x1;
    /// Block on fault.
    pub const BOF: u32 = 0x2;
    /// The completion address is valid.
    pub const CRAV: u32 = 0x4;
    /// A record is wanted on success, too.
    pub const RCR: u32 = 0x8;
    /// An interrupt is wanted.
    pub const RCI: u32 = 0x10;
    /// Completion record steering.
    pub const CRSTS: u32 = 0x20;
    /// Check result.
    pub const CR: u32 = 0x80;
    /// Write the destination to the cache.
    pub const CC: u32 = 0x100;
    /// Traffic classes of the addresses and of the record.
    pub const TCS: u32 = 0x1e00;
    /// Strict order.
    pub const STORD: u32 = 0x2000;
    /// Read the destination back.
    pub const DRDBK: u32 = 0x4000;
    /// Destination steering.
    pub const DSTS: u32 = 0x8000;
    /// Source 2 is an AECS that is read.
    pub const READ_AECS: u32 = 0x1_0000;
    /// Source 2 is an input of its own.
    pub const READ_SECOND: u32 = 0x2_0000;
    /// The AECS is written when the operation completes.
    pub const WRITE_ALWAYS: u32 = 0x4_0000;
    /// The AECS is written when the output overflows.
    pub const WRITE_ON_OVERFLOW: u32 = 0x8_0000;
    /// Source 2 steering.
    pub const SRC2_STS: u32 = 0x10_0000;
    /// CRC-32C in place of CRC-32.
    pub const CRC32C: u32 = 0x20_0000;
    /// The AECS at the lower address is written, the other one read.
    pub const TOGGLE: u32 = 0x40_0000;
}

/// Bits of `compr_flags`.
pub mod compr {
    /// The destination receives a histogram.
    pub const STATS: u16 = 0x1;
    /// Pad the output to a byte and write all of it.
    pub const FLUSH: u16 = 0x2;
    /// Literals only.
    pub const GEN_LITS: u16 = 0x10;
    /// Left out: BE, indexing, bit 9, dictionaries, bit 15.
    pub const ABSENT: u16 = 0x8fe0;

    /// What ends the block: 0 nothing, 1 EOB, 2 and 3 EOB and an empty stored block.
    pub fn end_proc(flags: u16) -> u16 {
        flags >> 2 & 3
    }

    /// How a header is made: 0 not at all, 2 and 3 in one pass, 5 to 7 in the first of two.
    pub fn hdr_gen(flags: u16) -> u16 {
        flags >> 12 & 7
    }

    /// Bit of `compression_2_flags`: the AECS gets Huffman tables.
    pub const WRITE_TABLES: u32 = 0x2;
}

/// Bits of `decompr_flags`.
pub mod decompr {
    /// Decompression is wanted at all.
    pub const ENABLE: u16 = 0x1;
    /// Write all of the output.
    pub const FLUSH: u16 = 0x2;
    /// Stop at an end of block.
    pub const STOP: u16 = 0x4;
    /// An input without an end of block is an error.
    pub const CHECK: u16 = 0x8;
    /// Stop and check mean the final block's end.
    pub const FINAL: u16 = 0x10;
    /// Nothing is written to the destination.
    pub const SUPPRESS: u16 = 0x200;
    /// Bit 3 of the number of end bits that are ignored: generation 2 only.
    pub const IGNORE_BIT_3: u16 = 0x4000;
    /// Left out: BE, indexing, bits 13 and 15.
    pub const ABSENT: u16 = 0xbc20;

    /// How many bits at the end of the input are ignored.
    pub fn ignored_bits(flags: u16) -> usize {
        usize::from((flags >> 6 & 7) | (flags >> 11 & 8))
    }
}

/// Bits of `crc64_flags`.
pub mod crc64 {
    /// Begin with ones, and invert the result.
    pub const INVERT: u16 = 0x4000;
    /// The most significant bit of a byte comes first.
    pub const MSB_FIRST: u16 = 0x8000;
}

/// The fields of a descriptor, whatever they mean to its opcode. Sizes are in bytes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Descriptor {
    /// Bits 19:0; ENQCMD fills it in.
    pub pasid: u32,
    /// Bits 30:20 of the first word.
    pub reserved: u32,
    /// Bit 31 of the first word.
    pub privileged: bool,
    /// See [`flag`].
    pub flags: u32,
    /// See [`opcode`].
    pub opcode: u8,
    /// Where the completion record goes.
    pub completion_addr: u64,
    /// The source.
    pub src1_addr: u64,
    /// The destination.
    pub dst_addr: u64,
    /// Bytes of the source.
    pub src1_size: u32,
    /// Interrupt handle.
    pub int_handle: u16,
    /// `compr_flags`, `decompr_flags` or `crc64_flags`.
    pub operation_flags: u16,
    /// The AECS.
    pub src2_addr: u64,
    /// Room at the destination.
    pub max_dst_size: u32,
    /// Bytes of one AECS.
    pub src2_size: u32,
    /// `filter_flags`, `compression_2_flags`, or the polynomial's lower half.
    pub filter_flags: u32,
    /// `num_inputs`, reserved, or the polynomial's upper half.
    pub num_inputs: u32,
}

impl Descriptor {
    /// The fields of `bytes`. Every 64 bytes are a descriptor; what is wrong with it a check says.
    pub fn decode(bytes: &[u8; LEN]) -> Self {
        let u16_at = |at: usize| u16::from_le_bytes(bytes[at..at + 2].try_into().expect("2 bytes"));
        let u32_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
        let u64_at = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        Self {
            pasid: u32_at(0) & 0xf_ffff,
            reserved: u32_at(0) >> 20 & 0x7ff,
            privileged: u32_at(0) >> 31 == 1,
            flags: u32_at(4) & 0xff_ffff,
            opcode: bytes[7],
            completion_addr: u64_at(8),
            src1_addr: u64_at(16),
            dst_addr: u64_at(24),
            src1_size: u32_at(32),
            int_handle: u16_at(36),
            operation_flags: u16_at(38),
            src2_addr: u64_at(40),
            max_dst_size: u32_at(48),
            src2_size: u32_at(52),
            filter_flags: u32_at(56),
            num_inputs: u32_at(60),
        }
    }

    /// The bytes of these fields.
    pub fn encode(&self) -> [u8; LEN] {
        let mut bytes = [0; LEN];
        let first = self.pasid & 0xf_ffff | (self.reserved & 0x7ff) << 20 | u32::from(self.privileged) << 31;
        let second = self.flags & 0xff_ffff | u32::from(self.opcode) << 24;
        bytes[0..4].copy_from_slice(&first.to_le_bytes());
        bytes[4..8].copy_from_slice(&second.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.completion_addr.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.src1_addr.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.dst_addr.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.src1_size.to_le_bytes());
        bytes[36..38].copy_from_slice(&self.int_handle.to_le_bytes());
        bytes[38..40].copy_from_slice(&self.operation_flags.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.src2_addr.to_le_bytes());
        bytes[48..52].copy_from_slice(&self.max_dst_size.to_le_bytes());
        bytes[52..56].copy_from_slice(&self.src2_size.to_le_bytes());
        bytes[56..60].copy_from_slice(&self.filter_flags.to_le_bytes());
        bytes[60..64].copy_from_slice(&self.num_inputs.to_le_bytes());
        bytes
    }

    /// Whether all of `flags` are set.
    pub fn has(&self, flags: u32) -> bool {
        self.flags & flags == flags
    }

    /// Whether source 2 is an AECS that is read.
    pub fn reads_aecs(&self) -> bool {
        self.has(flag::READ_AECS)
    }

    /// Whether an AECS may be written.
    pub fn may_write_aecs(&self) -> bool {
        self.flags & (flag::WRITE_ALWAYS | flag::WRITE_ON_OVERFLOW) != 0
    }

    /// Where the AECS is read. One that is written too has its second copy behind the first.
    pub fn aecs_read_addr(&self) -> u64 {
        let second = self.may_write_aecs() && self.has(flag::TOGGLE);
        self.src2_addr
            .wrapping_add(u64::from(second) * u64::from(self.src2_size))
    }

    /// Where the AECS is written: the copy that is not read.
    pub fn aecs_write_addr(&self) -> u64 {
        let second = !self.has(flag::TOGGLE);
        self.src2_addr
            .wrapping_add(u64::from(second) * u64::from(self.src2_size))
    }

    /// CRC64's polynomial.
    pub fn polynomial(&self) -> u64 {
        u64::from(self.num_inputs) << 32 | u64::from(self.filter_flags)
    }

    /// How many bytes the destination may get: a suppressed output needs none.
    pub fn dst_len(&self) -> u32 {
        let suppressed = self.opcode == opcode::DECOMPRESS && self.operation_flags & decompr::SUPPRESS != 0;
        match self.opcode {
            opcode::MEMMOVE => self.src1_size,
            opcode::COMPRESS | opcode::DECOMPRESS if !suppressed => self.max_dst_size,
            _ => 0,
        }
    }
}
