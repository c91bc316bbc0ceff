//! Straight to the swap device, without zswap: what reclaim does while the pool may take nothing (`memory.zswap.max=0`).
//!
//! In halves as a store (`zswap`): the oldest run's pages are marked busy and copied under the lock, written without it, and
//! those still marked get their slot published. A page of one repeated word needs no slot.

use alloc::vec::Vec;

use lock_api::RawMutex;

use crate::machine::{IoBuffer, Machine};
use crate::page::{PAGE_SIZE, same_filled};
use crate::staging::StagedRun;
use crate::swap_table::entry::Slot;
use crate::vmstat::Item;
use crate::zpool::Arena;
use crate::zswap::{IO_PAGES, Worker};
use crate::{Inner, Mm};

/// Staging slots whose pages are on their way to the device; the `i`th goes to device slot `first + i`.
struct SwapOut {
    pages: Vec<u32>,
    first: u32,
}

impl<R: RawMutex, M: Machine> Mm<R, M> {
    /// Whether pages bypass zswap now.
    pub(crate) fn bypasses_zswap(&self) -> bool {
        let limit = self.pool_limit.load(core::sync::atomic::Ordering::Relaxed);
        limit == 0 && self.with(|inner| inner.slots.is_present())
    }

    /// Write the run that has been staged longest to the device. Returns how many pages went; `None`: nothing is staged.
    pub(crate) fn swap_out_oldest(&self, worker: &mut Worker<M>) -> Option<u64> {
        let run = self.pop_staged()?;
        let mut gone = 0;
        let mut refused = false;
        for first in (0..run.len).step_by(IO_PAGES) {
            let batch = StagedRun {
                slot: run.slot + first,
                capacity: 0,
                len: (run.len - first).min(IO_PAGES as u32),
            };
            let (out, filled, left) = self.with_for_reclaim(|inner| inner.begin_swap_out(self, worker, batch));
            gone += filled;
            refused |= left;
            let Some(out) = out else { continue };
            let bytes = out.pages.len() * PAGE_SIZE;
            let is_written = self.machine.write_swap(out.first, worker.io().bytes(bytes)).is_ok();
            let written = self.with_for_reclaim(|inner| inner.end_swap_out(&out, is_written));
            self.stat.add(Item::PswpOut, written);
            self.stat.add(Item::RejectReclaimFail, u64::from(!is_written));
            gone += written;
            refused |= !is_written;
        }
        self.give_up(run, refused);
        self.stat.add(Item::PgSteal, gone);
        Some(gone)
    }
}

impl<A: Arena> Inner<A> {
    /// Mark and copy what is still staged. Also returns how many pages needed no slot, and whether some are left.
    fn begin_swap_out<R, M>(
        &mut self,
        mm: &Mm<R, M>,
        worker: &mut Worker<M>,
        batch: StagedRun,
    ) -> (Option<SwapOut>, u64, bool)
    where
        R: RawMutex,
        M: Machine<Arena = A>,
    {
        let (mut filled, mut left) = (0, false);
        let Some((first, taken)) = self.slots.alloc(batch.len) else {
            mm.stat.add(Item::SwapFull, 1);
            return (None, 0, true);
        };
        let mut pages = Vec::with_capacity(taken as usize);
        for slot in batch.slot..batch.slot + batch.len {
            let vpn = self.staging.owner(slot);
            if self.table.lookup(vpn) != (Slot::Staged { slot, busy: false }) {
                continue;
            }
            let word = mm.machine.with_staged(slot, |page| {
                worker.copy_page(page);
                same_filled(page)
            });
            if let Some(word) = word {
                self.publish(vpn, Slot::Filled { word });
                let item = if word == 0 { Item::SwpOutZero } else { Item::SameFilled };
                mm.stat.add(item, 1);
                filled += 1;
            } else if pages.len() < taken as usize {
                worker.page_to_io(pages.len());
                self.publish(vpn, Slot::Staged { slot, busy: true });
                pages.push(slot);
            } else {
                left = true;
            }
        }
        for unused in first + pages.len() as u32..first + taken {
            self.slots.free(unused);
        }
        let out = (!pages.is_empty()).then_some(SwapOut { pages, first });
        (out, filled, left)
    }

    /// Publish the slots of the pages that are still marked; returns how many.
    fn end_swap_out(&mut self, out: &SwapOut, is_written: bool) -> u64 {
        let mut written = 0;
        for (staged, slot) in out.pages.iter().zip(out.first..) {
            // The page may have another number by now (mremap), which the staging slot knows.
            let vpn = self.staging.owner(*staged);
            let busy = Slot::Staged {
                slot: *staged,
                busy: true,
            };
            if self.table.lookup(vpn) != busy {
                self.slots.free(slot);
            } else if is_written {
                self.publish(vpn, Slot::Swap { device: 0, slot });
                written += 1;
            } else {
                self.slots.free(slot);
                self.publish(
                    vpn,
                    Slot::Staged {
                        slot: *staged,
                        busy: false,
                    },
                );
            }
        }
        written
    }
}
