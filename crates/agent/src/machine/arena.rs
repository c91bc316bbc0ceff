//! The memory of the compressed pool, watched.

use core::sync::atomic::{AtomicU64, Ordering};

use uzswap_backing::Watch;

use super::fault_attr::FAULT_ATTR;

/// Pool memory.
pub(crate) type PoolArena = uzswap_backing::PoolArena<Watched>;

/// Blocks may be damaged on purpose, and pages that are given back are counted.
pub(crate) struct Watched;

/// Pages given back to the system, of all processes before this one and of this.
static RELEASED: AtomicU64 = AtomicU64::new(0);

/// How many pages of pools were given back to the system so far, beginning anywhere.
pub(crate) fn released() -> u64 {
    RELEASED.load(Ordering::Relaxed)
}

impl Watch for Watched {
    fn stored<'a>(block: impl FnOnce() -> &'a mut [u8]) {
        FAULT_ATTR.flip(block);
    }

    fn released(pages: u64) {
        RELEASED.fetch_add(pages, Ordering::Relaxed);
    }
}
