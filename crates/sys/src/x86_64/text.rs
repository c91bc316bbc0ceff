//! Replacing a libc function in place.
//!
//! glibc's malloc maps memory through internal calls that no interposed symbol sees, so the wrapper
//! itself is replaced: its first bytes become a jump. The functions replaced (`brk`, `mmap`,
//! `munmap`) are thin wrappers of one system call, which the replacements make themselves; so
//! nothing of the original needs to be kept or relocated, and no symbol of the program is shadowed.
//! That they are such wrappers is checked ([`is_wrapper`]).

use core::ffi::c_void;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rustix::io::{Errno, Result};
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap, mprotect};

use crate::PAGE_SIZE;
use crate::libc::Function;
use crate::mapping::Mapping;

/// `jmp [rip + 0]` followed by the 64-bit target.
const JUMP: [u8; 6] = [0xff, 0x25, 0, 0, 0, 0];
const PATCH: usize = JUMP.len() + 8;

/// Whether the function that `code` begins with was replaced: behind the jump are not instructions
/// but an address.
pub fn is_replaced(code: &[u8]) -> bool {
    code.starts_with(&JUMP)
}

/// Whether `code` is what is taken for granted of the wrapper of system call `number`: long enough
/// for the jump, makes that call and no other, and never branches back to where the jump will be.
/// It may make it twice: some versions of glibc have `mmap` ask for low addresses first where the
/// tunable `prefer_map_32bit_exec` says so.
pub fn is_wrapper(code: &[u8], number: u8) -> bool {
    const SYSCALL: [u8; 2] = [0x0f, 0x05];
    let calls = code.windows(2).filter(|bytes| *bytes == SYSCALL).count();
    // `mov register, number`
    let is_load = |bytes: &[u8]| matches!(bytes[0], 0xb8..=0xbf) && bytes[1..] == [number, 0, 0, 0];
    let loads = code.windows(5).filter(|bytes| is_load(bytes)).count();
    code.len() >= PATCH && matches!(calls, 1 | 2) && loads == calls && !branches_into_patch(code)
}

/// Whether anything in `code` may be a branch to its first bytes. (At any byte, since instructions
/// are not told apart: rather one too many is refused.) Its very beginning is fine: it goes to the
/// replacement then.
fn branches_into_patch(code: &[u8]) -> bool {
    let enters = |end: usize, offset: i64| (1..PATCH as i64).contains(&(end as i64 + offset));
    let short = code.windows(2).enumerate().any(|(at, bytes)| {
        matches!(bytes[0], 0x70..=0x7f | 0xe0..=0xe3 | 0xeb) && enters(at + 2, i64::from(bytes[1] as i8))
    });
    let near = code.windows(5).enumerate().any(|(at, bytes)| {
        let offset = i32::from_le_bytes([bytes[1], bytes[2], bytes[3], bytes[4]]);
        matches!(bytes[0], 0x80..=0x8f | 0xe9) && enters(at + 5, i64::from(offset))
    });
    short || near
}

/// Make `function` continue at `replacement`, if it is what it should be ([`is_wrapper`]).
///
/// # Errors
/// NOSYS: it is something else. EACCES, EPERM: the system forbids changing program text, and
/// running it from a copy. Nothing was changed then.
///
/// # Safety
/// 1. `function` is a function of libc that no thread is executing now;
/// 2. `replacement` has the same C signature and does all that callers expect of a wrapper of
///    system call `number`;
/// 3. no other thread changes the mappings that `function` lies in.
pub unsafe fn replace(function: &Function, number: u8, replacement: *const c_void) -> Result<()> {
    let Function { entry, len } = *function;
    // SAFETY: code of libc, which is readable, and stays as long as the process.
    let code = unsafe { core::slice::from_raw_parts(entry.cast_const().cast(), len) };
    if !is_wrapper(code, number) {
        return Err(Errno::NOSYS);
    }
    // SAFETY: the caller's promises; long enough (is_wrapper).
    unsafe { patch(entry, replacement) }
}

