//! A group file that somebody scribbled over: whatever its words say is read as something.
#![no_main]

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use libfuzzer_sys::fuzz_target;
use uzswap_acomp::{Algorithm, Compressor};
use uzswap_ctl::{FailKind, Field, Group, HEADER_WORDS, Limit, Notice, PROCESSES, Setting, Statistic, Test, Tunable, WORDS};
use uzswap_mm::vmstat::Item;
use uzswap_mm::zpool::ZpoolType;

fn words() -> &'static [AtomicU64] {
    static FILE: OnceLock<Vec<AtomicU64>> = OnceLock::new();
    FILE.get_or_init(|| (0..WORDS).map(|_| AtomicU64::new(0)).collect())
}

/// Everything that an agent or the launcher asks a group for.
fn read_all(group: Group, word: u64) {
    for notice in Notice::ALL {
        let before = group.get(*notice);
        assert_eq!(group.take(*notice, word), before.min(word));
        group.add(*notice, word);
    }
    for statistic in Statistic::ALL {
        group.raise(*statistic, word);
        assert!(group.get(*statistic) >= word);
    }
    let settings = (Limit::ALL.iter().map(|limit| Setting::from(*limit)))
        .chain(Tunable::ALL.iter().map(|tunable| Setting::from(*tunable)))
        .chain(Test::ALL.iter().map(|test| Setting::from(*test)));
    for setting in settings {
        group.set(setting, group.get(setting).wrapping_add(word));
    }
    let pool = group.pool();
    assert_eq!(
        Compressor::parse(&pool.compressor.to_string()),
        Ok(pool.compressor),
        "a level within its range"
    );
    assert_eq!(ZpoolType::parse(pool.zpool.name()), Some(pool.zpool));
    assert!(group.pool_accept_bytes() <= group.pool_limit_bytes());
    assert!(group.pool_limit_bytes() <= group.get(Limit::ZswapMax));
    assert!(group.high_water() <= PROCESSES);
    for field in Field::ALL {
        assert!(group.sum(*field) >= group.field(0, *field).min(group.sum(*field)));
        group.field(word as usize, *field);
    }
    let charges = group.sum(Field::Charge).saturating_add(group.get(Notice::Census));
    assert_eq!(group.current(), charges.saturating_add(group.inner()));
    assert!(group.swap_path().len() <= Group::PATH_MAX + 1);
    group.last_words();
    let stat = group.vmstat();
    Item::ALL.iter().for_each(|item| {
        stat.get(*item);
    });
    for kind in FailKind::ALL {
        let before = group.failures(*kind);
        group.count_failure(*kind);
        assert_eq!(group.failures(*kind), before.wrapping_add(1));
    }
    stat.record_load(word);
    stat.record_stores(1, word);
    stat.histograms();
    group.set_swap_path(&word.to_le_bytes().repeat(200));
    group.set_last_words(&word.to_string().repeat(99));
    let slot = word as usize % PROCESSES;
    group.take_slot(slot, word as i32);
    group.clear_slot(slot);
}

fuzz_target!(|bytes: &[u8]| {
    let words = words();
    words.iter().for_each(|word| word.store(0, Ordering::Relaxed));
    let group = Group::create(words);
    let mut last = 0;
    for entry in bytes.as_chunks::<10>().0 {
        let (at, word) = entry.split_at(2);
        // Mostly the header and the first processes.
        let at = usize::from(u16::from_le_bytes([at[0], at[1]]));
        let at = [at % 64, at % HEADER_WORDS, HEADER_WORDS + at % 64, at % WORDS][at % 4];
        last = u64::from_le_bytes(word.try_into().expect("8 bytes"));
        words[at].store(last, Ordering::Relaxed);
    }
    Algorithm::from_word(last);
    Compressor::from_word(last);
    group.recompress();
    group.swap_out();
    ZpoolType::from_word(last);
    read_all(group, last);
    Group::open(words);
    Group::open(&words[..bytes.len().min(WORDS)]);
});
