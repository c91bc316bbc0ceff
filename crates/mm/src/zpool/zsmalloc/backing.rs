//! What the classes share: spans that no zspage has, and the count of pages.

use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};

use lock_api::RawMutex;

use crate::lock::Mutex;
use crate::policy::tunables::WARM_PAGES;
#[cfg(not(loom))]
use crate::zpool::Unlock;
use crate::zpool::arena::SPAN_PAGES;
use crate::zpool::{Arena, PoolFull};

/// The arena of a pool and what is to spare of it. Its lock is taken inside those of the classes.
pub(super) struct Backing<R, A: Arena> {
    pub(super) arena: A,
    spare: Mutex<R, Spare<A::Span>>,
    /// Pages that cost memory: those of zspages that were written, and the warm ones.
    pages: AtomicU64,
    /// Of them, those of zspages that a forked relative has too.
    inherited: AtomicU64,
}

struct Spare<S> {
    /// Without pages.
    cold: Vec<S>,
    /// Whose first 1, 2, ... pages are backed still, for the next zspage of as many: giving pages
    /// back and taking new ones costs a TLB flush and a page fault.
    warm: [Vec<S>; SPAN_PAGES],
    /// Pages of the warm spans, at most [`WARM_PAGES`].
    warm_pages: u64,
}

impl<S> Spare<S> {
    /// The warm span with the most pages, but at most `pages`; and how many it has.
    fn take_warm(&mut self, pages: usize) -> Option<(S, u8)> {
        let mut spans = self.warm[..pages].iter_mut().enumerate().rev();
        let (at, span) = spans.find_map(|(at, spans)| Some((at, spans.pop()?)))?;
        let backed = at as u8 + 1;
        self.warm_pages -= u64::from(backed);
        Some((span, backed))
    }
}

impl<R: RawMutex, A: Arena> Backing<R, A> {
    pub(super) fn new(arena: A) -> Self {
        let spare = Spare {
            cold: Vec::new(),
            warm: [const { Vec::new() }; SPAN_PAGES],
            warm_pages: 0,
        };
        Self {
            arena,
            spare: Mutex::new(spare),
            pages: AtomicU64::new(0),
            inherited: AtomicU64::new(0),
        }
    }

    /// A span for a zspage of `pages` pages, and how many of its pages are backed (and counted)
    /// already.
    pub(super) fn take(&self, pages: usize) -> Result<(A::Span, u8), PoolFull> {
        let mut spare = self.spare.lock();
        if let Some(warm) = spare.take_warm(pages) {
            return Ok(warm);
        }
        let span = spare.cold.pop().or_else(|| self.arena.take());
        let span = span.or_else(|| {
            self.cool_all(&mut spare);
            spare.cold.pop()
        });
        Ok((span.ok_or(PoolFull)?, 0))
    }

    /// A zspage is empty: its span, of which the first `backed` pages are. What is shared with a
    /// relative is not kept warm: it would be copied by the next write.
    pub(super) fn put(&self, mut span: A::Span, backed: u8, is_inherited: bool) {
        let mut spare = self.spare.lock();
        if is_inherited {
            self.inherited.fetch_sub(backed.into(), Ordering::Relaxed);
        }
        let is_warm = !is_inherited && backed > 0;
        if is_warm && spare.warm_pages + u64::from(backed) <= WARM_PAGES {
            spare.warm_pages += u64::from(backed);
            spare.warm[usize::from(backed) - 1].push(span);
        } else {
            self.release(&mut span, 0, backed);
            spare.cold.push(span);
        }
    }

    /// Give the warm pages back to the system.
    pub(super) fn cool(&self) {
        self.cool_all(&mut self.spare.lock());
    }

    fn cool_all(&self, spare: &mut Spare<A::Span>) {
        let Spare { cold, warm, warm_pages } = spare;
        for (pages, spans) in (1..).zip(warm) {
            for mut span in spans.drain(..) {
                self.release(&mut span, 0, pages);
                cold.push(span);
            }
        }
        *warm_pages = 0;
    }

    /// Pages `from..to` of a span go back to the system.
    pub(super) fn release(&self, span: &mut A::Span, from: u8, to: u8) {
        self.arena.release(span, usize::from(from)..usize::from(to));
        self.pages.fetch_sub((to - from).into(), Ordering::Relaxed);
    }

    /// So many more pages of a zspage are to be written. Where that is more than the arena allows,
    /// the warm pages go first.
    pub(super) fn grow(&self, pages: u8) -> Result<(), PoolFull> {
        let more = |now: u64| Some(now + u64::from(pages)).filter(|sum| *sum <= self.arena.pages_max());
        let try_grow = || self.pages.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        if pages > 0 && try_grow().is_err() {
            self.cool();
            try_grow().map_err(|_| PoolFull)?;
        }
        Ok(())
    }

    pub(super) fn pages(&self) -> u64 {
        self.pages.load(Ordering::Relaxed)
    }

    /// So many pages are shared from now on.
    pub(super) fn set_inherited(&self, pages: u64) {
        self.inherited.store(pages, Ordering::Relaxed);
    }

    pub(super) fn inherited(&self) -> u64 {
        self.inherited.load(Ordering::Relaxed)
    }

    #[cfg(test)]
    pub(super) fn warm_pages(&self) -> u64 {
        self.spare.lock().warm_pages
    }

    #[cfg(not(loom))]
    pub(super) fn unlock(&self, unlock: &impl Unlock<R>) {
        unlock.unlock(&self.spare);
    }
}
