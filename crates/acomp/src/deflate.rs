//! Raw deflate by miniz_oxide: pure Rust that allocates only when a context is made.

use alloc::boxed::Box;

use miniz_oxide::deflate::core::{
    CompressorOxide, TDEFLFlush, TDEFLStatus, compress, create_comp_flags_from_zip_params,
};
use miniz_oxide::inflate::TINFLStatus;
use miniz_oxide::inflate::core::inflate_flags::TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF;
use miniz_oxide::inflate::core::{DecompressorOxide, decompress};

/// The level that goes without saying.
pub(crate) const LEVEL: u8 = 1;
const RAW: i32 = -15;
const DEFAULT_STRATEGY: i32 = 0;

use crate::Error;

pub(crate) struct State {
    compress: Box<CompressorOxide>,
    decompress: Box<DecompressorOxide>,
}

impl State {
    pub(crate) fn new(level: u8) -> Self {
        let flags = create_comp_flags_from_zip_params(i32::from(level), RAW, DEFAULT_STRATEGY);
        Self {
            compress: Box::new(CompressorOxide::new(flags)),
            decompress: Box::default(),
        }
    }

    pub(crate) fn compress(&mut self, page: &[u8], out: &mut [u8]) -> Result<usize, Error> {
        self.compress.reset();
        let (status, _, len) = compress(&mut self.compress, page, out, TDEFLFlush::Finish);
        match status {
            TDEFLStatus::Done => Ok(len),
            // `out` is full and there is more to come.
            TDEFLStatus::Okay => Err(Error::Poor),
            _ => Err(Error::Failed),
        }
    }

    pub(crate) fn decompress(&mut self, block: &[u8], page: &mut [u8]) -> Option<usize> {
        self.decompress.init();
        let flags = TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF;
        let (status, _, len) = decompress(&mut self.decompress, block, page, 0, flags);
        (status == TINFLStatus::Done).then_some(len)
    }
}
