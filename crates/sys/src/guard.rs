//! The guard's entry: where the program's system calls come by (`uzswap-guard` finds them and
//! writes the stubs that lead here), and putting jumps to it into code.
//!
//! A thread of the program is here with all its registers but rcx and r11, which the call would
//! change, on its own stack. It is asked first whether the call is to be seen at all. If not, its
//! *gateway* makes the call: a `syscall` in our own code, and a jump to where its site goes on, one
//! for each site ([`crate::gateways`]). Else the registers go to a [`Call`] below the red
//! zone, [`Guard::before`] sees to its memory, the call is made here, and [`Guard::after`] lets the
//! memory go. Every register that the kernel leaves alone is as before then, flags and vectors
//! included. (Of vectors of 64 bytes the lower halves: nothing here uses others.)
//!
//! Whoever unwinds the stack from here finds the frame of the code that made the call.

use core::arch::naked_asm;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, Ordering};

use rustix::io::{Errno, Result};
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

use crate::PAGE_SIZE;
use crate::string::HAS_AVX2;

/// A system call that a thread of the program is about to make.
#[repr(C)]
#[derive(Debug)]
pub struct Call {
    /// For whoever sees to it: what an argument is made to point to. 0 at first.
    pub spare: [usize; 4],
    /// For whoever sees to it: 0 at first.
    pub token: usize,
    /// What the program gets, as the kernel answers: a value, or a negative errno.
    pub result: isize,
    /// Its arguments.
    pub args: [usize; 6],
    /// Which it is.
    pub number: usize,
    /// Where it goes on: its gateway.
    continuation: usize,
    /// The address behind the instruction in the program's code.
    pub origin: usize,
    /// Where the stack is when it goes on: as it was, or a new process's own.
    pub stack: usize,
    flags: usize,
}

/// What becomes of a call.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is made here, and seen again afterwards.
    Make = 0,
    /// Its result is there already.
    Done = 1,
    /// The gateway makes it, with nothing of ours on the stack: whoever comes back from it may have
    /// another stack.
    Leave = 2,
}

/// Who sees to the calls.
pub struct Guard {
    /// Before a call.
    pub before: extern "C" fn(&mut Call) -> Verdict,
    /// After one that was made here. [`Verdict::Make`]: it is to be made again.
    pub after: extern "C" fn(&mut Call) -> Verdict,
}

/// Calls are seen.
static IS_ON: AtomicBool = AtomicBool::new(false);
/// Not 0: calls of this number are.
static IS_SEEN: [AtomicU8; NUMBERS] = [const { AtomicU8::new(0) }; NUMBERS];
/// The processor has vectors of 32 bytes, which have to be kept as well.
static HAS_YMM: AtomicBool = AtomicBool::new(false);
static BEFORE: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());
static AFTER: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());

/// Numbers of calls are below this.
pub const NUMBERS: usize = 512;

/// Have `guard` see calls of these numbers from now on. To be called before any code leads here.
pub fn begin(guard: Guard, numbers: impl Iterator<Item = usize>) {
    HAS_YMM.store(HAS_AVX2.load(Ordering::Relaxed), Ordering::Relaxed);
    BEFORE.store(guard.before as *mut (), Ordering::Relaxed);
    AFTER.store(guard.after as *mut (), Ordering::Relaxed);
    for number in numbers {
        IS_SEEN[number].store(1, Ordering::Relaxed);
    }
    IS_ON.store(true, Ordering::Release);
}

/// Nothing could be put into code, or not all: no call is seen.
pub fn end() {
    IS_ON.store(false, Ordering::Release);
}

/// The address of the entry.
pub fn entry_address() -> usize {
    entry as *const () as usize
}

