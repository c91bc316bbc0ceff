//! Forking: the engine stands still while the kernel copies it.
//!
//! The child gets a copy-on-write copy of this process, pool and swap table included, and from then
//! on serves itself from that copy. So the copy must be of an engine at rest. Before a fork the
//! agent freezes the engine ([`Mm::freeze`]); faults are then served without changing anything (the
//! page is mapped, the word stays as it is), and what would have changed goes to a [`Log`]. After
//! the fork the parent thaws: the log is applied in order. The child starts from the frozen state,
//! plus the changes that were logged before the fork happened.
//!
//! While frozen nothing here allocates: the log's room is taken when the freeze begins.

pub(crate) mod change;

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use lock_api::RawMutex;

use crate::flight::freeze_log::{Frozen, Log, Logged, origin};
use crate::flight::underway::Underway;
use crate::fork::change::Changes;
use crate::machine::{Machine, Stop};
use crate::page::{PageRange, Vpn};
use crate::pages::devices::Devices;
use crate::pages::swap_table::entry::Slot;
use crate::policy::Event;
use crate::worker::Worker;
use crate::{Change, Fault, Held, Mm, PinId};

impl<R: RawMutex, M: Machine> Mm<R, M> {
    /// Stop changing. No store or writeback may be in flight (the caller is the one thread that
    /// does those, or has parked it). Returns the pin that keeps the child's swap slots from being
    /// overwritten.
    pub fn freeze(&self) -> PinId {
        self.with(|inner| {
            assert!(
                inner.flight.frozen.is_none() && !inner.flight.is_writing_back,
                "a freeze begins at rest"
            );
            inner.flight.frozen = Some(Log::new());
            inner.pages.slots.pin_all()
        })
    }

    /// Whether the engine is frozen.
    pub fn is_frozen(&self) -> bool {
        self.with(|inner| inner.flight.frozen.is_some())
    }

    /// Go on: apply the log.
    pub fn thaw(&self) {
        self.with(|inner| {
            let Some(log) = inner.flight.frozen.take() else { return };
            for entry in &log.entries {
                match *entry {
                    // Only now is it known what is managed: the changes before this entry are
                    // applied.
                    Logged::Served(vpn) if inner.pages.managed.covers(PageRange::new(vpn, 1)) => {
                        inner.pages.publish_resident(vpn)
                    }
                    Logged::Served(_) => {}
                    Logged::Changed(change) => inner.apply(change),
                }
            }
        })
    }

    /// In the child, as long as the engine is frozen: which devices it has to have. `inherited`: so
    /// many the parent had beside its own.
    pub fn devices_of_child(&self, inherited: usize) -> Devices {
        self.with(|inner| {
            let named = match (inherited, inner.pages.slots.in_use()) {
                (0, 0) => BTreeSet::new(),
                (0, _) => BTreeSet::from([0]),
                _ => inner.pages.devices(),
            };
            Devices::new(named, inherited)
        })
    }

    /// In the child: leave the frozen state without its log. Slots of the parent's devices are read
    /// as of `devices` from now on; our own device starts empty.
    pub fn start_child(&self, devices: &Devices) {
        let now = self.machine.now_ns();
        self.waiting_faults.store(0, core::sync::atomic::Ordering::Relaxed);
        self.with(|inner| {
            // The log is the parent's and was being written while it was copied; its buffer goes,
            // unread.
            inner.flight.frozen = None;
            // What the parent's threads were bringing they brought to the parent.
            inner.flight.underway = Underway::default();
            inner.pages.rename_devices(devices);
            // It names slots of the parent's device.
            inner.policy.note(Event::DeviceChanged);
            inner.begin_sharing(now);
        });
    }

    /// The child of that freeze is gone: its swap slots may be written again.
    pub fn unpin(&self, pin: PinId) {
        self.with(|inner| inner.pages.slots.unpin(pin));
    }

    /// Serve a fault of a child that cannot serve itself yet, by `copy_in` into the child: `None`
    /// for a page whose contents are lost. `changes`: what happened to its mappings since the
    /// freeze, before the fork and after, oldest first.
    pub fn fault_of_child(
        &self,
        worker: &mut Worker<M>,
        vpn: Vpn,
        changes: &[Change],
        copy_in: impl FnOnce(Option<&[u8]>),
    ) {
        self.with(|inner| {
            // Whatever order of them was meant: raw system calls of other threads, whose memory a
            // child has no business with.
            let (origin, _) = origin(vpn, changes.iter().rev().copied());
            let found = match origin {
                Frozen::Word(vpn) => inner.contents(worker, vpn),
                Frozen::Zeros => worker.zero_page(),
            };
            copy_in(found.then_some(worker.page()));
        })
    }
}

