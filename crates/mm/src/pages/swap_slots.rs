//! Slots of the swap device, in clusters of 512 (`mm/swapfile.c`: SWAPFILE_CLUSTER).
//!
//! A slot is a page of the device. It is taken when something is written back, not before, and
//! holds parts of one or more blobs, which it counts; it is free again when the last of them is.
//! Clusters are
//! ```text
//! FREE --alloc--> NONFULL --a run did not fit--> FRAG --no free slot is left--> FULL
//!   ^                  ^-----a slot is freed-----/---------------------------------/
//!   \--punched-- DISCARD <--the last slot is freed
//! ```
//! Writes fill one cluster after the other, so they are long and sequential; a cluster that has
//! become empty gives its space back to the filesystem before it is used again.
//!
//! After a fork the child reads the slots that its copy of the swap table names. So the parent must
//! not write to them while the child lives: [`SwapSlots::pin_all`] sets those in use aside,
//! [`SwapSlots::unpin`] returns them. Segments may be set aside ([`aside`]): no slot of theirs is
//! handed out.
//!
//! Equations that [`SwapSlots::is_valid`] checks:
//! * `taken` of a cluster is its slots with a count or a pin, in a segment set aside, or beyond the
//!   device;
//! * a cluster is FREE or DISCARD if and only if no slot of it is taken but those beyond the
//!   device;
//! * a cluster is FULL if and only if all of it is taken;
//! * `in_use` is the number of slots with a count.

mod aside;
#[cfg(test)]
mod test;

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use crate::pages::swap_table::entry::Blob;

use aside::Aside;
pub use aside::SEGMENT;

/// Slots of a cluster.
pub const CLUSTER: u32 = 512;
const BITMAP: usize = CLUSTER as usize / 64;

/// A fork that still needs the slots that were in use when it happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PinId(u64);

/// A bit for each slot of a cluster.
type Bitmap = [u64; BITMAP];

struct Pin {
    id: PinId,
    /// The slots that were in use, by cluster.
    slots: BTreeMap<u32, Bitmap>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Free,
    Nonfull,
    Frag,
    Full,
    Discard,
    /// Its space is being given back at this moment.
    Discarding,
}

struct Cluster {
    state: State,
    /// Blobs that lie in each slot, whole or in part, and writers that hold it. Taken while any is
    /// not 0.
    counts: Option<Box<[u16; CLUSTER as usize]>>,
    /// Slots with a count or a pin, or set aside.
    taken: Bitmap,
}

/// The allocator.
pub struct SwapSlots {
    clusters: Vec<Cluster>,
    free: BTreeSet<u32>,
    nonfull: BTreeSet<u32>,
    frag: BTreeSet<u32>,
    discard: BTreeSet<u32>,
    /// The cluster that is being filled, from this slot on. It is in `nonfull` too.
    current: Option<(u32, u32)>,
    pins: Vec<Pin>,
    next_pin: u64,
    aside: Aside,
    /// Slots that the device can ever have. Those behind them, in its last cluster, are taken.
    size: u64,
    max: u64,
    in_use: u64,
}

fn bit(bits: &Bitmap, slot: u32) -> bool {
    bits[(slot / 64) as usize] & 1 << (slot % 64) != 0
}

fn set_bit(bits: &mut Bitmap, slot: u32) {
    bits[(slot / 64) as usize] |= 1 << (slot % 64);
}

/// The first run of `want` clear bits at or after `from`, or else the longest run there: its start
/// and length.
fn find_run(bits: &Bitmap, from: u32, want: u32) -> (u32, u32) {
    let (mut best, mut start) = ((from, 0), from);
    while start < CLUSTER && best.1 < want {
        let word = bits[(start / 64) as usize];
        if start.is_multiple_of(64) && word == u64::MAX {
            start += 64;
            continue;
        }
        let len = (start..CLUSTER)
            .take_while(|slot| !bit(bits, *slot))
            .take(want as usize)
            .count() as u32;
        if len > best.1 {
            best = (start, len);
        }
        start += len + 1;
    }
    best
}

