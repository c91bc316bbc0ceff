//! The jobs of a compressor, each as the descriptor that asks for it (data sheet A8).
//!
//! All sizes are bytes and at most the work queue's `max_transfer_size`. History is 4 KiB both
//! ways: any inflater reads what the device writes, while the device reads only streams whose
//! distances are at most 4096.

use crate::aecs::{COMPRESS_AECS_BYTES, DecompressAecs, Header};
use crate::descriptor::{ComprFlags, DecomprFlags, Descriptor, Flags, Opcode};

/// The longest input for which the device makes a dynamic header in one pass, in bytes.
pub const DYNAMIC_INPUT_MAX: u32 = 4096;

/// Compression: write everything out, with an end of block behind it.
const COMPRESS_WHOLE: ComprFlags = ComprFlags::FLUSH_OUTPUT.with(ComprFlags::END_EOB);
/// Decompression of a whole stream: stop at its end, which must be there.
const DECOMPRESS_WHOLE: DecomprFlags = DecomprFlags::ENABLE
    .with(DecomprFlags::FLUSH_OUTPUT)
    .with(DecomprFlags::STOP_ON_EOB)
    .with(DecomprFlags::CHECK_FOR_EOB);

/// Where a job reads, writes and answers: addresses in the submitting process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    /// The completion record, aligned to 64 and zeroed.
    pub record: u64,
    /// The source.
    pub source: u64,
    /// Bytes of the source.
    pub length: u32,
    /// The destination.
    pub destination: u64,
    /// Bytes that it has room for.
    pub room: u32,
}

impl Job {
    const fn descriptor(self, opcode: Opcode) -> Descriptor {
        Descriptor::new(opcode, self.record)
            .source(self.source, self.length)
            .destination(self.destination, self.room)
    }
}

/// One final block with the tables of the [`CompressAecs`](crate::aecs::CompressAecs) at `aecs`.
#[must_use]
pub const fn fixed_compress(job: Job, aecs: u64) -> Descriptor {
    job.descriptor(Opcode::COMPRESS)
        .flags(Flags::CC)
        .compr(COMPRESS_WHOLE)
        .aecs(aecs, COMPRESS_AECS_BYTES as u32, Flags::RD_SRC2_AECS)
}

/// Symbols without a header: the same as [`fixed_compress`], only the AECS differs.
#[must_use]
pub const fn canned_compress(job: Job, aecs: u64) -> Descriptor {
    fixed_compress(job, aecs)
}

/// One final block with tables that the device makes for it. It needs header generation
/// (`iaa_cap` bit 8) and a source of at most [`DYNAMIC_INPUT_MAX`] bytes.
#[must_use]
pub const fn dynamic_compress(job: Job) -> Descriptor {
    job.descriptor(Opcode::COMPRESS)
        .flags(Flags::CC)
        .compr(COMPRESS_WHOLE.with(ComprFlags::HDR_ONE_PASS_FINAL))
}

/// Count symbols into the [`HISTOGRAM_BYTES`](crate::aecs::HISTOGRAM_BYTES) of the destination.
#[must_use]
pub const fn statistics(job: Job) -> Descriptor {
    job.descriptor(Opcode::COMPRESS).compr(ComprFlags::STATS)
}

/// Read a whole deflate stream.
#[must_use]
pub const fn decompress(job: Job) -> Descriptor {
    job.descriptor(Opcode::DECOMPRESS)
        .flags(Flags::CC)
        .decompr(DECOMPRESS_WHOLE)
}

/// Read the header of canned mode at `source` into the AECS at `pair`, which every
/// [`canned_decompress`] then starts from.
///
/// `pair` has room for two AECS of `size`: with the toggle the device would read the second one and
/// writes the first.
#[must_use]
pub fn canned_set_up(record: u64, source: u64, header: &Header, pair: u64, size: DecompressAecs) -> Descriptor {
    let flags = DecomprFlags::ENABLE | DecomprFlags::SUPPRESS_OUTPUT | DecomprFlags::ignore_end_bits(header.padding());
    Descriptor::new(Opcode::DECOMPRESS, record)
        .source(source, header.bytes().len() as u32)
        .flags(Flags::CC | Flags::AECS_TOGGLE)
        .decompr(flags)
        .aecs(pair, size.bytes(), Flags::WR_SRC2_ALWAYS)
}

/// Read symbols without a header, with the tables of the AECS that [`canned_set_up`] has written.
#[must_use]
pub const fn canned_decompress(job: Job, aecs: u64, size: DecompressAecs) -> Descriptor {
    decompress(job).aecs(aecs, size.bytes(), Flags::RD_SRC2_AECS)
}

