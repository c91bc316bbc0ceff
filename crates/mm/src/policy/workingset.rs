//! Balance between the resident pages and the pool (`mm/workingset.c`; `lru_note_cost` in
//! `mm/swap.c`).
//!
//! What the pool holds oldest can go to the device, and the memory that it took to the resident
//! pages. Each load from the pool says which part of the pool would have had to go for that
//! ([`Depth`]). How many eighths of the pool, as resident memory, would have kept the page? And
//! with how many gone would it have been on the device? The oldest go first, and those last that
//! writeback passes over once. As many of the youngest as have become resident need no entry: where
//! pages do not compress, nothing goes to the device for it. A load that is spared is a gain. One
//! from the device costs as many as it takes as long ([`Costs`]). So it is known of each number of
//! eighths what it would be worth, and the best one decides. Loads that it spares let reclaim send
//! on a few entries instead of taking resident pages. Those that it sends to the device take many
//! back.
//!
//! All numbers are weighed, not the first eighth alone. What a program needs may lie just beyond
//! it: then the pool stays as it is for ever, full of what nobody needs, though half of it gone
//! would end the waiting.
//!
//! A pool whose oldest entries are as warm as the youngest stays as it is, in a scan as well as at
//! random. A read from the device counts as much as it is likely to be of a page that was sent on
//! for this: others were sent on before it was known what is hot.
//!
//! There are no young entries to be seen where the hot ones nearly fit: what reclaim takes is
//! wanted again while it is staged. So where more is taken back than is stored, that counts as
//! well.

use crate::policy::costs::Costs;
use crate::policy::tunables::{self, PARTS};

/// What the pool is, of which parts may go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packing {
    /// What it holds.
    pub(crate) entries: u64,
    /// What that takes.
    pub(crate) pages: u64,
}

impl Packing {
    /// Of so many entries that go to the device, those that are missed in memory: each page that
    /// comes free holds one of the others, which needs no entry then. Where pages do not compress
    /// none is missed.
    fn missed(self, entries: u64) -> u64 {
        entries * self.entries.saturating_sub(self.pages) / self.entries.max(1)
    }
}

/// A page of the pool that is faulted: with how many parts of the pool gone, from one on, what?
#[derive(Clone, Copy, Debug)]
pub(crate) struct Depth {
    /// Their memory would have kept it resident. More than there are: none would have.
    spared_with: usize,
    /// The part that it is in, the oldest is 1. More than there are: it is in none.
    part: usize,
    pool: Packing,
}

impl Depth {
    /// Of a page in this part of the pool that so many pages were stored after. `None`: nobody
    /// knows.
    pub(crate) fn new(distance: Option<u64>, part: usize, pool: Packing) -> Self {
        let frames = (pool.pages / PARTS as u64).max(1);
        let parts = |distance: u64| distance.div_ceil(frames).clamp(1, PARTS as u64 + 1) as usize;
        Self {
            spared_with: distance.map_or(PARTS + 1, parts),
            part,
            pool,
        }
    }

    /// What it would be worth if so many parts had gone, a load that is spared counting `whole`.
    /// What would be resident would not be on the device.
    fn worth(self, parts: usize, read_cost: i64, whole: u64) -> i64 {
        if self.spared_with <= parts {
            return whole as i64;
        }
        // The oldest go first. Of the last part that is missed, all are as likely.
        let before = (self.part as u64 - 1) * whole;
        let missed = self.pool.missed(parts as u64 * whole);
        -read_cost * missed.saturating_sub(before).min(whole) as i64
    }
}

/// Entries that may be sent on.
pub(crate) struct Balance {
    tunables: &'static tunables::Balance,
    costs: Costs,
    /// What a load from the device costs, in loads from the pool.
    read_cost: i64,
    owed: i64,
    /// What it would have been worth if so many parts of the pool had gone, from one on, in
    /// [`chances`](tunables::Balance) of a load; what was long ago counts little.
    worth: [i64; PARTS],
    /// Loads that they are of.
    loads: i64,
    /// Of the pages that reclaim took, those that were stored, and those that were taken back
    /// before; what was long ago counts little.
    stored: i64,
    restored: i64,
    /// Pages on the device that were sent there for this and are missed, in parts of
    /// [`chances`](tunables::Balance).
    sent: u64,
    /// Entries that left the pool for the device, for whatever reason, since it was compacted.
    emptied: u64,
}

impl Balance {
    /// Nothing was seen yet.
    pub(crate) fn new(tunables: &'static tunables::Balance) -> Self {
        Self {
            tunables,
            costs: Costs::default(),
            read_cost: tunables.read_cost,
            owed: 0,
            worth: [0; PARTS],
            loads: 0,
            stored: 0,
            restored: 0,
            sent: 0,
            emptied: 0,
        }
    }

