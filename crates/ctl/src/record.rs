//! A recorded trace: the file that agents append to while a program is recorded
//! (docs/design/record.md).
//!
//! ```text
//! header   0  magic "uzswtrc1"      8  version      12  bytes of a record     16  memory.max
//!         24  compressors: 8 names of 24 bytes      216  check of all that
//! record   0  time, ns               8  page (6 bytes), kind, check of the others
//!         16  pid                   20  bytes of the block      22  compressor   23  flags
//! ```
//! Numbers are little-endian. Records are appended by whole ones, in the order of each thread, so
//! readers sort by time. Page numbers are those of the process: addresses by the page. Nothing in
//! it is an address or a length of the reader's memory, and no page's contents are there.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use uzswap_mm::page::PAGE_SIZE;

const MAGIC: [u8; 8] = *b"uzswtrc1";
/// Changes whenever the layout does, or the meaning of a field.
const VERSION: u32 = 1;
/// Compressors that a header names: the one in use, and those that blocks are only measured with.
pub const COMPRESSORS: usize = 8;
/// Bytes of a compressor's name at most.
pub const NAME_BYTES: usize = 24;
/// Bytes of a header.
pub const HEADER_BYTES: usize = NAMES + COMPRESSORS * NAME_BYTES + 8;
/// Bytes of a record.
pub const RECORD_BYTES: usize = 24;
const NAMES: usize = 24;
/// Bits of a page's number: the kernel has 57 of an address at most.
const PAGE_BITS: u32 = 48;
const KIND: usize = 14;
const CHECK: usize = 15;
const IS_WRITE: u8 = 1;

/// What a recording was made with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// `memory.max` of the group, in bytes: touches of what fits are not seen.
    pub memory_max: u64,
    /// Names of compressors: of the one that stores, and of those that blocks are measured with.
    pub compressors: Vec<String>,
}

/// Where a page was that was touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// Nowhere: it was never touched, or was dropped since.
    Nowhere,
    /// In staging.
    Staged,
    /// In the pool, or one word over and over.
    Pool,
    /// On the swap device.
    Device,
    /// Mapped by now: the fault of another thread was served first.
    Mapped,
    /// Mapped, and protected from writing.
    Protected,
}

impl Place {
    /// All, in the order of their numbers in the file.
    pub const ALL: [Self; 6] = [
        Self::Nowhere,
        Self::Staged,
        Self::Pool,
        Self::Device,
        Self::Mapped,
        Self::Protected,
    ];
}

/// What happened to a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// The program touched it, and had to wait.
    Touched {
        /// Where it was.
        at: Place,
        /// To write.
        is_write: bool,
    },
    /// It was stored.
    Stored {
        /// With the compressor of this number in the header; 0 is the one in use, others were only
        /// measured.
        compressor: u8,
        /// Bytes of its block; 0: it is one word over and over; those of a page: it is as it was.
        bytes: u16,
    },
}

/// The kind of a [`What::Stored`]. Those of touches are their places.
const STORED: u8 = 16;

/// One line of a recorded trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Nanoseconds of CLOCK_MONOTONIC.
    pub time_ns: u64,
    /// The process.
    pub pid: u32,
    /// The number of the page there.
    pub page: u64,
    /// What happened to it.
    pub what: What,
}

/// Why a file is no recorded trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// It ends before its header does.
    Short(usize),
    /// It does not begin as one.
    Foreign,
    /// Another version of the layout.
    Version(u32),
    /// Its header is not what was written.
    Header,
    /// It ends in the middle of a record, which begins at this byte.
    Cut {
        /// Where.
        at: usize,
        /// Bytes that there are of it.
        bytes: usize,
    },
    /// The record at this byte is not what was written.
    Record {
        /// Counted from 1.
        number: usize,
        /// Where.
        at: usize,
    },
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short(bytes) => write!(f, "it has {bytes} bytes, and a header alone has {HEADER_BYTES}"),
            Self::Foreign => write!(f, "it is no recorded trace: it does not begin with uzswtrc1"),
            Self::Version(version) => write!(f, "its version is {version}, and only {VERSION} can be read"),
            Self::Header => write!(f, "its header is damaged: its check does not hold"),
            Self::Cut { at, bytes } => write!(
                f,
                "its last record, at byte {at}, is cut off: {bytes} of {RECORD_BYTES} bytes (`truncate -s {at}` leaves \
                 the whole ones)"
            ),
            Self::Record { number, at } => {
                write!(
                    f,
                    "its record {number}, at byte {at}, is damaged: its check does not hold"
                )
            }
        }
    }
}

