//! What became of a page.

use crate::completion::{ErrorCode, Status};

/// A job that is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// Bytes in the destination.
    pub length: u32,
    /// CRC-32 of the uncompressed data.
    pub crc: u32,
    /// XOR of the 16-bit words of the uncompressed data.
    pub xor: u16,
}

/// Why software has to do a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// All descriptor slots were taken.
    NoSlot,
    /// All queues were full.
    Full,
    /// The core has no queue that works.
    NoQueue,
    /// No queue takes such a job: it is too long, or its mode is not supported.
    Unfit,
    /// The device did not answer in time. It may still read the source and write the destination.
    Late,
    /// The queue went away before the device answered.
    Gone,
    /// The device answered with an error.
    Refused(Status, ErrorCode),
    /// The device answered what cannot be.
    Implausible,
    /// Read back, the stream had another checksum than the page.
    VerifyFailed,
}

/// What became of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The destination has it.
    Done(Done),
    /// It does not fit into the room given, or was mitigated so.
    Incompressible,
    /// Software has to do it. The source is as it was.
    Software(Why),
    /// The batch was cancelled before.
    Cancelled {
        /// The device may still read the source and write the destination.
        is_late: bool,
    },
}

impl Outcome {
    /// Whether both buffers are withheld: the source may be read but not written, the destination
    /// must be left alone, until [`Driver::sweep`](crate::driver::Driver::sweep) gives them back.
    #[must_use]
    pub const fn is_withheld(self) -> bool {
        matches!(self, Self::Software(Why::Late) | Self::Cancelled { is_late: true })
    }
}
