//! The frame of a handler: the kernel's, on a stack of ours, is copied to where the kernel would
//! have made it without us.

use linux_raw_sys::general as raw;

use super::{Action, BLOCK, Context, SA_ONSTACK, SA_RESTORER, SET, SIGBUS, SIGSEGV, SIGSYS, SS_AUTODISARM, SS_DISABLE};
use super::{SignalInfo, Stack, bit, restorer, set_mask};
use crate::own_stack::is_on_own_stack;
use crate::populate::{Populate, populate};
use crate::thread::syscall;
use crate::{PAGE_SIZE, closed};

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
    /// Bytes of the registers that [`Context`] has no place for.
    pub(super) fn extended_len(&self) -> usize {
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

    /// Where registers and frame of a handler lie, on `stack`, or below what the thread was at; and
    /// where they end.
    fn place(&self, stack: Option<&Stack>) -> Place {
        let top = stack.map_or_else(|| self.program_sp() - RED_ZONE, Stack::end);
        let extended = (top - self.extended_len()) & !63;
        // As at the first instruction of a function: a multiple of 16, and the return address.
        let frame = ((extended - size_of::<Frame>()) & !15) - 8;
        Place { frame, extended, top }
    }

    /// Whether the kernel called ours where the program's handler is to run as well: the thread has
    /// no stack of ours.
    fn is_in_place(&self, action: &Action) -> bool {
        let here = (&raw const *self).addr();
        let is_moved = self.stack.flags & SS_DISABLE == 0 && self.stack.is_on(here) && !self.stack.is_on(self.sp);
        !is_on_own_stack() && (action.flags & SA_ONSTACK != 0 || !is_moved)
    }

    /// Whether there is room for the frame of a handler, on `stack`, or below what the thread was
    /// at. `may_ask`: the thread may make calls to find out.
    pub fn has_room(&self, action: &Action, stack: Option<&Stack>, may_ask: bool) -> bool {
        if self.is_in_place(action) {
            return true;
        }
        let (place, on) = (self.place(stack), self.program_stack());
        let is_on = on.flags & SS_DISABLE == 0 && on.is_on(self.program_sp());
        match stack.or(Some(&on).filter(|_| is_on)) {
            Some(stack) => place.frame >= stack.start,
            None => !may_ask || place.pages().all(is_writable),
        }
    }

    /// Go on in the program's handler as if the kernel had called it, when ours returns: its frame
    /// on `stack`, or below what the thread was at. `mask` is what is blocked then.
    ///
    /// Where the thread has no stack of ours the frame is there already: this does not return then.
    ///
    /// The kernel's frame is copied to there with all signals blocked but those that bring what is
    /// out of that ([`open_to_bring`]): a frame of ours that waits beneath this one is not written
    /// over. Then ours is made to lead to the handler, and the kernel changes stack, mask and
    /// registers at once.
    ///
    /// `blocked`: the handler returns by the program's own call, which is stopped
    /// ([`leave`](Self::leave)). Until then its frame is memory as any other, and says what the
    /// program thinks: that these signals are blocked as well, and which alternate stack it has.
    pub fn deliver(&mut self, signal: i32, action: &Action, stack: Option<&Stack>, mask: u64, blocked: Option<u64>) {
        let from = (&raw const *self).addr() - core::mem::offset_of!(Frame, context);
        if self.is_in_place(action) {
            // SAFETY: the kernel's own, and ours to read.
            let mut leads = unsafe { core::ptr::read(self) };
            leads.lead_to(signal, action.handler, from, mask);
            if leads.stack.flags & SS_AUTODISARM != 0 {
                // As the kernel has it while the handler runs. Its own frame arms it again.
                leads.stack = Stack::new(0, 0, SS_DISABLE);
            }
            // SAFETY: what is below the kernel's frame is of handlers of ours that do not go on.
            unsafe { leads.go() }
        }
        let (len, Place { frame, extended, .. }) = (self.extended_len(), self.place(stack));
        let to = core::ptr::with_exposed_provenance_mut::<u8>;
        // SAFETY: the kernel's frame, on our stack, and room where the kernel would have made it:
        // below the stack pointer of a thread that is here, or on a stack that it gave for this.
        unsafe {
            core::ptr::copy_nonoverlapping(to(self.extended).cast_const(), to(extended), len);
            core::ptr::copy_nonoverlapping(to(from).cast_const(), to(frame), size_of::<Frame>());
            let copied = &mut *to(frame).cast::<Frame>();
            copied.context.extended = if len > 0 { extended } else { 0 };
            if let Some(blocked) = blocked {
                copied.context.mask |= blocked;
                copied.context.stack = self.program_stack();
                copied.restorer = action.restorer;
            } else if action.flags & SA_RESTORER != 0 {
                copied.restorer = restorer();
            }
        }
        self.lead_to(signal, action.handler, frame, mask);
    }

    /// Lead to the handler of a signal whose frame lies at `frame`, with that mask.
    fn lead_to(&mut self, signal: i32, handler: usize, frame: usize, mask: u64) {
        const FLAGS_CLEARED: usize = 1 << 8 | 1 << 10 | 1 << 16;
        let [_, _, _, _, _, _, _, _, rdi, rsi, _, _, rdx, rax, _] = &mut self.registers;
        *rdi = signal as usize;
        *rsi = frame + core::mem::offset_of!(Frame, info);
        *rdx = frame + core::mem::offset_of!(Frame, context);
        *rax = 0;
        (self.sp, self.ip) = (frame, handler);
        self.eflags &= !FLAGS_CLEARED;
        // Those of a thread that begins.
        self.extended = 0;
        self.mask = mask;
    }

    /// Have the kernel change registers and mask at once, by the call that ends a handler: a filter
    /// of system calls that lets a program handle signals allows it.
    ///
    /// # Safety
    /// What this context leads to may not need what lies below this frame.
    unsafe fn go(&self) -> ! {
        // SAFETY: the kernel reads a frame whose first word it has popped; this is what follows.
        unsafe {
            core::arch::asm!("mov rsp, {0}", "mov eax, {1}", "syscall", "ud2", in(reg) self, const raw::__NR_rt_sigreturn, options(noreturn));
        }
    }
}

/// Where the frame of a handler lies, and registers above it, up to `top`.
struct Place {
    frame: usize,
    extended: usize,
    top: usize,
}

impl Place {
    /// A word in each of its pages.
    fn pages(&self) -> impl Iterator<Item = usize> {
        let later = (self.frame | (PAGE_SIZE - 1)) + 1;
        core::iter::once(self.frame).chain((later..self.top).step_by(PAGE_SIZE))
    }
}

/// Whether the word at `addr` may be written to, or will when its page is there. What it says is
/// lost. A stack grows to there, if it may.
fn is_writable(addr: usize) -> bool {
    let page = addr & !(PAGE_SIZE - 1);
    let args = [BLOCK, 0, addr, size_of::<u64>(), 0, 0];
    // SAFETY: nothing is blocked; the mask is written to where a frame is about to lie.
    let asked = unsafe { syscall(raw::__NR_rt_sigprocmask as usize, args) };
    asked.is_ok() || !matches!(populate(page, PAGE_SIZE, true), Populate::Refused(_))
}

/// Open the signals that bring what is out of the program's stacks, where all are blocked.
pub fn open_to_bring() {
    let _ = set_mask(SET, !(brings() | bit(SIGSYS)));
}

/// The signal that brings what is out, of a stack of the program's.
fn brings() -> u64 {
    if closed::is_on() { bit(SIGSEGV) } else { bit(SIGBUS) }
}
