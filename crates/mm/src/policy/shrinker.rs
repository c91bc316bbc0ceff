//! The shrinker (`shrinker_enabled`, `mm/zswap.c`): under pressure, compressed pages that stayed
//! cold go to the device before the pool is full, in proportion to what reclaim takes from the
//! resident pages.
//!
//! What it may take is scaled and protected as in the kernel:
//! * each page that had to be read back from the device spares one entry: whoever swaps in from the
//!   disk has been shrunk too far. The count is used up by the look that heeds it;
//! * entries count by what they free: the better they compress, the fewer are taken;
//! * it stops at the first entry whose neighbourhood was loaded since it was stored: from there on
//!   the list is warm.

/// What it has seen, and owes.
#[derive(Default)]
pub(crate) struct Shrinker {
    /// Pages read from the device that were not heeded yet.
    disk_swapins: u64,
    debt: u64,
}

impl Shrinker {
    /// So many pages were read from the device.
    pub(crate) fn note_swapped_in(&mut self, pages: u64) {
        self.disk_swapins += pages;
    }

    /// Entries to write back for `reclaimed` of `resident` pages, of a pool of `objects` that can
    /// be sent on and take `pool` pages.
    pub(crate) fn owed(&mut self, objects: u64, pool: u64, resident: u64, reclaimed: u64) -> u64 {
        let protected = self.disk_swapins.min(objects);
        self.disk_swapins -= protected;
        let freeable = (objects - protected) * pool.min(objects) / objects;
        let resident = resident.max(1);
        self.debt += freeable * reclaimed;
        let owed = self.debt / resident;
        self.debt %= resident;
        owed
    }
}
