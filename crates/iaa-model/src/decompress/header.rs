//! Block headers, and what is wrong with them (data sheet A6, error codes 1 to 14).

use crate::aecs::Position;
use crate::bits::BitReader;
use crate::huffman::{Decoder, is_over_subscribed};
use crate::status::ErrorCode;
use crate::symbols::{CL_ORDER, D, LL, fixed_lengths};

/// The longest code of the header's own alphabet.
pub(super) const CL_LENGTH_MAX: usize = 7;

type Lengths = Option<Box<([u8; 288], [u8; 32])>>;

/// Read a header. Missing input reads as zeros: the caller looks whether it ran beyond the end.
pub(super) fn read(bits: &mut BitReader<'_>, runs_cross: bool) -> Result<(Position, Lengths), ErrorCode> {
    let is_final = bits.take(1) == 1;
    match bits.take(2) {
        0 => stored(bits, is_final),
        1 => Ok((Position::Token { is_final }, Some(Box::new(fixed_lengths())))),
        2 => Ok((Position::Token { is_final }, Some(Box::new(dynamic(bits, runs_cross)?)))),
        _ => Err(ErrorCode::BlockType),
    }
}

fn stored(bits: &mut BitReader<'_>, is_final: bool) -> Result<(Position, Lengths), ErrorCode> {
    bits.align();
    let (left, complement) = (bits.take(16) as u16, bits.take(16) as u16);
    if left != !complement {
        return Err(ErrorCode::StoredLength);
    }
    Ok((Position::Stored { is_final, left }, None))
}

fn dynamic(bits: &mut BitReader<'_>, runs_cross: bool) -> Result<([u8; 288], [u8; 32]), ErrorCode> {
    let ll_count = bits.take(5) as usize + 257;
    let d_count = bits.take(5) as usize + 1;
    let cl_count = bits.take(4) as usize + 4;
    if ll_count > LL {
        return Err(ErrorCode::ManyLl);
    }
    if d_count > D {
        return Err(ErrorCode::ManyD);
    }
    let mut cl = [0; 19];
    CL_ORDER[..cl_count]
        .iter()
        .for_each(|symbol| cl[*symbol] = bits.take(3) as u8);
    if is_over_subscribed(&cl) {
        return Err(ErrorCode::ClOverSubscribed);
    }
    let list = unpack(bits, &Decoder::new(&cl), ll_count, ll_count + d_count, runs_cross)?;
    let (mut ll, mut d) = ([0; 288], [0; 32]);
    ll[..ll_count].copy_from_slice(&list[..ll_count]);
    d[..d_count].copy_from_slice(&list[ll_count..]);
    match () {
        () if ll.iter().all(|length| *length == 0) => Err(ErrorCode::NoLl),
        () if is_over_subscribed(&ll) => Err(ErrorCode::LlOverSubscribed),
        () if is_over_subscribed(&d) => Err(ErrorCode::DOverSubscribed),
        () => Ok((ll, d)),
    }
}

/// The lengths of both codes: `ll_count` of the first, `count` in all.
///
/// Errors 4 and 6 name repetitions that cross from one into the other. RFC 1951 allows them, so
/// whether they are errors is a choice of the model's user.
fn unpack(
    bits: &mut BitReader<'_>,
    decoder: &Decoder,
    ll_count: usize,
    count: usize,
    runs_cross: bool,
) -> Result<Vec<u8>, ErrorCode> {
    let mut list = Vec::with_capacity(count);
    while list.len() < count && !bits.is_overrun() {
        let (symbol, length) = decoder.symbol(bits.peek()).ok_or(ErrorCode::UndefinedCl)?;
        bits.skip(length);
        let at = list.len();
        let (value, run) = match symbol {
            16 if at == 0 => return Err(ErrorCode::FirstLlIs16),
            16 if at == ll_count && !runs_cross => return Err(ErrorCode::FirstDIs16),
            16 => (list[at - 1], 3 + bits.take(2)),
            17 => (0, 3 + bits.take(3)),
            18 => (0, 11 + bits.take(7)),
            literal => (literal as u8, 1),
        };
        list.extend(std::iter::repeat_n(value, run as usize));
        if at < ll_count && list.len() > ll_count && !runs_cross {
            return Err(ErrorCode::LlCount);
        }
    }
    list.resize(count.max(list.len()), 0);
    if list.len() > count {
        return Err(ErrorCode::DCount);
    }
    Ok(list)
}
