//! zsmalloc: objects of up to a page, packed by size class into zspages.
//!
//! A zspage is 1 to 8 pages that hold objects of one size. In user space its pages are simply neighbours in
//! address space, so an object that straddles two pages is one slice and needs no second copy. Each zspage owns a
//! *span* of 8 pages of address space of which it uses the first `pages`; unused address space costs nothing, and neither do
//! pages that were not written yet: objects are handed out from the front, so the last zspage of a class costs
//! what its objects need, not what its class would.
//!
//! # Counting
//! For each zspage: `used <= objects`; the objects below `bump` are either used or on the free list; above, never
//! touched. The first `backed` pages of its span hold all objects below `bump`. `pages() == sum of backed over live zspages,
//! and warm pages`. [`Zsmalloc::is_valid`] evaluates all.

mod compaction;
mod size_class;

use alloc::vec::Vec;

use super::{Arena, Place, PoolFull, Zpool};
use crate::page::PAGE_SIZE;
use compaction::Remnant;
use size_class::{COUNT, SizeClass};

const INDEX_BITS: u32 = 10;

/// An object: zspage and index.
#[derive(Clone, Copy)]
struct Object(Place);

impl Object {
    fn new(zspage: usize, index: u16) -> Self {
        Self((zspage as u64) << INDEX_BITS | u64::from(index))
    }

    fn zspage(self) -> usize {
        (self.0 >> INDEX_BITS) as usize
    }

    fn index(self) -> usize {
        self.0 as usize & ((1 << INDEX_BITS) - 1)
    }
}

const SPAN_PAGES: usize = size_class::CHAIN_MAX;
/// Half a mebibyte.
const WARM_PAGES: u64 = 128;
const NIL: u32 = u32::MAX;
const NO_OBJECT: u16 = u16::MAX;
const CLASSES: [SizeClass; COUNT] = size_class::table();

/// How full a zspage is; allocation takes from the fullest that has room, so that others can empty.
const GROUPS: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Takes objects; on a list, or full. Also of a span without a zspage.
    Open,
    /// Being emptied by compaction: on no list.
    Victim,
    /// Being packed by compaction: on no list, takes what else has no room ([`Remnant`]).
    Remnant,
    /// Shared with the parent of this process: on no list, and its free list is not kept any more.
    Inherited,
}

/// Zspages that room is made for at once, at least.
const ZSPAGES_MORE: usize = 256;

#[derive(Clone, Copy)]
struct Zspage {
    class: u16,
    used: u16,
    /// Objects from here on were never handed out.
    bump: u16,
    /// First free object below `bump`; each free object's first two bytes name the next.
    free: u16,
    /// Pages of the span that were written, or were when it was last in use.
    backed: u8,
    state: State,
    /// Neighbours in its fullness group.
    prev: u32,
    next: u32,
}

impl Zspage {
    fn geometry(&self) -> SizeClass {
        CLASSES[usize::from(self.class)]
    }

    /// Fullness group: quarters by use; a full zspage is on no list.
    fn group(&self) -> Option<usize> {
        let objects = usize::from(self.geometry().objects);
        let takes_more = usize::from(self.used) < objects && self.state == State::Open;
        takes_more.then(|| usize::from(self.used) * GROUPS / objects)
    }

    /// Pages that its first `objects` objects lie in.
    fn pages_of(&self, objects: u16) -> u8 {
        (usize::from(objects) * usize::from(self.geometry().size)).div_ceil(PAGE_SIZE) as u8
    }
}

/// A pool of objects.
pub(super) struct Zsmalloc<A> {
    arena: A,
    zspages: Vec<Zspage>,
    /// Spans without a zspage or pages.
    free_spans: Vec<u32>,
    /// Spans without a zspage whose first 1, 2, ... pages are backed still, for the next zspage of as many: giving pages back
    /// and taking new ones costs a TLB flush and a page fault.
    warm_spans: [Vec<u32>; SPAN_PAGES],
    /// Pages of the warm spans, at most [`WARM_PAGES`].
    warm: u64,
    /// First zspage of each fullness group of each class.
    groups: [[u32; GROUPS]; COUNT],
    /// What compaction packs, one zspage a class.
    remnants: [Option<Remnant>; COUNT],
    /// Backed pages of the zspages.
    pages: u64,
    objects: u64,
}

