//! One size class: its zspages, in order of fullness.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::Range;

use lock_api::RawMutex;

use super::backing::Backing;
use super::compaction::Remnant;
use super::size_class::SizeClass;
use super::{NO_OBJECT, Object};
use crate::page::PAGE_SIZE;
use crate::policy::tunables::{REOPENED, ZSPAGES_MORE};
use crate::zpool::fingerprints::Fingerprints;
use crate::zpool::{Arena, PoolFull};

pub(super) const NIL: u32 = u32::MAX;

/// How full a zspage is; allocation takes from the fullest that has room, so that others can empty.
const GROUPS: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Takes objects; on a list, or full.
    Open,
    /// Being emptied by compaction: on no list.
    Victim,
    /// Being packed by compaction: on no list, takes what else has no room ([`Remnant`]).
    Remnant,
    /// Shared with a forked relative, so it is not written: on no list, and objects are freed on
    /// paper ([`Class::unwritten`]).
    Inherited,
}

#[derive(Clone, Copy)]
pub(super) struct Zspage {
    pub(super) used: u16,
    /// Objects from here on were never handed out.
    pub(super) bump: u16,
    /// First free object below `bump`; each free object's first two bytes name the next.
    pub(super) free: u16,
    /// Pages of the span that were written, or were when it was last in use.
    pub(super) backed: u8,
    pub(super) state: State,
    /// Neighbours in its fullness group; of a number that is no zspage, the next of those.
    prev: u32,
    pub(super) next: u32,
}

/// The zspages of one class. Everything about them is under the lock of the class.
pub(super) struct Class<A: Arena> {
    pub(super) geometry: SizeClass,
    pub(super) zspages: Vec<Zspage>,
    /// Where each of them lies. `None`: that number is no zspage.
    spans: Vec<Option<A::Span>>,
    /// First number that is no zspage.
    vacant: u32,
    /// First zspage of each fullness group.
    groups: [u32; GROUPS],
    /// What compaction packs.
    pub(super) remnant: Option<Box<Remnant>>,
    /// Objects that were freed while their zspage was inherited, or is a zspage no more.
    unwritten: Vec<Object>,
    /// Zspages may be inherited.
    inherits: bool,
    /// Of pages that are stored as they are.
    fingerprints: Fingerprints,
}

impl<A: Arena> Class<A> {
    pub(super) fn new(geometry: SizeClass) -> Self {
        Self {
            geometry,
            zspages: Vec::new(),
            spans: Vec::new(),
            vacant: NIL,
            groups: [NIL; GROUPS],
            remnant: None,
            unwritten: Vec::new(),
            inherits: false,
            fingerprints: Fingerprints::default(),
        }
    }

    pub(super) fn store<R: RawMutex>(
        &mut self,
        backing: &Backing<R, A>,
        bytes: &[u8],
        fingerprint: Option<u32>,
    ) -> Result<Object, PoolFull> {
        let id = match self.fullest() {
            Some(id) => id,
            None => self.new_zspage(backing)?,
        };
        let object = match self.take_object(backing, id) {
            Ok(index) => Object::new(id, index),
            Err(full) => self.take_hole(backing, id).ok_or(full)?,
        };
        if let Some(fingerprint) = fingerprint {
            self.fingerprints.set(self.number(object), fingerprint);
        }
        let range = self.range(object, bytes.len());
        let span = span_mut(&mut self.spans, id);
        backing.arena.bytes_mut(span, range.clone()).copy_from_slice(bytes);
        backing.arena.stored(span, range);
        Ok(object)
    }

    pub(super) fn read<'a>(&'a self, arena: &'a A, object: Object, len: usize) -> &'a [u8] {
        arena.bytes(self.span(object.zspage()), self.range(object, len))
    }

    /// Of an object of a whole page.
    pub(super) fn fingerprint(&self, object: Object) -> u32 {
        self.fingerprints.get(self.number(object))
    }

    /// Objects one behind the other, over all zspages.
    fn number(&self, object: Object) -> usize {
        object.zspage() as usize * usize::from(self.geometry.objects) + usize::from(object.index())
    }

