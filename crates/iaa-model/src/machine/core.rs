//! What machines, files, portals and threads share: the state behind its lock, and the memory.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::Config;
use super::perform::perform;
use super::state::{State, Target};
use crate::descriptor;
use crate::device::Acceptance;
use crate::memory::Memory;

/// Who runs what is ready.
pub(super) enum Pace {
    /// Nobody, until the clock is advanced.
    Virtual,
    /// Whoever submits or polls.
    Inline(Instant),
    /// Threads.
    Threads(Instant),
}

pub(super) struct Core {
    pub memory: Arc<dyn Memory>,
    pub pace: Pace,
    state: Mutex<State>,
    /// Notified when there may be something to run.
    work: Condvar,
}

impl Core {
    pub fn new(config: Config, memory: Arc<dyn Memory>, pace: Pace) -> Self {
        Self {
            memory,
            pace,
            state: Mutex::new(State::new(config)),
            work: Condvar::new(),
        }
    }

    pub fn lock(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Pace::Inline(start) | Pace::Threads(start) = self.pace {
            state.now = start.elapsed().as_nanos() as u64;
        }
        state
    }

    pub fn submit(&self, target: Target, raw: &[u8; descriptor::LEN], posted: bool) -> Acceptance {
        let accepted = self.lock().submit(target, raw, posted);
        self.kick();
        accepted
    }

    /// Something may be ready to run.
    pub fn kick(&self) {
        match self.pace {
            Pace::Virtual => self.lock().dispatch(&*self.memory),
            Pace::Inline(_) => while self.run_one() {},
            Pace::Threads(_) => self.work.notify_all(),
        }
    }

    /// Run what is due and one job; false: there was no job.
    fn run_one(&self) -> bool {
        let mut state = self.lock();
        state.run_due(&*self.memory);
        let Some(job) = state.next_job() else {
            return false;
        };
        let runs_cross = state.config.runs_cross;
        drop(state);
        let effects = perform(&job, &*self.memory, runs_cross);
        self.lock().complete(job, effects, &*self.memory);
        true
    }

    /// What a thread of a real machine does until the machine is dropped.
    pub fn work(&self) {
        loop {
            while self.run_one() {}
            let state = self.lock();
            if state.is_stopping {
                return;
            }
            // Looked at again under the lock: what came since `run_one` notified nobody.
            if state.has_job() {
                continue;
            }
            let until = state.next_due().map(|due| due.saturating_sub(state.now));
            let longest = Duration::from_millis(100);
            let wait = until.map_or(longest, Duration::from_nanos).min(longest);
            drop(self.work.wait_timeout(state, wait));
        }
    }

    /// Have all threads return.
    pub fn stop(&self) {
        self.lock().is_stopping = true;
        self.work.notify_all();
    }
}
