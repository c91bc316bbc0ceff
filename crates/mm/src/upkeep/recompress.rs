//! Recompression: kswapd compresses again, with a stronger algorithm, what has been stored for a
//! while. Pages go in at the price of the fast algorithm and rest at the density of the strong one.
//! zram has this, the kernel's zswap has not.
//!
//! kswapd takes the oldest folios of the list of stored ones in their order. So the folios that
//! came to rest (`Stored::rested`) are all older than the others, and writeback takes them first.
//!
//! It goes in steps as a writeback does, with the same mark, so there is one of either at a time:
//!
//! 1. Under the lock it marks the entries and copies their blocks out.
//! 2. Without the lock it decompresses the blocks and compresses the pages again.
//! 3. Under the lock it publishes the new block of each entry that still carries the mark, if that
//!    is shorter. Each such entry moves to the other list in any case.

use alloc::vec::Vec;

use lock_api::RawMutex;
use uzswap_acomp::{Algorithm, Compressor};

use crate::machine::Machine;
use crate::page::{PAGE_SIZE, Vpn};
use crate::pages::list_lru::LruEntry;
use crate::pages::swap_table::entry::{Slot, ZswapEntry};
use crate::policy::tunables::RECLAIM_PAGES;
use crate::vmstat::Item;
use crate::worker::Worker;
use crate::zpool::{Arena, PoolKind};
use crate::{Held, Inner, Mm};

/// Which entries are to be compressed again, and how.
#[derive(Clone, Copy, Debug)]
pub struct Idle {
    /// With what.
    pub algorithm: Algorithm,
    /// Those that were stored at this time of the machine's clock or before.
    pub since_ns: u64,
}

/// A page of a round, marked.
struct Page {
    vpn: Vpn,
    entry: ZswapEntry,
    /// It was stored so at once.
    is_dense: bool,
}

impl<R: RawMutex, M: Machine> Mm<R, M> {
    /// Compress a few of the oldest idle entries again. Returns how many were looked at; 0: none is
    /// idle, or not now.
    pub fn recompress(&self, worker: &mut Worker<M>, idle: Idle) -> usize {
        let pages = self.with_for_reclaim(|inner| inner.begin_recompression(worker, idle));
        if pages.is_empty() {
            return 0;
        }
        let intact = worker.decompress_loads(&self.machine);
        let mut again = 0;
        for (i, page) in pages.iter().enumerate() {
            // A damaged block stays as it is: the fault that needs it says so.
            let is_worth_it =
                !page.is_dense && (self.tunables().stored.gain_min * 2..PAGE_SIZE).contains(&(page.entry.len as usize));
            let block = (i < intact && is_worth_it).then(|| {
                worker.page_from_io(i);
                worker.compress_page(
                    &self.machine,
                    idle.algorithm,
                    page.entry.len as usize - self.tunables().stored.gain_min,
                )
            });
            let block = block.flatten();
            let arena = || self.machine.arena();
            again += u64::from(self.with_for_reclaim(|inner| inner.come_to_rest(page, block, idle, arena)));
        }
        self.with(|inner| inner.flight.is_writing_back = false);
        self.stat.add(Item::Recompressed, again);
        pages.len()
    }
}

impl<R: RawMutex, A: Arena> Inner<R, A> {
    /// Publish the new block of an entry that still carries the mark, if there is one. True: it was
    /// compressed again.
    fn come_to_rest(
        &mut self,
        page: &Page,
        block: Option<&[u8]>,
        idle: Idle,
        arena: impl FnOnce() -> Option<A>,
    ) -> bool {
        let entry = match self.pages.table.lookup(page.vpn) {
            Slot::Zswap(entry) if entry.writeback => entry,
            _ => return false,
        };
        let tag = self.pages.add_rested(page.vpn, 0);
        let rested = ZswapEntry {
            writeback: false,
            tag,
            ..entry
        };
        let kind = PoolKind {
            zpool: self.pages.pool.current().zpool,
            compressor: Compressor::from(idle.algorithm),
        };
        let stored =
            block.and_then(|block| Some((self.pages.pool.store_as(kind, block, arena).ok()?, block.len() as u32)));
        match stored {
            // publish frees the old block.
            Some((handle, len)) => self
                .pages
                .publish(page.vpn, Slot::Zswap(ZswapEntry { handle, len, ..rested })),
            None => self.pages.remark(page.vpn, Slot::Zswap(rested)),
        }
        stored.is_some()
    }
}

impl<R: RawMutex, M: Machine> Held<'_, R, M> {
    /// Mark what is left of a folio. False: there is no room for all of it; the rest keeps its
    /// turn.
    fn take_folio(
        &mut self,
        worker: &mut Worker<M>,
        folio: LruEntry,
        idle: Idle,
        room: usize,
        pages: &mut Vec<Page>,
    ) -> bool {
        for vpn in folio.pages() {
            let entry = match self.pages.table.lookup(vpn) {
                Slot::Zswap(entry) if entry.tag == folio.tag && !entry.writeback => entry,
                _ => continue,
            };
            if pages.len() == room {
                return false;
            }
            self.pages
                .pool
                .with_block(entry.handle, entry.len, |block| worker.push_load(vpn, block));
            self.pages.remark(
                vpn,
                Slot::Zswap(ZswapEntry {
                    writeback: true,
                    ..entry
                }),
            );
            pages.push(Page {
                vpn,
                entry,
                is_dense: self.pages.pool.kind(entry.handle).compressor.algorithm == idle.algorithm,
            });
        }
        true
    }

    fn begin_recompression(&mut self, worker: &mut Worker<M>, idle: Idle) -> Vec<Page> {
        let mut pages = Vec::new();
        // In a pool that a relative has too, the old block would stay beside the new one.
        if self.flight.is_writing_back || self.flight.frozen.is_some() || self.shares_pool() {
            return pages;
        }
        worker.begin_loads();
        let room = worker.load_room();
        while let Some((folio, time)) = self.pages.stored.recent.oldest() {
            if time > idle.since_ns || !self.take_folio(worker, folio, idle, room.min(RECLAIM_PAGES), &mut pages) {
                break;
            }
            self.pages.stored.recent.pop_oldest();
        }
        self.flight.is_writing_back = !pages.is_empty();
        pages
    }
}
