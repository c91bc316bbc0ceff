//! COMPRESS: DEFLATE by the codes of an AECS, with 4 KiB of history (data sheet A5, A8).
//!
//! The hardware's match finder is not documented, so sizes compare only statistically. With
//! GEN_LITS there is none, and the bytes are those of the hardware.

mod header;
mod matches;

use crate::aecs::CompressAecs;
use crate::bits::BitWriter;
use crate::descriptor::compr;
use crate::huffman;
use crate::status::ErrorCode;
use crate::symbols::{D, EOB, LL, Token, distance_symbol, length_symbol};

/// What a COMPRESS made.
pub(crate) struct Compressed {
    /// For the destination: at most as many bytes as it has room for.
    pub output: Vec<u8>,
    /// Valid bits of the last byte; 0: all.
    pub output_bits: u8,
    /// The AECS as it is now.
    pub aecs: CompressAecs,
    /// The first that was wrong. A prefix of the output is there when it did not fit.
    pub error: Option<ErrorCode>,
}

/// How often each symbol is used.
struct Histogram {
    ll: [u32; LL],
    d: [u32; D],
}

impl Histogram {
    fn of(tokens: &[Token], eob: bool) -> Self {
        let (mut ll, mut d) = ([0; LL], [0; D]);
        for token in tokens {
            match *token {
                Token::Literal(byte) => ll[usize::from(byte)] += 1,
                Token::Match { length, distance } => {
                    ll[length_symbol(length).0] += 1;
                    d[distance_symbol(distance).0] += 1;
                }
            }
        }
        ll[EOB] = u32::from(eob);
        Self { ll, d }
    }

    /// 1280 bytes: each of the two tables has two words of padding.
    fn bytes(&self) -> Vec<u8> {
        let words = self.ll.iter().chain(&[0; 2]).chain(&self.d).chain(&[0; 2]);
        words.flat_map(|word| word.to_le_bytes()).collect()
    }
}

/// Compress `source` by `flags` with the codes in `aecs`. At most `room` bytes come out.
///
/// The checksums of the AECS are left to the caller, who knows what the source really was.
pub(crate) fn compress(source: &[u8], flags: u16, aecs: CompressAecs, room: usize) -> Compressed {
    let tokens = match flags & compr::GEN_LITS {
        0 => matches::tokens(source),
        _ => source.iter().map(|byte| Token::Literal(*byte)).collect(),
    };
    let ends = compr::end_proc(flags) > 0;
    if flags & compr::STATS != 0 {
        return fitted(Histogram::of(&tokens, ends).bytes(), 0, aecs, room);
    }
    match compr::hdr_gen(flags) {
        0 => encode(&tokens, flags, aecs, room),
        kind @ (2 | 3) => encode(&tokens, flags, with_codes(&tokens, kind == 3, true, aecs), room),
        // The first of two passes: all that it makes is the AECS. 5 wants no header.
        kind => fitted(Vec::new(), 0, with_codes(&tokens, kind == 7, kind != 5, aecs), room),
    }
}

fn failed(aecs: CompressAecs, error: ErrorCode) -> Compressed {
    Compressed {
        output: Vec::new(),
        output_bits: 0,
        aecs,
        error: Some(error),
    }
}

fn fitted(mut output: Vec<u8>, output_bits: u8, aecs: CompressAecs, room: usize) -> Compressed {
    let error = (output.len() > room).then_some(ErrorCode::DoesNotFit);
    output.truncate(room);
    Compressed {
        output,
        output_bits: if error.is_some() { 0 } else { output_bits },
        aecs,
        error,
    }
}

/// Put the codes of `tokens` into the AECS, and the header of a dynamic block into its accumulator.
fn with_codes(tokens: &[Token], is_final: bool, header: bool, mut aecs: CompressAecs) -> CompressAecs {
    let histogram = Histogram::of(tokens, true);
    let ll = huffman::lengths(&histogram.ll, huffman::LENGTH_MAX);
    let d = huffman::lengths(&histogram.d, huffman::LENGTH_MAX);
    aecs.set_lengths(&ll, &d);
    if header {
        let mut bits = accumulated(&aecs);
        header::push(&mut bits, &ll, &d, is_final);
        aecs.accumulated = bits.len();
        bits.align();
        (aecs.accumulator, ..) = bits.finish();
    }
    aecs
}

/// The bits that come before all output.
fn accumulated(aecs: &CompressAecs) -> BitWriter {
    let mut bits = BitWriter::default();
    for (i, byte) in aecs.accumulator.iter().enumerate() {
        let count = aecs.accumulated.saturating_sub(8 * i).min(8) as u32;
        bits.push(u32::from(*byte) & ((1 << count) - 1), count);
    }
    bits
}

/// Append the code of one symbol word, lowest bit of the stream first.
fn push_symbol(bits: &mut BitWriter, word: u32) -> Result<(), ErrorCode> {
    let (code, length) = (word & 0x7fff, word >> 15 & 15);
    if length == 0 {
        return Err(ErrorCode::NoCode);
    }
    bits.push(code.reverse_bits() >> (32 - length), length);
    Ok(())
}

fn push_tokens(bits: &mut BitWriter, tokens: &[Token], aecs: &CompressAecs) -> Result<(), ErrorCode> {
    for token in tokens {
        match *token {
            Token::Literal(byte) => push_symbol(bits, aecs.ll[usize::from(byte)])?,
            Token::Match { length, distance } => {
                let (symbol, extra, count) = length_symbol(length);
                push_symbol(bits, aecs.ll[symbol])?;
                bits.push(extra, count);
                let (symbol, extra, count) = distance_symbol(distance);
                push_symbol(bits, aecs.d[symbol])?;
                bits.push(extra, count);
            }
        }
    }
    Ok(())
}

/// END_PROC.
fn push_end(bits: &mut BitWriter, end_proc: u16, aecs: &CompressAecs) -> Result<(), ErrorCode> {
    if end_proc == 0 {
        return Ok(());
    }
    push_symbol(bits, aecs.ll[EOB])?;
    if end_proc > 1 {
        bits.push(u32::from(end_proc == 3), 3);
        bits.align();
        bits.push(0xffff_0000, 32);
    }
    Ok(())
}

fn encode(tokens: &[Token], flags: u16, mut aecs: CompressAecs, room: usize) -> Compressed {
    let mut bits = accumulated(&aecs);
    let pushed =
        push_tokens(&mut bits, tokens, &aecs).and_then(|()| push_end(&mut bits, compr::end_proc(flags), &aecs));
    if let Err(error) = pushed {
        return failed(aecs, error);
    }
    let mut output_bits = 0;
    if flags & compr::FLUSH != 0 {
        output_bits = (bits.len() % 8) as u8;
        bits.align();
    }
    // What is no whole byte stays in the AECS.
    let (output, rest, held) = bits.finish();
    aecs.accumulated = held as usize;
    aecs.accumulator = if held > 0 { vec![rest] } else { Vec::new() };
    fitted(output, output_bits, aecs, room)
}