    /// Free an object. An emptied zspage returns its pages to the system, or keeps them warm.
    pub(super) fn free<R: RawMutex>(&mut self, backing: &Backing<R, A>, object: Object) {
        let (id, index) = (object.zspage(), object.index());
        let zspage = self.zspages[id as usize];
        assert!(
            zspage.used > 0 && index < zspage.bump,
            "freeing an object that is not there"
        );
        match zspage.state {
            State::Inherited => self.unwritten.push(object),
            State::Remnant => self.free_in_remnant(backing, id, index),
            State::Open | State::Victim => self.push_free(backing, id, index),
        }
        self.change(id, |zspage| zspage.used -= 1);
        if self.zspages[id as usize].used == 0 {
            self.free_zspage(backing, id);
        }
    }

    /// Copy an object to a zspage that stays, or to the front of the remnant. Never to a new
    /// zspage: one would be emptied and another filled.
    pub(super) fn relocate<R: RawMutex>(
        &mut self,
        backing: &Backing<R, A>,
        from: Object,
        len: usize,
    ) -> Option<Object> {
        if !self.is_to_move(from) {
            return None;
        }
        let id = match self.zspages[from.zspage() as usize].state {
            // Or it might be empty, and freed, before others need the room at its front.
            State::Remnant => self.remnant_with_room().or_else(|| self.fullest())?,
            _ => self.fullest().or_else(|| self.remnant_with_room())?,
        };
        let to = Object::new(id, self.take_object(backing, id).ok()?);
        let fingerprint = self.fingerprint(from);
        if len == PAGE_SIZE {
            self.fingerprints.set(self.number(to), fingerprint);
        }
        self.copy(&backing.arena, from, to, len);
        self.free(backing, from);
        Some(to)
    }

    fn copy(&mut self, arena: &A, from: Object, to: Object, len: usize) {
        let (source, target) = (self.range(from, len), self.range(to, len));
        let ids = [from.zspage() as usize, to.zspage() as usize];
        match self.spans.get_disjoint_mut(ids) {
            Ok([Some(source_span), Some(target_span)]) => {
                let bytes = arena.bytes_mut(target_span, target.clone());
                bytes.copy_from_slice(arena.bytes(source_span, source));
                arena.stored(target_span, target);
            }
            // Within the remnant.
            _ => {
                let span = span_mut(&mut self.spans, to.zspage());
                let whole = 0..source.end.max(target.end);
                arena.bytes_mut(span, whole).copy_within(source, target.start);
            }
        }
    }

    fn span(&self, id: u32) -> &A::Span {
        match &self.spans[id as usize] {
            Some(span) => span,
            None => unreachable!("a zspage has a span"),
        }
    }

    /// Where an object lies in its span.
    fn range(&self, object: Object, len: usize) -> Range<usize> {
        let start = usize::from(object.index()) * usize::from(self.geometry.size);
        start..start + len
    }

    /// Fullness group of a zspage: quarters by use; a full zspage is on no list.
    fn group(&self, zspage: &Zspage) -> Option<usize> {
        let objects = usize::from(self.geometry.objects);
        let takes_more = usize::from(zspage.used) < objects && zspage.state == State::Open;
        takes_more.then(|| usize::from(zspage.used) * GROUPS / objects)
    }

    /// Pages that the first `objects` objects of a zspage lie in.
    pub(super) fn pages_of(&self, objects: u16) -> u8 {
        (usize::from(objects) * usize::from(self.geometry.size)).div_ceil(PAGE_SIZE) as u8
    }

    /// # Errors
    /// There may not be another page; nothing has changed then.
    fn take_object<R: RawMutex>(&mut self, backing: &Backing<R, A>, id: u32) -> Result<u16, PoolFull> {
        let zspage = self.zspages[id as usize];
        let (index, next_free) = match zspage.free {
            NO_OBJECT => (zspage.bump, NO_OBJECT),
            free => (free, self.next_free(&backing.arena, id, free)),
        };
        let bump = zspage.bump.max(index + 1);
        let backed = self.pages_of(bump).max(zspage.backed);
        backing.grow(backed - zspage.backed)?;
        self.change(id, |zspage| {
            zspage.bump = bump;
            zspage.free = next_free;
            zspage.used += 1;
            zspage.backed = backed;
        });
        Ok(index)
    }