impl<A: Arena> Zsmalloc<A> {
    /// An empty pool in `arena`.
    pub(super) fn new(arena: A) -> Self {
        Self {
            arena,
            zspages: Vec::new(),
            free_spans: Vec::new(),
            warm_spans: [const { Vec::new() }; SPAN_PAGES],
            warm: 0,
            groups: [[NIL; GROUPS]; COUNT],
            remnants: [const { None }; COUNT],
            pages: 0,
            objects: 0,
        }
    }

    fn offset(&self, object: Object) -> usize {
        let size = usize::from(self.zspages[object.zspage()].geometry().size);
        object.zspage() * SPAN_PAGES * PAGE_SIZE + object.index() * size
    }

    fn slot_mut(&mut self, object: Object, len: usize) -> &mut [u8] {
        let offset = self.offset(object);
        self.arena.bytes_mut(offset, len)
    }

    fn take_object(&mut self, id: u32) -> u16 {
        let zspage = self.zspages[id as usize];
        let index = if zspage.free == NO_OBJECT {
            zspage.bump
        } else {
            zspage.free
        };
        let next_free = if zspage.free == NO_OBJECT {
            NO_OBJECT
        } else {
            self.next_free(id, index)
        };
        self.change(id, |zspage| {
            zspage.bump = zspage.bump.max(index + 1);
            zspage.free = next_free;
            zspage.used += 1;
        });
        let Zspage { bump, backed, .. } = self.zspages[id as usize];
        let needed = self.zspages[id as usize].pages_of(bump).max(backed);
        self.zspages[id as usize].backed = needed;
        self.pages += u64::from(needed - backed);
        index
    }

    /// The free object that a free object names.
    fn next_free(&self, id: u32, index: u16) -> u16 {
        let bytes = self.arena.bytes(self.offset(Object::new(id as usize, index)), 2);
        let next = u16::from_ne_bytes([bytes[0], bytes[1]]);
        // It lies in the pool: what is damaged there must not lead out of the zspage.
        let is_free = next == NO_OBJECT || next < self.zspages[id as usize].bump;
        assert!(is_free, "the pool is damaged: no free object {next}");
        next
    }

    /// Put an object on the free list of its zspage.
    fn push_free(&mut self, id: u32, index: u16) {
        let next = self.zspages[id as usize].free;
        let object = Object::new(id as usize, index);
        self.slot_mut(object, 2).copy_from_slice(&next.to_ne_bytes());
        self.zspages[id as usize].free = index;
    }

    fn new_zspage(&mut self, class: usize) -> Result<u32, PoolFull> {
        let mut zspage = Zspage {
            class: class as u16,
            used: 0,
            bump: 0,
            free: NO_OBJECT,
            backed: 0,
            state: State::Open,
            prev: NIL,
            next: NIL,
        };
        let warm = self.take_warm(usize::from(zspage.geometry().pages));
        zspage.backed = warm.map_or(0, |(_, backed)| backed);
        let id = match warm.map(|(id, _)| id).or_else(|| self.free_spans.pop()) {
            Some(id) => {
                self.zspages[id as usize] = zspage;
                id
            }
            None if (self.zspages.len() + 1) * SPAN_PAGES <= self.arena.pages() => {
                if self.zspages.len() == self.zspages.capacity() {
                    // An eighth more, not twice as much: metadata is paid for by every page.
                    self.zspages.reserve_exact((self.zspages.len() / 8).max(ZSPAGES_MORE));
                }
                self.zspages.push(zspage);
                (self.zspages.len() - 1) as u32
            }
            None if self.warm > 0 => {
                self.cool();
                return self.new_zspage(class);
            }
            None => return Err(PoolFull),
        };
        self.pages += u64::from(zspage.backed);
        self.link(id);
        Ok(id)
    }

