//! The words of each process of the group, and what follows of those of all together.

use core::sync::atomic::{AtomicU64, Ordering};

use uzswap_mm::page::PAGE_SIZE;

use crate::Group;
use crate::layout::{Head, PROCESSES, slot, words};

words! {
    /// What is said of each process.
    pub enum Field {
        /// Process id, 0: the slot was never used or was cleared.
        Pid,
        /// Bytes charged to the group.
        Charge,
        /// Bytes mapped.
        Resident,
        /// Bytes staged.
        Staged,
        /// Bytes of the pool.
        Pool,
        /// Pages stored.
        Stored,
        /// Pages stored as they are.
        Incompressible,
        /// Pages on the swap device.
        Swapped,
        /// Bytes of the agent's own memory.
        Agent,
        /// Bytes mapped whose stored copy is kept.
        Cached,
        /// Slots of the swap device charged to the group: those in use and those that are about to
        /// be.
        SwapCharge,
        /// Pages of the pool charged to the group: what a relative has put there is charged to it.
        PoolCharge,
        /// Bytes mapped that are known to be wanted.
        Active,
        /// Bytes that must be free for a fault that waits; 0: none waits.
        Lacks,
        /// When that was said last, nanoseconds of CLOCK_MONOTONIC.
        LackedAt,
        /// Bytes that a process may touch unseen, as nothing of it is under its pager's care.
        Unseen,
        /// Since when the pages that would leave next have been where they are, nanoseconds of
        /// CLOCK_MONOTONIC; 0: there are none.
        Oldest,
        /// When that was said last.
        OldestAt,
        /// The thread that tells all this; says when it has ended (`uzswap_sys::robust`).
        Teller,
        /// What tells those who may share memory from others: a child has its parent's.
        Family,
        /// When a process that shares memory with relatives last began to look at what it shares,
        /// nanoseconds of CLOCK_MONOTONIC; 1: it has not looked; 0: it shares nothing.
        LookedAt,
        /// Up to which of its looks it is charged for what it found.
        RaisedAt,
        /// Bytes charged to relatives that would be charged here if the process wrote to them.
        Copyable,
        /// When somebody first saw that the process is dead and its memory gone, nanoseconds of
        /// CLOCK_MONOTONIC; 0: nobody has.
        DeadAt,
        /// Where the stack of its program begins: another image begins elsewhere; 0: nobody knows.
        Image,
        /// When somebody first saw that the process has no pager any more, nanoseconds of
        /// CLOCK_MONOTONIC; 0: nobody has.
        LingersSince,
        /// Bytes of what the process has found to be its own that relatives are charged for still:
        /// it is not, yet.
        Twice,
        /// When the look began in which it found the first of that, nanoseconds of CLOCK_MONOTONIC.
        TwiceSince,
        /// Up to which of its looks the process has given up what it found to be relatives'.
        SettledAt,
        /// Nanoseconds in which a thread waited for a page.
        Waited,
        /// Bytes of memory more with which it would hardly wait.
        Shortfall,
        /// When its kswapd came by last, nanoseconds of CLOCK_MONOTONIC.
        CameBy,
        /// When the process began, as its `stat` tells it: of those with one number in several
        /// namespaces each has another. 0: nobody knows.
        Start,
        /// When a fork of the process last ended, nanoseconds of CLOCK_MONOTONIC; 0: none has;
        /// [`u64::MAX`]: one is under way.
        ForkedAt,
        /// What another process has it bring ([`Wanted`](crate::Wanted)).
        Wanted,
        /// Process id of the one that does.
        WantedBy,
        /// Process id of one that had this slot and goes on without a pager.
        Left,
    }
}

