//! Balance between the resident pages and the pool (`mm/workingset.c`; `lru_note_cost` in
//! `mm/swap.c`).
//!
//! What the pool holds oldest can go to the device, and the memory that it took to the resident
//! pages. Whether that pays is seen at both ends of the list of stored pages. A fault of one of the
//! youngest would not have been if a part of the pool had been resident memory instead; a fault of
//! one of the oldest would have had to wait for the device, which takes as long as many loads from
//! the pool ([`READ_COST`]). So the former lets reclaim send on a few entries of the pool instead
//! of taking resident pages, and the latter takes many back. A pool whose oldest entries are as
//! warm as the youngest stays as it is, in a scan as well as at random; one full of what nobody
//! needs gives way until the hot pages fit. A read from the device counts as much as it is likely
//! to be of a page that was sent on for this: others were sent on before it was known what is hot.
//! Where next to nothing speaks for the pool as it is, it gives way faster.
//!
//! There are no youngest pages to be seen where the hot ones nearly fit: what reclaim takes is
//! wanted again while it is staged. So where more is taken back than is stored, that counts as
//! well. And what came from the device without a fault ([`crate::swapin::read_along`]) has as many
//! of the oldest go there.

/// Entries that a fault of one of the youngest is good for: about twice as many as a page of the
/// pool holds.
const ENTRIES_PER_REFAULT: i64 = 8;
/// Loads from the pool that a read from the device costs.
const READ_COST: i64 = 6;
/// Where what is gained is so many times as much as what is lost, so many times as many are sent
/// on.
const CLEAR: i64 = 4;
const HASTE: i64 = 4;
/// Loads that this is seen by.
const REMEMBERED: i64 = 1024;
/// Of the pool, the part that is weighed at either end: one in so many.
pub(crate) const PART: u64 = 8;
/// Parts that pages on the device are counted in, as chances are taken of them.
const SENT_PART: u64 = 256;
/// Pages of the device's slots, each, at most.
pub(crate) const PAGES_PER_SLOT: u64 = 2;
/// Entries sent on in a round (SWAP_CLUSTER_MAX).
const ROUND: i64 = 32;
/// The balance stays within this: what was long ago counts little.
const MOST: i64 = 1024;
const LEAST: i64 = -4 * MOST;

/// Entries that may be sent on.
#[derive(Default)]
pub(crate) struct Balance {
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
    /// Pages on the device that were sent there for this, in parts of [`SENT_PART`].
    sent: u64,
    /// Entries that left the pool for the device, for whatever reason, since it was compacted.
    pub(crate) emptied: u64,
}

impl Balance {
    /// A page of the pool is faulted, which is one of the youngest, one of the oldest, or both.
    pub(crate) fn note_load(&mut self, is_youngest: bool, is_oldest: bool) {
        let (gain, loss) = (i64::from(is_youngest), READ_COST * i64::from(is_oldest));
        self.remember(gain, loss);
        let entries = ENTRIES_PER_REFAULT * if self.is_clear() { HASTE } else { 1 };
        self.owed = (self.owed + entries * gain - ENTRIES_PER_REFAULT * loss).clamp(LEAST, MOST);
    }

    pub(crate) fn remember(&mut self, gain: i64, loss: i64) {
        self.gained += gain;
        self.lost += loss;
        if self.gained + self.lost >= REMEMBERED {
            self.gained /= 2;
            self.lost /= 2;
        }
    }

    /// Whether next to nothing speaks for the pool as it is.
    pub(crate) fn is_clear(&self) -> bool {
        self.gained >= REMEMBERED / 4 && self.lost < self.gained / CLEAR
    }

    /// A page is read from the device, which holds about `on_device`: as likely as they are many it
    /// was one of those that were sent on.
    pub(crate) fn note_read(&mut self, on_device: u64) {
        let all = (on_device * SENT_PART).max(self.sent).max(1);
        let loss = ENTRIES_PER_REFAULT * READ_COST * (self.sent * SENT_PART / all) as i64 / SENT_PART as i64;
        self.owed = (self.owed - loss).max(LEAST);
        self.remember(0, loss / ENTRIES_PER_REFAULT);
        self.sent -= self.sent * SENT_PART / all;
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
        let part = if all >= REMEMBERED { 2 } else { 1 };
        self.stored = (self.stored + stored as i64) / part;
        self.restored = (self.restored + restored as i64) / part;
    }

    /// So many entries came from the device that nobody has asked for.
    pub(crate) fn note_along(&mut self, entries: u64) {
        self.exchanged = (self.exchanged + entries as i64).min(MOST);
    }

    /// Entries to send on in this round of reclaim.
    pub(crate) fn due(&self) -> u32 {
        let is_due = self.owed.max(self.exchanged) >= ROUND;
        if is_due { ROUND as u32 } else { 0 }
    }

    /// So many were sent on.
    pub(crate) fn note_sent(&mut self, pages: u64) {
        // What cannot be sent now cannot be soon.
        if self.exchanged >= ROUND {
            self.exchanged -= ROUND;
            return;
        }
        self.owed -= ROUND;
        self.sent += pages * SENT_PART;
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn faults_of_the_oldest_outweigh_many_of_the_youngest() {
        let mut balance = Balance::default();
        assert_eq!(balance.due(), 0);
        (0..ROUND / ENTRIES_PER_REFAULT).for_each(|_| balance.note_load(true, false));
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
        let mut balance = Balance::default();
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
        let mut balance = Balance::default();
        assert_eq!(entries(&mut balance, 10), 10 * ENTRIES_PER_REFAULT);
        entries(&mut balance, 1000);
        assert_eq!(entries(&mut balance, 10), 10 * ENTRIES_PER_REFAULT * HASTE);
        // Each of these is worth as much as six of the others.
        (0..30).for_each(|_| balance.note_load(false, true));
        assert_eq!(entries(&mut balance, 10), 10 * ENTRIES_PER_REFAULT);
    }

    #[test]
    fn second_chances_count_where_they_are_most_of_what_reclaim_gets() {
        let mut balance = Balance::default();
        balance.note_taken(500, 0);
        (0..400).for_each(|_| balance.note_restored(1));
        assert_eq!(balance.due(), 0);
        (0..400).for_each(|_| balance.note_restored(1));
        assert_eq!(balance.due(), 32);
    }

    #[test]
    fn what_came_along_is_made_up_for() {
        let mut balance = Balance::default();
        (0..100).for_each(|_| balance.note_load(false, true));
        balance.note_along(40);
        assert_eq!(balance.due(), 32);
        balance.note_sent(32);
        assert_eq!((balance.due(), balance.sent), (0, 0));
    }

    #[test]
    fn reads_count_as_far_as_they_may_be_of_what_was_sent_on() {
        let mut balance = Balance::default();
        (0..1000).for_each(|_| balance.note_load(true, false));
        (0..1000).for_each(|_| balance.note_read(1000));
        assert_eq!(balance.due(), 32);
        balance.note_sent(1000);
        (0..100).for_each(|_| balance.note_read(1000));
        assert_eq!(balance.due(), 0);
        assert!(balance.sent < 910 * SENT_PART, "{}", balance.sent);
    }
}
