//! Compaction: a class whose zspages have holes gets along with fewer of them.
//!
//! Of the zspages that are neither full nor empty, the emptiest are *victims*: all their objects
//! move. The emptiest of those that stay is the *remnant*: it takes what the others have no room
//! for, at its front, and the pages behind that return to the system. So a class ends with full
//! zspages and one that wastes less than a page.
//!
//! # Worked example
//! Four zspages of 9 objects in 4 pages have 2, 4, 5 and 8 objects, 19 together, for which three
//! zspages are enough. The one with 2 is the victim, the one with 4 the remnant. It keeps one
//! object in one page, as two full zspages hold 18. Its three others and the victim's two go into
//! the five holes of the other zspages.

use alloc::boxed::Box;
use alloc::vec::Vec;

use lock_api::RawMutex;

use super::backing::Backing;
use super::class::{Class, State};
use super::{NO_OBJECT, Object};
use crate::zpool::Arena;

/// The zspage of a class that is packed.
pub(super) struct Remnant {
    id: u32,
    /// So many objects stay, in its first slots.
    keep: u16,
    /// Free objects behind them: on no list, so that nothing moves there.
    behind: Vec<u16>,
}

impl Remnant {
    /// Its free objects that are on no list.
    pub(super) fn off_the_list(&self) -> impl Iterator<Item = Object> {
        self.behind.iter().map(|index| Object::new(self.id, *index))
    }
}

impl<A: Arena> Class<A> {
    /// Choose victims and the remnant. Returns how many pages there will be less.
    pub(super) fn begin_compaction<R: RawMutex>(&mut self, backing: &Backing<R, A>) -> u64 {
        if self.remnant.is_some() {
            return 0;
        }
        let partial = self.partial();
        let objects = usize::from(self.geometry.objects);
        let used: usize = partial.iter().map(|(used, _)| usize::from(*used)).sum();
        let (full, rest) = (used / objects, (used % objects) as u16);
        let victims = partial.len() - used.div_ceil(objects);
        for (_, id) in &partial[..victims] {
            self.unlink(*id);
            self.zspages[*id as usize].state = State::Victim;
        }
        let Some((_, first_kept)) = partial.get(victims) else {
            return 0;
        };
        let backed = partial
            .iter()
            .map(|(_, id)| u64::from(self.zspages[*id as usize].backed));
        let backed: u64 = backed.sum();
        let needed = full as u64 * u64::from(self.geometry.pages) + u64::from(self.pages_of(rest));
        if rest > 0 {
            self.make_remnant(backing, *first_kept, rest);
        }
        backed.saturating_sub(needed)
    }

    /// How many objects each zspage on the lists has, the emptiest first.
    fn partial(&self) -> Vec<(u16, u32)> {
        let used = |id| (self.zspages[id as usize].used, id);
        let mut partial: Vec<_> = self.listed().map(used).collect();
        partial.sort_unstable();
        partial
    }

    fn make_remnant<R: RawMutex>(&mut self, backing: &Backing<R, A>, id: u32, keep: u16) {
        self.unlink(id);
        let (front, behind) = self
            .take_free_list(&backing.arena, id)
            .into_iter()
            .partition(|index| *index < keep);
        let front: Vec<u16> = front;
        front.into_iter().for_each(|index| self.push_free(backing, id, index));
        self.zspages[id as usize].state = State::Remnant;
        self.remnant = Some(Box::new(Remnant { id, keep, behind }));
    }

    fn take_free_list(&mut self, arena: &A, id: u32) -> Vec<u16> {
        let mut free = Vec::new();
        let mut at = core::mem::replace(&mut self.zspages[id as usize].free, NO_OBJECT);
        while at != NO_OBJECT {
            free.push(at);
            assert!(
                free.len() <= usize::from(self.zspages[id as usize].bump),
                "the pool is damaged: a free list without end"
            );
            at = self.next_free(arena, id, at);
        }
        free
    }

    /// Whether compaction wants an object elsewhere.
    pub(super) fn is_to_move(&self, object: Object) -> bool {
        match self.zspages[object.zspage() as usize].state {
            State::Open | State::Inherited => false,
            State::Victim => true,
            State::Remnant => self
                .remnant
                .as_ref()
                .is_some_and(|remnant| object.index() >= remnant.keep),
        }
    }

    /// The remnant, if one of the objects at its front is free.
    pub(super) fn remnant_with_room(&self) -> Option<u32> {
        let Remnant { id, keep, .. } = **self.remnant.as_ref()?;
        let zspage = self.zspages[id as usize];
        (zspage.free != NO_OBJECT || zspage.bump < keep).then_some(id)
    }

    /// Free an object of the remnant.
    pub(super) fn free_in_remnant<R: RawMutex>(&mut self, backing: &Backing<R, A>, id: u32, index: u16) {
        match &mut self.remnant {
            Some(remnant) if index >= remnant.keep => remnant.behind.push(index),
            _ => self.push_free(backing, id, index),
        }
    }

    /// What was not emptied takes objects again.
    pub(super) fn end_compaction<R: RawMutex>(&mut self, backing: &Backing<R, A>) {
        if let Some(remnant) = self.remnant.take() {
            self.settle(backing, &remnant);
        }
        for id in 0..self.zspages.len() as u32 {
            let zspage = &mut self.zspages[id as usize];
            if zspage.state == State::Victim {
                zspage.state = State::Open;
                self.link(id);
            }
        }
    }

    /// Give up the pages behind the objects that stay, unless one of the others could not move.
    fn settle<R: RawMutex>(&mut self, backing: &Backing<R, A>, remnant: &Remnant) {
        let Remnant { id, keep, behind } = remnant;
        let bump = self.zspages[*id as usize].bump;
        if behind.len() == usize::from(bump.saturating_sub(*keep)) {
            self.zspages[*id as usize].bump = bump.min(*keep);
            self.trim(backing, *id);
        } else {
            behind.iter().for_each(|index| self.push_free(backing, *id, *index));
        }
        self.zspages[*id as usize].state = State::Open;
        self.link(*id);
    }
}
