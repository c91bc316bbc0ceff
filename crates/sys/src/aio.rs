//! Reads whose end can be looked for instead of slept for (`io_submit`; fs/aio.c).
//!
//! Completions appear in a ring that the kernel maps into the process, so to look costs no system
//! call. They are taken out of it by hand as well, which the kernel provides for: a read is over
//! when its completion is seen, and not before, and that must not depend on a call that a filter
//! may refuse by then.

use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use linux_raw_sys::general as raw;
use rustix::io::{Errno, Result};

use crate::PAGE_SIZE;
use crate::file::File;
use crate::thread::{is_filtered, syscall, yield_now};

/// `struct iocb` (linux/aio_abi.h).
#[repr(C)]
#[derive(Default)]
struct Iocb {
    data: u64,
    key: u32,
    rw_flags: i32,
    opcode: u16,
    priority: i16,
    fd: u32,
    buf: u64,
    nbytes: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    resfd: u32,
}

/// IOCB_CMD_PREAD.
const PREAD: u16 = 0;

/// `struct io_event`.
#[repr(C)]
struct IoEvent {
    data: u64,
    obj: u64,
    res: i64,
    res2: i64,
}

/// `struct aio_ring`, behind which the events are.
#[repr(C)]
struct Ring {
    id: u32,
    nr: u32,
    head: AtomicU32,
    tail: AtomicU32,
    magic: u32,
    compat_features: u32,
    incompat_features: u32,
    header_length: u32,
}

const MAGIC: u32 = 0xa10a_10a1;

/// A context for one read at a time. It lives as long as the process, whose end it delays by tens
/// of milliseconds: the kernel waits for an RCU grace period.
///
/// One word says whether it is there, so that a process that is forked meanwhile has either none or
/// one to [`abandon`](Self::abandon).
#[derive(Default)]
pub struct Aio {
    /// The address of its ring, which is also its number. 0: not made.
    ring: AtomicUsize,
    /// Of the ring, in bytes.
    len: usize,
}

impl Aio {
    /// None yet.
    pub const fn new() -> Self {
        Self {
            ring: AtomicUsize::new(0),
            len: 0,
        }
    }

    /// Whether it is made.
    pub fn is_made(&self) -> bool {
        self.number() != 0
    }

    fn number(&self) -> usize {
        self.ring.load(Ordering::Relaxed)
    }

    /// Make it, if it is not.
    ///
    /// # Errors
    /// EAGAIN where the system has no more of them (fs.aio-max-nr), ENOSYS, EPERM where a filter
    /// decides which system calls there are, ENOTSUP for a ring that is of another kind.
    pub fn make(&mut self) -> Result<()> {
        if self.is_made() {
            return Ok(());
        }
        if is_filtered() {
            return Err(Errno::PERM);
        }
        let mut ring: usize = 0;
        // SAFETY: writes the context's number.
        unsafe { syscall(raw::__NR_io_setup as usize, [1, &raw mut ring as usize, 0, 0, 0, 0])? };
        // SAFETY: mapped and aligned to a page since io_setup.
        let header = unsafe { &*(ring as *const Ring) };
        let is_known = (header.magic, header.incompat_features) == (MAGIC, 0);
        if !is_known || header.header_length as usize != size_of::<Ring>() || header.nr == 0 {
            // SAFETY: nothing was submitted, and nobody looks at the ring any more.
            let _ = unsafe { syscall(raw::__NR_io_destroy as usize, [ring, 0, 0, 0, 0, 0]) };
            return Err(Errno::NOTSUP);
        }
        let events = header.nr as usize * size_of::<IoEvent>();
        self.len = (size_of::<Ring>() + events).next_multiple_of(PAGE_SIZE);
        self.ring.store(ring, Ordering::Release);
        Ok(())
    }

    /// Of a context that is made.
    fn ring(&self) -> &Ring {
        // SAFETY: mapped and aligned to a page since io_setup, until `abandon`. What the kernel
        // writes later are the atomics and the events.
        unsafe { &*(self.number() as *const Ring) }
    }

