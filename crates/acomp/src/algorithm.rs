//! Names and levels of the compressors.

use core::fmt;

use crate::Dictionary;

/// A compressor and its level, as named on the command line: `NAME` or `NAME:LEVEL`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// lz4; a level is its acceleration: 1 (default) compresses best, 65 fastest.
    Lz4 { acceleration: i32 },
    /// zstd; levels -7 to 19, default 1.
    Zstd { level: i32 },
    /// zstd with a dictionary of this process; without one, until there is one. Levels as of zstd.
    ZstdDict { level: i32, dictionary: Option<Dictionary> },
    /// deflate; levels 1 to 9, default 1.
    Deflate { level: u8 },
    /// Words instead of text, and lz4 for pages that are none; no levels.
    Words,
    /// deflate by an IAA device, with these codes. Software does what the device leaves, as
    /// deflate at its default level.
    DeflateIaa { codes: Codes },
}

/// Which codes a device compresses with: what `deflate-iaa` has in place of levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Codes {
    /// Deflate's fixed ones.
    Fixed,
    /// Those that the device makes for each page.
    Dynamic,
}

/// How the bytes of a stored page are read: all that has to be kept with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Codec {
    /// As they are.
    Raw,
    /// An lz4 block.
    Lz4,
    /// A zstd frame without magic number.
    Zstd,
    /// A raw deflate stream.
    Deflate,
    /// A block of words, or an lz4 block, and which.
    Words,
    /// The number of a dictionary, and a zstd frame that refers to it.
    ZstdDict(Dictionary),
}

/// The first of the codecs with a dictionary.
const FIRST_DICTIONARY: u64 = 5;
const _: () = assert!(FIRST_DICTIONARY as usize + Dictionary::MAX <= 1 << Codec::BITS);

impl Codec {
    /// Bits that a codec takes in a word.
    pub const BITS: u32 = 4;

    /// The bits.
    pub const fn to_bits(self) -> u64 {
        match self {
            Self::Raw => 0,
            Self::Lz4 => 1,
            Self::Zstd => 2,
            Self::Deflate => 3,
            Self::Words => 4,
            Self::ZstdDict(dictionary) => FIRST_DICTIONARY + dictionary.number() as u64,
        }
    }

    /// The inverse of [`to_bits`](Self::to_bits), of the low [`BITS`](Self::BITS).
    pub const fn from_bits(bits: u64) -> Self {
        match bits & ((1 << Self::BITS) - 1) {
            0 => Self::Raw,
            1 => Self::Lz4,
            2 => Self::Zstd,
            3 => Self::Deflate,
            4 => Self::Words,
            more => Self::ZstdDict(Dictionary::from_number((more - FIRST_DICTIONARY) as u8)),
        }
    }

    /// An algorithm that can read it; `None`: none is needed.
    pub const fn algorithm(self) -> Option<Algorithm> {
        match self {
            Self::Raw => None,
            Self::Lz4 => Some(Algorithm::Lz4 { acceleration: 1 }),
            Self::Zstd => Some(Algorithm::Zstd { level: 1 }),
            Self::Deflate => Some(Algorithm::Deflate { level: 1 }),
            Self::Words => Some(Algorithm::Words),
            Self::ZstdDict(dictionary) => Some(Algorithm::ZstdDict {
                level: 1,
                dictionary: Some(dictionary),
            }),
        }
    }
}

/// Why a compressor was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownAlgorithm {
    /// No compressor has this name.
    Name,
    /// The level is not a number within the compressor's range.
    Level { min: i32, max: i32 },
    /// The compressor has no levels.
    NoLevels,
    /// What stands in place of the level is none of the device's codes.
    Codes,
    /// Canned codes: see [`Codes`].
    Canned,
}

impl fmt::Display for UnknownAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name => write!(f, "the compressors are {}", crate::Compressor::NAMES),
            Self::Level { min, max } => write!(f, "its level must be a number from {min} to {max}"),
            Self::NoLevels => write!(f, "it has no levels"),
            Self::Codes => write!(f, "its codes must be fixed or dynamic"),
            Self::Canned => write!(
                f,
                "streams with canned codes lack their header, which no software here reads; its codes must be fixed or dynamic"
            ),
        }
    }
}

impl Algorithm {
    /// Read `NAME` or `NAME:LEVEL`.
    ///
    /// # Errors
    /// The rule that `text` breaks.
    pub fn parse(text: &str) -> Result<Self, UnknownAlgorithm> {
        match text.split_once(':') {
            Some((name, level)) => Self::from_parts(name, Some(level)),
            None => Self::from_parts(text, None),
        }
    }

