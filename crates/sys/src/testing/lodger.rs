//! Processes that share their maker's memory: CLONE_VM without CLONE_THREAD.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ffi::{c_int, c_void};

use rustix::io::{Errno, Result};

use super::memory::{Access, Kind, Memory};
use super::process::reap;

unsafe extern "C" {
    fn clone(
        body: extern "C" fn(*mut c_void) -> c_int,
        stack: *mut c_void,
        flags: c_int,
        arg: *mut c_void,
        ...
    ) -> c_int;
    fn getpid() -> c_int;
}

const CLONE_VM: c_int = 0x100;
const CLONE_VFORK: c_int = 0x4000;
const SIGCHLD: c_int = 17;
const STACK: usize = 64 << 10;
/// Bytes that a number stands for.
const SECTOR: usize = 512;
/// Status of a lodger that found a difference.
const DIFFERENT: usize = 42;
/// Pages of its own that a lodger maps, fills, checks and unmaps.
const OWN_PAGES: usize = 24;

/// The bytes that a number stands for. Called in a process that has no thread-local storage of its
/// own.
pub type Pattern = fn(u64) -> [u8; SECTOR];

/// What the lodger reads; nobody else touches it or `memory` until that process has ended.
struct Errand {
    memory: Memory,
    ids: Vec<u64>,
    pattern: Pattern,
    /// The lodger waits until this process is gone. 0: it does not.
    maker: i32,
}

/// A process that shares all memory with its maker. It checks a range sector by sector, changes it,
/// and maps some of its own.
pub struct Lodger {
    /// Shared with the lodger, so it has an address of its own that does not move.
    errand: *mut Errand,
    stack: Memory,
    pid: i32,
}

// SAFETY: it owns what it points to; nothing about it is tied to a thread but that the maker's
// process reaps it.
unsafe impl Send for Lodger {}

/// What a sector of `id` holds after a lodger was there.
fn changed(id: u64) -> u64 {
    id.wrapping_mul(5) | 1
}

/// In the lodger, by system calls: errno and whatever else libc keeps for a thread are the maker's.
fn call(number: u32, args: [usize; 3]) -> usize {
    // SAFETY: write, getppid, sched_yield and exit_group, which touch no memory but the bytes that
    // are written.
    let result = unsafe { crate::thread::syscall(number as usize, [args[0], args[1], args[2], 0, 0, 0]) };
    result.unwrap_or(0)
}

/// One line on standard output, without allocating.
fn tell(what: &[u8], addr: usize) {
    let mut line = [b' '; 96];
    let what = &what[..what.len().min(64)];
    line[..what.len()].copy_from_slice(what);
    for (i, byte) in line[what.len()..what.len() + 16].iter_mut().enumerate() {
        *byte = b"0123456789abcdef"[addr >> (60 - 4 * i) & 15];
    }
    let len = what.len() + 17;
    line[len - 1] = b'\n';
    call(
        linux_raw_sys::general::__NR_write,
        [1, line.as_ptr().expose_provenance(), len],
    );
}

fn check_and_change(memory: &mut Memory, ids: &[u64], pattern: Pattern) -> bool {
    for (i, id) in ids.iter().enumerate() {
        if memory.bytes(i * SECTOR, SECTOR) != pattern(*id) {
            tell(
                b"DIFFERENCE in a process that shares memory, at ",
                memory.addr() + i * SECTOR,
            );
            return false;
        }
        memory
            .bytes_mut(i * SECTOR, SECTOR)
            .copy_from_slice(&pattern(changed(*id)));
    }
    true
}

/// Memory that comes and goes in a lodger.
fn use_own_memory(pattern: Pattern) -> bool {
    let Ok(mut own) = Memory::map(OWN_PAGES * crate::PAGE_SIZE, Kind::Heap) else {
        return true;
    };
    let len = own.len();
    for sector in 0..len / SECTOR {
        own.bytes_mut(sector * SECTOR, SECTOR)
            .copy_from_slice(&pattern(sector as u64));
    }
    let _ = own.protect(0, len, Access::Read);
    let same = (0..len / SECTOR).all(|sector| own.bytes(sector * SECTOR, SECTOR) == pattern(sector as u64));
    if !same {
        tell(b"DIFFERENCE in a sharing process's own memory, at ", own.addr());
    }
    same
}

