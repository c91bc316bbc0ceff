//! zstd without the bytes that a page does not need: no magic number, content size or checksum.

use zstd_safe::{CCtx, CParameter, DCtx, DParameter, FrameFormat};

use crate::Error;

/// `ZSTD_error_dstSize_tooSmall` as functions return it: a public constant of zstd's interface.
const DST_SIZE_TOO_SMALL: usize = 70usize.wrapping_neg();

/// Both contexts, taken from the Rust allocator (`with-rust-allocator`).
pub(crate) struct State {
    compress: CCtx<'static>,
    decompress: DCtx<'static>,
}

impl State {
    pub(crate) fn new(level: i32) -> Self {
        let (Some(mut compress), Some(mut decompress)) = (CCtx::try_create(), DCtx::try_create()) else {
            panic!("memory allocation failed: a context of zstd");
        };
        let format = FrameFormat::Magicless;
        let parameters = [
            CParameter::CompressionLevel(level),
            CParameter::Format(format),
            CParameter::ContentSizeFlag(false),
            CParameter::ChecksumFlag(false),
        ];
        for parameter in parameters {
            compress
                .set_parameter(parameter)
                .expect("zstd knows its own parameters");
        }
        decompress
            .set_parameter(DParameter::Format(format))
            .expect("zstd knows its own parameters");
        Self { compress, decompress }
    }

    /// With a dictionary, which is copied: of the contexts' memory, so its tables never come from
    /// malloc. `None`: zstd refuses it.
    pub(crate) fn with_dictionary(level: i32, dictionary: &[u8]) -> Option<Self> {
        let mut state = Self::new(level);
        state.compress.load_dictionary(dictionary).ok()?;
        state.decompress.load_dictionary(dictionary).ok()?;
        Some(state)
    }

    pub(crate) fn compress(&mut self, page: &[u8], out: &mut [u8]) -> Result<usize, Error> {
        self.compress.compress2(out, page).map_err(|code| match code {
            DST_SIZE_TOO_SMALL => Error::Poor,
            _ => Error::Failed,
        })
    }

    pub(crate) fn decompress(&mut self, block: &[u8], page: &mut [u8]) -> Option<usize> {
        self.decompress.decompress(page, block).ok()
    }
}
