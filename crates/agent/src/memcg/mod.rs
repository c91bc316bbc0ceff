//! Charging the group, and its limit.
//!
//! A process is charged for the anonymous memory that it really has. The engine counts mapped,
//! staged and pool pages, exactly at any moment. kswapd samples everything else in `RssAnon`: the
//! unmanaged memory and the agent's own. Pages shared with a forked relative are charged by the
//! share that the kernel reckons.
//!
//! Until a process has mapped [`deferral::ACTIVATE_BYTES`] it has no pager: a shell or a compiler
//! driver costs nothing. What it has is charged by the launcher's census, as for processes without
//! an agent ([`Notice::Census`]).

mod death;
pub(crate) mod deferral;
pub(crate) mod oldest;
mod oom;
mod sharing;
mod watermarks;

use core::ffi::CStr;
use core::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, AtomicUsize, Ordering, fence};

use uzswap_ctl::{Field, Group, Limit};
use uzswap_mm::machine::Mapper;
use uzswap_mm::page::PAGE_SIZE;
use uzswap_sys::time::now_ns;

use crate::pager::Pager;
pub(crate) use sharing::Sharers;

/// What a process is charged: bytes of memory, pages of the pool, slots of the device.
const CHARGES: [Field; 5] = [
    Field::Charge,
    Field::PoolCharge,
    Field::SwapCharge,
    Field::Unseen,
    Field::Copyable,
];

/// Who waits for room says so more often than this.
const LACK_NS: u64 = 1_000_000_000;
/// The part of the limit that is left to them at most.
const RESERVED_SHARE: u64 = 8;

/// Room that is not worth making for a child.
const CHILD_ROOM_MIN: u64 = 1 << 20;

/// Children that room is made for at the first fork: until relatives are gone there is next to
/// nothing that would make more.
pub(crate) const CHILDREN: u64 = 4;

/// What a forked child has alone as soon as it has a pager: its threads' stacks and what they write
/// to. Measured: 0.8 MiB. Bytes.
pub(crate) const CHILD_OWN: u64 = 1 << 20;

/// How far a process is.
#[derive(Clone, Copy)]
enum Life {
    /// Its pager's threads have let go of its memory, as have the others or they are about to.
    Ending,
    /// All of its threads are gone, and so is its memory.
    Dead,
}

/// Whether the process in this slot is charged anything.
pub(crate) fn is_charged(group: Group, slot: usize) -> bool {
    CHARGES.iter().any(|charge| group.field(slot, *charge) != 0)
}

/// One process's account.
pub(crate) struct Memcg {
    group: Group,
    /// Of the group's file.
    path: &'static CStr,
    slot: AtomicUsize,
    /// `RssAnon` beyond what the engine counts, less what is shared with relatives; bytes.
    beyond: AtomicI64,
    /// Of the program's memory, while that is deferred; sampled, bytes.
    touched: AtomicUsize,
    /// 1: a forked relative may share pages with us.
    shares: AtomicU8,
    /// Pages of the pool that we were forked with and whoever stored them is charged for, as long
    /// as we share.
    pool_inherited: AtomicU64,
    /// What is known of that holds.
    is_settled: AtomicBool,
    /// Memory that what is shared leaves to work with, if that is known; else [`u64::MAX`]. Bytes.
    workable: AtomicU64,
    /// Writers of what relatives share wait for room.
    is_gated: AtomicBool,
    /// When one of them had waited for long enough. Nanoseconds.
    copied_at: AtomicU64,
    /// Faults of this process that brought what the engine counts, and of the one that forked it
    /// before that.
    faults: AtomicU64,
    boost: watermarks::Boost,
}

impl Memcg {
    pub(crate) fn new(group: Group, slot: usize, path: &'static CStr) -> Self {
        Self {
            group,
            path,
            slot: AtomicUsize::new(slot),
            beyond: AtomicI64::new(0),
            touched: AtomicUsize::new(0),
            shares: AtomicU8::new(0),
            pool_inherited: AtomicU64::new(0),
            is_settled: AtomicBool::new(false),
            workable: AtomicU64::new(u64::MAX),
            is_gated: AtomicBool::new(false),
            copied_at: AtomicU64::new(0),
            faults: AtomicU64::new(0),
            boost: watermarks::Boost::new(),
        }
    }

