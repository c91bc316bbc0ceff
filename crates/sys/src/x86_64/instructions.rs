//! Single instructions, and the few that make a thread.

use core::arch::{asm, naked_asm};
use core::ffi::c_void;

use linux_raw_sys::general as raw;
use rustix::io::{Errno, Result};

/// The system call instruction.
///
/// # Safety
/// The caller must guarantee what the call `nr` requires of its arguments.
pub unsafe fn syscall(nr: usize, args: [usize; 6]) -> Result<usize> {
    let ret: isize;
    // SAFETY: the kernel preserves all registers but rax, rcx and r11; what the call does is the
    // caller's promise.
    unsafe {
        asm!("syscall", inlateout("rax") nr as isize => ret,
            in("rdi") args[0], in("rsi") args[1], in("rdx") args[2], in("r10") args[3], in("r8") args[4], in("r9") args[5],
            lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    answer(ret)
}

/// As [`syscall`], of a call that the program makes: where a filter of its own traps it, that is
/// told from calls of ours ([`is_of_program`](super::gateways::is_of_program)).
///
/// # Safety
/// As for [`syscall`].
pub unsafe fn syscall_of_program(nr: usize, args: [usize; 6]) -> Result<usize> {
    // SAFETY: the caller's promise.
    answer(unsafe { call_of_program(nr, &args) })
}

/// Make it, where no other call is made.
#[unsafe(naked)]
unsafe extern "C" fn call_of_program(nr: usize, args: &[usize; 6]) -> isize {
    naked_asm!(
        "mov rax, rdi",
        "mov r11, rsi",
        "mov rdi, [r11]",
        "mov rsi, [r11 + 8]",
        "mov rdx, [r11 + 16]",
        "mov r10, [r11 + 24]",
        "mov r8, [r11 + 32]",
        "mov r9, [r11 + 40]",
        "syscall",
        ".globl uzswap_program_call_made",
        ".hidden uzswap_program_call_made",
        "uzswap_program_call_made:",
        "ret",
    )
}

unsafe extern "C" {
    /// Behind the instruction.
    fn uzswap_program_call_made();
}

/// Whether this is the address behind that instruction.
pub(super) fn is_behind_program_call(ip: usize) -> bool {
    ip == uzswap_program_call_made as *const () as usize
}

fn answer(ret: isize) -> Result<usize> {
    match ret {
        -4095..0 => Err(Errno::from_raw_os_error(-ret as i32)),
        _ => Ok(ret as usize),
    }
}

/// clone(2): a thread that begins in `entry`, on a stack of its own.
///
/// # Safety
/// `stack_top` must be 16-aligned with a stack below it, `tls` a thread pointer, `life` a word that
/// lives as long as the thread, and `arg` what `entry` wants.
pub(crate) unsafe fn clone(
    flags: usize,
    stack_top: usize,
    life: *mut u32,
    tls: usize,
    entry: extern "C" fn(*mut c_void) -> !,
    arg: *mut c_void,
) -> Result<usize> {
    let ret: isize;
    // SAFETY: the parent only sees rax, rcx and r11 change. The child starts with rsp = stack_top
    // and the registers of the parent, moves to `entry` and never comes back here.
    unsafe {
        asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "mov rdi, r12",
            "call r13",
            "ud2",
            "2:",
            inlateout("rax") raw::__NR_clone as isize => ret,
            in("rdi") flags, in("rsi") stack_top, in("rdx") 0, in("r10") life, in("r8") tls,
            in("r12") arg, in("r13") entry as usize,
            lateout("rcx") _, lateout("r11") _,
        );
    }
    answer(ret)
}

/// Where libc's record of the calling thread begins, which holds its own address.
pub fn thread_pointer() -> usize {
    let pointer;
    // SAFETY: libc has set it up, and the first word of it is its address (x86-64 ABI of TLS).
    unsafe { asm!("mov {}, fs:0", out(reg) pointer, options(nostack, readonly, preserves_flags)) };
    pointer
}

/// The third word of that record, whoever made it.
pub(crate) fn thread_word() -> u64 {
    let word;
    // SAFETY: reads a word of the calling thread's own control block.
    unsafe { asm!("mov {}, fs:[16]", out(reg) word, options(nostack, readonly, preserves_flags)) };
    word
}

/// Touch a byte, which keeps its contents.
///
/// # Safety
/// It is mapped for this access.
pub(crate) unsafe fn touch(addr: usize, is_written: bool) {
    // SAFETY: the caller's promise; no byte changes.
    unsafe {
        match is_written {
            true => asm!("lock or byte ptr [{}], 0", in(reg) addr, options(nostack)),
            false => asm!("test byte ptr [{}], 0", in(reg) addr, options(nostack, readonly)),
        }
    }
}

/// An instruction that only traps.
pub(crate) fn trap() -> ! {
    // SAFETY: it does nothing else.
    unsafe { asm!("ud2", options(noreturn, nostack)) }
}

/// ENQCMD. False: the queue did not take it. All that this thread has stored is seen by the device.
///
/// # Safety
/// `place` must lead to a device, or the processor faults.
pub(crate) unsafe fn enqcmd(place: *mut c_void, descriptor: &[u8; 64]) -> bool {
    let is_refused: u8;
    // SAFETY: reads the descriptor, writes to the place; the zero flag says whether it was refused.
    unsafe {
        asm!(
            "sfence",
            ".byte 0xf2, 0x0f, 0x38, 0xf8, 0x02", // enqcmd rax, [rdx]
            "setz {refused}",
            refused = out(reg_byte) is_refused,
            in("rax") place,
            in("rdx") descriptor.as_ptr(),
            options(nostack),
        );
    }
    is_refused == 0
}

/// MOVDIR64B: 64 bytes at once. All that this thread has stored before is seen before.
///
/// # Safety
/// 64 bytes may be written to `place`.
pub(crate) unsafe fn movdir64b(place: *mut c_void, descriptor: &[u8; 64]) {
    // SAFETY: reads the descriptor, writes 64 bytes to the place.
    unsafe {
        asm!(
            "sfence",
            ".byte 0x66, 0x0f, 0x38, 0xf8, 0x02", // movdir64b rax, [rdx]
            in("rax") place,
            in("rdx") descriptor.as_ptr(),
            options(nostack, preserves_flags),
        );
    }
}
