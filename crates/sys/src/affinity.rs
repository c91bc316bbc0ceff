//! Which cores a thread of ours keeps off.

use rustix::thread::{CpuSet, Pid, sched_getaffinity, sched_getcpu, sched_setaffinity};

use crate::thread::is_filtered;

/// The core that the calling thread runs on, at this moment.
pub fn current_core() -> usize {
    sched_getcpu()
}

/// Where one thread, which calls this, may run.
#[derive(Default)]
pub struct Affinity {
    kept_off: Option<usize>,
}

impl Affinity {
    /// Run where thread `like` may, but not on this core, if there is another; `None`: wherever it may. That thread keeps off none, so what
    /// is set for all from outside (taskset, cpusets) holds here too, as of the last call with another core.
    pub fn keep_off(&mut self, core: Option<usize>, like: i32) {
        if core == self.kept_off {
            return;
        }
        self.kept_off = core;
        if is_filtered() {
            return;
        }
        let Ok(mut set) = sched_getaffinity(Pid::from_raw(like)) else {
            return;
        };
        if let Some(core) = core.filter(|core| *core < CpuSet::MAX_CPU) {
            set.unset(core);
        }
        if set.count() > 0 {
            // Refused: it may run where it is not wanted, nothing else.
            let _ = sched_setaffinity(None, &set);
        }
    }
}

#[cfg(all(test, not(miri)))]
mod test {
    extern crate std;

    use super::*;

    #[test]
    fn a_thread_keeps_off_a_core_and_comes_back() {
        let before = sched_getaffinity(None).unwrap();
        let mut affinity = Affinity::default();
        let (done, wait) = std::sync::mpsc::channel::<()>();
        let (tell, told) = std::sync::mpsc::channel();
        let other = std::thread::spawn(move || {
            tell.send(crate::thread::tid()).unwrap();
            let _ = wait.recv();
        });
        let like = told.recv().unwrap();
        affinity.keep_off(Some(current_core()), like);
        let now = sched_getaffinity(None).unwrap();
        assert_eq!(now.count(), before.count().saturating_sub(1).max(1));
        affinity.keep_off(None, like);
        assert!(sched_getaffinity(None).unwrap() == before);
        drop(done);
        other.join().unwrap();
    }
}
