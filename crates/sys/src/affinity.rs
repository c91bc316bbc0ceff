//! Which cores a thread of ours keeps off.

use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

use crate::thread::is_filtered;

/// The core that the calling thread runs on, at this moment.
pub fn current_core() -> usize {
    sched_getcpu()
}

/// Where one thread, which calls all of this, may run.
#[derive(Default)]
pub struct Affinity {
    /// As it was before we kept off a core, and as we left it.
    whole: Option<CpuSet>,
    left: Option<CpuSet>,
    kept_off: Option<usize>,
}

impl Affinity {
    /// Run on any core but this, if there is another; `None`: on any. What somebody else has set meanwhile (taskset) holds for the rest.
    pub fn keep_off(&mut self, core: Option<usize>) {
        if core == self.kept_off {
            return;
        }
        self.kept_off = core;
        let Ok(now) = sched_getaffinity(None) else { return };
        if self.left.as_ref() != Some(&now) || self.whole.is_none() {
            self.whole = Some(now);
        }
        let Some(mut set) = self.whole else { return };
        if let Some(core) = core.filter(|core| *core < CpuSet::MAX_CPU) {
            set.unset(core);
        }
        if set.count() > 0 && !is_filtered() && sched_setaffinity(None, &set).is_ok() {
            self.left = Some(set);
        }
    }
}

#[cfg(all(test, not(miri)))]
mod test {
    use super::*;

    #[test]
    fn a_thread_keeps_off_a_core_and_comes_back() {
        let before = sched_getaffinity(None).unwrap();
        let mut affinity = Affinity::default();
        affinity.keep_off(Some(current_core()));
        let now = sched_getaffinity(None).unwrap();
        assert_eq!(now.count(), before.count().saturating_sub(1).max(1));
        affinity.keep_off(None);
        assert!(sched_getaffinity(None).unwrap() == before);
    }
}
