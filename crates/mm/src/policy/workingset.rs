//! Balance between the resident pages and the pool (`mm/workingset.c`; `lru_note_cost` in
//! `mm/swap.c`).
//!
//! What the pool holds oldest can go to the device, and the memory that it took to the resident
//! pages. Whether that pays is seen at both ends of the list of stored pages. A fault of one of the
//! youngest would not have been if a part of the pool had been resident memory instead; a fault of
//! one of the oldest would have had to wait for the device, which takes as long as many loads from
//! the pool ([`read_cost`](tunables::Balance)). So the former lets reclaim send on a few entries of
//! the pool instead of taking resident pages, and the latter takes many back. A pool whose oldest
//! entries are as warm as the youngest stays as it is, in a scan as well as at random; one full of
//! what nobody needs gives way until the hot pages fit. A read from the device counts as much as it
//! is likely to be of a page that was sent on for this: others were sent on before it was known
//! what is hot. Where next to nothing speaks for the pool as it is, it gives way faster.
//!
//! There are no youngest pages to be seen where the hot ones nearly fit: what reclaim takes is
//! wanted again while it is staged. So where more is taken back than is stored, that counts as
//! well. And what came from the device without a fault ([`crate::swapin::read_along`]) has as many
//! of the oldest go there.

use crate::policy::tunables;

/// Entries that may be sent on.
pub(crate) struct Balance {
    tunables: &'static tunables::Balance,
    owed: i64,
    /// Entries that came from the device and were no faults ([`crate::swapin::read_along`]): as
    /// many of the oldest go there in their place.
    exchanged: i64,
    /// What was seen at the young end and at the old one, as loads that it was worth; what was long
    /// ago counts little.
    gained: i64,
    lost: i64,
    /// Of the pages that reclaim took, those that were stored, and those that were taken back
    /// before; what was long ago counts little.
    stored: i64,
    restored: i64,
    /// Pages on the device that were sent there for this, in parts of
    /// [`sent_part`](tunables::Balance).
    sent: u64,
    /// Entries that left the pool for the device, for whatever reason, since it was compacted.
    emptied: u64,
}

impl Balance {
    /// Nothing was seen yet.
    pub(crate) fn new(tunables: &'static tunables::Balance) -> Self {
        Self {
            tunables,
            owed: 0,
            exchanged: 0,
            gained: 0,
            lost: 0,
            stored: 0,
            restored: 0,
            sent: 0,
            emptied: 0,
        }
    }

    /// A page of the pool is faulted, which is one of the youngest, one of the oldest, or both.
    pub(crate) fn note_load(&mut self, is_youngest: bool, is_oldest: bool) {
        let tunables = self.tunables;
        let (gain, loss) = (i64::from(is_youngest), tunables.read_cost * i64::from(is_oldest));
        self.remember(gain, loss);
        let haste = if self.is_clear() { tunables.haste } else { 1 };
        let entries = tunables.entries_per_refault * (haste * gain - loss);
        self.owed = (self.owed + entries).clamp(tunables.least, tunables.most);
    }

    fn remember(&mut self, gain: i64, loss: i64) {
        self.gained += gain;
        self.lost += loss;
        if self.gained + self.lost >= self.tunables.remembered {
            self.gained /= 2;
            self.lost /= 2;
        }
    }

    /// Whether next to nothing speaks for the pool as it is.
    fn is_clear(&self) -> bool {
        self.gained >= self.tunables.remembered / 4 && self.lost < self.gained / self.tunables.clear
    }

    /// A page is read from the device, which holds about `on_device`: as likely as they are many it
    /// was one of those that were sent on.
    pub(crate) fn note_read(&mut self, on_device: u64) {
        let tunables = self.tunables;
        let all = (on_device * tunables.sent_part).max(self.sent).max(1);
        let part = self.sent * tunables.sent_part / all;
        let cost = tunables.entries_per_refault * tunables.read_cost;
        let loss = cost * part as i64 / tunables.sent_part as i64;
        self.owed = (self.owed - loss).max(tunables.least);
        self.remember(0, loss / tunables.entries_per_refault);
        self.sent -= part;
    }

    /// A staged page was taken back. Where more of them are than are stored, each counts as one of
    /// the youngest.
    pub(crate) fn note_restored(&mut self, pages: u64) {
        self.note_taken(0, pages);
        // A run of them is a scan that has turned round, and one fault.
        if pages == 1 && self.restored > self.stored {
            self.note_load(true, false);
        }
    }

