//! Pages of heaps are words, not text: pointers to the same few places, small numbers, zeros (WKdm:
//! Wilson, Kaplan and Smaragdakis, "The Case for Compressed Caching in Virtual Memory Systems",
//! 1999). Here the words have 64 bits, and nothing depends on a branch: heaps make those
//! unpredictable, and a mispredicted one costs as much as three words.
//!
//! ```text
//! | pieces, of 0 to 8 bytes | classes, 3 bits a word   | which groups are there |
//! | one for each word       | so 3 bytes for a group   | 8 bytes                |
//! ```
//! A group is eight words; one that is all zeros is left out. *Recent* words are the last 256 that
//! were not left out, in a ring: word `n` of the page is at place `n % 256` until word `n + 256`
//! comes. What a place holds is the same for both sides at each word, so it does not matter to the
//! reader how the writer found it. The bytes behind the pieces are always enough for a whole word
//! to be read or written where a piece begins.

use super::class::{CLASS_AND_LEN, Class, LEN};

const PAGE: usize = 4096;
const WORD: usize = 8;
/// Words of a group, and groups of a page.
const GROUP: usize = 8;
const GROUPS: usize = PAGE / WORD / GROUP;
/// Bytes that the classes of a group take.
const CLASSES: usize = 3;
const RECENT: usize = 256;
/// After so many groups a page that has come to more than its share is given up.
const PROBE: usize = GROUPS / 4;

/// 2^64 and 2^32 over the golden ratio: their products have their best bits at the top.
const HASH64: u64 = 0x9e37_79b9_7f4a_7c15;
const HASH32: u32 = 0x9e37_79b9;

/// The recent words, and where one with the same upper 48 bits, or the same lower half, was seen
/// last.
struct Recent {
    words: [u64; RECENT],
    by_upper: [u8; 256],
    by_lower: [u8; 256],
}

/// What stands for a word.
struct Piece {
    bytes: u64,
    len: usize,
    class: u32,
}

impl Recent {
    /// The word `n` (modulo [`RECENT`]) of the page.
    #[inline(always)]
    fn piece(&mut self, n: u8, word: u64) -> Piece {
        let (upper_half, lower_half) = (word >> 32, word as u32);
        let by_upper = &mut self.by_upper[((word >> 16).wrapping_mul(HASH64) >> 56) as usize];
        let upper = core::mem::replace(by_upper, n);
        let by_lower = &mut self.by_lower[(lower_half.wrapping_mul(HASH32) >> 24) as usize];
        let lower = core::mem::replace(by_lower, n);
        let difference = self.words[usize::from(upper)] ^ word;
        let lower_difference = self.words[usize::from(lower)] as u32 ^ lower_half;
        self.words[usize::from(n)] = word;
        // The highest bit of `CLASS_AND_LEN` first; each is one comparison and one addition with
        // carry.
        let facts = [
            difference < 1,
            difference < 1 << 16,
            lower_difference < 1,
            lower_half < 1,
            upper_half < 1,
            word < 1 << 16,
        ];
        let facts = facts.into_iter().fold(0, |bits, fact| bits + bits + usize::from(fact));
        let (class, len) = CLASS_AND_LEN[facts & 63];
        let is_recent = class <= Class::UpperRecent as u8;
        let is_half = class >= Class::UpperHalf as u8;
        let bytes = core::hint::select_unpredictable(is_recent, word << 8 | u64::from(upper), word);
        let bytes = core::hint::select_unpredictable(is_half, u64::from(lower) << 32 | upper_half, bytes);
        Piece {
            bytes,
            len: len.into(),
            class: class.into(),
        }
    }
}

fn words_of(group: &[u8; GROUP * WORD]) -> [u64; GROUP] {
    let bytes = group.as_chunks::<WORD>().0;
    core::array::from_fn(|i| u64::from_le_bytes(bytes[i]))
}

