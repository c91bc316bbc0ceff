//! Words of flags with names, and the writer of deflate's bit order.

use alloc::vec::Vec;

/// A newtype over a word whose bits have names.
macro_rules! flags {
    ($(#[$doc:meta])* $name:ident: $word:ty { $($(#[$flag_doc:meta])* $flag:ident = $value:expr;)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
        pub struct $name(pub $word);

        impl $name {
            /// No bit set.
            pub const NONE: Self = Self(0);
            $($(#[$flag_doc])* pub const $flag: Self = Self($value);)*

            /// These bits and those of `other`.
            #[must_use]
            pub const fn with(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }

            /// These bits without those of `other`.
            #[must_use]
            pub const fn without(self, other: Self) -> Self {
                Self(self.0 & !other.0)
            }

            /// Whether all bits of `other` are among these.
            #[must_use]
            pub const fn contains(self, other: Self) -> bool {
                self.0 & other.0 == other.0
            }

            /// The bits that have no name in the data sheet.
            #[must_use]
            pub const fn unnamed(self) -> Self {
                Self(self.0 & !(0 $(| $value)*))
            }
        }

        impl core::ops::BitOr for $name {
            type Output = Self;

            fn bitor(self, other: Self) -> Self {
                self.with(other)
            }
        }

        impl core::fmt::Debug for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                write!(f, "{:#x}", self.0)
            }
        }
    };
}

pub(crate) use flags;

/// Bits in deflate's order: the first bit is the lowest of the first byte (RFC 1951, 3.1.1).
#[derive(Clone, Debug, Default)]
pub(crate) struct BitWriter {
    bytes: Vec<u8>,
    bits: usize,
}

impl BitWriter {
    /// Append the low `count` bits of `value`, lowest first.
    pub fn put(&mut self, value: u32, count: u32) {
        assert!(count <= 32, "{count} bits do not fit a word of 32");
        for i in 0..count {
            if self.bits.is_multiple_of(8) {
                self.bytes.push(0);
            }
            self.bytes[self.bits / 8] |= ((value >> i & 1) as u8) << (self.bits % 8);
            self.bits += 1;
        }
    }

    /// Append the low `len` bits of a Huffman code, highest first, as deflate wants codes.
    pub fn put_code(&mut self, code: u32, len: u32) {
        (0..len).rev().for_each(|i| self.put(code >> i & 1, 1));
    }

    /// The bits so far.
    pub fn len(&self) -> usize {
        self.bits
    }

    /// The bytes, the last one padded with zeros.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

/// Little-endian fields of records in memory.
pub(crate) mod le {
    /// Put the bytes of a field at its offset.
    pub fn put<const N: usize>(record: &mut [u8], offset: usize, field: [u8; N]) {
        record[offset..offset + N].copy_from_slice(&field);
    }

    /// The bytes of the field at an offset.
    pub fn get<const N: usize>(record: &[u8], offset: usize) -> [u8; N] {
        let mut field = [0; N];
        field.copy_from_slice(&record[offset..offset + N]);
        field
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn the_first_bit_is_the_lowest_and_codes_go_highest_first() {
        let mut bits = BitWriter::default();
        bits.put(0b011, 3);
        bits.put_code(0b1000, 4);
        bits.put(1, 2);
        assert_eq!(bits.len(), 9);
        assert_eq!(bits.into_bytes(), [0b1000_1011, 0]);
    }
}
