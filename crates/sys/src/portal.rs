//! Work queues of accelerators (idxd): their character devices, and the pages at which descriptors
//! are submitted.
//!
//! | a queue | with the instruction, and a page | else |
//! |---|---|---|
//! | shared | ENQCMD: the device says whether it took the descriptor | `write` |
//! | dedicated | MOVDIR64B: it never refuses, so who submits counts | `write` |
//!
//! Which instructions the processor has is asked when a queue is opened ([`Instructions::detect`]).
//! The page needs CAP_SYS_RAWIO since Linux 6.9.1; a queue that gives none is written to.
//!
//! None of this was tried on a device. Tests cover what the processor is asked, how the system's
//! answers are read, and files in the device's place.

use core::ffi::{CStr, c_void};
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};

use rustix::fd::{BorrowedFd, IntoRawFd};
use rustix::fs::{self, Mode, OFlags};
use rustix::io::{self, Errno, Result};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::PAGE_SIZE;
use crate::x86_64::instructions::{enqcmd, movdir64b};

/// Bytes of a descriptor, and of each place of a page to submit at.
const DESCRIPTOR: usize = 64;
/// CPUID leaf 7, register ECX.
const HAS_MOVDIR64B: u32 = 1 << 28;
const HAS_ENQCMD: u32 = 1 << 29;
const FEATURES: u32 = 7;

/// What this processor submits with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Instructions {
    /// ENQCMD, for shared queues.
    pub enqcmd: bool,
    /// MOVDIR64B, for dedicated ones.
    pub movdir64b: bool,
}

impl Instructions {
    /// Ask the processor.
    pub fn detect() -> Self {
        if cfg!(miri) {
            return Self::default();
        }
        let leaves = core::arch::x86_64::__cpuid(0).eax;
        match leaves {
            FEATURES.. => Self::of(core::arch::x86_64::__cpuid_count(FEATURES, 0).ecx),
            _ => Self::default(),
        }
    }

    /// Of ECX of CPUID leaf 7.
    const fn of(ecx: u32) -> Self {
        Self {
            enqcmd: ecx & HAS_ENQCMD != 0,
            movdir64b: ecx & HAS_MOVDIR64B != 0,
        }
    }

    /// Whether a queue of this kind can be submitted to at a page.
    const fn submit_to(self, is_shared: bool) -> bool {
        if is_shared { self.enqcmd } else { self.movdir64b }
    }
}

/// What became of a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The device has it.
    Accepted,
    /// The queue is full.
    Full,
    /// The queue is disabled or removed, or was closed here.
    Gone,
}

/// An open work queue. Many threads submit at once.
pub struct WorkQueue {
    /// -1 once it was closed.
    fd: AtomicI32,
    page: Option<NonNull<c_void>>,
    is_shared: bool,
    /// The next place of the page: all are the same queue, and a processor fills several at a time.
    next: AtomicU32,
    is_closed: AtomicBool,
    /// Threads within `submit`.
    inside: AtomicU32,
}

// SAFETY: the page belongs to the mapping, which stays until `close` has waited for all threads
// that may use it; the rest are atomics.
unsafe impl Send for WorkQueue {}
// SAFETY: as above; each submission is one instruction or one system call of its own.
unsafe impl Sync for WorkQueue {}

impl WorkQueue {
    /// Open the device `path`, as the queue of this kind that it is.
    ///
    /// # Errors
    /// What `open` answers: ENOENT or ENODEV: no such queue; EACCES; EBUSY: a dedicated one that
    /// another process has.
    pub fn open(path: &CStr, is_shared: bool, instructions: Instructions) -> Result<Self> {
        let fd = fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
        let mut page = None;
        if instructions.submit_to(is_shared) {
            // SAFETY: a fresh mapping at an address of the kernel's choice overlaps nothing.
            let mapped = unsafe {
                mmap(
                    core::ptr::null_mut(),
                    PAGE_SIZE,
                    ProtFlags::WRITE,
                    MapFlags::SHARED,
                    &fd,
                    0,
                )
            };
            // Whatever forbids it, the file can be written to.
            page = mapped.ok().and_then(NonNull::new);
        }
        Ok(Self {
            fd: AtomicI32::new(fd.into_raw_fd()),
            page,
            is_shared,
            next: AtomicU32::new(0),
            is_closed: AtomicBool::new(false),
            inside: AtomicU32::new(0),
        })
    }