/// Where stubs lead.
///
/// # Safety
/// Only for stubs: rcx is a gateway.
#[unsafe(naked)]
unsafe extern "C" fn entry() {
    naked_asm!(
        ".cfi_startproc",
        ".cfi_def_cfa rsp, 0",
        ".cfi_undefined rip",
        "lea rsp, [rsp - 128]",
        "pushfq",
        "cmp byte ptr [rip + {is_on}], 0",
        "je 9f",
        "cmp rax, {numbers}",
        "jae 9f",
        "lea r11, [rip + {is_seen}]",
        "cmp byte ptr [r11 + rax], 0",
        "je 9f",
        // A Call, from its last word on.
        "lea r11, [rsp + 136]",
        "push r11",
        "push 0",
        "push rcx",
        "push rax",
        "push r9",
        "push r8",
        "push r10",
        "push rdx",
        "push rsi",
        "push rdi",
        "push 0",
        "push 0",
        "push 0",
        "push 0",
        "push 0",
        "push 0",
        "push rbp",
        "mov rbp, rsp",
        // The program's stack pointer was 8 + size of Call + 128 above this.
        ".cfi_def_cfa rbp, 272",
        ".cfi_offset rbp, -272",
        "lea r11, [rip + {gateways}]",
        "sub rcx, r11",
        "lea r11, [rip + {origins}]",
        "mov r11, [r11 + rcx]",
        "mov [rbp + 120], r11",
        // Call::origin.
        ".cfi_offset rip, -152",
        "and rsp, -32",
        "sub rsp, 512",
        "cmp byte ptr [rip + {has_ymm}], 0",
        "jne 2f",
        "movaps [rsp], xmm0",
        "movaps [rsp + 32], xmm1",
        "movaps [rsp + 64], xmm2",
        "movaps [rsp + 96], xmm3",
        "movaps [rsp + 128], xmm4",
        "movaps [rsp + 160], xmm5",
        "movaps [rsp + 192], xmm6",
        "movaps [rsp + 224], xmm7",
        "movaps [rsp + 256], xmm8",
        "movaps [rsp + 288], xmm9",
        "movaps [rsp + 320], xmm10",
        "movaps [rsp + 352], xmm11",
        "movaps [rsp + 384], xmm12",
        "movaps [rsp + 416], xmm13",
        "movaps [rsp + 448], xmm14",
        "movaps [rsp + 480], xmm15",
        "jmp 3f",
        "2:",
        "vmovdqa [rsp], ymm0",
        "vmovdqa [rsp + 32], ymm1",
        "vmovdqa [rsp + 64], ymm2",
        "vmovdqa [rsp + 96], ymm3",
        "vmovdqa [rsp + 128], ymm4",
        "vmovdqa [rsp + 160], ymm5",
        "vmovdqa [rsp + 192], ymm6",
        "vmovdqa [rsp + 224], ymm7",
        "vmovdqa [rsp + 256], ymm8",
        "vmovdqa [rsp + 288], ymm9",
        "vmovdqa [rsp + 320], ymm10",
        "vmovdqa [rsp + 352], ymm11",
        "vmovdqa [rsp + 384], ymm12",
        "vmovdqa [rsp + 416], ymm13",
        "vmovdqa [rsp + 448], ymm14",
        "vmovdqa [rsp + 480], ymm15",
        "vzeroupper",
        "3:",
        "cld",
        "lea rdi, [rbp + 8]",
        "call [rip + {before}]",
        "4:",
        "cmp eax, 1",
        "je 6f",
        "ja 5f",
        "mov rdi, [rbp + 56]",
        "mov rsi, [rbp + 64]",
        "mov rdx, [rbp + 72]",
        "mov r10, [rbp + 80]",
        "mov r8, [rbp + 88]",
        "mov r9, [rbp + 96]",
        "mov rax, [rbp + 104]",
        "syscall",
        "mov [rbp + 48], rax",
        "lea rdi, [rbp + 8]",
        "call [rip + {after}]",
        "jmp 4b",
        // The gateway makes the call: at its beginning, with the number.
        "5:",
        "mov rax, [rbp + 104]",
        "mov [rbp + 48], rax",
        "jmp 7f",
        // Behind the call.
        "6:",
        "add qword ptr [rbp + 112], 2",
        "7:",
        "cmp byte ptr [rip + {has_ymm}], 0",
        "jne 2f",
        "movaps xmm0, [rsp]",
        "movaps xmm1, [rsp + 32]",
        "movaps xmm2, [rsp + 64]",
        "movaps xmm3, [rsp + 96]",
        "movaps xmm4, [rsp + 128]",
        "movaps xmm5, [rsp + 160]",
        "movaps xmm6, [rsp + 192]",
        "movaps xmm7, [rsp + 224]",
        "movaps xmm8, [rsp + 256]",
        "movaps xmm9, [rsp + 288]",
        "movaps xmm10, [rsp + 320]",
        "movaps xmm11, [rsp + 352]",
        "movaps xmm12, [rsp + 384]",
        "movaps xmm13, [rsp + 416]",
        "movaps xmm14, [rsp + 448]",
        "movaps xmm15, [rsp + 480]",
        "jmp 3f",
        "2:",
        "vmovdqa ymm0, [rsp]",
        "vmovdqa ymm1, [rsp + 32]",
        "vmovdqa ymm2, [rsp + 64]",
        "vmovdqa ymm3, [rsp + 96]",
        "vmovdqa ymm4, [rsp + 128]",
        "vmovdqa ymm5, [rsp + 160]",
        "vmovdqa ymm6, [rsp + 192]",
        "vmovdqa ymm7, [rsp + 224]",
        "vmovdqa ymm8, [rsp + 256]",
        "vmovdqa ymm9, [rsp + 288]",
        "vmovdqa ymm10, [rsp + 320]",
        "vmovdqa ymm11, [rsp + 352]",
        "vmovdqa ymm12, [rsp + 384]",
        "vmovdqa ymm13, [rsp + 416]",
        "vmovdqa ymm14, [rsp + 448]",
        "vmovdqa ymm15, [rsp + 480]",
        "3:",
        "mov rax, [rbp + 48]",
        "mov r11, [rbp + 128]",
        "mov rsp, rbp",
        "pop rbp",
        ".cfi_def_cfa rsp, 264",
        ".cfi_restore rbp",
        "add rsp, 48",
        ".cfi_def_cfa_offset 216",
        "pop rdi",
        "pop rsi",
        "pop rdx",
        "pop r10",
        "pop r8",
        "pop r9",
        "add rsp, 8",
        "pop rcx",
        "add rsp, 16",
        ".cfi_undefined rip",
        "popfq",
        "mov rsp, r11",
        "jmp rcx",
        "9:",
        "popfq",
        "lea rsp, [rsp + 128]",
        "jmp rcx",
        ".cfi_endproc",
        is_on = sym IS_ON,
        is_seen = sym IS_SEEN,
        has_ymm = sym HAS_YMM,
        before = sym BEFORE,
        after = sym AFTER,
        numbers = const NUMBERS,
        gateways = sym crate::gateways::gateways,
        origins = sym crate::gateways::ORIGINS,
    )
}