    /// So many pages that reclaim took were stored or taken back.
    pub(crate) fn note_taken(&mut self, stored: u64, restored: u64) {
        let all = self.stored + self.restored + (stored + restored) as i64;
        let part = if all >= self.tunables.remembered { 2 } else { 1 };
        self.stored = (self.stored + stored as i64) / part;
        self.restored = (self.restored + restored as i64) / part;
    }

    /// So many entries came from the device that nobody has asked for.
    pub(crate) fn note_along(&mut self, entries: u64) {
        self.exchanged = (self.exchanged + entries as i64).min(self.tunables.most);
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
        let is_due = self.owed.max(self.exchanged) >= self.tunables.round;
        if is_due { self.tunables.round as u32 } else { 0 }
    }

    /// So many were sent on.
    pub(crate) fn note_sent(&mut self, pages: u64) {
        // What cannot be sent now cannot be soon.
        if self.exchanged >= self.tunables.round {
            self.exchanged -= self.tunables.round;
            return;
        }
        self.owed -= self.tunables.round;
        self.sent += pages * self.tunables.sent_part;
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::policy::tunables::Tunables;

    const TUNABLES: &tunables::Balance = &Tunables::DEFAULT.balance;

    #[test]
    fn faults_of_the_oldest_outweigh_many_of_the_youngest() {
        let mut balance = Balance::new(TUNABLES);
        assert_eq!(balance.due(), 0);
        (0..TUNABLES.round / TUNABLES.entries_per_refault).for_each(|_| balance.note_load(true, false));
        assert_eq!(balance.due(), 32);
        balance.note_sent(32);
        assert_eq!(balance.due(), 0);
        (0..1000).for_each(|_| balance.note_load(true, false));
        assert_eq!(balance.due(), 32);
        (0..100).for_each(|_| balance.note_load(false, true));
        (0..100).for_each(|_| balance.note_load(true, false));
        assert_eq!(balance.due(), 0);
    }

    #[test]
    fn where_every_page_is_as_warm_as_the_others_nothing_is_sent_on() {
        let mut balance = Balance::new(TUNABLES);
        // At random, and a scan of a little more than there is memory, whose next page is the
        // oldest and was stored lately.
        (0..1000).for_each(|n| balance.note_load(n % 8 == 0, n % 8 == 1));
        (0..1000).for_each(|_| balance.note_load(true, true));
        assert_eq!(balance.due(), 0);
    }

    #[test]
    fn what_nothing_speaks_for_goes_in_haste() {
        let entries = |balance: &mut Balance, loads: usize| {
            balance.owed = 0;
            (0..loads).for_each(|_| balance.note_load(true, false));
            balance.owed
        };
        let mut balance = Balance::new(TUNABLES);
        assert_eq!(entries(&mut balance, 10), 10 * TUNABLES.entries_per_refault);
        entries(&mut balance, 1000);
        assert_eq!(
            entries(&mut balance, 10),
            10 * TUNABLES.entries_per_refault * TUNABLES.haste
        );
        // Each of these is worth as much as six of the others.
        (0..30).for_each(|_| balance.note_load(false, true));
        assert_eq!(entries(&mut balance, 10), 10 * TUNABLES.entries_per_refault);
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
    fn what_came_along_is_made_up_for() {
        let mut balance = Balance::new(TUNABLES);
        (0..100).for_each(|_| balance.note_load(false, true));
        balance.note_along(40);
        assert_eq!(balance.due(), 32);
        balance.note_sent(32);
        assert_eq!((balance.due(), balance.sent), (0, 0));
    }

    #[test]
    fn reads_count_as_far_as_they_may_be_of_what_was_sent_on() {
        let mut balance = Balance::new(TUNABLES);
        (0..1000).for_each(|_| balance.note_load(true, false));
        (0..1000).for_each(|_| balance.note_read(1000));
        assert_eq!(balance.due(), 32);
        balance.note_sent(1000);
        (0..100).for_each(|_| balance.note_read(1000));
        assert_eq!(balance.due(), 0);
        assert!(balance.sent < 910 * TUNABLES.sent_part, "{}", balance.sent);
    }
}
