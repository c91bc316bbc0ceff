//! What a descriptor asks for (data sheet A5).

/// An operation, by the number that stands in the descriptor. Numbers without a name are kept.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Opcode(pub u8);

macro_rules! opcodes {
    ($($(#[$doc:meta])* $name:ident = $number:expr;)*) => {
        impl Opcode {
            $($(#[$doc])* pub const $name: Self = Self($number);)*

            /// The data sheet's name of it, if it has one there.
            #[must_use]
            pub const fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($number => Some(stringify!($name)),)*
                    _ => None,
                }
            }
        }
    };
}

opcodes! {
    /// Nothing but a completion record.
    NOOP = 0x00;
    /// Wait for what was submitted before.
    DRAIN = 0x02;
    /// Copy.
    MEMMOVE = 0x03;
    /// Fetch translations of a range.
    TRANSL_FETCH = 0x0a;
    /// Decrypt (generation 2).
    DECRYPT = 0x40;
    /// Encrypt (generation 2).
    ENCRYPT = 0x41;
    /// Read a deflate stream.
    DECOMPRESS = 0x42;
    /// Write a deflate stream.
    COMPRESS = 0x43;
    /// A CRC of 64 bits with a polynomial of the caller's.
    CRC64 = 0x44;
    /// Read zero-compressed elements of 32 bits.
    ZDECOMP32 = 0x48;
    /// Read zero-compressed elements of 16 bits.
    ZDECOMP16 = 0x49;
    /// Read zero-compressed elements of 8 bits.
    ZDECOMP8 = 0x4a;
    /// Leave out zero elements of 32 bits.
    ZCOMP32 = 0x4c;
    /// Leave out zero elements of 16 bits.
    ZCOMP16 = 0x4d;
    /// Leave out zero elements of 8 bits.
    ZCOMP8 = 0x4e;
    /// Compare elements with a range.
    SCAN = 0x50;
    /// Test elements for membership.
    SET_MEMBER = 0x51;
    /// Take a range of elements.
    EXTRACT = 0x52;
    /// Take elements by a mask.
    SELECT = 0x53;
    /// Expand runs.
    RLE_BURST = 0x54;
    /// Find which elements occur.
    FIND_UNIQUE = 0x55;
    /// Put elements where a mask says.
    EXPAND = 0x56;
}

impl core::fmt::Debug for Opcode {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "opcode {:#04x}", self.0),
        }
    }
}
