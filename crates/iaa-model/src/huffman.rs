//! Huffman codes: lengths from frequencies, codes from lengths, symbols from bits.

/// The longest code of DEFLATE.
pub const LENGTH_MAX: usize = 15;

/// How many codes there are of each length.
pub fn counts(lengths: &[u8]) -> [u16; LENGTH_MAX + 1] {
    let mut counts = [0; LENGTH_MAX + 1];
    lengths.iter().for_each(|length| counts[usize::from(*length)] += 1);
    counts[0] = 0;
    counts
}

/// The first code of each length, most significant bit first.
pub fn first_codes(lengths: &[u8]) -> [u16; LENGTH_MAX + 1] {
    let counts = counts(lengths);
    let mut first = [0; LENGTH_MAX + 1];
    for length in 1..=LENGTH_MAX {
        first[length] = ((u32::from(first[length - 1]) + u32::from(counts[length - 1])) << 1) as u16;
    }
    first
}

/// The canonical code of each symbol, most significant bit first; 0 where there is none.
pub fn codes(lengths: &[u8]) -> Vec<u16> {
    let mut next = first_codes(lengths);
    let mut code = |length: &u8| match length {
        0 => 0,
        _ => {
            next[usize::from(*length)] += 1;
            next[usize::from(*length)] - 1
        }
    };
    lengths.iter().map(&mut code).collect()
}

/// Whether the lengths ask for more codes than there are.
pub fn is_over_subscribed(lengths: &[u8]) -> bool {
    let space = |(length, count): (usize, &u16)| u32::from(*count) << (LENGTH_MAX - length);
    counts(lengths).iter().enumerate().skip(1).map(space).sum::<u32>() > 1 << LENGTH_MAX
}

/// How deep each symbol of `frequencies` lies in a Huffman tree, without a limit.
fn depths(frequencies: &[u32]) -> Vec<usize> {
    use std::cmp::Reverse;
    use std::collections::BinaryHeap;
    let used = frequencies.iter().enumerate().filter(|(_, count)| **count > 0);
    let mut heap: BinaryHeap<_> = used
        .map(|(symbol, count)| Reverse((u64::from(*count), symbol)))
        .collect();
    let mut parents = vec![usize::MAX; frequencies.len()];
    while heap.len() > 1 {
        let (Some(Reverse(a)), Some(Reverse(b))) = (heap.pop(), heap.pop()) else {
            break;
        };
        let parent = parents.len();
        parents.push(usize::MAX);
        (parents[a.1], parents[b.1]) = (parent, parent);
        heap.push(Reverse((a.0 + b.0, parent)));
    }
    let depth = |symbol: usize| {
        std::iter::successors(Some(symbol), |at| Some(parents[*at]).filter(|at| *at != usize::MAX)).count() - 1
    };
    (0..frequencies.len()).map(depth).collect()
}

/// Code lengths of at most `limit` for `frequencies`. Fewer than two symbols get company, so that
/// every reader finds a complete code.
pub fn lengths(frequencies: &[u32], limit: usize) -> Vec<u8> {
    let mut frequencies = frequencies.to_vec();
    while frequencies.iter().filter(|count| **count > 0).count() < 2 {
        let unused = frequencies
            .iter()
            .position(|count| *count == 0)
            .expect("two symbols at least");
        frequencies[unused] = 1;
    }
    let depths = depths(&frequencies);
    let mut counts = vec![0u32; limit + 1];
    let mut symbols: Vec<_> = (0..frequencies.len())
        .filter(|symbol| frequencies[*symbol] > 0)
        .collect();
    symbols
        .iter()
        .for_each(|symbol| counts[depths[*symbol].min(limit)] += 1);
    // Cutting the depth took more space than there is: lengthen shorter codes until all fit.
    let space = |counts: &[u32]| {
        (1..=limit)
            .map(|length| counts[length] << (limit - length))
            .sum::<u32>()
    };
    while space(&counts) > 1 << limit {
        let shorter = (1..limit)
            .rev()
            .find(|length| counts[*length] > 0)
            .expect("a shorter code");
        counts[shorter] -= 1;
        counts[shorter + 1] += 2;
        counts[limit] -= 1;
    }
    symbols.sort_by_key(|symbol| (std::cmp::Reverse(frequencies[*symbol]), *symbol));
    let by_length = (1..=limit).flat_map(|length| std::iter::repeat_n(length as u8, counts[length] as usize));
    let mut lengths = vec![0; frequencies.len()];
    symbols
        .iter()
        .zip(by_length)
        .for_each(|(symbol, length)| lengths[*symbol] = length);
    lengths
}

const FAST_BITS: u32 = 9;

/// Finds the symbol that the next bits stand for.
#[derive(Clone, Debug)]
pub struct Decoder {
    /// By the next bits: symbol << 4 | length, or 0 where the code is longer or is none.
    fast: Vec<u16>,
    counts: [u16; LENGTH_MAX + 1],
    /// By code.
    sorted: Vec<u16>,
}

impl Decoder {
    /// The decoder of a code that is not over-subscribed.
    pub fn new(lengths: &[u8]) -> Self {
        let mut sorted: Vec<_> = (0..lengths.len() as u16)
            .filter(|symbol| lengths[usize::from(*symbol)] > 0)
            .collect();
        sorted.sort_by_key(|symbol| (lengths[usize::from(*symbol)], *symbol));
        let mut fast = vec![0; 1 << FAST_BITS];
        for (symbol, code) in codes(lengths).iter().enumerate() {
            let length = u32::from(lengths[symbol]);
            if (1..=FAST_BITS).contains(&length) {
                let first = usize::from(code.reverse_bits() >> (16 - length));
                let entry = (symbol as u16) << 4 | length as u16;
                fast.iter_mut()
                    .skip(first)
                    .step_by(1 << length)
                    .for_each(|at| *at = entry);
            }
        }
        Self {
            fast,
            counts: counts(lengths),
            sorted,
        }
    }

    /// Symbol and length of the code that `bits` begin with, if there is one.
    pub fn symbol(&self, bits: u32) -> Option<(usize, u32)> {
        let entry = self.fast[(bits & ((1 << FAST_BITS) - 1)) as usize];
        if entry != 0 {
            return Some((usize::from(entry >> 4), u32::from(entry & 15)));
        }
        let (mut code, mut first, mut index) = (0u32, 0u32, 0u32);
        for length in 1..=LENGTH_MAX {
            code = code << 1 | bits >> (length - 1) & 1;
            first <<= 1;
            let count = u32::from(self.counts[length]);
            if code < first + count {
                let symbol = self.sorted[(index + code - first) as usize];
                return Some((usize::from(symbol), length as u32));
            }
            index += count;
            first += count;
        }
        None
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::random::Random;

    #[test]
    fn limited_lengths_fill_the_code_space() {
        let mut random = Random::new(7);
        for round in 0..200 {
            let frequencies: Vec<_> = (0..30).map(|_| (random.bits() >> (32 + round % 32)) as u32).collect();
            let lengths = lengths(&frequencies, 7);
            assert!(!is_over_subscribed(&lengths));
            assert!(lengths.iter().all(|length| *length <= 7));
            let decoder = Decoder::new(&lengths);
            for (symbol, code) in codes(&lengths).iter().enumerate() {
                let length = u32::from(lengths[symbol]);
                assert!(frequencies[symbol] == 0 || length > 0);
                if length > 0 {
                    let bits = u32::from(code.reverse_bits() >> (16 - length));
                    assert_eq!(decoder.symbol(bits), Some((symbol, length)));
                }
            }
        }
    }
}
