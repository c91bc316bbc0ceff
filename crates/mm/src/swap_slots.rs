//! Slots of the swap device. A slot is taken when a page is written back, not before, and freed when it is loaded.
//!
//! After a fork the child reads the slots that its copy of the swap table names, so the parent must not write to them
//! while the child lives: [`SwapSlots::pin_all`] sets those in use aside, [`SwapSlots::unpin`] returns them.

use alloc::vec::Vec;

/// A fork that still needs the slots that were in use when it happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PinId(u64);

struct Pin {
    id: PinId,
    /// A bit for each slot that was in use.
    slots: Vec<u64>,
}

/// The allocator: one bit a slot.
pub struct SwapSlots {
    used: Vec<u64>,
    /// In use by us or by a pin. `used` implies `taken`.
    taken: Vec<u64>,
    pins: Vec<Pin>,
    next_pin: u64,
    max: u64,
    hand: u64,
    in_use: u64,
}

fn bit(bits: &[u64], slot: u64) -> bool {
    bits.get((slot / 64) as usize)
        .is_some_and(|word| word & 1 << (slot % 64) != 0)
}

impl SwapSlots {
    /// A device of at most `max` slots, which takes space as they are written.
    pub fn new(max: u64) -> Self {
        let max = max.min(u64::from(u32::MAX));
        Self {
            used: Vec::new(),
            taken: Vec::new(),
            pins: Vec::new(),
            next_pin: 0,
            max,
            hand: 0,
            in_use: 0,
        }
    }

    /// Slots that hold a page of ours.
    pub fn in_use(&self) -> u64 {
        self.in_use
    }

    /// Whether there is a swap device at all.
    pub fn is_present(&self) -> bool {
        self.max > 0
    }

    /// Take up to `want` consecutive slots: the first and how many. `None`: the device is full.
    pub fn alloc(&mut self, want: u32) -> Option<(u32, u32)> {
        let start = self.find_free()?;
        let mut len = 0;
        while len < u64::from(want) && start + len < self.max && !bit(&self.taken, start + len) {
            self.set(start + len);
            len += 1;
        }
        self.hand = start + len;
        self.in_use += len;
        Some((start as u32, len as u32))
    }

    fn find_free(&self) -> Option<u64> {
        let end = self.taken.len() as u64 * 64;
        let from = |mut slot: u64, end: u64| {
            while slot < end {
                let word = self.taken[(slot / 64) as usize] | ((1 << (slot % 64)) - 1);
                if word != u64::MAX {
                    let free = slot / 64 * 64 + u64::from(word.trailing_ones());
                    return (free < end && free < self.max).then_some(free);
                }
                slot = (slot / 64 + 1) * 64;
            }
            None
        };
        // Next fit keeps writes sequential; then from the start; then beyond what was ever used.
        from(self.hand.min(end), end)
            .or_else(|| from(0, self.hand.min(end)))
            .or((end < self.max).then_some(end))
    }

    fn set(&mut self, slot: u64) {
        let word = (slot / 64) as usize;
        if word >= self.taken.len() {
            self.taken.resize(word + 1, 0);
            self.used.resize(word + 1, 0);
        }
        self.taken[word] |= 1 << (slot % 64);
        self.used[word] |= 1 << (slot % 64);
    }

    /// A page of ours left its slot.
    pub fn free(&mut self, slot: u32) {
        let (slot, word) = (u64::from(slot), slot as usize / 64);
        assert!(bit(&self.used, slot), "freeing a swap slot that is not in use");
        self.used[word] &= !(1 << (slot % 64));
        self.in_use -= 1;
        if !self.pins.iter().any(|pin| bit(&pin.slots, slot)) {
            self.taken[word] &= !(1 << (slot % 64));
        }
    }

    /// Keep every slot in use now from being written until [`unpin`](Self::unpin).
    pub fn pin_all(&mut self) -> PinId {
        self.next_pin += 1;
        let id = PinId(self.next_pin);
        self.pins.push(Pin {
            id,
            slots: self.used.clone(),
        });
        id
    }

    /// The child of that pin is gone.
    pub fn unpin(&mut self, id: PinId) {
        self.pins.retain(|pin| pin.id != id);
        for word in 0..self.taken.len() {
            let pinned = self
                .pins
                .iter()
                .fold(0, |bits, pin| bits | pin.slots.get(word).copied().unwrap_or(0));
            self.taken[word] = self.used[word] | pinned;
        }
    }

    /// In a forked child: the slots belong to the parent's device; ours is empty.
    pub fn start_over(&mut self) {
        *self = Self::new(self.max);
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use alloc::collections::BTreeSet;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn never_hands_out_a_slot_twice(ops in proptest::collection::vec((0..4u8, 1..40u32), 1..200)) {
            let (mut slots, mut live, mut pins) = (SwapSlots::new(300), BTreeSet::new(), Vec::new());
            for (op, n) in ops {
                match op {
                    0 | 1 => if let Some((start, len)) = slots.alloc(n) {
                        prop_assert!(len >= 1 && start + len <= 300);
                        for slot in start..start + len {
                            prop_assert!(live.insert(slot));
                            prop_assert!(pins.iter().all(|(_, set): &(PinId, BTreeSet<u32>)| !set.contains(&slot)));
                        }
                    } else {
                        let pinned = pins.iter().flat_map(|(_, set)| set.iter());
                        prop_assert_eq!(live.iter().chain(pinned).collect::<BTreeSet<_>>().len(), 300);
                    },
                    2 => if let Some(slot) = live.iter().nth(n as usize).copied() { live.remove(&slot); slots.free(slot); },
                    _ => if pins.len() < 2 { pins.push((slots.pin_all(), live.clone())) } else { slots.unpin(pins.remove(0).0) },
                }
                prop_assert_eq!(slots.in_use(), live.len() as u64);
            }
        }
    }
}
