//! Fault injection (`lib/fault-inject.c`): a share of the machine's steps fail, as the kernel, the
//! disk or the memory could make them.
//!
//! For tests of real processes: `uzswap run --fail-per-mille N --fail-kinds LIST`. A refused step
//! has done nothing. What was made to fail is counted by kind in the group file. Giving frames up
//! is never made to fail: it cannot, except for a bug.

use core::sync::atomic::{AtomicU64, Ordering};

use uzswap_ctl::{FailKind, Group, Test};
use uzswap_mm::machine::{Done, IoError, Stop};
use uzswap_mm::page::PAGE_SIZE;
use uzswap_sys::cell::Leaked;

use super::swap_file::Swap;

/// How steps fail.
pub(crate) struct FaultAttr {
    group: Leaked<Group>,
    /// Of 1000; 0: none.
    per_mille: AtomicU64,
    /// Which [`FailKind`]s.
    kinds: AtomicU64,
    state: AtomicU64,
    /// One more than the slots of the last reads that were made to fail.
    failed_reads: [AtomicU64; READERS],
}

/// One for the process: its pools ask it too.
pub(crate) static FAULT_ATTR: FaultAttr = FaultAttr {
    group: Leaked::new(),
    per_mille: AtomicU64::new(0),
    kinds: AtomicU64::new(0),
    state: AtomicU64::new(0),
    failed_reads: [const { AtomicU64::new(0) }; READERS],
};

/// splitmix64's last step: any input will do, neighbouring ones included.
fn mix(n: u64) -> u64 {
    let x = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// A move or copy that meets this.
fn kind_of(stop: Stop) -> FailKind {
    match stop {
        Stop::Again => FailKind::MapEagain,
        Stop::Busy => FailKind::MapEbusy,
        Stop::NoMemory => FailKind::MapEnomem,
        Stop::Missing | Stop::Present | Stop::Unmovable | Stop::Needed => FailKind::MapEinval,
    }
}

impl FaultAttr {
    /// Do as the group says from now on.
    pub(crate) fn obey(&self, group: Group) {
        let per_mille = group.get(Test::FailPerMille);
        if per_mille != 0 && self.group.get().is_none() {
            self.group.set(group);
        }
        self.kinds.store(group.get(Test::FailKinds), Ordering::Relaxed);
        self.per_mille.store(per_mille, Ordering::Relaxed);
    }

    fn is_on(&self, kind: FailKind) -> bool {
        self.kinds.load(Ordering::Relaxed) & kind.bit() != 0
    }

    fn count(&self, kind: FailKind) {
        if let Some(group) = self.group.get() {
            group.count_failure(kind);
        }
    }

    /// Whether this step fails, and if so a number to choose how.
    fn should_fail(&self) -> Option<u64> {
        let per_mille = self.per_mille.load(Ordering::Relaxed);
        if per_mille == 0 {
            return None;
        }
        // splitmix64 over a counter: threads need no lock to get different numbers.
        let x = mix(self.state.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed));
        (x % 1000 < per_mille).then_some(x >> 32)
    }

    /// Whether this step fails in one of these ways, and a number to choose the rest.
    fn choose(&self, kinds: &[FailKind]) -> Option<(FailKind, u64)> {
        let bits = self.should_fail()?;
        let on = kinds.iter().filter(|kind| self.is_on(**kind));
        let kind = *on.clone().nth(bits as usize % on.count().max(1))?;
        self.count(kind);
        Some((kind, bits >> 8))
    }

    /// Whether this step fails.
    pub(crate) fn fails(&self, kind: FailKind) -> bool {
        self.choose(&[kind]).is_some()
    }

    /// The outcome of a move or copy that fails, one of `stops`.
    pub(crate) fn stop<const N: usize>(&self, stops: &[Stop; N]) -> Option<Done> {
        let (kind, _) = self.choose(&stops.map(kind_of))?;
        stops
            .iter()
            .find(|stop| kind_of(**stop) == kind)
            .map(|stop| Done::none(*stop))
    }

    /// How this write fails, if it does.
    pub(crate) fn write(&self, swap: &Swap, slot: u32, bytes: &mut [u8]) -> Option<IoError> {
        let (kind, _) = self.choose(&[FailKind::WriteEnospc, FailKind::WriteEio, FailKind::WriteShort])?;
        if kind == FailKind::WriteShort {
            let half = bytes.len() / PAGE_SIZE / 2 * PAGE_SIZE;
            let _ = swap.write(slot, &mut bytes[..half]);
        }
        Some(match kind {
            FailKind::WriteEio => IoError::Failed,
            _ => IoError::NoSpace,
        })
    }

    /// Whether this read of `slots` slots fails. One that has just failed does not, unless a bad
    /// sector is among them.
    pub(crate) fn read_fails(&self, slot: u32, slots: u32) -> bool {
        if self.is_on(FailKind::ReadBad) && (slot..slot + slots).any(|slot| self.is_bad(slot)) {
            self.count(FailKind::ReadBad);
            return true;
        }
        let this = u64::from(slot) + 1;
        let failed = &self.failed_reads[slot as usize % READERS];
        let is_second = failed
            .compare_exchange(this, 0, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok();
        if is_second || !self.fails(FailKind::ReadEio) {
            return false;
        }
        failed.store(this, Ordering::Relaxed);
        true
    }

    fn is_bad(&self, slot: u32) -> bool {
        mix(u64::from(slot)) % 1000 < self.per_mille.load(Ordering::Relaxed)
    }

    /// What was read may be torn: from some sector on, one of its pages is another.
    pub(crate) fn tear(&self, bytes: &mut [u8]) {
        if let Some((_, bits)) = self.choose(&[FailKind::ReadTorn]) {
            let page = bits as usize % (bytes.len() / PAGE_SIZE).max(1);
            let sector = (bits >> 16) as usize % (PAGE_SIZE / SECTOR);
            let torn = bytes.chunks_exact_mut(PAGE_SIZE).nth(page);
            torn.into_iter().for_each(|page| page[sector * SECTOR..].reverse());
        }
    }

    /// A bit of what the pool holds may flip: of a block, not of the links between free objects,
    /// which are its first bytes.
    pub(crate) fn flip<'a>(&self, block: impl FnOnce() -> &'a mut [u8]) {
        if let Some((_, bits)) = self.choose(&[FailKind::PoolFlip]) {
            let block = block();
            let at = LINK + bits as usize % (block.len() - LINK);
            block[at] ^= 1 << (bits >> 20 & 7);
        }
    }
}

/// Failed reads that are remembered, by their first slots: more than threads read at a time.
const READERS: usize = 64;
const SECTOR: usize = 512;
/// Bytes of a block that [`FaultAttr::flip`] leaves alone.
const LINK: usize = 2;