/// As [`replace`], of a function that does more than that, if it is long enough and does not branch
/// back to its beginning as far as can be told.
///
/// # Errors
/// As for [`replace`].
///
/// # Safety
/// As for [`replace`]; the replacement does all that callers expect of the original.
pub unsafe fn replace_any(function: &Function, replacement: *const c_void) -> Result<()> {
    let Function { entry, len } = *function;
    // SAFETY: code of libc, which is readable, and stays as long as the process.
    let code = unsafe { core::slice::from_raw_parts(entry.cast_const().cast(), len) };
    if len < PATCH || branches_into_patch(code) {
        return Err(Errno::NOSYS);
    }
    // SAFETY: the caller's promises; long enough.
    unsafe { patch(entry, replacement) }
}

/// The system forbade changing program text.
static IS_FIXED: AtomicBool = AtomicBool::new(false);

/// Whether the system forbids changing program text, as far as that was tried.
pub fn is_fixed() -> bool {
    IS_FIXED.load(Ordering::Relaxed)
}

const WRITABLE: MprotectFlags = MprotectFlags::READ
    .union(MprotectFlags::WRITE)
    .union(MprotectFlags::EXEC);

/// Where text is [`Open`], from its first byte to its end. 0: nowhere.
static OPEN: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

/// Program text that may be written to until this is dropped. Without it each change takes two
/// system calls, which split a mapping and join it again.
pub struct Open(());

impl Open {
    /// `None`: it stays as it is, and changes are made one by one.
    ///
    /// # Safety
    /// 1. `code` is program text, which stays;
    /// 2. until this is dropped, no other thread runs, and nobody else changes what may be done
    ///    with that text.
    pub unsafe fn begin(code: &'static [u8]) -> Option<Self> {
        let (start, end) = pages_of(code.as_ptr().addr(), code.len());
        // SAFETY: whole pages of program text, which stay readable and executable.
        unsafe { mprotect(core::ptr::with_exposed_provenance_mut(start), end - start, WRITABLE) }.ok()?;
        OPEN[0].store(start, Ordering::Relaxed);
        OPEN[1].store(end, Ordering::Relaxed);
        Some(Self(()))
    }

    fn is_at(entry: usize) -> bool {
        let [start, end] = OPEN.each_ref().map(|at| at.load(Ordering::Relaxed));
        start <= entry && entry + PATCH <= end
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let [start, end] = OPEN.each_ref().map(|at| at.swap(0, Ordering::Relaxed));
        let flags = MprotectFlags::READ | MprotectFlags::EXEC;
        // SAFETY: the pages that `begin` opened.
        let _ = unsafe { mprotect(core::ptr::with_exposed_provenance_mut(start), end - start, flags) };
    }
}

/// The whole pages that `len` bytes from `at` on lie in: their first byte and their end.
fn pages_of(at: usize, len: usize) -> (usize, usize) {
    (at & !(PAGE_SIZE - 1), (at + len).next_multiple_of(PAGE_SIZE))
}

/// Put a jump to `replacement` at `entry`.
///
/// # Safety
/// As for [`replace`]; the code is long enough.
unsafe fn patch(entry: *mut c_void, replacement: *const c_void) -> Result<()> {
    let (first, end) = pages_of(entry as usize, PATCH);
    let len = end - first;
    let pages = entry.wrapping_byte_sub(entry as usize - first);
    let mut patch = [0u8; PATCH];
    patch[..JUMP.len()].copy_from_slice(&JUMP);
    patch[JUMP.len()..].copy_from_slice(&(replacement as u64).to_ne_bytes());
    if Open::is_at(entry as usize) {
        // SAFETY: writable now; the function's own bytes (is_wrapper), which nobody runs meanwhile.
        unsafe { core::ptr::copy_nonoverlapping(patch.as_ptr(), entry.cast(), PATCH) };
        return Ok(());
    }
    // SAFETY: whole pages of program text, which stay readable and executable.
    match unsafe { mprotect(pages, len, WRITABLE) } {
        Ok(()) => {
            // SAFETY: writable now; written within the function's own bytes (is_wrapper), and
            // executable again before anybody runs them; this code lives in another mapping.
            unsafe {
                core::ptr::copy_nonoverlapping(patch.as_ptr(), entry.cast(), PATCH);
                let _ = mprotect(pages, len, MprotectFlags::READ | MprotectFlags::EXEC);
            }
            Ok(())
        }
        // SAFETY: the caller's promises.
        Err(Errno::ACCESS | Errno::PERM) => unsafe {
            IS_FIXED.store(true, Ordering::Relaxed);
            replace_pages(pages, len, entry as usize - first, &patch)
        },
        Err(errno) => Err(errno),
    }
}

