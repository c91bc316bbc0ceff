//! Storing: staged folios go into the pool, a batch of pages at a time.
//!
//! A folio is stored whole, without being split. First, under the lock, its pages are marked busy.
//! Then, without it, a batch of them is compressed, and the blocks are put into the pool, where
//! nobody sees them yet; and so on to its last page. In the end, under the lock, the words of all
//! its pages are published, then its one entry on the list of stored folios. Then it is counted,
//! and only then are the frames given up.
//!
//! What can go wrong on the way, and what it leaves:
//! * a page was faulted, unmapped or dropped meanwhile: it is no longer marked; its block is freed,
//!   the others are stored by themselves;
//! * the pool is full: every block of the folio is freed, all its pages are staged as before,
//!   and are tried one by one next time;
//! * a page does not compress and may not be stored as it is: it goes back to its mapping, the
//!   others are stored by themselves.
//!
//! Pages that are no folio (of order 0, or of a folio that a fault has broken) are stored up to a
//! batch at a time in the same way.

use lock_api::RawMutex;
use uzswap_acomp::Algorithm;

use crate::machine::{Machine, StoredPage};
use crate::page::{PAGE_SIZE, Vpn};
use crate::pages::block::BlockRef;
use crate::pages::resident::Lru;
use crate::pages::staging::StagedRun;
use crate::pages::swap_table::entry::{Slot, ZswapEntry};
use crate::policy::Event;
use crate::policy::density::Compressed;
use crate::policy::tunables::COMPRESSED_MAX;
use crate::reclaim::spent::Spent;
use crate::vmstat::{Item, OrderItem};
use crate::worker::Worker;
use crate::worker::lane::Outcome;
use crate::zpool::{Arena, PoolFull, PoolRef};
use crate::{Held, Inner, Mm};

/// Pages in consecutive staging slots that are stored together.
#[derive(Clone, Copy)]
pub(crate) struct Together {
    /// Staging slot of the first.
    pub(crate) slot: u32,
    /// How many.
    pub(crate) len: u32,
    /// Above 0: they are an aligned folio of this order, of which nothing has left.
    pub(crate) order: u32,
}

impl Together {
    pub(crate) fn slots(self) -> core::ops::Range<u32> {
        self.slot..self.slot + self.len
    }
}

/// A store that is under way.
struct Store<R, A: Arena> {
    together: Together,
    /// Where the blocks go, even if another becomes the current one meanwhile.
    pool: PoolRef<R, A>,
    /// Pages that do not compress are stored as they are: they can go on to the device.
    drains: bool,
    /// There are two compressors: which of them.
    choice: Option<Choice>,
}

/// Which of two compressors a store uses.
#[derive(Clone, Copy)]
struct Choice {
    is_dense: bool,
    /// What two of its pages are compressed with as well, to see what that would cost.
    probe: Option<Algorithm>,
}

/// What a store came to.
#[derive(Clone, Copy, Default)]
struct Stored {
    pages: u64,
    /// Some are staged still.
    left: bool,
}

impl<R: RawMutex, M: Machine> Mm<R, M> {
    /// Store the run that has been staged longest, on the device if that is its place. Returns how
    /// many pages were stored; `None`: nothing is staged.
    pub(crate) fn store_oldest(&self, worker: &mut Worker<M>, spent: &mut Spent) -> Option<u64> {
        let run = self.pop_staged()?;
        if self.goes_to_device(run) {
            return Some(self.swap_out_run(worker, run, spent));
        }
        let mut all = Stored::default();
        let mut done = 0;
        while done < run.len {
            let started = self.machine.now_ns();
            let store = self.with_for_reclaim(|inner| {
                inner.begin_store(worker, run.rest(done), self.config.store_batch, || self.machine.arena())
            });
            let together = store.together;
            let stored = self.store(worker, store);
            let took = self.machine.now_ns().saturating_sub(started);
            if let Some(each) = took.checked_div(stored.pages) {
                self.stat.record_stores(stored.pages, each);
            }
            all.pages += stored.pages;
            all.left |= stored.left;
            done += together.len;
        }
        self.give_up(run, all.left, spent);
        self.stat.add(Item::PgSteal, all.pages);
        Some(all.pages)
    }

    /// Take the run that has been staged longest.
    pub(crate) fn pop_staged(&self) -> Option<StagedRun> {
        self.with_for_reclaim(|inner| match inner.flight.frozen {
            Some(_) => None,
            None => inner.pages.staging.pop_oldest(),
        })
    }

