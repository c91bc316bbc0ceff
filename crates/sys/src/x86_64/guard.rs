//! The guard's entry: where the program's system calls come by (`uzswap-guard` finds them and
//! writes the stubs that lead here).
//!
//! A thread of the program is here with all its registers but rcx and r11, which the call would
//! change, on its own stack. It is asked first whether the call is to be seen at all. If not, its
//! *gateway* makes the call: a `syscall` in our own code, and a jump to where its site goes on, one
//! for each site ([`crate::gateways`]). Else the registers go to a [`Call`] below the red zone,
//! [`Guard::before`] sees to its memory, the call is made here, and [`Guard::after`] lets the
//! memory go. Every register that the kernel leaves alone is as before then, flags and vectors
//! included. (Of vectors of 64 bytes the lower halves: nothing here uses others.)
//!
//! Whoever unwinds the stack from here finds the frame of the code that made the call.

// Naked functions take no attribute of their own.
#![expect(clippy::too_many_lines, reason = "they are assembly")]

use core::arch::naked_asm;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicUsize, Ordering};

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
    /// The same, of a call that makes a thread. Both it and the thread that made it, whose signals
    /// are blocked since before, come by again, as a call of the number [`BORN`]: with the result,
    /// and the token that [`Call::leave_for_both`] was told.
    Bear = 3,
    /// The same, where the child begins on the stack of its parent, which waits: both find what
    /// [`Vfork::begin`] was told.
    Vfork = 4,
}

/// Of a process that is made with its parent's memory, on its stack: where both go on, the call's
/// token, and a stack of ours for each in its turn.
static VFORK: [AtomicUsize; 3] = [const { AtomicUsize::new(0) }; 3];
static VFORKS: AtomicBool = AtomicBool::new(false);

/// One at a time.
pub struct Vfork;

impl Vfork {
    /// Before [`Verdict::Vfork`]. False: another is under way.
    pub fn begin(call: &Call, token: usize, stack: usize) -> bool {
        if VFORKS.swap(true, Ordering::Acquire) {
            return false;
        }
        let words = [call.continuation, token, stack];
        VFORK
            .iter()
            .zip(words)
            .for_each(|(word, value)| word.store(value, Ordering::Relaxed));
        true
    }

    /// In the parent, which goes on.
    pub fn end() {
        VFORKS.store(false, Ordering::Release);
    }
}

/// What frames on the thread's own stack have in the place of what says that one of ours is used.
static IS_USED: AtomicU8 = AtomicU8::new(0);

/// No call's number.
pub const BORN: usize = NUMBERS - 1;

/// What lies below the stacks of both while a thread is made: where they go on, and the token.
const GOES_ON: usize = 240;
const TOKEN: usize = 232;

impl Call {
    /// Said last by [`Guard::before`] or [`Guard::after`]: the thread leaves this frame. `is_used`:
    /// cleared when it has, if the frame lies on a stack of ours.
    pub fn leaves(&mut self, is_used: Option<&'static AtomicU8>) {
        // Nobody unwinds from here any more.
        self.origin = core::ptr::from_ref(is_used.unwrap_or(&IS_USED)).expose_provenance();
    }