impl Group {
    /// A process's word, for whoever has to write more to it than a value.
    pub fn word(&self, slot: usize, field: Field) -> &'static AtomicU64 {
        &self.slot(slot)[field as usize]
    }

    /// A process's words.
    fn slot(&self, number: usize) -> &'static [AtomicU64] {
        &self.words()[slot(number)]
    }

    /// A process's word.
    pub fn field(&self, slot: usize, field: Field) -> u64 {
        self.word(slot, field).load(Ordering::Relaxed)
    }

    /// Set a process's word.
    pub fn set_field(&self, slot: usize, field: Field, value: u64) {
        self.word(slot, field).store(value, Ordering::Relaxed);
    }

    /// A process took `slot`.
    pub fn take_slot(&self, slot: usize, pid: i32) {
        self.clear_slot(slot);
        self.set_field(slot, Field::Pid, pid as u64);
        self.raise_word(Head::SlotsUsed, slot as u64 + 1);
    }

    /// Forget a process: its charge is returned.
    pub fn clear_slot(&self, slot: usize) {
        self.slot(slot).iter().for_each(|word| word.store(0, Ordering::Relaxed));
    }

    /// One more than the highest slot ever used.
    pub fn high_water(&self) -> usize {
        (self.get(Head::SlotsUsed) as usize).min(PROCESSES)
    }

    /// Slots that are or were used. They are handed out from the first on, so these end at the
    /// first that never was.
    pub(crate) fn used(&self) -> impl Iterator<Item = usize> {
        (0..self.high_water()).filter(|slot| self.field(*slot, Field::Pid) != 0)
    }

    /// The slot of a process that has or had one: of several, as of a program that has executed
    /// another, the one whose kswapd came by last.
    pub fn slot_of(&self, pid: u64) -> Option<usize> {
        self.used()
            .filter(|slot| self.field(*slot, Field::Pid) == pid)
            .max_by_key(|slot| self.field(*slot, Field::CameBy))
    }

    /// Sum of one field over all processes.
    pub fn sum(&self, field: Field) -> u64 {
        self.used()
            .map(|slot| self.field(slot, field))
            .fold(0, u64::saturating_add)
    }

    /// Bytes that the processes would be charged without a pool and a device, at least: several
    /// pages may be in a slot of the device.
    pub fn needed(&self) -> u64 {
        self.used().map(|slot| self.needed_by(slot)).sum()
    }

    fn needed_by(&self, slot: usize) -> u64 {
        let field = |field| self.field(slot, field);
        let (pool, charged) = (field(Field::Pool), field(Field::PoolCharge) * PAGE_SIZE as u64);
        // The blocks of mapped pages are stored, too.
        let stored = (field(Field::Stored) * PAGE_SIZE as u64).saturating_sub(field(Field::Cached));
        // Of what it has inherited the parent tells.
        let own = (u128::from(stored) * u128::from(charged) / u128::from(pool.max(1))) as u64;
        let swapped = field(Field::SwapCharge) * PAGE_SIZE as u64;
        field(Field::Charge).saturating_sub(charged) + own.min(stored) + swapped
    }

    /// The process in this slot waits, at `now`, until so many bytes are free.
    pub fn lack(&self, slot: usize, bytes: u64, now: u64) {
        self.set_field(slot, Field::LackedAt, now);
        self.set_field(slot, Field::Lacks, bytes);
    }

    /// The most bytes that any process has waited for since `then`.
    pub fn lacked(&self, then: u64) -> u64 {
        let is_late = |slot: &usize| self.field(*slot, Field::LackedAt) >= then;
        self.used()
            .filter(is_late)
            .map(|slot| self.field(slot, Field::Lacks))
            .max()
            .unwrap_or(0)
    }

    /// As [`lacked`](Self::lacked), of those but the process in `slot` that have less than that to
    /// give up.
    pub fn lacked_by_helpless(&self, slot: usize, then: u64) -> u64 {
        self.used()
            .filter(|other| *other != slot && self.field(*other, Field::LackedAt) >= then)
            .map(|other| (other, self.field(other, Field::Lacks)))
            .filter(|(other, lacks)| !self.has_to_give(*other, *lacks))
            .map(|(_, lacks)| lacks)
            .max()
            .unwrap_or(0)
    }

    /// Whether the process in this slot has `bytes` that may leave.
    pub fn has_to_give(&self, slot: usize, bytes: u64) -> bool {
        let resident = self.field(slot, Field::Resident);
        resident.saturating_add(self.field(slot, Field::Staged)) >= bytes
    }

    /// The pages of the process in this slot that would leave next are so old, at `now`.
    pub fn set_oldest(&self, slot: usize, oldest: u64, now: u64) {
        self.set_field(slot, Field::Oldest, oldest);
        self.set_field(slot, Field::OldestAt, now);
    }

    /// The oldest that any process but the one in `slot` has said since `then`.
    pub fn oldest_of_others(&self, slot: usize, then: u64) -> Option<u64> {
        self.used()
            .filter(|other| *other != slot && self.field(*other, Field::OldestAt) >= then)
            .map(|other| self.field(other, Field::Oldest))
            .filter(|oldest| *oldest != 0)
            .min()
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn who_no_longer_says_that_it_waits_is_not_waited_for() {
        let group = Group::fresh();
        (0..3).for_each(|slot| group.take_slot(slot, 100 + slot as i32));
        assert_eq!(group.lacked(0), 0);
        group.lack(0, 9 << 20, 10);
        group.lack(2, 1 << 20, 20);
        assert_eq!(
            (group.lacked(5), group.lacked(15), group.lacked(25)),
            (9 << 20, 1 << 20, 0)
        );
        group.lack(0, 0, 30);
        assert_eq!(group.lacked(5), 1 << 20);
    }

    #[test]
    fn who_has_less_than_it_waits_for_is_helpless() {
        let group = Group::fresh();
        (0..4).for_each(|slot| group.take_slot(slot, 100 + slot as i32));
        group.lack(0, 2 << 20, 20);
        group.set_field(0, Field::Resident, 1 << 20);
        group.lack(1, 8 << 20, 20);
        group.set_field(1, Field::Resident, 7 << 20);
        group.set_field(1, Field::Staged, 1 << 20);
        group.lack(2, 3 << 20, 10);
        // Not what waits itself, what has enough, or what no longer waits.
        let lacked = |slot, then| group.lacked_by_helpless(slot, then);
        assert_eq!((lacked(3, 5), lacked(2, 5), lacked(3, 15)), (3 << 20, 2 << 20, 2 << 20));
        group.set_field(1, Field::Staged, 0);
        assert_eq!((lacked(3, 5), lacked(3, 25)), (8 << 20, 0));
    }

    #[test]
    fn what_is_inherited_is_needed_once() {
        const PAGE: u64 = PAGE_SIZE as u64;
        let group = Group::fresh();
        (0..2).for_each(|slot| group.take_slot(slot, 100 + slot as i32));
        let parent = [(Field::Charge, 50 * PAGE), (Field::PoolCharge, 20)];
        let child = [(Field::Charge, 10 * PAGE), (Field::PoolCharge, 2)];
        for (slot, charges) in [parent, child].into_iter().enumerate() {
            charges
                .into_iter()
                .for_each(|(field, value)| group.set_field(slot, field, value));
            group.set_field(slot, Field::Stored, 60);
            group.set_field(slot, Field::Pool, 20 * PAGE);
        }
        group.set_field(0, Field::SwapCharge, 5);
        assert_eq!(group.needed(), (30 + 60 + 5 + 8 + 6) * PAGE);
    }

    #[test]
    fn the_oldest_pages_are_those_of_processes_that_say_so_still() {
        let group = Group::fresh();
        (0..4).for_each(|slot| group.take_slot(slot, 100 + slot as i32));
        group.set_oldest(0, 3, 50);
        group.set_oldest(1, 5, 100);
        group.set_oldest(2, 0, 100);
        group.set_oldest(3, 9, 100);
        assert_eq!(
            (group.oldest_of_others(3, 40), group.oldest_of_others(3, 60)),
            (Some(3), Some(5))
        );
        assert_eq!(
            (group.oldest_of_others(1, 60), group.oldest_of_others(3, 101)),
            (Some(9), None)
        );
    }
}