    /// An object in a page that is written already, as `refused` needs another and may not have it.
    fn take_hole<R: RawMutex>(&mut self, backing: &Backing<R, A>, refused: u32) -> Option<Object> {
        if self.zspages[refused as usize].used == 0 {
            // Made for this object.
            self.free_zspage(backing, refused);
            return None;
        }
        let has_hole = |id: &u32| {
            let zspage = &self.zspages[*id as usize];
            zspage.free != NO_OBJECT || self.pages_of(zspage.bump + 1) <= zspage.backed
        };
        let id = self.listed().find(has_hole)?;
        let index = self.take_object(backing, id).ok()?;
        Some(Object::new(id, index))
    }

    /// The free object that a free object names.
    pub(super) fn next_free(&self, arena: &A, id: u32, index: u16) -> u16 {
        let bytes = self.read(arena, Object::new(id, index), 2);
        let next = u16::from_ne_bytes([bytes[0], bytes[1]]);
        // It lies in the pool: what is damaged there must not lead out of the zspage.
        let is_free = next == NO_OBJECT || next < self.zspages[id as usize].bump;
        assert!(is_free, "the pool is damaged: no free object {next}");
        next
    }

    /// Put an object on the free list of its zspage.
    pub(super) fn push_free<R: RawMutex>(&mut self, backing: &Backing<R, A>, id: u32, index: u16) {
        let next = self.zspages[id as usize].free;
        let range = self.range(Object::new(id, index), 2);
        let span = span_mut(&mut self.spans, id);
        backing
            .arena
            .bytes_mut(span, range)
            .copy_from_slice(&next.to_ne_bytes());
        self.zspages[id as usize].free = index;
    }

    fn new_zspage<R: RawMutex>(&mut self, backing: &Backing<R, A>) -> Result<u32, PoolFull> {
        let (span, backed) = backing.take(self.geometry.pages.into())?;
        let zspage = Zspage {
            used: 0,
            bump: 0,
            free: NO_OBJECT,
            backed,
            state: State::Open,
            prev: NIL,
            next: NIL,
        };
        let id = match self.vacant {
            NIL => {
                if self.zspages.len() == self.zspages.capacity() {
                    // An eighth more, not twice as much: metadata is paid for by every page.
                    let more = (self.zspages.len() / 8).max(ZSPAGES_MORE);
                    self.zspages.reserve_exact(more);
                    self.spans.reserve_exact(more);
                }
                self.zspages.push(zspage);
                self.spans.push(Some(span));
                (self.zspages.len() - 1) as u32
            }
            id => {
                self.vacant = self.zspages[id as usize].next;
                self.zspages[id as usize] = zspage;
                self.spans[id as usize] = Some(span);
                id
            }
        };
        self.link(id);
        Ok(id)
    }

    fn free_zspage<R: RawMutex>(&mut self, backing: &Backing<R, A>, id: u32) {
        self.unlink(id);
        let Zspage { backed, state, .. } = self.zspages[id as usize];
        if state == State::Remnant {
            self.remnant = None;
        }
        if let Some(span) = self.spans[id as usize].take() {
            backing.put(span, backed, state == State::Inherited);
        }
        let zspage = &mut self.zspages[id as usize];
        zspage.state = State::Open;
        zspage.bump = 0;
        zspage.next = core::mem::replace(&mut self.vacant, id);
    }

    /// Give up the pages of a zspage in which no object was handed out.
    pub(super) fn trim<R: RawMutex>(&mut self, backing: &Backing<R, A>, id: u32) {
        let zspage = self.zspages[id as usize];
        let needed = self.pages_of(zspage.bump);
        if needed < zspage.backed {
            self.zspages[id as usize].backed = needed;
            backing.release(span_mut(&mut self.spans, id), needed, zspage.backed);
        }
    }

    /// Change a zspage and move it to the fullness group that it belongs to afterwards.
    fn change(&mut self, id: u32, f: impl FnOnce(&mut Zspage)) {
        let mut changed = self.zspages[id as usize];
        let before = self.group(&changed);
        f(&mut changed);
        if before == self.group(&changed) {
            self.zspages[id as usize] = changed;
            return;
        }
        self.unlink(id);
        (changed.prev, changed.next) = (NIL, NIL);
        self.zspages[id as usize] = changed;
        self.link(id);
    }

    /// The zspage that the next object goes to, unless that takes a new one.
    fn fullest(&self) -> Option<u32> {
        self.groups.iter().rev().copied().find(|head| *head != NIL)
    }

