//! Signals as the kernel has them, for who serves some of them in the program's place: actions,
//! masks, alternate stacks, and the frame of a handler.
//!
//! Handlers of ours run on stacks of our own ([`Own`]).
//!
//! A signal that was not for us is handed on: [`Context::deliver`] copies the frame that the kernel
//! made to where it would have made it, and has ours return into the program's handler. When that
//! returns, the thread goes on as the copy says ([`Context::leave`]).

mod frame;
mod leave;

use core::arch::naked_asm;

use linux_raw_sys::general as raw;
use rustix::io::{Errno, Result};

use crate::closed::Access;
use crate::guard::Call;
use crate::own_stack::Own;
use crate::thread::{self, syscall, syscall_on_stack};
use crate::x86_64::guard::made_at;
pub use frame::open_to_bring;

pub const SIGBUS: i32 = raw::SIGBUS as i32;
pub const SIGSYS: i32 = raw::SIGSYS as i32;
pub const SIGSEGV: i32 = raw::SIGSEGV as i32;
/// Signals are below this.
pub const SIGNALS: usize = 65;

/// SIG_DFL, SIG_IGN.
pub const DEFAULT: usize = 0;
pub const IGNORE: usize = 1;

pub const SA_SIGINFO: usize = raw::SA_SIGINFO as usize;
pub const SA_ONSTACK: usize = raw::SA_ONSTACK as usize;
pub const SA_RESETHAND: usize = raw::SA_RESETHAND as usize;
pub const SA_NODEFER: usize = raw::SA_NODEFER as usize;
pub const SA_RESTORER: usize = 0x0400_0000;
/// Flags that the kernel knows: it tells of no others.
pub const SA_KNOWN: usize = SA_SIGINFO | SA_ONSTACK | SA_RESETHAND | SA_NODEFER | SA_RESTORER | SA_OTHERS;
/// SA_NOCLDSTOP, SA_NOCLDWAIT, SA_EXPOSE_TAGBITS, SA_RESTART.
const SA_OTHERS: usize = 1 | 2 | 0x800 | 0x1000_0000;

pub const SS_ONSTACK: i32 = 1;
pub const SS_DISABLE: i32 = 2;
pub const SS_AUTODISARM: i32 = 1 << 31;
/// MINSIGSTKSZ.
pub const STACK_MIN: usize = 2048;

/// How [`set_mask`] takes its argument: SIG_BLOCK, SIG_UNBLOCK, SIG_SETMASK.
pub const BLOCK: usize = 0;
pub const UNBLOCK: usize = 1;
pub const SET: usize = 2;

/// The bit of a signal in a mask.
pub const fn bit(signal: i32) -> u64 {
    1 << (signal - 1)
}

/// `struct sigaction`, as the kernel has it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Action {
    /// Where it is handled, [`DEFAULT`] or [`IGNORE`].
    pub handler: usize,
    /// SA_...
    pub flags: usize,
    /// What a handler returns to.
    pub restorer: usize,
    /// Signals that are blocked meanwhile.
    pub mask: u64,
}

/// `stack_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stack {
    /// Its lowest address.
    pub start: usize,
    /// SS_...
    pub flags: i32,
    pub _pad: u32,
    /// Bytes.
    pub len: usize,
}

impl Stack {
    /// `len` bytes from `start` on.
    pub const fn new(start: usize, len: usize, flags: i32) -> Self {
        Self {
            start,
            flags,
            _pad: 0,
            len,
        }
    }

    /// Where it begins to be used.
    const fn end(&self) -> usize {
        self.start + self.len
    }

    /// Whether `sp` is on it, as the kernel reckons.
    pub const fn is_on(&self, sp: usize) -> bool {
        sp > self.start && sp - self.start <= self.len
    }
}

