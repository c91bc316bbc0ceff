//! zbud and z3fold: at most two, or three, objects a page.
//!
//! The simple end of the scale: a store of another page never moves an object, and freeing one
//! frees its page as soon as its neighbours are gone. The price is density: at best half, or a
//! third, of a page for each object. Both are this allocator with another number of objects a page
//! (`N`). Sizes are counted in chunks of 64 bytes, as in the kernel's mm/zbud.c and mm/z3fold.c
//! (removed in Linux 6.15). There the page begins with a header; here the header is kept beside the
//! page, so a whole page can be stored.
//!
//! An object lies where it was put until a store needs the gaps between the others. Then they slide
//! to the front of the page. That changes no [`Place`](super::Place), which names page and buddy,
//! not an offset.
//!
//! One lock for all of it, as in the kernel.
//!
//! # Counting
//! For each page: its objects do not overlap, and `free` is [`CHUNKS`] less their chunks. A page is
//! on the list of its `free` if it has between one and `N - 1` objects and is not inherited.
//! `pages` is the number of pages with an object.

use alloc::vec::Vec;
use core::ops::Range;

use lock_api::RawMutex;

#[cfg(not(loom))]
use super::Unlock;
use super::arena::SPAN_PAGES;
use super::fingerprints::Fingerprints;
use super::{Arena, Place, PoolFull, Zpool};
use crate::lock::Mutex;
use crate::page::PAGE_SIZE;

const CHUNK: usize = 64;
const CHUNKS: usize = PAGE_SIZE / CHUNK;
const NIL: u32 = u32::MAX;
/// Buddies that a place can tell apart.
const BUDDIES: u64 = 4;

/// One object: its first chunk and how many. None: 0 chunks.
#[derive(Clone, Copy, Default)]
struct Object {
    first: u8,
    chunks: u8,
}

#[derive(Clone, Copy)]
struct Page<const N: usize> {
    objects: [Object; N],
    /// Shared with the parent of this process: takes no more objects.
    is_inherited: bool,
    prev: u32,
    next: u32,
}

impl<const N: usize> Page<N> {
    const EMPTY: Self = Self {
        objects: [Object { first: 0, chunks: 0 }; N],
        is_inherited: false,
        prev: NIL,
        next: NIL,
    };

    fn used(&self) -> usize {
        self.objects.iter().filter(|object| object.chunks > 0).count()
    }

    fn free(&self) -> usize {
        CHUNKS
            - self
                .objects
                .iter()
                .map(|object| usize::from(object.chunks))
                .sum::<usize>()
    }

    /// Objects that are there, by place in the page.
    fn in_order(&self) -> ([usize; N], usize) {
        let mut order = [0; N];
        let mut n = 0;
        for (i, _) in self.objects.iter().enumerate().filter(|(_, object)| object.chunks > 0) {
            order[n] = i;
            n += 1;
        }
        order[..n].sort_unstable_by_key(|i| self.objects[*i].first);
        (order, n)
    }

    /// First chunk of a gap of `chunks`.
    fn gap(&self, chunks: usize) -> Option<usize> {
        let (order, n) = self.in_order();
        let mut at = 0;
        for i in &order[..n] {
            let object = self.objects[*i];
            if usize::from(object.first) >= at + chunks {
                break;
            }
            at = usize::from(object.first) + usize::from(object.chunks);
        }
        (at + chunks <= CHUNKS).then_some(at)
    }
}

/// Pages of at most `N` objects.
pub(super) struct Buddies<R, A: Arena, const N: usize>(Mutex<R, Pages<A, N>>);

struct Pages<A: Arena, const N: usize> {
    arena: A,
    /// Those that pages lie in, in the order of the pages.
    spans: Vec<A::Span>,
    pages: Vec<Page<N>>,
    /// Page numbers that are not in use.
    empty: Vec<u32>,
    /// First page with so many free chunks and room for one more object.
    unbuddied: [u32; CHUNKS + 1],
    objects: u64,
    fingerprints: Fingerprints,
}

fn chunks(len: usize) -> usize {
    len.div_ceil(CHUNK)
}

