//! Groups inside this one: what each has, by the number of its launcher.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::Group;

const FIRST: usize = 104;
const WORDS: usize = 2;
/// More at a time are charged as what has no agent.
const GROUPS: usize = 16;

impl Group {
    fn records(&self) -> impl Iterator<Item = &'static [AtomicU64]> + use<> {
        self.0[FIRST..FIRST + WORDS * GROUPS].chunks_exact(WORDS)
    }

    fn record(&self, launcher: i32) -> Option<&'static [AtomicU64]> {
        self.records()
            .find(|record| record[0].load(Ordering::Relaxed) == launcher as u64)
    }

    /// The group of this launcher has so many bytes.
    pub fn tell_inner(&self, launcher: i32, bytes: u64) {
        let is_taken = |record: &&[AtomicU64]| {
            let taken = record[0].compare_exchange(0, launcher as u64, Ordering::Relaxed, Ordering::Relaxed);
            taken.is_ok()
        };
        let record = self.record(launcher).or_else(|| self.records().find(is_taken));
        if let Some(record) = record {
            record[1].store(bytes, Ordering::Relaxed);
        }
    }

    /// What was said last of the group of this launcher.
    pub fn inner_charge(&self, launcher: i32) -> u64 {
        self.record(launcher)
            .map_or(0, |record| record[1].load(Ordering::Relaxed))
    }

    /// Another process looks after that group now.
    pub fn rename_inner(&self, launcher: i32, now: i32) {
        if let Some(record) = self.record(launcher) {
            record[0].store(now as u64, Ordering::Relaxed);
        }
    }

    /// There is no such group any more.
    pub fn forget_inner(&self, launcher: i32) {
        if let Some(record) = self.record(launcher) {
            record[1].store(0, Ordering::Relaxed);
            record[0].store(0, Ordering::Relaxed);
        }
    }

    /// Whether a process is the launcher of such a group.
    pub fn is_inner_launcher(&self, pid: i32) -> bool {
        pid != 0 && self.record(pid).is_some()
    }

    /// Launchers of such groups.
    pub fn inner_launchers(&self) -> impl Iterator<Item = i32> + use<> {
        let pids = self.records().map(|record| record[0].load(Ordering::Relaxed) as i32);
        pids.filter(|pid| *pid != 0)
    }

    /// What all such groups have.
    pub fn inner(&self) -> u64 {
        let bytes = self.records().map(|record| record[1].load(Ordering::Relaxed));
        bytes.fold(0, u64::saturating_add)
    }
}

#[cfg(test)]
mod test {
    use alloc::boxed::Box;
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn groups_inside_are_charged_as_long_as_they_are_there() {
        let words: Vec<AtomicU64> = (0..crate::WORDS).map(|_| AtomicU64::new(0)).collect();
        let group = Group::create(Box::leak(words.into_boxed_slice()));
        group.tell_inner(7, 30);
        group.tell_inner(9, 5);
        group.tell_inner(7, 20);
        assert_eq!((group.inner(), group.inner_charge(7), group.current()), (25, 20, 25));
        assert!(group.is_inner_launcher(9) && !group.is_inner_launcher(8) && !group.is_inner_launcher(0));
        assert_eq!(group.inner_launchers().collect::<Vec<_>>(), [7, 9]);
        group.rename_inner(7, 8);
        assert_eq!(group.inner_charge(8), 20);
        group.forget_inner(8);
        assert_eq!((group.inner(), group.inner_charge(7)), (5, 0));
        for launcher in 100..200 {
            group.tell_inner(launcher, 1);
        }
        assert_eq!(group.inner(), 5 + 15);
    }
}