/// rt_sigaction(2): what is done at `signal`, changed to `new` if there is one.
///
/// # Errors
/// EINVAL.
///
/// # Safety
/// A handler that the kernel is given must bear being called in any thread, at any moment.
pub unsafe fn action(signal: i32, new: Option<&Action>) -> Result<Action> {
    let number = raw::__NR_rt_sigaction as usize;
    let mut old = Action::default();
    let args = [signal as usize, 0, (&raw mut old).addr(), 8, 0, 0];
    // SAFETY: of the kernel's layout; asks.
    unsafe { syscall_on_stack(number, args, &mut old)? };
    if let Some(mut new) = new.copied() {
        let args = [signal as usize, (&raw const new).addr(), 0, 8, 0, 0];
        // SAFETY: of the kernel's layout; the caller answers for the handler.
        unsafe { syscall_on_stack(number, args, &mut new)? };
    }
    Ok(old)
}

/// Have `handler` called at `signal`, on the thread's alternate stack, with `mask` blocked, and
/// with `flags`.
///
/// # Errors
/// What the system answers.
pub fn handle(signal: i32, handler: Handler, mask: u64, flags: usize) -> Result<Action> {
    let action = Action {
        handler: handler as *const () as usize,
        flags: flags | SA_SIGINFO | SA_ONSTACK | SA_RESTORER,
        restorer: restorer(),
        mask,
    };
    // SAFETY: a handler of this type is made for it.
    unsafe { self::action(signal, Some(&action)) }
}

/// rt_sigprocmask(2): returns the mask of before.
pub fn set_mask(how: usize, mask: u64) -> Result<u64> {
    thread::change_mask(how, mask)
}

/// Send a signal to the calling thread.
pub fn raise(signal: i32) {
    let args = [thread::pid() as usize, thread::tid() as usize, signal as usize, 0, 0, 0];
    // SAFETY: takes integers.
    let _ = unsafe { syscall(raw::__NR_tgkill as usize, args) };
}

/// Raise a signal in the calling thread as the kernel does, which finds no room for a frame.
pub fn force(signal: i32) {
    const SI_KERNEL: i32 = 0x80;
    let info = SignalInfo {
        _signal: signal,
        _errno: 0,
        code: SI_KERNEL,
        _pad: 0,
        address: 0,
        _rest: [0; 13],
    };
    let (process, thread, info) = (thread::pid() as usize, thread::tid() as usize, (&raw const info).addr());
    // SAFETY: the last is of the kernel's layout.
    let _ = unsafe {
        syscall(
            raw::__NR_rt_tgsigqueueinfo as usize,
            [process, thread, signal as usize, info, 0, 0],
        )
    };
}

/// sigaltstack(2).
pub(crate) fn alternate(new: Option<&Stack>) -> Result<Stack> {
    let number = raw::__NR_sigaltstack as usize;
    let mut old = Stack::default();
    // SAFETY: of the kernel's layout; asks.
    unsafe { syscall_on_stack(number, [0, (&raw mut old).addr(), 0, 0, 0, 0], &mut old)? };
    if let Some(mut new) = new.copied() {
        // SAFETY: of the kernel's layout; the stacks set here are ours.
        unsafe { syscall_on_stack(number, [(&raw const new).addr(), 0, 0, 0, 0, 0], &mut new)? };
    }
    Ok(old)
}

/// What a signal's handler of ours is: the signal, what the kernel says of it, and what it
/// interrupted.
pub type Handler = extern "C" fn(i32, &SignalInfo, &mut Context);

#[unsafe(naked)]
unsafe extern "C" fn restore() {
    // Exactly this, which unwinders know; they look at the byte before it as well, which must not
    // be of another function.
    naked_asm!("nop", "mov rax, {}", "syscall", const raw::__NR_rt_sigreturn)
}

/// What handlers return to: that call is made in our code, as all others.
pub fn restorer() -> usize {
    const NOP: usize = 1;
    restore as *const () as usize + NOP
}

/// `siginfo_t`.
#[repr(C)]
pub struct SignalInfo {
    _signal: i32,
    _errno: i32,
    code: i32,
    _pad: u32,
    address: usize,
    _rest: [u64; 13],
}

impl SignalInfo {
    /// Why: above 0 if the thread itself caused it.
    pub fn code(&self) -> i32 {
        self.code
    }

    /// Of a call that was stopped: whether it was made as 64-bit programs do.
    pub fn is_of_x86_64(&self) -> bool {
        const AUDIT_ARCH_X86_64: u64 = 0xc000_003e;
        self._rest[0] >> 32 == AUDIT_ARCH_X86_64
    }