    pub(crate) fn from_parts(name: &str, level: Option<&str>) -> Result<Self, UnknownAlgorithm> {
        let level_in = |default: i32, min: i32, max: i32| match level.map(str::parse::<i32>) {
            None => Ok(default),
            Some(Ok(level)) if (min..=max).contains(&level) => Ok(level),
            Some(_) => Err(UnknownAlgorithm::Level { min, max }),
        };
        match name {
            "lz4" => Ok(Self::Lz4 {
                acceleration: level_in(1, 1, 65)?,
            }),
            "zstd" => Ok(Self::Zstd {
                level: level_in(1, -7, 19)?,
            }),
            "zstd-dict" => Ok(Self::ZstdDict {
                level: level_in(1, -7, 19)?,
                dictionary: None,
            }),
            "deflate" => Ok(Self::Deflate {
                level: level_in(1, 1, 9)? as u8,
            }),
            "words" => match level {
                None => Ok(Self::Words),
                Some(_) => Err(UnknownAlgorithm::NoLevels),
            },
            "deflate-iaa" => match level {
                None | Some("fixed") => Ok(Self::DeflateIaa { codes: Codes::Fixed }),
                Some("dynamic") => Ok(Self::DeflateIaa { codes: Codes::Dynamic }),
                Some("canned") => Err(UnknownAlgorithm::Canned),
                Some(_) => Err(UnknownAlgorithm::Codes),
            },
            _ => Err(UnknownAlgorithm::Name),
        }
    }

    /// The name without the level.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lz4 { .. } => "lz4",
            Self::Zstd { .. } => "zstd",
            Self::ZstdDict { .. } => "zstd-dict",
            Self::Deflate { .. } => "deflate",
            Self::Words => "words",
            Self::DeflateIaa { .. } => "deflate-iaa",
        }
    }

    /// The codes that a device is to compress with. `None`: this processor runs it.
    pub const fn codes(self) -> Option<Codes> {
        match self {
            Self::DeflateIaa { codes } => Some(codes),
            _ => None,
        }
    }

    /// What reads its blocks, at whatever level they were made.
    pub const fn codec(self) -> Codec {
        match self {
            Self::Lz4 { .. } => Codec::Lz4,
            Self::Zstd { .. } | Self::ZstdDict { dictionary: None, .. } => Codec::Zstd,
            Self::ZstdDict {
                dictionary: Some(dictionary),
                ..
            } => Codec::ZstdDict(dictionary),
            Self::Deflate { .. } | Self::DeflateIaa { .. } => Codec::Deflate,
            Self::Words => Codec::Words,
        }
    }

    /// Pages that it compresses at once. Software takes one after the other; a device says by
    /// itself how many it wants.
    pub const fn batch_size(self) -> usize {
        1
    }

    /// The level, as users see it. `None`: the one that goes without saying.
    pub(crate) const fn level(self) -> Option<i32> {
        match self {
            Self::Lz4 { acceleration: 1 } | Self::Words | Self::DeflateIaa { .. } => None,
            Self::Lz4 { acceleration } => Some(acceleration),
            Self::Zstd { level } | Self::ZstdDict { level, .. } => Some(level),
            Self::Deflate { level } => Some(level as i32),
        }
    }

    /// The same with the latest dictionary of this process, if it takes one.
    pub fn with_latest_dictionary(self) -> Self {
        match self {
            Self::ZstdDict { level, .. } => Self::ZstdDict {
                level,
                dictionary: Dictionary::latest(),
            },
            other => other,
        }
    }

    /// Whether compressing again what `other` compressed may save something: it is another, or the
    /// same with a dictionary.
    pub fn improves_on(self, other: Self) -> bool {
        let plain = |algorithm| match algorithm {
            Self::ZstdDict { level, .. } => Self::Zstd { level },
            plain => plain,
        };
        let has_dictionary = |algorithm: Self| matches!(algorithm.codec(), Codec::ZstdDict(_));
        plain(self) != plain(other) || (has_dictionary(self) && !has_dictionary(other))
    }

    /// One word for the group file: kind in the low byte, level above it. Dictionaries are a
    /// process's own.
    pub const fn to_word(self) -> u64 {
        let (kind, level) = match self {
            Self::Lz4 { acceleration } => (1, acceleration),
            Self::Zstd { level } => (2, level),
            Self::Deflate { level } => (3, level as i32),
            Self::ZstdDict { level, .. } => (4, level),
            Self::Words => (5, 0),
            Self::DeflateIaa { codes: Codes::Fixed } => (6, 0),
            Self::DeflateIaa { codes: Codes::Dynamic } => (6, 1),
        };
        (level as u32 as u64) << 8 | kind
    }

    /// The inverse of [`to_word`](Self::to_word). Whatever a scribbled-over group file says reads
    /// as a compressor: another kind as lz4, another level as the nearest.
    pub fn from_word(word: u64) -> Self {
        let level = (word >> 8) as u32 as i32;
        match word & 0xff {
            2 => Self::Zstd {
                level: level.clamp(-7, 19),
            },
            3 => Self::Deflate {
                level: level.clamp(1, 9) as u8,
            },
            4 => Self::ZstdDict {
                level: level.clamp(-7, 19),
                dictionary: None,
            },
            5 => Self::Words,
            6 => Self::DeflateIaa {
                codes: if level == 1 { Codes::Dynamic } else { Codes::Fixed },
            },
            _ => Self::Lz4 {
                acceleration: level.clamp(1, 65),
            },
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&crate::Compressor::from(*self), f)
    }
}
