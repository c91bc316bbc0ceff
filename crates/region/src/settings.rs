//! What is chosen before the first region is made, and the engine's configuration that follows.

use std::path::PathBuf;

use uzswap_acomp::{Algorithm, Compressor};
use uzswap_ctl::defaults;
use uzswap_ctl::size::Size;
use uzswap_mm::page::PAGE_SIZE;
use uzswap_mm::zpool::PoolKind;
use uzswap_mm::{Config, Portions, Tunables};

use crate::Error;
use crate::pager;

/// Address space of a pool, in bytes: at least, at most.
const POOL_RANGE: [usize; 2] = [64 << 30, 256 << 30];

/// What can be chosen before the first region is made. What is not set is as `uzswap run` has it;
/// without a limit nothing leaves.
///
/// ```
/// # fn main() -> Result<(), uzswap_region::Error> {
/// uzswap_region::Settings::default()
///     .limit(64 << 20)
///     .swap("/var/tmp")
///     .compressor("zstd:1")
///     .start()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Settings {
    pub(crate) limit: Option<u64>,
    pub(crate) swap: Option<PathBuf>,
    swap_max: Option<u64>,
    compressor: Option<String>,
}

/// The settings, understood.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    /// `u64::MAX`: none.
    pub(crate) limit: u64,
    /// Slots that a swap file may have.
    pub(crate) swap_slots: u64,
    pool: PoolKind,
    /// Pages that everything is sized for.
    pages: u64,
}

impl Settings {
    /// As [`limit`](crate::limit).
    #[must_use]
    pub fn limit(mut self, bytes: u64) -> Self {
        self.limit = Some(bytes);
        self
    }

    /// Where the pages that do not fit go, encrypted: a directory, or the name of a file to be
    /// made. It has no name from then on, and takes space as it is used.
    #[must_use]
    pub fn swap(mut self, path: impl Into<PathBuf>) -> Self {
        self.swap = Some(path.into());
        self
    }

    /// The most bytes of the swap file.
    #[must_use]
    pub fn swap_max(mut self, bytes: u64) -> Self {
        self.swap_max = Some(bytes);
        self
    }

    /// What pages are compressed with: `words`, `lz4`, `zstd` or `deflate`, the last three with a
    /// `:LEVEL` if need be.
    #[must_use]
    pub fn compressor(mut self, name: impl Into<String>) -> Self {
        self.compressor = Some(name.into());
        self
    }

    /// Begin with these settings.
    ///
    /// # Errors
    /// [`Error::Value`]: one of them breaks a rule, or it has begun already; [`Error::System`]:
    /// what it takes cannot be had.
    pub fn start(&self) -> Result<(), Error> {
        pager::start(self)
    }

    pub(crate) fn plan(&self) -> Result<Plan, Error> {
        let limit = self.limit.unwrap_or(u64::MAX);
        check_limit(limit)?;
        if self.swap_max.is_some() && self.swap.is_none() {
            return Err(Error::Value(
                "swap_max without swap: say where the swap file is to be".into(),
            ));
        }
        Ok(Plan {
            limit,
            swap_slots: (self.swap_max.unwrap_or(u64::MAX) / PAGE_SIZE as u64).min(u32::MAX.into()),
            pool: PoolKind {
                compressor: self.compressor_of_pool()?,
                ..defaults::POOL
            },
            pages: limit / PAGE_SIZE as u64,
        })
    }

    fn compressor_of_pool(&self) -> Result<Compressor, Error> {
        let Some(name) = &self.compressor else {
            return Ok(defaults::POOL.compressor);
        };
        let refused = |rule: &str| {
            let rule =
                format!("compressor '{name}': {rule}: write words, lz4, zstd or deflate, but for words with :LEVEL");
            Error::Value(rule)
        };
        let compressor = Compressor::parse(name).map_err(|error| refused(&error.to_string()))?;
        match compressor.algorithm {
            _ if compressor.is_parallel => Err(refused("a region has no threads for -parallel")),
            Algorithm::ZstdDict { .. } => Err(refused("no dictionary is trained for regions")),
            Algorithm::DeflateIaa { .. } => Err(refused("regions know no devices")),
            _ => Ok(compressor),
        }
    }
}

/// That a limit is not too small.
pub(crate) fn check_limit(limit: u64) -> Result<(), Error> {
    let least = defaults::MEMORY_MAX_LEAST;
    match limit < least {
        true => Err(Error::Value(format!(
            "limit of {limit} bytes: must be at least {}",
            Size(least).exact()
        ))),
        false => Ok(()),
    }
}

impl Plan {
    /// Address space of a pool, for a limit that is raised later as well.
    pub(crate) fn pool_bytes(&self) -> usize {
        let [least, most] = POOL_RANGE;
        (self.pages as usize).saturating_mul(8 * PAGE_SIZE).clamp(least, most)
    }

    /// With a swap file of so many slots.
    pub(crate) fn config(&self, swap_pages: u64) -> Config {
        let staged_most = defaults::staged_most(self.pages);
        let tunables = &Tunables::DEFAULT;
        let portions = tunables.portions(self.pages);
        let order_max = defaults::folio_order(self.limit) as u32;
        Config {
            portions: Portions {
                folio_order: portions.folio_order.min(order_max),
                ..portions
            },
            page_cluster: defaults::PAGE_CLUSTER as u32,
            store_batch: defaults::STORE_BATCH as u32,
            staging_slots: defaults::staging_slots(staged_most),
            staged_most,
            zswap_segment: defaults::zswap_segment(self.pages),
            swap_pages: swap_pages.min(self.swap_slots),
            writes_plain: defaults::SWAP_PLAIN,
            pool: self.pool,
            replacement: defaults::REPLACEMENT,
            tunables,
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;

    fn refused(settings: Settings) -> String {
        settings.plan().err().expect("it breaks a rule").to_string()
    }

    #[test]
    fn what_breaks_a_rule_is_named_with_it() {
        let with = |name: &str| refused(Settings::default().compressor(name));
        assert!(with("lzo").starts_with("compressor 'lzo': "), "{}", with("lzo"));
        assert!(with("zstd-dict").contains("no dictionary is trained"));
        assert!(with("lz4-parallel").contains("no threads for -parallel"));
        assert!(with("deflate-iaa").contains("no devices"));
        let small = refused(Settings::default().limit(4095));
        assert_eq!(small, "limit of 4095 bytes: must be at least 4M");
        assert!(refused(Settings::default().swap_max(1 << 30)).starts_with("swap_max without swap: "));
    }

    #[test]
    fn a_low_limit_can_be_raised() {
        let plan = Settings::default().limit(4 << 20).plan().unwrap();
        assert_eq!(plan.pool_bytes(), 64 << 30);
    }

    #[test]
    fn without_a_limit_everything_has_a_size() {
        let plan = Settings::default().plan().unwrap();
        assert_eq!((plan.limit, plan.pool_bytes()), (u64::MAX, 256 << 30));
        assert!(plan.config(0).staging_slots < 1 << 20);
    }
}
