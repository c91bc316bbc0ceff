//! Signals as the kernel has them, for who serves some of them in the program's place: actions,
//! masks, alternate stacks, and the frame of a handler.
//!
//! Handlers of ours run on stacks of our own ([`Own`]), one for each thread that needs one. Such a
//! stack is found by asking the kernel which alternate stack the thread has: no thread-local
//! storage is needed, and a vfork child, which has its parent's, is no special case.
//!
//! A signal that was not for us is handed on: [`Context::deliver`] moves the frame that the kernel
//! made to where it would have made it, and goes on in the program's handler. When that returns,
//! the kernel restores from the moved frame.

use core::arch::{asm, naked_asm};
use core::sync::atomic::{AtomicI32, AtomicU64, AtomicUsize, Ordering};

use linux_raw_sys::general as raw;
use rustix::io::Result;

use crate::PAGE_SIZE;
use crate::cell::Leaked;
use crate::mapping::Mapping;
use crate::thread::{self, syscall};

pub const SIGBUS: i32 = raw::SIGBUS as i32;
/// Signals are below this.
pub const SIGNALS: usize = 65;

/// SIG_DFL, SIG_IGN.
pub const DEFAULT: usize = 0;
pub const IGNORE: usize = 1;

pub const SA_SIGINFO: usize = raw::SA_SIGINFO as usize;
pub const SA_ONSTACK: usize = raw::SA_ONSTACK as usize;
pub const SA_RESETHAND: usize = raw::SA_RESETHAND as usize;
pub const SA_NODEFER: usize = raw::SA_NODEFER as usize;
const SA_RESTORER: usize = 0x0400_0000;

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
    let mut old = Action::default();
    let new = new.map_or(0, |new| (&raw const *new).addr());
    let args = [signal as usize, new, (&raw mut old).addr(), 8, 0, 0];
    // SAFETY: both are of the kernel's layout; the caller answers for the handler.
    unsafe { syscall(raw::__NR_rt_sigaction as usize, args)? };
    Ok(old)
}

/// Have `handler` called at `signal`, on the thread's alternate stack, with all signals blocked.
///
/// # Errors
/// What the system answers.
pub fn handle(signal: i32, handler: Handler) -> Result<Action> {
    let action = Action {
        handler: handler as *const () as usize,
        flags: SA_SIGINFO | SA_ONSTACK | SA_RESTORER,
        restorer: restore as *const () as usize,
        mask: u64::MAX,
    };
    // SAFETY: a handler of this type is made for it.
    unsafe { self::action(signal, Some(&action)) }
}

/// rt_sigprocmask(2): returns the mask of before.
pub fn set_mask(how: usize, mask: u64) -> Result<u64> {
    let mut old = 0u64;
    let args = [how, (&raw const mask).addr(), (&raw mut old).addr(), 8, 0, 0];
    // SAFETY: both masks are 8 bytes, as the last argument says.
    unsafe { syscall(raw::__NR_rt_sigprocmask as usize, args)? };
    Ok(old)
}

/// Send a signal to the calling thread.
pub fn raise(signal: i32) {
    let args = [thread::pid() as usize, thread::tid() as usize, signal as usize, 0, 0, 0];
    // SAFETY: takes integers.
    let _ = unsafe { syscall(raw::__NR_tgkill as usize, args) };
}

/// sigaltstack(2).
fn alternate(new: Option<&Stack>) -> Result<Stack> {
    let mut old = Stack::default();
    let new = new.map_or(0, |new| (&raw const *new).addr());
    // SAFETY: both are of the kernel's layout; the stacks set here are ours.
    unsafe { syscall(raw::__NR_sigaltstack as usize, [new, (&raw mut old).addr(), 0, 0, 0, 0])? };
    Ok(old)
}

/// What a signal's handler of ours is: the signal, what the kernel says of it, and what it
/// interrupted.
pub type Handler = extern "C" fn(i32, &SignalInfo, &mut Context);

