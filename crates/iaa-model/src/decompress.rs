//! DECOMPRESS: reads DEFLATE whose distances are at most 4096 (data sheet A5, A6, A8).
//!
//! Output stops before a token that does not fit. A block header that the input cuts short waits
//! in the AECS if one is written, else it is error 1.

mod header;
mod output;

use crate::aecs::{DecompressAecs, Position};
use crate::bits::BitReader;
use crate::checksum::Checksums;
use crate::descriptor::decompr;
use crate::huffman::Decoder;
use crate::status::{ErrorCode, Status};
use crate::symbols::{DISTANCES, EOB, HISTORY, LENGTHS};
use output::Output;

/// What a DECOMPRESS is asked for.
pub(crate) struct Request<'a> {
    /// The compressed bytes.
    pub source: &'a [u8],
    /// `decompr_flags`.
    pub flags: u16,
    /// Where the stream stands.
    pub aecs: DecompressAecs,
    /// Room at the destination.
    pub room: usize,
    /// CRC-32C in place of CRC-32.
    pub castagnoli: bool,
    /// Whether an AECS is written on completion, so that a cut header can wait.
    pub carries: bool,
    /// Whether repetitions may cross from the literal and length codes into the distance codes.
    pub runs_cross: bool,
}

/// What a DECOMPRESS made.
pub(crate) struct Decompressed {
    /// Success, overflow or analytics error.
    pub status: Status,
    /// The error's code.
    pub error: Option<ErrorCode>,
    /// For the destination; empty if suppressed.
    pub output: Vec<u8>,
    /// Bytes made, suppressed ones included.
    pub made: usize,
    /// Source bytes consumed, a byte of which some bits are left included.
    pub consumed: usize,
    /// The AECS as it is now.
    pub aecs: DecompressAecs,
}

/// Why decoding ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    /// The input is used up, perhaps in the middle of something.
    Input,
    /// The input is used up in the middle of a block header.
    InputInHeader,
    /// An end of block at which to stop.
    Eob,
    /// The next token does not fit.
    Overflow,
    Error(ErrorCode),
}

/// The codes of a block.
struct Codes {
    ll: Decoder,
    d: Decoder,
}

impl Codes {
    fn new(lengths: &([u8; 288], [u8; 32])) -> Self {
        Self {
            ll: Decoder::new(&lengths.0),
            d: Decoder::new(&lengths.1),
        }
    }
}

struct Inflater<'a> {
    bits: BitReader<'a>,
    output: Output,
    flags: u16,
    runs_cross: bool,
    position: Position,
    lengths: Option<Box<([u8; 288], [u8; 32])>>,
    /// Whether the last thing read was an end of block that CHECK is content with.
    at_eob: bool,
}

/// Run the request.
pub(crate) fn decompress(request: Request<'_>) -> Decompressed {
    let Request {
        source, flags, aecs, ..
    } = request;
    // Bits of before stand in front of the source's, so that whole bytes stay whole.
    let before = aecs.input_bits.div_ceil(8);
    let pad = 8 * before - aecs.input_bits;
    let bytes = if before == 0 {
        std::borrow::Cow::Borrowed(source)
    } else {
        let mut bytes = shifted(&aecs.input, aecs.input_bits, pad);
        bytes.extend_from_slice(source);
        std::borrow::Cow::Owned(bytes)
    };
    let end = (8 * bytes.len()).saturating_sub(decompr::ignored_bits(flags));
    let start = (pad + usize::from(aecs.drop_bits)).min(end);
    let suppressed = flags & decompr::SUPPRESS != 0;
    let room = if suppressed { usize::MAX } else { request.room };
    let mut inflater = Inflater {
        bits: BitReader::new(&bytes, start, end),
        output: Output::new(aecs.history, room, suppressed, aecs.sums, request.castagnoli),
        flags,
        runs_cross: request.runs_cross,
        position: aecs.position,
        lengths: aecs.lengths,
        at_eob: false,
    };
    let end = inflater.run();
    let end = inflater.judge(end, request.carries);
    inflater.finish(end, &bytes, 8 * before)
}

