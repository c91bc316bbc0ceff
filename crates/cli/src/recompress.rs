//! `--recompress`: what idle pages are compressed with again.

use uzswap_acomp::{Algorithm, Compressor};

use crate::options::compressor;

/// What idle pages are compressed with again, if anything.
#[derive(Clone, Copy)]
pub(crate) struct Recompress(pub(crate) Option<Algorithm>);

impl Recompress {
    /// A word for the group file.
    pub(crate) fn to_word(self) -> u64 {
        self.0.map_or(0, Algorithm::to_word)
    }
}

impl std::fmt::Display for Recompress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(algorithm) => algorithm.fmt(f),
            None => f.write_str("none"),
        }
    }
}

pub(crate) fn recompress(text: &str) -> Result<Recompress, String> {
    match text {
        "none" => Ok(Recompress(None)),
        _ => match compressor(text)? {
            Compressor {
                algorithm,
                is_parallel: false,
            } => Ok(Recompress(Some(algorithm))),
            _ => Err(format!(
                "'{text}': idle pages are compressed one by one, without -parallel"
            )),
        },
    }
}