/// What becomes of asking for a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Populate {
    /// It is there.
    There,
    /// It is mapped for such an access, and whoever serves its faults was not waited for.
    Faults,
    /// An access would fail, or this one did.
    Refused(Errno),
}

/// Have whole pages mapped, to be written to if `is_written`, as far as the kernel can without
/// waiting for anybody who serves faults.
pub fn populate(addr: usize, len: usize, is_written: bool) -> Populate {
    let advice = match is_written {
        true => rustix::mm::Advice::LinuxPopulateWrite,
        false => rustix::mm::Advice::LinuxPopulateRead,
    };
    // SAFETY: maps pages, and changes no contents; where nothing is mapped it is refused.
    match unsafe { rustix::mm::madvise(core::ptr::with_exposed_provenance_mut(addr), len, advice) } {
        Ok(()) => Populate::There,
        Err(Errno::FAULT) => Populate::Faults,
        Err(errno) => Populate::Refused(errno),
    }
}

/// Whether a page is a guard (MADV_GUARD_INSTALL): an access raises SIGSEGV. Linux 6.15 tells. It
/// is true as well where that cannot be asked.
pub fn is_guard(addr: usize) -> bool {
    use rustix::fs::{Mode, OFlags};
    const IS_GUARD: u64 = 1 << 58;
    let mut entry = [0; 8];
    let at = (addr / PAGE_SIZE * entry.len()) as u64;
    let file = rustix::fs::open(c"/proc/self/pagemap", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
    let read = file.and_then(|file| rustix::io::pread(&file, &mut entry, at));
    read != Ok(8) || u64::from_ne_bytes(entry) & IS_GUARD != 0
}

/// Touch a byte of the program's, as the program would: its contents stay. To be called where
/// [`populate`] says that it faults: the thread waits then for who serves that.
pub fn touch(addr: usize, is_written: bool) {
    // SAFETY: mapped for this access a moment ago. If the program unmaps it meanwhile, it does so
    // while one of its calls uses it, and gets a signal for an error.
    unsafe {
        match is_written {
            true => core::arch::asm!("lock or byte ptr [{}], 0", in(reg) addr, options(nostack)),
            false => core::arch::asm!("test byte ptr [{}], 0", in(reg) addr, options(nostack, readonly)),
        }
    }
}

/// Copy bytes of the program's, if they can be read and are there.
pub fn read_populated(addr: usize, bytes: &mut [u8]) -> bool {
    let (start, end) = (addr & !(PAGE_SIZE - 1), addr.saturating_add(bytes.len()));
    let here = (&raw const start).addr() & !(PAGE_SIZE - 1);
    let is_own_page = start == here && end <= here + PAGE_SIZE;
    if !is_own_page && populate(start, end.next_multiple_of(PAGE_SIZE) - start, false) != Populate::There {
        return false;
    }
    let place = core::ptr::with_exposed_provenance::<u8>(addr);
    // SAFETY: readable (it is the page of this very stack, or was just asked for), and `bytes` is
    // ours.
    unsafe { core::ptr::copy_nonoverlapping(place, bytes.as_mut_ptr(), bytes.len()) };
    true
}

/// Write bytes of the program's, if that is allowed.
pub fn write_populated(addr: usize, bytes: &[u8]) -> bool {
    let (start, end) = (addr & !(PAGE_SIZE - 1), addr.saturating_add(bytes.len()));
    if populate(start, end.next_multiple_of(PAGE_SIZE) - start, true) != Populate::There {
        return false;
    }
    let place = core::ptr::with_exposed_provenance_mut::<u8>(addr);
    // SAFETY: writable (it was just asked for), and the program has asked for it.
    unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), place, bytes.len()) };
    true
}

