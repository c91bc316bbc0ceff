//! KEY=VALUE, as `uzswap set` takes it.

use uzswap_ctl::{Limit, Setting, Tunable};

use crate::memory_max;
use crate::options;
use crate::size::Size;

/// What can be changed in a running group.
struct Row {
    key: &'static str,
    setting: Setting,
    /// Reads a value as a word; the error names the rule.
    word: fn(&str) -> Result<u64, String>,
}

/// All that can, as help and errors list it.
const ROWS: [Row; 15] = [
    limit("memory.max", Limit::MemoryMax, memory_max::parse_word),
    limit("memory.high", Limit::MemoryHigh, size),
    limit("memory.swap.max", Limit::SwapMax, size),
    limit("memory.zswap.max", Limit::ZswapMax, size),
    limit("memory.zswap.writeback", Limit::ZswapWriteback, flag),
    tunable("enabled", Tunable::Enabled, flag),
    tunable("compressor", Tunable::Compressor, |text| {
        Ok(options::compressor(text)?.to_word())
    }),
    tunable("zpool", Tunable::Zpool, |text| Ok(options::zpool(text)?.to_word())),
    tunable("recompress", Tunable::Recompress, |text| {
        Ok(options::recompress(text)?.to_word())
    }),
    tunable("shrinker_enabled", Tunable::ShrinkerEnabled, flag),
    tunable("balance", Tunable::Balance, flag),
    tunable("swap_cache", Tunable::SwapCache, flag),
    tunable("swapout", Tunable::SwapOut, |text| Ok(options::swap_out(text)? as u64)),
    tunable("max_pool_percent", Tunable::MaxPoolPercent, options::percent),
    tunable(
        "accept_threshold_percent",
        Tunable::AcceptThresholdPercent,
        options::percent,
    ),
];

const fn limit(key: &'static str, limit: Limit, word: fn(&str) -> Result<u64, String>) -> Row {
    let setting = Setting::Limit(limit);
    Row { key, setting, word }
}

const fn tunable(key: &'static str, tunable: Tunable, word: fn(&str) -> Result<u64, String>) -> Row {
    let setting = Setting::Tunable(tunable);
    Row { key, setting, word }
}

/// A setting and its value; the error names the key and the rule.
pub(crate) fn parse(text: &str) -> Result<(Setting, u64), String> {
    let Some((key, value)) = text.split_once('=') else {
        return Err(format!("'{text}': write KEY=VALUE"));
    };
    let Some(row) = ROWS.iter().find(|row| row.key == key) else {
        let [names @ .., last] = ROWS.map(|row| row.key);
        return Err(format!(
            "{key}: unknown key; the keys are {} and {last}",
            names.join(", ")
        ));
    };
    let word = (row.word)(value).map_err(|rule| format!("{key}: {rule}"))?;
    Ok((row.setting, word))
}

/// What the help says of KEY=VALUE.
pub(crate) fn help() -> String {
    format!("KEY=VALUE: {}", ROWS.map(|row| row.key).join(", "))
}

/// 0 or 1; N and Y as the kernel's parameters take them.
fn flag(text: &str) -> Result<u64, String> {
    match text {
        "0" | "N" | "n" => Ok(0),
        "1" | "Y" | "y" => Ok(1),
        _ => Err(format!("'{text}' must be 0 or 1")),
    }
}

fn size(text: &str) -> Result<u64, String> {
    text.parse().map(|Size(bytes)| bytes)
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_setting_has_one_key() {
        for row in &ROWS {
            let same = ROWS
                .iter()
                .filter(|other| other.key == row.key || other.setting == row.setting);
            assert_eq!(same.count(), 1, "{}", row.key);
        }
    }

    #[test]
    fn keys_are_read_as_their_words() {
        let of = |text| parse(text).unwrap();
        assert_eq!(of("memory.max=64M"), (Limit::MemoryMax.into(), 64 << 20));
        assert_eq!(of("memory.swap.max=max"), (Limit::SwapMax.into(), u64::MAX));
        assert_eq!(of("enabled=Y"), (Tunable::Enabled.into(), 1));
        assert_eq!(of("swapout=direct"), (Tunable::SwapOut.into(), 2));
        assert_eq!(of("recompress=none"), (Tunable::Recompress.into(), 0));
        assert_eq!(of("max_pool_percent=7"), (Tunable::MaxPoolPercent.into(), 7));
    }

    #[test]
    fn anything_else_names_the_key_and_the_rule() {
        for (text, error) in [
            ("balance", "'balance': write KEY=VALUE"),
            ("balance=on", "balance: 'on' must be 0 or 1"),
            ("memory.max=64K", "memory.max: '64K' must be at least 4M"),
            ("swapout=all", "swapout: 'all' must be whole, split or direct"),
            (
                "spin=1",
                "spin: unknown key; the keys are memory.max, memory.high, memory.swap.max, memory.zswap.max, \
                 memory.zswap.writeback, enabled, compressor, zpool, recompress, shrinker_enabled, balance, \
                 swap_cache, swapout, max_pool_percent and accept_threshold_percent",
            ),
        ] {
            assert_eq!(parse(text).unwrap_err(), error);
        }
    }
}
