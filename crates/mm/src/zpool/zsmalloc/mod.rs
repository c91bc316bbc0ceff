//! zsmalloc: objects of up to a page, packed by size class into zspages.
//!
//! A zspage is 1 to 8 pages that hold objects of one size. In user space its pages are simply
//! neighbours in address space, so an object that straddles two pages is one slice and needs no
//! second copy. Each zspage owns a *span* of 8 pages of address space of which it uses the first
//! `pages`. Unused address space costs nothing, and neither do pages that were not written yet.
//! Objects are handed out from the front, so the last zspage of a class costs what its objects
//! need, not what its class would.
//!
//! # Locks
//! One a class, and inside it one for the spans that no zspage has ([`backing`]). A class owns its
//! spans as values, so its lock covers the bytes as well, and two classes never meet but for a
//! span. The class of an object follows from its length, which whoever has the handle knows.
//!
//! # Counting
//! For each zspage: `used <= objects`; the objects below `bump` are either used or on the free
//! list; above, never touched. The first `backed` pages of its span hold all objects below `bump`.
//! `pages() == sum of backed over live zspages, and warm pages`. [`Zsmalloc::is_valid`] evaluates
//! all.

mod backing;
mod class;
mod compaction;
#[cfg(all(test, loom))]
mod loom_test;
mod size_class;

use alloc::boxed::Box;
use core::sync::atomic::{AtomicU64, Ordering};

use lock_api::RawMutex;

#[cfg(not(loom))]
use super::Unlock;
use super::arena::SPAN_PAGES;
use super::{Arena, Place, PoolFull, Zpool};
use crate::lock::Mutex;
use crate::page::PAGE_SIZE;
use backing::Backing;
use class::Class;

const INDEX_BITS: u32 = 10;
const NO_OBJECT: u16 = u16::MAX;
const _: () = assert!(size_class::CHAIN_MAX <= SPAN_PAGES);

/// An object of a class: zspage and index.
#[derive(Clone, Copy)]
struct Object(Place);

impl Object {
    fn new(zspage: u32, index: u16) -> Self {
        Self(u64::from(zspage) << INDEX_BITS | u64::from(index))
    }

    fn zspage(self) -> u32 {
        (self.0 >> INDEX_BITS) as u32
    }

    fn index(self) -> u16 {
        self.0 as u16 & ((1 << INDEX_BITS) - 1)
    }
}

/// A pool of objects.
pub(super) struct Zsmalloc<R, A: Arena> {
    classes: Box<[Mutex<R, Class<A>>]>,
    backing: Backing<R, A>,
    objects: AtomicU64,
}

impl<R: RawMutex, A: Arena> Zsmalloc<R, A> {
    /// An empty pool in `arena`.
    pub(super) fn new(arena: A) -> Self {
        let classes = size_class::CLASSES.iter().map(|class| Mutex::new(Class::new(*class)));
        Self {
            classes: classes.collect(),
            backing: Backing::new(arena),
            objects: AtomicU64::new(0),
        }
    }

    fn class(&self, len: usize) -> &Mutex<R, Class<A>> {
        &self.classes[size_class::of(len)]
    }

    #[cfg(not(loom))]
    pub(super) fn unlock(&self, unlock: &impl Unlock<R>) {
        self.classes.iter().for_each(|class| unlock.unlock(class));
        self.backing.unlock(unlock);
    }
}

impl<R: RawMutex, A: Arena> Zpool for Zsmalloc<R, A> {
    fn store(&self, bytes: &[u8], fingerprint: Option<u32>) -> Result<Place, PoolFull> {
        assert!((1..=PAGE_SIZE).contains(&bytes.len()), "an object is 1 to 4096 bytes");
        let object = self
            .class(bytes.len())
            .lock()
            .store(&self.backing, bytes, fingerprint)?;
        self.objects.fetch_add(1, Ordering::Relaxed);
        Ok(object.0)
    }

    fn with(&self, place: Place, len: usize, f: &mut dyn FnMut(&[u8], u32)) {
        let class = self.class(len).lock();
        let fingerprint = class.fingerprint(Object(place));
        f(class.read(&self.backing.arena, Object(place), len), fingerprint);
    }

    fn free(&self, place: Place, len: usize) {
        self.class(len).lock().free(&self.backing, Object(place));
        if self.objects.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.backing.cool();
        }
    }

    /// Warm pages included: what the pool costs.
    fn pages(&self) -> u64 {
        self.backing.pages()
    }

    fn objects(&self) -> u64 {
        self.objects.load(Ordering::Relaxed)
    }

    fn inherit(&self) {
        // Warm pages would be written by the next zspage.
        self.backing.cool();
        self.backing.set_inherited(self.backing.pages());
        self.classes.iter().for_each(|class| class.lock().inherit());
    }

    fn inherited_pages(&self) -> u64 {
        self.backing.inherited()
    }

    fn is_inherited(&self, place: Place, len: usize) -> bool {
        self.class(len).lock().is_inherited(Object(place))
    }

    fn reopen_some(&self) -> bool {
        if self.classes.iter().any(|class| class.lock().reopen_some(&self.backing)) {
            return true;
        }
        self.backing.set_inherited(0);
        false
    }

    fn begin_compaction(&self) -> u64 {
        let classes = self.classes.iter();
        classes.map(|class| class.lock().begin_compaction(&self.backing)).sum()
    }

    fn relocate(&self, place: Place, len: usize) -> Option<Place> {
        let moved = self.class(len).lock().relocate(&self.backing, Object(place), len);
        moved.map(|object| object.0)
    }

    fn end_compaction(&self) {
        self.backing.cool();
        let classes = self.classes.iter();
        classes.for_each(|class| class.lock().end_compaction(&self.backing));
    }

    #[cfg(test)]
    fn is_valid(&self) -> bool {
        let (mut objects, mut pages) = (0, self.backing.warm_pages());
        for class in &self.classes {
            let Some(count) = class.lock().count(&self.backing.arena) else {
                return false;
            };
            objects += count.0;
            pages += count.1;
        }
        (objects, pages) == (self.objects(), self.pages())
    }
}