/// Put a copy of `len` bytes of text, changed at `at`, in their place: where memory must not be
/// writable and executable (PR_SET_MDWE, systemd's MemoryDenyWriteExecute), a file may still be
/// mapped to be executed.
///
/// # Safety
/// As for [`replace`]; `pages` are whole pages, `len` bytes of them, that hold the function.
unsafe fn replace_pages(pages: *mut c_void, len: usize, at: usize, patch: &[u8; PATCH]) -> Result<()> {
    let copy = crate::file::in_memory(c"uzswap-text")?;
    // SAFETY: text is readable, and nothing writes to it (promise 3).
    let text = unsafe { core::slice::from_raw_parts(pages.cast::<u8>(), len) };
    crate::file::write_all_at(&copy, text, 0)?;
    crate::file::write_all_at(&copy, patch, at as u64)?;
    // SAFETY: the same bytes at the same addresses but for the patch (is_wrapper); this code lives
    // in another mapping. A failure of a mapping in place of a file's leaves that as it is.
    unsafe {
        mmap(
            pages,
            len,
            ProtFlags::READ | ProtFlags::EXEC,
            MapFlags::PRIVATE | MapFlags::FIXED,
            &copy,
            0,
        )?;
    }
    Ok(())
}

/// Room for the first instructions of a function and a jump behind them.
const MOVED: usize = 48;

/// Copies of the first instructions of functions, each with a jump to the rest: so the original can
/// be called where the function itself was [replaced](replace_any).
pub struct Moved {
    page: Mapping,
    len: usize,
}

impl Moved {
    /// None yet.
    ///
    /// # Errors
    /// What `mmap` answers.
    pub fn new() -> Result<Self> {
        let page = Mapping::reserve(PAGE_SIZE)?;
        Ok(Self { page, len: 0 })
    }

    /// What does as `function` does, once this is [sealed](Self::seal). `None`: it begins in a way
    /// that is not known here.
    ///
    /// # Safety
    /// `function` is a function of libc.
    pub unsafe fn add(&mut self, function: &Function) -> Option<*mut c_void> {
        if self.len + MOVED > PAGE_SIZE {
            return None;
        }
        // SAFETY: code of libc, which is readable, and stays as long as the process.
        let code = unsafe { core::slice::from_raw_parts(function.entry.cast::<u8>(), function.len) };
        let len = movable(code)?;
        let mut bytes = [0xcc; MOVED];
        bytes[..len].copy_from_slice(&code[..len]);
        bytes[len..][..JUMP.len()].copy_from_slice(&JUMP);
        bytes[len + JUMP.len()..][..8].copy_from_slice(&(function.entry as u64 + len as u64).to_ne_bytes());
        if len > function.len {
            return None;
        }
        self.page.write(self.len, &bytes);
        let entry = self.page.addr() + self.len;
        self.len += MOVED;
        Some(core::ptr::with_exposed_provenance_mut(entry))
    }

    /// Let them run, for good.
    ///
    /// # Errors
    /// EACCES: the system lets nothing run that was written.
    pub fn seal(self) -> Result<()> {
        let page = core::ptr::with_exposed_provenance_mut(self.page.addr());
        // SAFETY: a mapping of our own, which nobody writes to any more.
        unsafe { mprotect(page, PAGE_SIZE, MprotectFlags::READ | MprotectFlags::EXEC)? };
        core::mem::forget(self);
        Ok(())
    }
}

