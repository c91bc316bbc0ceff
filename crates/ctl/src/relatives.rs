//! What relatives share is charged once, whoever of them looks first.
//!
//! Each process learns its part of what it shares by a look of its own, at its own time. What a
//! look changes counts when all relatives have looked: who found more of it his own takes it first,
//! then the others give theirs up. What both are to be charged for meanwhile is left out of the
//! taker's charge ([`Field::Twice`]). So the charges of all are what they were, and so is their
//! sum: a new child's part is its parent's, a dead one's stays.
//!
//! Of what a look finds to be relatives' a child has a part that was forked since, and takes it
//! later. So who gives up something learns how much of it nobody has taken, and whether somebody
//! has forked since the look.

use core::sync::atomic::Ordering;

use crate::group::take;
use crate::{Field, Group};

/// Of [`Field::LookedAt`]: it shares, and has not looked.
const NEVER: u64 = 1;
/// Who has not looked, or not had charged what it found, for so long is not waited for: it was
/// stopped, as a rule. Nanoseconds.
const LATE_NS: u64 = 1_000_000_000;

impl Group {
    /// The process in `slot` shares memory with relatives from now on.
    pub fn begin_sharing(&self, slot: usize) {
        self.word(slot, Field::LookedAt).fetch_max(NEVER, Ordering::AcqRel);
    }

    /// The process in `slot` was forked by the one in `parent`, which waits for it, at `now`: there
    /// is nothing that it found before.
    pub fn adopt_child(&self, slot: usize, parent: usize, now: u64) {
        self.set_field(slot, Field::Family, self.field(parent, Field::Family));
        // The same program, until it runs another.
        self.set_field(slot, Field::Image, self.field(parent, Field::Image));
        self.note_charged(slot, now);
        self.note_settled(slot, now);
        self.begin_sharing(slot);
        // Before it says so itself: we may look before it does.
        self.begin_sharing(parent);
    }

    /// The process in `slot` is about to fork.
    pub fn begin_fork(&self, slot: usize) {
        self.set_field(slot, Field::ForkedAt, u64::MAX);
    }

    /// It has, at `now`, and the child is adopted; or there is none.
    pub fn end_fork(&self, slot: usize, now: u64) {
        self.set_field(slot, Field::ForkedAt, now);
    }

    /// Whether the process in `slot` or a living relative was forking at any moment from `since`
    /// on.
    pub fn has_forked(&self, slot: usize, since: u64) -> bool {
        let relatives = self.most_of_relatives(slot, Field::ForkedAt);
        self.field(slot, Field::ForkedAt).max(relatives) >= since.max(1)
    }

    /// Those who share memory with relatives.
    fn sharers(&self) -> impl Iterator<Item = usize> {
        (0..self.high_water()).filter(|slot| self.field(*slot, Field::LookedAt) != 0)
    }

    /// How many share memory with relatives.
    pub fn sharers_count(&self) -> usize {
        self.sharers().count()
    }

    /// Bytes that they are charged.
    pub fn sharing(&self) -> u64 {
        self.sharers().map(|slot| self.field(slot, Field::Charge)).sum()
    }

    /// The process in `slot` shares nothing: no relative gives up anything to it.
    pub fn end_sharing(&self, slot: usize) {
        self.charge_twice(slot, u64::MAX);
        self.set_field(slot, Field::LookedAt, 0);
    }

    /// The process in `slot` has looked, from `began` on. `is_charged`: for no less than it found.
    pub fn note_look(&self, slot: usize, began: u64, is_charged: bool) {
        self.set_field(slot, Field::LookedAt, began);
        if is_charged {
            self.note_charged(slot, began);
        }
    }

    /// The process in `slot` is charged for what it found in looks that began up to then.
    pub fn note_charged(&self, slot: usize, began: u64) {
        self.set_field(slot, Field::RaisedAt, began);
    }

    /// Whether all relatives of the process in `slot` have looked since `then`, or are late.
    pub fn have_looked(&self, slot: usize, then: u64, now: u64) -> bool {
        let has_looked = |other| self.field(other, Field::LookedAt) >= then;
        is_late(then, now) || self.relatives(slot).all(has_looked)
    }

    /// Whether they have had charged what they found since `then`, or are late.
    pub fn have_charged(&self, slot: usize, then: u64, now: u64) -> bool {
        let is_charged = |other| self.field(other, Field::RaisedAt) >= then;
        is_late(then, now) || self.relatives(slot).all(is_charged)
    }

