//! What the neighbours of a page are worth, where faults do not come in sequence.
//!
//! Of a page that was mapped along with its neighbour nobody sees whether it is touched: user space
//! has no accessed bit. So now and then a load brings its page alone (a *probe*), and the
//! neighbours that it would have brought are watched for a while. The kernel counts hits of its
//! readahead in the swap cache to the same end (swap_vma_readahead in mm/swap_state.c).
//!
//! In the long run every page is touched, and one that is brought early takes the place of another.
//! So what counts is how many more of the neighbours are faulted than chance would have it, were
//! all stored pages as likely as each other. A page from the pool is brought with its neighbours if
//! many of them are wanted soon. For one from the device it is enough if neighbours are wanted more
//! than others: the wait for it costs as much as many pages that were brought for nothing. Hot
//! pages lie beside each other, though which is touched next is nobody's guess.
//!
//! But what is wanted only after it has left again was brought for nothing in any case. So nobody
//! looks for longer than a page stays that nothing is known of ([`Span`]). A page that is touched
//! now and then has others like it beside it, and they fill memory where the hot ones are there
//! already.

use crate::page::{PageRange, Vpn};
use crate::policy::tunables::{Neighbours, PROBES};

/// What faults are counted against.
#[derive(Clone, Copy)]
pub(crate) struct Span {
    stored: u64,
    /// How long a page stays that is brought along.
    stay: u64,
    /// In how many faults as many probes follow each other as are watched at a time.
    horizon: u64,
}

impl Span {
    /// About `stored` pages are, and so many resident ones leave before one that is mapped now,
    /// unless it proves that it is wanted: four with each fault, since that is what is to be
    /// judged. Where they are more than half of the stored ones no probe is watched for so long.
    pub(crate) fn new(tunables: &Neighbours, stored: u64, before: u64) -> Self {
        let stored = stored.max(tunables.stored_least);
        let stay = (before >> tunables.near_order).max(tunables.age_least);
        Self {
            stored,
            stay,
            horizon: (stored / tunables.horizon).min(stay * tunables.stays),
        }
    }
}

/// Which neighbours are worth bringing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    None,
    Near,
    All,
}

struct Probe {
    /// The page that was loaded alone, and it with its neighbours.
    own: Vpn,
    run: PageRange,
    /// The near ones, and the others.
    neighbours: [u64; 2],
    /// Of the near ones, and of the others.
    wanted: [u64; 2],
    /// Faults before it was.
    since: u64,
    /// For how many faults its neighbours would have stayed.
    stay: u64,
}

/// Whether two pages are of one aligned folio of 2^`order` pages.
fn is_near(order: u32, own: Vpn, page: Vpn) -> bool {
    page.number() >> order == own.number() >> order
}

/// What became of neighbours that are watched.
#[derive(Clone, Copy, Default)]
struct Seen {
    watched: f32,
    wanted: f32,
    by_chance: f32,
    /// Of those watched and those wanted, how many were watched for as long as they would have
    /// stayed.
    stayed: [f32; 2],
}

impl Seen {
    /// A fault that is spared costs about twice as much as a page that was brought for nothing.
    /// `None`: nobody knows.
    fn is_worth_a_load(self, tunables: &Neighbours) -> Option<bool> {
        (self.watched >= tunables.watched_least)
            .then_some(self.wanted - self.by_chance >= self.watched * tunables.load_gain)
    }

    /// Whether they are wanted while they stay, and at all.
    fn is_worth_a_read(self, tunables: &Neighbours) -> Option<bool> {
        let [watched, wanted] = self.stayed;
        match watched >= tunables.watched_least && wanted * tunables.read_share < watched {
            true => Some(false),
            false => self.is_warm(tunables),
        }
    }

    /// So many more than by chance that it is none, or so few that there is nothing to it.
    fn is_warm(self, tunables: &Neighbours) -> Option<bool> {
        if self.wanted >= self.by_chance * tunables.warm_ratio + tunables.warm_more {
            return Some(true);
        }
        (self.by_chance >= tunables.chance_least && self.wanted < self.by_chance * tunables.cold_ratio).then_some(false)
    }
}

