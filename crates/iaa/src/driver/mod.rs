//! What all batches share: settings, memory, descriptor slots, the table of queues and counters.
//!
//! # Life of a page
//!
//! ```text
//! waiting --slot, queue--> flying --record--> done, incompressible, software
//!    |                       |  ^   --done, to be verified--> flying (verify) --record--> done
//!    |                       |  '---fault: touched, submitted again, once
//!    |                       '--deadline--> software; slot and buffers in quarantine
//!    '--tries or deadline--> software, or incompressible
//! ```
//!
//! Each descriptor has a deadline of its own, and so has the wait for a queue before it. A page has
//! at most three descriptors: the job, the job again after a fault, and the one that verifies. So
//! it is settled after six deadlines at the latest.
//!
//! # Forks
//! Portals, records and table belong to the process that made them. A child makes a driver of its
//! own, and leaves the parent's alone: its descriptors are the parent's.

mod alone;
mod describe;
mod flight;

pub use alone::AloneError;
pub(crate) use flight::{Flight, Progress};

use crate::aecs::{CompressAecs, Tables};
use crate::buffers::{Area, Buffers, Pair, aecs_slot};
use crate::completion::Direction;
use crate::descriptor::{AECS_ALIGN, DESCRIPTOR_BYTES, Descriptor, Flaw, RECORD_ALIGN};
use crate::outcome::Why;
use crate::portal::Submitted;
use crate::quarantine::{Late, Quarantine};
use crate::queue::Queue;
use crate::settings::{CompressionMode, Settings};
use crate::slab::Slab;
use crate::statistics::{Snapshot, Statistics, count};
use crate::table::{Current, Reader, Table};
use alloc::sync::Arc;
use core::sync::atomic::AtomicU32;
use lock_api::RawMutex;

/// A page to compress or decompress. Sizes are bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The slots of [`Area::Buffer`] that have the source and take the destination.
    pub buffers: Pair,
    /// Bytes of the source.
    pub length: u32,
    /// Bytes that the destination may have: of a compression, what still pays; of a decompression,
    /// the page's size.
    pub room: u32,
}

/// The driver. It is shared by all threads; each has a [`Batch`](crate::batch::Batch).
pub struct Driver<R, B> {
    settings: Settings,
    buffers: B,
    slab: Slab,
    quarantine: Quarantine<R>,
    current: Current<R>,
    statistics: Statistics,
    /// Bytes of the AECS that canned decompressions start from, or one of the two states before.
    canned: AtomicU32,
}

impl<R: RawMutex, B: Buffers> Driver<R, B> {
    /// A driver with `slots` descriptor slots over `buffers`, which it fills with tables.
    ///
    /// A machine with D devices has at most 128 x D descriptors in flight.
    ///
    /// # Errors
    /// An address of `buffers` breaks a rule of alignment.
    pub fn new(settings: Settings, buffers: B, slots: u32, table: Table) -> Result<Self, Flaw> {
        let check = |area, slot, align: u64, rule| {
            let value = buffers.address(area, slot);
            let field = match area {
                Area::Record => "completion_addr",
                _ => "src2_addr",
            };
            if value.is_multiple_of(align) {
                Ok(())
            } else {
                Err(Flaw { field, value, rule })
            }
        };
        for slot in 0..slots {
            check(Area::Record, slot, RECORD_ALIGN, "must be a multiple of 64")?;
        }
        for slot in 0..aecs_slot::BYTES.len() as u32 {
            check(Area::Aecs, slot, AECS_ALIGN, "an AECS begins at a multiple of 32")?;
        }
        let aecs = match &settings.mode {
            CompressionMode::Canned(tables) => CompressAecs::canned(Tables::clone(tables)),
            _ => CompressAecs::fixed(),
        };
        buffers.write(Area::Aecs, aecs_slot::COMPRESS, 0, &aecs.to_bytes());
        Ok(Self {
            settings,
            buffers,
            slab: Slab::new(slots),
            quarantine: Quarantine::new(slots),
            current: Current::new(table),
            statistics: Statistics::default(),
            canned: AtomicU32::new(alone::NOT_SET_UP),
        })
    }

    /// Count in `statistics`, which others may share.
    #[must_use]
    pub fn counting_in(self, statistics: Statistics) -> Self {
        Self { statistics, ..self }
    }

    /// What it was told.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Its memory.
    pub fn buffers(&self) -> &B {
        &self.buffers
    }

