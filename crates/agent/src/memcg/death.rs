//! Charges of processes that have ended: when, and by whom, they are returned.

use uzswap_ctl::{Field, Notice};
use uzswap_sys::time::now_ns;
use uzswap_sys::{remains, robust};

use super::{Life, Memcg, is_charged};
use crate::pager::Pager;

/// How long a process whose pager is gone is expected to give back its memory.
const LINGERS_NS: u64 = 10_000_000_000;

impl Memcg {
    /// What the dead were charged is nobody's, where all who inherited from them are charged for
    /// it. So are their figures, of those too who were left nothing.
    pub(crate) fn return_charges(&self, pager: &Pager) {
        for slot in self.others(pager, Life::Dead, |_| true) {
            if self.group.is_inherited(slot, now_ns()) {
                self.with_slot_of_dead(pager, slot, || self.group.clear_slot(slot));
            }
        }
    }

    /// Whether anybody is dead and charged still.
    pub(crate) fn has_dead(&self, pager: &Pager) -> bool {
        self.charged(pager, Life::Dead).next().is_some()
    }

    /// Change the slot of a process that is dead, unless another has it by now. Nobody takes it
    /// meanwhile.
    pub(super) fn with_slot_of_dead(&self, pager: &Pager, slot: usize, change: impl FnOnce()) {
        let (pid, leases) = (self.group.field(slot, Field::Pid), &pager.fds().leases);
        if !leases.try_take(slot) {
            return;
        }
        // The number was read before the lease was ours: who came and went between has another.
        if self.group.field(slot, Field::Pid) == pid {
            change();
        }
        leases.give_back(slot);
    }

    /// Whether the process in this slot, whose pager is gone, has its memory still. All who share
    /// it are to look, once it has not.
    pub(super) fn lingers(&self, pager: &Pager, slot: usize) -> bool {
        let (group, now) = (self.group, now_ns());
        if group.field(slot, Field::DeadAt) != 0 {
            return false;
        }
        let [pid, image, start] = [Field::Pid, Field::Image, Field::Start].map(|field| group.field(slot, field));
        let since = group.field(slot, Field::LingersSince);
        let is_late = since != 0 && now.saturating_sub(since) > LINGERS_NS;
        let holds = !is_late && remains::may_hold_memory(pid as u32, image, start);
        self.with_slot_of_dead(pager, slot, || match holds {
            true if since == 0 => group.set_field(slot, Field::LingersSince, now),
            true => {}
            false => {
                group.note_death(slot, now_ns());
                group.add(Notice::Unshared, 1);
            }
        });
        group.field(slot, Field::DeadAt) == 0
    }

    /// Whether another process of the group, which is charged still, is giving back its memory for
    /// good.
    pub(crate) fn is_one_ending(&self, pager: &Pager) -> bool {
        self.charged(pager, Life::Ending).next().is_some()
    }

    /// The slots of others that are charged anything.
    pub(super) fn charged(&self, pager: &Pager, life: Life) -> impl Iterator<Item = usize> {
        self.others(pager, life, |slot| is_charged(self.group, slot))
    }

    /// Those of others that are `meant`. Only leases tell who lives.
    fn others(&self, pager: &Pager, life: Life, meant: impl Fn(usize) -> bool) -> impl Iterator<Item = usize> {
        let (group, own) = (self.group, self.slot());
        let is_leased = |slot: &usize| pager.fds().leases.is_held(*slot);
        (0..group.high_water())
            .filter(move |slot| *slot != own && group.field(*slot, Field::Pid) != 0 && meant(*slot))
            .filter(move |slot| match life {
                Life::Ending if is_leased(slot) => robust::has_ended(group.field(*slot, Field::Teller)),
                Life::Ending => self.lingers(pager, *slot),
                Life::Dead => !is_leased(slot) && !self.lingers(pager, *slot),
            })
    }
}
