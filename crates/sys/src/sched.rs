//! How the calling thread is scheduled.

use linux_raw_sys::general as raw;

use crate::thread::{is_filtered, syscall};

/// `struct sched_attr` of its first version.
#[repr(C)]
#[derive(Default)]
struct SchedAttr {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    /// Of a thread of the fair class: its slice, from Linux 6.12 on.
    runtime: u64,
    deadline: u64,
    period: u64,
}

/// Have this thread ask for the core again after so many nanoseconds (a slice,
/// `kernel/sched/fair.c`), so that whoever wakes there waits that long at most, and not for the 3
/// ms that are usual. Not if the program has it scheduled in a way of its own.
pub fn take_short_turns(slice_ns: u64) {
    if is_filtered() {
        return;
    }
    let mut attr = SchedAttr::default();
    let (size, place) = (size_of::<SchedAttr>(), &raw mut attr);
    // SAFETY: the kernel writes at most `size` bytes to `attr`, which is that long and lives until
    // the call returns.
    let read = unsafe { syscall(raw::__NR_sched_getattr as usize, [0, place as usize, size, 0, 0, 0]) };
    // SAFETY: `attr` lives, and nothing else refers to it.
    let attr = unsafe { &mut *place };
    if read.is_ok() && attr.policy == raw::SCHED_NORMAL {
        attr.runtime = slice_ns;
        let place = core::ptr::from_ref(attr) as usize;
        // SAFETY: the kernel reads as many bytes of `attr` as its `size` says, which it has just
        // set.
        let _ = unsafe { syscall(raw::__NR_sched_setattr as usize, [0, place, 0, 0, 0, 0]) };
    }
}

/// Have this thread go before others of its user by so many steps of niceness, if the system allows
/// that (`CAP_SYS_NICE`, `RLIMIT_NICE`): as it was otherwise.
pub fn go_before_others(steps: i32) {
    if is_filtered() {
        return;
    }
    if let Ok(nice) = rustix::process::getpriority_process(None) {
        let _ = rustix::process::setpriority_process(None, nice - steps);
    }
}

/// Have this thread run only where a core would be idle otherwise (SCHED_IDLE). False: the system
/// does not let it, or the program decides which system calls there are, how its threads are
/// scheduled, or how much processor time it may use, which this thread's counts towards.
pub fn give_way_to_all() -> bool {
    use rustix::process::{Resource, getrlimit};
    if is_filtered() || getrlimit(Resource::Cpu).current.is_some() {
        return false;
    }
    // SAFETY: asks how this thread is scheduled; touches no memory.
    let policy = unsafe { syscall(raw::__NR_sched_getscheduler as usize, [0; 6]) };
    if policy != Ok(raw::SCHED_NORMAL as usize) {
        return false;
    }
    schedule(0, raw::SCHED_IDLE)
}

/// Have a thread, 0 this one, take turns with all others again. False: it takes CAP_SYS_NICE.
pub fn take_turns(thread: i32) -> bool {
    schedule(thread, raw::SCHED_NORMAL)
}

fn schedule(thread: i32, policy: u32) -> bool {
    let priority: i32 = 0;
    let args = [
        thread as usize,
        policy as usize,
        (&raw const priority) as usize,
        0,
        0,
        0,
    ];
    // SAFETY: the kernel reads a `struct sched_param`, one int, which lives until the call returns.
    unsafe { syscall(raw::__NR_sched_setscheduler as usize, args) }.is_ok()
}
