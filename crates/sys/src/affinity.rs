//! On which cores a thread of ours runs.

use linux_raw_sys::general as raw;
use rustix::io::Result;
use rustix::thread::{CpuSet, Pid, sched_getaffinity, sched_getcpu, sched_setaffinity};

use crate::thread::{is_filtered, syscall};
use crate::vdso;

/// The core that the calling thread runs on, at this moment.
pub fn current_core() -> usize {
    if !vdso::is_left_out() {
        return sched_getcpu();
    }
    let mut core = 0u32;
    // SAFETY: the kernel writes the number of a core, and of no node.
    let _ = unsafe { syscall(raw::__NR_getcpu as usize, [(&raw mut core) as usize, 0, 0, 0, 0, 0]) };
    core as usize
}

/// Of the cores that a thread may use, those where it is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// All of them.
    Anywhere,
    /// All but this one, if there is another.
    Off(usize),
    /// This one.
    On(usize),
}

/// Where one thread, which calls this, may run.
pub struct Affinity {
    /// `None`: not known.
    place: Option<Place>,
    /// Not asked for again until it has taken another.
    refused: Option<Place>,
}

impl Default for Affinity {
    fn default() -> Self {
        Self {
            place: Some(Place::Anywhere),
            refused: None,
        }
    }
}

impl Affinity {
    /// This thread was [`put`] somewhere.
    pub fn lose(&mut self) {
        self.place = None;
    }

    /// Run at `place`, of where thread `like` may. That thread has no place of its own, so what is
    /// set for all from outside (taskset, cpusets) holds here too, as of the last call with another
    /// place. False: that is not allowed, and this thread stays where it was.
    pub fn take(&mut self, place: Place, like: i32) -> bool {
        if self.place == Some(place) || self.refused == Some(place) {
            return self.place == Some(place);
        }
        let is_taken = !is_filtered() && place_of(like, place).is_ok_and(|set| set_if_any(None, &set));
        if is_taken {
            self.place = Some(place);
        }
        self.refused = (!is_taken).then_some(place);
        is_taken
    }
}

/// Have another thread run at `place`, of where thread `like` may, whatever place it took; at once,
/// if it is not there and would run.
pub fn put(thread: i32, place: Place, like: i32) {
    if is_filtered() {
        return;
    }
    if let Ok(set) = place_of(like, place) {
        set_if_any(Pid::from_raw(thread), &set);
    }
}

fn place_of(like: i32, place: Place) -> Result<CpuSet> {
    let mut set = sched_getaffinity(Pid::from_raw(like))?;
    match place {
        Place::Anywhere => {}
        Place::Off(core) if core < CpuSet::MAX_CPU => set.unset(core),
        Place::Off(_) => {}
        Place::On(core) => {
            let may = core < CpuSet::MAX_CPU && set.is_set(core);
            set.clear();
            if may {
                set.set(core);
            }
        }
    }
    Ok(set)
}

fn set_if_any(thread: Option<Pid>, set: &CpuSet) -> bool {
    set.count() > 0 && sched_setaffinity(thread, set).is_ok()
}

#[cfg(all(test, not(miri)))]
mod test {
    extern crate std;

    use super::*;

    /// With the id of a thread that has no place of its own.
    fn beside(f: impl FnOnce(i32)) {
        let (done, wait) = std::sync::mpsc::channel::<()>();
        let (tell, told) = std::sync::mpsc::channel();
        let other = std::thread::spawn(move || {
            tell.send(crate::thread::tid()).unwrap();
            let _ = wait.recv();
        });
        f(told.recv().unwrap());
        drop(done);
        other.join().unwrap();
    }

    #[test]
    fn a_thread_keeps_off_a_core_and_comes_back() {
        let before = sched_getaffinity(None).unwrap();
        let mut affinity = Affinity::default();
        beside(|like| {
            affinity.take(Place::Off(current_core()), like);
            let now = sched_getaffinity(None).unwrap();
            assert_eq!(now.count(), before.count().saturating_sub(1).max(1));
            affinity.take(Place::Anywhere, like);
            assert!(sched_getaffinity(None).unwrap() == before);
        });
    }

    #[test]
    fn a_thread_goes_to_a_core_that_it_may_use_and_is_put_back() {
        let before = sched_getaffinity(None).unwrap();
        let mut affinity = Affinity::default();
        beside(|like| {
            let core = current_core();
            assert!(affinity.take(Place::On(core), like));
            let now = sched_getaffinity(None).unwrap();
            assert!(now.count() == 1 && now.is_set(core));
            assert!(!affinity.take(Place::On(CpuSet::MAX_CPU - 1), like));
            assert!(sched_getaffinity(None).unwrap() == now);
            put(crate::thread::tid(), Place::Anywhere, like);
            assert!(sched_getaffinity(None).unwrap() == before);
        });
    }
}