    /// A load took so long; a fault takes `outside_ns` besides.
    pub(crate) fn note_took(&mut self, is_from_device: bool, ns: u64, outside_ns: u64) {
        self.costs.note(is_from_device, ns, self.tunables.remembered as u64);
        if let Some(cost) = self.costs.of_read(outside_ns) {
            self.read_cost = cost.clamp(self.tunables.read_cost, self.tunables.read_cost_most);
        }
    }

    /// A page of the pool is faulted.
    pub(crate) fn note_load(&mut self, load: Depth) {
        let (read_cost, whole) = (self.read_cost, self.tunables.chances);
        let worth = load.worth(self.best(), read_cost, whole);
        let entries = self.tunables.entries_per_refault * worth / whole as i64;
        self.owed = (self.owed + entries).clamp(self.tunables.least, self.tunables.most);
        self.loads += 1;
        for (parts, worth) in (1..).zip(&mut self.worth) {
            *worth += load.worth(parts, read_cost, whole);
        }
        if self.loads >= self.tunables.remembered {
            self.loads /= 2;
            self.worth.iter_mut().for_each(|worth| *worth /= 2);
        }
    }

    /// How many parts of the pool should go. Where none is worth it one decides: more of its loads
    /// take entries back than owe some.
    fn best(&self) -> usize {
        let (mut best, mut most) = (1, 0);
        for (parts, worth) in (1..).zip(self.worth) {
            if worth > most {
                (best, most) = (parts, worth);
            }
        }
        best
    }

    /// A page is read from the device, which holds about `on_device`. The page counts by the chance
    /// that it is one of those that were sent there for this.
    pub(crate) fn note_read(&mut self, on_device: u64) {
        let tunables = self.tunables;
        let all = (on_device * tunables.chances).max(self.sent).max(1);
        let chance = self.sent * tunables.chances / all;
        let whole = tunables.chances as i64;
        let cost = self.read_cost * chance as i64;
        let entries = tunables.entries_per_refault * cost / whole;
        self.owed = (self.owed - entries).max(tunables.least);
        let least = -self.read_cost * tunables.remembered * whole;
        for worth in &mut self.worth {
            *worth = (*worth - cost).max(least);
        }
        self.sent = self.sent.saturating_sub(chance);
    }

    /// A staged page was taken back. Where more of them are than are stored, each counts as a load
    /// that the least would have spared.
    pub(crate) fn note_restored(&mut self, pages: u64) {
        self.note_taken(0, pages);
        // A run of them is a scan that has turned round, and one fault.
        if pages == 1 && self.restored > self.stored {
            self.note_load(Depth::new(Some(1), PARTS + 1, Packing { entries: 1, pages: 0 }));
        }
    }

    /// So many pages that reclaim took were stored or taken back.
    pub(crate) fn note_taken(&mut self, stored: u64, restored: u64) {
        let all = self.stored + self.restored + (stored + restored) as i64;
        let part = if all >= self.tunables.remembered { 2 } else { 1 };
        self.stored = (self.stored + stored as i64) / part;
        self.restored = (self.restored + restored as i64) / part;
    }

    /// So many entries left the pool for the device.
    pub(crate) fn note_emptied(&mut self, entries: u64) {
        self.emptied += entries;
    }

    /// The holes that they left are gone.
    pub(crate) fn note_compacted(&mut self) {
        self.emptied = 0;
    }

    /// Entries that left it since.
    pub(crate) fn emptied(&self) -> u64 {
        self.emptied
    }

    /// Entries to send on in this round of reclaim.
    pub(crate) fn due(&self) -> u32 {
        let is_due = self.owed >= self.tunables.round;
        if is_due { self.tunables.round as u32 } else { 0 }
    }