    /// Store pages that are marked.
    fn store(&self, worker: &mut Worker<M>, store: Store<R, M::Arena>) -> Stored {
        let together = store.together;
        let (mut first, mut is_full) = (0, false);
        let mut compressed = Compressed::default();
        let mut probed = None;
        while !is_full && first < together.len as usize {
            let started = store.choice.map(|_| self.machine.now_ns());
            let next = first + worker.compress_batch(&self.machine, together.slot, first);
            if let Some(started) = started {
                compressed.ns += self.machine.now_ns().saturating_sub(started);
                worker.count_compressed(first..next, &mut compressed);
            }
            let algorithm = store
                .choice
                .and_then(|choice| choice.probe)
                .filter(|_| probed.is_none());
            let sample = algorithm.and_then(|algorithm| Some((algorithm, worker.two_compressed(first..next)?)));
            is_full = self.put_blocks(worker, &store, first..next).is_err();
            if let Some((algorithm, sample)) = sample {
                let slots = sample.map(|page| together.slot + page as u32);
                probed = Some(self.probe(worker, slots, algorithm));
            }
            first = next;
        }
        self.with_for_reclaim(|inner| {
            if let Some(Choice { is_dense, .. }) = store.choice {
                inner.policy.note(Event::Compressed { is_dense, compressed });
                if let Some(compressed) = probed {
                    let is_dense = !is_dense;
                    inner.policy.note(Event::Compressed { is_dense, compressed });
                }
            }
            let stored = match is_full && together.order > 0 {
                true => inner.unwind(worker, together),
                false => inner.publish_stored(worker, together, store.choice),
            };
            inner.pages.pool.put(store.pool);
            stored
        })
    }

    /// What pages that have just been stored would be with another compressor, which the first of
    /// them only warms up. Their frames are in their slots, and stay there while they are marked.
    fn probe(&self, worker: &mut Worker<M>, slots: [u32; 2], algorithm: Algorithm) -> Compressed {
        let mut compressed = Compressed::default();
        for slot in slots {
            self.machine.with_staged(&[slot], |pages| worker.copy_page(pages[0]));
            let started = self.machine.now_ns();
            let bytes = worker
                .compress_page(&self.machine, algorithm, COMPRESSED_MAX)
                .map_or(PAGE_SIZE, <[u8]>::len);
            compressed = Compressed {
                pages: 1,
                bytes: bytes as u64,
                ns: self.machine.now_ns().saturating_sub(started),
            };
        }
        compressed
    }

    /// Put the blocks of a batch into the pool. Without the engine's lock: no word names them yet,
    /// and a page that was wanted meanwhile has left its frame in its slot.
    fn put_blocks(
        &self,
        worker: &mut Worker<M>,
        store: &Store<R, M::Arena>,
        batch: core::ops::Range<usize>,
    ) -> Result<(), PoolFull> {
        for i in batch {
            let stored = match worker.outcomes[i] {
                Outcome::Compressed { lane, at, len } => {
                    (store.pool.store(worker.block(lane, at, len)), u32::from(len))
                }
                Outcome::Incompressible { fingerprint, is_known } if store.drains => {
                    self.stat.add(Item::KnownIncompressible, u64::from(is_known));
                    let slot = store.together.slot + i as u32;
                    let put = |pages: &[&[u8]]| store.pool.store_page(pages[0], fingerprint);
                    (self.machine.with_staged(&[slot], put), PAGE_SIZE as u32)
                }
                _ => continue,
            };
            let (Ok(handle), len) = stored else {
                self.stat.add(Item::RejectAllocFail, 1);
                return Err(PoolFull);
            };
            worker.outcomes[i] = Outcome::Stored { handle, len };
        }
        Ok(())
    }

    /// The words are published: the frames may go, soon. Slots whose page could neither be stored
    /// nor put back stay.
    pub(crate) fn give_up(&self, run: StagedRun, refused: bool, spent: &mut Spent) {
        if !refused {
            spent.push(run);
            if spent.slots() >= self.portions().give_up.into() {
                self.give_up_spent(spent);
            }
            return;
        }
        self.with(|inner| {
            let frames = inner.pages.staging.frames_of(run).into_iter();
            for slot in frames.flat_map(|(slot, pages)| slot..slot + pages) {
                let is_waiting =
                    matches!(inner.pages.table.lookup(inner.pages.staging.owner(slot)), Slot::Staged { slot: s, .. } if s == slot);
                if !is_waiting {
                    self.machine.drop_staged(&[(slot, 1)]);
                    inner.pages.staging.taken_back(slot);
                }
            }
            inner.pages.staging.push(run);
        });
    }
}

impl<R: RawMutex, A: Arena> Inner<R, A> {
    /// The folio that `run` begins with, if it is whole; or as many pages as come before the next
    /// whole folio, up to `batch`.
    pub(crate) fn next_together(&mut self, run: StagedRun, batch: u32) -> Together {
        let mut len = 0;
        while len < run.len.min(batch) {
            let slot = run.slot + len;
            let order = self.pages.staging.order(slot);
            if order > 0 && self.is_whole(slot, order) {
                if len > 0 {
                    break;
                }
                return Together {
                    slot,
                    len: 1 << order,
                    order,
                };
            }
            self.pages.staging.split(slot);
            len += 1;
        }
        Together {
            slot: run.slot,
            len,
            order: 0,
        }
    }

