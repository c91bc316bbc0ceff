use super::*;
use crate::test::config;
use proptest::prelude::*;
use uzswap_acomp::Codec;

const OPS_MAX: usize = if cfg!(miri) { 15 } else { 200 };
const LEN_MAX: u32 = if cfg!(miri) { 40 } else { 400 };

fn page(slot: u32) -> Blob {
    let at = u64::from(slot) * 256;
    Blob {
        device: 0,
        at,
        len: 4096,
        codec: Codec::Raw,
    }
}

proptest! {
    #![proptest_config(config(256, 3))]
    #[test]
    fn never_hands_out_a_slot_twice(ops in proptest::collection::vec((0..8u8, 1..LEN_MAX), 1..OPS_MAX)) {
        const MAX: u64 = 1300;
        let (mut slots, mut live, mut pins) = (SwapSlots::new(MAX), BTreeSet::new(), Vec::new());
        slots.allow_aside();
        for (op, n) in ops {
            match op {
                0 | 1 => if let Some((start, len)) = slots.alloc(n) {
                    prop_assert!(len >= 1 && u64::from(start + len) <= MAX);
                    prop_assert!(!slots.set_aside(start / SEGMENT), "somebody writes there");
                    for slot in start..start + len {
                        slots.add(&page(slot));
                        prop_assert!(!slots.segments_aside().any(|segment| segment == slot / SEGMENT));
                        prop_assert!(live.insert(slot));
                        prop_assert!(pins.iter().all(|(_, set): &(PinId, BTreeSet<u32>)| !set.contains(&slot)));
                    }
                    slots.put(start, len);
                } else {
                    let aside = slots.segments_aside().flat_map(|segment| segment * SEGMENT..(segment + 1) * SEGMENT).collect::<Vec<_>>();
                    let pinned = pins.iter().flat_map(|(_, set)| set.iter());
                    let taken = live.iter().chain(pinned).chain(&aside).filter(|slot| u64::from(**slot) < MAX);
                    prop_assert_eq!(taken.collect::<BTreeSet<_>>().len() as u64, MAX);
                },
                // A few at a time, neighbours or not.
                2 => for slot in live.iter().copied().filter(|slot| slot % 7 == n % 7).take(n as usize).collect::<Vec<_>>() {
                    live.remove(&slot);
                    slots.free(&page(slot));
                },
                3 => for slot in live.range(n..n + 300).copied().collect::<Vec<_>>() {
                    live.remove(&slot);
                    slots.free(&page(slot));
                },
                4 => if let Some(first) = slots.begin_discard() {
                    prop_assert!(live.range(first..first + CLUSTER).next().is_none());
                    slots.discarded(first);
                },
                5 => if slots.set_aside(n / 17) {
                    let used = |segment: &u32| slots.full_segments(segment / 8, 1, 0).contains(segment);
                    prop_assert!(!used(&(n / 17)));
                },
                6 => for segment in slots.emptied_segments().collect::<Vec<_>>() {
                    prop_assert!(live.range(segment * SEGMENT..(segment + 1) * SEGMENT).next().is_none());
                    slots.bring_back(segment);
                },
                _ => if pins.len() < 2 { pins.push((slots.pin_all(), live.clone())) } else { slots.unpin(pins.remove(0).0) },
            }
            prop_assert_eq!(slots.in_use(), live.len() as u64);
            prop_assert!(slots.is_valid());
        }
    }
}

#[test]
fn a_slot_is_free_when_its_last_blob_is() {
    let mut slots = SwapSlots::new(10);
    let (first, len) = slots.alloc(3).unwrap();
    assert_eq!((first, len), (0, 3));
    let blob = |at, len| Blob {
        device: 0,
        at,
        len,
        codec: Codec::Lz4,
    };
    // The second straddles slots 0 and 1.
    let blobs = [blob(0, 3000), blob(188, 2000), blob(314, 1000)];
    blobs.iter().for_each(|blob| slots.add(blob));
    slots.put(0, 3);
    assert_eq!(slots.in_use(), 2, "nothing was put into slot 2");
    slots.free(&blobs[0]);
    assert_eq!(slots.in_use(), 2);
    slots.free(&blobs[1]);
    assert_eq!(slots.in_use(), 1);
    assert_eq!(slots.alloc(1), Some((0, 1)), "the writer goes on where there is room");
    slots.free(&blobs[2]);
    assert_eq!(slots.in_use(), 1);
}

#[test]
fn runs_are_contiguous_while_there_is_room_and_empty_clusters_come_back() {
    let mut slots = SwapSlots::new(4 * 512);
    for round in 0..64 {
        assert_eq!(slots.alloc(32), Some((round * 32, 32)));
    }
    assert_eq!(slots.alloc(32), None);
    (512..1024).for_each(|slot| slots.free(&page(slot)));
    (0..512).step_by(2).for_each(|slot| slots.free(&page(slot)));
    assert_eq!(slots.begin_discard(), Some(512));
    assert_eq!(slots.begin_discard(), None);
    let (start, len) = slots.alloc(32).unwrap();
    assert!(
        start < 512 && len == 1,
        "a cluster is not used while its space is given back"
    );
    slots.discarded(512);
    assert_eq!(slots.alloc(32), Some((512, 32)));
}

#[test]
fn what_is_set_aside_is_not_written_to_and_comes_back_when_it_is_empty() {
    let mut slots = SwapSlots::new(512);
    slots.allow_aside();
    let (first, len) = slots.alloc(100).unwrap();
    assert!(!slots.set_aside(0), "a writer holds it");
    (first..len).for_each(|slot| slots.add(&page(slot)));
    slots.put(first, len);
    assert_eq!(slots.full_segments(0, 9, SEGMENT), [0]);
    assert!(slots.set_aside(0) && slots.set_aside(1) && !slots.set_aside(2));
    assert_eq!(slots.alloc(10), Some((128, 10)), "not the rest of segment 1");
    (64..100).for_each(|slot| slots.free(&page(slot)));
    assert_eq!(slots.emptied_segments().collect::<Vec<_>>(), [1]);
    slots.bring_back(1);
    assert_eq!(slots.segments_aside().collect::<Vec<_>>(), [0]);
    assert_eq!(slots.alloc(500).map(|(_, len)| len), Some(374));
    let pin = slots.pin_all();
    (0..64).for_each(|slot| slots.free(&page(slot)));
    assert_eq!(slots.emptied_segments().next(), None, "a child reads it");
    slots.unpin(pin);
    assert_eq!(slots.emptied_segments().next(), Some(0));
    assert!(slots.is_valid());
}

#[test]
fn nothing_is_set_aside_where_nobody_looks_who_writes() {
    let mut slots = SwapSlots::new(512);
    let (first, len) = slots.alloc(64).unwrap();
    (first..len).for_each(|slot| slots.add(&page(slot)));
    slots.put(first, len);
    assert!(!slots.set_aside(0));
}
