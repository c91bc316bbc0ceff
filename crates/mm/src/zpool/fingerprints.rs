//! Fingerprints of pages that are stored as they are: a whole page leaves no room for a checksum
//! behind it.

use alloc::vec::Vec;

use crate::policy::tunables::FINGERPRINTS_MORE;

/// A fingerprint for each number that an allocator gives to an object of a whole page.
#[derive(Default)]
pub(super) struct Fingerprints(Vec<u32>);

impl Fingerprints {
    pub(super) fn set(&mut self, at: usize, fingerprint: u32) {
        let len = self.0.len();
        if at >= len {
            // An eighth more, not twice as much: metadata is paid for by every page.
            let more = (at + 1 - len).max(len / 8).max(FINGERPRINTS_MORE);
            self.0.reserve_exact(more);
            self.0.resize(len + more, 0);
        }
        self.0[at] = fingerprint;
    }

    pub(super) fn get(&self, at: usize) -> u32 {
        self.0.get(at).copied().unwrap_or(0)
    }
}