    /// Whether the pages that entered `slot` and those behind it as a folio of `order` are all
    /// there and still neighbours.
    fn is_whole(&self, slot: u32, order: u32) -> bool {
        let first = self.pages.staging.owner(slot);
        (0..1 << order).all(|i| {
            let vpn = self.pages.staging.owner(slot + i);
            vpn == first.add(u64::from(i)) && self.pages.table.lookup(vpn).is_staged_at(slot + i, false)
        })
    }

    /// Mark the next pages of `run`, so that a fault copies instead of moving.
    fn begin_store<M: Machine<Arena = A>>(
        &mut self,
        worker: &mut Worker<M>,
        run: StagedRun,
        batch: u32,
        arena: impl FnOnce() -> Option<A>,
    ) -> Store<R, A> {
        let together = self.next_together(run, batch);
        let (pool, choice) = self.choose_pool(arena);
        worker.begin_folio(pool.kind());
        for slot in together.slots() {
            let vpn = self.pages.staging.owner(slot);
            let note = match self.pages.table.lookup(vpn) {
                Slot::Staged {
                    slot: s,
                    busy: false,
                    note,
                } if s == slot => note,
                _ => {
                    worker.outcomes.push(Outcome::NotOurs);
                    continue;
                }
            };
            self.pages.publish_staged(vpn, slot, true);
            match self.pages.staging.kept(slot) {
                Some(_) if self.pages.staging.is_unwritten(slot) => worker.outcomes.push(Outcome::Unwritten),
                Some(kept) => self
                    .pages
                    .pool
                    .with_block(kept.handle(), kept.len(), |block| worker.push_kept(block)),
                None => worker.outcomes.push(Outcome::Pending { note }),
            }
        }
        Store {
            together,
            pool,
            drains: self.drains(),
            choice,
        }
    }

    /// The pool that the next pages go to.
    fn choose_pool(&mut self, arena: impl FnOnce() -> Option<A>) -> (PoolRef<R, A>, Option<Choice>) {
        let pool = self.pages.pool.get_current();
        let Some(dense) = self.pages.pool.dense() else {
            return (pool, None);
        };
        let (is_dense, is_probe) = self.policy.density(&self.view());
        let dense_pool = is_dense.then(|| self.pages.pool.get_dense(arena)).flatten();
        let choice = Choice {
            is_dense: dense_pool.is_some(),
            probe: is_probe.then_some(match dense_pool {
                Some(_) => pool.kind().compressor.algorithm,
                None => dense.algorithm,
            }),
        };
        match dense_pool {
            Some(dense_pool) => {
                self.pages.pool.put(pool);
                (dense_pool, Some(choice))
            }
            None => (pool, Some(choice)),
        }
    }

    /// The page in a slot that was ours to publish, if it is stored: not one that was wanted
    /// meanwhile.
    pub(crate) fn stored_page(&self, slot: u32) -> Option<StoredPage> {
        let page = self.pages.staging.owner(slot);
        let bytes = match self.pages.table.lookup(page) {
            Slot::Zswap(entry) => entry.len,
            Slot::Filled { .. } => 0,
            Slot::Swap(_) => PAGE_SIZE as u32,
            Slot::None | Slot::Resident { .. } | Slot::Cached(_) | Slot::Staged { .. } | Slot::Bad => return None,
        };
        Some(StoredPage { page, slot, bytes })
    }

    /// The page in a slot that we have marked, if it is marked still.
    pub(crate) fn marked(&self, slot: u32) -> Option<Vpn> {
        let vpn = self.pages.staging.owner(slot);
        self.pages.table.lookup(vpn).is_staged_at(slot, true).then_some(vpn)
    }
}

