//! A swap file: a nameless file of slots, each sealed by itself.

use core::ffi::CStr;

use uzswap_mm::machine::{IoBuffer, IoError};
use uzswap_mm::page::PAGE_SIZE;
use uzswap_sys::Errno;
use uzswap_sys::aligned::AlignedBuf;
use uzswap_sys::file::File;

use crate::seal::Seal;

/// Our own, or one that we inherited.
pub struct SwapFile {
    pub file: File,
    pub seal: Seal,
    /// Slots that it can have.
    pub slots: u64,
}

/// Where a slot begins.
pub fn place(slot: u32) -> u64 {
    u64::from(slot) * PAGE_SIZE as u64
}

impl SwapFile {
    /// Make `file`, which is empty, a swap file of as many slots as `seal` has room for; `keeper`
    /// may lengthen it ([`File::lengthen`]).
    pub fn new(file: File, seal: Seal, keeper: Option<&CStr>) -> Self {
        // Before the program can limit what may be written to files; if it has and there is no
        // launcher, the rest is the pool's.
        let len = seal.slots() * PAGE_SIZE as u64;
        let slots = file.lengthen(len, keeper) / PAGE_SIZE as u64;
        Self { file, seal, slots }
    }

    /// Slots that it can have.
    pub fn slots(&self) -> u64 {
        self.slots
    }

    /// Seal whole pages, which encrypts them in place, and write them from slot `slot` on.
    ///
    /// # Errors
    /// The slots hold undefined bytes then.
    pub fn write(&self, slot: u32, bytes: &mut [u8]) -> Result<(), IoError> {
        let mut pages = (slot..).zip(bytes.chunks_exact_mut(PAGE_SIZE));
        if !pages.all(|(slot, page)| self.seal.seal(slot, page)) {
            return Err(IoError::NoSpace);
        }
        let written = match self.file.write_at(bytes, place(slot)) {
            Err(Errno::FBIG) => self.file.write_mapped(bytes, place(slot)),
            written => written,
        };
        written.map_err(|errno| match errno {
            Errno::NOSPC | Errno::DQUOT | Errno::FBIG | Errno::OPNOTSUPP => IoError::NoSpace,
            _ => IoError::Failed,
        })
    }

    /// Open a page that was read. False: it is not what was written.
    pub fn open(&self, slot: u32, page: &mut [u8]) -> bool {
        self.seal.open(slot, page)
    }

    /// Give the space of slots back to the filesystem.
    pub fn discard(&self, slot: u32, slots: u32) {
        self.file.punch(place(slot), place(slots));
    }
}

/// A buffer for direct I/O.
pub struct SwapBuffer(AlignedBuf);

impl SwapBuffer {
    /// Of `pages` pages. Address space, of which what is not used is never touched.
    ///
    /// # Panics
    /// There is none.
    pub fn new(pages: usize) -> Self {
        match AlignedBuf::new(pages) {
            Ok(buffer) => Self(buffer),
            Err(errno) => panic!("no address space for an I/O buffer: {errno}"),
        }
    }
}

impl IoBuffer for SwapBuffer {
    fn bytes(&self, len: usize) -> &[u8] {
        self.0.bytes(len)
    }

    fn bytes_mut(&mut self, len: usize) -> &mut [u8] {
        self.0.bytes_mut(len)
    }

    fn give_back(&mut self) {
        self.0.give_back();
    }

    fn has_memory(&self) -> bool {
        self.0.used() > 0
    }
}
