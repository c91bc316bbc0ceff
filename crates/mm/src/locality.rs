//! What the neighbours of a page are worth, where faults do not come in sequence.
//!
//! Of a page that was mapped along with its neighbour nobody sees whether it is touched: user space has no accessed bit. So now and
//! then a load brings its page alone (a *probe*), and the neighbours that it would have brought are watched for a while. The kernel counts
//! hits of its readahead in the swap cache to the same end (swap_vma_readahead in mm/swap_state.c).
//!
//! In the long run every page is touched, and one that is brought early takes the place of another. So what counts is how many more
//! of the neighbours are faulted than chance would have it, were all stored pages as likely as each other. A page from the pool is brought with its
//! neighbours if many of them are wanted soon; one from the device already if neighbours are wanted more than others, since the wait for it costs as much
//! as many pages that were brought for nothing: hot pages lie beside each other, though which is touched next is nobody's guess.

use crate::page::{PageRange, Vpn};

/// Probes that are watched at a time.
const PROBES: usize = 64;
/// While one is watched, faults are as many as one part in so many of the stored pages.
const HORIZON: u64 = 8;
/// Faults from one probe to the next at least (a prime: patterns have periods).
const EVERY_LEAST: u64 = 17;
/// Faults after which a probe has a say.
const AGE_LEAST: u64 = 64;
/// Faults between two verdicts.
const JUDGE_EVERY: u64 = 16;
/// Neighbours that are watched at least for a verdict.
const WATCHED_LEAST: f32 = 32.0;

struct Probe {
    /// The page that was loaded alone, and it with its neighbours.
    own: Vpn,
    run: PageRange,
    wanted: u64,
    /// Faults before it was.
    since: u64,
}

impl Probe {
    fn neighbours(&self) -> u64 {
        self.run.pages() - 1
    }
}

/// What was seen lately.
pub(crate) struct Locality {
    faults: u64,
    next: u64,
    probes: [Option<Probe>; PROBES],
    hand: usize,
    is_worthwhile: bool,
    is_worthwhile_on_device: bool,
}

impl Default for Locality {
    fn default() -> Self {
        Self {
            faults: 0,
            next: EVERY_LEAST,
            probes: [const { None }; PROBES],
            hand: 0,
            is_worthwhile: true,
            is_worthwhile_on_device: true,
        }
    }
}

impl Locality {
    /// A stored page is faulted. Whether what was seen is to be judged anew.
    pub(crate) fn note_load(&mut self, vpn: Vpn) -> bool {
        self.faults += 1;
        for probe in self.probes.iter_mut().flatten() {
            probe.wanted += u64::from(probe.run.contains(vpn) && vpn != probe.own);
        }
        self.faults.is_multiple_of(JUDGE_EVERY)
    }

    /// Whether this load is to be a probe.
    pub(crate) fn is_probe(&self) -> bool {
        self.faults >= self.next
    }

    /// `vpn`, one of `pages` neighbours, is loaded alone, to see whether the others are faulted.
    pub(crate) fn watch(&mut self, vpn: Vpn, pages: &[Vpn], stored: u64) {
        let (Some(first), true) = (pages.first(), pages.len() > 1) else {
            return;
        };
        self.next = self.faults + (stored / HORIZON / PROBES as u64).max(EVERY_LEAST);
        self.probes[self.hand] = Some(Probe {
            own: vpn,
            run: PageRange::new(*first, pages.len() as u64),
            wanted: 0,
            since: self.faults,
        });
        self.hand = (self.hand + 1) % PROBES;
    }

    /// Whether neighbours are worth it, where about `stored` pages are.
    pub(crate) fn judge(&mut self, stored: u64) {
        let (mut watched, mut wanted, mut by_chance) = (0.0, 0.0, 0.0);
        for probe in self.probes.iter().flatten() {
            let age = self.faults - probe.since;
            if age >= AGE_LEAST {
                let neighbours = probe.neighbours() as f32;
                watched += neighbours;
                wanted += probe.wanted.min(probe.neighbours()) as f32;
                by_chance += neighbours * (age as f32 / stored.max(1) as f32).min(1.0);
            }
        }
        if watched < WATCHED_LEAST {
            return;
        }
        // A fault that is spared costs about twice as much as a page that was brought for nothing.
        self.is_worthwhile = wanted - by_chance >= watched * 0.4;
        // So many more than by chance that it is none, or so few that there is nothing to it.
        if wanted >= by_chance * 1.6 + 4.0 {
            self.is_worthwhile_on_device = true;
        } else if by_chance >= 4.0 && wanted < by_chance * 1.3 {
            self.is_worthwhile_on_device = false;
        }
    }

    /// Whether neighbours are worth bringing.
    pub(crate) fn is_worthwhile(&self, is_on_device: bool) -> bool {
        match is_on_device {
            true => self.is_worthwhile_on_device,
            false => self.is_worthwhile,
        }
    }
}

#[cfg(test)]
mod test {
    use alloc::vec::Vec;

    use super::*;

    const STORED: u64 = 20_000;

    /// Loads of `next()`, each a probe of what is left of its four pages when it is its turn.
    fn loads(locality: &mut Locality, n: u32, mut next: impl FnMut() -> u64) {
        for _ in 0..n {
            let vpn = Vpn::new(next());
            if locality.note_load(vpn) {
                locality.judge(STORED);
            }
            if locality.is_probe() {
                let pages: Vec<Vpn> = PageRange::new(vpn, 4 - vpn.number() % 4).iter().collect();
                locality.watch(vpn, &pages, STORED);
            }
        }
    }

    fn random(x: &mut u64) -> u64 {
        *x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        *x >> 40
    }

    #[test]
    fn neighbours_that_are_wanted_soon_are_brought() {
        let (mut locality, mut x) = (Locality::default(), 1);
        assert!(locality.is_worthwhile(false) && locality.is_worthwhile(true));
        loads(&mut locality, 20_000, || random(&mut x) % STORED);
        assert!(!locality.is_worthwhile(false) && !locality.is_worthwhile(true));
        // Windows here and there, three pages of four.
        let (mut vpn, mut turn) = (0, 0);
        loads(&mut locality, 20_000, || {
            turn += 1;
            match (turn % 4, vpn % 4) {
                (0, _) => return random(&mut x) | 1 << 30,
                (_, 3) => vpn = random(&mut x) / 4 * 4,
                _ => vpn += 1,
            }
            vpn
        });
        assert!(locality.is_worthwhile(false) && locality.is_worthwhile(true));
    }

    #[test]
    fn where_hot_pages_lie_together_they_are_brought_from_the_device() {
        let (mut locality, mut x) = (Locality::default(), 1);
        loads(&mut locality, 20_000, || random(&mut x) % STORED);
        assert!(!locality.is_worthwhile(true));
        // One cluster in five, each of its pages at any time.
        loads(&mut locality, 20_000, || {
            let cluster = random(&mut x) % (STORED / 20);
            cluster * 20 + random(&mut x) % 4
        });
        assert!(locality.is_worthwhile(true) && !locality.is_worthwhile(false));
    }
}