#[unsafe(naked)]
unsafe extern "C" fn restore() {
    naked_asm!("mov eax, {}", "syscall", const raw::__NR_rt_sigreturn)
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

    /// Where, if a thread caused it by an access.
    pub fn address(&self) -> usize {
        self.address
    }
}

/// BUS_ADRERR: nothing can be had at the address.
pub const BUS_ADRERR: i32 = 2;

/// `struct ucontext`, as the kernel has it.
#[repr(C)]
pub struct Context {
    _flags: u64,
    _link: usize,
    stack: Stack,
    _first: [usize; 15],
    sp: usize,
    _ip: usize,
    _eflags: usize,
    _segments: u64,
    error: u64,
    _trap: u64,
    _oldmask: u64,
    _cr2: u64,
    extended: usize,
    _reserved: [u64; 8],
    mask: u64,
}

/// What the kernel pushes for a handler: where it returns to, what was interrupted, and why.
#[repr(C)]
struct Frame {
    restorer: usize,
    context: Context,
    info: SignalInfo,
}

const _: () = assert!(size_of::<Context>() == 304 && size_of::<SignalInfo>() == 128 && size_of::<Frame>() == 440);

/// Below the stack pointer, a function's own.
const RED_ZONE: usize = 128;
/// Of the registers that FXSAVE knows; where in it the kernel says how much more there is.
const FXSAVE: usize = 512;
const SOFTWARE: usize = 464;
const MAGIC: u32 = 0x4650_5853;

impl Context {
    /// Whether the access was a write, and whether its page was there.
    pub fn access(&self) -> (bool, bool) {
        (self.error & 2 != 0, self.error & 1 != 0)
    }

    /// The stack that the thread was on.
    pub fn sp(&self) -> usize {
        self.sp
    }

    /// Signals that are blocked when the handler returns.
    pub fn mask(&self) -> u64 {
        self.mask
    }

    /// Have the thread's own alternate stack be `own` from when the handler returns.
    pub fn give(&mut self, own: &'static Own) {
        self.stack = own.stack();
    }

    /// The stack of ours that handlers of this thread run on.
    pub fn own(&self) -> Option<&'static Own> {
        (self.stack.flags & SS_DISABLE == 0)
            .then(|| Own::at(self.stack.start))
            .flatten()
    }

    /// Bytes of the registers that [`Context`] has no place for.
    fn extended_len(&self) -> usize {
        if self.extended == 0 {
            return 0;
        }
        let word = |offset: usize| {
            // SAFETY: the kernel wrote at least `FXSAVE` bytes there, aligned to 64.
            unsafe { *core::ptr::with_exposed_provenance::<u32>(self.extended + offset) }
        };
        match word(SOFTWARE) {
            MAGIC => word(SOFTWARE + 4) as usize,
            _ => FXSAVE,
        }
    }

    /// Go on in the program's handler as if the kernel had called it: its frame below `top`, or
    /// below what the thread was at if that is `None`. `mask` is what is blocked then. Nothing of
    /// ours is left.
    ///
    /// # Safety
    /// Called in the handler that the kernel passed this to, holding nothing. `handler` is the
    /// program's, for this signal.
    pub unsafe fn deliver(&mut self, signal: i32, handler: usize, top: Option<usize>, mask: u64) -> ! {
        let from = (&raw const *self).addr() - core::mem::offset_of!(Frame, context);
        let (len, top) = (self.extended_len(), top.unwrap_or(self.sp - RED_ZONE));
        let extended = (top - len) & !63;
        // As at the first instruction of a function: a multiple of 16, and the return address.
        let frame = ((extended - size_of::<Frame>()) & !15) - 8;
        // What is written to may be out: then it is brought, by the handler of that, on this stack.
        let _ = set_mask(SET, mask);
        let to = core::ptr::with_exposed_provenance_mut::<u8>;
        // SAFETY: the kernel's frame, and room where the kernel would have made it: below the
        // stack pointer of a thread that is here, or on a stack that it gave for this.
        unsafe {
            core::ptr::copy_nonoverlapping(to(self.extended).cast_const(), to(extended), len);
            core::ptr::copy_nonoverlapping(to(from).cast_const(), to(frame), size_of::<Frame>());
            if len > 0 {
                (*to(frame).cast::<Frame>()).context.extended = extended;
            }
        }
        let context = frame + core::mem::offset_of!(Frame, context);
        let info = frame + core::mem::offset_of!(Frame, info);
        // SAFETY: the registers of a handler's first instruction.
        unsafe {
            asm!("mov rsp, r8", "jmp rcx",
                in("r8") frame, in("rcx") handler, in("rax") 0,
                in("rdi") signal, in("rsi") info, in("rdx") context, options(noreturn));
        }
    }
}