    /// So many were sent on.
    pub(crate) fn note_sent(&mut self, entries: u64, pool: Packing) {
        // The whole round is paid, also where fewer left: the others cannot be sent soon either.
        self.owed -= self.tunables.round;
        self.sent += pool.missed(entries * self.tunables.chances);
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::policy::tunables::Tunables;

    const TUNABLES: &tunables::Balance = &Tunables::DEFAULT.balance;
    /// No page of it takes any room.
    const DENSE: Packing = Packing { entries: 1, pages: 0 };
    const YOUNGEST: Depth = Depth {
        spared_with: 1,
        part: PARTS,
        pool: DENSE,
    };
    const OLDEST: Depth = Depth {
        spared_with: PARTS + 1,
        part: 1,
        pool: DENSE,
    };
    const THIRD: Packing = Packing {
        entries: 3000,
        pages: 1000,
    };

    fn note(balance: &mut Balance, loads: usize, load: Depth) {
        (0..loads).for_each(|_| balance.note_load(load));
    }

    #[test]
    fn faults_of_the_oldest_outweigh_many_of_the_youngest() {
        let mut balance = Balance::new(TUNABLES);
        assert_eq!(balance.due(), 0);
        note(&mut balance, 4, YOUNGEST);
        assert_eq!(balance.due(), 32);
        balance.note_sent(32, THIRD);
        assert_eq!(balance.due(), 0);
        note(&mut balance, 1000, YOUNGEST);
        assert_eq!(balance.due(), 32);
        for _ in 0..100 {
            note(&mut balance, 2, OLDEST);
            note(&mut balance, 1, YOUNGEST);
        }
        assert_eq!(balance.due(), 0);
    }

    #[test]
    fn what_lies_beyond_an_eighth_is_seen() {
        let mut balance = Balance::new(TUNABLES);
        // Half of the pool would be room for all that is wanted, the youngest half of its entries;
        // one load in a hundred is of what lies before them.
        let hot = Depth {
            spared_with: 4,
            part: 5,
            pool: DENSE,
        };
        for _ in 0..10 {
            note(&mut balance, 99, hot);
            note(&mut balance, 1, OLDEST);
        }
        assert_eq!((balance.best(), balance.due()), (4, 32));
        // The same where all entries are as warm.
        let mut balance = Balance::new(TUNABLES);
        for n in 0..1000 {
            note(
                &mut balance,
                1,
                Depth {
                    spared_with: 4 + n % 16,
                    part: 1 + n % PARTS,
                    pool: DENSE,
                },
            );
        }
        assert_eq!(balance.due(), 0);
    }

    #[test]
    fn where_every_page_is_as_warm_as_the_others_nothing_is_sent_on() {
        let mut balance = Balance::new(TUNABLES);
        // At random, and a scan of a little more than there is memory, whose next page is the
        // oldest.
        for n in 0..1000 {
            note(
                &mut balance,
                1,
                Depth {
                    spared_with: 2 + n % 24,
                    part: 1 + n % PARTS,
                    pool: DENSE,
                },
            );
        }
        note(&mut balance, 1000, OLDEST);
        assert_eq!(balance.due(), 0);
    }

    #[test]
    fn a_page_that_comes_free_holds_one_of_the_entries() {
        let worth = |part, parts, pool| Depth::new(None, part, pool).worth(parts, 6, 300);
        // Of an eighth of them, two thirds are missed.
        assert_eq!([1, 2].map(|parts| worth(1, parts, THIRD)), [-6 * 200, -6 * 300]);
        assert_eq!([1, 2, 3].map(|parts| worth(2, parts, THIRD)), [0, -6 * 100, -6 * 300]);
        let whole = Packing {
            entries: 1000,
            pages: 1001,
        };
        assert_eq!(worth(1, PARTS, whole), 0);
        assert_eq!(Depth::new(Some(251), 1, whole).spared_with, 3);
        assert_eq!(Depth::new(Some(1001), 1, whole).spared_with, PARTS + 1);
        // At random, three times as much as there is memory for.
        let at_random = |pool: Packing| {
            let mut balance = Balance::new(TUNABLES);
            for n in 0..3000 {
                let load = Depth::new(Some(n * 7 % 3000), 1 + n as usize % PARTS, pool);
                note(&mut balance, 1, load);
            }
            balance
        };
        assert_eq!(at_random(THIRD).due(), 0);
        let mut balance = at_random(whole);
        assert_eq!(balance.due(), 32);
        balance.note_sent(32, whole);
        (0..1000).for_each(|_| balance.note_read(2000));
        assert_eq!((balance.due(), balance.sent), (32, 0));
    }

    #[test]
    fn second_chances_count_where_they_are_most_of_what_reclaim_gets() {
        let mut balance = Balance::new(TUNABLES);
        balance.note_taken(500, 0);
        (0..400).for_each(|_| balance.note_restored(1));
        assert_eq!(balance.due(), 0);
        (0..400).for_each(|_| balance.note_restored(1));
        assert_eq!(balance.due(), 32);
    }

    #[test]
    fn reads_count_as_far_as_they_may_be_of_what_was_sent_on() {
        let mut balance = Balance::new(TUNABLES);
        note(&mut balance, 1000, YOUNGEST);
        (0..1000).for_each(|_| balance.note_read(1000));
        assert_eq!(balance.due(), 32);
        balance.note_sent(1000, THIRD);
        (0..100).for_each(|_| balance.note_read(1000));
        assert_eq!(balance.due(), 0);
        assert!(balance.sent < 910 * TUNABLES.chances, "{}", balance.sent);
    }
}