impl<R: RawMutex, A: Arena, const N: usize> Buddies<R, A, N> {
    pub(super) fn new(arena: A) -> Self {
        const { assert!(N as u64 <= BUDDIES) };
        Self(Mutex::new(Pages {
            arena,
            spans: Vec::new(),
            pages: Vec::new(),
            empty: Vec::new(),
            unbuddied: [NIL; CHUNKS + 1],
            objects: 0,
            fingerprints: Fingerprints::default(),
        }))
    }

    #[cfg(not(loom))]
    pub(super) fn unlock(&self, unlock: &impl Unlock<R>) {
        unlock.unlock(&self.0);
    }
}

/// A page in its span, `range` of it.
fn within(id: u32, range: Range<usize>) -> Range<usize> {
    let start = id as usize % SPAN_PAGES * PAGE_SIZE;
    start + range.start..start + range.end
}

impl<A: Arena, const N: usize> Pages<A, N> {
    fn bytes(&self, id: u32, range: Range<usize>) -> &[u8] {
        self.arena
            .bytes(&self.spans[id as usize / SPAN_PAGES], within(id, range))
    }

    fn bytes_mut(&mut self, id: u32, range: Range<usize>) -> &mut [u8] {
        let span = &mut self.spans[id as usize / SPAN_PAGES];
        self.arena.bytes_mut(span, within(id, range))
    }

    fn pages_in_use(&self) -> u64 {
        (self.pages.len() - self.empty.len()) as u64
    }

    /// The page with the least room that holds `chunks` more, or a new one.
    fn page_for(&mut self, chunks: usize) -> Result<u32, PoolFull> {
        let found = self.unbuddied[chunks..].iter().find(|head| **head != NIL);
        if let Some(id) = found {
            return Ok(*id);
        }
        if self.pages_in_use() >= self.arena.pages_max() {
            return Err(PoolFull);
        }
        if let Some(id) = self.empty.pop() {
            return Ok(id);
        }
        if self.pages.len() == self.spans.len() * SPAN_PAGES {
            self.spans.push(self.arena.take().ok_or(PoolFull)?);
        }
        self.pages.push(Page::EMPTY);
        Ok((self.pages.len() - 1) as u32)
    }

    /// Slide the objects of a page to its front.
    fn pack(&mut self, id: u32) {
        let (order, n) = self.pages[id as usize].in_order();
        let mut to = 0;
        for i in &order[..n] {
            let object = &mut self.pages[id as usize].objects[*i];
            let (from, len) = (usize::from(object.first) * CHUNK, usize::from(object.chunks) * CHUNK);
            object.first = to as u8;
            self.bytes_mut(id, 0..PAGE_SIZE)
                .copy_within(from..from + len, to * CHUNK);
            to += len / CHUNK;
        }
    }

    fn object(&self, place: Place) -> (u32, usize) {
        ((place / BUDDIES) as u32, (place % BUDDIES) as usize)
    }

    /// The list that a page belongs to: none if it is empty or has no room for another object.
    fn list(&self, id: u32) -> Option<usize> {
        let page = &self.pages[id as usize];
        let takes_more = (1..N).contains(&page.used()) && !page.is_inherited;
        takes_more.then(|| page.free())
    }

    fn link(&mut self, id: u32) {
        let Some(list) = self.list(id) else { return };
        let next = core::mem::replace(&mut self.unbuddied[list], id);
        (self.pages[id as usize].prev, self.pages[id as usize].next) = (NIL, next);
        if next != NIL {
            self.pages[next as usize].prev = id;
        }
    }

    fn unlink(&mut self, id: u32) {
        let Some(list) = self.list(id) else { return };
        let Page { prev, next, .. } = self.pages[id as usize];
        match prev {
            NIL => self.unbuddied[list] = next,
            prev => self.pages[prev as usize].next = next,
        }
        if next != NIL {
            self.pages[next as usize].prev = prev;
        }
    }
}