    /// The process in `slot` was found dead at `now`. To be called with the lease on that slot.
    pub fn note_death(&self, slot: usize, now: u64) {
        self.set_field(slot, Field::DeadAt, now);
    }

    /// Whether a relative of the process in `slot` has been found dead since `then`, and was not
    /// charged for what it would have found.
    pub fn has_died_uncharged(&self, slot: usize, then: u64) -> bool {
        let died = |other| self.field(other, Field::DeadAt) >= then.max(1);
        let is_charged = |other| self.field(other, Field::RaisedAt) >= then;
        (0..self.high_water()).any(|other| self.is_relative(slot, other) && died(other) && !is_charged(other))
    }

    /// Whether all relatives of the dead process in `slot` are charged for what they inherited.
    pub fn is_inherited(&self, slot: usize, now: u64) -> bool {
        let died = self.field(slot, Field::DeadAt);
        self.field(slot, Field::LookedAt) == 0 || self.have_charged(slot, died, now)
    }

    /// The process in `slot` is about to take so many bytes, which it found to be its own in a look
    /// that began at `began`. Of those its relatives are charged for, it is charged when they have
    /// given them up. Returns for how much of it the dead among them are charged, to be passed to
    /// [`take_from_the_dead`](Self::take_from_the_dead).
    pub fn begin_to_take(&self, slot: usize, bytes: u64, began: u64) -> u64 {
        let of_dead = self.dead_relatives(slot).map(|dead| self.field(dead, Field::Charge));
        let inherited = bytes.min(of_dead.sum());
        if bytes > inherited && !self.have_settled(slot, began) {
            let since = self.word(slot, Field::TwiceSince);
            if self.field(slot, Field::Twice) == 0 {
                since.store(began, Ordering::Relaxed);
            }
            // Release: who sees that there is something sees since when (pairs with `end_twice`).
            self.word(slot, Field::Twice)
                .fetch_add(bytes - inherited, Ordering::Release);
        }
        inherited
    }

    /// The process in `slot` is charged so many bytes more, which it inherited: the dead among its
    /// relatives less.
    pub fn take_from_the_dead(&self, slot: usize, mut bytes: u64) {
        for dead in self.dead_relatives(slot) {
            bytes -= take(self.word(dead, Field::Charge), bytes);
        }
    }

    /// The process in `slot` is about to be charged so many bytes less, which are relatives': those
    /// who have found that are charged for it. Returns how much of it nobody has taken.
    pub fn give_up(&self, slot: usize, mut bytes: u64) -> u64 {
        for other in self.relatives(slot) {
            bytes -= self.charge_twice(other, bytes);
        }
        bytes
    }

    /// The process in `slot` has given up what it found to be relatives' in looks that began up to
    /// then.
    pub fn note_settled(&self, slot: usize, began: u64) {
        self.set_field(slot, Field::SettledAt, began);
    }

    /// Who has taken something that no relative gives up any more, or none in time, is charged for
    /// it.
    pub fn end_twice(&self, now: u64) {
        for slot in self.used() {
            if self.word(slot, Field::Twice).load(Ordering::Acquire) == 0 {
                continue;
            }
            let since = self.field(slot, Field::TwiceSince);
            if is_late(since, now) || self.have_settled(slot, since) {
                self.charge_twice(slot, u64::MAX);
            }
        }
    }

    /// Whether no relative of the process in `slot` gives up what was found before `then`.
    fn have_settled(&self, slot: usize, then: u64) -> bool {
        self.relatives(slot)
            .all(|other| self.field(other, Field::SettledAt) >= then)
    }

    /// Have the process in `slot` be charged for at most so many of the bytes that it was not.
    fn charge_twice(&self, slot: usize, most: u64) -> u64 {
        let taken = take(self.word(slot, Field::Twice), most);
        // It tells its charge anew all the time, unless it is stopped.
        self.word(slot, Field::Charge).fetch_add(taken, Ordering::AcqRel);
        taken
    }

    /// The most that the word says of any other living process that shares memory with the one in
    /// `slot`.
    pub fn most_of_relatives(&self, slot: usize, field: Field) -> u64 {
        let words = self.relatives(slot).map(|other| self.field(other, field));
        words.max().unwrap_or(0)
    }