/// How many bytes of whole instructions, [`PATCH`] at least, do the same elsewhere: those that
/// compilers begin the functions with that are diverted.
fn movable(code: &[u8]) -> Option<usize> {
    let mut at = 0;
    while at < PATCH {
        at += match code.get(at..)? {
            // endbr64
            [0xf3, 0x0f, 0x1e, 0xfa, ..] => 4,
            // push of a register
            [0x50..=0x57, ..] => 1,
            [0x41, 0x50..=0x57, ..] => 2,
            // sub $8-bit, %rsp
            [0x48, 0x83, 0xec, ..] => 4,
            // mov %fs:32-bit, of a register
            [0x64, 0x48, 0x8b, register, 0x25, ..] if register & 0xc7 == 0x04 => 9,
            // mov %rax, 8-bit(%rsp)
            [0x48, 0x89, 0x44, 0x24, ..] => 5,
            // xor of a register with itself, mov between registers
            [0x31 | 0x89, 0xc0..=0xff, ..] => 2,
            [0x41 | 0x44 | 0x45 | 0x48 | 0x49 | 0x4c, 0x31 | 0x89, 0xc0..=0xff, ..] => 3,
            _ => return None,
        };
    }
    Some(at)
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn only_what_is_known_is_moved() {
        // As setuid of glibc 2.36 begins.
        let setuid = [
            0x48, 0x83, 0xec, 0x38, 0x64, 0x48, 0x8b, 0x04, 0x25, 0x28, 0, 0, 0, 0x48, 0x89, 0x44, 0x24, 0x28, 0x31,
            0xc0, 0x80, 0x3d,
        ];
        assert_eq!(movable(&setuid), Some(18));
        // As _Fork of glibc 2.36 and 2.41 begins.
        let forks: [&[u8]; 2] = [
            &[
                0x64, 0x48, 0x8b, 0x04, 0x25, 0x10, 0, 0, 0, 0x45, 0x31, 0xc0, 0x31, 0xd2, 0x31, 0xf6,
            ],
            &[
                0x55, 0x53, 0x48, 0x83, 0xec, 0x18, 0x64, 0x48, 0x8b, 0x1c, 0x25, 0x28, 0, 0, 0, 0x48, 0x89, 0x5c,
                0x24, 0x08,
            ],
        ];
        assert_eq!(forks.map(movable), [Some(14), Some(15)]);
        // A system call and a short jump.
        let stub = [
            0xb8, 0x3b, 0, 0, 0, 0x0f, 0x05, 0x48, 0x3d, 0x01, 0xf0, 0xff, 0xff, 0x73, 0x01, 0xc3, 0, 0, 0, 0, 0, 0,
        ];
        assert_eq!(movable(&stub), None);
        assert_eq!(movable(&[0x55; 10]), None);
    }
    /// glibc's madvise: `mov eax, 28; syscall; cmp rax, -4095; jae; ret; ...`
    const MADVISE: [u8; 33] = [
        0xb8, 0x1c, 0, 0, 0, 0x0f, 0x05, 0x48, 0x3d, 0x01, 0xf0, 0xff, 0xff, 0x73, 0x01, 0xc3, 0x48, 0x8b, 0x0d, 0xc9,
        0x12, 0x0d, 0, 0xf7, 0xd8, 0x64, 0x89, 0x01, 0x48, 0x83, 0xc8, 0xff, 0xc3,
    ];

    #[test]
    fn a_wrapper_makes_one_call_and_does_not_branch_back() {
        assert!(is_wrapper(&MADVISE, 28));
        assert!(!is_wrapper(&MADVISE, 9), "another call");
        assert!(!is_wrapper(&MADVISE[..13], 28), "too short");
        let mut loops = MADVISE;
        // `jmp` to the syscall again.
        loops[31..].copy_from_slice(&[0xeb, 5u8.wrapping_sub(33)]);
        assert!(!is_wrapper(&loops, 28), "branches back");
        loops[31..].copy_from_slice(&[0xeb, 0u8.wrapping_sub(33)]);
        assert!(is_wrapper(&loops, 28), "to the entry is fine");
        let mut far = MADVISE;
        far[20..26].copy_from_slice(&[0x0f, 0x84, (5i8 - 26) as u8, 0xff, 0xff, 0xff]);
        assert!(!is_wrapper(&far, 28), "branches back from far");
        let mut other = MADVISE;
        other[20..22].copy_from_slice(&[0x0f, 0x05]);
        assert!(!is_wrapper(&other, 28), "another call");
        let mut twice = MADVISE.to_vec();
        twice.extend(&MADVISE[..13]);
        assert!(is_wrapper(&twice, 28), "the same twice");
        twice.extend(&MADVISE[..13]);
        assert!(!is_wrapper(&twice, 28), "three times");
    }
}
