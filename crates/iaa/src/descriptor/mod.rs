//! The 64-byte descriptor: a typed builder, its bytes, and back (data sheet A5).

mod flags;
mod opcode;

pub use flags::{Compr2Flags, ComprFlags, Crc64Flags, DecomprFlags, Flags};
pub use opcode::Opcode;

use crate::bits::le;
use core::mem::offset_of;

/// Bytes of a descriptor, and their alignment in memory.
pub const DESCRIPTOR_BYTES: usize = 64;
/// Alignment of the completion record and of a descriptor.
pub const RECORD_ALIGN: u64 = 64;
/// Alignment of an AECS and unit of its size.
pub const AECS_ALIGN: u64 = 32;

/// Where the fields are. Only offsets are taken from it: the bytes are little endian everywhere.
#[repr(C)]
struct Layout {
    pasid: u32,
    flags: u32,
    completion_addr: u64,
    src1_addr: u64,
    dst_addr: u64,
    src1_size: u32,
    int_handle: u16,
    operation_flags: u16,
    src2_addr: u64,
    max_dst_size: u32,
    src2_size: u32,
    filter_flags: u32,
    num_inputs: u32,
}

const _: () = {
    assert!(size_of::<Layout>() == DESCRIPTOR_BYTES);
    assert!(offset_of!(Layout, pasid) == 0 && offset_of!(Layout, flags) == 4);
    assert!(offset_of!(Layout, completion_addr) == 8 && offset_of!(Layout, src1_addr) == 16);
    assert!(offset_of!(Layout, dst_addr) == 24 && offset_of!(Layout, src1_size) == 32);
    assert!(offset_of!(Layout, int_handle) == 36 && offset_of!(Layout, operation_flags) == 38);
    assert!(offset_of!(Layout, src2_addr) == 40 && offset_of!(Layout, max_dst_size) == 48);
    assert!(offset_of!(Layout, src2_size) == 52 && offset_of!(Layout, filter_flags) == 56);
    assert!(offset_of!(Layout, num_inputs) == 60);
};

const PASID_MASK: u32 = 0xf_ffff;
const PRIVILEGED: u32 = 1 << 31;
const OPCODE_SHIFT: u32 = 24;

/// One job for the device. Sizes are bytes; addresses are those of the submitting process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// What to do.
    pub opcode: Opcode,
    /// Flags of every operation.
    pub flags: Flags,
    /// Process address space, 20 bits. User space leaves 0: ENQCMD puts in its own.
    pub pasid: u32,
    /// Privileged; user space leaves it unset.
    pub privileged: bool,
    /// The completion record, aligned to 64.
    pub completion_addr: u64,
    /// The first source.
    pub src1_addr: u64,
    /// Bytes of the first source.
    pub src1_size: u32,
    /// The destination.
    pub dst_addr: u64,
    /// Bytes that the destination has room for.
    pub max_dst_size: u32,
    /// AECS (aligned to 32) or second source.
    pub src2_addr: u64,
    /// Bytes of the AECS (a multiple of 32) or of the second source.
    pub src2_size: u32,
    /// Interrupt handle; 0 without RCI.
    pub int_handle: u16,
    /// [`ComprFlags`], [`DecomprFlags`] or [`Crc64Flags`], as the operation has it.
    pub operation_flags: u16,
    /// Filter flags, or [`Compr2Flags`] of a COMPRESS.
    pub filter_flags: u32,
    /// Elements of the input; 0 for COMPRESS.
    pub num_inputs: u32,
}

/// A rule of the data sheet that a descriptor breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flaw {
    /// The field.
    pub field: &'static str,
    /// Its value.
    pub value: u64,
    /// The rule.
    pub rule: &'static str,
}

impl core::fmt::Display for Flaw {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} is {:#x}: {}", self.field, self.value, self.rule)
    }
}

impl Descriptor {
    /// A descriptor that asks for a completion record at `completion_addr` and for nothing else.
    #[must_use]
    pub const fn new(opcode: Opcode, completion_addr: u64) -> Self {
        Self {
            opcode,
            flags: Flags::RECORD,
            pasid: 0,
            privileged: false,
            completion_addr,
            src1_addr: 0,
            src1_size: 0,
            dst_addr: 0,
            max_dst_size: 0,
            src2_addr: 0,
            src2_size: 0,
            int_handle: 0,
            operation_flags: 0,
            filter_flags: 0,
            num_inputs: 0,
        }
    }

    /// With these flags too.
    #[must_use]
    pub const fn flags(mut self, flags: Flags) -> Self {
        self.flags = self.flags.with(flags);
        self
    }

    /// Reading `size` bytes from `addr`.
    #[must_use]
    pub const fn source(mut self, addr: u64, size: u32) -> Self {
        (self.src1_addr, self.src1_size) = (addr, size);
        self
    }

    /// Writing at most `max` bytes to `addr`.
    #[must_use]
    pub const fn destination(mut self, addr: u64, max: u32) -> Self {
        (self.dst_addr, self.max_dst_size) = (addr, max);
        self
    }

    /// With the AECS of `size` bytes at `addr`; `access` says whether it is read or written.
    #[must_use]
    pub const fn aecs(mut self, addr: u64, size: u32, access: Flags) -> Self {
        (self.src2_addr, self.src2_size) = (addr, size);
        self.flags(access)
    }

    /// With `compr_flags`.
    #[must_use]
    pub const fn compr(mut self, flags: ComprFlags) -> Self {
        self.operation_flags = flags.0;
        self
    }

    /// With `decompr_flags`.
    #[must_use]
    pub const fn decompr(mut self, flags: DecomprFlags) -> Self {
        self.operation_flags = flags.0;
        self
    }

