//! Fault injection: which of the machine's steps fail, by a stream of pseudo-random numbers that a
//! seed decides.
//!
//! A step that fails does what the contract of [`Machine`](crate::machine::Machine) allows it to,
//! the worst included: some of its pages are done, its buffer or its slots hold garbage.

use core::cell::Cell;

use crate::machine::{Done, Stop};

/// How steps fail. At first: not at all.
#[derive(Default)]
pub struct FaultAttr {
    state: Cell<u64>,
    per_mille: Cell<u64>,
    nth: Cell<u64>,
    calls: Cell<u64>,
}

impl FaultAttr {
    /// Of 1000 steps about `per_mille` fail from now on; 0: none does.
    pub fn set_rate(&self, seed: u64, per_mille: u64) {
        self.start(seed);
        self.per_mille.set(per_mille);
    }

    /// The `n`th step from now (1: the next) fails and no other; 0: none does. `seed` decides how
    /// it fails.
    pub fn fail_nth(&self, seed: u64, n: u64) {
        self.start(seed);
        self.nth.set(n);
    }

    fn start(&self, seed: u64) {
        self.state.set(seed);
        self.per_mille.set(0);
        self.nth.set(0);
        self.calls.set(0);
    }

    /// Steps that could have failed since the last change of what fails.
    pub fn calls(&self) -> u64 {
        self.calls.get()
    }

    /// Whether this step fails, and if so bits to choose how.
    pub(super) fn should_fail(&self) -> Option<u64> {
        let n = self.calls.get() + 1;
        self.calls.set(n);
        let bits = self.next();
        (n == self.nth.get() || bits % 1000 < self.per_mille.get()).then_some(bits >> 20)
    }

    /// Run `step` for all `pages`, or only for the first few of them, stopped by one of `stops`.
    pub(super) fn cut_short(&self, pages: u32, stops: &[Stop], step: impl FnOnce(u32) -> Done) -> Done {
        let Some(bits) = self.should_fail() else {
            return step(pages);
        };
        let done = step((bits % u64::from(pages.max(1))) as u32);
        let stop = stops[(bits >> 16) as usize % stops.len()];
        Done {
            stop: done.stop.or(Some(stop)),
            ..done
        }
    }

    /// splitmix64: any seed will do, neighbouring ones included.
    fn next(&self) -> u64 {
        let state = self.state.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.state.set(state);
        let x = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }
}
