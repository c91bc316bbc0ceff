//! What happened since the engine was frozen for a fork ([`fork`](crate::fork)).

use alloc::vec::Vec;

use crate::flight::event::Change;
use crate::page::{PageRange, Vpn};
use crate::policy::tunables::{LOG_CHANGES, LOG_MAX};

/// Changes that one read may bring.
const EVENTS_AT_ONCE: usize = 64;

#[derive(Clone, Copy)]
pub(crate) enum Logged {
    /// This page was mapped.
    Served(Vpn),
    /// This change was read.
    Changed(Change),
}

/// What happened since the freeze, in order.
pub(crate) struct Log {
    pub(crate) entries: Vec<Logged>,
}

/// Where a page's contents are while the engine is frozen.
pub(crate) enum Frozen {
    /// As its word (under this page number, it may have been moved) says.
    Word(Vpn),
    /// Dropped since: zeros.
    Zeros,
}

impl Log {
    pub(crate) fn new() -> Self {
        Self {
            entries: Vec::with_capacity(LOG_MAX),
        }
    }

    /// Whether a batch of events fits.
    pub(crate) fn has_room(&self) -> bool {
        self.entries.len() + EVENTS_AT_ONCE <= LOG_MAX
    }

    pub(crate) fn push_change(&mut self, change: Change) {
        assert!(self.entries.len() < LOG_MAX, "has_room is asked before events are read");
        self.entries.push(Logged::Changed(change));
    }

    pub(crate) fn push_served(&mut self, vpn: Vpn) {
        // A page that is not logged stays mapped under its old word: right, but not reclaimed until
        // it is dropped.
        if self.entries.len() < LOG_MAX - LOG_CHANGES {
            self.entries.push(Logged::Served(vpn));
        }
    }

    pub(crate) fn changes(&self) -> impl DoubleEndedIterator<Item = Change> + Clone {
        self.entries.iter().filter_map(|entry| match *entry {
            Logged::Changed(change) => Some(change),
            Logged::Served(_) => None,
        })
    }
}

/// Follow changes backwards, from the newest, to where the page was. False: a departure from an
/// address was read after a landing there, which may have been the other way round (`departing.rs`
/// finds out, when the log is applied).
pub(crate) fn origin(vpn: Vpn, newest_first: impl Iterator<Item = Change> + Clone) -> (Frozen, bool) {
    let (mut vpn, mut older, mut is_sure) = (vpn, newest_first, true);
    while let Some(change) = older.next() {
        let lands = |vpn: Vpn| move |change: Change| matches!(change, Change::Remap { from, to } if PageRange::new(to, from.pages()).contains(vpn));
        match change {
            Change::Remove(range) if range.contains(vpn) => return (Frozen::Zeros, is_sure),
            Change::Remap { from, to } if lands(vpn)(change) => {
                vpn = from.start.add(vpn.number() - to.number());
                is_sure &= !older.clone().any(lands(vpn));
            }
            Change::Unmap(from) | Change::Remap { from, .. } if from.contains(vpn) => {
                return (Frozen::Zeros, is_sure && !older.any(lands(vpn)));
            }
            Change::Remove(_) | Change::Unmap(_) | Change::Remap { .. } => {}
        }
    }
    (Frozen::Word(vpn), is_sure)
}

/// Follow changes forwards, from the oldest, to where the page is. `None`: it was dropped.
pub fn destination(vpn: Vpn, oldest_first: &[Change]) -> Option<Vpn> {
    oldest_first.iter().try_fold(vpn, |vpn, change| match *change {
        Change::Remove(range) | Change::Unmap(range) if range.contains(vpn) => None,
        Change::Remap { from, to } if from.contains(vpn) => Some(to.add(vpn.number() - from.start.number())),
        Change::Remap { from, to } if PageRange::new(to, from.pages()).contains(vpn) => None,
        Change::Remove(_) | Change::Unmap(_) | Change::Remap { .. } => Some(vpn),
    })
}