    /// Read into `bytes` from `offset` of `file`, looking for the end while `looks`, then sleeping.
    /// How many bytes.
    ///
    /// # Errors
    /// What `io_submit` answers, nothing was read then; EPERM where a filter came meanwhile, EINVAL
    /// where it is not made; what the read itself does.
    pub fn read_at(
        &mut self,
        file: &File,
        bytes: &mut [u8],
        offset: u64,
        looks: impl FnMut() -> bool,
    ) -> Result<usize> {
        if !self.is_made() {
            return Err(Errno::INVAL);
        }
        if is_filtered() {
            return Err(Errno::PERM);
        }
        let mut iocb = Iocb {
            opcode: PREAD,
            fd: file.number() as u32,
            buf: bytes.as_mut_ptr() as u64,
            nbytes: bytes.len() as u64,
            offset: offset as i64,
            ..Iocb::default()
        };
        let iocbs = [&raw mut iocb];
        let submit = raw::__NR_io_submit as usize;
        // SAFETY: the kernel reads one iocb, and writes its key back, until the call returns; it
        // writes to `bytes` until its completion is seen, which `wait` below is there for.
        match unsafe { syscall(submit, [self.number(), 1, iocbs.as_ptr() as usize, 0, 0, 0])? } {
            1 => {}
            _ => return Err(Errno::AGAIN),
        }
        match self.wait(looks) {
            read @ 0.. => Ok(read as usize),
            error => Err(Errno::from_raw_os_error(-error as i32)),
        }
    }

    /// Wait for what was submitted.
    fn wait(&mut self, mut looks: impl FnMut() -> bool) -> i64 {
        loop {
            if let Some(result) = self.take_completion() {
                return result;
            }
            match looks() {
                true => core::hint::spin_loop(),
                false => return self.sleep(),
            }
        }
    }

    /// The result of what was submitted, if it is over.
    fn take_completion(&mut self) -> Option<i64> {
        let ring = self.ring();
        let (head, nr) = (ring.head.load(Ordering::Relaxed), ring.nr);
        // Acquire: pairs with the kernel's barrier between an event and the tail behind it.
        if ring.tail.load(Ordering::Acquire) == head {
            return None;
        }
        let event = self.number() + size_of::<Ring>() + (head % nr) as usize * size_of::<IoEvent>();
        // SAFETY: in the ring, complete, and not written to again until the head is behind it.
        let result = unsafe { (*(event as *const IoEvent)).res };
        ring.head.store((head + 1) % nr, Ordering::Release);
        Some(result)
    }

    fn sleep(&mut self) -> i64 {
        let mut event = IoEvent {
            data: 0,
            obj: 0,
            res: 0,
            res2: 0,
        };
        loop {
            if let Some(result) = self.take_completion() {
                return result;
            }
            if is_filtered() {
                yield_now();
                continue;
            }
            let args = [self.number(), 1, 1, &raw mut event as usize, 0, 0];
            // SAFETY: writes one event at most.
            match unsafe { syscall(raw::__NR_io_getevents as usize, args) } {
                Ok(1) => return event.res,
                Err(Errno::INTR) => {}
                _ => yield_now(),
            }
        }
    }

    /// In a forked child, where there is a mapping of the ring but no context: none is made.
    pub fn abandon(&mut self) {
        if !self.is_made() {
            return;
        }
        // SAFETY: whole pages of a mapping of the kernel's making, which nobody else knows of.
        let _ = unsafe { syscall(raw::__NR_munmap as usize, [self.number(), self.len, 0, 0, 0, 0]) };
        self.ring.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod test {
    extern crate std;

    use super::*;
    use crate::aligned::AlignedBuf;

    #[test]
    #[cfg_attr(miri, ignore = "system calls")]
    fn what_is_looked_or_slept_for_is_read() {
        let file = File::create_unnamed(c"/var/tmp").unwrap();
        let mut buf = AlignedBuf::new(2).unwrap();
        for slot in 0..200u64 {
            buf.bytes_mut(PAGE_SIZE).fill(slot as u8);
            file.write_at(buf.bytes(PAGE_SIZE), slot * PAGE_SIZE as u64).unwrap();
        }
        let mut aio = Aio::new();
        assert_eq!(
            aio.read_at(&file, buf.bytes_mut(PAGE_SIZE), 0, || true),
            Err(Errno::INVAL)
        );
        if let Err(errno) = aio.make() {
            // Under a filter of system calls, as most containers have one.
            return assert_eq!(errno, Errno::PERM);
        }
        // More than there are events in the ring.
        for slot in 0..199u64 {
            let (bytes, offset) = (buf.bytes_mut(2 * PAGE_SIZE), slot * PAGE_SIZE as u64);
            let n = aio.read_at(&file, bytes, offset, || slot % 2 == 0).unwrap();
            assert_eq!(n, 2 * PAGE_SIZE);
            let (one, next) = bytes.split_at(PAGE_SIZE);
            assert!(one.iter().all(|byte| *byte == slot as u8) && next.iter().all(|byte| *byte == slot as u8 + 1));
        }
        let n = aio.read_at(&file, buf.bytes_mut(2 * PAGE_SIZE), 199 * PAGE_SIZE as u64, || true);
        assert_eq!(n, Ok(PAGE_SIZE));
        let n = aio.read_at(&file, &mut buf.bytes_mut(PAGE_SIZE)[1..513], 0, || true);
        assert!(n == Err(Errno::INVAL) || n == Ok(512), "{n:?}");
    }
}
