//! Requests, one after the other, each answered before the next is read.
//!
//! What is to be written is taken from the connection in pieces that end with a page, each written
//! when all of it is there. So a client that dies in the middle leaves whole pages, old or new.

use std::io::{self, ErrorKind, Read, Write};

use uzswap_mm::page::PAGE_SIZE;

use super::wire::{Error, REPLY_LEN, Request, command, command_flag, reply};
use crate::counters::Counter;
use crate::device::{Device, IoError, Worker};

/// Longest read or write: what clients take for granted where nothing else is said.
pub(crate) const PAYLOAD_MAX: u32 = 32 << 20;
/// Bytes of a write that are taken from the connection at once.
const PIECE: usize = 256 << 10;

/// A client that sends requests.
pub(crate) struct Transmission<'a, S> {
    stream: S,
    device: &'a Device,
    worker: Worker,
    /// Of a read: the reply and what was read; of a write: a piece of it.
    buffer: Vec<u8>,
}

/// Whether more requests may follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Request,
    Close,
}

impl<'a, S: Read + Write> Transmission<'a, S> {
    pub(crate) fn new(stream: S, device: &'a Device) -> Self {
        Self {
            stream,
            device,
            worker: device.worker(),
            buffer: Vec::new(),
        }
    }

    /// Serve requests until the client leaves, or breaks the protocol.
    ///
    /// # Errors
    /// Those of the connection; its end within a message among them.
    pub(crate) fn serve(&mut self) -> io::Result<()> {
        let mut message = [0; Request::LEN];
        loop {
            match self.stream.read_exact(&mut message) {
                // It left without a word, as dying clients do.
                Err(e) if e.kind() == ErrorKind::UnexpectedEof => return Ok(()),
                other => other?,
            }
            let next = match Request::parse(&message) {
                Some(request) => self.answer(request)?,
                None => Next::Close,
            };
            if next == Next::Close {
                return Ok(());
            }
        }
    }

    fn answer(&mut self, request: Request) -> io::Result<Next> {
        let Request { offset, len, .. } = request;
        let device = self.device;
        let checked = Self::check(device, request);
        let result = match request.command {
            command::DISC => return Ok(Next::Close),
            command::READ => return self.read(request, checked).map(|()| Next::Request),
            // Nobody knows where the next request would begin.
            command::WRITE if len > PAYLOAD_MAX => {
                device.counters().add(Counter::InvalidIo, 1);
                return Ok(Next::Close);
            }
            command::WRITE => self.write(request, checked)?,
            command::TRIM => checked.and_then(|()| device.discard(offset, len.into()).map_err(error)),
            command::WRITE_ZEROES => checked.and_then(|()| {
                let zeroed = device.write_zeroes(&mut self.worker, offset, len.into());
                zeroed.map_err(error)
            }),
            // All that was written is in memory, and nothing is anywhere else.
            _ => checked,
        };
        self.count(request, result);
        self.stream.write_all(&reply(request.cookie, result))?;
        Ok(Next::Request)
    }

    /// Whether a request is one that is served.
    fn check(device: &Device, request: Request) -> Result<(), Error> {
        let Request { offset, len, .. } = request;
        let flags = match request.command {
            command::READ | command::WRITE | command::TRIM => command_flag::FUA,
            command::WRITE_ZEROES => command_flag::FUA | command_flag::NO_HOLE | command_flag::FAST_ZERO,
            command::FLUSH => 0,
            _ => return Err(Error::Invalid),
        };
        if request.flags & !flags != 0 {
            return Err(Error::Invalid);
        }
        match request.command {
            command::READ if len > PAYLOAD_MAX => Err(Error::Invalid),
            command::FLUSH if (offset, len) == (0, 0) => Ok(()),
            command::FLUSH => Err(Error::Invalid),
            _ => device.check(offset, len.into()).map_err(error),
        }
    }

    fn count(&self, request: Request, result: Result<(), Error>) {
        let counters = self.device.counters();
        let kinds = match request.command {
            command::READ => Some((Counter::NumReads, Counter::FailedReads)),
            command::WRITE | command::WRITE_ZEROES => Some((Counter::NumWrites, Counter::FailedWrites)),
            _ => None,
        };
        if result == Err(Error::Invalid) {
            counters.add(Counter::InvalidIo, 1);
        } else if let Some((all, failed)) = kinds {
            counters.add(all, 1);
            counters.add(failed, result.is_err().into());
        }
    }

    /// Reply and data in one write.
    fn read(&mut self, request: Request, checked: Result<(), Error>) -> io::Result<()> {
        let mut len = REPLY_LEN;
        let result = checked.and_then(|()| {
            len += request.len as usize;
            let message = buffer(&mut self.buffer, len);
            let read = self
                .device
                .read(&mut self.worker, request.offset, &mut message[REPLY_LEN..]);
            read.map_err(error)
        });
        self.count(request, result);
        let message = buffer(&mut self.buffer, if result.is_ok() { len } else { REPLY_LEN });
        message[..REPLY_LEN].copy_from_slice(&reply(request.cookie, result));
        let written = self.stream.write_all(message);
        self.shrink();
        written
    }

    /// Take the data, and write it unless it is not to be written.
    fn write(&mut self, request: Request, checked: Result<(), Error>) -> io::Result<Result<(), Error>> {
        let mut result = checked;
        let (mut at, mut left) = (request.offset, request.len as usize);
        while left > 0 {
            let len = left.min(PIECE - at as usize % PAGE_SIZE);
            let piece = buffer(&mut self.buffer, len);
            self.stream.read_exact(piece)?;
            if result.is_ok() {
                result = self.device.write(&mut self.worker, at, piece).map_err(error);
            }
            at = at.wrapping_add(len as u64);
            left -= len;
        }
        Ok(result)
    }

    /// A long read was an exception.
    fn shrink(&mut self) {
        if self.buffer.capacity() > 4 * PIECE {
            self.buffer = Vec::new();
        }
    }
}

/// The first `len` bytes; what is in them is old.
fn buffer(buffer: &mut Vec<u8>, len: usize) -> &mut [u8] {
    if buffer.len() < len {
        buffer.resize(len, 0);
    }
    &mut buffer[..len]
}

fn error(error: IoError) -> Error {
    match error {
        IoError::BeyondEnd => Error::Invalid,
        IoError::NoSpace => Error::NoSpace,
        IoError::Damaged => Error::Io,
    }
}
