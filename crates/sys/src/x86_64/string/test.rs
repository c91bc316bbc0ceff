//! What is written in assembly against what std does.

use alloc::vec::Vec;

use super::*;

const GUARD: usize = 70;

fn pattern(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 131 + i / 251 + seed) as u8).collect()
}

fn lengths() -> impl Iterator<Item = usize> {
    (0..300).chain([511, 767, 768, 769, 1000, 1024, 2047, 4095, 4096, 4097, 8200])
}

/// Both ways of doing it.
fn for_both_ways(f: impl Fn()) {
    f();
    choose();
    f();
    HAS_AVX2.store(false, Ordering::Relaxed);
}

#[test]
fn copies_what_is_asked_for_and_no_more() {
    for_both_ways(|| {
        for len in lengths() {
            for (a, b) in [(0, 0), (1, 0), (0, 1), (3, 7), (15, 16), (64, 63)] {
                let from = pattern(len + b, len);
                let mut to = pattern(len + a + GUARD, 99);
                let mut expected = to.clone();
                expected[a..a + len].copy_from_slice(&from[b..]);
                // SAFETY: both are in bounds.
                let answer = unsafe { copy(to.as_mut_ptr().add(a).cast(), from.as_ptr().add(b).cast(), len) };
                assert_eq!(answer.addr(), to.as_ptr().addr() + a);
                assert!(to == expected, "{len} bytes from {b} to {a}");
            }
        }
    });
}

#[test]
fn moves_within_itself() {
    for_both_ways(|| {
        for len in lengths() {
            for (a, b) in [
                (0, 1),
                (1, 0),
                (0, 5),
                (17, 0),
                (0, 63),
                (64, 0),
                (0, 64),
                (0, 65),
                (200, 0),
            ] {
                let mut bytes = pattern(len + 300, len);
                let mut expected = bytes.clone();
                expected.copy_within(b..b + len, a);
                // SAFETY: both are in bounds.
                unsafe { copy(bytes.as_mut_ptr().add(a).cast(), bytes.as_ptr().add(b).cast(), len) };
                assert!(bytes == expected, "{len} bytes from {b} to {a}");
            }
        }
    });
}

#[test]
fn fills_what_is_asked_for_and_no_more() {
    for_both_ways(|| {
        for len in lengths() {
            for at in [0, 1, 7, 16, 31] {
                let mut bytes = pattern(len + at + GUARD, 5);
                let mut expected = bytes.clone();
                expected[at..at + len].fill(0xa5);
                // SAFETY: in bounds. Only the low byte counts.
                let answer = unsafe { fill(bytes.as_mut_ptr().add(at).cast(), -0x5b, len) };
                assert_eq!(answer.addr(), bytes.as_ptr().addr() + at);
                assert!(bytes == expected, "{len} bytes at {at}");
            }
        }
    });
}

#[test]
fn compares_as_bytes_without_signs() {
    for_both_ways(compare_all);
}

fn compare_all() {
    for len in lengths() {
        let a = pattern(len, 3);
        let mut b = a.clone();
        let order = |a: &[u8], b: &[u8]| {
            // SAFETY: both are as long.
            unsafe { compare(a.as_ptr().cast(), b.as_ptr().cast(), len) }.signum()
        };
        assert_eq!(order(&a, &b), 0);
        for at in [0, 1, len / 2, len.saturating_sub(17), len.saturating_sub(1)] {
            if at < len {
                b[at] ^= 0x80;
                assert_eq!(order(&a, &b), a.cmp(&b) as i32, "{len} bytes, {at}");
                b[at] = a[at];
            }
        }
    }
}

#[test]
fn finds_the_end_of_text() {
    for len in 0..70 {
        let mut text = alloc::vec![0xffu8; len];
        text.extend([0, 1]);
        // SAFETY: it ends with a zero.
        assert_eq!(unsafe { length(text.as_ptr().cast()) }, len);
    }
}
