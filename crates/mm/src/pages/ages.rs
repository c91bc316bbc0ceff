//! How old stored pages are among each other: of each tag of the lists of stored folios, how many
//! words carry it.
//!
//! A list says how many pages were added since one of them was; most of those may be gone. Which
//! ones are the next to be sent to the device follows from how many are left. (Tags repeat after as
//! many segments as there are: what is older than that passes for young.)

use alloc::vec;
use alloc::vec::Vec;

use crate::pages::stored::{RESTED_TAGS, Stored, TAGS};
use crate::pages::swap_table::entry::{Slot, ZTAG_BITS, ZswapEntry};
use crate::policy::PARTS;

/// Where the parts of the stored pages end, those first that are sent on first.
#[derive(Clone, Copy, Default)]
enum Parts {
    /// The list has too few segments to tell.
    #[default]
    Unknown,
    /// Of the entries that writeback takes when it meets them, and of those that it passes over
    /// once ([`referenced`](ZswapEntry::referenced)): these follow when all others have gone.
    Until([Ends; 2]),
}

/// Where the parts end among entries of one kind.
#[derive(Clone, Copy)]
struct Ends {
    /// The youngest tag of each part; one that is in several counts as of the oldest of them.
    /// `None`: no part that ends among them.
    until: [Option<u32>; PARTS],
    /// The part of those that came to rest, which are older than all others.
    rested: usize,
    /// The part of those that are younger than all ends.
    last: usize,
}

/// Stored pages by tag.
pub(crate) struct Ages {
    /// Those that are not referenced, and those that are.
    live: [Vec<u32>; 2],
    parts: Parts,
    looks: u32,
}

impl Default for Ages {
    fn default() -> Self {
        Self {
            live: [(); 2].map(|()| vec![0; 1 << ZTAG_BITS]),
            parts: Parts::Unknown,
            looks: 0,
        }
    }
}

fn is_rested(tag: u32) -> bool {
    tag % TAGS.stride == RESTED_TAGS.first
}

impl Ages {
    /// The word of a page changes.
    pub(crate) fn note(&mut self, before: Slot, after: Slot) {
        if let Slot::Zswap(entry) = before {
            *self.of(entry) -= 1;
        }
        if let Slot::Zswap(entry) = after {
            *self.of(entry) += 1;
        }
    }

    /// How many entries there are like this one.
    fn of(&mut self, entry: ZswapEntry) -> &mut u32 {
        &mut self.live[usize::from(entry.referenced)][entry.tag as usize]
    }

    /// Panics unless each tag is counted as often as a word carries it.
    #[cfg(any(test, feature = "sim"))]
    pub(crate) fn assert_valid(&self, slots: impl Iterator<Item = Slot>) {
        let mut counted = Self::default();
        slots.for_each(|slot| counted.note(Slot::None, slot));
        assert!(self.live == counted.live, "tags that are counted, and those of words");
    }

    /// Pages of one kind that came to rest, and the others.
    fn totals(&self, is_referenced: bool) -> (u64, u64) {
        let live = &self.live[usize::from(is_referenced)];
        (0..).zip(live).fold((0, 0), |(rested, recent), (tag, pages)| {
            let pages = u64::from(*pages);
            match is_rested(tag) {
                true => (rested + pages, recent),
                false => (rested, recent + pages),
            }
        })
    }
}

impl Stored {
    /// With which part of the stored pages gone, from 1 on, an entry would be on the device: parts
    /// are looked for again after so many looks. `None`: nobody knows.
    pub(crate) fn part_of(&mut self, entry: ZswapEntry, looks: u32) -> Option<usize> {
        if self.ages.looks == 0 {
            self.ages.looks = looks;
            self.ages.parts = self.find_parts();
        }
        self.ages.looks -= 1;
        let Parts::Until(ends) = &self.ages.parts else {
            return None;
        };
        let ends = &ends[usize::from(entry.referenced)];
        if is_rested(entry.tag) {
            return Some(ends.rested);
        }
        let age = self.recent.age(entry.tag);
        let is_in = |until: &Option<u32>| until.is_some_and(|until| age >= self.recent.age(until));
        Some(ends.until.iter().position(is_in).map_or(ends.last, |part| part + 1))
    }

    fn find_parts(&self) -> Parts {
        let [taken, passed_over] = [false, true].map(|is_referenced| {
            let (rested, recent) = self.ages.totals(is_referenced);
            rested + recent
        });
        let wanted = (taken + passed_over) / PARTS as u64;
        if wanted == 0 {
            return Parts::Unknown;
        }
        let ends = [self.ends(false, 0, wanted), self.ends(true, taken, wanted)];
        // Too many pages of one tag to tell the first part from the next.
        let is_told = |ends: &Ends| ends.until[0].is_none() || ends.until[0] != ends.until[1];
        match ends.iter().all(is_told) {
            true => Parts::Until(ends),
            false => Parts::Unknown,
        }
    }