/// What a descriptor is, for who moves much in pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A file or a block device.
    File,
    /// Bytes come and go in order: a pipe, a terminal, a stream socket.
    Stream,
    /// Anything else.
    Other,
}

/// What `fd` of the calling thread is.
pub fn kind_of(fd: i32) -> Kind {
    use rustix::fs::FileType;
    if fd < 0 {
        return Kind::Other;
    }
    // SAFETY: only asked about: whoever closes it meanwhile gets an error for an answer.
    let fd = unsafe { rustix::fd::BorrowedFd::borrow_raw(fd) };
    let Ok(stat) = rustix::fs::fstat(fd) else {
        return Kind::Other;
    };
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile | FileType::BlockDevice => Kind::File,
        // /dev/zero and its like.
        FileType::CharacterDevice if rustix::fs::major(stat.st_rdev) == 1 => Kind::File,
        FileType::Fifo | FileType::CharacterDevice => Kind::Stream,
        FileType::Socket => match rustix::net::sockopt::socket_type(fd) {
            Ok(rustix::net::SocketType::STREAM) => Kind::Stream,
            _ => Kind::Other,
        },
        _ => Kind::Other,
    }
}

/// Memory for stubs, within reach of the code in `[start, end)`.
pub struct Near {
    addr: usize,
    len: usize,
}