    /// Whether any other that is not found dead, and `is` so, may share memory with the process in
    /// `slot`.
    pub fn has_relative(&self, slot: usize, is: impl FnMut(usize) -> bool) -> bool {
        self.relatives(slot).any(is)
    }

    /// How many others that live may share memory with the process in `slot`.
    pub fn relatives_count(&self, slot: usize) -> usize {
        self.relatives(slot).count()
    }

    /// Bytes that others are charged who share memory with the process in `slot`, or did.
    pub fn relatives_charge(&self, slot: usize) -> u64 {
        let relatives = (0..self.high_water()).filter(|other| self.is_relative(slot, *other));
        relatives.map(|other| self.field(other, Field::Charge)).sum()
    }

    /// Whether all who shared memory with the process in `slot` are dead, and one of them is
    /// charged still.
    pub fn are_relatives_dead(&self, slot: usize) -> bool {
        self.relatives(slot).next().is_none() && self.dead_relatives(slot).next().is_some()
    }

    fn is_relative(&self, slot: usize, other: usize) -> bool {
        other != slot
            && self.field(other, Field::Pid) != 0
            && self.field(other, Field::LookedAt) != 0
            && self.field(other, Field::Family) == self.field(slot, Field::Family)
    }

    /// Slots of those who are dead and shared memory with the process in `slot`.
    fn dead_relatives(&self, slot: usize) -> impl Iterator<Item = usize> {
        (0..self.high_water())
            .filter(move |other| self.is_relative(slot, *other) && self.field(*other, Field::DeadAt) != 0)
    }

    /// Slots of those who live and may share memory with the process in `slot`.
    fn relatives(&self, slot: usize) -> impl Iterator<Item = usize> {
        (0..self.high_water())
            .filter(move |other| self.is_relative(slot, *other) && self.field(*other, Field::DeadAt) == 0)
    }
}

fn is_late(then: u64, now: u64) -> bool {
    now.saturating_sub(then) > LATE_NS
}

#[cfg(test)]
mod test {
    use super::*;

    fn family(members: usize) -> Group {
        let group = Group::fresh();
        (0..=members).for_each(|slot| group.take_slot(slot, 100 + slot as i32));
        // The last is a stranger.
        (0..=members).for_each(|slot| group.set_field(slot, Field::Family, slot as u64 / members as u64));
        (1..members).for_each(|child| group.adopt_child(child, 0, 0));
        group.begin_sharing(members);
        group
    }

    #[test]
    fn what_those_are_charged_who_share_is_known() {
        let group = Group::fresh();
        (0..3).for_each(|slot| group.take_slot(slot, 101));
        group.begin_sharing(1);
        group.begin_sharing(2);
        assert_eq!(group.sharing(), 0);
        (0..3).for_each(|slot| group.set_field(slot, Field::Charge, 1 << slot));
        assert_eq!(group.sharing(), 6);
        group.end_sharing(1);
        assert_eq!(group.sharing(), 4);
    }

    #[test]
    fn what_a_look_finds_counts_when_all_relatives_have_looked() {
        let group = family(3);
        group.note_look(2, 4, true);
        group.note_look(0, 10, true);
        group.note_look(1, 11, false);
        // The second child has not, since it was found that there is less to share.
        assert!(!group.have_looked(1, 5, 20) && !group.have_charged(0, 10, 20));
        group.note_look(2, 12, false);
        assert!(group.have_looked(1, 5, 20) && group.have_looked(2, 5, 20));
        // Who gives something up waits for those who take it.
        assert!(!group.have_charged(0, 10, 20));
        group.note_charged(1, 11);
        assert!(!group.have_charged(0, 10, 20));
        group.note_charged(2, 12);
        assert!(group.have_charged(0, 10, 20));
        // A new child has found nothing when it is born.
        group.take_slot(3, 104);
        group.adopt_child(3, 0, 15);
        assert!(group.have_charged(0, 11, 20) && !group.have_charged(0, 16, 20));
    }

    #[test]
    fn a_fork_is_seen_until_the_child_is_known() {
        let group = family(3);
        assert!(!group.has_forked(1, 0));
        group.begin_fork(0);
        assert!(group.has_forked(0, 10) && group.has_forked(1, 10) && group.has_forked(2, u64::MAX));
        // Not a stranger's.
        assert!(!group.has_forked(3, 10));
        group.end_fork(0, 15);
        assert!(group.has_forked(1, 10) && group.has_forked(1, 15) && !group.has_forked(1, 16));
        // Whoever dies as it forks has no child that is adopted.
        group.begin_fork(0);
        group.note_death(0, 17);
        assert!(!group.has_forked(1, 16));
    }

