//! What a completion record means for the page (data sheet A12, step 10).

use super::{Completion, ErrorCode, Status};

/// Which way a page goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// A page becomes a stream.
    Compress,
    /// A stream becomes a page.
    Decompress,
}

/// What is to be done about a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The device has not answered.
    Busy,
    /// The output is there.
    Done,
    /// The page does not fit into the room given.
    Incompressible,
    /// A page of a buffer was missing: touch it, then submit again, once.
    RetryAfterTouch {
        /// Where.
        address: u64,
        /// Touch it by a store too.
        write: bool,
    },
    /// The device is well, but software has to do this page.
    Software,
    /// Software has to do this page, and the device may be broken.
    Suspect,
}

impl Completion {
    /// What is to be done about a page that went in `direction`.
    #[must_use]
    pub fn verdict(&self, direction: Direction) -> Verdict {
        // QPL tests the error code before the status: a success that names an error is none.
        if self.error_code != ErrorCode::NONE && self.status != Status::BUSY {
            return self.verdict_of_error(direction);
        }
        if self.status == Status::SUCCESS {
            return Verdict::Done;
        }
        match (Status(self.status.code()), direction) {
            (Status::BUSY, _) if self.status == Status::BUSY => Verdict::Busy,
            (Status::PAGE_FAULT | Status::PAGE_FAULT_INVALID, _) => self.verdict_of_fault(),
            (Status::OUTPUT_OVERFLOW, Direction::Compress) => Verdict::Incompressible,
            // The stream is longer than the page: software says whether it is damaged.
            (Status::OUTPUT_OVERFLOW, Direction::Decompress) => Verdict::Software,
            (Status::ANALYTICS | Status::RECORD_FAULT | Status::READBACK_FAULT, _) => Verdict::Software,
            (status, _) if status.is_invalid_request() => Verdict::Software,
            _ => Verdict::Suspect,
        }
    }

    fn verdict_of_error(&self, direction: Direction) -> Verdict {
        match (self.error_code, direction) {
            (ErrorCode::OUTPUT_TOO_BIG, Direction::Compress) => Verdict::Incompressible,
            _ => Verdict::Software,
        }
    }

    fn verdict_of_fault(&self) -> Verdict {
        match self.fault_address() {
            Some(address) => Verdict::RetryAfterTouch {
                address,
                write: self.status.is_on_write(),
            },
            None => Verdict::Software,
        }
    }
}