impl<R: RawMutex, M: Machine> Changes<'_, R, M> {
    /// Whether the engine is frozen for a fork.
    pub fn is_frozen(&self) -> bool {
        self.0.flight.frozen.is_some()
    }

    /// The changes logged so far; none while nothing is frozen.
    pub fn logged(&self) -> Vec<Change> {
        self.0.flight.frozen.iter().flat_map(Log::changes).collect()
    }

    /// Call `copy_in` with every page that is stored, which is not mapped then, as long as it
    /// answers true; `None`: its contents are lost. In a child, `freeze_log::destination` says
    /// where the page is by then. True: that was all. No word changes, but of what is lost where
    /// nothing is frozen: nothing may leave any more that is mapped so.
    pub fn for_each_absent(
        &mut self,
        worker: &mut Worker<M>,
        mut copy_in: impl FnMut(Vpn, Option<&[u8]>) -> bool,
    ) -> bool {
        self.absent().into_iter().all(|vpn| {
            // As a fault does, which reads again what could not be read.
            let found = self.0.contents(worker, vpn) || self.0.contents(worker, vpn);
            if !found && !self.is_frozen() {
                self.0.pages.publish(vpn, Slot::Bad);
            }
            copy_in(vpn, found.then_some(worker.page()))
        })
    }

    /// Whether a page is known to be lost.
    pub fn has_lost(&self) -> bool {
        self.absent()
            .into_iter()
            .any(|vpn| self.0.pages.table.lookup(vpn) == Slot::Bad)
    }

    /// As [`for_each_absent`](Self::for_each_absent), for all pages of `range` that were touched,
    /// zeros too.
    pub fn bring_back_range(
        &mut self,
        worker: &mut Worker<M>,
        range: PageRange,
        mut copy_in: impl FnMut(Vpn, Option<&[u8]>) -> bool,
    ) -> bool {
        let mut absent = Vec::new();
        self.0.pages.table.for_each(range, |_, vpn, slot| match slot {
            Slot::None | Slot::Resident { .. } | Slot::Cached(_) => {}
            Slot::Staged { .. } | Slot::Zswap(_) | Slot::Filled { .. } | Slot::Swap(_) | Slot::Bad => absent.push(vpn),
        });
        absent.into_iter().all(|vpn| {
            let found = self.0.contents(worker, vpn);
            copy_in(vpn, found.then_some(worker.page()))
        })
    }

    /// How many pages [`for_each_absent`](Self::for_each_absent) brings.
    pub fn absent_pages(&self) -> u64 {
        self.absent().len() as u64
    }

    fn absent(&self) -> Vec<Vpn> {
        self.absent_in(PageRange::USER)
    }

    /// Pages of `range` that are not mapped, as far as words say, and whose contents are no zeros.
    pub fn absent_in(&self, range: PageRange) -> Vec<Vpn> {
        let mut absent = Vec::new();
        self.0.pages.table.for_each(range, |_, vpn, slot| match slot {
            Slot::None | Slot::Resident { .. } | Slot::Cached(_) | Slot::Filled { word: 0 } => {}
            Slot::Staged { .. } | Slot::Zswap(_) | Slot::Filled { .. } | Slot::Swap(_) | Slot::Bad => {
                absent.push(vpn);
            }
        });
        absent
    }
}

impl<R: RawMutex, M: Machine> Held<'_, R, M> {
    /// Serve a fault without changing anything but the log.
    pub(crate) fn serve_frozen(&mut self, worker: &mut Worker<M>, vpn: Vpn) -> Fault {
        let mm = self.mm;
        let found = match self.flight.frozen.as_ref().map(|log| origin(vpn, log.changes().rev())) {
            Some((_, false)) => return Fault::Retry,
            Some((Frozen::Word(at), true)) => self.contents(worker, at),
            Some((Frozen::Zeros, true)) | None => worker.zero_page(),
        };
        if !found {
            return Fault::Lost;
        }
        match mm.machine.copy_in(vpn, worker.page(), true).stop {
            Some(Stop::Again | Stop::NoMemory) => Fault::Retry,
            Some(_) => {
                mm.machine.wake(vpn, 1);
                Fault::Served
            }
            None => {
                if let Some(log) = &mut self.flight.frozen {
                    log.push_served(vpn);
                }
                Fault::Served
            }
        }
    }

    /// Bring the contents of a page that is not mapped into the worker's page. False: they are
    /// lost.
    fn contents(&self, worker: &mut Worker<M>, vpn: Vpn) -> bool {
        let mm = self.mm;
        match self.pages.table.lookup(vpn) {
            Slot::None | Slot::Resident { .. } | Slot::Cached(_) => worker.zero_page(),
            Slot::Filled { word } => worker.fill_page(word),
            Slot::Staged { slot, .. } => mm.machine.with_staged(&[slot], |pages| worker.copy_page(pages[0])),
            Slot::Zswap(entry) => self
                .pages
                .pool
                .with_block(entry.handle, entry.len, |block| worker.decompress(&mm.machine, block)),
            Slot::Swap(blob) => worker.read_page(&mm.machine, &blob),
            Slot::Bad => false,
        }
    }
}
