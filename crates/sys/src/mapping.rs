//! Anonymous memory that uzswap itself owns.

use core::ffi::c_void;
use core::ptr::NonNull;

use rustix::io::{Errno, Result};
use rustix::mm::{self, Advice, MapFlags, MprotectFlags, MremapFlags, ProtFlags};

use crate::proc_mem::ProcMem;
use crate::thread::syscall;

/// Advice that a mapping's owner may give; the discriminants name the `madvise` values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discard {
    /// `MADV_DONTNEED`: the pages read as zeros from now on.
    DontNeed,
    /// `MADV_FREE`: the pages may read as zeros at any later time, until they are written.
    Free,
}

/// A private anonymous mapping, unmapped on drop.
///
/// # Invariants
/// `base` is page aligned and `[base, base + len)` is mapped and owned by this value alone. Reads
/// and writes go through byte copies: the pages may be taken out and put back by the pager between
/// any two of them.
pub struct Mapping {
    base: NonNull<c_void>,
    len: usize,
    /// Bytes below that nobody may use.
    guard: usize,
}

// SAFETY: the mapping is plain memory owned by this value; nothing about it is tied to a thread.
unsafe impl Send for Mapping {}
// SAFETY: `&self` gives out byte copies and shared slices only; writing needs `&mut self`.
unsafe impl Sync for Mapping {}

/// Reservations from this length on are in no core dump of the program's: a debugger that writes
/// one, or a pipe that takes it, would get gigabytes of zeros. Bytes.
const UNDUMPED: usize = 32 << 20;

impl Mapping {
    /// Map `len` bytes, readable and writable, without reserving memory for them.
    ///
    /// # Errors
    /// What `mmap` answers; ENOMEM when the address space (RLIMIT_AS) does not hold `len`.
    pub fn reserve(len: usize) -> Result<Self> {
        Self::reserve_aligned(len, crate::PAGE_SIZE)
    }

    /// As [`reserve`](Self::reserve), at an address that is a multiple of `align` (a power of two
    /// of pages).
    ///
    /// # Errors
    /// As for [`reserve`](Self::reserve).
    pub fn reserve_aligned(len: usize, align: usize) -> Result<Self> {
        Self::reserve_of_kind(len, align, 0)
    }

    /// As [`reserve`](Self::reserve), of memory that does not count as the program's data, which
    /// RLIMIT_DATA limits: a stack that would grow downwards, but for a page that is in the way.
    ///
    /// # Errors
    /// As for [`reserve`](Self::reserve).
    pub fn reserve_beside_data(len: usize) -> Result<Self> {
        let guard = if cfg!(miri) { 0 } else { crate::PAGE_SIZE };
        Self::reserve_of_kind(len, crate::PAGE_SIZE, guard)
    }

    fn reserve_of_kind(len: usize, align: usize, guard: usize) -> Result<Self> {
        assert!(align.is_power_of_two() && align >= crate::PAGE_SIZE && len.is_multiple_of(crate::PAGE_SIZE));
        let span = len + (align - crate::PAGE_SIZE) + guard;
        // Miri maps plain private memory only.
        let flags = if cfg!(miri) {
            MapFlags::PRIVATE
        } else {
            MapFlags::PRIVATE | MapFlags::NORESERVE
        };
        let accessible = ProtFlags::READ | ProtFlags::WRITE;
        // Until it is recorded as ours.
        let _making = own::MAKING.lock();
        let prot = if cfg!(miri) { accessible } else { ProtFlags::empty() };
        // SAFETY: a fresh mapping at an address of the kernel's choice overlaps nothing. A process
        // that locks its future memory (mlockall) would have all of it filled at once: so it is
        // made accessible after it was unlocked.
        let base = unsafe {
            let base = mm::mmap_anonymous(core::ptr::null_mut(), span, prot, flags)?;
            let usable = base.byte_add(guard);
            if guard > 0 {
                let over = flags | MapFlags::FIXED | MapFlags::GROWSDOWN;
                mm::mmap_anonymous(usable, span - guard, prot, over)?;
            }
            if prot != accessible {
                let _ = mm::munlock(usable, span - guard);
                mm::mprotect(usable, span - guard, MprotectFlags::READ | MprotectFlags::WRITE)?;
            }
            usable
        };
        let span = span - guard;
        let skip = (base as usize).next_multiple_of(align) - base as usize;
        // SAFETY: head and tail lie in the mapping just made, outside what is kept; nobody else
        // knows them yet.
        unsafe {
            if skip > 0 {
                mm::munmap(base, skip)?;
            }
            if span - skip > len {
                mm::munmap(base.byte_add(skip + len), span - skip - len)?;
            }
        }
        let base = NonNull::new(base.wrapping_byte_add(skip)).ok_or(rustix::io::Errno::NOMEM)?;
        if len >= UNDUMPED && !cfg!(miri) {
            // SAFETY: advice on our own mapping that changes no contents.
            let _ = unsafe { mm::madvise(base.as_ptr(), len, Advice::LinuxDontDump) };
        }
        // The guard as well: the kernel joins it with what the program has beside it and may not
        // use either. What is registered there would have our own munmap wait for us.
        own::add(base.as_ptr() as usize - guard, len + guard);
        Ok(Self { base, len, guard })
    }

