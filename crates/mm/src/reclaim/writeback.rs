//! Writeback: the oldest stored pages go to the swap device when the pool is full
//! or gives way.
//!
//! A blob goes out as it is, compressed, and is read back that way: writing costs no decompression,
//! and the device holds as many times more. Blobs are packed one behind the other, across the
//! borders of slots, in runs of up to [`IO_PAGES`] pages. `--swap-format plain` writes whole pages
//! instead, for comparison.
//!
//! First half, under the lock: slots are taken, the oldest entries are marked and copied. Then,
//! without it, one write. Second half, under the lock: entries that still carry the mark get their
//! place published and leave the pool; the others were loaded or dropped meanwhile.

use alloc::vec::Vec;
use core::sync::atomic::Ordering;

use lock_api::RawMutex;
use uzswap_acomp::Codec;

use crate::machine::{IoBuffer, Machine};
use crate::page::{PAGE_SIZE, Vpn};
use crate::pages::list_lru::LruEntry;
use crate::pages::swap_table::entry::{Blob, Slot, ZswapEntry};
use crate::policy::Event;
use crate::policy::tunables::IO_PAGES;
use crate::vmstat::Item;
use crate::worker::Worker;
use crate::zpool::Arena;
use crate::{Held, Inner, Mm};

/// How far along the list of stored folios a writeback goes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Until {
    /// It has as many pages as it wants: what is warm gets a second chance, once.
    Enough,
    /// It meets what is warm.
    Warm,
}

/// What the first half came to.
enum Begun {
    Write(Write),
    Nothing,
    /// Nothing yet: many entries were stale, or warm.
    LookFurther,
}

/// A write on its way.
struct Write {
    /// The pages and where they will be.
    blobs: Vec<(Vpn, Blob)>,
    /// Slots taken, and how many of them.
    slot: u32,
    slots: u32,
    /// Bytes packed into them so far.
    len: usize,
    /// Pages at most.
    max: usize,
    until: Until,
}

impl Write {
    /// Room for a blob of `len` bytes: where it begins.
    fn room(&mut self, len: usize) -> Option<usize> {
        let at = self.len.next_multiple_of(Blob::UNIT);
        (at + len <= self.slots as usize * PAGE_SIZE).then(|| {
            self.len = at + len;
            at
        })
    }

    /// Whole pages of the device that are written.
    fn pages(&self) -> usize {
        self.len.div_ceil(PAGE_SIZE)
    }
}

impl<R: RawMutex, M: Machine> Mm<R, M> {
    /// Write back up to `max` of the oldest entries. Returns how many left the pool.
    pub fn writeback(&self, worker: &mut Worker<M>, max: u32) -> u64 {
        self.writeback_until(worker, max, Until::Enough)
    }

    pub(crate) fn writeback_until(&self, worker: &mut Worker<M>, max: u32, until: Until) -> u64 {
        if self.device_refuses.load(Ordering::Relaxed) {
            return 0;
        }
        let write = loop {
            match self.with_for_reclaim(|inner| inner.begin_writeback(worker, max as usize, until)) {
                Begun::Write(write) => break write,
                Begun::Nothing => return 0,
                Begun::LookFurther => {}
            }
        };
        let bytes = write.pages() * PAGE_SIZE;
        let result = self.machine.write_swap(write.slot, worker.io().bytes_mut(bytes));
        self.with(|inner| {
            inner.flight.is_writing_back = false;
            if result.is_err() {
                self.device_refuses.store(true, Ordering::Relaxed);
                self.stat.add(Item::RejectReclaimFail, 1);
                inner.cancel_writeback(&write);
                return 0;
            }
            self.stat.add(Item::SwapWriteBytes, bytes as u64);
            let written = inner.end_writeback(&write);
            self.stat.add(Item::PswpOut, written);
            self.stat.add(Item::ZswpWb, written);
            written
        })
    }
}

impl<R: RawMutex, A: Arena> Inner<R, A> {
    /// [`SwapSlots::alloc`](crate::pages::swap_slots::SwapSlots::alloc), as far as the group's
    /// limit allows.
    pub(crate) fn take_slots<M: Machine>(&mut self, machine: &M, want: u32) -> Option<(u32, u32)> {
        let allowed = machine.charge_swap(self.pages.slots.in_use(), want.into());
        self.pages.slots.alloc(allowed.min(want.into()) as u32)
    }

    fn end_writeback(&mut self, write: &Write) -> u64 {
        let mut written = 0;
        for (vpn, blob) in &write.blobs {
            // Only this writeback sets the mark, and whatever happens to the page clears it.
            if let Slot::Zswap(ZswapEntry { writeback: true, .. }) = self.pages.table.lookup(*vpn) {
                self.pages.slots.add(blob);
                self.pages.publish(*vpn, Slot::Swap(*blob));
                written += 1;
            }
        }
        self.pages.slots.put(write.slot, write.slots);
        self.policy.note(Event::Emptied(written));
        written
    }