/// Bytes of a stack with its guard page; threads that can have one.
const STACK: usize = 128 << 10;
const STACKS: usize = 512;

/// What is known of a thread that has a handler's stack of ours: it lies above that.
#[repr(C)]
#[derive(Debug)]
pub struct Own {
    /// The alternate stack that the program thinks it has: its start and length, 0 if it has none.
    start: AtomicUsize,
    len: AtomicUsize,
    flags: AtomicI32,
    /// Signals that the program thinks are blocked, and are not.
    pub blocked: AtomicU64,
    /// The page that was asked for last, and how often in a row.
    pub asked: [AtomicUsize; 2],
}

static REGION: Leaked<usize> = Leaked::new();
static TAKEN: [AtomicU64; STACKS / 64] = [const { AtomicU64::new(0) }; STACKS / 64];
/// The threads that have them; 0: nobody has.
static THREADS: [AtomicI32; STACKS] = [const { AtomicI32::new(0) }; STACKS];

/// Reserve the stacks. Before the first is asked for.
///
/// # Errors
/// ENOMEM: no address space.
pub fn reserve_stacks() -> Result<()> {
    if REGION.get().is_none() {
        let mapping = Mapping::reserve_beside_data(STACKS * STACK)?.without_huge_pages();
        REGION.set(mapping.leak().addr());
    }
    Ok(())
}

fn number_of(addr: usize) -> Option<usize> {
    let first = *REGION.get()?;
    (first..first + STACKS * STACK)
        .contains(&addr)
        .then(|| (addr - first) / STACK)
}

/// Whether the calling thread runs on one of them.
pub fn is_on_own_stack() -> bool {
    let here = 0u8;
    number_of((&raw const here).addr()).is_some()
}

