//! What threads that serve faults bring without the lock.

use crate::page::{PageRange, Vpn};
use crate::pages::swap_slots::SEGMENT;
use crate::pages::swap_table::entry::{Blob, Slot};
use crate::policy::admission::Keep;
use crate::policy::readahead::Window;

/// Threads that may serve faults at a time.
pub const SERVERS_MAX: usize = 4;

/// What each server brings now.
#[derive(Default)]
pub(crate) struct Underway([Option<Bring>; SERVERS_MAX]);

impl Underway {
    pub(crate) fn begin(&mut self, server: usize, bring: Bring) {
        self.0[server] = Some(bring);
    }

    pub(crate) fn end(&mut self, server: usize) {
        self.0[server] = None;
    }

    /// Whether one of them may be bringing a page, which `slot` says how to. A window holds pages
    /// that were not there to be brought with the others; their slots tell.
    pub(crate) fn holds(&self, page: Vpn, slot: Slot) -> bool {
        self.0.iter().flatten().any(|bring| match (bring, slot) {
            (Bring::Zeros(zeros), Slot::None) => zeros.range.contains(page),
            (Bring::Load(load), Slot::Zswap(_) | Slot::Filled { .. } | Slot::Swap(_)) => load.window.holds(page),
            _ => false,
        })
    }
}

/// What to bring.
#[derive(Clone, Copy)]
pub(crate) enum Bring {
    Zeros(Zeros),
    /// What the worker was given.
    Load(Load),
}

/// Untouched pages to be filled with zeros, or as many of them as can be.
#[derive(Clone, Copy)]
pub(crate) struct Zeros {
    pub(crate) range: PageRange,
    /// The page that faulted.
    pub(crate) wanted: Vpn,
}

/// Pages to be loaded.
#[derive(Clone, Copy)]
pub(crate) struct Load {
    /// What the worker was given is all in here.
    pub(crate) window: Window,
    /// The device has to be read first.
    pub(crate) read: Option<Read>,
    /// Which blocks are kept, and whether the pages are mapped protected.
    pub(crate) keep: Keep,
    /// The page that faulted.
    pub(crate) wanted: Vpn,
    /// It is that page alone, for the second time.
    pub(crate) is_last: bool,
}

/// Slots of a device to be read.
#[derive(Clone, Copy)]
pub(crate) struct Read {
    pub(crate) device: u8,
    pub(crate) first: u32,
    pub(crate) last: u32,
}

impl Read {
    pub(crate) fn of(blob: &Blob) -> Self {
        let (first, last) = blob.slots();
        let device = blob.device;
        Self { device, first, last }
    }

    pub(crate) fn slots(self) -> u32 {
        self.last + 1 - self.first
    }

    /// Whether all of it lies in segments that `other` reads from as well.
    pub(crate) fn is_in_segments_of(self, other: Self) -> bool {
        self.first / SEGMENT == other.first / SEGMENT && self.last / SEGMENT == other.last / SEGMENT
    }

    /// What has to be read if `blob` is to be read as well. `None`: it is on another device.
    pub(crate) fn with(self, blob: &Blob) -> Option<Self> {
        let (first, last) = blob.slots();
        (blob.device == self.device).then_some(Self {
            device: self.device,
            first: self.first.min(first),
            last: self.last.max(last),
        })
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_read_stays_in_the_segments_of_another() {
        let of = |first, last| Read { device: 0, first, last };
        assert!(of(64, 127).is_in_segments_of(of(100, 100)));
        assert!(!of(63, 100).is_in_segments_of(of(100, 100)) && !of(100, 128).is_in_segments_of(of(100, 100)));
        // What is needed lies in two itself.
        assert!(of(60, 70).is_in_segments_of(of(63, 64)));
    }
}