/// `count` bits of `bits`, moved up by `pad` so that they end with a byte.
fn shifted(bits: &[u8], count: usize, pad: usize) -> Vec<u8> {
    let mut writer = crate::bits::BitWriter::default();
    writer.push(0, pad as u32);
    for (i, byte) in bits.iter().enumerate() {
        let count = count.saturating_sub(8 * i).min(8) as u32;
        writer.push(u32::from(*byte) & ((1 << count) - 1), count);
    }
    writer.finish().0
}

impl Inflater<'_> {
    fn run(&mut self) -> End {
        if self.position == Position::Stopped {
            self.position = Position::Header;
        }
        loop {
            let step = match self.position {
                Position::Header | Position::Stopped => self.header(),
                Position::Stored { is_final, left } => self.stored(is_final, usize::from(left)),
                Position::Token { is_final } => self.tokens(is_final),
            };
            if let Err(end) = step {
                return end;
            }
        }
    }

    /// A block header, whole or not at all.
    fn header(&mut self) -> Result<(), End> {
        let start = self.bits.position();
        if self.bits.left() < 3 {
            return Err(End::Input);
        }
        let read = header::read(&mut self.bits, self.runs_cross);
        // Zeros that stand for missing input may be no code of the header's alphabet.
        let cut = read.as_ref().err() == Some(&ErrorCode::UndefinedCl) && self.bits.left() < header::CL_LENGTH_MAX;
        if cut || self.bits.is_overrun() {
            self.bits.rewind(start);
            return Err(End::InputInHeader);
        }
        (self.position, self.lengths) = read.map_err(End::Error)?;
        self.at_eob = false;
        Ok(())
    }

    /// An end of block: stop if the flags say so.
    fn end_of_block(&mut self, is_final: bool) -> Result<(), End> {
        let counts = is_final || self.flags & decompr::FINAL == 0;
        self.at_eob = counts;
        self.position = Position::Header;
        self.lengths = None;
        if counts && self.flags & decompr::STOP != 0 {
            self.position = Position::Stopped;
            return Err(End::Eob);
        }
        Ok(())
    }

    fn stored(&mut self, is_final: bool, left: usize) -> Result<(), End> {
        if left == 0 {
            return self.end_of_block(is_final);
        }
        let here = left.min(self.bits.left() / 8);
        let count = here.min(self.output.room());
        for _ in 0..count {
            let byte = self.bits.take(8) as u8;
            self.output.literal(byte);
        }
        self.position = Position::Stored {
            is_final,
            left: (left - count) as u16,
        };
        match () {
            () if count == left => Ok(()),
            () if count < here => Err(End::Overflow),
            () => Err(End::Input),
        }
    }

    fn tokens(&mut self, is_final: bool) -> Result<(), End> {
        let codes = Codes::new(self.lengths.as_ref().ok_or(End::Error(ErrorCode::AecsInvalid))?);
        loop {
            let start = self.bits.position();
            let eob = self.token(&codes);
            if self.bits.is_overrun() {
                self.bits.rewind(start);
                return Err(End::Input);
            }
            match eob {
                Ok(true) => return self.end_of_block(is_final),
                Ok(false) => {}
                Err(end) => {
                    self.bits.rewind(start);
                    return Err(end);
                }
            }
        }
    }

    /// One token; true: it was the end of the block. Output changes only if all its bits are there.
    fn token(&mut self, codes: &Codes) -> Result<bool, End> {
        let peeked = self.bits.peek();
        let Some((symbol, count)) = codes.ll.symbol(peeked) else {
            return Err(self.undefined(ErrorCode::BadLl));
        };
        self.bits.skip(count);
        if symbol <= EOB {
            return self.literal_or_eob(symbol);
        }
        let (first, extra) = *LENGTHS.get(symbol - EOB - 1).ok_or(End::Error(ErrorCode::BadLength))?;
        let length = usize::from(first) + self.bits.take(u32::from(extra)) as usize;
        let Some((symbol, count)) = codes.d.symbol(self.bits.peek()) else {
            return Err(self.undefined(ErrorCode::BadD));
        };
        self.bits.skip(count);
        let (first, extra) = *DISTANCES.get(symbol).ok_or(End::Error(ErrorCode::BadD))?;
        let distance = usize::from(first) + self.bits.take(u32::from(extra)) as usize;
        match () {
            () if self.bits.is_overrun() => Ok(false),
            () if distance > HISTORY => Err(End::Error(ErrorCode::Distance)),
            () if distance > self.output.history() => Err(End::Error(ErrorCode::BeforeStart)),
            () if length > self.output.room() => Err(End::Overflow),
            () => {
                self.output.copy(length, distance);
                Ok(false)
            }
        }
    }

    fn literal_or_eob(&mut self, symbol: usize) -> Result<bool, End> {
        match symbol {
            _ if self.bits.is_overrun() => Ok(false),
            EOB => Ok(true),
            _ if self.output.room() == 0 => Err(End::Overflow),
            _ => {
                self.output.literal(symbol as u8);
                Ok(false)
            }
        }
    }

    /// Bits that are no code: an error only if they are not zeros that stand for missing input.
    fn undefined(&self, error: ErrorCode) -> End {
        let enough = self.bits.left() >= crate::huffman::LENGTH_MAX;
        if enough { End::Error(error) } else { End::Input }
    }

    /// What CHECK and a cut header make of the end.
    fn judge(&self, end: End, carries: bool) -> End {
        let left = self.bits.left();
        match end {
            End::InputInHeader if !carries || left > DecompressAecs::INPUT_BITS_MAX => {
                End::Error(ErrorCode::HeaderTooBig)
            }
            End::Input | End::InputInHeader if self.flags & decompr::CHECK != 0 && !(self.at_eob && left == 0) => {
                End::Error(ErrorCode::MissingEob)
            }
            _ => end,
        }
    }

    fn finish(self, end: End, bytes: &[u8], before: usize) -> Decompressed {
        let at = self.bits.position();
        let (status, error) = match end {
            End::Overflow => (Status::OutputOverflow, None),
            End::Error(code) => (Status::Analytics, Some(code)),
            End::Input | End::InputInHeader | End::Eob => (Status::Success, None),
        };
        // All input counts as consumed when nothing stopped before its end: the rest waits.
        let stopped = matches!(end, End::Eob | End::Overflow | End::Error(_));
        let consumed = match stopped {
            true => at.saturating_sub(before).div_ceil(8),
            false => bytes.len() - before / 8,
        };
        let until = if stopped {
            before + 8 * consumed
        } else {
            at + self.bits.left()
        };
        let (input, input_bits) = rest(bytes, at, until);
        let finished = self.output.finish();
        Decompressed {
            status,
            error,
            made: finished.made,
            consumed,
            aecs: DecompressAecs {
                sums: finished.sums,
                input,
                input_bits,
                drop_bits: 0,
                position: self.position,
                lengths: self.lengths,
                history: finished.history,
            },
            output: finished.output,
        }
    }
}

/// The bits from `at` to `until`.
fn rest(bytes: &[u8], at: usize, until: usize) -> (Vec<u8>, usize) {
    let mut reader = BitReader::new(bytes, at.min(until), until);
    let count = reader.left();
    let input = (0..count.div_ceil(8)).map(|_| reader.take(8) as u8).collect();
    (input, count)
}

/// What the output was, in the end.
pub(crate) struct Finished {
    /// For the destination.
    pub output: Vec<u8>,
    /// Bytes made.
    pub made: usize,
    /// Checksums of all of them.
    pub sums: Checksums,
    /// The last 4096 bytes of all so far.
    pub history: Vec<u8>,
}