impl<R: RawMutex, M: Machine> Held<'_, R, M> {
    /// All the blocks that were put into the pool leave it again, all pages are as before.
    fn unwind(&mut self, worker: &mut Worker<M>, together: Together) -> Stored {
        let mm = self.mm;
        for (slot, outcome) in together.slots().zip(&worker.outcomes) {
            if let Outcome::Stored { handle, len } = outcome {
                self.pages.pool.free(*handle, *len as usize);
            }
            if let (Some(vpn), true) = (self.marked(slot), *outcome != Outcome::NotOurs) {
                self.pages.publish_staged(vpn, slot, false);
            }
        }
        // What could not be stored whole is tried page by page next time.
        self.pages.staging.split(together.slot);
        mm.stat.add_folio(OrderItem::SwpOutFallback, together.order);
        Stored { pages: 0, left: true }
    }

    /// Every page is in the pool or needs no place there: publish.
    fn publish_stored(&mut self, worker: &mut Worker<M>, together: Together, choice: Option<Choice>) -> Stored {
        let folio = self.whole_folio(worker, together);
        let is_dense = choice.is_some_and(|choice| choice.is_dense);
        let mut stored = Stored::default();
        for (slot, &outcome) in together.slots().zip(&worker.outcomes) {
            let Some(vpn) = self.marked(slot).filter(|_| outcome != Outcome::NotOurs) else {
                if let Outcome::Stored { handle, len } = outcome {
                    self.pages.pool.free(handle, len as usize);
                }
                continue;
            };
            if let Some(word) = self.stored_as(vpn, slot, outcome, folio, is_dense) {
                self.pages.publish(vpn, word);
                stored.pages += 1;
            } else if outcome.is_refused() {
                stored.left |= !self.put_back(vpn, slot, outcome);
            } else {
                // The pool became full before it was this one's turn, or the kept block is gone.
                self.pages.publish_staged(vpn, slot, false);
                stored.left = true;
            }
        }
        let done = together.slots().zip(&worker.outcomes);
        let done = done.filter(|(_, outcome)| outcome.is_done());
        let pages = done.filter_map(|(slot, _)| self.stored_page(slot));
        self.mm.machine.note_stored(pages);
        self.policy.note(Event::Stored(stored.pages));
        let item = match folio {
            Some(_) => OrderItem::ZswpOut,
            None => OrderItem::SwpOutFallback,
        };
        self.mm.stat.add_folio(item, together.order);
        stored
    }

    /// One list entry for all pages of a folio, if each is done and where it was: half of it may
    /// have been moved to another address meanwhile. Then it is no folio any more.
    fn whole_folio(&mut self, worker: &Worker<M>, together: Together) -> Option<u32> {
        let first = self.pages.staging.owner(together.slot);
        let is_good = |(i, outcome): (u32, &Outcome)| {
            outcome.is_done() && self.marked(together.slot + i) == Some(first.add(u64::from(i)))
        };
        let is_whole = together.order > 0 && (0..).zip(&worker.outcomes).all(is_good);
        is_whole.then(|| self.pages.add_stored(first, together.order))
    }

    /// The word of a marked page from now on, under the entry of its folio or one of its own.
    /// `None`: it is not done.
    fn stored_as(&mut self, vpn: Vpn, slot: u32, outcome: Outcome, folio: Option<u32>, is_dense: bool) -> Option<Slot> {
        let stat = &self.mm.stat;
        let kept = self.pages.staging.kept(slot);
        if kept.is_some() && matches!(outcome, Outcome::Stored { .. } | Outcome::Filled(_)) {
            stat.add(Item::SwpOutDirty, 1);
            self.note_leaving(false);
        }
        let entry = match outcome {
            Outcome::Filled(word) => {
                let item = if word == 0 { Item::SwpOutZero } else { Item::SameFilled };
                stat.add(item, 1);
                return Some(Slot::Filled { word });
            }
            Outcome::Stored { handle, len } => {
                stat.add(Item::ZswpOut, 1);
                stat.add(Item::ZswpOutDense, u64::from(is_dense));
                BlockRef::new(handle, len).entry()
            }
            // The slot is not reused before its run is released, which is ours: what is kept for
            // it, wherever compaction has put it since, is the block that was compared.
            Outcome::Unwritten => {
                let entry = kept?.entry();
                stat.add(Item::SwpOutClean, 1);
                self.note_leaving(true);
                entry
            }
            _ => return None,
        };
        let tag = folio.unwrap_or_else(|| self.pages.add_stored(vpn, 0));
        Some(Slot::Zswap(ZswapEntry { tag, ..entry }))
    }

    /// A page that cannot be stored goes back to its mapping. False: not now; it stays staged.
    fn put_back(&mut self, vpn: Vpn, slot: u32, outcome: Outcome) -> bool {
        let mm = self.mm;
        let (note, lru) = match outcome {
            Outcome::Incompressible { fingerprint, is_known } => {
                mm.stat.add(Item::KnownIncompressible, u64::from(is_known));
                mm.stat.add(Item::RejectCompressPoor, 1);
                (fingerprint, Lru::Unevictable)
            }
            _ => {
                mm.stat.add(Item::RejectCompressFail, 1);
                (0, Lru::Inactive)
            }
        };
        self.pages.publish(
            vpn,
            Slot::Staged {
                slot,
                busy: false,
                note,
            },
        );
        let is_back = mm.machine.move_in(slot, vpn, 1).pages == 1;
        if is_back {
            self.pages.staging.taken_back(slot);
            self.pages.publish_folio(lru, vpn, 0);
        }
        is_back
    }
}