    /// Where parts of so many entries end among those of one kind, which follow `before` others.
    fn ends(&self, is_referenced: bool, before: u64, wanted: u64) -> Ends {
        let part = |pages: u64| (pages / wanted).min(PARTS as u64) as usize;
        let (rested, _) = self.ages.totals(is_referenced);
        let live = &self.ages.live[usize::from(is_referenced)];
        let (mut until, mut pages) = ([None; PARTS], before + rested);
        for tag in self.recent.tags_by_age() {
            let ended = part(pages);
            pages += u64::from(live[tag as usize]);
            until[ended..part(pages)].fill(Some(tag));
        }
        Ends {
            until,
            rested: part(before).min(PARTS - 1) + 1,
            last: part(pages).min(PARTS - 1) + 1,
        }
    }
}

#[cfg(test)]
mod test {
    use alloc::vec::Vec;

    use super::{RESTED_TAGS, Stored};
    use crate::Effort;
    use crate::page::Vpn;
    use crate::pages::swap_table::entry::{Slot, ZswapEntry};
    use crate::sim::{ARENA_PAGES, BASE, PAGES, World};
    use crate::zpool::Handle;

    #[test]
    fn every_stored_page_is_counted() {
        let mut world = World::<parking_lot::RawMutex>::new(0, ARENA_PAGES);
        let pages = || (BASE..BASE + PAGES).map(Vpn::new);
        pages().for_each(|vpn| world.write(vpn, vpn.number() * 8 + 5));
        while world.mm.shrink(&mut world.worker, 16, Effort::Urgent).reclaimed > 0 {}
        pages().step_by(3).for_each(|vpn| world.check(vpn));
        let (stored, counted): (u64, u64) = world.mm.with(|inner| {
            let stored = pages().filter(|vpn| matches!(inner.pages.table.lookup(*vpn), Slot::Zswap(_)));
            let counted = [false, true].map(|is_referenced| inner.pages.stored.ages.totals(is_referenced));
            (
                stored.count() as u64,
                counted.iter().map(|(rested, recent)| rested + recent).sum(),
            )
        });
        assert!(stored > 0);
        assert_eq!(counted, stored);
    }

    fn entry(tag: u32, referenced: bool) -> ZswapEntry {
        ZswapEntry {
            handle: Handle::from_bits(1),
            len: 1,
            writeback: false,
            referenced,
            tag,
        }
    }

    #[test]
    fn parts_stay_where_they_were_found_when_the_next_segment_begins() {
        let mut stored = Stored::new(16);
        let add = |stored: &mut Stored, pages: u64| {
            let tags: Vec<u32> = (0..pages)
                .map(|page| stored.recent.add_tail(Vpn::new(page), 0))
                .collect();
            tags.iter().for_each(|tag| stored.ages.live[0][*tag as usize] += 1);
            tags
        };
        // A quarter has come to rest: the first two parts are theirs.
        stored.ages.live[0][RESTED_TAGS.first as usize] = 256;
        let tags = add(&mut stored, 768);
        let part = |stored: &mut Stored, tag| stored.part_of(entry(tag, false), 256);
        assert_eq!(part(&mut stored, RESTED_TAGS.first), Some(1));
        assert_eq!(
            (part(&mut stored, tags[0]), part(&mut stored, tags[767])),
            (Some(3), Some(8))
        );
        let young = add(&mut stored, 17)[16];
        assert_eq!(
            (part(&mut stored, tags[0]), part(&mut stored, young)),
            (Some(3), Some(8))
        );
    }

    #[test]
    fn what_is_passed_over_once_goes_after_all_others() {
        let mut stored = Stored::new(16);
        let tags: Vec<u32> = (0..1024)
            .map(|page| stored.recent.add_tail(Vpn::new(page), 0))
            .collect();
        // Every fourth is none of them.
        for (n, tag) in tags.iter().enumerate() {
            stored.ages.live[usize::from(n % 4 > 0)][*tag as usize] += 1;
        }
        let mut part = |tag, referenced| stored.part_of(entry(tag, referenced), 256);
        assert_eq!((part(tags[0], false), part(tags[1023], false)), (Some(1), Some(2)));
        assert_eq!((part(tags[0], true), part(tags[1023], true)), (Some(3), Some(8)));
    }
}