    /// Where, if a thread caused it by an access.
    pub fn address(&self) -> usize {
        self.address
    }
}

/// SEGV_ACCERR: the mapping does not allow that.
pub const SEGV_ACCERR: i32 = 2;
/// BUS_ADRERR: nothing can be had at the address.
pub const BUS_ADRERR: i32 = 2;
/// SYS_SECCOMP: a call that a filter of system calls traps.
pub const SYS_SECCOMP: i32 = 1;
/// SYS_USER_DISPATCH: a call that the kernel was to stop.
pub const SYS_USER_DISPATCH: i32 = 2;

/// `struct ucontext`, as the kernel has it.
#[repr(C)]
pub struct Context {
    _flags: u64,
    _link: usize,
    stack: Stack,
    /// r8 to r15, rdi, rsi, rbp, rbx, rdx, rax, rcx.
    pub(super) registers: [usize; 15],
    pub(super) sp: usize,
    pub(super) ip: usize,
    eflags: usize,
    _segments: u64,
    error: u64,
    _trap: u64,
    _oldmask: u64,
    _cr2: u64,
    extended: usize,
    _reserved: [u64; 8],
    pub(super) mask: u64,
}

impl Context {
    /// Whether the access was a write, and whether its page was there.
    pub fn access(&self) -> (bool, bool) {
        (self.error & 2 != 0, self.error & 1 != 0)
    }

    /// What the access was for.
    pub fn wanted(&self) -> Access {
        match (self.error & 2 != 0, self.error & 16 != 0) {
            (true, _) => Access::Write,
            (_, true) => Access::Execute,
            _ => Access::Read,
        }
    }

    /// The stack that the thread was on.
    pub fn sp(&self) -> usize {
        self.sp
    }

    /// The program's stack, which a call may be seen to beside
    /// ([`entry_beside_address`](crate::guard::entry_beside_address)).
    pub fn program_sp(&self) -> usize {
        const FLAGS: usize = 8;
        match Own::end_of_beside(self.sp) {
            None => self.sp,
            // Its first two instructions push the flags, and r11, which is what is wanted.
            Some(end) if self.sp >= end - FLAGS => self.registers[3],
            // SAFETY: what the second pushed.
            Some(end) => unsafe { *core::ptr::with_exposed_provenance(end - 2 * FLAGS) },
        }
    }

    /// Where the thread goes on when the handler returns.
    pub fn ip(&self) -> usize {
        self.ip
    }

    /// The number of the call that was stopped.
    pub fn number(&self) -> usize {
        self.registers[13]
    }

    /// Its first argument.
    pub fn argument(&self) -> usize {
        self.registers[8]
    }

    /// The call that the signal interrupted, if it is the first that does: it will answer EINTR.
    ///
    /// The kernel delivers what a call with a mask of its own lets in before that is undone, and
    /// says in the frame what was blocked before.
    pub fn interrupts(&self) -> Option<&Call> {
        const INTERRUPTED: isize = -(Errno::INTR.raw_os_error() as isize);
        if self.registers[13] as isize != INTERRUPTED {
            return None;
        }
        // SAFETY: where the thread stands its frame is there, of a call that nobody else looks at;
        // it is brought, where it is on a stack in managed memory.
        let call = unsafe { &mut *made_at(self.ip, self.registers[10])? };
        // The call's answer is written there when the thread goes on.
        (core::mem::replace(&mut call.result, INTERRUPTED) != INTERRUPTED).then_some(call)
    }

    /// It is not made: this is what it answers.
    pub fn answer(&mut self, errno: Errno) {
        self.registers[13] = (-(errno.raw_os_error() as isize)) as usize;
    }

    /// A system call was stopped: the thread goes on at `entry`, with `rcx`, which the call would
    /// have changed. `stack`: on this one; r11, which the call would have changed too, says where
    /// it was.
    pub fn go_on_at(&mut self, entry: usize, rcx: usize, stack: Option<usize>) {
        self.ip = entry;
        self.registers[14] = rcx;
        if let Some(stack) = stack {
            self.registers[3] = core::mem::replace(&mut self.sp, stack);
        }
    }

