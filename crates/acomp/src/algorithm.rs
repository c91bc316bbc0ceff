//! Names and levels of the compressors.

use core::fmt;

/// A compressor and its level, as named on the command line: `NAME` or `NAME:LEVEL`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// lz4; a level is its acceleration: 1 (default) compresses best, 65 fastest.
    Lz4 { acceleration: i32 },
    /// zstd; levels -7 to 19, default 1.
    Zstd { level: i32 },
    /// deflate; levels 1 to 9, default 1.
    Deflate { level: u8 },
}

/// How the bytes of a stored page are read: all that has to be kept with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Codec {
    /// As they are.
    Raw = 0,
    /// An lz4 block.
    Lz4 = 1,
    /// A zstd frame without magic number.
    Zstd = 2,
    /// A raw deflate stream.
    Deflate = 3,
}

impl Codec {
    /// Bits that a codec takes in a word.
    pub const BITS: u32 = 2;

    /// The inverse of `as u8`, of the low [`BITS`](Self::BITS).
    pub const fn from_bits(bits: u64) -> Self {
        match bits & 3 {
            0 => Self::Raw,
            1 => Self::Lz4,
            2 => Self::Zstd,
            _ => Self::Deflate,
        }
    }

    /// An algorithm that can read it; `None`: none is needed.
    pub const fn algorithm(self) -> Option<Algorithm> {
        match self {
            Self::Raw => None,
            Self::Lz4 => Some(Algorithm::Lz4 { acceleration: 1 }),
            Self::Zstd => Some(Algorithm::Zstd { level: 1 }),
            Self::Deflate => Some(Algorithm::Deflate { level: 1 }),
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
}

impl fmt::Display for UnknownAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name => write!(f, "the compressors are {}", crate::Compressor::NAMES),
            Self::Level { min, max } => write!(f, "its level must be a number from {min} to {max}"),
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
            "deflate" => Ok(Self::Deflate {
                level: level_in(1, 1, 9)? as u8,
            }),
            _ => Err(UnknownAlgorithm::Name),
        }
    }

    /// The name without the level.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lz4 { .. } => "lz4",
            Self::Zstd { .. } => "zstd",
            Self::Deflate { .. } => "deflate",
        }
    }

    /// What reads its blocks, at whatever level they were made.
    pub const fn codec(self) -> Codec {
        match self {
            Self::Lz4 { .. } => Codec::Lz4,
            Self::Zstd { .. } => Codec::Zstd,
            Self::Deflate { .. } => Codec::Deflate,
        }
    }

    /// Pages that it compresses at once. All of these are software that takes one after the other.
    pub const fn batch_size(self) -> usize {
        1
    }

    /// The level, as users see it. `None`: the one that goes without saying.
    pub(crate) const fn level(self) -> Option<i32> {
        match self {
            Self::Lz4 { acceleration: 1 } => None,
            Self::Lz4 { acceleration } => Some(acceleration),
            Self::Zstd { level } => Some(level),
            Self::Deflate { level } => Some(level as i32),
        }
    }

    /// One word for the group file: kind in the low byte, level above it.
    pub const fn to_word(self) -> u64 {
        let (kind, level) = match self {
            Self::Lz4 { acceleration } => (1, acceleration),
            Self::Zstd { level } => (2, level),
            Self::Deflate { level } => (3, level as i32),
        };
        (level as u32 as u64) << 8 | kind
    }

    /// The inverse of [`to_word`](Self::to_word). Whatever a scribbled-over group file says reads as a compressor: another
    /// kind as lz4, another level as the nearest.
    pub fn from_word(word: u64) -> Self {
        let level = (word >> 8) as u32 as i32;
        match word & 0xff {
            2 => Self::Zstd {
                level: level.clamp(-7, 19),
            },
            3 => Self::Deflate {
                level: level.clamp(1, 9) as u8,
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
