//! Every interleaving of a few operations: `RUSTFLAGS="--cfg loom" cargo test -p uzswap-mm --lib
//! --release loom`.

use alloc::vec;
use alloc::vec::Vec;
use loom::sync::Arc;
use loom::thread;

use super::*;
use crate::sim::VecArena;

type Pool = Zsmalloc<parking_lot::RawMutex, VecArena>;

/// Lengths of two classes.
const A: usize = 2000;
const B: usize = 3000;

/// A pool of `spans` spans.
fn pool(spans: usize) -> Arc<Pool> {
    Arc::new(Zsmalloc::new(VecArena::new(spans * SPAN_PAGES)))
}

fn put(pool: &Pool, len: usize, byte: u8) -> Place {
    pool.store(&vec![byte; len], None).unwrap()
}

fn holds(pool: &Pool, place: Place, len: usize, byte: u8) -> bool {
    let mut is_same = false;
    pool.with(place, len, &mut |bytes, _| is_same = bytes.iter().all(|b| *b == byte));
    is_same
}

#[test]
fn loom_two_stores_of_a_class_share_no_object() {
    loom::model(|| {
        let pool = pool(2);
        let other = {
            let pool = pool.clone();
            thread::spawn(move || put(&pool, A, 1))
        };
        let (mine, its) = (put(&pool, A, 2), other.join().unwrap());
        assert!(holds(&pool, mine, A, 2) && holds(&pool, its, A, 1));
        assert!(pool.is_valid() && pool.objects() == 2);
    });
}

/// One class empties its zspage while another needs one; there is address space for one only, then
/// for two.
#[test]
fn loom_a_span_is_of_one_class() {
    for spans in [1, 2] {
        loom::model(move || {
            let pool = pool(spans);
            let first = put(&pool, A, 1);
            let other = {
                let pool = pool.clone();
                thread::spawn(move || pool.free(first, A))
            };
            let second = pool.store(&[2; B], None);
            other.join().unwrap();
            match second {
                Ok(place) => assert!(holds(&pool, place, B, 2)),
                Err(PoolFull) => assert_eq!(spans, 1),
            }
            assert!(pool.is_valid());
        });
    }
}

/// The object that is read lies beside one that is freed and stored anew.
#[test]
fn loom_a_reader_sees_its_object_whole() {
    loom::model(|| {
        let pool = pool(1);
        let (mine, beside) = (put(&pool, A, 1), put(&pool, A, 2));
        let other = {
            let pool = pool.clone();
            thread::spawn(move || {
                pool.free(beside, A);
                put(&pool, A, 3)
            })
        };
        assert!(holds(&pool, mine, A, 1));
        let its = other.join().unwrap();
        assert!(holds(&pool, mine, A, 1) && holds(&pool, its, A, 3));
        assert!(pool.is_valid());
    });
}

/// Compaction, which moves what its caller has found by a word, beside a store and a free of the
/// same class.
#[test]
fn loom_compaction_beside_stores_and_frees() {
    loom::model(|| {
        let pool = pool(3);
        let objects = usize::from(size_class::CLASSES[size_class::of(A)].objects);
        let mut places: Vec<Place> = (0..=objects).map(|i| put(&pool, A, i as u8)).collect();
        let (mine, its) = (places.remove(objects), places.remove(1));
        pool.free(places.remove(0), A);
        let other = {
            let pool = pool.clone();
            thread::spawn(move || {
                pool.free(its, A);
                put(&pool, A, 9)
            })
        };
        pool.begin_compaction();
        let mine = pool.relocate(mine, A).unwrap_or(mine);
        pool.end_compaction();
        let new = other.join().unwrap();
        assert!(holds(&pool, mine, A, objects as u8) && holds(&pool, new, A, 9));
        assert!(pool.is_valid());
    });
}