    /// The zspages that are on a list: neither full nor being compacted nor inherited.
    pub(super) fn listed(&self) -> impl Iterator<Item = u32> {
        let listed = |id: u32| (id != NIL).then_some(id);
        self.groups.iter().flat_map(move |head| {
            let next = move |id: &u32| listed(self.zspages[*id as usize].next);
            core::iter::successors(listed(*head), next)
        })
    }

    pub(super) fn link(&mut self, id: u32) {
        let Some(group) = self.group(&self.zspages[id as usize]) else {
            return;
        };
        let next = core::mem::replace(&mut self.groups[group], id);
        self.zspages[id as usize].next = next;
        if next != NIL {
            self.zspages[next as usize].prev = id;
        }
    }

    pub(super) fn unlink(&mut self, id: u32) {
        let zspage = self.zspages[id as usize];
        let Some(group) = self.group(&zspage) else { return };
        match zspage.prev {
            NIL => self.groups[group] = zspage.next,
            prev => self.zspages[prev as usize].next = zspage.next,
        }
        if zspage.next != NIL {
            self.zspages[zspage.next as usize].prev = zspage.prev;
        }
        let zspage = &mut self.zspages[id as usize];
        (zspage.prev, zspage.next) = (NIL, NIL);
    }

    /// After a fork: what is there is shared, and is left as it is.
    pub(super) fn inherit(&mut self) {
        self.inherits = true;
        self.groups = [NIL; GROUPS];
        let zspages = &self.zspages;
        // Of those whose numbers other zspages have by now, nothing is left.
        self.unwritten
            .retain(|object| zspages[object.zspage() as usize].state == State::Inherited);
        if let Some(remnant) = self.remnant.take() {
            self.unwritten.extend(remnant.off_the_list());
        }
        for (zspage, span) in self.zspages.iter_mut().zip(&self.spans) {
            if span.is_some() {
                (zspage.prev, zspage.next) = (NIL, NIL);
                zspage.state = State::Inherited;
            }
        }
    }

    pub(super) fn is_inherited(&self, object: Object) -> bool {
        self.zspages[object.zspage() as usize].state == State::Inherited
    }

    /// What is there is written again: free some of what was freed on paper; after the last of it
    /// all zspages take objects again. False: there was nothing to do. Each may copy a page that a
    /// relative has still, and faults wait for the lock.
    pub(super) fn reopen_some<R: RawMutex>(&mut self, backing: &Backing<R, A>) -> bool {
        if !self.inherits {
            return false;
        }
        let left = self.unwritten.len().saturating_sub(REOPENED);
        for object in self.unwritten.split_off(left) {
            if self.is_inherited(object) {
                self.push_free(backing, object.zspage(), object.index());
            }
        }
        if left > 0 {
            return true;
        }
        (self.inherits, self.unwritten) = (false, Vec::new());
        for id in 0..self.zspages.len() as u32 {
            let zspage = &mut self.zspages[id as usize];
            if zspage.state == State::Inherited {
                zspage.state = State::Open;
                self.link(id);
            }
        }
        true
    }

    /// Objects and backed pages, if every zspage is as the module says.
    #[cfg(test)]
    pub(super) fn count(&self, arena: &A) -> Option<(u64, u64)> {
        let (mut objects, mut pages) = (0, 0);
        for (id, zspage) in (0..).zip(&self.zspages) {
            if self.spans[id as usize].is_none() {
                continue;
            }
            objects += u64::from(zspage.used);
            pages += u64::from(zspage.backed);
            if zspage.state == State::Inherited {
                continue;
            }
            let mut free = 0;
            let mut at = zspage.free;
            while at != NO_OBJECT {
                free += 1;
                if at >= zspage.bump || free > zspage.bump {
                    return None;
                }
                at = self.next_free(arena, id, at);
            }
            let is_counted = zspage.used + free == zspage.bump && zspage.bump <= self.geometry.objects;
            let is_backed = self.pages_of(zspage.bump) <= zspage.backed && zspage.backed <= self.geometry.pages;
            if !is_counted || !is_backed || zspage.state != State::Open {
                return None;
            }
        }
        Some((objects, pages))
    }
}

/// Not a method: what else a class has is borrowed meanwhile.
fn span_mut<S>(spans: &mut [Option<S>], id: u32) -> &mut S {
    match &mut spans[id as usize] {
        Some(span) => span,
        None => unreachable!("a zspage has a span"),
    }
}
