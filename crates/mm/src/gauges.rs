//! How large everything is.

use lock_api::RawMutex;

use crate::machine::Machine;
use crate::zpool::Arena;
use crate::{Inner, Mm};

/// Sizes of one process, in pages but where named.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gauges {
    /// Mapped pages under our care.
    pub resident: u64,
    /// Frames in the staging range.
    pub staged: u64,
    /// Pages of the pool.
    pub pool: u64,
    /// Pages stored in it, those that are mapped as well included.
    pub stored: u64,
    /// Stored pages that are in the pool as they are, since they did not compress.
    pub incompressible: u64,
    /// Mapped pages whose stored block is kept.
    pub cached: u64,
    /// Mapped pages that are known to be wanted.
    pub active: u64,
    /// Mapped pages that do not move because a forked relative has them.
    pub shared: u64,
    /// Pages of the swap device in use.
    pub swapped: u64,
    /// Pages of memory more with which nearly all that was waited for lately would not have been.
    pub shortfall: u64,
    /// Bytes of the swap table.
    pub table_bytes: u64,
}

impl<R: RawMutex, M: Machine> Mm<R, M> {
    /// Sizes now.
    pub fn gauges(&self) -> Gauges {
        self.with(|inner| Gauges {
            resident: inner.pages.counts.resident,
            staged: inner.pages.staging.frames(),
            pool: inner.pages.pool.pages(),
            stored: inner.pages.pool.objects(),
            incompressible: inner.pages.counts.incompressible,
            cached: inner.pages.counts.cached,
            active: inner.pages.counts.active,
            shared: inner.pages.counts.shared,
            swapped: inner.pages.slots.in_use(),
            shortfall: inner.shortfall(),
            table_bytes: inner.pages.table.bytes(),
        })
    }
}

impl<R: RawMutex, A: Arena> Inner<R, A> {
    fn shortfall(&self) -> u64 {
        let (pool, cached) = (&self.pages.pool, self.pages.counts.cached);
        let stored = pool.objects().saturating_sub(cached);
        self.policy
            .shortfall
            .pages(stored, pool.pages(), self.pages.slots.in_use())
    }
}
