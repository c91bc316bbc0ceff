//! How old stored pages are among each other: of each tag of the lists of stored folios, how many
//! words carry it.
//!
//! A list says how many pages were added since one of them was; most of those may be gone. Which
//! ones are the next to be sent to the device follows from how many are left. (Tags repeat after as
//! many segments as there are: what is older than that passes for young.)

use alloc::vec;
use alloc::vec::Vec;

use crate::pages::stored::{SETTLED_TAGS, Stored, TAGS};
use crate::pages::swap_table::entry::{Slot, ZTAG_BITS, ZswapEntry};
use crate::policy::PARTS;

/// Where the parts of the stored pages end, the oldest first.
#[derive(Clone, Copy, Default)]
enum Parts {
    /// The list has too few segments to tell.
    #[default]
    Unknown,
    /// The youngest tag of each part; one that is in several counts as of the oldest of them.
    /// Pages that came to rest are older than all others, and count as of the first. `None`: they
    /// fill this part, and no other page is in it.
    Until([Option<u32>; PARTS]),
}

/// Stored pages by tag.
pub(crate) struct Ages {
    live: Vec<u32>,
    parts: Parts,
    looks: u32,
}

impl Default for Ages {
    fn default() -> Self {
        Self {
            live: vec![0; 1 << ZTAG_BITS],
            parts: Parts::Unknown,
            looks: 0,
        }
    }
}

fn is_rested(tag: u32) -> bool {
    tag % TAGS.stride == SETTLED_TAGS.first
}

impl Ages {
    /// The word of a page changes.
    pub(crate) fn note(&mut self, before: Slot, after: Slot) {
        if let Slot::Zswap(ZswapEntry { tag, .. }) = before {
            self.live[tag as usize] -= 1;
        }
        if let Slot::Zswap(ZswapEntry { tag, .. }) = after {
            self.live[tag as usize] += 1;
        }
    }

    /// Panics unless each tag is counted as often as a word carries it.
    #[cfg(any(test, feature = "sim"))]
    pub(crate) fn assert_valid(&self, slots: impl Iterator<Item = Slot>) {
        let mut live = vec![0; self.live.len()];
        for slot in slots {
            if let Slot::Zswap(ZswapEntry { tag, .. }) = slot {
                live[tag as usize] += 1;
            }
        }
        assert!(self.live == live, "tags that are counted, and those of words");
    }

    /// Pages that came to rest, and the others.
    fn totals(&self) -> (u64, u64) {
        (0..).zip(&self.live).fold((0, 0), |(rested, recent), (tag, pages)| {
            let pages = u64::from(*pages);
            match is_rested(tag) {
                true => (rested + pages, recent),
                false => (rested, recent + pages),
            }
        })
    }
}

impl Stored {
    /// Which part of the stored pages one with this tag is in, from 1 on, the oldest: they are
    /// looked for again after so many looks. `None`: nobody knows.
    pub(crate) fn part_of(&mut self, tag: u32, looks: u32) -> Option<usize> {
        if self.ages.looks == 0 {
            self.ages.looks = looks;
            self.ages.parts = self.find_parts();
        }
        self.ages.looks -= 1;
        let Parts::Until(youngest) = self.ages.parts else {
            return None;
        };
        if is_rested(tag) {
            return Some(1);
        }
        let is_in = |until: &Option<u32>| until.is_some_and(|until| self.recent.age(tag) >= self.recent.age(until));
        Some(youngest.iter().position(is_in).map_or(PARTS, |part| part + 1))
    }

    fn find_parts(&self) -> Parts {
        let (rested, recent) = self.ages.totals();
        let wanted = (rested + recent) / PARTS as u64;
        if wanted == 0 {
            return Parts::Unknown;
        }
        let mut until = [None; PARTS];
        let (mut pages, mut parts) = (rested, (rested / wanted).min(PARTS as u64) as usize);
        for tag in self.recent.tags_by_age() {
            let known = parts;
            pages += u64::from(self.ages.live[tag as usize]);
            while parts < PARTS && pages >= wanted * (parts as u64 + 1) {
                until[parts] = Some(tag);
                parts += 1;
            }
            // Too many pages of one tag to tell the first part from the next.
            if known == 0 && parts > 1 {
                return Parts::Unknown;
            }
        }
        Parts::Until(until)
    }
}

#[cfg(test)]
mod test {
    use alloc::vec::Vec;

    use super::{SETTLED_TAGS, Stored};
    use crate::Effort;
    use crate::page::Vpn;
    use crate::pages::swap_table::entry::Slot;
    use crate::sim::{ARENA_PAGES, BASE, PAGES, World};

    #[test]
    fn every_stored_page_is_counted() {
        let mut world = World::<parking_lot::RawMutex>::new(0, ARENA_PAGES);
        let pages = || (BASE..BASE + PAGES).map(Vpn::new);
        pages().for_each(|vpn| world.write(vpn, vpn.number() * 8 + 5));
        while world.mm.shrink(&mut world.worker, 16, Effort::Urgent).reclaimed > 0 {}
        pages().step_by(3).for_each(|vpn| world.check(vpn));
        let (stored, counted) = world.mm.with(|inner| {
            let stored = pages().filter(|vpn| matches!(inner.pages.table.lookup(*vpn), Slot::Zswap(_)));
            (stored.count() as u64, inner.pages.stored.ages.totals())
        });
        assert!(stored > 0);
        assert_eq!(counted, (0, stored));
    }

    #[test]
    fn parts_stay_where_they_were_found_when_the_next_segment_begins() {
        let mut stored = Stored::new(16);
        let add = |stored: &mut Stored, pages: u64| {
            let tags: Vec<u32> = (0..pages)
                .map(|page| stored.recent.add_tail(Vpn::new(page), 0))
                .collect();
            tags.iter().for_each(|tag| stored.ages.live[*tag as usize] += 1);
            tags
        };
        // A quarter has come to rest: the first two parts are theirs.
        stored.ages.live[SETTLED_TAGS.first as usize] = 256;
        let tags = add(&mut stored, 768);
        let part = |stored: &mut Stored, tag| stored.part_of(tag, 256);
        assert_eq!(part(&mut stored, SETTLED_TAGS.first), Some(1));
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
}
