//! The flag words of a descriptor (data sheet A5).

use crate::bits::flags;

flags! {
    /// The flags of every operation: 24 bits.
    Flags: u32 {
        /// Start only when what was submitted before is done.
        FENCE = 0x1;
        /// Block on fault: ask the kernel for a missing page. Legal if the work queue allows it.
        BOF = 0x2;
        /// `completion_addr` is valid.
        CRAV = 0x4;
        /// Request a completion record.
        RCR = 0x8;
        /// Request a completion interrupt.
        RCI = 0x10;
        /// The completion record uses its traffic class's steering tag.
        CRSTS = 0x20;
        /// Check result.
        CR = 0x80;
        /// Cache control: write the destination to the cache.
        CC = 0x100;
        /// Traffic class B for `src1_addr`.
        ADDR1_TCS = 0x200;
        /// Traffic class B for `dst_addr`.
        ADDR2_TCS = 0x400;
        /// Traffic class B for `src2_addr`.
        ADDR3_TCS = 0x800;
        /// Traffic class B for the completion record.
        CR_TCS = 0x1000;
        /// Strict order of writes.
        STORD = 0x2000;
        /// Read the destination back.
        DRDBK = 0x4000;
        /// Destination steering tag.
        DSTS = 0x8000;
        /// Read `src2` as an AECS.
        RD_SRC2_AECS = 0x1_0000;
        /// Read `src2` as a second input.
        RD_SRC2_INPUT = 0x2_0000;
        /// Write the AECS when the operation completes.
        WR_SRC2_ALWAYS = 0x4_0000;
        /// Write the AECS only when the output overflows.
        WR_SRC2_OVERFLOW = 0x8_0000;
        /// Source 2 steering tag.
        SRC2_STS = 0x10_0000;
        /// CRC-32C instead of CRC-32.
        CRC32C = 0x20_0000;
        /// Of two AECS back to back: read the second, write the first. Needs a write.
        AECS_TOGGLE = 0x40_0000;
    }
}

impl Flags {
    /// The bits that the field has.
    pub const MASK: u32 = 0xff_ffff;
    /// What every job of this driver asks: a record, at a valid address.
    pub const RECORD: Self = Self::CRAV.with(Self::RCR);
}

flags! {
    /// `compr_flags`: how COMPRESS works.
    ComprFlags: u16 {
        /// Statistics: the destination takes a histogram instead of a stream.
        STATS = 0x1;
        /// Align to a byte and write the accumulator out: the last descriptor of a stream.
        FLUSH_OUTPUT = 0x2;
        /// Then an end-of-block symbol.
        END_EOB = 0x4;
        /// Then an end-of-block symbol and a stored block that is not final.
        END_STORED = 0x8;
        /// Then an end-of-block symbol and a final stored block.
        END_STORED_FINAL = 0xc;
        /// Literals only, no matches.
        GEN_LITS = 0x10;
        /// Big-endian words of 16 bits, Huffman only.
        BE = 0x20;
        /// The three bits of the mini-block's size for indexing; 0 is off.
        INDEXING = 0x1c0;
        /// The two bits of the dictionary's size.
        LOAD_DICT = 0xc00;
        /// One pass, the device writes the header.
        HDR_ONE_PASS = 0x2000;
        /// One pass, the device writes the header with BFINAL.
        HDR_ONE_PASS_FINAL = 0x3000;
        /// Two passes, no header.
        HDR_TWO_PASS_NONE = 0x5000;
        /// Two passes, with a header.
        HDR_TWO_PASS = 0x6000;
        /// Two passes, with a header that has BFINAL.
        HDR_TWO_PASS_FINAL = 0x7000;
    }
}

flags! {
    /// `decompr_flags`: how DECOMPRESS works.
    DecomprFlags: u16 {
        /// Decompress, rather than only filter.
        ENABLE = 0x1;
        /// Write the accumulator out.
        FLUSH_OUTPUT = 0x2;
        /// Stop at an end-of-block symbol.
        STOP_ON_EOB = 0x4;
        /// The stream must end with an end-of-block symbol.
        CHECK_FOR_EOB = 0x8;
        /// The two rules for EOB hold for that of the final block only.
        SELECT_BFINAL_EOB = 0x10;
        /// Big-endian words of 16 bits.
        BE = 0x20;
        /// The low three bits of the number of bits to ignore in the last byte.
        IGNORE_END_BITS = 0x1c0;
        /// Write no output: for verification and for headers.
        SUPPRESS_OUTPUT = 0x200;
        /// The three bits of the mini-block's size for indexing.
        INDEXING = 0x1c00;
        /// The fourth bit of the number of bits to ignore (generation 2).
        IGNORE_END_BITS_HIGH = 0x4000;
    }
}

impl DecomprFlags {
    /// Ignore the last `bits` bits of the input: 0 to 7, which every generation takes.
    #[must_use]
    pub const fn ignore_end_bits(bits: u32) -> Self {
        assert!(bits < 8, "a header ends in its last byte");
        Self((bits as u16) << 6)
    }
}

flags! {
    /// `crc64_flags`: how CRC64 works.
    Crc64Flags: u16 {
        /// Invert.
        INVERT = 0x4000;
        /// The highest bit first.
        MSB_FIRST = 0x8000;
    }
}

flags! {
    /// `compression_2_flags`, which COMPRESS has in the place of `filter_flags`.
    Compr2Flags: u32 {
        /// Write the Huffman tables to the AECS.
        WRITE_TABLES = 0x2;
    }
}
