//! What a decompression has made so far, behind the history of before.

use super::Finished;
use crate::checksum::Checksums;
use crate::symbols::HISTORY;

/// A suppressed output is folded into the checksums when it is this long: an even number of bytes,
/// so that the XOR's words stay whole.
const FOLD: usize = 1 << 16;

pub(super) struct Output {
    /// History, then output.
    bytes: Vec<u8>,
    /// Where the output begins that no checksum has seen.
    start: usize,
    room: usize,
    suppressed: bool,
    made: usize,
    sums: Checksums,
    castagnoli: bool,
}

impl Output {
    pub(super) fn new(history: Vec<u8>, room: usize, suppressed: bool, sums: Checksums, castagnoli: bool) -> Self {
        Self {
            start: history.len(),
            bytes: history,
            room,
            suppressed,
            made: 0,
            sums,
            castagnoli,
        }
    }

    /// Bytes that still fit.
    pub(super) fn room(&self) -> usize {
        self.room - self.made
    }

    /// How far back a match may reach.
    pub(super) fn history(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn literal(&mut self, byte: u8) {
        self.bytes.push(byte);
        self.made += 1;
        self.fold();
    }

    pub(super) fn copy(&mut self, length: usize, distance: usize) {
        let from = self.bytes.len() - distance;
        for at in from..from + length {
            self.bytes.push(self.bytes[at]);
        }
        self.made += length;
        self.fold();
    }

    /// Forget suppressed output that nothing can refer to any more.
    fn fold(&mut self) {
        if self.suppressed && self.bytes.len() - self.start >= FOLD + HISTORY {
            let fresh = &self.bytes[self.start..self.start + FOLD];
            self.sums.update(fresh, self.castagnoli);
            self.bytes.drain(..self.start + FOLD - HISTORY);
            self.start = HISTORY;
        }
    }

    pub(super) fn finish(mut self) -> Finished {
        self.sums.update(&self.bytes[self.start..], self.castagnoli);
        let recent = self.bytes.len().saturating_sub(HISTORY);
        let history = self.bytes[recent..].to_vec();
        let output = match self.suppressed {
            true => Vec::new(),
            false => self.bytes.split_off(self.start),
        };
        Finished {
            output,
            made: self.made,
            sums: self.sums,
            history,
        }
    }
}