    /// Before [`Verdict::Bear`]: write what this thread needs, and the new one, whose stack begins
    /// at `top`. `write`: to the program's memory. False: it cannot be.
    pub fn leave_for_both(&self, top: usize, write: impl Fn(usize, u64) -> bool) -> bool {
        [top, self.stack]
            .into_iter()
            .all(|top| write(top - GOES_ON, self.continuation as u64) && write(top - TOKEN, self.token as u64))
    }
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

unsafe extern "C" {
    /// Behind the instruction that makes a call.
    fn uzswap_guard_made();
    /// The entry, on a stack of ours, where the thread's own may have no room.
    fn uzswap_guard_entry_beside();
}

/// Its address. rax, rcx: as at the entry; r11: where the thread's own stack is.
pub fn entry_beside_address() -> usize {
    uzswap_guard_entry_beside as *const () as usize
}

/// Whether calls of this number are seen.
pub fn sees(number: usize) -> bool {
    IS_ON.load(Ordering::Relaxed)
        && IS_SEEN
            .get(number)
            .is_some_and(|seen| seen.load(Ordering::Relaxed) != 0)
}

/// The call that a thread was in as it stood at `ip` with this frame: it is made, and its answer
/// noted nowhere yet.
pub(super) fn made_at(ip: usize, frame: usize) -> Option<*mut Call> {
    const CALL: usize = 8;
    (ip == uzswap_guard_made as *const () as usize).then(|| core::ptr::with_exposed_provenance_mut(frame + CALL))
}

/// The address of the entry.
pub fn entry_address() -> usize {
    entry as *const () as usize
}

/// Whether a call in front of `ip` is made in the guard's entry.
pub(super) fn is_entry(ip: usize) -> bool {
    // What follows makes none.
    (entry_address()..entry_beside_address()).contains(&ip)
}

/// The arguments of a call, as [`Call::args`] has them.
macro_rules! push_arguments {
    () => {
        "push r9\npush r8\npush r10\npush rdx\npush rsi\npush rdi"
    };
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
        "push rsp",
        "add qword ptr [rsp], 136",
        "push 0",
        "push rcx",
        "push rax",
        push_arguments!(),
        "push 0",
        "push 0",
        "8:",
        "push 0",
        "push 0",
        "push 0",
        "push 0",
        "push rbp",
        "mov rbp, rsp",
        // The program's stack pointer is Call::stack, 128 above this: the frame may lie elsewhere.
        ".cfi_escape 0x0f, 4, 0x76, 0x80, 0x01, 0x06",
        ".cfi_escape 0x10, 6, 2, 0x76, 0x00",
        "lea r11, [rip + {gateways}]",
        "sub rcx, r11",
        "lea r11, [rip + {origins}]",
        // A gateway is half as long as its two words.
        "mov r11, [r11 + 2 * rcx + 8]",
        "mov [rbp + 120], r11",
        // Call::origin, 120 above this.
        ".cfi_escape 0x10, 16, 3, 0x76, 0xf8, 0x00",
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
        ".globl uzswap_guard_made",
        ".hidden uzswap_guard_made",
        "uzswap_guard_made:",
        "mov [rbp + 48], rax",
        "lea rdi, [rbp + 8]",
        "call [rip + {after}]",
        "jmp 4b",
        // The gateway makes the call: at its beginning, with the number.
        "5:",
        "cmp eax, 3",
        "jb 5f",
        "lea rcx, [rip + 10f]",
        "je 11f",
        "lea rcx, [rip + 12f]",
        "11:",
        "mov [rbp + 112], rcx",
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
        // Nothing changes the flags from here on.
        "push qword ptr [rbp + 136]",
        "popfq",
        "mov rsp, rbp",
        "pop rbp",
        ".cfi_def_cfa rsp, 0",
        ".cfi_restore rbp",
        ".cfi_undefined rip",
        "lea rsp, [rsp + 48]",
        "pop rdi",
        "pop rsi",
        "pop rdx",
        "pop r10",
        "pop r8",
        "pop r9",
        "lea rsp, [rsp + 8]",
        "pop rcx",
        "pop r11",
        "mov rsp, [rsp]",
        // What this lay on may be used again (`Call::leaves`).
        "mov byte ptr [r11], 0",
        "jmp rcx",
        "9:",
        "popfq",
        "lea rsp, [rsp + 128]",
        "jmp rcx",
        // Both who makes a thread and the thread: each on its stack, with all signals blocked.
        "10:",
        "syscall",
        "mov rcx, [rsp - {goes_on}]",
        "mov r11, [rsp - {token}]",
        "lea rsp, [rsp - 128]",
        "pushfq",
        "push rsp",
        "add qword ptr [rsp], 136",
        "push 0",
        "push rcx",
        "push {born}",
        push_arguments!(),
        "push rax",
        "push r11",
        "jmp 8b",
        // The same on one stack, after each other.
        "12:",
        "syscall",
        "mov r11, rsp",
        "mov rsp, [rip + {vfork} + 16]",
        "pushfq",
        "mov rcx, [rip + {vfork}]",
        "push r11",
        "push 0",
        "push rcx",
        "push {born}",
        push_arguments!(),
        "push rax",
        "push qword ptr [rip + {vfork} + 8]",
        "jmp 8b",
        ".cfi_endproc",
        // On a stack of ours; the thread's own is at r11.
        ".globl uzswap_guard_entry_beside",
        ".hidden uzswap_guard_entry_beside",
        "uzswap_guard_entry_beside:",
        "pushfq",
        "push r11",
        "push 0",
        "push rcx",
        "push rax",
        push_arguments!(),
        "push 0",
        "push 0",
        "jmp 8b",
        is_on = sym IS_ON,
        is_seen = sym IS_SEEN,
        has_ymm = sym HAS_YMM,
        before = sym BEFORE,
        after = sym AFTER,
        numbers = const NUMBERS,
        goes_on = const GOES_ON,
        token = const TOKEN,
        born = const BORN,
        vfork = sym VFORK,
        gateways = sym crate::gateways::gateways,
        origins = sym crate::gateways::BACKS,
    )
}
