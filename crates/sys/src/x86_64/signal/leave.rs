//! How a handler returns that was called as if the kernel had: by a call of the program's, which is
//! stopped.

use super::frame::open_to_bring;
use super::{Context, SET, SS_AUTODISARM, SS_DISABLE, Stack, restorer, set_mask};
use crate::own_stack::Own;

impl Context {
    /// A handler that was [delivered](Self::deliver) with signals `blocked` returns, by a call that
    /// was stopped. Returns what the mask that it returns to has of `ours`.
    ///
    /// The frame is read here, where what is out of it is brought. The kernel, which waits for
    /// nothing, finds a copy on our stack; what it has of alternate stacks stays this thread's.
    /// `may_ask`: the thread may make calls, without which nothing is brought.
    pub fn leave(&mut self, ours: u64, may_ask: bool) -> u64 {
        if may_ask {
            open_to_bring();
        }
        // SAFETY: where the call finds what it returns to, which is the program's.
        let left = unsafe { &mut *core::ptr::with_exposed_provenance_mut::<Self>(self.sp) };
        let blocked = left.mask & ours;
        if self.take_extended(left) {
            self.return_stack(left);
            self.registers = left.registers;
            (self.sp, self.ip, self.eflags) = (left.sp, left.ip, left.eflags);
            (self._segments, self.mask) = (left._segments, left.mask & !ours);
        } else {
            // Registers that this processor or thread has not: the kernel is to say so.
            (left.stack, left.mask) = (self.stack, left.mask & !ours);
            self.ip = restorer();
        }
        if may_ask {
            // What is raised from here on comes when this handler has returned.
            let _ = set_mask(SET, u64::MAX);
        }
        blocked
    }

    /// Copy the registers that [`Context`] has no place for. False: they are others than ours.
    fn take_extended(&mut self, left: &Self) -> bool {
        let len = left.extended_len();
        if len == 0 {
            self.extended = 0;
            return true;
        }
        if len != self.extended_len() {
            return false;
        }
        let from = core::ptr::with_exposed_provenance::<u8>(left.extended);
        let to = core::ptr::with_exposed_provenance_mut(self.extended);
        // SAFETY: the program's, as far as it says, and the kernel's of the same length on our
        // stack.
        unsafe { core::ptr::copy_nonoverlapping(from, to, len) };
        true
    }

    /// The alternate stack that the program thinks the thread has.
    pub(super) fn program_stack(&self) -> Stack {
        self.own().map_or(Stack::new(0, 0, SS_DISABLE), Own::program_stack)
    }

    /// As the kernel, have it be that of the frame, unless the thread is on it. A frame of the
    /// kernel's says ours.
    fn return_stack(&self, left: &Self) {
        if let Some(own) = self.own()
            && Own::at(left.stack.start).is_none()
            && !own.program_stack().is_on(left.sp)
        {
            let Stack { start, len, flags, .. } = left.stack;
            own.set_program_stack(Stack::new(start, len, flags & (SS_DISABLE | SS_AUTODISARM)));
        }
    }
}
