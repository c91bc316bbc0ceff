//! Straight to the swap device, without zswap. Reclaim does so:
//! * while zswap may take nothing (`memory.zswap.max=0`, `enabled=0`);
//! * to be compared with doing without zswap (`--swapout direct`);
//! * with what forked relatives give up under need, or many of them share (`upkeep::shared`).
//!
//! In halves as a store (`zswap`). Under the lock a thread marks the next pages of the oldest run
//! busy and copies them; without the lock it writes them. Under the lock again it publishes the
//! place on the device of those that are still marked. A page of one repeated word needs none.

use alloc::vec::Vec;
use core::sync::atomic::Ordering;

use lock_api::RawMutex;

use crate::machine::{IoBuffer, Machine};
use crate::page::{PAGE_SIZE, same_filled};
use crate::pages::staging::StagedRun;
use crate::pages::swap_table::entry::{Blob, Slot};
use crate::policy::tunables::IO_PAGES;
use crate::reclaim::spent::Spent;
use crate::reclaim::zswap::Together;
use crate::vmstat::{Item, OrderItem};
use crate::worker::Worker;
use crate::zpool::Arena;
use crate::{Held, Inner, Mm, SwapOut};

/// Staging slots whose pages are on their way to the device; the `i`th goes to device slot `first +
/// i`.
struct StagedWrite {
    staged: Vec<u32>,
    first: u32,
    /// Device slots taken.
    slots: u32,
    /// Pages that needed none.
    filled: u64,
    /// Pages for which there was no slot.
    left: bool,
}

impl<R: RawMutex, M: Machine> Mm<R, M> {
    /// Whether pages bypass zswap now: because they are to, or the pool has no room for this
    /// process and never will by its own doing. What the device refuses goes to the pool, if that
    /// may take it.
    pub(crate) fn bypasses_zswap(&self) -> bool {
        let is_shut = !self.is_enabled() || self.pool_limit.load(Ordering::Relaxed) == 0;
        let is_asked = self.swap_out() == SwapOut::Direct && !self.device_refuses.load(Ordering::Relaxed);
        let is_open = |inner: &mut Held<'_, R, M>| inner.drains() && (is_shut || inner.pages.slots.has_room());
        (is_asked || is_shut) && self.with(is_open)
    }

    /// Whether a staged run bypasses zswap: relatives had it (`shared`), and the device takes it.
    pub(crate) fn goes_to_device(&self, run: StagedRun) -> bool {
        let takes = || self.with(|inner| inner.drains() && inner.pages.slots.has_room());
        run.is_for_device && !self.device_refuses.load(Ordering::Relaxed) && takes()
    }

    /// Write all that is staged to the device, if there is one with room. What relatives store each
    /// for themselves takes more memory in their pools than the page that they shared did. Returns
    /// how many pages went.
    pub fn swap_out_staged(&self, worker: &mut Worker<M>) -> u64 {
        let (mut gone, mut spent) = (0, Spent::default());
        while self.with(|inner| inner.drains()) {
            match self.swap_out_oldest(worker, &mut spent) {
                Some(pages) if pages > 0 => gone += pages,
                Some(_) | None => break,
            }
        }
        self.give_up_spent(&mut spent);
        gone
    }

    /// Write the run that has been staged longest to the device. Returns how many pages went;
    /// `None`: nothing is staged.
    pub(crate) fn swap_out_oldest(&self, worker: &mut Worker<M>, spent: &mut Spent) -> Option<u64> {
        let run = self.pop_staged()?;
        Some(self.swap_out_run(worker, run, spent))
    }

    /// Write it to the device. Returns how many pages went.
    pub(crate) fn swap_out_run(&self, worker: &mut Worker<M>, run: StagedRun, spent: &mut Spent) -> u64 {
        let (mut gone, mut refused, mut done) = (0, false, 0);
        while done < run.len {
            let (together, write) = self.with_for_reclaim(|inner| inner.begin_swap_out(worker, run.rest(done)));
            let (pages, left) = write.map_or((0, true), |write| self.end_swap_out(worker, together, &write));
            gone += pages;
            refused |= left;
            done += together.len;
        }
        if refused {
            self.device_refuses.store(true, Ordering::Relaxed);
        }
        self.give_up(run, refused, spent);
        self.stat.add(Item::PgSteal, gone);
        gone
    }