    /// The device failed: the pages stay where they are, as the youngest of their list.
    fn cancel_writeback(&mut self, write: &Write) {
        for (vpn, _) in &write.blobs {
            if let Slot::Zswap(entry) = self.pages.table.lookup(*vpn)
                && entry.writeback
            {
                let tag = self.pages.add_stored(*vpn, 0);
                self.pages.remark(
                    *vpn,
                    Slot::Zswap(ZswapEntry {
                        writeback: false,
                        tag,
                        ..entry
                    }),
                );
            }
        }
        self.pages.slots.put_unwritten(write.slot, write.slots);
    }
}

impl<R: RawMutex, M: Machine> Held<'_, R, M> {
    fn begin_writeback(&mut self, worker: &mut Worker<M>, max: usize, until: Until) -> Begun {
        let mm = self.mm;
        if !self.drains() || self.flight.is_writing_back || self.flight.frozen.is_some() || self.pages.stored.is_empty()
        {
            return Begun::Nothing;
        }
        let Some((slot, slots)) = self.take_slots(&mm.machine, IO_PAGES as u32) else {
            mm.stat.add(Item::SwapFull, 1);
            return Begun::Nothing;
        };
        let mut write = Write {
            blobs: Vec::with_capacity(max),
            slot,
            slots,
            len: 0,
            max,
            until,
        };
        let (mut looks, most) = (0, self.policy.tunables.hold.writeback_looks);
        while let Some(entry) = self.pages.stored.oldest().filter(|_| looks < most) {
            looks += 1;
            if !self.pack_folio(worker, entry, &mut write) {
                looks = 0;
                break;
            }
            self.pages.stored.pop_oldest();
        }
        let unused = slots - write.pages() as u32;
        self.pages.slots.put(slot + slots - unused, unused);
        write.slots -= unused;
        self.flight.is_writing_back = !write.blobs.is_empty();
        match (self.flight.is_writing_back, looks) {
            (true, _) => Begun::Write(write),
            (false, looks) if looks == most => Begun::LookFurther,
            (false, _) => Begun::Nothing,
        }
    }

    /// Pack those pages of a stored folio that are stored still. False: no further; the rest keeps
    /// its turn.
    fn pack_folio(&mut self, worker: &mut Worker<M>, folio: LruEntry, write: &mut Write) -> bool {
        for vpn in folio.pages() {
            let entry = match self.pages.table.lookup(vpn) {
                Slot::Zswap(entry) if entry.tag == folio.tag && !entry.writeback => entry,
                _ => continue,
            };
            if entry.referenced {
                // Its neighbourhood is warm: once more round the list.
                let tag = self.pages.add_stored(vpn, 0);
                let entry = ZswapEntry {
                    referenced: false,
                    tag,
                    ..entry
                };
                self.pages.remark(vpn, Slot::Zswap(entry));
                if write.until == Until::Warm {
                    return false;
                }
                continue;
            }
            if write.blobs.len() == write.max || !self.pack(worker, vpn, entry, write) {
                return false;
            }
        }
        true
    }

    /// Copy one entry to the worker's I/O buffer and mark it. False: it does not fit. A damaged one
    /// is lost.
    fn pack(&mut self, worker: &mut Worker<M>, vpn: Vpn, entry: ZswapEntry, write: &mut Write) -> bool {
        let mm = self.mm;
        let writes_plain = self.policy.writes_plain;
        let len = if writes_plain { PAGE_SIZE } else { entry.len as usize };
        let Some(at) = write.room(len) else { return false };
        // A checksum goes along with a compressed block, but what seals a page on the device would
        // seal a damaged one too.
        let packed = self
            .pages
            .pool
            .with_block(entry.handle, entry.len, |block| match writes_plain {
                true => worker.decompress(&mm.machine, block).then(|| {
                    worker.page_to_io(at);
                    Codec::Raw
                }),
                false => block.is_page_intact().then(|| {
                    worker.io().bytes_mut(at + len)[at..].copy_from_slice(block.bytes);
                    block.codec
                }),
            });
        let Some(codec) = packed else {
            write.len = at;
            mm.stat.add(Item::DecompressFail, 1);
            self.pages.publish(vpn, Slot::Bad);
            return true;
        };
        let at = (write.slot as usize * PAGE_SIZE + at) as u64 / Blob::UNIT as u64;
        let blob = Blob {
            device: 0,
            at,
            len: len as u32,
            codec,
        };
        write.blobs.push((vpn, blob));
        self.pages.remark(
            vpn,
            Slot::Zswap(ZswapEntry {
                writeback: true,
                ..entry
            }),
        );
        true
    }
}
