//! Anonymous memory as a program has it: mapped by libc's functions, by the thousand, and moved in
//! pieces.

use core::ffi::{c_int, c_long, c_void};
use core::sync::atomic::AtomicU64;

use rustix::io::Result;

unsafe extern "C" {
    fn mmap(addr: *mut c_void, len: usize, prot: c_int, flags: c_int, fd: c_int, offset: c_long) -> *mut c_void;
    fn munmap(addr: *mut c_void, len: usize) -> c_int;
    fn mremap(old: *mut c_void, old_len: usize, new_len: usize, flags: c_int, ...) -> *mut c_void;
    fn mprotect(addr: *mut c_void, len: usize, prot: c_int) -> c_int;
    fn madvise(addr: *mut c_void, len: usize, advice: c_int) -> c_int;
    fn mlock(addr: *const c_void, len: usize) -> c_int;
    fn munlock(addr: *const c_void, len: usize) -> c_int;
}

const PROT_READ: c_int = 1;
const PROT_WRITE: c_int = 2;
const MAP_SHARED: c_int = 1;
const MAP_PRIVATE: c_int = 2;
const MAP_FIXED: c_int = 0x10;
const MAP_ANONYMOUS: c_int = 0x20;
const MAP_NORESERVE: c_int = 0x4000;
const MAP_STACK: c_int = 0x2_0000;
const MREMAP_MAYMOVE: c_int = 1;
const MREMAP_FIXED: c_int = 2;
const MREMAP_DONTUNMAP: c_int = 4;

/// What memory is mapped as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// As malloc maps it.
    Heap,
    /// As thread stacks are mapped (MAP_STACK).
    Stack,
}

/// What may be done to pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// Reading and writing.
    #[default]
    Write,
    /// Reading.
    Read,
    /// Nothing: PROT_NONE. Whoever reads it gets SIGSEGV.
    None,
}

impl Access {
    fn prot(self) -> c_int {
        match self {
            Self::Write => PROT_READ | PROT_WRITE,
            Self::Read => PROT_READ,
            Self::None => 0,
        }
    }
}

/// A range of private anonymous memory, unmapped on drop. It may be several mappings for the
/// kernel.
///
/// # Invariants
/// `[addr, addr + len)` is page aligned, mapped, and used by this value alone.
pub struct Memory {
    addr: usize,
    len: usize,
}

fn pointer(addr: usize) -> *mut c_void {
    core::ptr::with_exposed_provenance_mut(addr)
}

/// What a call that returns an address, or -1, has said.
fn address(result: *mut c_void) -> Result<usize> {
    if result as isize == -1 {
        return Err(super::errno());
    }
    Ok(result.expose_provenance())
}

fn done(result: c_int) -> Result<()> {
    if result == 0 { Ok(()) } else { Err(super::errno()) }
}

fn map(addr: usize, len: usize, kind: Kind, fixed: c_int) -> Result<usize> {
    let flags = match kind {
        Kind::Heap => MAP_NORESERVE,
        Kind::Stack => MAP_STACK,
    };
    let flags = flags | fixed | MAP_PRIVATE | MAP_ANONYMOUS;
    // SAFETY: at an address of the kernel's choice it overlaps nothing; with MAP_FIXED the caller
    // owns what it replaces.
    address(unsafe { mmap(pointer(addr), len, PROT_READ | PROT_WRITE, flags, -1, 0) })
}

impl Memory {
    /// Map `len` bytes, readable and writable.
    ///
    /// # Errors
    /// What `mmap` answers.
    pub fn map(len: usize, kind: Kind) -> Result<Self> {
        Ok(Self {
            addr: map(0, len, kind, 0)?,
            len,
        })
    }

    /// Map `len` bytes that forked children share: no pager looks after them.
    ///
    /// # Errors
    /// What `mmap` answers.
    pub fn map_shared(len: usize) -> Result<Self> {
        let (prot, flags) = (PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS);
        // SAFETY: at an address of the kernel's choice it overlaps nothing.
        let addr = address(unsafe { mmap(pointer(0), len, prot, flags, -1, 0) })?;
        Ok(Self { addr, len })
    }

