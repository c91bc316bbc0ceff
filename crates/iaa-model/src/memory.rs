//! What a device reaches through the IOMMU: the memory of the process that submits.
//!
//! The model borrows nothing: it copies in and out, as other threads may write at any time.
//! [`Regions`] is an implementation for tests: ranges of made-up addresses that fault as told. One
//! over a process's own memory needs unsafe code, so it lives with whoever has the process.

mod regions;

pub use regions::{Protection, Regions};

/// How a device touches a byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// It reads a source, an AECS or a descriptor.
    Read,
    /// It writes a destination, an AECS or a completion record.
    Write,
}

/// An address without a translation, or with one that forbids the access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageFault {
    /// The first byte that could not be touched.
    pub addr: u64,
    /// What was tried.
    pub access: Access,
}

/// Memory as a device sees it.
///
/// The machine calls [`write`](Memory::write), [`publish`](Memory::publish) and
/// [`page_request`](Memory::page_request) with its lock held: none of them may call the machine.
pub trait Memory: Send + Sync {
    /// Copy the bytes at `addr` to `into`. On a fault `into` may be filled in part.
    fn read(&self, addr: u64, into: &mut [u8]) -> Result<(), PageFault>;

    /// Copy `from` to `addr`. On a fault bytes before the faulting page may be written.
    fn write(&self, addr: u64, from: &[u8]) -> Result<(), PageFault>;

    /// Store a record's status with release order: it pairs with the poller's acquire load of the
    /// same byte. The other 63 bytes were written before, so this one cannot fault.
    fn publish(&self, addr: u64, byte: u8);

    /// Answer a page request of a device that may block on faults (BOF). True: the page is there
    /// now. The default answers "invalid", as the kernel does for a userfaultfd range.
    fn page_request(&self, fault: PageFault) -> bool {
        let _ = fault;
        false
    }
}
