//! The program's memory as a file.

use rustix::fd::OwnedFd;
use rustix::fs::{self, Mode, OFlags};
use rustix::io::{self, Errno, Result};

/// `/proc/thread-self/mem`: memory of the program, read without waiting for anything.
pub struct ProcMem(OwnedFd);

impl ProcMem {
    /// Open it.
    ///
    /// # Errors
    /// ENOENT when /proc is not mounted.
    pub fn open() -> Result<Self> {
        Self::open_with(OFlags::RDONLY)
    }

    /// Open it to be written to as well.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    pub fn open_to_write() -> Result<Self> {
        Self::open_with(OFlags::RDWR)
    }

    fn open_with(flags: OFlags) -> Result<Self> {
        fs::open(c"/proc/thread-self/mem", flags | OFlags::CLOEXEC, Mode::empty()).map(Self)
    }

    /// One that is open already.
    pub fn from_fd(fd: OwnedFd) -> Self {
        Self(fd)
    }

    /// Its descriptor.
    pub(crate) fn into_fd(self) -> OwnedFd {
        self.0
    }

    /// Copy memory from `addr` on. Returns the bytes copied, up to the first page that is not
    /// there: where a thread of the program would wait for a userfaultfd, this gives up (the kernel
    /// looks pages up for it without leave to wait).
    pub fn read(&self, addr: usize, bytes: &mut [u8]) -> usize {
        let mut read = 0;
        while read < bytes.len() {
            match io::pread(&self.0, &mut bytes[read..], (addr + read) as u64) {
                Ok(0) => break,
                Ok(n) => read += n,
                Err(Errno::INTR) => {}
                Err(_) => break,
            }
        }
        read
    }
}

#[cfg(all(test, not(miri)))]
mod test {
    extern crate std;

    use super::*;
    use crate::PAGE_SIZE;
    use crate::mapping::Mapping;

    #[test]
    fn memory_is_copied_up_to_where_there_is_none() {
        let mut mapping = Mapping::reserve(2 * PAGE_SIZE).unwrap();
        mapping.write(PAGE_SIZE - 1, &[7]);
        let memory = ProcMem::open().unwrap();
        let mut bytes = [0; 2];
        assert_eq!(memory.read(mapping.addr() + PAGE_SIZE - 1, &mut bytes), 2);
        assert_eq!(bytes, [7, 0]);
        assert_eq!(memory.read(16, &mut bytes), 0);
    }
}