    /// It is made again, now that it passes.
    pub fn make_call_again(&mut self) {
        const SYSCALL: usize = 2;
        self.ip -= SYSCALL;
    }

    /// Signals that are blocked when the handler returns.
    pub fn mask(&self) -> u64 {
        self.mask
    }

    /// Have `signal` be open when the handler returns.
    pub fn open(&mut self, signal: i32) {
        self.mask &= !bit(signal);
    }

    /// Have the thread's own alternate stack be `own` from when the handler returns.
    pub fn give(&mut self, own: &'static Own) {
        self.stack = own.stack();
    }

    /// Whether the thread has an alternate stack that is not ours.
    pub fn has_other(&self) -> bool {
        self.stack.flags & SS_DISABLE == 0 && Own::at(self.stack.start).is_none()
    }

    /// The stack of ours that handlers of this thread run on.
    pub fn own(&self) -> Option<&'static Own> {
        (self.stack.flags & SS_DISABLE == 0)
            .then(|| Own::at(self.stack.start))
            .flatten()
    }
}

/// Read a value of the program's that is there ([`crate::populate::read_populated`]).
pub fn read<T: Plain>(read: impl FnOnce(&mut [u8]) -> bool) -> Option<T> {
    let mut value = T::default();
    // SAFETY: `T` is plain words without padding that matters, and any bytes are a value of it.
    let bytes = unsafe { core::slice::from_raw_parts_mut((&raw mut value).cast::<u8>(), size_of::<T>()) };
    read(bytes).then_some(value)
}

/// The bytes of a value.
pub fn bytes<T: Plain>(value: &T) -> &[u8] {
    // SAFETY: plain words, all of them initialised.
    unsafe { core::slice::from_raw_parts((&raw const *value).cast::<u8>(), size_of::<T>()) }
}

/// Plain words.
///
/// # Safety
/// Any bytes are a value, and no byte of it is padding.
pub unsafe trait Plain: Default {}
// SAFETY: four words.
unsafe impl Plain for Action {}
// SAFETY: a word, two halves and a word.
unsafe impl Plain for Stack {}
// SAFETY: a word.
unsafe impl Plain for u64 {}
// SAFETY: two words.
unsafe impl Plain for [u64; 2] {}

#[cfg(all(test, not(miri)))]
mod test {
    use core::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::PAGE_SIZE;
    use crate::mapping::Mapping;

    static CLOSED: AtomicUsize = AtomicUsize::new(0);

    fn protect(page: usize, prot: usize) {
        // SAFETY: a page of the test's.
        unsafe { syscall(raw::__NR_mprotect as usize, [page, PAGE_SIZE, prot, 0, 0, 0]) }.unwrap();
    }

    extern "C" fn open(_: i32, _: &SignalInfo, _: &mut Context) {
        match CLOSED.swap(0, Ordering::SeqCst) {
            0 => thread::kill_self(),
            page => protect(page, 3),
        }
    }

    /// As of a stack that is managed: the kernel does not reach it, and whoever touches it does.
    #[test]
    fn words_that_are_out_are_touched() {
        let page = Mapping::reserve(PAGE_SIZE).unwrap();
        let before = handle(SIGSEGV, open, 0, 0).unwrap();
        let words: *mut [usize; 65] = core::ptr::with_exposed_provenance_mut(page.addr());
        for _ in 0..2 {
            CLOSED.store(page.addr(), Ordering::SeqCst);
            protect(page.addr(), 0);
            // SAFETY: uname(2) writes 390 bytes there, which nobody else uses; the page is opened
            // when it is touched.
            let words = unsafe { &mut *words };
            // SAFETY: as above.
            let told = unsafe { syscall_on_stack(raw::__NR_uname as usize, [page.addr(), 0, 0, 0, 0, 0], words) };
            assert_eq!((told, CLOSED.load(Ordering::SeqCst)), (Ok(0), 0));
            assert!(words[0].to_le_bytes().starts_with(b"Linux"));
        }
        // SAFETY: what there was before.
        unsafe { action(SIGSEGV, Some(&before)) }.unwrap();
    }
}
