//! What a completion record says of how a descriptor ended (data sheet A6).

/// Set in the status byte when the fault was on a write.
pub const WRITE_FAULT: u8 = 0x80;

/// Status codes, bits 5:0 of a record's first byte.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Status {
    /// Not completed yet.
    Busy = 0x00,
    /// All is done.
    Success = 0x01,
    /// Page fault, and the descriptor may not block on it.
    PageFault = 0x03,
    /// Page fault, and the page request was answered "invalid".
    InvalidResponse = 0x04,
    /// See the record's error code.
    Analytics = 0x0a,
    /// The destination is full; the work can go on elsewhere.
    OutputOverflow = 0x0b,
    /// The opcode is not in op_cap or not in the queue's op_config.
    UnsupportedOpcode = 0x10,
    /// Flags that the opcode, the queue or the device does not allow.
    InvalidFlags = 0x11,
    /// A reserved field is not zero.
    Reserved = 0x12,
    /// A transfer longer than the queue allows, or of no bytes where some are needed.
    TransferSize = 0x13,
    /// Buffers overlap.
    Overlap = 0x16,
    /// An interrupt handle that was never given out.
    IntHandle = 0x19,
    /// The completion record's address does not translate (event log only).
    RecordFault = 0x1a,
    /// The completion record is not aligned to 64 bytes (SWERR only).
    RecordMisaligned = 0x1b,
    /// AECS address or size is no multiple of 32.
    AecsMisaligned = 0x1c,
    /// The descriptor claims a privilege that its portal does not have.
    Privilege = 0x1d,
    /// A traffic class that the group does not have.
    TrafficClass = 0x1e,
    /// Page fault on a readback address.
    ReadbackFault = 0x1f,
    /// The engine failed.
    HardwareError = 0x20,
    /// The engine failed while it read back.
    ReadbackError = 0x21,
    /// The IOMMU could not translate.
    Translation = 0x22,
    /// Nobody answered a page request in time.
    PageRequestTimeout = 0x23,
    /// The operation took longer than the watchdog allows.
    Watchdog = 0x24,
    /// The PASID is not valid.
    Pasid = 0x28,
    /// Illegal compress, decompress or CRC64 flags.
    OperationFlags = 0x30,
    /// Illegal filter flags.
    FilterFlags = 0x31,
    /// An input size that the operation does not allow.
    InputSize = 0x32,
}

/// Error codes of a record whose status is [`Status::Analytics`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum ErrorCode {
    /// The input ends within a block header.
    HeaderTooBig = 1,
    /// A code of the header's own alphabet that is not defined.
    UndefinedCl = 2,
    /// The first literal or length code is a repetition.
    FirstLlIs16 = 3,
    /// The first distance code is a repetition.
    FirstDIs16 = 4,
    /// No literal or length has a code.
    NoLl = 5,
    /// A repetition goes beyond the literal and length codes.
    LlCount = 6,
    /// A repetition goes beyond the distance codes.
    DCount = 7,
    /// The header's own alphabet has too many codes.
    ClOverSubscribed = 8,
    /// Literals and lengths have too many codes.
    LlOverSubscribed = 9,
    /// Distances have too many codes.
    DOverSubscribed = 10,
    /// A literal or length code that is not defined.
    BadLl = 11,
    /// A distance code that is not defined.
    BadD = 12,
    /// Block type 3.
    BlockType = 13,
    /// A stored block's length and its complement disagree.
    StoredLength = 14,
    /// The input ended without the end of block that was asked for.
    MissingEob = 15,
    /// A length symbol that means no length.
    BadLength = 16,
    /// Distance 0, or one beyond the history of 4 KiB.
    Distance = 17,
    /// A reference before the start of the output.
    BeforeStart = 18,
    /// Nothing was read and nothing written.
    NoProgress = 19,
    /// Malformed PRLE.
    Prle = 20,
    /// An element is wider than the output's.
    OutputWidth = 21,
    /// The AECS is not one.
    AecsInvalid = 22,
    /// Source 1 is too short.
    Src1Short = 23,
    /// Source 2 is too short.
    Src2Short = 24,
    /// The output does not fit and cannot be resumed: compression does not pay.
    DoesNotFit = 25,
    /// A match's length spans mini-blocks.
    LengthSpans = 26,
    /// A match's distance spans mini-blocks.
    DistanceSpans = 27,
    /// The mini-block's size is wrong.
    MiniBlock = 28,
    /// Zero-compressed data did not verify.
    ZVerify = 29,
    /// The compressor met a symbol without a code.
    NoCode = 30,
    /// A PRLE width that is not allowed.
    PrleWidth = 31,
    /// Fewer elements than announced.
    FewElements = 32,
    /// A malformed zero-decompression header.
    ZHeader = 34,
    /// More than 286 literal and length codes.
    ManyLl = 35,
    /// More than 30 distance codes.
    ManyD = 36,
}

impl ErrorCode {
    /// Every code of the data sheet, in order.
    pub const ALL: [Self; 35] = [
        Self::HeaderTooBig,
        Self::UndefinedCl,
        Self::FirstLlIs16,
        Self::FirstDIs16,
        Self::NoLl,
        Self::LlCount,
        Self::DCount,
        Self::ClOverSubscribed,
        Self::LlOverSubscribed,
        Self::DOverSubscribed,
        Self::BadLl,
        Self::BadD,
        Self::BlockType,
        Self::StoredLength,
        Self::MissingEob,
        Self::BadLength,
        Self::Distance,
        Self::BeforeStart,
        Self::NoProgress,
        Self::Prle,
        Self::OutputWidth,
        Self::AecsInvalid,
        Self::Src1Short,
        Self::Src2Short,
        Self::DoesNotFit,
        Self::LengthSpans,
        Self::DistanceSpans,
        Self::MiniBlock,
        Self::ZVerify,
        Self::NoCode,
        Self::PrleWidth,
        Self::FewElements,
        Self::ZHeader,
        Self::ManyLl,
        Self::ManyD,
    ];
}