    #[test]
    fn who_is_late_is_not_waited_for() {
        let group = family(2);
        group.note_look(1, 5, true);
        assert!(!group.have_looked(0, 10, 10 + LATE_NS) && group.have_looked(0, 10, 11 + LATE_NS));
        assert!(!group.have_charged(0, 10, 10 + LATE_NS) && group.have_charged(0, 10, 11 + LATE_NS));
    }

    #[test]
    fn what_the_dead_were_charged_is_kept_until_all_heirs_are_charged_for_it() {
        let group = family(3);
        group.set_field(0, Field::Charge, 12);
        group.note_death(0, 60);
        let has_died = |slot, then| group.has_died_uncharged(slot, then);
        assert!(has_died(1, 60) && !has_died(1, 61) && !has_died(3, 60));
        group.note_charged(0, 50);
        assert!(has_died(1, 60) && !has_died(1, 50));
        assert!(!group.is_inherited(0, 70));
        group.note_look(1, 65, false);
        group.note_charged(1, 65);
        group.take_from_the_dead(1, 5);
        assert_eq!(group.field(0, Field::Charge), 7);
        assert!(!group.is_inherited(0, 70) && group.is_inherited(0, 61 + LATE_NS));
        assert_eq!((group.relatives_charge(1), group.relatives_charge(3)), (7, 0));
        // The other heir dies as well.
        assert!(!group.are_relatives_dead(1));
        group.note_death(2, 66);
        assert!(group.are_relatives_dead(1) && !group.are_relatives_dead(3));
        assert!(group.is_inherited(0, 70) && !group.is_inherited(2, 70));
        group.note_look(1, 71, true);
        assert!(group.is_inherited(2, 72));
        group.take_from_the_dead(1, 50);
        assert_eq!(group.field(0, Field::Charge), 0);
    }

    #[test]
    fn what_relatives_have_not_given_up_yet_is_charged_once() {
        let group = family(3);
        let charges = |slot| group.field(slot, Field::Charge);
        group.set_field(0, Field::Charge, 30);
        // A process publishes its charge after it has said what of it is charged twice.
        let publish = |slot, found: u64| group.set_field(slot, Field::Charge, found - group.field(slot, Field::Twice));
        assert_eq!(group.begin_to_take(1, 10, 5), 0);
        publish(1, 10);
        assert_eq!(group.begin_to_take(2, 10, 6), 0);
        publish(2, 10);
        assert_eq!(group.current(), 30);
        assert_eq!(group.give_up(0, 12), 0);
        publish(0, 18);
        assert_eq!((charges(1), charges(2), group.current()), (10, 2, 30));
        // Nobody gives up more, when all have said so of a look since.
        group.note_settled(0, 6);
        group.end_twice(20);
        assert_eq!(charges(2), 2);
        group.note_settled(1, 6);
        group.end_twice(20);
        assert_eq!((charges(2), group.field(2, Field::Twice)), (10, 0));
        assert_eq!(group.give_up(0, 7), 7);
        // Nor is anybody waited for who is late; and where all have settled there is nothing.
        assert_eq!(group.begin_to_take(1, 5, 30), 0);
        group.end_twice(30 + LATE_NS);
        assert_eq!(charges(1), 10);
        group.end_twice(31 + LATE_NS);
        assert_eq!(charges(1), 15);
        assert_eq!((group.begin_to_take(2, 5, 6), group.field(2, Field::Twice)), (0, 0));
        // What the dead were charged is taken at once.
        group.note_death(0, 40);
        assert_eq!((group.begin_to_take(2, 20, 50), group.field(2, Field::Twice)), (18, 2));
    }

    #[test]
    fn who_shares_nothing_inherits_nothing() {
        let group = family(2);
        group.set_field(0, Field::Charge, 12);
        group.note_death(0, 60);
        group.end_sharing(1);
        assert!(group.is_inherited(0, 60));
        group.end_sharing(0);
        group.begin_sharing(1);
        assert!(group.is_inherited(0, 60));
        group.take_from_the_dead(1, 12);
        assert_eq!(group.field(0, Field::Charge), 12);
    }
}