impl<A: Arena, const N: usize> Pages<A, N> {
    fn store(&mut self, bytes: &[u8], fingerprint: Option<u32>) -> Result<Place, PoolFull> {
        assert!((1..=PAGE_SIZE).contains(&bytes.len()), "an object is 1 to 4096 bytes");
        let need = chunks(bytes.len());
        let id = self.page_for(need)?;
        self.unlink(id);
        let gap = self.pages[id as usize].gap(need);
        let first = gap.unwrap_or_else(|| {
            self.pack(id);
            CHUNKS - self.pages[id as usize].free()
        });
        let page = &mut self.pages[id as usize];
        let buddy = page
            .objects
            .iter()
            .position(|object| object.chunks == 0)
            .ok_or(PoolFull)?;
        page.objects[buddy] = Object {
            first: first as u8,
            chunks: need as u8,
        };
        self.link(id);
        self.objects += 1;
        let range = first * CHUNK..first * CHUNK + bytes.len();
        self.bytes_mut(id, range.clone()).copy_from_slice(bytes);
        self.arena
            .stored(&mut self.spans[id as usize / SPAN_PAGES], within(id, range));
        if let Some(fingerprint) = fingerprint {
            self.fingerprints.set(id as usize, fingerprint);
        }
        Ok(u64::from(id) * BUDDIES + buddy as u64)
    }

    fn read(&self, place: Place, len: usize) -> &[u8] {
        let (id, buddy) = self.object(place);
        let start = usize::from(self.pages[id as usize].objects[buddy].first) * CHUNK;
        self.bytes(id, start..start + len)
    }

    fn free(&mut self, place: Place) {
        let (id, buddy) = self.object(place);
        self.unlink(id);
        let object = &mut self.pages[id as usize].objects[buddy];
        assert!(object.chunks > 0, "freeing an object that is not there");
        *object = Object::default();
        self.objects -= 1;
        if self.pages[id as usize].used() == 0 {
            let page = id as usize % SPAN_PAGES;
            let span = &mut self.spans[id as usize / SPAN_PAGES];
            self.arena.release(span, page..page + 1);
            self.pages[id as usize].is_inherited = false;
            self.empty.push(id);
        }
        self.link(id);
    }

    fn inherit(&mut self) {
        self.unbuddied = [NIL; CHUNKS + 1];
        for page in &mut self.pages {
            (page.prev, page.next) = (NIL, NIL);
            page.is_inherited = page.used() > 0;
        }
    }

    fn reopen(&mut self) {
        for id in 0..self.pages.len() as u32 {
            if core::mem::take(&mut self.pages[id as usize].is_inherited) {
                self.link(id);
            }
        }
    }

    #[cfg(test)]
    fn is_valid(&self) -> bool {
        let mut objects = 0;
        let mut listed = 0;
        for (id, page) in self.pages.iter().enumerate() {
            let (order, n) = page.in_order();
            let overlap = order[..n].windows(2).any(|pair| {
                let (a, b) = (page.objects[pair[0]], page.objects[pair[1]]);
                a.first + a.chunks > b.first
            });
            objects += n as u64;
            listed += u64::from(self.list(id as u32).is_some());
            if overlap || (n == 0) != self.empty.contains(&(id as u32)) {
                return false;
            }
        }
        for (list, head) in self.unbuddied.iter().enumerate() {
            let (mut at, mut prev) = (*head, NIL);
            while at != NIL {
                if self.list(at) != Some(list) || self.pages[at as usize].prev != prev || listed == 0 {
                    return false;
                }
                listed -= 1;
                (prev, at) = (at, self.pages[at as usize].next);
            }
        }
        listed == 0 && objects == self.objects
    }
}

impl<R: RawMutex, A: Arena, const N: usize> Zpool for Buddies<R, A, N> {
    fn store(&self, bytes: &[u8], fingerprint: Option<u32>) -> Result<Place, PoolFull> {
        self.0.lock().store(bytes, fingerprint)
    }

    fn with(&self, place: Place, len: usize, f: &mut dyn FnMut(&[u8], u32)) {
        let pages = self.0.lock();
        let (id, _) = pages.object(place);
        f(pages.read(place, len), pages.fingerprints.get(id as usize));
    }

    fn free(&self, place: Place, _len: usize) {
        self.0.lock().free(place);
    }

    fn pages(&self) -> u64 {
        self.0.lock().pages_in_use()
    }

    fn objects(&self) -> u64 {
        self.0.lock().objects
    }

    fn inherit(&self) {
        self.0.lock().inherit();
    }

    fn is_inherited(&self, place: Place, _len: usize) -> bool {
        let pages = self.0.lock();
        pages.pages[pages.object(place).0 as usize].is_inherited
    }

    fn reopen_some(&self) -> bool {
        self.0.lock().reopen();
        false
    }

    #[cfg(test)]
    fn is_valid(&self) -> bool {
        self.0.lock().is_valid()
    }
}