impl Cluster {
    fn count(&self, slot: u32) -> u16 {
        self.counts.as_ref().map_or(0, |counts| counts[slot as usize])
    }

    /// The slots with a count.
    fn used(&self) -> Bitmap {
        let mut used = [0; BITMAP];
        for slot in (0..CLUSTER).filter(|slot| self.count(*slot) > 0) {
            set_bit(&mut used, slot);
        }
        used
    }
}

impl SwapSlots {
    /// A device of at most `max` slots, which takes space as they are written.
    pub fn new(max: u64) -> Self {
        Self {
            clusters: Vec::new(),
            free: BTreeSet::new(),
            nonfull: BTreeSet::new(),
            frag: BTreeSet::new(),
            discard: BTreeSet::new(),
            current: None,
            pins: Vec::new(),
            next_pin: 0,
            aside: Aside::default(),
            size: max,
            max,
            in_use: 0,
        }
    }

    /// Slots that hold something of ours.
    pub fn in_use(&self) -> u64 {
        self.in_use
    }

    /// Whether there is a swap device at all.
    pub fn is_present(&self) -> bool {
        self.max > 0
    }

    /// Whether a slot may be taken, as far as our own limit goes.
    pub fn has_room(&self) -> bool {
        self.in_use < self.max
    }

    /// `memory.swap.max`: slots above it stay until they are freed.
    pub fn set_max(&mut self, max: u64) {
        self.max = max;
    }

    /// Take up to `want` (at most a cluster's) consecutive slots for a writer: the first and how
    /// many. Each has a count of 1. `None`: the device is full.
    pub fn alloc(&mut self, want: u32) -> Option<(u32, u32)> {
        let room = self.max.saturating_sub(self.in_use);
        let want = want.min(CLUSTER).min(u32::try_from(room).unwrap_or(u32::MAX));
        if want == 0 {
            return None;
        }
        let (cluster, (start, len)) = self.find(want)?;
        let counts = self.clusters[cluster as usize]
            .counts
            .get_or_insert_with(|| Box::new([0; CLUSTER as usize]));
        counts[start as usize..(start + len) as usize].fill(1);
        for slot in start..start + len {
            set_bit(&mut self.clusters[cluster as usize].taken, slot);
        }
        self.in_use += u64::from(len);
        self.current = Some((cluster, start + len));
        self.look_whether_full(cluster);
        let first = cluster * CLUSTER + start;
        self.aside.begin_write(first, len);
        Some((first, len))
    }

    /// A cluster has had slots taken: is it full?
    fn look_whether_full(&mut self, at: u32) {
        if self.clusters[at as usize].taken == [u64::MAX; BITMAP] {
            self.current.take_if(|(current, _)| *current == at);
            self.enlist(at, State::Full);
        }
    }

    /// A cluster and a run in it.
    fn find(&mut self, want: u32) -> Option<(u32, (u32, u32))> {
        if let Some((cluster, next)) = self.current {
            let run = find_run(&self.clusters[cluster as usize].taken, next, want);
            if run.1 == want {
                return Some((cluster, run));
            }
            self.current = None;
        }
        if let Some(cluster) = self.free.pop_first() {
            self.enlist(cluster, State::Nonfull);
            return Some((cluster, find_run(&self.clusters[cluster as usize].taken, 0, want)));
        }
        while let Some(cluster) = self.nonfull.first().copied() {
            let run = find_run(&self.clusters[cluster as usize].taken, 0, want);
            if run.1 == want {
                return Some((cluster, run));
            }
            self.enlist(cluster, State::Frag);
        }
        self.grow()
            .or_else(|| self.discard.first().copied())
            .map(|cluster| {
                self.enlist(cluster, State::Nonfull);
                (cluster, find_run(&self.clusters[cluster as usize].taken, 0, want))
            })
            .or_else(|| self.find_in_fragments(want))
    }

