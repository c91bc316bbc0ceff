//! The automatic limit (`--memory-max auto`): cold memory is given back as long as waiting for it
//! stays within a budget (`--stall`).
//!
//! It is no limit that anybody could run into: the launcher asks for so much to be taken out, as
//! `uzswap reclaim` does, and the processes' kswapds take it out when they come by
//! (`agent/kswapd/cold.rs`). Where the launcher is gone nothing is asked for any more.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use uzswap_ctl::{Field, Group, Notice, Statistic};
use uzswap_mm::page::PAGE_SIZE;
use uzswap_mm::vmstat::Item;
use uzswap_sys::time::now_ns;

use super::process::Stat;
use crate::stall::Stall;

mod controller;

use self::controller::{Controller, Snapshot};

/// Between two looks.
const LOOK: Duration = Duration::from_millis(250);
/// Of more members nobody looks whether they run: they are taken for active.
const MEMBERS_MOST: usize = 64;
/// What /proc counts the time in.
const TICK: Duration = Duration::from_millis(10);

/// Of one group.
#[derive(Default)]
pub(super) struct Auto {
    controller: Controller,
    looked: Option<Instant>,
    activity: Activity,
}

/// How long members have had a core.
#[derive(Default)]
struct Activity {
    /// Of those that were there at the last look, by number and start: ticks.
    before: HashMap<(i32, u64), u64>,
    /// Of all that ever were.
    ran: Duration,
}

impl Auto {
    /// Look at the group, if it is time and its limit is automatic.
    pub(super) fn step(&mut self, group: Group, members: impl ExactSizeIterator<Item = i32>) {
        let Some(Stall(millionths)) = Stall::of(group) else {
            if self.looked.is_some() {
                *self = Self::default();
                group.tell(Notice::ColdAsked, 0);
            }
            return;
        };
        let now = Instant::now();
        let passed = self.looked.map(|looked| now - looked);
        if passed.is_some_and(|passed| passed < LOOK) {
            return;
        }
        self.looked = Some(now);
        group.raise(Statistic::SavedPeak, group.needed().saturating_sub(group.current()));
        self.activity.look(members, passed.unwrap_or_default());
        let budget = millionths as f64 / 1e6;
        let ask = self.controller.ask(budget, snapshot(group, self.activity.ran));
        group.tell(Notice::ColdAsked, ask);
    }
}

impl Activity {
    fn look(&mut self, members: impl ExactSizeIterator<Item = i32>, passed: Duration) {
        if members.len() > MEMBERS_MOST {
            self.ran += passed;
            return;
        }
        let stats = members.filter_map(|pid| Stat::of(pid).map(|stat| ((pid, stat.start), stat.ran)));
        let now: HashMap<_, _> = stats.collect();
        let more = |(who, ran): (&(i32, u64), &u64)| ran.saturating_sub(self.before.get(who).copied().unwrap_or(0));
        self.ran += TICK * now.iter().map(more).sum::<u64>() as u32;
        self.before = now;
    }
}

fn snapshot(group: Group, ran: Duration) -> Snapshot {
    let stat = group.vmstat();
    let resident = match group.sum(Field::Resident) + group.sum(Field::Staged) {
        // Nothing is under a pager's care yet.
        0 => group.current(),
        resident => resident,
    };
    Snapshot {
        now: Duration::from_nanos(now_ns()),
        stalled: Duration::from_nanos(stat.get(Item::StalledNs)),
        ran,
        size: resident,
        taken: group.get(Notice::ColdTaken),
        restored: stat.get(Item::RestoreAnon) * PAGE_SIZE as u64,
    }
}
