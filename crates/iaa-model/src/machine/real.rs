//! Real time: engines are this processor's.

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Instant;

use super::core::{Core, Pace};
use super::{Clock, Config, Machine, sealed};
use crate::memory::Memory;

/// Real time. No time measured on it says anything about the hardware.
pub struct Real {
    core: Arc<Core>,
    threads: Vec<JoinHandle<()>>,
}

impl sealed::Sealed for Real {}
impl Clock for Real {}

impl Drop for Real {
    fn drop(&mut self) {
        self.core.stop();
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so.
            let _ = thread.join();
        }
    }
}

impl Machine<Real> {
    /// Whoever submits runs what engines can take, before the submission returns. Late records are
    /// written by whoever submits or calls [`poll`](Self::poll) when they are due.
    pub fn inline(config: Config, memory: Arc<dyn Memory>) -> Self {
        let pace = Pace::Inline(Instant::now());
        Self::with(config, memory, pace, |core| Real {
            core: Arc::clone(core),
            threads: Vec::new(),
        })
    }

    /// `threads` threads run what engines can take, at most one job for each engine at a time.
    ///
    /// # Panics
    /// When a thread cannot be started.
    pub fn threads(config: Config, memory: Arc<dyn Memory>, threads: usize) -> Self {
        let pace = Pace::Threads(Instant::now());
        Self::with(config, memory, pace, |core| Real {
            core: Arc::clone(core),
            threads: (0..threads.max(1)).map(|i| start(core, i)).collect(),
        })
    }

    /// Run what is due. Only an inline machine needs it.
    pub fn poll(&self) {
        self.clock.core.kick();
    }
}

fn start(core: &Arc<Core>, i: usize) -> JoinHandle<()> {
    let core = Arc::clone(core);
    let builder = thread::Builder::new().name(format!("iaa-model-{i}"));
    builder.spawn(move || core.work()).expect("a thread for the model")
}