    /// One cluster more, if the device may have it.
    fn grow(&mut self) -> Option<u32> {
        let cluster = self.clusters.len() as u64;
        let limit = self
            .max
            .div_ceil(u64::from(CLUSTER))
            .min(1 << (Blob::AT_BITS - 8 - CLUSTER.ilog2()));
        (cluster < limit).then(|| {
            self.clusters.push(Cluster {
                state: State::Free,
                counts: None,
                taken: self.beyond(cluster as u32),
            });
            cluster as u32
        })
    }

    /// The slots of cluster `at` that the device does not have.
    fn beyond(&self, at: u32) -> Bitmap {
        let first = u64::from(at) * u64::from(CLUSTER);
        let mut beyond = [0; BITMAP];
        let there = self.size.saturating_sub(first).min(u64::from(CLUSTER)) as u32;
        (there..CLUSTER).for_each(|slot| set_bit(&mut beyond, slot));
        beyond
    }

    /// The longest run of the first cluster that has any.
    fn find_in_fragments(&mut self, want: u32) -> Option<(u32, (u32, u32))> {
        self.frag.iter().find_map(|cluster| {
            let run = find_run(&self.clusters[*cluster as usize].taken, 0, want);
            (run.1 > 0).then_some((*cluster, run))
        })
    }

    /// Move a cluster to the list of `state`.
    fn enlist(&mut self, cluster: u32, state: State) {
        for list in [&mut self.free, &mut self.nonfull, &mut self.frag, &mut self.discard] {
            list.remove(&cluster);
        }
        self.clusters[cluster as usize].state = state;
        match state {
            State::Free => self.free.insert(cluster),
            State::Nonfull => self.nonfull.insert(cluster),
            State::Frag => self.frag.insert(cluster),
            State::Discard => self.discard.insert(cluster),
            State::Full | State::Discarding => true,
        };
    }

    /// A blob lies in these slots now.
    pub fn add(&mut self, blob: &Blob) {
        let (first, last) = blob.slots();
        for slot in first..=last {
            let cluster = &mut self.clusters[(slot / CLUSTER) as usize];
            match &mut cluster.counts {
                Some(counts) if counts[(slot % CLUSTER) as usize] > 0 => counts[(slot % CLUSTER) as usize] += 1,
                _ => unreachable!("a blob is put into slots that its writer holds"),
            }
        }
    }

    /// A blob is gone.
    pub fn free(&mut self, blob: &Blob) {
        let (first, last) = blob.slots();
        self.put(first, last + 1 - first);
    }

    /// Take one count off each of `slots` slots: a writer is done with them, or a blob is gone.
    pub fn put(&mut self, first: u32, slots: u32) {
        self.aside.end_write(first, slots);
        for slot in first..first + slots {
            let (at, within) = (slot / CLUSTER, slot % CLUSTER);
            let cluster = &mut self.clusters[at as usize];
            let count = cluster.counts.as_mut().map(|counts| &mut counts[within as usize]);
            match count {
                Some(count) if *count > 0 => *count -= 1,
                _ => panic!("freeing a swap slot that is not in use"),
            }
            if cluster.count(within) == 0 {
                self.in_use -= 1;
                self.release(at, within);
            }
        }
    }

    /// As [`put`](Self::put), by a writer whose write failed: the next one gets these slots, and
    /// not ever more that were never written, since what is known of each costs memory.
    pub fn put_unwritten(&mut self, first: u32, slots: u32) {
        self.put(first, slots);
        let (cluster, start) = (first / CLUSTER, first % CLUSTER);
        match self.clusters[cluster as usize].state {
            State::Discard => self.enlist(cluster, State::Free),
            State::Nonfull => self.current = Some((cluster, start)),
            State::Free | State::Frag | State::Full | State::Discarding => {}
        }
    }

    /// Slot `within` of cluster `at` has no count any more.
    fn release(&mut self, at: u32, within: u32) {
        let is_pinned = |pin: &Pin| pin.slots.get(&at).is_some_and(|bits| bit(bits, within));
        if self.pins.iter().any(is_pinned) || self.stays_aside(at, within) {
            return;
        }
        let cluster = &mut self.clusters[at as usize];
        cluster.taken[(within / 64) as usize] &= !(1 << (within % 64));
        self.look_at(at);
        // What a writer did not need is where the next one goes on.
        if let Some((current, next)) = &mut self.current
            && *current == at
        {
            *next = (*next).min(within);
        }
    }