    /// Keep small and huge pages apart: `MADV_NOHUGEPAGE`, so that residency is what was touched.
    pub fn without_huge_pages(self) -> Self {
        if cfg!(miri) {
            // It knows no advice.
            return self;
        }
        // SAFETY: advice on our own mapping that changes no contents. A kernel without THP refuses
        // it: nothing to do.
        let _ = unsafe { mm::madvise(self.base.as_ptr(), self.len, Advice::LinuxNoHugepage) };
        self
    }

    /// Address of the first byte.
    pub fn addr(&self) -> usize {
        self.base.as_ptr() as usize
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the mapping is empty (it never is).
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn at(&self, offset: usize, len: usize) -> *mut u8 {
        assert!(
            offset.checked_add(len).is_some_and(|end| end <= self.len),
            "outside the mapping"
        );
        // In bounds by the assertion above, so the offset stays inside one allocation.
        self.base.as_ptr().cast::<u8>().wrapping_add(offset)
    }

    /// Copy bytes out.
    pub fn read(&self, offset: usize, out: &mut [u8]) {
        // SAFETY: `at` checks the bounds; `out` is ours and cannot overlap memory owned by this
        // mapping.
        unsafe { core::ptr::copy_nonoverlapping(self.at(offset, out.len()), out.as_mut_ptr(), out.len()) }
    }

    /// Copy bytes in.
    pub fn write(&mut self, offset: usize, bytes: &[u8]) {
        // SAFETY: `at` checks the bounds; exclusive access by `&mut self`; `bytes` does not
        // overlap.
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), self.at(offset, bytes.len()), bytes.len()) }
    }

    /// Borrow bytes. For memory that no pager takes away while it is borrowed: the pool, staged
    /// pages being stored.
    pub fn bytes(&self, offset: usize, len: usize) -> &[u8] {
        // SAFETY: in bounds by `at`; writes need `&mut self` or the kernel's moves, which the
        // engine orders against this borrow (a staged page marked busy is never moved).
        unsafe { core::slice::from_raw_parts(self.at(offset, len), len) }
    }

    /// Borrow bytes for writing.
    pub fn bytes_mut(&mut self, offset: usize, len: usize) -> &mut [u8] {
        // SAFETY: in bounds by `at`; exclusive by `&mut self`.
        unsafe { core::slice::from_raw_parts_mut(self.at(offset, len), len) }
    }

    /// Fill a part with a copy of the program's memory from `addr` on. Returns the bytes copied, up
    /// to the first page that is not there. Nobody may borrow that part meanwhile: staging slots
    /// that are not filled yet.
    pub fn fill(&self, offset: usize, len: usize, memory: &ProcMem, addr: usize) -> usize {
        // SAFETY: in bounds by `at`; the engine fills a slot before it tells anybody of it, as it
        // does when the kernel moves a page there.
        memory.read(addr, unsafe {
            core::slice::from_raw_parts_mut(self.at(offset, len), len)
        })
    }

    /// Give the pages of a part back to the system.
    ///
    /// # Errors
    /// What `madvise` answers.
    pub fn discard(&self, offset: usize, len: usize, how: Discard) -> Result<()> {
        let advice = match how {
            Discard::DontNeed => Advice::LinuxDontNeed,
            Discard::Free => Advice::LinuxFree,
        };
        // SAFETY: in bounds by `at`; pages of an owned anonymous mapping may become zeros at any
        // time but while they are borrowed, and the callers hold no borrow of what they discard.
        let result = unsafe { mm::madvise(self.at(offset, len).cast(), len, advice) };
        match result {
            // SAFETY: as above. The whole process was locked (mlockall), and us with it.
            Err(Errno::INVAL) if how == Discard::DontNeed => unsafe {
                mm::madvise(self.at(offset, len).cast(), len, Advice::LinuxDontneedLocked)
            },
            result => result,
        }
    }

    /// Forked children do not get this memory: theirs is to forget this value, not to use or drop
    /// it.
    ///
    /// # Errors
    /// What `madvise` answers.
    pub fn keep_from_children(&self) -> Result<()> {
        // SAFETY: in bounds; changes nothing in this process.
        unsafe { mm::madvise(self.base.as_ptr(), self.len, Advice::LinuxDontFork) }
    }

    /// Change the protection of a part to read-only or back. Reading stays allowed always.
    ///
    /// # Errors
    /// What `mprotect` answers.
    pub fn protect(&mut self, offset: usize, len: usize, writable: bool) -> Result<()> {
        let prot = if writable {
            MprotectFlags::READ | MprotectFlags::WRITE
        } else {
            MprotectFlags::READ
        };
        // SAFETY: in bounds by `at`. A write to a read-only part is the caller's SIGSEGV, not
        // undefined behaviour here.
        unsafe { mm::mprotect(self.at(offset, len).cast(), len, prot) }
    }

    /// Change the length, moving the mapping if need be; a grown part reads as zeros.
    ///
    /// # Errors
    /// What `mremap` answers; the mapping is unchanged then.
    pub fn resize(&mut self, len: usize) -> Result<()> {
        assert!(self.guard == 0, "a guard does not move along");
        let _making = own::MAKING.lock();
        own::remove(self.addr());
        // SAFETY: owned mapping, exclusively borrowed, so no reference into it outlives the move.
        let moved = unsafe { mm::mremap(self.base.as_ptr(), self.len, len, MremapFlags::MAYMOVE) };
        if let Ok(base) = moved {
            self.base = NonNull::new(base).ok_or(rustix::io::Errno::FAULT)?;
            self.len = len;
        }
        own::add(self.addr(), self.len);
        moved.map(drop)
    }

    /// Replace a part by a fresh zero mapping (`MAP_FIXED` over it).
    ///
    /// # Errors
    /// What `mmap` answers.
    pub fn replace(&mut self, offset: usize, len: usize) -> Result<()> {
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED;
        // SAFETY: replaces pages of this very mapping, exclusively borrowed.
        unsafe {
            mm::mmap_anonymous(
                self.at(offset, len).cast(),
                len,
                ProtFlags::READ | ProtFlags::WRITE,
                flags,
            )
        }
        .map(drop)
    }

    /// Keep the mapping for the life of the process.
    pub fn leak(self) -> &'static Self {
        alloc::boxed::Box::leak(alloc::boxed::Box::new(self))
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // Nobody takes it for the program's in between.
        let _making = own::MAKING.lock();
        own::remove(self.addr() - self.guard);
        // SAFETY: owned by this value, and `&mut self` proves that no borrow is left.
        let _ = unsafe { mm::munmap(self.base.as_ptr().byte_sub(self.guard), self.len + self.guard) };
    }
}

