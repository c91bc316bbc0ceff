//! A device against a vector, and connections that meet in one page.

use proptest::prelude::*;
use uzswap_acomp::Compressor;
use uzswap_mm::page::PAGE_SIZE;
use uzswap_mm::zpool::{PoolKind, ZpoolType};

use crate::counters::Counter;
use crate::device::{Device, IoError};
use crate::store::{Config, MakeError};

const COMPRESSORS: [&str; 4] = ["lz4", "words", "zstd:1", "deflate"];
/// Pages of a device: twice as many as its limit holds of those that do not compress.
const PAGES: usize = 512;
const LIMIT: u64 = 1 << 20;

fn config(bytes: u64, compressor: &str, zpool: ZpoolType) -> Config {
    let compressor = Compressor::parse(compressor).expect("a compressor");
    Config {
        kind: PoolKind { zpool, compressor },
        ..Config::new(bytes)
    }
}

fn device(pages: usize) -> Device {
    Device::new(&config((pages * PAGE_SIZE) as u64, "lz4", ZpoolType::Zsmalloc)).expect("a device")
}

/// Bytes of the kind that `seed` says: of one word, text, or noise.
fn contents(seed: u8, len: usize) -> Vec<u8> {
    let mut state = u64::from(seed) + 1;
    let mut noise = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    match seed % 3 {
        0 => vec![seed; len],
        1 => (0..len)
            .map(|i| b'a' + (i as u8 ^ seed) % 16 * u8::from(i % 3 == 0))
            .collect(),
        _ => (0..len).map(|_| noise()).collect(),
    }
}

#[derive(Clone, Debug)]
enum Op {
    Write { at: usize, len: usize, seed: u8 },
    Zero { at: usize, len: usize },
    Trim { at: usize, len: usize },
    Read { at: usize, len: usize },
}

/// Ranges that often begin and end with a page.
fn range() -> impl Strategy<Value = (usize, usize)> {
    let at = prop_oneof![(0..PAGES).prop_map(|page| page * PAGE_SIZE), 0..PAGES * PAGE_SIZE];
    let len = prop_oneof![(0..24usize).prop_map(|pages| pages * PAGE_SIZE), 0..24 * PAGE_SIZE];
    (at, len).prop_map(|(at, len)| (at, len.min(PAGES * PAGE_SIZE - at)))
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (range(), any::<u8>()).prop_map(|((at, len), seed)| Op::Write { at, len, seed }),
        1 => range().prop_map(|(at, len)| Op::Zero { at, len }),
        1 => range().prop_map(|(at, len)| Op::Trim { at, len }),
        2 => range().prop_map(|(at, len)| Op::Read { at, len }),
    ]
}

/// How many of the first bytes of a refused write are new: pages are old or new, and none is new
/// behind one that is old.
fn written(now: &[u8], old: &[u8], new: &[u8], at: usize) -> Option<usize> {
    let next = |from: usize| (from + PAGE_SIZE - (at + from) % PAGE_SIZE).min(new.len());
    let mut end = 0;
    while end < new.len() && now[end..next(end)] == new[end..next(end)] {
        end = next(end);
    }
    (now[end..] == old[end..]).then_some(end)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn a_device_holds_what_a_vector_holds(
        compressor in 0..COMPRESSORS.len(),
        zpool in (0..3u64).prop_map(ZpoolType::from_word),
        is_limited in any::<bool>(),
        ops in proptest::collection::vec(op(), 1..160),
    ) {
        let mut config = config((PAGES * PAGE_SIZE) as u64, COMPRESSORS[compressor], zpool);
        config.mem_limit = is_limited.then_some(LIMIT);
        let device = Device::new(&config).unwrap();
        let mut worker = device.worker();
        let mut model = vec![0; PAGES * PAGE_SIZE];
        let mut seen = vec![0; PAGES * PAGE_SIZE];
        for op in ops {
            match op {
                Op::Write { at, len, seed } => {
                    let new = contents(seed, len);
                    let result = device.write(&mut worker, at as u64, &new);
                    prop_assert!(result.is_ok() || (is_limited && result == Err(IoError::NoSpace)));
                    let seen = &mut seen[..len];
                    device.read(&mut worker, at as u64, seen).unwrap();
                    let end = written(seen, &model[at..][..len], &new, at);
                    prop_assert!(end.is_some_and(|end| end == len || result.is_err()));
                    model[at..][..len].copy_from_slice(seen);
                }
                Op::Zero { at, len } => {
                    match device.write_zeroes(&mut worker, at as u64, len as u64) {
                        Ok(()) => model[at..][..len].fill(0),
                        Err(_) => device.read(&mut worker, at as u64, &mut model[at..][..len]).unwrap(),
                    }
                }
                Op::Trim { at, len } => {
                    device.discard(at as u64, len as u64).unwrap();
                    let (first, end) = (at.next_multiple_of(PAGE_SIZE), (at + len) / PAGE_SIZE * PAGE_SIZE);
                    model[first.min(end)..end].fill(0);
                }
                Op::Read { at, len } => {
                    device.read(&mut worker, at as u64, &mut seen[..len]).unwrap();
                    prop_assert!(seen[..len] == model[at..][..len]);
                }
            }
            prop_assert!(!is_limited || device.mem_used_total() <= LIMIT);
        }
        device.read(&mut worker, 0, &mut seen).unwrap();
        prop_assert!(seen == model);
        device.discard(0, device.bytes()).unwrap();
        let counted = [Counter::OrigDataSize, Counter::ComprDataSize, Counter::SamePages, Counter::HugePages];
        prop_assert_eq!(counted.map(|counter| device.counters().get(counter)), [0; 4]);
    }
}