    /// A cluster has lost slots: is it empty?
    fn look_at(&mut self, at: u32) {
        let beyond = self.beyond(at);
        let cluster = &mut self.clusters[at as usize];
        if cluster.taken == beyond {
            cluster.counts = None;
            self.current.take_if(|(current, _)| *current == at);
            self.enlist(at, State::Discard);
        } else if matches!(cluster.state, State::Frag | State::Full) && cluster.taken != [u64::MAX; BITMAP] {
            self.enlist(at, State::Nonfull);
        }
    }

    /// An empty cluster whose space is to be given back: its first slot.
    /// [`discarded`](Self::discarded) ends it.
    pub fn begin_discard(&mut self) -> Option<u32> {
        let cluster = self.discard.first().copied()?;
        self.enlist(cluster, State::Discarding);
        Some(cluster * CLUSTER)
    }

    /// The space of the cluster that begins with slot `first` was given back.
    pub fn discarded(&mut self, first: u32) {
        self.enlist(first / CLUSTER, State::Free);
    }

    /// Keep every slot in use now from being written until [`unpin`](Self::unpin).
    pub fn pin_all(&mut self) -> PinId {
        self.next_pin += 1;
        let id = PinId(self.next_pin);
        let used = (0..)
            .zip(&self.clusters)
            .filter(|(_, cluster)| cluster.counts.is_some());
        let slots = used.map(|(at, cluster)| (at, cluster.used())).collect();
        self.pins.push(Pin { id, slots });
        id
    }

    /// The child of that pin is gone.
    pub fn unpin(&mut self, id: PinId) {
        let Some(at) = self.pins.iter().position(|pin| pin.id == id) else {
            return;
        };
        let gone = self.pins.remove(at);
        for at in gone.slots.keys().copied() {
            self.note_emptied(at);
            self.retake(at);
        }
    }

    /// What keeps slots of cluster `at` from being handed out has changed.
    fn retake(&mut self, at: u32) {
        self.clusters[at as usize].taken = self.not_free(at);
        if matches!(
            self.clusters[at as usize].state,
            State::Nonfull | State::Frag | State::Full
        ) {
            self.look_at(at);
        }
    }

    /// The slots of cluster `at` that may not be handed out: needed, beyond the size, or set aside.
    fn not_free(&self, at: u32) -> Bitmap {
        let mut taken = self.needed(at);
        let beyond = self.beyond(at);
        taken.iter_mut().zip(beyond).for_each(|(word, beyond)| *word |= beyond);
        self.aside.add_to(at, &mut taken);
        taken
    }

    /// The slots of cluster `at` with a count or a pin.
    fn needed(&self, at: u32) -> Bitmap {
        let mut needed = self.clusters[at as usize].used();
        for bits in self.pins.iter().filter_map(|pin| pin.slots.get(&at)) {
            needed.iter_mut().zip(bits).for_each(|(word, bits)| *word |= bits);
        }
        needed
    }

    /// In a forked child: the slots belong to the parent's device; ours is empty.
    pub fn start_over(&mut self) {
        *self = Self {
            max: self.max,
            ..Self::new(self.size)
        };
    }

    /// Whether the equations above hold.
    #[cfg(test)]
    fn is_valid(&self) -> bool {
        let mut in_use = 0;
        for (at, cluster) in (0..).zip(&self.clusters) {
            in_use += cluster
                .used()
                .iter()
                .map(|word| u64::from(word.count_ones()))
                .sum::<u64>();
            let (taken, beyond) = (self.not_free(at), self.beyond(at));
            let is_idle = matches!(cluster.state, State::Free | State::Discard | State::Discarding);
            let is_full = taken == [u64::MAX; BITMAP];
            if taken != cluster.taken
                || is_idle != (cluster.taken == beyond)
                || is_full != (cluster.state == State::Full)
            {
                return false;
            }
        }
        in_use == self.in_use
    }
}
