//! The header of a dynamic block (RFC 1951, 3.2.7).

use crate::bits::BitWriter;
use crate::huffman;
use crate::symbols::CL_ORDER;

const CL_LENGTH_MAX: usize = 7;
/// Repetitions: symbol, fewest, most, bits of the count. Others repeat nothing.
const PREVIOUS: (u8, usize, usize, u32) = (16, 3, 6, 2);
const ZEROS: (u8, usize, usize, u32) = (17, 3, 10, 3);
const MANY_ZEROS: (u8, usize, usize, u32) = (18, 11, 138, 7);

/// One step of the header's list: a symbol with its count above the fewest.
struct Step {
    symbol: u8,
    extra: u32,
    bits: u32,
}

fn repeat((symbol, fewest, most, bits): (u8, usize, usize, u32), run: usize, steps: &mut Vec<Step>) -> usize {
    let count = run.min(most);
    steps.push(Step {
        symbol,
        extra: (count - fewest) as u32,
        bits,
    });
    count
}

/// `lengths` as steps. The two lists are packed one by one: no repetition crosses from one into the
/// other.
fn pack(lengths: &[u8], steps: &mut Vec<Step>) {
    let mut at = 0;
    while at < lengths.len() {
        let length = lengths[at];
        let run = lengths[at..].iter().take_while(|next| **next == length).count();
        let repeats = at > 0 && lengths[at - 1] == length;
        at += match (length, run) {
            (0, 11..) => repeat(MANY_ZEROS, run, steps),
            (0, 3..) => repeat(ZEROS, run, steps),
            (1.., 3..) if repeats => repeat(PREVIOUS, run, steps),
            _ => {
                steps.push(Step {
                    symbol: length,
                    extra: 0,
                    bits: 0,
                });
                1
            }
        };
    }
}

fn used(lengths: &[u8], fewest: usize) -> usize {
    lengths
        .iter()
        .rposition(|length| *length > 0)
        .map_or(0, |last| last + 1)
        .max(fewest)
}

/// Append BFINAL, BTYPE 2 and the code lengths.
pub(super) fn push(bits: &mut BitWriter, ll: &[u8], d: &[u8], is_final: bool) {
    let (ll, d) = (&ll[..used(ll, 257)], &d[..used(d, 1)]);
    let mut steps = Vec::new();
    pack(ll, &mut steps);
    pack(d, &mut steps);
    let mut frequencies = [0; 19];
    steps.iter().for_each(|step| frequencies[usize::from(step.symbol)] += 1);
    let lengths = huffman::lengths(&frequencies, CL_LENGTH_MAX);
    let codes = huffman::codes(&lengths);
    let cl_count = CL_ORDER
        .iter()
        .rposition(|symbol| lengths[*symbol] > 0)
        .map_or(4, |last| last + 1)
        .max(4);
    bits.push(u32::from(is_final) | 2 << 1, 3);
    bits.push((ll.len() - 257) as u32, 5);
    bits.push((d.len() - 1) as u32, 5);
    bits.push((cl_count - 4) as u32, 4);
    CL_ORDER[..cl_count]
        .iter()
        .for_each(|symbol| bits.push(u32::from(lengths[*symbol]), 3));
    for step in steps {
        let (code, length) = (
            codes[usize::from(step.symbol)],
            u32::from(lengths[usize::from(step.symbol)]),
        );
        bits.push(u32::from(code.reverse_bits()) >> (16 - length), length);
        bits.push(step.extra, step.bits);
    }
}