    /// Whether descriptors are submitted at a page, not written.
    pub fn is_mapped(&self) -> bool {
        self.page.is_some()
    }

    /// Submit a descriptor once.
    pub fn submit(&self, descriptor: &[u8; DESCRIPTOR]) -> Answer {
        // SeqCst, as in `close`: either it sees this thread inside, or the thread sees that it is
        // closed.
        self.inside.fetch_add(1, Ordering::SeqCst);
        let answer = if self.is_closed.load(Ordering::SeqCst) {
            Answer::Gone
        } else {
            match self.page {
                Some(page) => self.submit_at(page, descriptor),
                None => self.write(descriptor),
            }
        };
        self.inside.fetch_sub(1, Ordering::SeqCst);
        answer
    }

    fn submit_at(&self, page: NonNull<c_void>, descriptor: &[u8; DESCRIPTOR]) -> Answer {
        let place = self.next.fetch_add(1, Ordering::Relaxed) as usize % (PAGE_SIZE / DESCRIPTOR);
        let place = page.as_ptr().wrapping_byte_add(place * DESCRIPTOR);
        // SAFETY: a place of the mapped page, aligned to 64 bytes, which stays mapped while this
        // thread is inside; the processor has the instruction, or there would be no page.
        match (self.is_shared, unsafe { self.send(place, descriptor) }) {
            (true, false) => Answer::Full,
            _ => Answer::Accepted,
        }
    }

    /// Send a descriptor by the queue's instruction. False: a shared queue did not take it.
    ///
    /// # Safety
    /// `place` must be writable for 64 bytes and aligned to as many, and the processor must have
    /// the instruction.
    unsafe fn send(&self, place: *mut c_void, descriptor: &[u8; DESCRIPTOR]) -> bool {
        match self.is_shared {
            // SAFETY: the caller's promise.
            true => unsafe { enqcmd(place, descriptor) },
            false => {
                // SAFETY: the caller's promise.
                unsafe { movdir64b(place, descriptor) };
                true
            }
        }
    }

    fn write(&self, descriptor: &[u8; DESCRIPTOR]) -> Answer {
        let fd = self.fd.load(Ordering::Relaxed);
        // SAFETY: open until `close`, which waits for this thread to leave.
        answer(io::write(unsafe { BorrowedFd::borrow_raw(fd) }, descriptor))
    }

    /// Close it: the kernel waits for what this process has submitted. Nobody may be about to wait
    /// for this thread within [`submit`](Self::submit).
    pub fn close(&self) {
        if self.is_closed.swap(true, Ordering::SeqCst) {
            return;
        }
        while self.inside.load(Ordering::SeqCst) != 0 {
            core::hint::spin_loop();
        }
        if let Some(page) = self.page {
            // SAFETY: our own mapping, that nobody uses: no thread is inside, and none comes in.
            let _ = unsafe { munmap(page.as_ptr(), PAGE_SIZE) };
        }
        let fd = self.fd.swap(-1, Ordering::Relaxed);
        // SAFETY: from `into_raw_fd`, closed by this alone, and nobody writes to it any more.
        unsafe { io::close(fd) };
    }
}

impl Drop for WorkQueue {
    fn drop(&mut self) {
        self.close();
    }
}

/// What the answer of `write` means.
fn answer(written: Result<usize>) -> Answer {
    match written {
        Ok(DESCRIPTOR) => Answer::Accepted,
        // The kernel has tried as often as it does.
        Ok(_) | Err(Errno::AGAIN | Errno::INTR | Errno::BUSY) => Answer::Full,
        Err(_) => Answer::Gone,
    }
}

#[cfg(test)]
mod test {
    extern crate std;

    use std::ffi::CString;
    use std::path::PathBuf;
    use std::sync::atomic::AtomicU64;

    use super::*;

    const ALL: Instructions = Instructions {
        enqcmd: true,
        movdir64b: true,
    };

    /// A file in a device's place, removed at the end.
    struct Fake(PathBuf);

    impl Fake {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(std::format!("uzswap-portal-{}-{name}", std::process::id()));
            std::fs::write(&path, b"").unwrap();
            Self(path)
        }

