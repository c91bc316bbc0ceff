//! What `uzswap zram` is told.

use std::path::PathBuf;

use clap::Args;
use uzswap_acomp::Compressor;
use uzswap_ctl::defaults;
use uzswap_mm::zpool::ZpoolType;

use crate::options::{compressor, zpool};
use uzswap_ctl::size::Size;

/// A compressor that this processor runs.
fn software(text: &str) -> Result<Compressor, String> {
    let compressor = compressor(text)?;
    match compressor.algorithm.codes() {
        None => Ok(compressor),
        Some(_) => Err(format!(
            "'{text}': only `uzswap run` compresses with devices; deflate is the same by software"
        )),
    }
}

#[derive(Args)]
pub(crate) struct ZramOptions {
    /// Size of the device, a multiple of 4K: as much as clients see, not as much as it takes
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
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
    /// Most memory that the pool may take: a write that needs more fails (ENOSPC)
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    pub(crate) mem_limit: Option<Size>,
    /// Write the final counters here as one JSON object
    #[arg(long, value_name = "FILE")]
    pub(crate) stat_json: Option<PathBuf>,
    /// Print nothing but errors
    #[arg(long)]
    pub(crate) quiet: bool,
}