    /// The second dword: flags and opcode.
    #[must_use]
    pub const fn flags_and_opcode(&self) -> u32 {
        self.flags.0 & Flags::MASK | (self.opcode.0 as u32) << OPCODE_SHIFT
    }

    /// The bytes that a portal takes.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; DESCRIPTOR_BYTES] {
        let mut bytes = [0; DESCRIPTOR_BYTES];
        macro_rules! put {
            ($field:ident, $value:expr) => {
                le::put(&mut bytes, offset_of!(Layout, $field), $value.to_le_bytes())
            };
        }
        let privileged = if self.privileged { PRIVILEGED } else { 0 };
        put!(pasid, (self.pasid & PASID_MASK | privileged));
        put!(flags, self.flags_and_opcode());
        put!(completion_addr, self.completion_addr);
        put!(src1_addr, self.src1_addr);
        put!(dst_addr, self.dst_addr);
        put!(src1_size, self.src1_size);
        put!(int_handle, self.int_handle);
        put!(operation_flags, self.operation_flags);
        put!(src2_addr, self.src2_addr);
        put!(max_dst_size, self.max_dst_size);
        put!(src2_size, self.src2_size);
        put!(filter_flags, self.filter_flags);
        put!(num_inputs, self.num_inputs);
        bytes
    }

    /// The descriptor that `bytes` are.
    ///
    /// # Errors
    /// The reserved bits 30:20 of the first dword are set.
    pub fn from_bytes(bytes: &[u8; DESCRIPTOR_BYTES]) -> Result<Self, Flaw> {
        let u32_at = |offset| u32::from_le_bytes(le::get(bytes, offset));
        let u16_at = |offset| u16::from_le_bytes(le::get(bytes, offset));
        let u64_at = |offset| u64::from_le_bytes(le::get(bytes, offset));
        let pasid = u32_at(offset_of!(Layout, pasid));
        if pasid & !(PASID_MASK | PRIVILEGED) != 0 {
            let rule = "bits 30:20 are reserved and must be 0";
            return Err(Flaw {
                field: "pasid",
                value: pasid.into(),
                rule,
            });
        }
        let flags = u32_at(offset_of!(Layout, flags));
        Ok(Self {
            opcode: Opcode((flags >> OPCODE_SHIFT) as u8),
            flags: Flags(flags & Flags::MASK),
            pasid: pasid & PASID_MASK,
            privileged: pasid & PRIVILEGED != 0,
            completion_addr: u64_at(offset_of!(Layout, completion_addr)),
            src1_addr: u64_at(offset_of!(Layout, src1_addr)),
            src1_size: u32_at(offset_of!(Layout, src1_size)),
            dst_addr: u64_at(offset_of!(Layout, dst_addr)),
            max_dst_size: u32_at(offset_of!(Layout, max_dst_size)),
            src2_addr: u64_at(offset_of!(Layout, src2_addr)),
            src2_size: u32_at(offset_of!(Layout, src2_size)),
            int_handle: u16_at(offset_of!(Layout, int_handle)),
            operation_flags: u16_at(offset_of!(Layout, operation_flags)),
            filter_flags: u32_at(offset_of!(Layout, filter_flags)),
            num_inputs: u32_at(offset_of!(Layout, num_inputs)),
        })
    }

    /// Check the rules that hold for every device. A device refuses several mistakes with one code;
    /// here each has its name.
    ///
    /// # Errors
    /// The first rule that is broken.
    pub const fn check(&self) -> Result<(), Flaw> {
        const fn broken(field: &'static str, value: u64, rule: &'static str) -> Result<(), Flaw> {
            Err(Flaw { field, value, rule })
        }
        let writes = self.flags.contains(Flags::WR_SRC2_ALWAYS) || self.flags.contains(Flags::WR_SRC2_OVERFLOW);
        let has_aecs = self.flags.contains(Flags::RD_SRC2_AECS) || writes;
        if self.pasid > PASID_MASK {
            return broken("pasid", self.pasid as u64, "it has 20 bits");
        }
        if self.flags.unnamed().0 != 0 {
            return broken("flags", self.flags.0 as u64, "bits without a name must be 0");
        }
        if self.flags.contains(Flags::CRAV) && !self.completion_addr.is_multiple_of(RECORD_ALIGN) {
            return broken("completion_addr", self.completion_addr, "must be a multiple of 64");
        }
        if has_aecs && !self.src2_addr.is_multiple_of(AECS_ALIGN) {
            return broken("src2_addr", self.src2_addr, "an AECS begins at a multiple of 32");
        }
        if has_aecs && !(self.src2_size as u64).is_multiple_of(AECS_ALIGN) {
            return broken("src2_size", self.src2_size as u64, "an AECS has a multiple of 32 bytes");
        }
        if self.flags.contains(Flags::AECS_TOGGLE) && !writes {
            return broken(
                "flags",
                self.flags.0 as u64,
                "the AECS toggle needs an AECS that is written",
            );
        }
        if self.int_handle != 0 && !self.flags.contains(Flags::RCI) {
            return broken("int_handle", self.int_handle as u64, "must be 0 without RCI");
        }
        let is_sized = self.src1_size != 0 || self.src2_size != 0 || self.max_dst_size != 0;
        if !is_sized && self.opcode.0 != Opcode::NOOP.0 && self.opcode.0 != Opcode::DRAIN.0 {
            return broken("src1_size", 0, "all but NOOP and DRAIN need a size that is not 0");
        }
        Ok(())
    }
}

#[cfg(test)]
mod test;
