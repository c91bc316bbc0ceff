//! Every interleaving of a few operations: `RUSTFLAGS="--cfg loom" cargo test -p uzswap-mm --lib --release loom`.
//!
//! Waiting for an entry's lock is left out (loom follows a spin for ever); real threads do that in `test`.

use alloc::vec::Vec;
use loom::sync::Arc;
use loom::thread;

use super::*;

const A: Vpn = Vpn::new(0);
const B: Vpn = Vpn::new(CLUSTER_PAGES as u64);

/// A table with room for `clusters`, whose directory is there already.
fn table(clusters: usize) -> Arc<SwapTable> {
    let words: Vec<AtomicU64> = (0..clusters * CLUSTER_PAGES).map(|_| AtomicU64::new(0)).collect();
    let memory = TableMemory {
        words: Vec::leak(words),
        release: |words| words.iter().for_each(|word| word.store(0, Ordering::Relaxed)),
    };
    let table = SwapTable::new(memory);
    table.publish(A, Slot::None);
    Arc::new(table)
}

fn filled(word: u32) -> Slot {
    Slot::Filled { word }
}

#[test]
fn loom_a_lookup_sees_the_old_word_or_the_new() {
    loom::model(|| {
        let table = table(1);
        table.publish(A, filled(1));
        let writer = {
            let table = table.clone();
            thread::spawn(move || assert_eq!(table.publish(A, filled(2)), filled(1)))
        };
        let seen = table.lookup(A);
        assert!(seen == filled(1) || seen == filled(2), "{seen:?}");
        writer.join().unwrap();
        assert_eq!(table.lookup(A), filled(2));
    });
}

/// The only cluster is given back and becomes another range's, and comes back, while a lookup is at it.
#[test]
fn loom_a_lookup_never_sees_the_word_of_another_range() {
    loom::model(|| {
        let table = table(1);
        table.publish(A, filled(1));
        let writer = {
            let table = table.clone();
            thread::spawn(move || {
                table.publish(A, Slot::None);
                table.publish(B, filled(2));
                table.publish(B, Slot::None);
                table.publish(A, filled(3));
            })
        };
        let seen = table.lookup(A);
        assert!([filled(1), Slot::None, filled(3)].contains(&seen), "{seen:?}");
        writer.join().unwrap();
    });
}

#[test]
fn loom_two_ranges_never_share_a_cluster() {
    loom::model(|| {
        let table = table(2);
        let other = {
            let table = table.clone();
            thread::spawn(move || {
                table.publish(B, filled(2));
                assert_eq!(table.publish(B, Slot::None), filled(2));
            })
        };
        table.publish(A, filled(1));
        assert_eq!(table.publish(A, Slot::None), filled(1));
        other.join().unwrap();
        assert_eq!(table.bytes(), 0);
    });
}