    /// Write what was copied. Returns how many pages are gone, and whether some are left.
    fn end_swap_out(&self, worker: &mut Worker<M>, together: Together, write: &StagedWrite) -> (u64, bool) {
        let bytes = write.staged.len() * PAGE_SIZE;
        let is_written = bytes == 0
            || self
                .machine
                .write_swap(write.first, worker.io().bytes_mut(bytes))
                .is_ok();
        let written = self.with_for_reclaim(|inner| {
            let written = inner.publish_swapped(write, is_written);
            let staged = write.staged.iter().filter(|_| is_written);
            self.machine
                .note_stored(staged.filter_map(|slot| inner.stored_page(*slot)));
            written
        });
        self.stat.add(Item::RejectReclaimFail, u64::from(!is_written));
        self.stat.add(Item::PswpOut, written);
        self.stat.add(Item::SwapWriteBytes, bytes as u64);
        let gone = write.filled + written;
        let is_whole = gone == u64::from(together.len);
        let item = if is_whole {
            OrderItem::SwpOut
        } else {
            OrderItem::SwpOutFallback
        };
        self.stat.add_folio(item, together.order);
        (gone, write.left || !is_written)
    }
}

impl<R: RawMutex, A: Arena> Inner<R, A> {
    /// Publish the slots of the pages that are still marked; returns how many.
    fn publish_swapped(&mut self, write: &StagedWrite, is_written: bool) -> u64 {
        let mut written = 0;
        for (staged, slot) in write.staged.iter().zip(write.first..) {
            // The page may have another number by now (mremap), which the staging slot knows.
            let Some(vpn) = self.marked(*staged) else { continue };
            if is_written {
                let blob = Blob::page(slot);
                self.pages.slots.add(&blob);
                self.pages.publish(vpn, Slot::Swap(blob));
                written += 1;
            } else {
                self.pages.publish_staged(vpn, *staged, false);
            }
        }
        match is_written {
            true => self.pages.slots.put(write.first, write.slots),
            false => self.pages.slots.put_unwritten(write.first, write.slots),
        }
        written
    }
}

impl<R: RawMutex, M: Machine> Held<'_, R, M> {
    /// Mark and copy the next pages of `run`. `None`: the device is full.
    fn begin_swap_out(&mut self, worker: &mut Worker<M>, run: StagedRun) -> (Together, Option<StagedWrite>) {
        let mm = self.mm;
        let mut together = self.next_together(run, IO_PAGES as u32);
        if together.len as usize > worker.io_pages() {
            self.pages.staging.split(together.slot);
            together = self.next_together(run, IO_PAGES as u32);
        }
        let Some((first, slots)) = self.take_slots(&mm.machine, together.len) else {
            mm.stat.add(Item::SwapFull, 1);
            mm.stat.add_folio(OrderItem::SwpOutFallback, together.order);
            return (together, None);
        };
        let mut write = StagedWrite {
            staged: Vec::with_capacity(slots as usize),
            first,
            slots,
            filled: 0,
            left: false,
        };
        for slot in together.slots() {
            self.copy_for_write(worker, slot, &mut write);
        }
        (together, Some(write))
    }

    fn copy_for_write(&mut self, worker: &mut Worker<M>, slot: u32, write: &mut StagedWrite) {
        let mm = self.mm;
        let vpn = self.pages.staging.owner(slot);
        let word = self.pages.table.lookup(vpn);
        if !word.is_staged_at(slot, false) {
            return;
        }
        let at = write.staged.len();
        let room =
            (at < write.slots as usize).then(|| &mut worker.io().bytes_mut((at + 1) * PAGE_SIZE)[at * PAGE_SIZE..]);
        let (filled, is_copied) = mm
            .machine
            .with_staged(&[slot], |pages| match (same_filled(pages[0]), room) {
                (None, Some(room)) => {
                    room.copy_from_slice(pages[0]);
                    (None, true)
                }
                (filled, _) => (filled, false),
            });
        if let Some(word) = filled {
            self.pages.publish(vpn, Slot::Filled { word });
            let item = if word == 0 { Item::SwpOutZero } else { Item::SameFilled };
            mm.stat.add(item, 1);
            write.filled += 1;
        } else if is_copied {
            self.pages.publish_staged(vpn, slot, true);
            write.staged.push(slot);
        } else {
            write.left = true;
        }
    }
}