    /// The warm span with the most pages, but at most `pages`; and how many it has.
    fn take_warm(&mut self, pages: usize) -> Option<(u32, u8)> {
        let mut spans = self.warm_spans[..pages].iter_mut().enumerate().rev();
        let (at, id) = spans.find_map(|(at, spans)| Some((at, spans.pop()?)))?;
        let backed = at as u8 + 1;
        self.warm -= u64::from(backed);
        Some((id, backed))
    }

    fn free_zspage(&mut self, id: u32) {
        self.unlink(id);
        let zspage = &mut self.zspages[id as usize];
        let (pages, class) = (u64::from(zspage.backed), usize::from(zspage.class));
        zspage.bump = 0;
        let state = core::mem::replace(&mut zspage.state, State::Open);
        if state == State::Remnant {
            self.remnants[class] = None;
        }
        self.pages -= pages;
        if self.pages == 0 {
            self.cool();
        }
        if self.pages == 0 || state == State::Inherited || self.warm + pages > WARM_PAGES {
            self.arena.release(id as usize * SPAN_PAGES, pages as usize);
            self.free_spans.push(id);
        } else {
            self.warm_spans[pages as usize - 1].push(id);
            self.warm += pages;
        }
    }

    /// Give the warm pages back to the system.
    fn cool(&mut self) {
        for (pages, spans) in (1..).zip(&mut self.warm_spans) {
            for id in spans.drain(..) {
                self.arena.release(id as usize * SPAN_PAGES, pages);
                self.free_spans.push(id);
            }
        }
        self.warm = 0;
    }

    /// Change a zspage and move it to the fullness group that it belongs to afterwards.
    fn change(&mut self, id: u32, f: impl FnOnce(&mut Zspage)) {
        let before = self.zspages[id as usize].group();
        let mut changed = self.zspages[id as usize];
        f(&mut changed);
        if before == changed.group() {
            self.zspages[id as usize] = changed;
            return;
        }
        self.unlink(id);
        (changed.prev, changed.next) = (NIL, NIL);
        self.zspages[id as usize] = changed;
        self.link(id);
    }

    /// The zspage of a class that the next object goes to, unless that takes a new one.
    fn fullest(&self, class: usize) -> Option<u32> {
        self.groups[class].iter().rev().copied().find(|head| *head != NIL)
    }

    fn link(&mut self, id: u32) {
        let zspage = self.zspages[id as usize];
        let Some(group) = zspage.group() else { return };
        let head = &mut self.groups[usize::from(zspage.class)][group];
        let next = core::mem::replace(head, id);
        self.zspages[id as usize].next = next;
        if next != NIL {
            self.zspages[next as usize].prev = id;
        }
    }

    fn unlink(&mut self, id: u32) {
        let zspage = self.zspages[id as usize];
        let Some(group) = zspage.group() else { return };
        match zspage.prev {
            NIL => self.groups[usize::from(zspage.class)][group] = zspage.next,
            prev => self.zspages[prev as usize].next = zspage.next,
        }
        if zspage.next != NIL {
            self.zspages[zspage.next as usize].prev = zspage.prev;
        }
        let zspage = &mut self.zspages[id as usize];
        (zspage.prev, zspage.next) = (NIL, NIL);
    }
}

impl<A: Arena> Zpool<A> for Zsmalloc<A> {
    fn store(&mut self, bytes: &[u8]) -> Result<Place, PoolFull> {
        assert!((1..=PAGE_SIZE).contains(&bytes.len()), "an object is 1 to 4096 bytes");
        // Merging gives several sizes one geometry; the lists of the largest of them are used for all.
        let class = canonical(size_class::index(bytes.len()));
        let id = match self.fullest(class) {
            Some(id) => id,
            None => self.new_zspage(class)?,
        };
        let object = Object::new(id as usize, self.take_object(id));
        self.slot_mut(object, bytes.len()).copy_from_slice(bytes);
        self.objects += 1;
        Ok(object.0)
    }

