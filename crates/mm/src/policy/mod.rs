//! What is worth it.

pub(crate) mod keep;
pub(crate) mod locality;
pub(crate) mod portions;
pub(crate) mod readahead;
pub(crate) mod shrinker;
pub(crate) mod tunables;
pub(crate) mod workingset;
pub(crate) mod worth;

use locality::Locality;
use readahead::Streams;
use shrinker::Shrinker;
use tunables::Tunables;
use workingset::Balance;
use worth::Worth;

/// What it was decided by so far.
pub(crate) struct Policy {
    /// What it decides by.
    pub(crate) tunables: &'static Tunables,
    /// Which faults follow each other.
    pub(crate) streams: Streams,
    pub(crate) locality: Locality,
    /// To keep blocks, and to protect pages whose blocks are kept.
    pub(crate) keeping: Worth,
    pub(crate) protecting: Worth,
    /// Of the pool and the working set.
    pub(crate) balance: Balance,
    pub(crate) shrinker: Shrinker,
    pub(crate) victims: Victims,
    pub(crate) sharing: Sharing,
    pub(crate) writes_plain: bool,
    /// memory.zswap.writeback
    pub(crate) may_write_back: bool,
}

/// Which resident folio leaves next.
#[derive(Default)]
pub(crate) struct Victims {
    /// Folios that were taken off the lists.
    pub(crate) pops: u32,
    /// The last page of the unevictable list that was looked at must stay.
    pub(crate) is_last_needed: bool,
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

impl Policy {
    /// Nothing was seen yet.
    pub(crate) fn new(tunables: &'static Tunables, writes_plain: bool) -> Self {
        Self {
            tunables,
            streams: Streams::new(&tunables.sequence),
            locality: Locality::new(&tunables.neighbours),
            keeping: Worth::new(&tunables.keeping),
            protecting: Worth::new(&tunables.keeping),
            balance: Balance::new(&tunables.balance),
            shrinker: Shrinker::default(),
            victims: Victims::default(),
            sharing: Sharing::default(),
            writes_plain,
            may_write_back: true,
        }
    }
}
