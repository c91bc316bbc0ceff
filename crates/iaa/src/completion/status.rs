//! Status and error codes of a completion record, with their names (data sheet A6).

/// The first byte of a completion record. Codes without a name are kept.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Status(pub u8);

macro_rules! codes {
    ($type:ident, $key:ident; $($(#[$doc:meta])* $name:ident = $number:expr, $text:expr;)*) => {
        impl $type {
            $($(#[$doc])* pub const $name: Self = Self($number);)*

            /// All codes that the data sheet names, in its order.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// What the code says, if the data sheet names it.
            #[must_use]
            pub const fn name(self) -> Option<&'static str> {
                match self.$key() {
                    $($number => Some($text),)*
                    _ => None,
                }
            }
        }

        impl core::fmt::Debug for $type {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                write!(f, "{:#04x} ({})", self.0, self.name().unwrap_or("unknown"))
            }
        }
    };
}

codes! { Status, code;
    /// The device has not answered.
    BUSY = 0x00, "busy";
    /// Done.
    SUCCESS = 0x01, "success";
    /// A page was missing and the descriptor did not block on faults.
    PAGE_FAULT = 0x03, "page fault";
    /// A page was missing and the kernel could not bring it.
    PAGE_FAULT_INVALID = 0x04, "page fault, request answered invalid";
    /// Analytics error: `error_code` says which.
    ANALYTICS = 0x0a, "analytics error";
    /// The destination is full; can be resumed if the AECS was written.
    OUTPUT_OVERFLOW = 0x0b, "output overflow";
    /// The operation is not supported.
    OPCODE = 0x10, "unsupported opcode";
    /// A flag is not legal: `invalid_flags` says which.
    FLAGS = 0x11, "invalid flags";
    /// A reserved field is not zero.
    RESERVED = 0x12, "reserved field not zero";
    /// The transfer size is not legal.
    SIZE = 0x13, "invalid transfer size";
    /// Source and destination overlap.
    OVERLAP = 0x16, "overlapping buffers";
    /// The interrupt handle is not valid.
    INT_HANDLE = 0x19, "invalid interrupt handle";
    /// The completion record could not be written where it should.
    RECORD_FAULT = 0x1a, "completion record fault";
    /// The completion record is not aligned.
    RECORD_ALIGN = 0x1b, "completion record misaligned";
    /// The AECS is not aligned, or its size is no multiple of 32.
    AECS = 0x1c, "AECS address or size";
    /// Privilege.
    PRIVILEGE = 0x1d, "privilege";
    /// Traffic class.
    TRAFFIC_CLASS = 0x1e, "traffic class";
    /// A page fault at the address read back.
    READBACK_FAULT = 0x1f, "page fault on readback";
    /// The device is broken.
    HARDWARE = 0x20, "hardware error";
    /// The device is broken, found at readback.
    HARDWARE_READBACK = 0x21, "hardware error on readback";
    /// An address could not be translated.
    TRANSLATION = 0x22, "translation failure";
    /// The kernel did not answer a page request.
    PAGE_REQUEST_TIMEOUT = 0x23, "page request timeout";
    /// The device's watchdog ended the job.
    WATCHDOG = 0x24, "watchdog";
    /// The PASID is not valid.
    PASID = 0x28, "PASID";
    /// The first of the inter-domain errors.
    INTER_DOMAIN_FIRST = 0x29, "inter-domain error";
    /// Inter-domain error.
    INTER_DOMAIN_2 = 0x2a, "inter-domain error";
    /// Inter-domain error.
    INTER_DOMAIN_3 = 0x2b, "inter-domain error";
    /// Inter-domain error.
    INTER_DOMAIN_4 = 0x2c, "inter-domain error";
    /// Inter-domain error.
    INTER_DOMAIN_5 = 0x2d, "inter-domain error";
    /// The last of the inter-domain errors.
    INTER_DOMAIN_LAST = 0x2e, "inter-domain error";
    /// `compr_flags`, `decompr_flags` or `crc64_flags` are not legal.
    OPERATION_FLAGS = 0x30, "invalid (de)compress or CRC flags";
    /// `filter_flags` are not legal.
    FILTER_FLAGS = 0x31, "invalid filter flags";
    /// The size of the input is not legal.
    INPUT_SIZE = 0x32, "invalid input size";
    /// No elements.
    ELEMENTS = 0x33, "number of elements is 0";
    /// Width of the first source.
    SRC1_WIDTH = 0x34, "invalid src1 width";
    /// Inverted output.
    INVERT = 0x35, "invalid inverted output";
}

impl Status {
    /// The code without the bit for writes. Bit 6 is kept: with it no code is a known one.
    #[must_use]
    pub const fn code(self) -> u8 {
        self.0 & 0x7f
    }

    /// Of a page fault: it happened on a write.
    #[must_use]
    pub const fn is_on_write(self) -> bool {
        self.0 & 0x80 != 0
    }

    /// Whether the descriptor broke a rule, rather than the data or the device.
    #[must_use]
    pub const fn is_invalid_request(self) -> bool {
        matches!(self.code(), 0x10..=0x13 | 0x16 | 0x19 | 0x1b..=0x1e | 0x30..=0x35)
    }
}

/// The second byte of a completion record: which analytics error.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct ErrorCode(pub u8);

codes! { ErrorCode, number;
    /// The block header is longer than the input.
    HEADER_TOO_BIG = 1, "header too big for the input";
    /// A code-length code that is not defined.
    CL_CODE = 2, "undefined code length code";
    /// The first literal/length code length repeats one before it.
    LL_FIRST_REPEATS = 3, "first LL code is 16";
    /// The first distance code length repeats one before it.
    D_FIRST_REPEATS = 4, "first D code is 16";
    /// No literal/length codes.
    LL_NONE = 5, "no LL codes";
    /// A wrong number of literal/length codes.
    LL_COUNT = 6, "wrong number of LL codes";
    /// A wrong number of distance codes.
    D_COUNT = 7, "wrong number of D codes";
    /// Too many code-length codes.
    CL_OVERSUBSCRIBED = 8, "over-subscribed CL codes";
    /// Too many literal/length codes.
    LL_OVERSUBSCRIBED = 9, "over-subscribed LL codes";
    /// Too many distance codes.
    D_OVERSUBSCRIBED = 10, "over-subscribed D codes";
    /// A bad literal/length code.
    LL_CODE = 11, "bad LL code";
    /// A bad distance code.
    D_CODE = 12, "bad D code";
    /// The reserved block type.
    BLOCK_TYPE = 13, "block type 3";
    /// Length of a stored block.
    STORED_LENGTH = 14, "LEN and NLEN of a stored block";
    /// The end-of-block symbol is missing.
    MISSING_EOB = 15, "missing EOB";
    /// A bad length.
    LENGTH = 16, "bad length";
    /// A distance of 0, or beyond 4 KiB.
    DISTANCE = 17, "distance 0 or beyond the history";
    /// A reference to before the start.
    BEFORE_START = 18, "reference before the start";
    /// No forward progress.
    NO_PROGRESS = 19, "no forward progress";
    /// PRLE format.
    PRLE = 20, "PRLE format";
    /// Output width.
    OUTPUT_WIDTH = 21, "output width";
    /// The AECS is not valid.
    AECS = 22, "AECS invalid";
    /// The first source is too short.
    SRC1_SHORT = 23, "src1 too short";
    /// The second source is too short.
    SRC2_SHORT = 24, "src2 too short";
    /// The output does not fit: of a compression, the page is incompressible.
    OUTPUT_TOO_BIG = 25, "unrecoverable output overflow";
    /// A match spans mini-blocks.
    MATCH_SPANS_1 = 26, "match spans mini-blocks";
    /// A match spans mini-blocks.
    MATCH_SPANS_2 = 27, "match spans mini-blocks";
    /// Size of a mini-block.
    MINI_BLOCK = 28, "mini-block size";
    /// Verification of zero compression.
    ZVERIFY = 29, "zverify";
    /// The compressor met a symbol without a code.
    NO_CODE = 30, "symbol without a code";
    /// PRLE width.
    PRLE_WIDTH = 31, "PRLE width";
    /// Too few elements.
    TOO_FEW = 32, "too few elements";
    /// Header of zero decompression.
    ZDECOMPRESS = 34, "zdecompress header";
    /// More than 286 literal/length codes.
    LL_TOO_MANY = 35, "more than 286 LL codes";
    /// More than 30 distance codes.
    D_TOO_MANY = 36, "more than 30 D codes";
}

impl ErrorCode {
    /// No error.
    pub const NONE: Self = Self(0);

    const fn number(self) -> u8 {
        self.0
    }
}