    fn read(&self, place: Place, len: usize) -> &[u8] {
        self.arena.bytes(self.offset(Object(place)), len)
    }

    fn page_number(&self, place: Place) -> usize {
        Object(place).zspage()
    }

    /// An emptied zspage returns its pages to the system, or keeps them warm.
    fn free(&mut self, place: Place) {
        let object = Object(place);
        let (id, index) = (object.zspage() as u32, object.index() as u16);
        let zspage = self.zspages[id as usize];
        assert!(
            zspage.used > 0 && index < zspage.bump,
            "freeing an object that is not there"
        );
        match zspage.state {
            State::Inherited => {}
            State::Remnant => self.free_in_remnant(id, index),
            State::Open | State::Victim => self.push_free(id, index),
        }
        self.change(id, |zspage| zspage.used -= 1);
        self.objects -= 1;
        if self.zspages[id as usize].used == 0 {
            self.free_zspage(id);
        }
    }

    /// Warm pages included: what the pool costs.
    fn pages(&self) -> u64 {
        self.pages + self.warm
    }

    fn objects(&self) -> u64 {
        self.objects
    }

    fn inherit(&mut self) {
        // Warm pages would be written by the next zspage.
        self.cool();
        self.groups = [[NIL; GROUPS]; COUNT];
        self.remnants = [const { None }; COUNT];
        for zspage in &mut self.zspages {
            (zspage.prev, zspage.next) = (NIL, NIL);
            zspage.state = if zspage.used > 0 { State::Inherited } else { State::Open };
        }
    }

    fn begin_compaction(&mut self) -> u64 {
        self.begin()
    }

    fn relocate(&mut self, place: Place, len: usize) -> Option<Place> {
        let from = Object(place);
        if !self.is_to_move(from) {
            return None;
        }
        let class = usize::from(self.zspages[from.zspage()].class);
        // Never a new zspage: one would be emptied and another filled.
        let id = self.fullest(class).or_else(|| self.remnant_with_room(class))?;
        let to = Object::new(id as usize, self.take_object(id));
        let (source, target) = (self.offset(from), self.offset(to));
        self.arena.copy(source, target, len);
        self.objects += 1;
        self.free(place);
        Some(to.0)
    }

    fn end_compaction(&mut self) {
        self.end();
    }

    #[cfg(test)]
    fn is_valid(&self) -> bool {
        let mut pages = 0;
        let mut objects = 0;
        for (id, zspage) in self.zspages.iter().enumerate() {
            let mut empty = self.warm_spans.iter().chain([&self.free_spans]).flatten();
            if empty.any(|span| *span == id as u32) {
                continue;
            }
            if zspage.state == State::Inherited {
                pages += u64::from(zspage.backed);
                objects += u64::from(zspage.used);
                continue;
            }
            let mut free = 0;
            let mut at = zspage.free;
            while at != NO_OBJECT {
                free += 1;
                if at >= zspage.bump || free > zspage.bump {
                    return false;
                }
                at = self.next_free(id as u32, at);
            }
            let is_counted = zspage.used + free == zspage.bump && zspage.bump <= zspage.geometry().objects;
            let is_backed = zspage.pages_of(zspage.bump) <= zspage.backed && zspage.backed <= zspage.geometry().pages;
            if !is_counted || !is_backed || zspage.state != State::Open {
                return false;
            }
            pages += u64::from(zspage.backed);
            objects += u64::from(zspage.used);
        }
        pages == self.pages && objects == self.objects
    }
}

/// The largest index with the same geometry.
fn canonical(index: usize) -> usize {
    size_class::index(usize::from(CLASSES[index].size))
}
