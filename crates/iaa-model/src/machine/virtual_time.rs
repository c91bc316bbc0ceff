//! Virtual time: discrete events. Same seed and same calls, same bits and same moments.

use std::sync::Arc;

use super::core::Pace;
use super::{Clock, Config, Machine, sealed};
use crate::memory::Memory;

/// Virtual time, by the assumed latencies of [`Latency`](crate::latency::Latency).
pub struct Virtual(());

impl sealed::Sealed for Virtual {}
impl Clock for Virtual {}

impl Machine<Virtual> {
    /// A machine whose clock stands at 0. All engines work in parallel, and time passes only by
    /// [`advance`](Self::advance).
    pub fn new(config: Config, memory: Arc<dyn Memory>) -> Self {
        Self::with(config, memory, Pace::Virtual, |_| Virtual(()))
    }

    /// Nanoseconds since the start.
    pub fn now(&self) -> u64 {
        self.core.lock().now
    }

    /// When something will happen next, if nobody submits before.
    pub fn next_event(&self) -> Option<u64> {
        self.core.lock().next_due()
    }

    /// Let time pass until `until`, a time of this clock. Events happen in their order.
    pub fn advance(&self, until: u64) {
        let Self {
            core,
            clock: Virtual(()),
        } = self;
        let mut state = core.lock();
        while let Some(due) = state.next_due().filter(|due| *due <= until) {
            state.now = state.now.max(due);
            state.run_due(&*core.memory);
            state.dispatch(&*core.memory);
        }
        state.now = state.now.max(until);
    }

    /// Let time pass until nothing is left to happen; when that was is returned.
    pub fn run(&self) -> u64 {
        while let Some(due) = self.next_event() {
            self.advance(due);
        }
        self.now()
    }
}
