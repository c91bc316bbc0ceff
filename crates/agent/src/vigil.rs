//! A core that is kept awake while faults follow each other.
//!
//! A program that waits for a page leaves its core idle. In a virtual machine an idle core is halted at once, and to wake it takes the
//! hypervisor tens of microseconds: several times what the page takes. So while faults come closely ([`Spin`](crate::spin::Spin)), a
//! thread that only runs where nobody else would (SCHED_IDLE) keeps that core from being halted; the program's thread takes its
//! place the moment it is woken. It sleeps [`LINGER_NS`] after the last such fault.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use uzswap_sys::futex::Mailbox;
use uzswap_sys::thread::{self, Descriptors, ThreadMemory};
use uzswap_sys::time::now_ns;

/// How long it stays after a fault.
const LINGER_NS: u64 = 100_000;
/// Bit of the mail.
const COME: u32 = 1;

static THREAD: ThreadMemory = ThreadMemory::new();

/// Until when the core is kept awake.
pub(crate) struct Vigil {
    until: AtomicU64,
    is_there: AtomicBool,
    mail: Mailbox,
}

impl Vigil {
    pub(crate) const fn new() -> Self {
        Self {
            until: AtomicU64::new(0),
            is_there: AtomicBool::new(false),
            mail: Mailbox::new(),
        }
    }

    /// A fault was served at `now`, and the next is expected soon.
    pub(crate) fn extend(&self, now: u64) {
        // SeqCst, as in `run`: either this sees that nobody is there, or the thread sees the later end.
        self.until.store(now + LINGER_NS, Ordering::SeqCst);
        if !self.is_there.load(Ordering::SeqCst) {
            self.mail.post(COME);
        }
    }

    /// In a forked child: nobody is there.
    pub(crate) fn reset(&self) {
        self.is_there.store(false, Ordering::SeqCst);
        self.mail.reset();
    }

    /// Start the thread, where there is a core for it. Without it faults are slower, nothing else.
    pub(crate) fn begin(&'static self) {
        if thread::cores() > 1 {
            let _ = THREAD.spawn(c"uzswap-vigil", Descriptors::Shared, || self.run());
        }
    }

    /// Watch for ever.
    fn run(&self) {
        if !thread::give_way_to_all() {
            // It would take the core from somebody.
            loop {
                self.mail.wait(0, None);
            }
        }
        loop {
            self.mail.wait(COME, None);
            self.is_there.store(true, Ordering::SeqCst);
            while now_ns() < self.until.load(Ordering::SeqCst) {
                core::hint::spin_loop();
            }
            self.is_there.store(false, Ordering::SeqCst);
            if now_ns() < self.until.load(Ordering::SeqCst) {
                self.mail.post(COME);
            }
        }
    }
}
