//! Every interleaving of a few operations: `RUSTFLAGS="--cfg loom" cargo test -p uzswap-mm --lib
//! --release loom`.
//!
//! A leaf has two words here, a node two links, a slab two units.

use alloc::vec::Vec;
use loom::sync::Arc;
use loom::thread;

use super::*;

/// Pages of four leaves. The first two share a node, and all have a lock with a page of another
/// leaf.
const A: Vpn = Vpn::new(0);
const B: Vpn = Vpn::new(2);
const C: Vpn = Vpn::new(8);
/// In the leaf of the first.
const A2: Vpn = Vpn::new(1);

/// A table with room for `slabs`.
fn table(slabs: usize) -> Arc<SwapTable> {
    let words: Vec<AtomicU64> = (0..Units::words_of(slabs) + units::SLAB_WORDS)
        .map(|_| AtomicU64::new(0))
        .collect();
    Arc::new(SwapTable::new(TableMemory {
        words: Vec::leak(words),
        release: |words| {
            // Zeros already, and the model checker has as many stores less to follow.
            assert!(words.iter().all(|word| word.load(Ordering::Relaxed) == 0));
        },
    }))
}

fn filled(word: u32) -> Slot {
    Slot::Filled { word }
}

/// Run `f` in a thread of its own.
fn spawn(table: &Arc<SwapTable>, f: impl Fn(&SwapTable) + 'static) -> thread::JoinHandle<()> {
    let table = table.clone();
    thread::spawn(move || f(&table))
}

/// Put a word where there is none, or take it away.
fn put(table: &SwapTable, vpn: Vpn, word: u32) {
    assert_eq!(table.publish(vpn, filled(word)), Slot::None);
}

fn take(table: &SwapTable, vpn: Vpn, word: u32) {
    assert_eq!(table.publish(vpn, Slot::None), filled(word));
}

fn sees(table: &SwapTable, vpn: Vpn, slots: &[Slot]) {
    let seen = table.lookup(vpn);
    assert!(slots.contains(&seen), "{seen:?}");
}

#[test]
fn loom_a_lookup_sees_the_old_word_or_the_new() {
    loom::model(|| {
        let table = table(2);
        put(&table, A, 1);
        let writer = spawn(&table, |table| {
            assert_eq!(table.publish(A, filled(2)), filled(1));
        });
        sees(&table, A, &[filled(1), filled(2)]);
        writer.join().unwrap();
        sees(&table, A, &[filled(2)]);
    });
}

/// The only leaf is given back and becomes another page's, and comes back, while a lookup is at it.
#[test]
fn loom_a_lookup_never_sees_the_word_of_another_page() {
    loom::model(|| {
        let table = table(2);
        put(&table, A, 1);
        let writer = spawn(&table, |table| {
            take(table, A, 1);
            put(table, B, 2);
            take(table, B, 2);
            put(table, A, 3);
        });
        sees(&table, A, &[filled(1), Slot::None, filled(3)]);
        writer.join().unwrap();
    });
}

/// A node is put above a leaf, and taken away, while a lookup passes.
#[test]
fn loom_a_leaf_is_found_while_a_node_comes_and_goes() {
    loom::model(|| {
        let table = table(3);
        put(&table, A, 1);
        let writer = spawn(&table, |table| {
            put(table, B, 2);
            take(table, B, 2);
        });
        sees(&table, A, &[filled(1)]);
        writer.join().unwrap();
        sees(&table, B, &[Slot::None]);
    });
}

/// The node above a leaf goes, and is a leaf full of other words when a lookup gets there.
#[test]
fn loom_a_leaf_is_found_while_its_node_becomes_a_leaf() {
    loom::model(|| {
        let table = table(2);
        put(&table, A, 1);
        put(&table, B, 2);
        let writer = spawn(&table, |table| {
            take(table, B, 2);
            put(table, C, 3);
        });
        sees(&table, A, &[filled(1)]);
        writer.join().unwrap();
        sees(&table, A, &[filled(1)]);
        sees(&table, C, &[filled(3)]);
    });
}

/// Another update of the same leaf, which empties it.
#[test]
fn loom_a_leaf_that_two_share_is_given_back_once() {
    loom::model(|| {
        let table = table(2);
        put(&table, A, 1);
        let other = spawn(&table, |table| {
            put(table, A2, 2);
            take(table, A2, 2);
        });
        take(&table, A, 1);
        other.join().unwrap();
        assert_eq!(table.bytes(), 0);
    });
}

#[test]
fn loom_two_pages_never_share_a_leaf() {
    loom::model(|| {
        let table = table(3);
        let other = spawn(&table, |table| {
            put(table, B, 2);
            take(table, B, 2);
        });
        put(&table, A, 1);
        take(&table, A, 1);
        other.join().unwrap();
        assert_eq!(table.bytes(), 0);
    });
}

/// An update walks past a node that another takes away.
#[test]
fn loom_an_update_finds_its_leaf_while_a_node_goes() {
    loom::model(|| {
        let table = table(3);
        put(&table, A, 1);
        put(&table, B, 2);
        let other = spawn(&table, |table| take(table, B, 2));
        assert_eq!(table.publish(A, filled(3)), filled(1));
        other.join().unwrap();
        sees(&table, A, &[filled(3)]);
        take(&table, A, 3);
        assert_eq!(table.bytes(), 0);
    });
}