/// Break the copy-on-write sharing of pages after a fork: `MADV_POPULATE_WRITE`.
///
/// Contents do not change. The caller must hold no lock that serving a fault needs, since a page of
/// the range may be missing and would then be asked of the fault thread.
///
/// # Errors
/// EINVAL for read-only ranges, ENOMEM for unmapped ones, EFAULT when a page cannot be had.
pub fn unshare(addr: usize, len: usize) -> Result<()> {
    // SAFETY: populating reads or copies pages but changes no contents; a bad range is refused with
    // an error.
    unsafe { mm::madvise(addr as *mut c_void, len, Advice::LinuxPopulateWrite) }
}

/// Drop pages of the program, of which copies were made: `MADV_DONTNEED`. Waits until the event was
/// read, if the range is registered.
///
/// # Errors
/// EINVAL for locked ranges, ENOMEM for unmapped ones; a part may have been dropped.
pub fn drop_pages(addr: usize, len: usize) -> Result<()> {
    // SAFETY: the engine has a copy of each page and gives it back to whoever finds it missing;
    // nobody borrows memory of the program.
    unsafe { mm::madvise(addr as *mut c_void, len, Advice::LinuxDontNeed) }
}

/// Whether the kernel may merge any page of this process with others of the same contents (KSM;
/// `PR_GET_MEMORY_MERGE`, Linux 6.4), as far as it lets us know.
pub fn merges() -> bool {
    const GET_MEMORY_MERGE: usize = 68;
    // SAFETY: takes no pointer, changes nothing.
    let merges = unsafe {
        syscall(
            linux_raw_sys::general::__NR_prctl as usize,
            [GET_MEMORY_MERGE, 0, 0, 0, 0, 0],
        )
    };
    !matches!(merges, Ok(0) | Err(Errno::INVAL))
}