        fn open(&self, is_shared: bool, instructions: Instructions) -> Result<WorkQueue> {
            WorkQueue::open(&c_path(&self.0), is_shared, instructions)
        }
    }

    impl Drop for Fake {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    fn c_path(path: &std::path::Path) -> CString {
        CString::new(path.to_str().unwrap()).unwrap()
    }

    #[test]
    fn the_processors_bits_say_which_instructions_it_has() {
        assert_eq!(Instructions::of(0), Instructions::default());
        assert_eq!(Instructions::of(u32::MAX), ALL);
        let only = |ecx| (Instructions::of(ecx).enqcmd, Instructions::of(ecx).movdir64b);
        assert_eq!((only(0x2000_0000), only(0x1000_0000)), ((true, false), (false, true)));
        for (is_shared, instructions, can) in [
            (true, Instructions::of(HAS_ENQCMD), true),
            (false, Instructions::of(HAS_ENQCMD), false),
            (true, Instructions::of(HAS_MOVDIR64B), false),
            (false, Instructions::of(HAS_MOVDIR64B), true),
        ] {
            assert_eq!(instructions.submit_to(is_shared), can);
        }
        // The same at any time.
        assert_eq!(Instructions::detect(), Instructions::detect());
    }

    #[test]
    fn a_queue_that_is_not_there_is_not_opened() {
        let open = |path| WorkQueue::open(path, true, ALL).err();
        assert_eq!(open(c"/dev/iax/wq999.9"), Some(Errno::NOENT));
        assert_eq!(open(c"/"), Some(Errno::ISDIR));
    }

    #[test]
    fn without_the_instruction_descriptors_are_written() {
        for is_shared in [true, false] {
            let fake = Fake::new(if is_shared { "shared" } else { "dedicated" });
            let queue = fake.open(is_shared, Instructions::default()).unwrap();
            assert!(!queue.is_mapped());
            let descriptors = [[1; 64], [2; 64]];
            for descriptor in &descriptors {
                assert_eq!(queue.submit(descriptor), Answer::Accepted);
            }
            assert_eq!(std::fs::read(&fake.0).unwrap(), descriptors.concat());
            queue.close();
            queue.close();
            assert_eq!(queue.submit(&[3; 64]), Answer::Gone);
            assert_eq!(std::fs::read(&fake.0).unwrap().len(), 128);
        }
    }

    #[test]
    fn a_file_that_gives_no_page_is_written_to() {
        // The kernel maps no page of it for writing alone.
        let queue = WorkQueue::open(c"/dev/full", true, ALL).unwrap();
        assert!(!queue.is_mapped());
        assert_eq!(queue.submit(&[0; 64]), Answer::Gone);
    }

    #[test]
    fn answers_of_write_are_read_as_the_data_sheet_has_them() {
        for (written, expected) in [
            (Ok(64), Answer::Accepted),
            (Ok(0), Answer::Full),
            (Err(Errno::AGAIN), Answer::Full),
            (Err(Errno::INTR), Answer::Full),
            (Err(Errno::NODEV), Answer::Gone),
            (Err(Errno::PERM), Answer::Gone),
            (Err(Errno::INVAL), Answer::Gone),
        ] {
            assert_eq!(answer(written), expected, "{written:?}");
        }
    }

    #[test]
    fn who_closes_waits_for_who_submits() {
        let fake = Fake::new("closed");
        let (queue, accepted) = (fake.open(true, Instructions::default()).unwrap(), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while queue.submit(&[7; 64]) == Answer::Accepted {
                        accepted.fetch_add(64, Ordering::Relaxed);
                    }
                });
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
            queue.close();
        });
        assert_eq!(std::fs::metadata(&fake.0).unwrap().len(), accepted.into_inner());
    }

    /// The instruction itself writes to any memory, so it can be tried where the processor has it.
    #[test]
    fn a_dedicated_queues_page_gets_the_descriptor() {
        if !Instructions::detect().movdir64b {
            std::eprintln!("left out: this processor has no MOVDIR64B");
            return;
        }
        let fake = Fake::new("mapped");
        std::fs::write(&fake.0, [0; PAGE_SIZE]).unwrap();
        let queue = fake.open(false, Instructions::detect()).unwrap();
        assert!(queue.is_mapped());
        for i in 0..65 {
            assert_eq!(queue.submit(&[i; 64]), Answer::Accepted);
        }
        queue.close();
        let page = std::fs::read(&fake.0).unwrap();
        let places: std::vec::Vec<_> = page.chunks(64).map(|place| (place[0], place[63])).collect();
        let expected = (0..64).map(|i| if i == 0 { (64, 64) } else { (i, i) });
        assert_eq!(places, expected.collect::<std::vec::Vec<_>>());
    }
}