/// How far from the code it is looked for at most: a jump reaches twice as far.
const REACH: usize = 1 << 30;
const STEP: usize = 1 << 20;

impl Near {
    /// `len` bytes.
    ///
    /// # Errors
    /// ENOMEM: nothing is free there.
    pub fn reserve(start: usize, end: usize, len: usize) -> Result<Self> {
        let len = len.next_multiple_of(PAGE_SIZE);
        let below = (1..).map(|n| start.checked_sub(len.next_multiple_of(STEP) + n * STEP));
        let above = (1..).map(|n| Some(end.next_multiple_of(STEP) + n * STEP));
        let hints = below
            .zip(above)
            .flat_map(|(below, above)| [below, above])
            .flatten()
            .map(|hint| hint & !(STEP - 1));
        for hint in hints.take_while(|hint| hint.abs_diff(start) < REACH && *hint > REACH / 1024) {
            let place = core::ptr::with_exposed_provenance_mut(hint);
            let flags = MapFlags::PRIVATE | MapFlags::FIXED_NOREPLACE;
            // SAFETY: a fresh mapping, where nothing is mapped.
            match unsafe { mmap_anonymous(place, len, ProtFlags::READ | ProtFlags::WRITE, flags) } {
                Ok(found) if found == place => return Ok(Self { addr: hint, len }),
                // A kernel that takes the address for a hint (before Linux 4.17).
                // SAFETY: the mapping just made.
                Ok(found) => drop(unsafe { munmap(found, len) }),
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno),
            }
        }
        Err(Errno::NOMEM)
    }

    /// Where it is.
    pub fn addr(&self) -> usize {
        self.addr
    }

    /// Let `stubs` run from it, for good.
    ///
    /// # Errors
    /// EACCES, EPERM: the system lets nothing run that was written.
    pub fn seal(self, stubs: &[u8]) -> Result<()> {
        assert!(stubs.len() <= self.len);
        let place = core::ptr::with_exposed_provenance_mut::<u8>(self.addr);
        // SAFETY: a mapping of our own, of `len` bytes, which nobody else knows yet.
        unsafe {
            core::ptr::copy_nonoverlapping(stubs.as_ptr(), place, stubs.len());
            mprotect(place.cast(), self.len, MprotectFlags::READ | MprotectFlags::EXEC)
        }
    }
}

/// Write jumps over code: pairs of an address and the bytes there.
///
/// # Errors
/// EACCES, EPERM: the system forbids changing program text. Nothing was changed then.
///
/// # Safety
/// 1. `code` is program text, which stays, and all jumps lie in it;
/// 2. no thread is executing what is written over, now;
/// 3. whoever comes there afterwards may as well be where the jumps lead.
pub unsafe fn write_jumps(code: &'static [u8], jumps: &[(usize, [u8; 5])]) -> Result<()> {
    let (Some(first), Some(last)) = (
        jumps.iter().map(|(at, _)| *at).min(),
        jumps.iter().map(|(at, _)| *at + 5).max(),
    ) else {
        return Ok(());
    };
    let range = code.as_ptr_range();
    assert!(range.start as usize <= first && last <= range.end as usize);
    let start = first & !(PAGE_SIZE - 1);
    let (pages, len) = (
        core::ptr::with_exposed_provenance_mut(start),
        last.next_multiple_of(PAGE_SIZE) - start,
    );
    let writable = MprotectFlags::READ | MprotectFlags::WRITE | MprotectFlags::EXEC;
    // SAFETY: whole pages of program text, which stay readable and executable.
    unsafe { mprotect(pages, len, writable)? };
    for (at, jump) in jumps {
        let place = core::ptr::with_exposed_provenance_mut::<u8>(*at);
        // SAFETY: writable now, inside the code (asserted above); promises 2 and 3.
        unsafe { core::ptr::copy_nonoverlapping(jump.as_ptr(), place, jump.len()) };
    }
    // SAFETY: as above.
    unsafe { mprotect(pages, len, MprotectFlags::READ | MprotectFlags::EXEC) }
}
