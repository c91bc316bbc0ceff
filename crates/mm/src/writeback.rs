//! Writeback: the oldest stored pages go to the swap device when the pool is full.
//!
//! First half, under the lock: the oldest entries are marked, their blocks decompressed into one buffer, consecutive
//! slots taken. Then, without it, one write. Second half, under the lock: entries that still carry the mark get their
//! slot published and leave the pool; the others were loaded or dropped meanwhile, and their slot is free again.

use alloc::vec::Vec;

use lock_api::RawMutex;

use crate::machine::{IoBuffer, Machine};
use crate::page::{PAGE_SIZE, Vpn};
use crate::swap_table::entry::Slot;
use crate::vmstat::Item;
use crate::zpool::Arena;
use crate::zswap::{IO_PAGES, Worker};
use crate::{Inner, Mm};

/// A write on its way: pages `vpns` go to the slots from `slot` on.
struct Write {
    vpns: Vec<Vpn>,
    slot: u32,
    /// Slots taken, at least one for each page.
    slots: u32,
}

impl<R: RawMutex, M: Machine> Mm<R, M> {
    /// Write back up to `max` of the oldest entries. Returns how many left the pool.
    pub fn writeback(&self, worker: &mut Worker<M>, max: u32) -> u64 {
        let max = max.min(IO_PAGES as u32);
        let Some(write) = self.with(|inner| inner.begin_writeback(self, worker, max)) else {
            return 0;
        };
        let bytes = write.vpns.len() * PAGE_SIZE;
        let result = self.machine.write_swap(write.slot, worker.io().bytes(bytes));
        self.with(|inner| {
            inner.is_writing_back = false;
            if result.is_err() {
                self.stat.add(Item::RejectReclaimFail, 1);
                inner.cancel_writeback(&write);
                return 0;
            }
            self.stat.add(Item::PswpOut, write.vpns.len() as u64);
            let written = inner.end_writeback(&write);
            self.stat.add(Item::ZswpWb, written);
            written
        })
    }
}

impl<A: Arena> Inner<A> {
    fn begin_writeback<R, M>(&mut self, mm: &Mm<R, M>, worker: &mut Worker<M>, max: u32) -> Option<Write>
    where
        R: RawMutex,
        M: Machine<Arena = A>,
    {
        if !self.drains() || self.is_writing_back || self.frozen.is_some() || self.zswap_lru.is_empty() {
            return None;
        }
        let Some((slot, slots)) = self.slots.alloc(max) else {
            mm.stat.add(Item::SwapFull, 1);
            return None;
        };
        let mut vpns = Vec::with_capacity(slots as usize);
        while vpns.len() < slots as usize {
            let Some(entry) = self.zswap_lru.pop_oldest() else {
                break;
            };
            match self.table.lookup(entry.vpn) {
                Slot::Zswap {
                    handle,
                    len,
                    writeback: false,
                    tag,
                } if tag == entry.tag => {
                    let at = vpns.len();
                    if self.decompress_entry(mm, worker, entry.vpn, handle, len, at) {
                        self.mark(entry.vpn, handle, len, true, tag);
                        vpns.push(entry.vpn);
                    }
                }
                _ => {}
            }
        }
        for unused in slot + vpns.len() as u32..slot + slots {
            self.slots.free(unused);
        }
        let slots = vpns.len() as u32;
        self.is_writing_back = !vpns.is_empty();
        self.is_writing_back.then_some(Write { vpns, slot, slots })
    }

    /// Decompress one entry to page `i` of the worker's I/O buffer. A damaged one is lost.
    #[allow(clippy::too_many_arguments, reason = "the fields of one entry")]
    fn decompress_entry<R, M>(
        &mut self,
        mm: &Mm<R, M>,
        worker: &mut Worker<M>,
        vpn: Vpn,
        handle: crate::zpool::Handle,
        len: u32,
        i: usize,
    ) -> bool
    where
        R: RawMutex,
        M: Machine<Arena = A>,
    {
        let intact = worker.decompress(self.pool.algorithm(handle), self.pool.read(handle, len as usize));
        if intact {
            worker.page_to_io(i);
        } else {
            mm.stat.add(Item::DecompressFail, 1);
            self.publish(vpn, Slot::Bad);
        }
        intact
    }

    /// Change only the mark of an entry: what it points to stays.
    fn mark(&mut self, vpn: Vpn, handle: crate::zpool::Handle, len: u32, writeback: bool, tag: u32) {
        self.table.publish(
            vpn,
            Slot::Zswap {
                handle,
                len,
                writeback,
                tag,
            },
        );
    }

    fn end_writeback(&mut self, write: &Write) -> u64 {
        let mut written = 0;
        for (slot, vpn) in (write.slot..).zip(&write.vpns) {
            // Only this writeback sets the mark, and whatever happens to the page clears it.
            match self.table.lookup(*vpn) {
                Slot::Zswap { writeback: true, .. } => {
                    self.publish(*vpn, Slot::Swap { device: 0, slot });
                    written += 1;
                }
                _ => self.slots.free(slot),
            }
        }
        written
    }

    /// The device failed: the pages stay where they are, as the youngest of their list.
    fn cancel_writeback(&mut self, write: &Write) {
        for vpn in &write.vpns {
            if let Slot::Zswap {
                handle,
                len,
                writeback: true,
                ..
            } = self.table.lookup(*vpn)
            {
                let tag = self.zswap_lru_add(*vpn);
                self.mark(*vpn, handle, len, false, tag);
            }
        }
        for slot in write.slot..write.slot + write.slots {
            self.slots.free(slot);
        }
    }
}