/// Of a header: FNV-1a.
fn check(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// What each byte leaves of the polynomial x^8 + x^2 + x + 1.
const CRC: [u8; 256] = {
    let mut table = [0; 256];
    let mut i = 0;
    while i < table.len() {
        let (mut rest, mut bit) = (i as u8, 0);
        while bit < 8 {
            rest = (rest << 1) ^ (if rest & 0x80 != 0 { 7 } else { 0 });
            bit += 1;
        }
        table[i] = rest;
        i += 1;
    }
    table
};

/// As many bytes from `at` on.
fn take<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    core::array::from_fn(|i| bytes[at + i])
}

/// Whether a file that begins so is meant to be a recorded trace.
#[must_use]
pub fn is_recorded(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC)
}

impl Header {
    /// As it lies in the file. Names beyond [`COMPRESSORS`] are left out, as is what of a name is
    /// beyond [`NAME_BYTES`].
    #[must_use]
    pub fn to_bytes(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&(RECORD_BYTES as u32).to_le_bytes());
        bytes[16..24].copy_from_slice(&self.memory_max.to_le_bytes());
        let (names, sum) = bytes[NAMES..].split_at_mut(COMPRESSORS * NAME_BYTES);
        for (place, name) in names.chunks_exact_mut(NAME_BYTES).zip(&self.compressors) {
            place.iter_mut().zip(name.bytes()).for_each(|(to, from)| *to = from);
        }
        sum.fill(0);
        let sum = check(&bytes[..HEADER_BYTES - 8]);
        bytes[HEADER_BYTES - 8..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// The inverse of [`to_bytes`](Self::to_bytes), of the first bytes of a file.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Damage> {
        if bytes.len() >= MAGIC.len() && !is_recorded(bytes) {
            return Err(Damage::Foreign);
        }
        let bytes = bytes.get(..HEADER_BYTES).ok_or(Damage::Short(bytes.len()))?;
        let version = u32::from_le_bytes(take(bytes, 8));
        if version != VERSION {
            return Err(Damage::Version(version));
        }
        let (said, sum) = bytes.split_at(HEADER_BYTES - 8);
        if check(said).to_le_bytes() != *sum || u32::from_le_bytes(take(bytes, 12)) as usize != RECORD_BYTES {
            return Err(Damage::Header);
        }
        let name = |name: &[u8]| String::from_utf8_lossy(name).trim_end_matches('\0').into();
        let names = said[NAMES..].chunks_exact(NAME_BYTES).map(name);
        Ok(Self {
            memory_max: u64::from_le_bytes(take(bytes, 16)),
            compressors: names.take_while(|name: &String| !name.is_empty()).collect(),
        })
    }
}

impl Record {
    /// As it lies in the file.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; RECORD_BYTES] {
        let mut bytes = [0; RECORD_BYTES];
        bytes[..8].copy_from_slice(&self.time_ns.to_le_bytes());
        bytes[8..KIND].copy_from_slice(&self.page.to_le_bytes()[..6]);
        bytes[16..20].copy_from_slice(&self.pid.to_le_bytes());
        match self.what {
            What::Touched { at, is_write } => {
                bytes[KIND] = at as u8;
                bytes[23] = if is_write { IS_WRITE } else { 0 };
            }
            What::Stored { compressor, bytes: len } => {
                bytes[KIND] = STORED;
                bytes[20..22].copy_from_slice(&len.to_le_bytes());
                bytes[22] = compressor;
            }
        }
        bytes[CHECK] = Self::check(&bytes);
        bytes
    }

    /// The inverse of [`to_bytes`](Self::to_bytes). `None`: nothing that it has made.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; RECORD_BYTES]) -> Option<Self> {
        if bytes[CHECK] != Self::check(bytes) {
            return None;
        }
        let len = u16::from_le_bytes(take(bytes, 20));
        let what = match bytes[KIND] {
            STORED if usize::from(len) <= PAGE_SIZE && usize::from(bytes[22]) < COMPRESSORS => What::Stored {
                compressor: bytes[22],
                bytes: len,
            },
            kind => What::Touched {
                at: *Place::ALL.get(usize::from(kind))?,
                is_write: bytes[23] & IS_WRITE != 0,
            },
        };
        Some(Self {
            time_ns: u64::from_le_bytes(take(bytes, 0)),
            pid: u32::from_le_bytes(take(bytes, 16)),
            page: u64::from_le_bytes(take(bytes, 8)) & ((1 << PAGE_BITS) - 1),
            what,
        })
    }

    /// CRC-8, which a change of up to 8 bits in a row never passes. Not 0 of zeros: a hole is no
    /// record.
    fn check(bytes: &[u8; RECORD_BYTES]) -> u8 {
        let others = bytes[..CHECK].iter().chain(&bytes[CHECK + 1..]);
        others.fold(0xff, |rest, byte| CRC[usize::from(rest ^ byte)])
    }
}

