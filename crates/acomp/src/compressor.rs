//! What pages are compressed with: an algorithm, and whether the pages of a batch are spread over
//! the cores.

use core::fmt;

use crate::{Algorithm, Codes, UnknownAlgorithm};

/// A compressor, as named on the command line: `NAME[-parallel][:LEVEL]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compressor {
    /// What each page is compressed with.
    pub algorithm: Algorithm,
    /// Whether the pages of a batch are compressed on several cores at once.
    pub is_parallel: bool,
}

/// Pages that each core is given of a batch: fewer are not worth waking it.
const PAGES_A_LANE: usize = 8;
const PARALLEL: &str = "-parallel";
const PARALLEL_BIT: u64 = 1 << 7;

impl Compressor {
    /// The names, for messages.
    pub const NAMES: &str = "lz4, words, zstd, zstd-dict and deflate, each with an optional -parallel and, but for words, :LEVEL; and \
         deflate-iaa, with an optional :fixed or :dynamic";

    /// Read `NAME[-parallel][:LEVEL]`.
    ///
    /// # Errors
    /// The rule that `text` breaks.
    pub fn parse(text: &str) -> Result<Self, UnknownAlgorithm> {
        let (name, level) = match text.split_once(':') {
            Some((name, level)) => (name, Some(level)),
            None => (text, None),
        };
        let algorithm = Algorithm::from_parts(name.strip_suffix(PARALLEL).unwrap_or(name), level)?;
        let is_parallel = name.ends_with(PARALLEL);
        match is_parallel && !may_be_parallel(algorithm) {
            true => Err(UnknownAlgorithm::Name),
            false => Ok(Self { algorithm, is_parallel }),
        }
    }

    /// Pages that it wants at once when `lanes` cores take part.
    pub const fn batch_size(self, lanes: usize) -> usize {
        if self.is_parallel {
            lanes * PAGES_A_LANE
        } else {
            self.algorithm.batch_size()
        }
    }

    /// One word for the group file.
    pub const fn to_word(self) -> u64 {
        self.algorithm.to_word() | if self.is_parallel { PARALLEL_BIT } else { 0 }
    }

    /// The inverse of [`to_word`](Self::to_word); any word reads as a compressor.
    pub fn from_word(word: u64) -> Self {
        let algorithm = Algorithm::from_word(word & !PARALLEL_BIT);
        Self {
            algorithm,
            is_parallel: word & PARALLEL_BIT != 0 && may_be_parallel(algorithm),
        }
    }
}

/// A device's engines do what cores would.
fn may_be_parallel(algorithm: Algorithm) -> bool {
    algorithm.codes().is_none()
}

impl From<Algorithm> for Compressor {
    fn from(algorithm: Algorithm) -> Self {
        Self {
            algorithm,
            is_parallel: false,
        }
    }
}

impl fmt::Display for Compressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.algorithm.name())?;
        if self.is_parallel {
            f.write_str(PARALLEL)?;
        }
        match (self.algorithm.level(), self.algorithm.codes()) {
            (Some(level), _) => write!(f, ":{level}"),
            (None, Some(Codes::Dynamic)) => f.write_str(":dynamic"),
            (None, _) => Ok(()),
        }
    }
}

#[cfg(test)]
mod test {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn whatever_a_word_reads_as_has_a_name() {
        for low in 0..1 << 12 {
            for high in [0, 1 << 16, u64::MAX << 16] {
                let compressor = Compressor::from_word(high | low);
                let name = compressor.to_string();
                assert_eq!(Compressor::parse(&name), Ok(compressor), "{:#x}: {name}", high | low);
            }
        }
    }
}