/// Decompress the `length` bytes at `source` without output, for the CRC of their content.
///
/// Nothing is written to `scratch`. It stands there since devices may refuse a descriptor without a
/// destination.
#[must_use]
pub const fn verify(record: u64, source: u64, length: u32, scratch: u64) -> Descriptor {
    let flags = DecomprFlags::ENABLE
        .with(DecomprFlags::STOP_ON_EOB)
        .with(DecomprFlags::CHECK_FOR_EOB)
        .with(DecomprFlags::FLUSH_OUTPUT)
        .with(DecomprFlags::SUPPRESS_OUTPUT);
    Descriptor::new(Opcode::DECOMPRESS, record)
        .source(source, length)
        .destination(scratch, 1)
        .decompr(flags)
}

/// [`verify`] of symbols without a header.
#[must_use]
pub const fn canned_verify(
    record: u64,
    source: u64,
    length: u32,
    scratch: u64,
    aecs: u64,
    size: DecompressAecs,
) -> Descriptor {
    verify(record, source, length, scratch).aecs(aecs, size.bytes(), Flags::RD_SRC2_AECS)
}

/// Nothing but a record: proves that a queue takes descriptors and answers.
#[must_use]
pub const fn noop(record: u64) -> Descriptor {
    Descriptor::new(Opcode::NOOP, record)
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::aecs::Tables;

    const JOB: Job = Job {
        record: 0x1000,
        source: 0x2000,
        length: 4096,
        destination: 0x4000,
        room: 4095,
    };

    /// The dword at offset 4 and the word at 38, as a portal sees them.
    fn words(descriptor: Descriptor) -> (u32, u16) {
        assert_eq!(descriptor.check(), Ok(()));
        let bytes = descriptor.to_bytes();
        let dword = u32::from_le_bytes(bytes[4..8].try_into().unwrap());
        (dword, u16::from_le_bytes(bytes[38..40].try_into().unwrap()))
    }

    #[test]
    fn golden_words() {
        assert_eq!(words(fixed_compress(JOB, 0x8000)), (0x4301_010c, 0x6));
        assert_eq!(words(decompress(JOB)), (0x4200_010c, 0xf));
        assert_eq!(words(noop(0x1000)), (0x0000_000c, 0));
        let header = Tables::fixed().header();
        let set_up = canned_set_up(0x1000, 0x2000, &header, 0x8000, DecompressAecs::Format1);
        let flags = 0x201 | (header.padding() as u16) << 6;
        assert_eq!(words(set_up), (0x4244_010c, flags));
        assert_eq!((set_up.src2_size, set_up.max_dst_size), (1088, 0));
    }

    #[test]
    fn the_other_recipes_are_the_data_sheets() {
        assert_eq!(words(canned_compress(JOB, 0x8000)), (0x4301_010c, 0x6));
        assert_eq!(words(dynamic_compress(JOB)), (0x4300_010c, 0x3006));
        assert_eq!(words(statistics(JOB)), (0x4300_000c, 0x1));
        let canned = canned_decompress(JOB, 0x8000, DecompressAecs::Format2);
        assert_eq!((words(canned), canned.src2_size), ((0x4201_010c, 0xf), 1248));
        let verify = verify(0x1000, 0x4000, 1300, 0x8000);
        assert_eq!((words(verify), verify.max_dst_size), ((0x4200_000c, 0x20f), 1));
        let canned = canned_verify(0x1000, 0x4000, 1300, 0x8000, 0x8020, DecompressAecs::Format1);
        assert_eq!(words(canned), (0x4201_000c, 0x20f));
    }

    #[test]
    fn a_job_stands_in_its_descriptor() {
        let descriptor = fixed_compress(JOB, 0x8000);
        assert_eq!((descriptor.src1_addr, descriptor.src1_size), (0x2000, 4096));
        assert_eq!((descriptor.dst_addr, descriptor.max_dst_size), (0x4000, 4095));
        assert_eq!((descriptor.src2_addr, descriptor.src2_size), (0x8000, 1568));
        assert_eq!(descriptor.completion_addr, 0x1000);
        assert_eq!(
            (descriptor.pasid, descriptor.int_handle, descriptor.num_inputs),
            (0, 0, 0)
        );
    }

    #[test]
    fn the_literals_vector_asks_for_literals_only() {
        let descriptor = fixed_compress(JOB, 0x8000);
        let flags = ComprFlags(descriptor.operation_flags) | ComprFlags::GEN_LITS;
        assert_eq!(flags.0, 0x16);
    }
}
