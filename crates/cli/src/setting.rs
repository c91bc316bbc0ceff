//! KEY=VALUE, as `uzswap set` takes it and `uzswap get` shows it.

use serde_json::{Map, Value, json};
use uzswap_acomp::{Algorithm, Compressor};
use uzswap_ctl::{Group, Limit, Setting, Tunable, defaults};
use uzswap_mm::SwapOut;
use uzswap_mm::page::PAGE_SIZE;
use uzswap_mm::zpool::ZpoolType;

use crate::memory_max;
use crate::options;
use crate::recompress::{self, Recompress};
use crate::stall;
use uzswap_ctl::size::Size;

/// A setting that can be changed in a running group.
struct Row {
    key: &'static str,
    setting: Setting,
    /// Reads a value as a word; the error names the rule.
    word: fn(&str) -> Result<u64, String>,
    /// Writes a word as that value.
    value: fn(u64) -> String,
}

/// All that can, as help and errors list it.
const ROWS: [Row; 17] = [
    limit(
        "memory.max",
        Limit::MemoryMax,
        memory_max::setting_word,
        memory_max::value,
    ),
    limit("stall", Limit::Stall, stall::word, stall::value),
    limit("memory.high", Limit::MemoryHigh, size, exact),
    limit("memory.swap.max", Limit::SwapMax, size, exact),
    limit("memory.zswap.max", Limit::ZswapMax, size, exact),
    limit("memory.zswap.writeback", Limit::ZswapWriteback, flag, number),
    tunable("enabled", Tunable::Enabled, flag, number),
    tunable("compressor", Tunable::Compressor, compressor, |word| {
        Compressor::from_word(word).to_string()
    }),
    tunable("zpool", Tunable::Zpool, zpool, |word| {
        ZpoolType::from_word(word).name().to_owned()
    }),
    tunable("recompress", Tunable::Recompress, recompress, |word| {
        Recompress((word != 0).then(|| Algorithm::from_word(word))).to_string()
    }),
    tunable("shrinker_enabled", Tunable::ShrinkerEnabled, flag, number),
    tunable("balance", Tunable::Balance, flag, number),
    tunable("swap_cache", Tunable::SwapCache, flag, number),
    tunable("swapout", Tunable::SwapOut, swapout, |word| {
        SwapOut::from_word(word).name().to_owned()
    }),
    tunable("page_cluster", Tunable::PageCluster, page_cluster, number),
    tunable("max_pool_percent", Tunable::MaxPoolPercent, options::percent, number),
    tunable(
        "accept_threshold_percent",
        Tunable::AcceptThresholdPercent,
        options::percent,
        number,
    ),
];