    /// Address of the first byte.
    pub fn addr(&self) -> usize {
        self.addr
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it is empty (it never is).
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn at(&self, offset: usize, len: usize) -> usize {
        assert!(
            offset.checked_add(len).is_some_and(|end| end <= self.len),
            "outside the memory"
        );
        self.addr + offset
    }

    /// Borrow bytes. The caller knows that they may be read.
    pub fn bytes(&self, offset: usize, len: usize) -> &[u8] {
        // SAFETY: in bounds by `at`, mapped, and written to through `&mut self` alone. Where
        // reading is not allowed it is SIGSEGV.
        unsafe { core::slice::from_raw_parts(pointer(self.at(offset, len)).cast(), len) }
    }

    /// Borrow bytes for writing.
    pub fn bytes_mut(&mut self, offset: usize, len: usize) -> &mut [u8] {
        // SAFETY: as for `bytes`; exclusive by `&mut self`.
        unsafe { core::slice::from_raw_parts_mut(pointer(self.at(offset, len)).cast(), len) }
    }

    /// Change the protection of a part.
    ///
    /// # Errors
    /// What `mprotect` answers; ENOMEM where that would make too many mappings.
    pub fn protect(&mut self, offset: usize, len: usize, access: Access) -> Result<()> {
        // SAFETY: in bounds by `at`; nothing is borrowed.
        done(unsafe { mprotect(pointer(self.at(offset, len)), len, access.prot()) })
    }

    /// `madvise` of a part. What it does to the contents is the caller's to know.
    ///
    /// # Errors
    /// What `madvise` answers.
    pub fn advise(&mut self, offset: usize, len: usize, advice: i32) -> Result<()> {
        // SAFETY: in bounds by `at`; nothing is borrowed, and plain bytes may become others.
        done(unsafe { madvise(pointer(self.at(offset, len)), len, advice) })
    }

    /// Lock a part in memory, and unlock it again.
    ///
    /// # Errors
    /// What `mlock` answers.
    pub fn lock_for_a_moment(&mut self, offset: usize, len: usize) -> Result<()> {
        let at = pointer(self.at(offset, len));
        // SAFETY: in bounds by `at`; changes no contents.
        unsafe {
            let locked = done(mlock(at, len));
            done(munlock(at, len)).and(locked)
        }
    }

    /// Change the length, moving the memory if need be; a grown part reads as zeros.
    ///
    /// # Errors
    /// What `mremap` answers; nothing has changed then.
    pub fn resize(&mut self, len: usize) -> Result<()> {
        // SAFETY: owned, exclusively borrowed, so no reference into it outlives the move.
        self.addr = address(unsafe { mremap(pointer(self.addr), self.len, len, MREMAP_MAYMOVE) })?;
        self.len = len;
        Ok(())
    }

    /// Move all of it to another address, keeping its contents. It must be one mapping.
    ///
    /// # Errors
    /// What `mmap` and `mremap` answer; nothing has changed then.
    pub fn relocate(&mut self) -> Result<()> {
        let target = Self::map(self.len, Kind::Heap)?;
        let to = target.addr;
        // A refused mremap may have unmapped the target already, and another thread mapped
        // something there since: dropping it then would unmap that. Better to leak the range.
        core::mem::forget(target);
        // SAFETY: both ranges are ours, and the one at `to` is replaced on purpose.
        self.addr = address(unsafe {
            mremap(
                pointer(self.addr),
                self.len,
                self.len,
                MREMAP_MAYMOVE | MREMAP_FIXED,
                pointer(to),
            )
        })?;
        Ok(())
    }

    /// Replace a part by fresh zeros (MAP_FIXED over it).
    ///
    /// # Errors
    /// What `mmap` answers.
    pub fn replace(&mut self, offset: usize, len: usize, kind: Kind) -> Result<()> {
        map(self.at(offset, len), len, kind, MAP_FIXED).map(drop)
    }

    /// Move the pages of a part to an address of the kernel's choice; zeros stay behind
    /// (MREMAP_DONTUNMAP).
    ///
    /// # Errors
    /// What `mremap` answers; nothing has changed then.
    pub fn break_off(&mut self, offset: usize, len: usize) -> Result<Self> {
        let flags = MREMAP_MAYMOVE | MREMAP_DONTUNMAP;
        // SAFETY: in bounds by `at`, nothing is borrowed, and the old range stays mapped.
        let addr = address(unsafe { mremap(pointer(self.at(offset, len)), len, len, flags, pointer(0)) })?;
        Ok(Self { addr, len })
    }

    /// Move the pages of a part of `other` over a part of this; zeros stay behind.
    ///
    /// # Errors
    /// What `mremap` answers. The part of this may be unmapped then: it must not be used any more.
    pub fn implant(&mut self, offset: usize, other: &mut Self, from: usize, len: usize) -> Result<()> {
        let flags = MREMAP_MAYMOVE | MREMAP_DONTUNMAP | MREMAP_FIXED;
        let (from, to) = (other.at(from, len), self.at(offset, len));
        // SAFETY: both in bounds by `at`, nothing is borrowed, the old range stays mapped and the
        // other is replaced on purpose.
        address(unsafe { mremap(pointer(from), len, len, flags, pointer(to)) }).map(drop)
    }

    /// Cut it at `at`, which is inside.
    pub fn split(self, at: usize) -> (Self, Self) {
        let (addr, len) = (self.at(at, 1), self.len);
        assert!(
            at > 0 && at.is_multiple_of(crate::PAGE_SIZE),
            "two parts of whole pages"
        );
        let halves = (
            Self {
                addr: self.addr,
                len: at,
            },
            Self { addr, len: len - at },
        );
        core::mem::forget(self);
        halves
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: owned, and `&mut self` proves that no borrow is left. Refused, where it would
        // make too many mappings, it is leaked.
        unsafe { munmap(pointer(self.addr), self.len) };
    }
}

/// `count` zeroed words that forked children share, for ever.
///
/// # Errors
/// What `mmap` answers.
pub fn shared_words(count: usize) -> Result<&'static [AtomicU64]> {
    let flags = MAP_SHARED | MAP_ANONYMOUS;
    let len = count * size_of::<AtomicU64>();
    // SAFETY: a fresh mapping at an address of the kernel's choice overlaps nothing; it is never
    // unmapped, and used as atomics only.
    unsafe {
        let addr = address(mmap(core::ptr::null_mut(), len, PROT_READ | PROT_WRITE, flags, -1, 0))?;
        Ok(core::slice::from_raw_parts(pointer(addr).cast(), count))
    }
}

/// Lock memory until it is unmapped.
///
/// # Errors
/// What `mlock` answers.
pub fn lock(bytes: &[u8]) -> Result<()> {
    // SAFETY: mapped, as it is borrowed; changes no contents.
    done(unsafe { mlock(pointer(bytes.as_ptr() as usize), bytes.len()) })
}
