//! What a forked child shares with its parent is charged once, whoever of the two looks first.
//!
//! The parent is charged for all of it, until the child has looked; then both are charged for the child's share, which counts once; and when the
//! parent heeds that, each for its own.

use crate::{Field, Group};

impl Group {
    /// What the child in `slot` shares with its parent is charged to that, until a time at most.
    pub fn charge_to(&self, slot: usize, parent: usize, until: u64) {
        self.set_field(slot, Field::ChargedToUntil, until);
        self.set_field(slot, Field::ChargedTo, parent as u64 + 1);
    }

    /// The child in `slot` is charged for its share from now on. Until its parent heeds it ([`settle_children`](Self::settle_children)) that is
    /// charged too, and it does not count twice.
    pub fn charge_share(&self, slot: usize, bytes: u64, now: u64) {
        if now >= self.field(slot, Field::ChargedToUntil) {
            self.set_field(slot, Field::ChargedTo, 0);
        }
        self.set_field(slot, Field::ChargedTwice, bytes);
    }

    /// Whether the process in `slot` is charged for what a child of it shares.
    pub fn is_charged_for_child(&self, slot: usize) -> bool {
        self.children(slot).next().is_some()
    }

    /// Whether one of them has not looked, and is not late.
    pub fn awaits_children(&self, slot: usize, now: u64) -> bool {
        self.children(slot)
            .any(|child| self.field(child, Field::ChargedTwice) == 0 && now < self.field(child, Field::ChargedToUntil))
    }

    /// The process in `slot` is charged for its own share alone now, or has died: all that its children are charged counts.
    pub fn settle_children(&self, slot: usize) {
        self.children(slot)
            .for_each(|child| self.set_field(child, Field::ChargedTo, 0));
    }

    /// Slots of those whose share is charged to the process in `slot`.
    fn children(&self, slot: usize) -> impl Iterator<Item = usize> {
        let parent = slot as u64 + 1;
        (0..self.high_water()).filter(move |child| self.field(*child, Field::ChargedTo) == parent)
    }

    /// Bytes that the process in `slot` is charged and its parent as well.
    pub(crate) fn charged_twice(&self, slot: usize) -> u64 {
        match self.field(slot, Field::ChargedTo) {
            0 => 0,
            _ => self.field(slot, Field::ChargedTwice),
        }
    }
}

#[cfg(test)]
mod test {
    use alloc::boxed::Box;
    use alloc::vec::Vec;
    use core::sync::atomic::AtomicU64;

    use super::*;
    use crate::WORDS;

    #[test]
    fn what_a_child_shares_is_charged_once() {
        let words: Vec<AtomicU64> = (0..WORDS).map(|_| AtomicU64::new(0)).collect();
        let group = Group::create(Box::leak(words.into_boxed_slice()));
        (0..3).for_each(|slot| group.take_slot(slot, 100 + slot as i32));
        group.set_field(0, Field::Charge, 10);
        group.charge_to(2, 0, 50);
        assert!(group.is_charged_for_child(0) && !group.is_charged_for_child(1));
        assert!(group.awaits_children(0, 40));
        // The child has looked, and half is its own.
        group.set_field(2, Field::Charge, 5);
        group.charge_share(2, 5, 40);
        assert_eq!(group.current(), 10);
        assert!(!group.awaits_children(0, 40));
        group.settle_children(0);
        assert!(!group.is_charged_for_child(0));
        group.set_field(0, Field::Charge, 5);
        assert_eq!(group.current(), 10);
        // Its parent does nothing.
        group.charge_to(2, 0, 50);
        group.charge_share(2, 5, 49);
        assert_eq!(group.current(), 5);
        group.charge_share(2, 5, 50);
        assert_eq!(group.current(), 10);
        // It has died, and another process has its slot.
        group.charge_to(2, 0, 50);
        group.charge_share(2, 5, 40);
        group.take_slot(0, 103);
        assert_eq!(group.current(), 5);
        // Nor does the child.
        group.charge_to(2, 0, 60);
        group.set_field(2, Field::ChargedTwice, 0);
        assert!(group.awaits_children(0, 59) && !group.awaits_children(0, 60));
    }
}
