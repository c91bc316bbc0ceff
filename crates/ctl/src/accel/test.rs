extern crate std;

use alloc::string::String;
use alloc::vec::Vec;

use super::*;

fn fresh() -> Accel {
    let words: Vec<AtomicU64> = (0..WORDS).map(|_| AtomicU64::new(0)).collect();
    Accel::create(words.leak())
}

fn job(opening: u64, n: u64) -> Job {
    let mut descriptor = [n as u8; 64];
    descriptor[..8].copy_from_slice(&n.to_le_bytes());
    Job {
        opening,
        queue: (n as u32 % 7, n as u32 % 2),
        descriptor,
    }
}

#[test]
fn a_file_of_anything_else_is_not_opened() {
    let accel = fresh();
    assert!(Accel::open(accel.0).is_some());
    assert!(Accel::open(&accel.0[..WORDS - 1]).is_none());
    accel.head(Head::Magic).store(7, Ordering::Relaxed);
    assert!(Accel::open(accel.0).is_none());
}

#[test]
fn a_door_has_room_for_so_many() {
    let accel = fresh();
    let opening = accel.ask(3).unwrap();
    let region = accel.region(3).unwrap();
    assert_eq!((region.wanted(), region.opened(), accel.used()), (opening, 0, 4));
    region.open(opening, [(1, 0), (255, 7)].into_iter());
    assert!(region.has_queue((255, 7)) && !region.has_queue((1, 1)));
    for n in 0..128 {
        assert!(region.submit(&job(opening, n)), "{n}");
    }
    assert!(!region.submit(&job(opening, 128)));
    assert_eq!(region.take(), Some(job(opening, 0)));
    assert!(region.submit(&job(opening, 128)));
    for n in 1..129 {
        assert_eq!(region.take(), Some(job(opening, n)));
    }
    assert_eq!((region.take(), region.has_job()), (None, false));
    // Another opening begins with an empty door.
    assert!(region.submit(&job(opening, 5)));
    let next = accel.ask(3).unwrap();
    region.open(next, core::iter::empty());
    assert_eq!((region.take(), region.opened()), (None, next));
    assert!(next > opening && !region.has_queue((255, 7)));
    assert!(accel.ask(REGIONS).is_none() && accel.region(REGIONS).is_none());
}

#[test]
fn threads_submit_and_one_takes_out() {
    const EACH: u64 = if cfg!(miri) { 40 } else { 5_000 };
    let accel = fresh();
    let opening = accel.ask(0).unwrap();
    let region = accel.region(0).unwrap();
    region.open(opening, core::iter::empty());
    let mut seen: Vec<u64> = Vec::new();
    std::thread::scope(|scope| {
        for thread in 0..3 {
            scope.spawn(move || {
                for n in 0..EACH {
                    while !region.submit(&job(opening, thread * EACH + n)) {
                        std::thread::yield_now();
                    }
                }
            });
        }
        while seen.len() < 3 * EACH as usize {
            match region.take() {
                Some(taken) => {
                    let n = u64::from_le_bytes(taken.descriptor[..8].try_into().unwrap());
                    assert_eq!(taken, job(opening, n));
                    seen.push(n);
                }
                None => std::thread::yield_now(),
            }
        }
    });
    for thread in 0..3 {
        let of_thread = seen.iter().filter(|n| **n / EACH == thread);
        assert!(of_thread.is_sorted(), "in the order of each thread");
    }
    seen.sort_unstable();
    assert!(seen.into_iter().eq(0..3 * EACH));
}

#[test]
fn devices_reach_the_memory_of_regions_only() {
    let accel = fresh();
    for slot in [0, 1, REGIONS - 1] {
        let region = accel.region(slot).unwrap();
        let (begin, end) = (region.address(), region.address() + MEMORY_BYTES as u64);
        let reaches = |address, len| accel.reach(address, len).is_some();
        assert!(reaches(begin, MEMORY_BYTES) && reaches(end - 1, 1), "{slot}");
        assert!(!reaches(begin - 1, 1) && !reaches(end, 1) && !reaches(begin + 1, MEMORY_BYTES));
        let (words, at) = accel.reach(begin + 8, 8).unwrap();
        words[at / 8].store(slot as u64, Ordering::Relaxed);
        assert_eq!(region.memory()[1].load(Ordering::Relaxed), slot as u64);
        assert!(begin.is_multiple_of(64));
    }
    for address in [0, 8, u64::MAX, 1 << 40] {
        assert!(accel.reach(address, 64).is_none());
    }
}

#[test]
fn a_text_is_read_whole() {
    let accel = fresh();
    assert_eq!(accel.sysfs(), Some((0, String::new())));
    let texts: Vec<String> = (0..2).map(|i| "ab".repeat(1000 + i * 700)).collect();
    std::thread::scope(|scope| {
        scope.spawn(|| (0..200).for_each(|i| assert!(accel.set_sysfs(&texts[i % 2]))));
        for _ in 0..200 {
            if let Some((version, text)) = accel.sysfs() {
                assert!(version == 0 || texts.contains(&text));
            }
        }
    });
    assert!(!accel.set_sysfs(&"x".repeat(SYSFS_WORDS * 8 + 1)));
    assert_eq!(accel.sysfs().unwrap().0, 400);
}

#[test]
fn counters_have_words_of_their_own() {
    let accel = fresh();
    accel.driver(40)[39].store(1, Ordering::Relaxed);
    accel.pages()[6].store(2, Ordering::Relaxed);
    accel.queue(255, 7)[3].store(3, Ordering::Relaxed);
    assert_eq!(accel.queues(), [(255, 7, [0, 0, 0, 3])]);
    let counts = ModelCounts {
        submitted: 9,
        injected: 4,
        ..ModelCounts::default()
    };
    accel.note_model(counts);
    assert_eq!(accel.model(), counts);
    accel.reset_counters();
    assert!(accel.queues().is_empty() && accel.pages()[6].load(Ordering::Relaxed) == 0);
    assert_eq!(accel.model(), counts);
}

#[test]
fn the_bell_is_not_missed() {
    let accel = fresh();
    assert!(!accel.ring());
    let seen = accel.begin_sleep();
    assert!(accel.ring());
    assert_ne!(accel.bell().load(Ordering::Relaxed) as u32, seen);
    accel.end_sleep();
    assert!(!accel.ring());
}

/// A process may write anything to the file.
#[test]
fn a_file_that_was_scribbled_over_hurts_nobody() {
    let accel = fresh();
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = move || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    let region = accel.region(0).unwrap();
    for round in 0..if cfg!(miri) { 2 } else { 50 } {
        let control = accel.0[..SYSFS + 64]
            .iter()
            .chain(&accel.0[FIRST_REGION..][..door::WORDS]);
        for word in control {
            let value = next();
            // Small numbers are likelier to be taken for something.
            word.store(if value % 3 == 0 { value % 200 } else { value }, Ordering::Relaxed);
        }
        let opening = region.wanted();
        for n in 0..200 {
            let _ = region.submit(&job(opening, n));
            let _ = region.take();
        }
        let _ = (
            accel.sysfs(),
            accel.queues(),
            accel.model(),
            accel.used() <= REGIONS,
            accel.ring(),
        );
        assert!(accel.set_sysfs("a=b\n") && accel.ask(0).is_some(), "{round}");
        region.open(round + 1, core::iter::once((round as u32, 1)));
        assert!(region.submit(&job(1, 1)) && region.take().is_some());
    }
}