/// What was seen lately.
pub(crate) struct Locality {
    tunables: &'static Neighbours,
    faults: u64,
    next: u64,
    probes: [Option<Probe>; PROBES],
    hand: usize,
    is_near_worth_a_load: bool,
    /// The near ones, and the others.
    are_worth_a_read: [bool; 2],
}

impl Locality {
    /// Nothing was seen yet: neighbours are worth it.
    pub(crate) fn new(tunables: &'static Neighbours) -> Self {
        Self {
            tunables,
            faults: 0,
            next: tunables.every_least,
            probes: [const { None }; PROBES],
            hand: 0,
            is_near_worth_a_load: true,
            are_worth_a_read: [true; 2],
        }
    }

    /// A stored page is faulted. Whether what was seen is to be judged anew.
    pub(crate) fn note_load(&mut self, vpn: Vpn) -> bool {
        self.faults += 1;
        for probe in self.probes.iter_mut().flatten() {
            if probe.run.contains(vpn) && vpn != probe.own && self.faults - probe.since <= probe.stay {
                probe.wanted[usize::from(!is_near(self.tunables.near_order, probe.own, vpn))] += 1;
            }
        }
        self.faults.is_multiple_of(self.tunables.judge_every)
    }

    /// Whether this load is to be a probe.
    pub(crate) fn is_probe(&self) -> bool {
        self.faults >= self.next
    }

    /// `vpn`, one of `pages` neighbours, is loaded alone, to see whether the others are faulted.
    pub(crate) fn watch(&mut self, vpn: Vpn, pages: &[Vpn], span: Span) {
        let (Some(first), true) = (pages.first(), pages.len() > 1) else {
            return;
        };
        self.next = self.faults + (span.horizon / PROBES as u64).max(self.tunables.every_least);
        let run = PageRange::new(*first, pages.len() as u64);
        let near = run
            .iter()
            .filter(|page| is_near(self.tunables.near_order, vpn, *page))
            .count() as u64;
        self.probes[self.hand] = Some(Probe {
            own: vpn,
            run,
            neighbours: [near - 1, run.pages() - near],
            wanted: [0; 2],
            since: self.faults,
            stay: span.stay,
        });
        self.hand = (self.hand + 1) % PROBES;
    }

    /// Whether neighbours are worth it.
    pub(crate) fn judge(&mut self, span: Span) {
        let (now, mut seen) = (self.faults, [Seen::default(); 2]);
        for probe in &mut self.probes {
            // Of a scan there are many faults and no probes: those from before it would be full of
            // what it has passed.
            let _ = probe.take_if(|probe| now - probe.since > span.horizon * 2);
        }
        for probe in self.probes.iter().flatten() {
            let age = now - probe.since;
            if age < self.tunables.age_least {
                continue;
            }
            let chance = age.min(probe.stay) as f32 / span.stored as f32;
            for ((seen, neighbours), wanted) in seen.iter_mut().zip(probe.neighbours).zip(probe.wanted) {
                seen.watched += neighbours as f32;
                seen.wanted += wanted.min(neighbours) as f32;
                seen.by_chance += neighbours as f32 * chance;
                if age >= probe.stay {
                    seen.stayed[0] += neighbours as f32;
                    seen.stayed[1] += wanted.min(neighbours) as f32;
                }
            }
        }
        if let Some(verdict) = seen[0].is_worth_a_load(self.tunables) {
            self.is_near_worth_a_load = verdict;
        }
        for (worth, seen) in self.are_worth_a_read.iter_mut().zip(seen) {
            *worth = seen.is_worth_a_read(self.tunables).unwrap_or(*worth);
        }
    }

    /// Which neighbours are worth bringing. From the pool it is the near ones at most.
    pub(crate) fn reach(&self, is_on_device: bool) -> Reach {
        match (is_on_device, self.are_worth_a_read, self.is_near_worth_a_load) {
            (true, [true, true], _) => Reach::All,
            (true, [true, false], _) | (false, _, true) => Reach::Near,
            (true, [false, _], _) | (false, _, false) => Reach::None,
        }
    }
}

