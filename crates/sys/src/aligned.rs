//! Memory that a device reads and writes directly.

use rustix::io::Result;

use crate::PAGE_SIZE;
use crate::mapping::{Discard, Mapping};
use crate::thread::page_align;

/// A page-aligned buffer, as direct I/O wants.
pub struct AlignedBuf {
    memory: Mapping,
    /// Bytes that may have been written since its memory was given back.
    used: usize,
}

impl AlignedBuf {
    /// A zeroed buffer of `pages` pages.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn new(pages: usize) -> Result<Self> {
        let memory = Mapping::reserve_beside_data(pages * PAGE_SIZE)?;
        Ok(Self { memory, used: 0 })
    }

    /// The first `len` bytes.
    pub fn bytes(&self, len: usize) -> &[u8] {
        self.memory.bytes(0, len)
    }

    /// The first `len` bytes, for writing.
    pub fn bytes_mut(&mut self, len: usize) -> &mut [u8] {
        self.used = self.used.max(len);
        self.memory.bytes_mut(0, len)
    }

    /// Bytes from the first on that may hold memory.
    pub fn used(&self) -> usize {
        self.used
    }

    /// Its memory returns to the system: it is zeroed again.
    pub fn give_back(&mut self) {
        let len = page_align(self.used);
        // What is refused stays as it is, and is tried again.
        if len > 0 && self.memory.discard(0, len, Discard::DontNeed).is_ok() {
            self.used = 0;
        }
    }

    /// How many pages it holds.
    pub fn pages(&self) -> usize {
        self.memory.len() / PAGE_SIZE
    }
}

#[cfg(all(test, not(miri)))]
mod test {
    use super::*;

    #[test]
    fn what_was_used_can_be_given_back_and_used_again() {
        let mut buf = AlignedBuf::new(3).unwrap();
        buf.give_back();
        buf.bytes_mut(PAGE_SIZE + 1).fill(7);
        assert_eq!(buf.used(), PAGE_SIZE + 1);
        buf.give_back();
        assert_eq!(buf.used(), 0);
        assert!(buf.bytes(2 * PAGE_SIZE).iter().all(|byte| *byte == 0));
        buf.bytes_mut(1)[0] = 9;
        assert_eq!((buf.bytes(1)[0], buf.used()), (9, 1));
    }
}
