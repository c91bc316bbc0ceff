//! SIGSYS that comes while a handler of ours serves a fault: the vDSO's call for the clock, or what
//! somebody sent.

use linux_raw_sys::general as raw;

use super::signal::{Context, SignalInfo, bit};
use crate::own_stack::Own;
use crate::thread::{self, syscall};
use crate::vdso;

impl Context {
    /// A call was stopped. If it is the vDSO's for the clock that we read, such calls are made in
    /// its place from now on. If that runs on a stack of ours, for a handler or who sees to a call
    /// there, it is made. False: it is the program's.
    pub fn make_clock_call(&mut self) -> bool {
        // For some other clocks the vDSO always makes one.
        let call = (self.number(), self.argument());
        if call != (raw::__NR_clock_gettime as usize, raw::CLOCK_MONOTONIC as usize) || !vdso::holds(self.ip) {
            return false;
        }
        vdso::leave_out();
        if Own::at(self.sp).is_none() {
            return false;
        }
        let [.., rdi, rsi, _, _, _, number, _] = self.registers;
        // SAFETY: writes to what our own code gave the vDSO to write to.
        match unsafe { syscall(number, [rdi, rsi, 0, 0, 0, 0]) } {
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
