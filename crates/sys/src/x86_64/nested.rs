//! SIGSYS that comes while a handler of ours serves a fault: the vDSO's call for the clock, or what
//! somebody sent.

use linux_raw_sys::general as raw;

use super::signal::{Context, SignalInfo, bit};
use crate::own_stack::Own;
use crate::thread::{self, syscall};
use crate::vdso;

impl Context {
    /// Whether the call that was stopped reads the clock that we read. For some others the vDSO
    /// always makes one.
    pub(crate) fn asks_clock(&self) -> bool {
        (self.number(), self.argument()) == (raw::__NR_clock_gettime as usize, raw::CLOCK_MONOTONIC as usize)
    }

    /// Make it, if the vDSO did on a stack of ours: for a handler, or who sees to a call there.
    /// False: it is the program's.
    pub fn make_clock_call(&mut self) -> bool {
        if !self.asks_clock() || !vdso::holds(self.ip) || Own::at(self.sp).is_none() {
            return false;
        }
        let [_, _, _, .., rdi, rsi, _, _, rdx, number, _] = self.registers;
        // SAFETY: writes to what our own code gave the vDSO to write to.
        match unsafe { syscall(number, [rdi, rsi, rdx, 0, 0, 0]) } {
            Ok(value) => self.registers[13] = value,
            Err(errno) => self.answer(errno),
        }
        true
    }

    /// A signal was sent that may come while a handler of ours runs: it comes again when that
    /// returns, as it is. False: none runs.
    ///
    /// Until then the handler has it blocked, so it reads the clock without the vDSO. One that is
    /// in there now would end by a clock that becomes one of calls now.
    pub fn defer(&mut self, signal: i32, info: &SignalInfo) -> bool {
        if Own::at(self.sp).is_none() || Own::end_of_beside(self.sp).is_some() {
            return false;
        }
        vdso::leave_out();
        let [pid, tid] = [thread::pid(), thread::tid()].map(|id| id as usize);
        let args = [pid, tid, signal as usize, (&raw const *info).addr(), 0, 0];
        // SAFETY: the kernel reads what it wrote itself, and the signal is blocked here.
        let is_sent = unsafe { syscall(raw::__NR_rt_tgsigqueueinfo as usize, args).is_ok() };
        if is_sent {
            self.mask |= bit(signal);
        }
        is_sent
    }
}