#[test]
fn pages_are_counted_as_what_they_are_stored_as() {
    let device = device(8);
    let mut worker = device.worker();
    let page = PAGE_SIZE as u64;
    for (at, seed) in [(0, 0), (1, 3), (2, 1), (3, 2)] {
        device
            .write(&mut worker, at * page, &contents(seed, PAGE_SIZE))
            .unwrap();
    }
    let get = |counter| device.counters().get(counter);
    assert_eq!(get(Counter::OrigDataSize), 4 * page);
    assert_eq!((get(Counter::SamePages), get(Counter::HugePages)), (2, 1));
    let compressed = get(Counter::ComprDataSize) - page;
    assert!((1..page / 2).contains(&compressed), "{compressed}");
    assert!((2 * page..=3 * page).contains(&device.mem_used_total()));
    device.discard(0, 8 * page).unwrap();
    assert_eq!((get(Counter::NotifyFree), get(Counter::HugePagesSince)), (4, 1));
    assert_eq!(get(Counter::OrigDataSize), 0);
    assert_eq!(device.mem_used_total(), 0);
}

#[test]
fn a_limit_is_not_exceeded_and_what_is_freed_is_used_again() {
    let mut config = Config::new(4 << 20);
    config.mem_limit = Some(LIMIT);
    let device = Device::new(&config).unwrap();
    let mut worker = device.worker();
    let noise = contents(2, 2 << 20);
    assert_eq!(device.write(&mut worker, 0, &noise), Err(IoError::NoSpace));
    assert_eq!(device.counters().get(Counter::OrigDataSize), LIMIT);
    assert_eq!(device.counters().get(Counter::MemUsedMax), LIMIT);
    // A word takes nothing.
    assert_eq!(device.write(&mut worker, 0, &[7; PAGE_SIZE]), Ok(()));
    assert_eq!(device.write(&mut worker, 2 << 20, &noise[..PAGE_SIZE]), Ok(()));
    assert_eq!(
        device.write(&mut worker, 3 << 20, &noise[..PAGE_SIZE]),
        Err(IoError::NoSpace)
    );
    let mut page = [0; PAGE_SIZE];
    device.read(&mut worker, 2 << 20, &mut page).unwrap();
    assert!(page == noise[..PAGE_SIZE]);
}