/// A setting that holds from the start of a group to its end.
type Fixed = (&'static str, fn(&Group) -> String);

/// They are named as the options of `uzswap run`.
const FIXED: [Fixed; 14] = [
    ("policy", |group| group.replacement().name().to_owned()),
    ("folio_max", |group| {
        exact((PAGE_SIZE as u64) << group.get(Tunable::FolioOrder).min(32))
    }),
    ("batch", |group| number(group.get(Tunable::StoreBatch))),
    ("kcompressd", |group| number(group.get(Tunable::Kcompressd))),
    ("fault_threads", |group| number(group.get(Tunable::FaultThreads))),
    ("spin", |group| on_off(group, Tunable::Spin)),
    ("isolate", |group| either(group, Tunable::Copies, "copy", "auto")),
    ("backend", |group| either(group, Tunable::Closes, "mprotect", "uffd")),
    ("guard", |group| on_off(group, Tunable::Guard)),
    ("faults", |group| {
        either(group, Tunable::InlineFaults, "inline", "thread")
    }),
    ("swap", |group| match group.is_on(Tunable::Swap) {
        true => String::from_utf8_lossy(&group.swap_path()).into_owned(),
        false => "none".to_owned(),
    }),
    ("swap_format", |group| {
        either(group, Tunable::SwapPlain, "plain", "compressed")
    }),
    ("encrypt", |group| on_off(group, Tunable::SwapEncrypted)),
    ("allow_unmanaged", |group| on_off(group, Tunable::AllowUnmanaged)),
];

const fn limit(
    key: &'static str,
    limit: Limit,
    word: fn(&str) -> Result<u64, String>,
    value: fn(u64) -> String,
) -> Row {
    let setting = Setting::Limit(limit);
    Row {
        key,
        setting,
        word,
        value,
    }
}

const fn tunable(
    key: &'static str,
    tunable: Tunable,
    word: fn(&str) -> Result<u64, String>,
    value: fn(u64) -> String,
) -> Row {
    let setting = Setting::Tunable(tunable);
    Row {
        key,
        setting,
        word,
        value,
    }
}

fn compressor(text: &str) -> Result<u64, String> {
    options::compressor(text).map(Compressor::to_word)
}

fn zpool(text: &str) -> Result<u64, String> {
    options::zpool(text).map(ZpoolType::to_word)
}

fn page_cluster(text: &str) -> Result<u64, String> {
    crate::number::number(0..=defaults::PAGE_CLUSTER_MAX)(text)
}

fn recompress(text: &str) -> Result<u64, String> {
    recompress::recompress(text).map(Recompress::to_word)
}

fn swapout(text: &str) -> Result<u64, String> {
    options::swap_out(text).map(|swap_out| swap_out as u64)
}

fn exact(bytes: u64) -> String {
    Size(bytes).exact()
}

fn number(word: u64) -> String {
    word.to_string()
}

fn on_off(group: &Group, tunable: Tunable) -> String {
    either(group, tunable, "on", "off")
}

fn either(group: &Group, tunable: Tunable, yes: &str, no: &str) -> String {
    let word = if group.is_on(tunable) { yes } else { no };
    word.to_owned()
}

/// Every setting of a group and its value: first those that can be changed.
pub(crate) fn all(group: &Group) -> Vec<(&'static str, String)> {
    let changeable = ROWS.iter().map(|row| (row.key, (row.value)(get(group, row.setting))));
    let fixed = FIXED.iter().map(|(key, value)| (*key, value(group)));
    changeable.chain(fixed).collect()
}

/// As programs are shown them.
pub(crate) fn object(settings: impl IntoIterator<Item = (&'static str, String)>) -> Map<String, Value> {
    settings
        .into_iter()
        .map(|(key, value)| (key.to_owned(), json!(value)))
        .collect()
}

/// A setting by its name.
///
/// # Errors
/// The name, and the names that there are.
pub(crate) fn name(text: &str) -> Result<String, String> {
    let rows = ROWS.iter().map(|row| row.key);
    let known: Vec<&str> = rows.chain(FIXED.iter().map(|(key, _)| *key)).collect();
    match known.contains(&text) {
        true => Ok(text.to_owned()),
        false => Err(format!("{text}: unknown key; the keys are {}", listed(&known))),
    }
}

fn listed(names: &[&str]) -> String {
    match names {
        [names @ .., last] if !names.is_empty() => format!("{} and {last}", names.join(", ")),
        names => names.concat(),
    }
}

/// What `uzswap set` is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    Change(Setting, u64),
    /// What cannot be changed, of [`FIXED`], is to be as it is: a line of `uzswap get`.
    Same {
        fixed: usize,
        value: String,
    },
}

/// A setting and its value; the error names the key and the rule.
pub(crate) fn ask(text: &str) -> Result<Asked, String> {
    if let Some((key, value)) = text.split_once('=')
        && let Some(fixed) = FIXED.iter().position(|(name, _)| *name == key)
    {
        let value = value.to_owned();
        return Ok(Asked::Same { fixed, value });
    }
    parse(text).map(|(setting, word)| Asked::Change(setting, word))
}

/// The changes that are asked for, if all else is as asked.
///
/// # Errors
/// The key, and its rule.
pub(crate) fn changes(group: &Group, asked: &[Asked]) -> Result<Vec<(Setting, u64)>, String> {
    let mut changes = Vec::new();
    for asked in asked {
        match asked {
            Asked::Change(setting, word) => changes.push((*setting, *word)),
            Asked::Same { fixed, value } => {
                let (key, now) = FIXED[*fixed];
                let now = now(group);
                if now != *value {
                    return Err(format!("{key}: only `uzswap run` sets it, at the start; it is {now}"));
                }
            }
        }
    }
    Ok(changes)
}

/// A setting that can be changed and its value; the error names the key and the rule.
pub(crate) fn parse(text: &str) -> Result<(Setting, u64), String> {
    let Some((key, value)) = text.split_once('=').filter(|(key, _)| !key.is_empty()) else {
        return Err(format!("'{text}': write KEY=VALUE"));
    };
    let Some(row) = ROWS.iter().find(|row| row.key == key) else {
        let keys = ROWS.map(|row| row.key);
        return Err(format!("{key}: unknown key; the keys are {}", listed(&keys)));
    };
    let word = (row.word)(value).map_err(|rule| format!("{key}: {rule}"))?;
    Ok((row.setting, word))
}

/// The word of a setting of a group, as it is read.
fn get(group: &Group, setting: Setting) -> u64 {
    match setting {
        Setting::Limit(Limit::MemoryMax) => memory_max::word_of(*group),
        _ => group.get(setting),
    }
}

/// Change settings of a group: all, or none where one does not go with the others.
///
/// # Errors
/// The key, the value and the rule.
pub(crate) fn set_all(group: Group, settings: &[(Setting, u64)]) -> Result<(), String> {
    let is_of = |limit: Limit| move |(setting, _): &&(Setting, u64)| *setting == limit.into();
    let last = |limit| settings.iter().rfind(is_of(limit)).map(|(_, word)| *word);
    let memory_max = last(Limit::MemoryMax).unwrap_or(memory_max::word_of(group));
    if let Some(stall) = last(Limit::Stall).filter(|stall| *stall > 0)
        && memory_max != memory_max::AUTO_WORD
    {
        let (stall, memory_max) = (stall::value(stall), memory_max::value(memory_max));
        return Err(format!(
            "stall: '{stall}' goes with memory.max=auto, and memory.max is {memory_max}"
        ));
    }
    // The budget of a limit that is not automatic yet comes behind it.
    let (stalls, others): (Vec<_>, Vec<_>) = settings.iter().copied().partition(|one| is_of(Limit::Stall)(&one));
    for (setting, word) in others.into_iter().chain(stalls) {
        match setting {
            Setting::Limit(Limit::MemoryMax) => memory_max::set_word(group, word),
            setting => group.set(setting, word),
        }
    }
    Ok(())
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
    use crate::figures::test_group;

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
    fn what_is_shown_is_taken() {
        let group = test_group();
        for text in [
            "memory.max=4097K",
            "stall=0.5%",
            "memory.high=max",
            "memory.swap.max=0",
            "memory.zswap.max=4194305",
            "memory.zswap.writeback=1",
            "enabled=1",
            "compressor=zstd-parallel:3",
            "zpool=z3fold",
            "recompress=zstd:1",
            "recompress=none",
            "shrinker_enabled=1",
            "balance=0",
            "swap_cache=1",
            "swapout=direct",
            "page_cluster=5",
            "max_pool_percent=20",
            "accept_threshold_percent=90",
        ] {
            let (setting, word) = parse(text).unwrap();
            group.set(setting, word);
            let (key, value) = text.split_once('=').unwrap();
            let shown = all(&group).into_iter().find(|(name, _)| *name == key).unwrap().1;
            assert_eq!(shown, value, "{key}");
        }
        let keys: std::collections::HashSet<_> = all(&group).into_iter().map(|(key, _)| key).collect();
        assert_eq!(keys.len(), ROWS.len() + FIXED.len());
        group.set(Tunable::FolioOrder, 9);
        group.set(Tunable::Swap, 1);
        group.set_swap_path(b"/var/tmp/a b");
        let shown = all(&group);
        assert!(shown.contains(&("folio_max", "2M".into())) && shown.contains(&("swap", "/var/tmp/a b".into())));
    }

    #[test]
    fn a_name_is_known_or_all_are_listed() {
        assert_eq!(name("spin"), Ok("spin".to_owned()));
        let error = name("Spin").unwrap_err();
        assert!(
            error.starts_with("Spin: unknown key; the keys are memory.max, ")
                && error.ends_with(" and allow_unmanaged")
        );
    }

    #[test]
    fn anything_else_names_the_key_and_the_rule() {
        for (text, error) in [
            ("balance", "'balance': write KEY=VALUE"),
            ("=1", "'=1': write KEY=VALUE"),
            ("balance=on", "balance: 'on' must be 0 or 1"),
            ("memory.max=64K", "memory.max: '64K' must be at least 4M"),
            ("swapout=all", "swapout: 'all' must be whole, split or direct"),
            (
                "spim=1",
                "spim: unknown key; the keys are memory.max, stall, memory.high, memory.swap.max, memory.zswap.max, \
                 memory.zswap.writeback, enabled, compressor, zpool, recompress, shrinker_enabled, balance, \
                 swap_cache, swapout, page_cluster, max_pool_percent and accept_threshold_percent",
            ),
        ] {
            assert_eq!(ask(text).unwrap_err(), error);
        }
    }

    #[test]
    fn all_that_is_shown_may_stay_as_it_is() {
        let group = test_group();
        group.set(Limit::MemoryMax, 64 << 20);
        group.set(Tunable::MaxPoolPercent, 20);
        group.set(Tunable::AcceptThresholdPercent, 90);
        let shown = all(&group);
        let asked = shown.iter().map(|(key, value)| ask(&format!("{key}={value}")));
        let asked: Vec<_> = asked.collect::<Result<_, _>>().unwrap();
        assert_eq!(changes(&group, &asked).unwrap().len(), ROWS.len());
        let other = [ask("batch=7").unwrap()];
        let refused = "batch: only `uzswap run` sets it, at the start; it is 0";
        assert_eq!(changes(&group, &other).unwrap_err(), refused);
    }
}
