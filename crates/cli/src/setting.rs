//! KEY=VALUE, as `uzswap set` takes it.

use uzswap_ctl::{Limit, Setting, Tunable};

use crate::options::{self, MEMORY_MAX_LEAST};
use crate::size::Size;

/// The word of a setting and its value; the error names the key and the rule.
pub(crate) fn parse(setting: &str) -> Result<(Setting, u64), String> {
    let Some((key, text)) = setting.split_once('=') else {
        return Err(format!("'{setting}': write KEY=VALUE"));
    };
    word(key, text).map_err(|rule| format!("{key}: {rule}"))
}

/// 0 or 1; N and Y as the kernel's parameters take them.
fn flag(text: &str) -> Result<u64, String> {
    match text {
        "0" | "N" | "n" => Ok(0),
        "1" | "Y" | "y" => Ok(1),
        _ => Err(format!("'{text}' must be 0 or 1")),
    }
}

/// As for `uzswap run`.
fn memory_max(text: &str) -> Result<u64, String> {
    let Size(bytes) = text.parse()?;
    if bytes < MEMORY_MAX_LEAST {
        return Err(format!("'{text}' must be at least {}", Size(MEMORY_MAX_LEAST)));
    }
    Ok(bytes)
}

/// The word of a key and its value.
fn word(key: &str, text: &str) -> Result<(Setting, u64), String> {
    let size = || text.parse::<Size>().map(|Size(bytes)| bytes);
    Ok(match key {
        "memory.max" => (Limit::MemoryMax.into(), memory_max(text)?),
        "memory.high" => (Limit::MemoryHigh.into(), size()?),
        "memory.zswap.max" => (Limit::ZswapMax.into(), size()?),
        "memory.swap.max" => (Limit::SwapMax.into(), size()?),
        "memory.zswap.writeback" => (Limit::ZswapWriteback.into(), flag(text)?),
        "enabled" => (Tunable::Enabled.into(), flag(text)?),
        "balance" => (Tunable::Balance.into(), flag(text)?),
        "swap_cache" => (Tunable::SwapCache.into(), flag(text)?),
        "shrinker_enabled" => (Tunable::ShrinkerEnabled.into(), flag(text)?),
        "swapout" => (Tunable::SwapOut.into(), options::swap_out(text)? as u64),
        "recompress" => (Tunable::Recompress.into(), options::recompress(text)?.to_word()),
        "compressor" => (Tunable::Compressor.into(), options::compressor(text)?.to_word()),
        "zpool" => (Tunable::Zpool.into(), options::zpool(text)?.to_word()),
        "max_pool_percent" => (Tunable::MaxPoolPercent.into(), options::percent(text)?),
        "accept_threshold_percent" => (Tunable::AcceptThresholdPercent.into(), options::percent(text)?),
        _ => {
            return Err(
                "unknown key; the keys are memory.max, memory.high, memory.swap.max, memory.zswap.max, \
                        memory.zswap.writeback, enabled, compressor, zpool, recompress, shrinker_enabled, balance, \
                        swap_cache, swapout, max_pool_percent and accept_threshold_percent"
                    .to_owned(),
            );
        }
    })
}
