//! A greedy match finder: a hash of three bytes, short chains, a window of 4 KiB.

use crate::symbols::{HISTORY, MATCH_MAX, Token};

const MATCH_MIN: usize = 3;
const HASH_BITS: u32 = 12;
/// Earlier places with the same hash that are tried.
const CHAIN_MAX: usize = 8;
const NOWHERE: u32 = u32::MAX;

struct Finder<'a> {
    source: &'a [u8],
    heads: Vec<u32>,
    /// By place in the window: the place before with the same hash.
    before: Vec<u32>,
}

impl Finder<'_> {
    fn hash(&self, at: usize) -> usize {
        let bytes = u32::from_le_bytes([self.source[at], self.source[at + 1], self.source[at + 2], 0]);
        (bytes.wrapping_mul(0x9e37_79b1) >> (32 - HASH_BITS)) as usize
    }

    /// Remember that three bytes are at `at`.
    fn insert(&mut self, at: usize) {
        if at + MATCH_MIN <= self.source.len() {
            let hash = self.hash(at);
            self.before[at % HISTORY] = self.heads[hash];
            self.heads[hash] = at as u32;
        }
    }

    /// Length and distance of the longest match at `at` among the places tried.
    fn find(&self, at: usize) -> Option<(usize, usize)> {
        if at + MATCH_MIN > self.source.len() {
            return None;
        }
        let most = MATCH_MAX.min(self.source.len() - at);
        let mut best = None;
        let mut place = self.heads[self.hash(at)];
        for _ in 0..CHAIN_MAX {
            let distance = at.wrapping_sub(place as usize);
            if place == NOWHERE || distance > HISTORY {
                break;
            }
            let pairs = self.source[place as usize..].iter().zip(&self.source[at..at + most]);
            let length = pairs.take_while(|(a, b)| a == b).count();
            if length >= MATCH_MIN && best.is_none_or(|(longest, _)| length > longest) {
                best = Some((length, distance));
            }
            let next = self.before[place as usize % HISTORY];
            // The ring may have been written over: a chain only ever leads backwards.
            if next != NOWHERE && next >= place {
                break;
            }
            place = next;
        }
        best
    }
}

/// `source` as literals and matches.
pub(super) fn tokens(source: &[u8]) -> Vec<Token> {
    let mut finder = Finder {
        source,
        heads: vec![NOWHERE; 1 << HASH_BITS],
        before: vec![NOWHERE; HISTORY],
    };
    let mut tokens = Vec::with_capacity(source.len() / 2);
    let mut at = 0;
    while at < source.len() {
        let found = finder.find(at);
        let length = found.map_or(1, |(length, _)| length);
        tokens.push(match found {
            Some((length, distance)) => Token::Match {
                length: length as u16,
                distance: distance as u16,
            },
            None => Token::Literal(source[at]),
        });
        (at..at + length).for_each(|at| finder.insert(at));
        at += length;
    }
    tokens
}