    pub(crate) fn group(&self) -> Group {
        self.group
    }

    /// The path of its file.
    pub(crate) fn path(&self) -> &'static CStr {
        self.path
    }

    pub(crate) fn slot(&self) -> usize {
        self.slot.load(Ordering::Relaxed)
    }

    /// In a forked child: charge another slot from now on.
    pub(crate) fn set_slot(&self, slot: usize) {
        self.slot.store(slot, Ordering::Relaxed);
    }

    /// A thread of the program waits for a page that is missing.
    pub(crate) fn note_fault(&self) {
        self.faults.fetch_add(1, Ordering::Relaxed);
    }

    /// A thread of the program has waited for `ns` nanoseconds.
    pub(crate) fn note_waited(&self, ns: u64) {
        self.group
            .word(self.slot(), Field::Waited)
            .fetch_add(ns, Ordering::Relaxed);
    }

    /// Faults that [`note_fault`](Self::note_fault) and [`note_adopted`](Self::note_adopted)
    /// counted.
    pub(crate) fn faults(&self) -> u64 {
        self.faults.load(Ordering::Relaxed)
    }

    /// Sampled: `rss_anon` bytes, of which the engine counted `counted` and `shared` are charged to
    /// relatives; less than nothing: what relatives have besides is charged to us.
    pub(crate) fn sample(&self, rss_anon: usize, counted: usize, shared: i64) {
        let beyond = rss_anon.saturating_sub(counted) as i64 - shared;
        self.beyond.store(beyond, Ordering::Relaxed);
    }

    /// So many pages were sampled as beyond what the engine counts, which counts them now.
    pub(crate) fn note_adopted(&self, pages: u64) {
        self.faults.fetch_add(pages, Ordering::Relaxed);
        self.beyond
            .fetch_sub((pages as usize * PAGE_SIZE) as i64, Ordering::Relaxed);
    }

    /// Sampled: so many bytes of the program's memory are touched.
    pub(crate) fn note_touched(&self, bytes: usize) {
        self.touched.store(bytes, Ordering::Relaxed);
    }

    /// Our charge now, in bytes; also told to the group.
    pub(crate) fn charge(&self, pager: &Pager) -> u64 {
        let counted = (pager.mm.usage_pages() as usize * PAGE_SIZE) as i64;
        let twice = self.group.field(self.slot(), Field::Twice) as i64;
        let charge = (counted + self.beyond.load(Ordering::Relaxed) - twice).max(0) as u64;
        self.group.set_field(self.slot(), Field::Charge, charge);
        charge
    }

    /// The group's charge now, in bytes.
    pub(crate) fn current(&self, pager: &Pager) -> u64 {
        self.charge(pager);
        self.group.current()
    }

    /// Memory to work with, as far as it is known that it is less than memory.max. Bytes.
    fn workable(&self) -> u64 {
        self.workable.load(Ordering::Relaxed).min(self.group.memory_max())
    }

    /// As [`workable`](Self::workable), in pages.
    pub(crate) fn workable_pages(&self) -> u64 {
        self.workable() / PAGE_SIZE as u64
    }

    /// Whether a child that is forked now would have next to no memory that it does not share.
    pub(crate) fn lacks_room_for_child(&self, pager: &Pager) -> bool {
        let room = (self.group.memory_max() / 16).min(16 << 20);
        // Of a small process in a big group little is shared. Where there are relatives already,
        // most of what leaves is shared with them. Where pages are copied out, the thread that
        // forks has the turn that it takes.
        let room = room.min(self.charge(pager) / 8);
        room >= CHILD_ROOM_MIN && !self.shares() && !pager.mm.machine().copies() && self.excess(pager, room) > 0
    }

    /// Bytes that may still be charged before background reclaim starts.
    pub(crate) fn headroom(&self, pager: &Pager) -> u64 {
        self.high(pager).saturating_sub(self.current(pager))
    }

    /// Bytes by which `want` more would exceed the limit.
    pub(crate) fn excess(&self, pager: &Pager, want: u64) -> u64 {
        (self.current(pager) + want).saturating_sub(self.max())
    }

    /// A fault waits until `room` bytes are free; 0: none waits. All processes of the group hear of
    /// it, since it may be they who have what there is to reclaim, and each thinks that there is
    /// room enough when there is enough for itself.
    pub(crate) fn lack(&self, room: u64) {
        if room > 0 || self.group.field(self.slot(), Field::Lacks) > 0 {
            self.group.lack(self.slot(), room, now_ns());
        }
    }

    /// The most that a fault of any process of the group waits for, in bytes. A process that was
    /// stopped meanwhile waits for nothing.
    pub(crate) fn lacked(&self) -> u64 {
        self.group.lacked(now_ns().saturating_sub(LACK_NS))
    }

    /// What others wait for who have nothing to give up. Who has, and takes what is free as soon as
    /// it is free, would have them wait for ever. 0 if we have less than the `room` that we need.
    pub(crate) fn reserved(&self, room: u64) -> u64 {
        if !self.group.has_to_give(self.slot(), room) {
            return 0;
        }
        let then = now_ns().saturating_sub(LACK_NS);
        let lacks = self.group.lacked_by_helpless(self.slot(), then);
        lacks.min(self.group.memory_max() / RESERVED_SHARE)
    }

    /// Charge `want` slots of the swap device beyond the `in_use` that we have, or as many as
    /// `memory.swap.max` leaves. Of two processes that ask for the last of it at the same moment,
    /// each sees the other's charge, and both may go away with less.
    pub(crate) fn charge_swap(&self, in_use: u64, want: u64) -> u64 {
        let charge = |slots| self.group.set_field(self.slot(), Field::SwapCharge, slots);
        charge(in_use + want);
        // Our charge before the look at others': pairs with the same in their processes.
        fence(Ordering::SeqCst);
        let max = self.group.get(Limit::SwapMax) / PAGE_SIZE as u64;
        let allowed = want.saturating_sub(self.group.sum(Field::SwapCharge).saturating_sub(max));
        if allowed < want {
            charge(in_use + allowed);
        }
        allowed
    }

    /// Take as our own what others leave of the group's limits of pool and device.
    pub(crate) fn share_limits(&self, pager: &Pager) {
        let (max, accept) = self.charge_pool(pager.mm.charge_swap_in_use());
        // Read after the limit and set before: who forbids writeback and then lowers the limit sees
        // nothing written.
        pager.mm.set_writeback(self.group.is_on(Limit::ZswapWriteback));
        pager.mm.set_pool_limit(max, accept);
    }

    /// What the pool's limit, which is the group's, leaves to us: the most pages, and to how many
    /// it is drained once it had them.
    fn charge_pool(&self, pages: u64) -> (u64, u64) {
        let inherited = pages.min(self.pool_inherited.load(Ordering::Relaxed));
        let ours = pages - inherited;
        self.group.set_field(self.slot(), Field::PoolCharge, ours);
        let others = self.group.sum(Field::PoolCharge).saturating_sub(ours);
        let left = |bytes: u64| match (bytes / PAGE_SIZE as u64).saturating_sub(others) {
            // Nothing is left: zswap is shut to us.
            0 => 0,
            left => left.saturating_add(inherited),
        };
        (
            left(self.group.pool_limit_bytes()),
            left(self.group.pool_accept_bytes()),
        )
    }

    /// Our part of what the pools of all processes have to lose while the group is short of memory
    /// and they are full: a process that stores nothing would keep the others from doing so. In
    /// pages; 0 if no other has any.
    pub(crate) fn pool_surplus(&self, pager: &Pager) -> u64 {
        let page = PAGE_SIZE as u64;
        let ours = self.group.field(self.slot(), Field::PoolCharge);
        let all = self.group.sum(Field::PoolCharge);
        let limit = self.group.pool_limit_bytes() / page;
        // What relatives have too frees nothing when it goes to the device.
        let is_full = all >= limit - limit / 64 && !self.shares();
        if ours == 0 || all == ours || !is_full || self.headroom(pager) > 0 {
            return 0;
        }
        let surplus = u128::from(all.saturating_sub(self.group.pool_accept_bytes() / page));
        (surplus * u128::from(ours) / u128::from(all)) as u64
    }
}