extern "C" fn lodge(errand: *mut c_void) -> c_int {
    // SAFETY: made by `move_in`, and left alone by the maker until this process has ended. A maker
    // that ends before leaves the memory to us.
    let errand = unsafe { &mut *errand.cast::<Errand>() };
    let maker = errand.maker as usize;
    // Orphans get another parent, even while their maker waits to be reaped.
    while maker != 0 && call(linux_raw_sys::general::__NR_getppid, [0; 3]) == maker {
        call(linux_raw_sys::general::__NR_sched_yield, [0; 3]);
    }
    let is_right = check_and_change(&mut errand.memory, &errand.ids, errand.pattern) && use_own_memory(errand.pattern);
    let status = if is_right { 0 } else { DIFFERENT };
    call(linux_raw_sys::general::__NR_exit_group, [status, 0, 0]);
    0
}

impl Lodger {
    /// Make the process. `memory` holds the sectors `ids` as `pattern` says, and all of it may be
    /// written. With `is_vfork` the calling thread goes on when the lodger has ended; one that
    /// `outlives` begins when this process is gone.
    ///
    /// # Errors
    /// What `clone` and `mmap` answer.
    pub fn move_in(memory: Memory, ids: Vec<u64>, pattern: Pattern, is_vfork: bool, outlives: bool) -> Result<Self> {
        assert!(ids.len() * SECTOR == memory.len(), "a number for each sector");
        assert!(!(is_vfork && outlives), "nobody would end first");
        let stack = Memory::map(STACK, Kind::Stack)?;
        // SAFETY: takes nothing.
        let maker = if outlives { unsafe { getpid() } } else { 0 };
        let errand = Box::into_raw(Box::new(Errand {
            memory,
            ids,
            pattern,
            maker,
        }));
        let flags = CLONE_VM | SIGCHLD | if is_vfork { CLONE_VFORK } else { 0 };
        let top = core::ptr::with_exposed_provenance_mut(stack.addr() + stack.len());
        // SAFETY: the stack and the errand are the lodger's alone until it has ended. It runs
        // `lodge`, which keeps nothing in thread-local storage: libc's functions that it calls
        // would do so for errors alone, which do not happen to memory it owns.
        let pid = unsafe { clone(lodge, top, flags, errand.cast()) };
        if pid == -1 {
            let errno = super::errno();
            // SAFETY: nobody else has it.
            drop(unsafe { Box::from_raw(errand) });
            return Err(errno);
        }
        Ok(Self { errand, stack, pid })
    }

    /// Wait for its end. `None`: it runs still (if not to `block`). Else its memory and what is in
    /// there now, or the status of one that did not end well.
    pub fn move_out(&mut self, block: bool) -> Option<core::result::Result<(Memory, Vec<u64>), u8>> {
        if self.errand.is_null() {
            return None;
        }
        let status = reap(self.pid, block)?;
        // SAFETY: made by `move_in`; the process that shared it has ended.
        let errand = unsafe { Box::from_raw(core::mem::replace(&mut self.errand, core::ptr::null_mut())) };
        let Errand { memory, mut ids, .. } = *errand;
        ids.iter_mut().for_each(|id| *id = changed(*id));
        Some(if status == 0 { Ok((memory, ids)) } else { Err(status) })
    }

    /// In a forked child: the lodger is not there, and what its memory holds depends on when the
    /// fork was.
    pub fn forget(mut self) {
        let errand = core::mem::replace(&mut self.errand, core::ptr::null_mut());
        if !errand.is_null() {
            // SAFETY: this process's own copy, which no other uses.
            drop(unsafe { Box::from_raw(errand) });
        }
    }

    /// End this process, in an orderly way, before the lodger.
    pub fn outlive(self) -> Errno {
        core::mem::forget(self);
        unsafe extern "C" {
            fn exit(status: c_int) -> !;
        }
        // SAFETY: ends the process; the lodger has what it needs.
        unsafe { exit(0) }
    }
}

impl Drop for Lodger {
    fn drop(&mut self) {
        // The stack goes with us: not before the lodger has ended.
        let _ = (self.move_out(true), &self.stack);
    }
}
