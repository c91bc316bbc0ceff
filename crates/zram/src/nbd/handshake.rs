//! Greeting and options, until the client asks for the export or leaves.
//!
//! There is one export, whose name is empty. Options that are not served are answered with
//! `NBD_REP_ERR_UNSUP`: TLS, structured replies, metadata contexts.

use std::io::{self, Read, Write};

use super::transmission::PAYLOAD_MAX;
use super::wire::{Answer, Fields, GREETING, OPTION_MAGIC, answer, export_flag, handshake_flag, info, option};

/// Longest data of an option: a name has 4,096 bytes at most, and few are asked for with it.
const OPTION_MAX: u32 = 16 << 10;
/// Behind the answer to `EXPORT_NAME`, unless the client can do without.
const ZEROES: usize = 124;

/// How a handshake ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Requests follow.
    Transmission,
    /// The client leaves, or broke the protocol.
    Close,
}

/// Speak with the client until requests follow or it leaves; `bytes`: of the export.
///
/// # Errors
/// Those of the connection; its end among them.
pub(crate) fn shake_hands(stream: &mut (impl Read + Write), bytes: u64) -> io::Result<Outcome> {
    let mut greeting = GREETING.to_be_bytes().to_vec();
    greeting.extend(OPTION_MAGIC.to_be_bytes());
    greeting.extend(handshake_flag::ALL.to_be_bytes());
    stream.write_all(&greeting)?;
    let flags = read_u32(stream)?;
    if flags & !u32::from(handshake_flag::ALL) != 0 {
        return Ok(Outcome::Close);
    }
    let wants_zeroes = flags & u32::from(handshake_flag::NO_ZEROES) == 0;
    loop {
        let Some((option, data)) = read_option(stream)? else {
            return Ok(Outcome::Close);
        };
        match option {
            option::EXPORT_NAME if data.is_empty() => {
                stream.write_all(&export(bytes, wants_zeroes))?;
                return Ok(Outcome::Transmission);
            }
            // There is no way to refuse it but this.
            option::EXPORT_NAME => return Ok(Outcome::Close),
            option::ABORT => {
                // Some clients are gone by now.
                let _ = stream.write_all(&answer(option, Answer::Ack, &[]));
                return Ok(Outcome::Close);
            }
            option::LIST => stream.write_all(&list(&data))?,
            option::INFO | option::GO => {
                let asked = is_of_export(&data);
                stream.write_all(&tell(option, asked, bytes))?;
                if option == option::GO && asked == Ok(()) {
                    return Ok(Outcome::Transmission);
                }
            }
            _ => stream.write_all(&answer(option, Answer::Unsupported, &[]))?,
        }
    }
}

fn read_u32(stream: &mut impl Read) -> io::Result<u32> {
    let mut bytes = [0; 4];
    stream.read_exact(&mut bytes)?;
    Ok(u32::from_be_bytes(bytes))
}

/// An option and its data. `None`: it is none, or too long.
fn read_option(stream: &mut impl Read) -> io::Result<Option<(u32, Vec<u8>)>> {
    let mut head = [0; 16];
    stream.read_exact(&mut head)?;
    let mut fields = Fields(&head);
    let (Some(OPTION_MAGIC), Some(option), Some(len)) = (fields.u64(), fields.u32(), fields.u32()) else {
        return Ok(None);
    };
    if len > OPTION_MAX {
        return Ok(None);
    }
    let mut data = vec![0; len as usize];
    stream.read_exact(&mut data)?;
    Ok(Some((option, data)))
}

/// Size and flags, as `EXPORT_NAME` has them.
fn export(bytes: u64, wants_zeroes: bool) -> Vec<u8> {
    let mut message = bytes.to_be_bytes().to_vec();
    message.extend(export_flag::ALL.to_be_bytes());
    message.resize(message.len() + if wants_zeroes { ZEROES } else { 0 }, 0);
    message
}

/// The one export, by its length and name.
fn list(data: &[u8]) -> Vec<u8> {
    if !data.is_empty() {
        return answer(option::LIST, Answer::Invalid, &[]);
    }
    let mut message = answer(option::LIST, Answer::Server, &0u32.to_be_bytes());
    message.extend(answer(option::LIST, Answer::Ack, &[]));
    message
}

/// Whether the data of `INFO` or `GO` is valid and means the one export.
fn is_of_export(data: &[u8]) -> Result<(), Answer> {
    let mut fields = Fields(data);
    let name = fields.u32().and_then(|len| fields.bytes(len as usize));
    let (Some(name), Some(count)) = (name, fields.u16()) else {
        return Err(Answer::Invalid);
    };
    if fields.0.len() != 2 * usize::from(count) {
        return Err(Answer::Invalid);
    }
    if name.is_empty() { Ok(()) } else { Err(Answer::Unknown) }
}

/// The answer to `INFO` or `GO`: all that there is to know, whatever the client asked for.
fn tell(option: u32, asked: Result<(), Answer>, bytes: u64) -> Vec<u8> {
    if let Err(refusal) = asked {
        return answer(option, refusal, &[]);
    }
    let mut size = info::EXPORT.to_be_bytes().to_vec();
    size.extend(export(bytes, false));
    let mut blocks = info::BLOCK_SIZE.to_be_bytes().to_vec();
    let page = uzswap_mm::page::PAGE_SIZE as u32;
    blocks.extend([1, page, PAYLOAD_MAX].map(u32::to_be_bytes).concat());
    let mut message = answer(option, Answer::Info, &size);
    message.extend(answer(option, Answer::Info, &blocks));
    message.extend(answer(option, Answer::Ack, &[]));
    message
}