impl Own {
    /// The one that an address lies in.
    fn at(addr: usize) -> Option<&'static Self> {
        let (number, first) = (number_of(addr)?, *REGION.get()?);
        let place = first + (number + 1) * STACK - size_of::<Self>().next_multiple_of(64);
        // SAFETY: aligned, in a mapping that stays, of atomics alone, for which zeros will do.
        Some(unsafe { &*core::ptr::with_exposed_provenance(place) })
    }

    /// The calling thread's.
    pub fn current() -> Option<&'static Self> {
        REGION.get()?;
        let stack = alternate(None).ok()?;
        let own = (stack.flags & SS_DISABLE == 0).then(|| Self::at(stack.start)).flatten();
        own.or_else(|| {
            // A handler that began before it had one has returned since.
            let own = Self::of_thread(thread::tid())?;
            alternate(Some(&own.stack())).ok()?;
            Some(own)
        })
    }

    fn of_thread(thread: i32) -> Option<&'static Self> {
        let first = *REGION.get()?;
        let number = THREADS
            .iter()
            .position(|owner| owner.load(Ordering::Relaxed) == thread)?;
        Self::at(first + number * STACK)
    }

    /// One for the calling thread, which the kernel is not told yet. `None`: all are taken.
    pub fn take() -> Option<&'static Self> {
        let (first, me) = (*REGION.get()?, thread::tid());
        if let Some(own) = Self::of_thread(me) {
            return Some(own);
        }
        for (n, taken) in TAKEN.iter().enumerate() {
            let mut bits = taken.load(Ordering::Relaxed);
            while bits != u64::MAX {
                let free = bits.trailing_ones();
                match taken.compare_exchange_weak(bits, bits | 1 << free, Ordering::Acquire, Ordering::Relaxed) {
                    Ok(_) => {
                        let number = n * 64 + free as usize;
                        forbid(first + number * STACK);
                        let own = Self::at(first + number * STACK)?;
                        own.set_program_stack(Stack::new(0, 0, SS_DISABLE));
                        own.blocked.store(0, Ordering::Relaxed);
                        own.asked[1].store(0, Ordering::Relaxed);
                        THREADS[number].store(me, Ordering::Relaxed);
                        return Some(own);
                    }
                    Err(now) => bits = now,
                }
            }
        }
        None
    }

    /// One for the calling thread, in place of the alternate stack that it has.
    pub fn take_on() -> Option<&'static Self> {
        let own = Self::take()?;
        alternate(Some(&own.stack())).is_ok().then_some(own)
    }

    /// The calling thread ends: it has no alternate stack from now on. Not in a vfork child, whose
    /// parent's this is.
    pub fn leave(&self) {
        let none = Stack::new(0, 0, SS_DISABLE);
        let Some(number) = number_of((&raw const *self).addr()) else {
            return;
        };
        if THREADS[number].load(Ordering::Relaxed) == thread::tid() && alternate(Some(&none)).is_ok() {
            THREADS[number].store(0, Ordering::Relaxed);
            TAKEN[number / 64].fetch_and(!(1 << (number % 64)), Ordering::Release);
        }
    }

    /// In a forked child, in its only thread, whose `own` is: no other has one.
    pub fn keep_alone(own: Option<&Self>) {
        let kept = own.and_then(|own| number_of((&raw const *own).addr()));
        for (n, thread) in THREADS.iter().enumerate() {
            let owner = if kept == Some(n) { thread::tid() } else { 0 };
            thread.store(owner, Ordering::Relaxed);
        }
        for (n, taken) in TAKEN.iter().enumerate() {
            let bits = kept.filter(|kept| kept / 64 == n).map_or(0, |kept| 1 << (kept % 64));
            taken.store(bits, Ordering::Relaxed);
        }
    }

    /// As the kernel is told.
    fn stack(&self) -> Stack {
        let end = (&raw const *self).addr();
        let start = end + size_of::<Self>().next_multiple_of(64) - STACK + PAGE_SIZE;
        Stack::new(start, end - start, 0)
    }

    /// The alternate stack that the program thinks it has.
    pub fn program_stack(&self) -> Stack {
        Stack::new(
            self.start.load(Ordering::Relaxed),
            self.len.load(Ordering::Relaxed),
            self.flags.load(Ordering::Relaxed),
        )
    }

    /// It has this one from now on.
    pub fn set_program_stack(&self, stack: Stack) {
        self.start.store(stack.start, Ordering::Relaxed);
        self.len.store(stack.len, Ordering::Relaxed);
        self.flags.store(stack.flags, Ordering::Relaxed);
    }
}

/// Nobody may use the lowest page of a stack: what runs over raises a signal that ends the process.
fn forbid(addr: usize) {
    let page = core::ptr::with_exposed_provenance_mut(addr);
    // SAFETY: the lowest page of a stack of ours, which nobody uses.
    let _ = unsafe { rustix::mm::mprotect(page, PAGE_SIZE, rustix::mm::MprotectFlags::empty()) };
}

/// Read a value of the program's that is there ([`crate::guard::read_populated`]).
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