    /// The table of queues, to look at or to replace.
    pub fn current(&self) -> &Current<R> {
        &self.current
    }

    /// Its counters.
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// What its counters say.
    pub fn snapshot(&self) -> Snapshot {
        self.statistics.snapshot()
    }

    /// Descriptor slots.
    pub fn slots(&self) -> u32 {
        self.slab.slots()
    }

    /// Descriptor slots that are free.
    pub fn free_slots(&self) -> u32 {
        self.slab.free()
    }

    /// Descriptors in quarantine.
    pub fn late(&self) -> usize {
        self.quarantine.len()
    }

    /// Look for late records: free their slots, and call `released` with the buffers that may be
    /// used again. Returns how many descriptors came back.
    ///
    /// Who owns the buffers calls it now and then, and whenever he lacks some.
    pub fn sweep(&self, mut released: impl FnMut(Pair)) -> usize {
        let has_come = |slot| self.buffers.status(slot) != 0;
        let back = self.quarantine.sweep(&self.slab, has_come, |buffers| {
            count(&self.statistics.errors.late_back);
            buffers.into_iter().for_each(&mut released);
        });
        debug_assert!(back <= self.slab.slots() as usize);
        back
    }

    /// Until when a descriptor that is submitted `now` may take.
    pub(crate) fn deadline(&self, now: u64) -> u64 {
        now.saturating_add(self.settings.deadline_ns)
    }

    /// Put a descriptor into quarantine.
    fn keep_late(&self, late: Late) {
        count(&self.statistics.errors.late);
        self.quarantine.add(late);
    }

    fn record(&self, slot: u32) -> u64 {
        self.buffers.address(Area::Record, slot)
    }

    /// Zero the record, then submit: the portal orders the two.
    fn submit(&self, queue: &Queue, slot: u32, descriptor: Descriptor) -> Submitted {
        self.buffers.write(Area::Record, slot, 0, &[0; 64]);
        let bytes: [u8; DESCRIPTOR_BYTES] = queue.fit(descriptor, self.settings.block_on_fault);
        queue.submit(&bytes)
    }

    /// Try once to have a queue take a page.
    pub(crate) fn start(
        &self,
        reader: &mut Reader,
        core: usize,
        direction: Direction,
        request: &Request,
        now: u64,
    ) -> Result<Flight, Why> {
        let started = self.start_now(reader, core, direction, request, now);
        // All queues of a table may be taken out while it is looked at: the next one has others.
        if matches!(started, Err(Why::NoQueue)) && !reader.is_current(&self.current) {
            return self.start_now(reader, core, direction, request, now);
        }
        started
    }

    /// Try once with the table that holds now.
    fn start_now(
        &self,
        reader: &mut Reader,
        core: usize,
        direction: Direction,
        request: &Request,
        now: u64,
    ) -> Result<Flight, Why> {
        let table = reader.get(&self.current);
        let Some(slot) = self.slab.take() else {
            return Err(self.why_without_slot(table, core, direction, request));
        };
        match self.start_with(table, core, direction, request, slot) {
            Ok(queue) => {
                count(&self.statistics.of(direction).calls);
                queue.count_call(direction);
                Ok(Flight::new(slot, queue, self.deadline(now)))
            }
            Err(why) => {
                self.slab.give(slot);
                Err(why)
            }
        }
    }

    /// Why a page has to wait that no slot is free for: if no queue would take it, it has not to.
    fn why_without_slot(&self, table: &Table, core: usize, direction: Direction, request: &Request) -> Why {
        let mut why = Why::NoQueue;
        for queue in table.queues(core, direction) {
            // Any slot will do, since nothing is submitted.
            if self.describe(queue, direction, request, 0).is_some() {
                return Why::NoSlot;
            }
            why = Why::Unfit;
        }
        why
    }

    /// The first queue that takes the page, or the reason that is likeliest to pass.
    fn start_with(
        &self,
        table: &Table,
        core: usize,
        direction: Direction,
        request: &Request,
        slot: u32,
    ) -> Result<Arc<Queue>, Why> {
        let mut why = Why::NoQueue;
        for queue in table.queues(core, direction) {
            let Some(descriptor) = self.describe(queue, direction, request, slot) else {
                if why == Why::NoQueue {
                    why = Why::Unfit;
                }
                continue;
            };
            match self.submit(queue, slot, descriptor) {
                Submitted::Accepted => return Ok(queue.clone()),
                Submitted::Full => why = Why::Full,
                Submitted::Gone => {}
            }
        }
        Err(why)
    }
}
