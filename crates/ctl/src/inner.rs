//! Groups inside this one: what each has, by who its launcher is.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::Group;
use crate::layout::{INNER, INNER_WORDS};

/// Process ids are below 2^22, in every namespace.
const PID_BITS: u32 = 22;

/// The launcher of a group inside this one: one word, as both halves have to change together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Launcher(u64);

impl Launcher {
    /// The process of that number where it lives, which began so many clock ticks after the
    /// machine.
    pub fn new(pid: i32, start: u64) -> Self {
        Self(start << PID_BITS | pid as u64)
    }

    /// Its number where it lives.
    pub fn pid(self) -> i32 {
        (self.0 & ((1 << PID_BITS) - 1)) as i32
    }

    /// When it began.
    pub fn start(self) -> u64 {
        self.0 >> PID_BITS
    }
}

/// Words of a group inside: its launcher, what it has, and its first launcher if that was another.
struct Record(&'static [AtomicU64]);

impl Record {
    fn launcher(&self) -> Option<Launcher> {
        // Acquire: what a launcher before this one left has gone (pairs with `forget_inner`).
        let word = self.0[0].load(Ordering::Acquire);
        (word != 0).then_some(Launcher(word))
    }

    fn first(&self) -> Option<Launcher> {
        let launcher = self.launcher()?;
        match self.0[2].load(Ordering::Relaxed) {
            0 => Some(launcher),
            first => Some(Launcher(first)),
        }
    }

    fn bytes(&self) -> u64 {
        self.0[1].load(Ordering::Relaxed)
    }
}

impl Group {
    fn records(&self) -> impl Iterator<Item = Record> + use<> {
        let words = &self.words()[INNER.range()];
        words.chunks_exact(INNER_WORDS).map(Record)
    }

    fn record(&self, launcher: Launcher) -> Option<Record> {
        self.records().find(|record| record.launcher() == Some(launcher))
    }

    /// The group of this launcher has so many bytes.
    pub fn tell_inner(&self, launcher: Launcher, bytes: u64) {
        let is_taken = |record: &Record| {
            let taken = record.0[0].compare_exchange(0, launcher.0, Ordering::AcqRel, Ordering::Relaxed);
            taken.is_ok()
        };
        let record = self.record(launcher).or_else(|| self.records().find(is_taken));
        if let Some(record) = record {
            record.0[1].store(bytes, Ordering::Relaxed);
        }
    }

    /// What was said last of the group of this launcher.
    pub fn inner_charge(&self, launcher: Launcher) -> u64 {
        self.record(launcher).map_or(0, |record| record.bytes())
    }

    /// Another process looks after that group now.
    pub fn rename_inner(&self, launcher: Launcher, now: Launcher) {
        if let Some(record) = self.record(launcher) {
            let first = record.first().unwrap_or(launcher);
            record.0[2].store(first.0, Ordering::Relaxed);
            record.0[0].store(now.0, Ordering::Release);
        }
    }

    /// There is no such group any more.
    pub fn forget_inner(&self, launcher: Launcher) {
        if let Some(record) = self.record(launcher) {
            record.0[1].store(0, Ordering::Relaxed);
            record.0[2].store(0, Ordering::Relaxed);
            // Release: whoever takes it finds zeros (pairs with `Record::launcher`).
            record.0[0].store(0, Ordering::Release);
        }
    }

    /// Launchers of such groups.
    pub fn inner_launchers(&self) -> impl Iterator<Item = Launcher> + use<> {
        self.records().filter_map(|record| record.launcher())
    }

    /// Which group a launcher looks after, by its first launcher.
    pub fn inner_of(&self, launcher: Launcher) -> Option<Launcher> {
        self.record(launcher)?.first()
    }

    /// Whether anybody looks after the group that had this launcher first.
    pub fn has_inner(&self, first: Launcher) -> bool {
        self.records().any(|record| record.first() == Some(first))
    }

    /// What all such groups have.
    pub fn inner(&self) -> u64 {
        self.records().map(|record| record.bytes()).fold(0, u64::saturating_add)
    }
}

#[cfg(test)]
mod test {
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn groups_inside_are_charged_as_long_as_they_are_there() {
        let group = Group::fresh();
        let (seven, eight, nine) = (Launcher::new(7, 70), Launcher::new(8, 80), Launcher::new(9, 90));
        group.tell_inner(seven, 30);
        group.tell_inner(nine, 5);
        group.tell_inner(seven, 20);
        assert_eq!(
            (group.inner(), group.inner_charge(seven), group.current()),
            (25, 20, 25)
        );
        assert_eq!((group.inner_of(nine), group.inner_of(eight)), (Some(nine), None));
        assert_eq!(group.inner_launchers().collect::<Vec<_>>(), [seven, nine]);
        group.rename_inner(seven, eight);
        assert_eq!((group.inner_charge(eight), group.inner_of(eight)), (20, Some(seven)));
        assert!(group.has_inner(seven) && !group.has_inner(eight));
        group.forget_inner(eight);
        assert_eq!((group.inner(), group.inner_charge(eight)), (5, 0));
        assert!(!group.has_inner(seven));
        for launcher in 100..200 {
            group.tell_inner(Launcher::new(launcher, 1), 1);
        }
        assert_eq!(group.inner(), 5 + 15);
    }

    #[test]
    fn an_heir_of_a_launchers_number_is_another() {
        let (most, later) = (
            Launcher::new((1 << 22) - 1, 1 << 40),
            Launcher::new((1 << 22) - 1, 1 << 41),
        );
        assert_eq!((most.pid(), most.start()), ((1 << 22) - 1, 1 << 40));
        assert_ne!(most, later);
    }
}
