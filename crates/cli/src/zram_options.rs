//! What `uzswap zram` is told.

use std::path::PathBuf;

use clap::Args;
use uzswap_acomp::{Algorithm, Compressor};
use uzswap_ctl::defaults;
use uzswap_mm::page::PAGE_SIZE;
use uzswap_mm::zpool::ZpoolType;

use crate::given::Given;
use crate::options::{compressor, zpool};
use uzswap_ctl::size::Size;

/// A compressor that this processor runs.
fn software(text: &str) -> Result<Compressor, String> {
    let compressor = compressor(text)?;
    match compressor.algorithm.codes() {
        None if compressor.is_parallel => Err(format!(
            "'{text}' must be without -parallel, as each connection compresses its own pages"
        )),
        None if matches!(compressor.algorithm, Algorithm::ZstdDict { .. }) => Err(format!(
            "'{text}' has no dictionary here, as none is trained: take zstd"
        )),
        None => Ok(compressor),
        Some(_) => Err(format!(
            "'{text}': only `uzswap run` compresses with devices; deflate is the same by software"
        )),
    }
}

/// The size of a device.
fn device(text: &str) -> Result<Size, String> {
    let size: Size = text.parse()?;
    match size {
        Size(u64::MAX) => Err(format!(
            "'{text}' is no size of a device: write how much clients are to see"
        )),
        Size(bytes) if bytes == 0 || !bytes.is_multiple_of(PAGE_SIZE as u64) => {
            Err(format!("'{text}' must be a multiple of {PAGE_SIZE}, and not 0"))
        }
        size => Ok(size),
    }
}

#[derive(Args)]
pub(crate) struct ZramOptions {
    /// Size of the device, a multiple of 4K: as much as clients see, not as much as it takes
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true, value_parser = device)]
    pub(crate) size: Size,
    /// Unix socket at which NBD clients find the device; it is removed at the end
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: PathBuf,
    /// Compressor and level: words (lz4 for pages that are no heap's), lz4, zstd or deflate
    #[arg(long, value_name = "NAME[:LVL]", default_value_t = defaults::POOL.compressor, value_parser = software)]
    pub(crate) compressor: Compressor,
    /// Pool allocator: zsmalloc, zbud or z3fold
    #[arg(long, value_name = "NAME", default_value_t = defaults::POOL.zpool, value_parser = zpool)]
    pub(crate) zpool: ZpoolType,
    /// Most memory that the pool may take, at least 1M, or max: a write that needs more fails
    /// (ENOSPC)
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    pub(crate) mem_limit: Option<Given<Size>>,
    /// Write the final counters here as one JSON object
    #[arg(long, value_name = "FILE")]
    pub(crate) stat_json: Option<PathBuf>,
    /// Print nothing but errors
    #[arg(long)]
    pub(crate) quiet: bool,
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn what_a_device_cannot_be_is_named_as_it_was_given() {
        assert_eq!(device("1.5G"), Ok(Size(3 << 29)));
        for (text, rule) in [
            ("max", "'max' is no size of a device"),
            ("0M", "'0M' must be a multiple of 4096, and not 0"),
            ("4097", "'4097' must be a multiple of 4096, and not 0"),
        ] {
            let error = device(text).unwrap_err();
            assert!(error.starts_with(rule), "{error}");
        }
        for text in ["zstd-dict", "lz4-parallel", "deflate-iaa"] {
            let error = software(text).unwrap_err();
            assert!(error.starts_with(&format!("'{text}'")), "{error}");
        }
        assert!(software("zstd:3").is_ok() && software("words").is_ok());
    }
}