/// Pages of a third of the pool's are freed all over it: their holes hold nothing larger until
/// they are brought together.
#[test]
fn a_full_pool_is_compacted() {
    let mut config = Config::new(64 << 20);
    config.mem_limit = Some(LIMIT);
    let device = Device::new(&config).unwrap();
    let mut worker = device.worker();
    let page = PAGE_SIZE as u64;
    let half_noise = |n: u64| {
        let mut bytes = contents(2, PAGE_SIZE);
        bytes[1000..].fill(n as u8);
        bytes[..8].copy_from_slice(&n.to_ne_bytes());
        bytes
    };
    let mut n = 0;
    while device.write(&mut worker, n * page, &half_noise(n)).is_ok() {
        n += 1;
    }
    (0..n)
        .filter(|n| n % 3 > 0)
        .for_each(|n| device.discard(n * page, page).unwrap());
    let noise = contents(5, PAGE_SIZE);
    for at in 0..100 {
        assert_eq!(device.write(&mut worker, (8 << 20) + at * page, &noise), Ok(()), "{at}");
    }
    assert!(device.counters().get(Counter::PagesCompacted) >= 50);
    let mut seen = [0; PAGE_SIZE];
    for n in (0..n).step_by(3) {
        device.read(&mut worker, n * page, &mut seen).unwrap();
        assert!(seen == half_noise(n)[..], "{n}");
    }
}

/// It stays an error until all of the page is written: a part of it would bless the rest.
#[test]
fn a_damaged_page_is_an_error_and_nothing_else() {
    for seed in [1, 2] {
        let device = device(2);
        let mut worker = device.worker();
        let (page, mut seen) = (contents(seed, PAGE_SIZE), [0; PAGE_SIZE]);
        device.write(&mut worker, 0, &page).unwrap();
        device.damage(0);
        assert_eq!(device.read(&mut worker, 0, &mut seen), Err(IoError::Damaged));
        assert_eq!(device.write(&mut worker, 9, &[1]), Err(IoError::Damaged));
        assert_eq!(device.write(&mut worker, 0, &page), Ok(()));
        assert_eq!(device.read(&mut worker, 0, &mut seen), Ok(()));
        assert!(seen == page[..]);
    }
}

#[test]
fn nothing_lies_beyond_the_end() {
    let device = device(2);
    let (mut worker, end) = (device.worker(), device.bytes());
    let mut two = [0; 2];
    for at in [end - 1, end, u64::MAX] {
        assert_eq!(device.write(&mut worker, at, &two), Err(IoError::BeyondEnd));
        assert_eq!(device.read(&mut worker, at, &mut two), Err(IoError::BeyondEnd));
        assert_eq!(device.write_zeroes(&mut worker, at, 2), Err(IoError::BeyondEnd));
        assert_eq!(device.discard(at, 2), Err(IoError::BeyondEnd));
    }
    assert_eq!(device.write(&mut worker, end - 2, &two), Ok(()));
}

/// Threads write to the sectors of few pages, each to its own: none undoes what another does.
#[test]
fn parts_of_a_page_are_written_at_the_same_time() {
    let device = device(4);
    let (threads, sector) = (4, 512);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let device = &device;
            scope.spawn(move || {
                let mut worker = device.worker();
                let mut seen = vec![0; sector];
                for round in 0..300u64 {
                    let mine = contents((round * 7 + thread) as u8, sector);
                    let at = round % 8 / 2 * PAGE_SIZE as u64 + (thread + round % 2 * threads) * sector as u64;
                    device.write(&mut worker, at, &mine).unwrap();
                    device.read(&mut worker, at, &mut seen).unwrap();
                    assert!(seen == mine, "thread {thread}, round {round}");
                }
            });
        }
    });
}

#[test]
fn a_device_that_cannot_be_is_refused_by_value_and_rule() {
    let refusal = |config: Config| match Device::new(&config) {
        Ok(_) => panic!("made"),
        Err(error) => error.to_string(),
    };
    for bytes in [0, 4095, 4097] {
        let line = refusal(Config::new(bytes));
        assert!(line.contains(&bytes.to_string()) && line.contains("4096"), "{line}");
    }
    for compressor in ["lz4-parallel", "zstd-dict"] {
        let line = refusal(config(4096, compressor, ZpoolType::Zbud));
        assert!(line.contains(compressor) && line.contains("must"), "{line}");
    }
    let mut small = Config::new(4096);
    small.mem_limit = Some(LIMIT - 1);
    assert_eq!(Device::new(&small).err(), Some(MakeError::MemLimit(LIMIT - 1)));
}
