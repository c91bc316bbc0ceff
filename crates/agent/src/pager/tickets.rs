//! What threads of the program wait for kswapd to do: a number for each request, and up to which
//! they are done.

use core::sync::atomic::{AtomicU32, Ordering};

use uzswap_sys::futex;

/// How long a thread sleeps before it looks whether to wait on. Nanoseconds.
const LOOK_NS: u64 = 10_000_000;

/// The newest request, and up to which they are done.
#[derive(Default)]
pub(crate) struct Tickets {
    asked: AtomicU32,
    done: AtomicU32,
}

impl Tickets {
    /// One more request.
    pub(crate) fn ask(&self) -> u32 {
        self.asked.fetch_add(1, Ordering::SeqCst).wrapping_add(1)
    }

    /// The newest request: what begins from now on answers it, and all before it.
    pub(crate) fn newest(&self) -> u32 {
        self.asked.load(Ordering::SeqCst)
    }

    /// All up to `ticket` are done.
    pub(crate) fn answer(&self, ticket: u32) {
        self.done.store(ticket, Ordering::SeqCst);
        futex::wake_all(&self.done, false);
    }

    /// Wait until `ticket` is done, as long as `waits_on` says so, which is asked every
    /// [`LOOK_NS`].
    pub(crate) fn wait(&self, ticket: u32, mut waits_on: impl FnMut() -> bool) {
        loop {
            let done = self.done.load(Ordering::SeqCst);
            if done.wrapping_sub(ticket) as i32 >= 0 || !waits_on() {
                return;
            }
            futex::wait(&self.done, done, Some(LOOK_NS), false);
        }
    }

    /// In a forked child: nobody waits.
    pub(crate) fn reset(&self) {
        self.done.store(self.newest(), Ordering::SeqCst);
    }
}
