//! What is worth it: numbers in, decisions out. A policy sees no machine, no word and no list.
//!
//! The engine asks, of a snapshot ([`View`](view::View)) and the facts of the case:
//!
//! ```text
//! a stored page is faulted   Policy::bring   which pages come with it, and how
//! a load begins              Policy::keeps   whether its blocks may stay
//! a page was loaded          Policy::admit   where it is put
//! a page was staged          Policy::readmit where it is put
//! a round of reclaim begins  Policy::round   what comes before resident pages are taken
//! a folio is to leave        Policy::first   which list it is taken from
//! a batch is stored          Policy::density fast or dense
//! ```
//! Whoever acts on an answer says what came of it ([`Policy::note`]).

pub(crate) mod admission;
pub(crate) mod bring;
mod costs;
pub(crate) mod density;
pub(crate) mod locality;
pub(crate) mod portions;
pub(crate) mod readahead;
pub(crate) mod replacement;
pub(crate) mod round;
mod shortfall;
mod shrinker;
pub(crate) mod tunables;
pub(crate) mod victims;
pub(crate) mod view;
mod workingset;
mod worth;

use crate::page::Vpn;
use density::{Compressed, Density};
use locality::Locality;
use readahead::Streams;
use replacement::Replacement;
use shortfall::Shortfall;
use shrinker::Shrinker;
pub(crate) use tunables::PARTS;
use tunables::Tunables;
use victims::Victims;
use workingset::Balance;
pub(crate) use workingset::{Depth, Packing};
use worth::Worth;

/// What it was decided by so far.
pub(crate) struct Policy {
    /// What it decides by.
    pub(crate) tunables: &'static Tunables,
    /// In which order pages leave.
    replacement: Replacement,
    /// Which faults follow each other.
    streams: Streams,
    locality: Locality,
    /// To keep blocks, and to protect pages whose blocks are kept.
    keeping: Worth,
    protecting: Worth,
    /// Of the pool and the working set.
    balance: Balance,
    shrinker: Shrinker,
    density: Density,
    pub(crate) shortfall: Shortfall,
    pub(crate) victims: Victims,
    pub(crate) sharing: Sharing,
    pub(crate) writes_plain: bool,
    /// memory.zswap.writeback
    pub(crate) may_write_back: bool,
}

/// What forked relatives have too.
#[derive(Default)]
pub(crate) struct Sharing {
    /// They have pages of this process.
    pub(crate) shares: bool,
    /// When the pool began to be one of them, if it still is.
    pub(crate) pool_since: Option<u64>,
    /// When the next of them may leave for having been shared for long.
    pub(crate) due: u64,
}

/// What came of a decision, or was seen.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// A page of the pool is faulted.
    Loaded(Depth),
    /// A page is waited for that so many pages were stored after; `None`: it was out for long.
    Refaulted(Option<u64>),
    /// A load, from the device or from the pool, took so long.
    Took { is_from_device: bool, ns: u64 },
    /// A page is read from the device, which has so many slots in use.
    Read { on_device: u64 },
    /// So many staged pages had their second chance; whether the pool could give way to them.
    Restored { pages: u64, may_give_way: bool },
    /// Of the pages that reclaim took, so many were stored.
    Stored(u64),
    /// These were compressed, by the denser compressor or by the fast one.
    Compressed { is_dense: bool, compressed: Compressed },
    /// So many pages were mapped from the device.
    SwappedIn(u64),
    /// So many entries left for the device since they [were to](round::Plan::SendOn).
    SentOn { entries: u64, pool: Packing },
    /// So many entries left holes in a pool that no store fills: for the device, or as stores go
    /// to another pool.
    Emptied(u64),
    /// The pool is compact.
    Compacted,
    /// What is known of the device is of another one.
    DeviceChanged,
    /// The window that a page belongs to is not mapped as a whole.
    Narrowed(Vpn),
    /// A page whose block was kept leaves, or will have to.
    Left { is_unwritten: bool },
    /// A page that was isolated is known not to have been written to.
    Unwritten,
    /// A thread had to wait to write to a page that was protected.
    WriteWaited,
}

impl Policy {
    /// Nothing was seen yet.
    pub(crate) fn new(tunables: &'static Tunables, replacement: Replacement, writes_plain: bool) -> Self {
        Self {
            tunables,
            replacement,
            streams: Streams::new(&tunables.sequence),
            locality: Locality::new(&tunables.neighbours),
            keeping: Worth::new(&tunables.keeping),
            protecting: Worth::new(&tunables.keeping),
            balance: Balance::new(&tunables.balance),
            shrinker: Shrinker::default(),
            density: Density::new(&tunables.density),
            shortfall: Shortfall::default(),
            victims: Victims::default(),
            sharing: Sharing::default(),
            writes_plain,
            may_write_back: true,
        }
    }

    /// Say what came of a decision, or what was seen.
    pub(crate) fn note(&mut self, event: Event) {
        let tunables = self.tunables;
        match event {
            Event::Loaded(load) => self.balance.note_load(load),
            Event::Took { is_from_device, ns } => {
                self.balance.note_took(is_from_device, ns, tunables.stall.outside_ns);
            }
            Event::Refaulted(distance) => self.shortfall.note(distance),
            Event::Read { on_device } => self.balance.note_read(on_device * tunables.balance.pages_per_slot),
            Event::Restored { pages, may_give_way } => {
                self.density.note_restored(pages);
                self.shortfall.note(Some(0));
                if may_give_way {
                    self.balance.note_restored(pages);
                }
            }
            Event::Stored(pages) => {
                self.density.note_stored(pages);
                self.balance.note_taken(pages, 0);
            }
            Event::Compressed { is_dense, compressed } => self.density.note_compressed(is_dense, compressed),
            Event::SwappedIn(pages) => self.shrinker.note_swapped_in(pages),
            Event::SentOn { entries, pool } => self.balance.note_sent(entries, pool),
            Event::Emptied(entries) => self.balance.note_emptied(entries),
            Event::Compacted => self.balance.note_compacted(),
            Event::DeviceChanged => self.balance = Balance::new(&tunables.balance),
            Event::Narrowed(vpn) => self.streams.narrow(vpn),
            Event::Left { is_unwritten } => self.keeping.note(if is_unwritten { 1 } else { -1 }),
            Event::Unwritten => self.protecting.note(1),
            Event::WriteWaited => self.protecting.note(-tunables.keeping.write_fault_points),
        }
    }
}