/// The ranges mapped by this copy of the library: an agent must never manage its own memory.
pub mod own {
    use core::sync::atomic::{AtomicUsize, Ordering};

    use lock_api::Mutex;

    use crate::futex::RawLock;

    /// Held while a range is there and not recorded, and by whoever takes what is mapped for the
    /// program's. Whoever holds it waits for nothing but the kernel.
    pub(super) static MAKING: Mutex<RawLock, ()> = Mutex::new(());

    const MAX: usize = 256;
    static RANGES: [[AtomicUsize; 2]; MAX] = [const { [const { AtomicUsize::new(0) }; 2] }; MAX];

    /// Record `[start, start + len)`.
    pub fn add(start: usize, len: usize) {
        for [slot, end] in &RANGES {
            let taken = slot.compare_exchange(0, start, Ordering::AcqRel, Ordering::Relaxed);
            if taken.is_ok() {
                // A reader that comes between the two stores sees an empty range, but in
                // `while_none_is_made`.
                end.store(start + len, Ordering::Release);
                return;
            }
        }
        // An agent that forgets a range of its own would manage its own stacks: better to stop.
        panic!("more than {MAX} mappings of our own");
    }

    /// How many more may be.
    pub fn room() -> usize {
        let is_free = |range: &&[AtomicUsize; 2]| range[0].load(Ordering::Relaxed) == 0;
        RANGES.iter().filter(is_free).count()
    }

    /// Call `f` while every range of ours that is mapped is recorded.
    pub fn while_none_is_made<T>(f: impl FnOnce() -> T) -> T {
        let _none = MAKING.lock();
        f()
    }

    /// In a forked child: whoever was making one is not here.
    pub fn reset_in_child() {
        if MAKING.is_locked() {
            // SAFETY: by a thread of the parent. What it mapped is lost, and nobody uses it.
            unsafe { MAKING.force_unlock() };
        }
    }

    /// Forget the range that starts at `start`.
    pub fn remove(start: usize) {
        for [slot, end] in &RANGES {
            if slot.load(Ordering::Acquire) == start {
                end.store(0, Ordering::Release);
                slot.store(0, Ordering::Release);
            }
        }
    }

