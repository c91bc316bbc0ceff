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
            Self::Name => write!(f, "the compressors are {}", Algorithm::NAMES),
            Self::Level { min, max } => write!(f, "its level must be a number from {min} to {max}"),
        }
    }
}

impl Algorithm {
    /// The names, for messages.
    pub const NAMES: &str = "lz4, zstd and deflate, each with an optional :LEVEL";

    /// Read `NAME` or `NAME:LEVEL`.
    ///
    /// # Errors
    /// The rule that `text` breaks.
    pub fn parse(text: &str) -> Result<Self, UnknownAlgorithm> {
        let (name, level) = match text.split_once(':') {
            Some((name, level)) => (name, Some(level)),
            None => (text, None),
        };
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
        match self {
            Self::Lz4 { acceleration: 1 } => write!(f, "lz4"),
            Self::Lz4 { acceleration } => write!(f, "lz4:{acceleration}"),
            Self::Zstd { level } => write!(f, "zstd:{level}"),
            Self::Deflate { level } => write!(f, "deflate:{level}"),
        }
    }
}