/// Compress a page into `out`. Returns how many bytes it takes there; `None`: it does not fit, or
/// it does not look as if it would come to at most `good` bytes.
pub(super) fn compress(page: &[u8; PAGE], out: &mut [u8], good: usize) -> Option<usize> {
    let mut recent = Recent {
        words: [0; RECENT],
        by_upper: [0; 256],
        by_lower: [0; 256],
    };
    let mut classes = [0; GROUPS * CLASSES];
    let (mut at, mut groups, mut present) = (0, 0, 0u64);
    for (k, group) in page.as_chunks::<{ GROUP * WORD }>().0.iter().enumerate() {
        let words = words_of(group);
        if words.iter().fold(0, |all, word| all | word) == 0 {
            continue;
        }
        let mut tags = 0u32;
        let mut one = |i: usize| {
            let piece = recent.piece((k * GROUP + i) as u8, words[i]);
            out.get_mut(at..at + WORD)?.copy_from_slice(&piece.bytes.to_le_bytes());
            at += piece.len;
            tags |= piece.class << (3 * i);
            Some(())
        };
        // One by one: a loop would not be unrolled.
        one(0)?;
        one(1)?;
        one(2)?;
        one(3)?;
        one(4)?;
        one(5)?;
        one(6)?;
        one(7)?;
        classes[groups * CLASSES..][..CLASSES].copy_from_slice(&tags.to_le_bytes()[..CLASSES]);
        groups += 1;
        present |= 1 << k;
        if k == PROBE && at > good / (GROUPS / PROBE) / 4 * 5 {
            return None;
        }
    }
    let (classes, end) = (&classes[..groups * CLASSES], at + groups * CLASSES);
    out.get_mut(at..end)?.copy_from_slice(classes);
    out.get_mut(end..end + 8)?.copy_from_slice(&present.to_le_bytes());
    Some(end + 8)
}

/// For each class, what of its piece counts, and what of the recent words that its bytes name.
const PIECE: [u64; 8] = [
    0,
    0xff,
    0xff_ffff,
    0xffff,
    0xffff_ffff,
    u64::MAX,
    0xffff_ffff,
    0xff_ffff_ffff,
];
const UPPER: [u64; 8] = [0, u64::MAX, !0xffff, 0, 0, 0, 0, 0];
const LOWER: [u64; 8] = [0, 0, 0, 0, 0, 0, 0, 0xffff_ffff];

/// The inverse of [`compress`]. False: the block is damaged, `page` is undefined.
pub(super) fn decompress(block: &[u8], page: &mut [u8; PAGE]) -> bool {
    let Some((rest, present)) = block.split_last_chunk::<8>() else {
        return false;
    };
    let present = u64::from_le_bytes(*present);
    let Some(end) = rest.len().checked_sub(present.count_ones() as usize * CLASSES) else {
        return false;
    };
    let mut classes = rest[end..].as_chunks::<CLASSES>().0.iter();
    let mut words = [0u64; RECENT];
    let mut at = 0;
    for (k, group) in page.as_chunks_mut::<{ GROUP * WORD }>().0.iter_mut().enumerate() {
        let Some(&[a, b, c]) = classes.as_slice().first().filter(|_| present >> k & 1 == 1) else {
            group.fill(0);
            continue;
        };
        classes.next();
        let mut tags = u32::from_le_bytes([a, b, c, 0]);
        for (i, out) in group.as_chunks_mut::<WORD>().0.iter_mut().enumerate() {
            let class = tags as usize & 7;
            tags >>= 3;
            let Some(bytes) = block.get(at..).and_then(<[u8]>::first_chunk) else {
                return false;
            };
            let piece = u64::from_le_bytes(*bytes) & PIECE[class];
            at += LEN[class] as usize;
            let from_upper = words[piece as usize & 0xff] & UPPER[class] | piece >> 8;
            let from_lower = words[(piece >> 32) as usize & 0xff] & LOWER[class] | piece << 32;
            let is_recent = class <= Class::UpperRecent as usize;
            let is_half = class >= Class::UpperHalf as usize;
            let word = core::hint::select_unpredictable(is_recent, from_upper, piece);
            let word = core::hint::select_unpredictable(is_half, from_lower, word);
            words[(k * GROUP + i) % RECENT] = word;
            *out = word.to_le_bytes();
        }
    }
    at == end
}