/// All of a recorded trace, sorted by time.
///
/// # Errors
/// What is wrong with the file that holds these bytes.
pub fn read(bytes: &[u8]) -> Result<(Header, Vec<Record>), Damage> {
    let header = Header::from_bytes(bytes)?;
    let (records, rest) = bytes[HEADER_BYTES..].as_chunks();
    let at = |index: usize| HEADER_BYTES + index * RECORD_BYTES;
    let read = |(index, record)| {
        Record::from_bytes(record).ok_or(Damage::Record {
            number: index + 1,
            at: at(index),
        })
    };
    // Damage before the end says more than that the end is not whole.
    let mut read = records.iter().enumerate().map(read).collect::<Result<Vec<_>, _>>()?;
    if !rest.is_empty() {
        return Err(Damage::Cut {
            at: at(records.len()),
            bytes: rest.len(),
        });
    }
    // Stable: of equal times, as each thread had them.
    read.sort_by_key(|record| record.time_ns);
    Ok((header, read))
}

#[cfg(test)]
mod test {
    extern crate std;

    use alloc::string::ToString;
    use alloc::vec;

    use super::*;

    fn header() -> Header {
        Header {
            memory_max: 8 << 20,
            compressors: vec!["words".into(), "zstd:19".into()],
        }
    }

    fn records() -> Vec<Record> {
        let touches = Place::ALL
            .into_iter()
            .flat_map(|at| [false, true].map(|is_write| What::Touched { at, is_write }));
        let stores = [(0, 0), (0, 4096), (1, 1234), (7, 1)];
        let stores = stores.map(|(compressor, bytes)| What::Stored { compressor, bytes });
        (0..)
            .zip(touches.chain(stores))
            .map(|(i, what)| Record {
                time_ns: 1 << 40 | i,
                pid: 4_194_304 - i as u32,
                page: (1 << 35) - 1 - i,
                what,
            })
            .collect()
    }

    fn file(records: &[Record]) -> Vec<u8> {
        let records = records.iter().flat_map(Record::to_bytes);
        header().to_bytes().into_iter().chain(records).collect()
    }

    #[test]
    fn what_was_written_is_read() {
        assert_eq!(read(&file(&records())), Ok((header(), records())));
        assert_eq!(read(&file(&[])), Ok((header(), vec![])));
    }

    #[test]
    fn threads_are_brought_into_order() {
        let (all, mut mixed) = (records(), records());
        mixed.rotate_left(5);
        assert_eq!(read(&file(&mixed)), Ok((header(), all)));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let whole = file(&records());
        let refused = |bytes: &[u8]| read(bytes).unwrap_err().to_string();
        assert_eq!(refused(b"uzswtrc1"), "it has 8 bytes, and a header alone has 224");
        assert_eq!(refused(b"0x1234\n0x1235\n"), Damage::Foreign.to_string());
        assert!(refused(&whole[..whole.len() - 1]).contains("cut off: 23 of 24 bytes"));
        let spoilt = |at: usize| {
            let mut bytes = whole.clone();
            bytes[at] ^= 4;
            refused(&bytes)
        };
        assert_eq!(spoilt(8), "its version is 5, and only 1 can be read");
        assert_eq!(spoilt(30), "its header is damaged: its check does not hold");
        assert_eq!(
            spoilt(HEADER_BYTES + 24 * 2 + 3),
            "its record 3, at byte 272, is damaged: its check does not hold"
        );
    }

    /// A record is found damaged whichever of its bytes is. So is a hole.
    #[test]
    fn no_byte_of_a_record_goes_unchecked() {
        for record in records() {
            for at in 0..RECORD_BYTES {
                let mut bytes = record.to_bytes();
                bytes[at] ^= 1 << (at % 8) | 0x10;
                assert_eq!(Record::from_bytes(&bytes), None, "byte {at} of {record:?}");
            }
        }
        assert_eq!(Record::from_bytes(&[0; RECORD_BYTES]), None);
    }

    #[test]
    fn long_names_are_cut_and_many_are_left_out() {
        let header = Header {
            memory_max: 0,
            compressors: vec!["a-name-of-26-bytes-or-more".into(); 9],
        };
        let read = Header::from_bytes(&header.to_bytes()).unwrap();
        assert_eq!(
            read.compressors,
            vec!["a-name-of-26-bytes-or-more"[..24].to_string(); 8]
        );
    }
}
