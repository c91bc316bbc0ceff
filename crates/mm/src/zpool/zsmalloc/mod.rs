//! zsmalloc: objects of up to a page, packed by size class into zspages.
//!
//! A zspage is 1 to 8 pages that hold objects of one size. In user space its pages are simply neighbours in
//! address space, so an object that straddles two pages is one slice and needs no second copy. Each zspage owns a
//! *span* of 8 pages of address space of which it uses the first `pages`; unused address space costs nothing.
//!
//! # Counting
//! For each zspage: `used <= objects`; the objects below `bump` are either used or on the free list; above, never
//! touched. `pages() == sum of class.pages over live zspages`. [`Zsmalloc::is_valid`] evaluates both.

mod size_class;

use alloc::vec::Vec;

use super::{Arena, Place, PoolFull, Zpool};
use crate::page::PAGE_SIZE;
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

#[derive(Clone, Copy)]
struct Zspage {
    class: u16,
    used: u16,
    /// Objects from here on were never handed out.
    bump: u16,
    /// First free object below `bump`; each free object's first two bytes name the next.
    free: u16,
    /// Being emptied by compaction: on no list.
    is_victim: bool,
    /// Shared with the parent of this process: on no list, and its free list is not kept any more.
    is_inherited: bool,
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
        let takes_more = usize::from(self.used) < objects && !self.is_victim && !self.is_inherited;
        takes_more.then(|| usize::from(self.used) * GROUPS / objects)
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
            let bytes = self.arena.bytes(self.offset(Object::new(id as usize, index)), 2);
            u16::from_ne_bytes([bytes[0], bytes[1]])
        };
        self.change(id, |zspage| {
            zspage.bump = zspage.bump.max(index + 1);
            zspage.free = next_free;
            zspage.used += 1;
        });
        index
    }

    fn new_zspage(&mut self, class: usize) -> Result<u32, PoolFull> {
        let zspage = Zspage {
            class: class as u16,
            used: 0,
            bump: 0,
            free: NO_OBJECT,
            is_victim: false,
            is_inherited: false,
            prev: NIL,
            next: NIL,
        };
        let pages = usize::from(zspage.geometry().pages);
        let warm = self.warm_spans[pages - 1].pop();
        self.warm -= warm.map_or(0, |_| pages as u64);
        let id = match warm.or_else(|| self.free_spans.pop()) {
            Some(id) => {
                self.zspages[id as usize] = zspage;
                id
            }
            None if (self.zspages.len() + 1) * SPAN_PAGES <= self.arena.pages() => {
                self.zspages.push(zspage);
                (self.zspages.len() - 1) as u32
            }
            None if self.warm > 0 => {
                self.cool();
                return self.new_zspage(class);
            }
            None => return Err(PoolFull),
        };
        self.pages += pages as u64;
        self.link(id);
        Ok(id)
    }

    fn free_zspage(&mut self, id: u32) {
        self.unlink(id);
        let pages = u64::from(self.zspages[id as usize].geometry().pages);
        let is_inherited = self.zspages[id as usize].is_inherited;
        self.zspages[id as usize].bump = 0;
        self.zspages[id as usize].is_victim = false;
        self.zspages[id as usize].is_inherited = false;
        self.pages -= pages;
        if self.pages == 0 {
            self.cool();
        }
        if self.pages == 0 || is_inherited || self.warm + pages > WARM_PAGES {
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

    /// Mark the emptiest zspages of a class whose objects the others have room for. Returns how many pages they have.
    fn choose_victims(&mut self, class: usize) -> u64 {
        let mut partial = Vec::new();
        for head in self.groups[class] {
            let mut id = head;
            while id != NIL {
                partial.push((self.zspages[id as usize].used, id));
                id = self.zspages[id as usize].next;
            }
        }
        let objects = usize::from(CLASSES[class].objects);
        let free: usize = partial.iter().map(|(used, _)| objects - usize::from(*used)).sum();
        partial.sort_unstable();
        partial.truncate(free / objects);
        for (_, id) in &partial {
            self.unlink(*id);
            self.zspages[*id as usize].is_victim = true;
        }
        partial.len() as u64 * u64::from(CLASSES[class].pages)
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
        let id = match self.groups[class].iter().rev().find(|head| **head != NIL) {
            Some(&id) => id,
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

    /// An emptied zspage returns its pages to the system, or keeps them warm.
    fn free(&mut self, place: Place) {
        let object = Object(place);
        let (id, index) = (object.zspage() as u32, object.index() as u16);
        let Zspage {
            free: next,
            is_inherited,
            ..
        } = self.zspages[id as usize];
        if !is_inherited {
            self.slot_mut(object, 2).copy_from_slice(&next.to_ne_bytes());
        }
        self.change(id, |zspage| {
            assert!(
                zspage.used > 0 && index < zspage.bump,
                "freeing an object that is not there"
            );
            zspage.free = index;
            zspage.used -= 1;
        });
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
        for zspage in &mut self.zspages {
            (zspage.prev, zspage.next) = (NIL, NIL);
            zspage.is_inherited = zspage.used > 0;
        }
    }

    fn begin_compaction(&mut self) -> u64 {
        (0..COUNT).map(|class| self.choose_victims(class)).sum()
    }

    fn relocate(&mut self, place: Place, len: usize) -> Option<Place> {
        let from = Object(place);
        let zspage = self.zspages[from.zspage()];
        if !zspage.is_victim {
            return None;
        }
        // Never a new zspage: one would be emptied and another filled.
        let id = *self.groups[usize::from(zspage.class)]
            .iter()
            .rev()
            .find(|head| **head != NIL)?;
        let to = Object::new(id as usize, self.take_object(id));
        let (source, target) = (self.offset(from), self.offset(to));
        self.arena.copy(source, target, len);
        self.objects += 1;
        self.free(place);
        Some(to.0)
    }

    fn end_compaction(&mut self) {
        self.cool();
        for id in 0..self.zspages.len() as u32 {
            if core::mem::replace(&mut self.zspages[id as usize].is_victim, false) {
                self.link(id);
            }
        }
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
            if zspage.is_inherited {
                pages += u64::from(zspage.geometry().pages);
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
                let bytes = self.arena.bytes(self.offset(Object::new(id, at)), 2);
                at = u16::from_ne_bytes([bytes[0], bytes[1]]);
            }
            if zspage.used + free != zspage.bump || zspage.bump > zspage.geometry().objects {
                return false;
            }
            pages += u64::from(zspage.geometry().pages);
            objects += u64::from(zspage.used);
        }
        pages == self.pages && objects == self.objects
    }
}

/// The largest index with the same geometry.
fn canonical(index: usize) -> usize {
    size_class::index(usize::from(CLASSES[index].size))
}