    /// Unlock all of it, after the process was locked as a whole: what is not used would be filled,
    /// and between memory that is locked and memory that is not the kernel moves no pages, which is
    /// what keeps the program's locked pages where they are.
    pub fn unlock() {
        for_each(|start, end| {
            let start = core::ptr::with_exposed_provenance_mut(start);
            // SAFETY: unlocking changes no contents.
            let _ = unsafe { rustix::mm::munlock(start, end - start as usize) };
        });
    }

    /// Whether any of it lies in `[start, end)`.
    pub fn overlaps(start: usize, end: usize) -> bool {
        let mut overlaps = false;
        for_each(|from, to| overlaps |= from < end && start < to);
        overlaps
    }

    /// Call `f` with each recorded range.
    pub fn for_each(mut f: impl FnMut(usize, usize)) {
        for [start, end] in &RANGES {
            let (start, end) = (start.load(Ordering::Acquire), end.load(Ordering::Acquire));
            if start != 0 {
                f(start, end);
            }
        }
    }
}

#[cfg(test)]
mod test {
    extern crate std;

    use super::*;
    use core::sync::atomic::Ordering;

    const PAGE: usize = crate::PAGE_SIZE;

    #[test]
    fn the_guard_of_a_mapping_is_ours_too() {
        let mapping = Mapping::reserve_beside_data(PAGE).unwrap();
        let (first, guard) = (mapping.addr(), if cfg!(miri) { 0 } else { PAGE });
        assert!(own::overlaps(first - guard, first - guard + 1));
        drop(mapping);
        assert!(!own::overlaps(first - guard, first + PAGE));
    }

    #[test]
    #[cfg(not(miri))]
    fn what_is_long_is_in_no_core_dump() {
        let mapping = Mapping::reserve_beside_data(UNDUMPED).unwrap();
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let begins = alloc::format!("{:x}-", mapping.addr());
        let flags = maps.lines().skip_while(|line| !line.starts_with(&begins));
        let flags = flags.into_iter().find(|line| line.starts_with("VmFlags:")).unwrap();
        assert!(flags.split_whitespace().any(|flag| flag == "dd"), "{flags}");
    }

    #[test]
    fn none_is_made_while_somebody_takes_what_is_mapped() {
        let is_made = core::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            own::while_none_is_made(|| {
                scope.spawn(|| {
                    Mapping::reserve(PAGE).unwrap();
                    is_made.store(true, Ordering::SeqCst);
                });
                for _ in 0..100 {
                    std::thread::yield_now();
                    assert!(!is_made.load(Ordering::SeqCst));
                }
            });
        });
        assert!(is_made.into_inner());
    }

    #[test]
    fn a_mapping_keeps_what_is_written() {
        let mut mapping = Mapping::reserve(4 * PAGE).unwrap();
        assert_eq!((mapping.addr() % PAGE, mapping.len()), (0, 4 * PAGE));
        mapping.write(PAGE - 2, &[1, 2, 3, 4]);
        mapping.bytes_mut(PAGE, 8)[7] = 9;
        assert_eq!(mapping.bytes(PAGE - 3, 12), [0, 1, 2, 3, 4, 0, 0, 0, 0, 0, 9, 0]);
        let mut out = [7; 4];
        mapping.read(PAGE - 1, &mut out);
        assert_eq!(out, [2, 3, 4, 0]);
        mapping.resize(6 * PAGE).unwrap();
        assert_eq!(
            (mapping.bytes(PAGE, 2), mapping.bytes(6 * PAGE - 1, 1)),
            (&[3, 4][..], &[0][..])
        );
    }

    #[test]
    #[should_panic(expected = "outside the mapping")]
    fn nothing_outside_a_mapping_is_reached() {
        Mapping::reserve(PAGE).unwrap().bytes(PAGE - 1, 2);
    }

    #[test]
    fn own_ranges_are_known() {
        let mapping = Mapping::reserve(PAGE).unwrap();
        let (addr, mut seen) = (mapping.addr(), 0);
        own::for_each(|start, end| seen += usize::from((start, end) == (addr, addr + PAGE)));
        assert_eq!(seen, 1);
    }
}
