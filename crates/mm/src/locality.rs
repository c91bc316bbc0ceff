//! What the neighbours of a page are worth, where faults do not come in sequence.
//!
//! Of a page that was mapped along with its neighbour nobody sees whether it is touched: user space has no accessed bit. So of
//! every [`PROBE_EVERY`] loads one brings its page alone, and the neighbours that it would have brought are watched: those that
//! are faulted before [`PROBES`] more probes were made would have spared a fault each; the others would have been
//! decompressed, mapped, taken out and compressed for nothing. The kernel counts hits of its readahead in the swap cache to the
//! same end (swap_vma_readahead in mm/swap_state.c).
//!
//! The horizon is short on purpose: in the long run every page is touched, and one that is brought early takes the place of
//! another.

use crate::page::{PageRange, Vpn};

/// Loads for each probe (a prime: patterns have periods), and probes that are watched at a time.
const PROBE_EVERY: u32 = 17;
const PROBES: usize = 32;
/// Worth of neighbours that are all wanted. A probe has an eighth of the say.
const ALL: u32 = 256;
const WEIGHT: u32 = 8;
/// Worth from which neighbours are brought: a fault that is spared costs about twice as much as a page that was brought for
/// nothing, and six times as much if it waits for the device.
const WORTHWHILE: u32 = ALL / 2;
const WORTHWHILE_ON_DEVICE: u32 = ALL / 6;

#[derive(Clone, Copy)]
struct Probe {
    run: PageRange,
    wanted: u32,
}

/// What was seen lately.
pub(crate) struct Locality {
    loads: u32,
    probes: [Option<Probe>; PROBES],
    hand: usize,
    worth: u32,
}

impl Default for Locality {
    fn default() -> Self {
        Self {
            loads: 0,
            probes: [None; PROBES],
            hand: 0,
            worth: ALL,
        }
    }
}

impl Locality {
    /// A page is loaded: were its neighbours worth it, had they been loaded with one that is watched?
    pub(crate) fn note_load(&mut self, vpn: Vpn) {
        self.loads = self.loads.wrapping_add(1);
        for probe in self.probes.iter_mut().flatten() {
            probe.wanted += u32::from(probe.run.contains(vpn));
        }
    }

    /// Whether this load is to be a probe.
    pub(crate) fn is_probe(&self) -> bool {
        self.loads.is_multiple_of(PROBE_EVERY)
    }

    /// One of `pages`, which are neighbours, is loaded alone, to see whether the others are faulted.
    pub(crate) fn watch(&mut self, pages: &[Vpn]) {
        let (Some(first), true) = (pages.first(), pages.len() > 1) else {
            return;
        };
        let probe = Probe {
            run: PageRange::new(*first, pages.len() as u64),
            wanted: 0,
        };
        if let Some(over) = self.probes[self.hand].replace(probe) {
            let neighbours = over.run.pages() as u32 - 1;
            let worth = ALL * over.wanted.min(neighbours) / neighbours;
            self.worth = (self.worth * (WEIGHT - 1) + worth).div_ceil(WEIGHT).min(ALL);
        }
        self.hand = (self.hand + 1) % PROBES;
    }

    /// Whether neighbours are worth bringing.
    pub(crate) fn is_worthwhile(&self, is_on_device: bool) -> bool {
        self.worth
            >= match is_on_device {
                true => WORTHWHILE_ON_DEVICE,
                false => WORTHWHILE,
            }
    }
}

#[cfg(test)]
mod test {
    use alloc::vec::Vec;

    use super::*;

    /// Loads of `next()`, each a probe of what is left of its four pages when it is its turn.
    fn loads(locality: &mut Locality, n: u32, mut next: impl FnMut() -> u64) {
        for _ in 0..n {
            let vpn = Vpn::new(next());
            locality.note_load(vpn);
            if locality.is_probe() {
                let pages = PageRange::new(vpn, 4 - vpn.number() % 4).iter();
                locality.watch(&pages.collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn neighbours_are_brought_where_they_are_wanted() {
        let mut locality = Locality::default();
        assert!(locality.is_worthwhile(false));
        let mut x = 1u64;
        let mut random = || {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            x >> 40
        };
        loads(&mut locality, 2000, &mut random);
        assert!(!locality.is_worthwhile(true), "{}", locality.worth);
        // Windows here and there, a page every other time.
        let (mut vpn, mut turn) = (0, 0);
        loads(&mut locality, 4000, || {
            turn += 1;
            match (turn % 2, vpn % 4) {
                (0, _) => return random() | 1 << 30,
                (_, 3) => vpn = random() / 4 * 4,
                _ => vpn += 1,
            }
            vpn
        });
        assert!(locality.is_worthwhile(true), "{}", locality.worth);
    }
}