impl Reach {
    /// The part of `window` around `vpn` that is worth bringing.
    pub(crate) fn narrow(self, near_order: u32, window: PageRange, vpn: Vpn) -> PageRange {
        let near = PageRange::new(Vpn::new(vpn.number() >> near_order << near_order), 1 << near_order);
        match self {
            Self::All => window,
            Self::Near => PageRange {
                start: window.start.max(near.start),
                end: window.end.min(near.end),
            },
            Self::None => PageRange::new(vpn, 1),
        }
    }
}

#[cfg(test)]
mod test {
    use alloc::vec::Vec;

    use super::*;
    use crate::policy::tunables::Tunables;

    const NEIGHBOURS: &Neighbours = &Tunables::DEFAULT.neighbours;
    const STORED: u64 = 20_000;
    const SPAN: Span = Span {
        stored: STORED,
        stay: STORED / 4,
        horizon: STORED / 8,
    };

    /// Loads of `next()`, each a probe of what is left of its eight pages when it is its turn.
    fn loads(locality: &mut Locality, n: u32, next: impl FnMut() -> u64) {
        loads_of(locality, SPAN, n, next);
    }

    fn loads_of(locality: &mut Locality, span: Span, n: u32, mut next: impl FnMut() -> u64) {
        for _ in 0..n {
            let vpn = Vpn::new(next());
            if locality.note_load(vpn) {
                locality.judge(span);
            }
            if locality.is_probe() {
                let pages: Vec<Vpn> = PageRange::new(vpn, 8 - vpn.number() % 8).iter().collect();
                locality.watch(vpn, &pages, span);
            }
        }
    }

    fn random(x: &mut u64) -> u64 {
        *x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        *x >> 40
    }

    #[test]
    #[cfg_attr(miri, ignore = "tens of thousands of loads, of nothing but numbers")]
    fn neighbours_that_are_wanted_soon_are_brought() {
        let (mut locality, mut x) = (Locality::new(NEIGHBOURS), 1);
        assert_eq!(
            [false, true].map(|device| locality.reach(device)),
            [Reach::Near, Reach::All]
        );
        loads(&mut locality, 20_000, || random(&mut x) % STORED);
        assert_eq!([false, true].map(|device| locality.reach(device)), [Reach::None; 2]);
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
        assert_eq!(locality.reach(false), Reach::Near);
        assert_ne!(locality.reach(true), Reach::None);
    }

    #[test]
    #[cfg_attr(miri, ignore = "tens of thousands of loads, of nothing but numbers")]
    fn what_is_wanted_after_it_has_left_again_is_not_brought() {
        let (mut locality, mut x) = (Locality::new(NEIGHBOURS), 1);
        // One cluster in five, of which each page is loaded once in 4,000 times.
        let mut warm = || {
            let cluster = random(&mut x) % (STORED / 20);
            cluster * 20 + random(&mut x) % 4
        };
        loads(&mut locality, 20_000, &mut warm);
        assert_eq!(locality.reach(true), Reach::Near);
        let hot_ones_are_there = Span::new(NEIGHBOURS, STORED, 400);
        loads_of(&mut locality, hot_ones_are_there, 2000, &mut warm);
        assert_eq!(locality.reach(true), Reach::None);
        loads(&mut locality, 20_000, &mut warm);
        assert_eq!(locality.reach(true), Reach::Near);
    }

    #[test]
    #[cfg_attr(miri, ignore = "tens of thousands of loads, of nothing but numbers")]
    fn where_hot_pages_lie_together_they_are_brought_from_the_device() {
        let (mut locality, mut x) = (Locality::new(NEIGHBOURS), 1);
        loads(&mut locality, 20_000, || random(&mut x) % STORED);
        assert_eq!(locality.reach(true), Reach::None);
        // One cluster in five, each of its pages at any time.
        loads(&mut locality, 20_000, || {
            let cluster = random(&mut x) % (STORED / 20);
            cluster * 20 + random(&mut x) % 4
        });
        assert_eq!(
            [false, true].map(|device| locality.reach(device)),
            [Reach::None, Reach::Near]
        );
    }
}
