//! Two memories of the same layout, protections and contents: private memory, which a pager makes
//! cold, and shared memory, which none looks after.
//!
//! ```text
//!    0            ROUGH                                     LEN
//!    | slots      | smooth                                  |
//!      of 4 pages, some read-only or without access
//! ```
//!
//! All bytes that fill them have their top bit set. Words made of such bytes are no addresses, no
//! lengths that any call takes, and no times: what a call finds by mistake leads nowhere.

use std::ops::Range;

use uzswap_sys::testing::{Access, Kind, Memory};
use uzswap_workload::heap::Rng;

pub(crate) const PAGE: usize = 4096;
/// Pages of a slot.
const SLOT: usize = 4;
pub(crate) const SLOT_BYTES: usize = SLOT * PAGE;
pub(crate) const ROUGH: usize = 8 << 20;
const SLOTS: usize = ROUGH / SLOT_BYTES;
/// Most pages that become untouched at a time.
const FORGOTTEN: u64 = 64;
const MADV_DONTNEED: i32 = 4;
const MADV_REMOVE: i32 = 9;

/// A value for each of the two.
pub(crate) type Twin = [usize; 2];

pub(crate) struct Arenas {
    pub(crate) memories: [Memory; 2],
    slots: Vec<[Access; SLOT]>,
}

/// What fills memory at `at`.
fn filling(at: usize) -> u8 {
    let word = ((at >> 3) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    0x80 | (word ^ word >> 29).to_le_bytes()[at & 7]
}

impl Arenas {
    pub(crate) fn new(len: usize) -> Result<Self, String> {
        // Behind each is a page that nobody may touch.
        let mapped = [Memory::map(len + PAGE, Kind::Heap), Memory::map_shared(len + PAGE)];
        let [private, shared] = mapped.map(|memory| {
            let closed = memory.and_then(|mut memory| memory.protect(len, PAGE, Access::None).map(|()| memory));
            closed.map_err(|errno| format!("{len} bytes: {errno}"))
        });
        let mut arenas = Self {
            memories: [private?, shared?],
            slots: vec![[Access::Write; SLOT]; SLOTS],
        };
        // The last quarter stays untouched.
        (0..len / PAGE * 3 / 4).for_each(|page| arenas.refill(page * PAGE, PAGE));
        Ok(arenas)
    }

    pub(crate) fn len(&self) -> usize {
        self.memories[0].len() - PAGE
    }

    /// The addresses of a place.
    pub(crate) fn addresses(&self, at: usize) -> Twin {
        [0, 1].map(|n: usize| self.memories[n].addr() + at)
    }

    pub(crate) fn access(&self, at: usize) -> Access {
        let page = at / PAGE;
        self.slots
            .get(page / SLOT)
            .map_or(Access::Write, |slot| slot[page % SLOT])
    }

    /// The parts of a range, page by page, to which this much is allowed.
    fn parts(&self, at: usize, len: usize, may: fn(Access) -> bool) -> Vec<Range<usize>> {
        let end = (at + len).min(self.len());
        let mut parts: Vec<Range<usize>> = Vec::new();
        let mut from = at;
        while from < end {
            let to = ((from / PAGE + 1) * PAGE).min(end);
            match parts.last_mut().filter(|last| last.end == from) {
                _ if !may(self.access(from)) => {}
                Some(last) => last.end = to,
                None => parts.push(from..to),
            }
            from = to;
        }
        parts
    }

    pub(crate) fn readable(&self, at: usize, len: usize) -> Vec<Range<usize>> {
        self.parts(at, len, |access| access != Access::None)
    }

    fn writable(&self, at: usize, len: usize) -> Vec<Range<usize>> {
        self.parts(at, len, |access| access == Access::Write)
    }

    /// Write bytes to each as far as that is allowed. Returns where they differ now.
    pub(crate) fn write(&mut self, at: usize, bytes: [&[u8]; 2]) -> Vec<(usize, [u8; 2])> {
        let mut differing = Vec::new();
        for part in self.writable(at, bytes[0].len()) {
            let from = part.start - at..part.end - at;
            for (memory, bytes) in self.memories.iter_mut().zip(bytes) {
                memory
                    .bytes_mut(part.start, part.len())
                    .copy_from_slice(&bytes[from.clone()]);
            }
            let pairs = from.map(|n| (at + n, [bytes[0][n], bytes[1][n]]));
            differing.extend(pairs.filter(|(_, [a, b])| a != b));
        }
        differing
    }

    /// Fill a range as it was at first.
    pub(crate) fn refill(&mut self, at: usize, len: usize) {
        for part in self.writable(at, len) {
            let bytes: Vec<u8> = part.clone().map(filling).collect();
            for memory in &mut self.memories {
                memory.bytes_mut(part.start, part.len()).copy_from_slice(&bytes);
            }
        }
    }

    pub(crate) fn byte(&self, which: usize, at: usize) -> u8 {
        self.memories[which].bytes(at, 1)[0]
    }

    /// Other protections of some slots, and other places that nobody has touched yet. The first
    /// page of a slot can be written always.
    pub(crate) fn change(&mut self, random: &mut Rng, changes: usize) {
        for _ in 0..changes {
            let slot = random.below(SLOTS as u64) as usize;
            for page in 1..SLOT {
                let access = *random.pick(&[Access::Write, Access::Write, Access::Read, Access::None]);
                let at = slot * SLOT_BYTES + page * PAGE;
                // For as long as it cannot be written, what is found there leads nowhere.
                self.refill(at, PAGE);
                let changed = self.memories.each_mut().map(|memory| memory.protect(at, PAGE, access));
                if changed.iter().all(Result::is_ok) {
                    self.slots[slot][page] = access;
                }
            }
            let pages = 1 + random.below(FORGOTTEN) as usize;
            let page = random.below((self.len() / PAGE - pages) as u64) as usize;
            self.forget(page * PAGE, pages * PAGE);
        }
    }

    /// Nobody has touched it.
    fn forget(&mut self, at: usize, len: usize) {
        for part in self.writable(at, len) {
            let [private, shared] = &mut self.memories;
            let _ = private.advise(part.start, part.len(), MADV_DONTNEED);
            let _ = shared.advise(part.start, part.len(), MADV_REMOVE);
        }
    }

    /// How they differ from a byte on, in its page.
    pub(crate) fn describe(&self, at: usize) -> String {
        const SHOWN: usize = 24;
        let rest = (at / PAGE + 1) * PAGE - at;
        let [a, b] = [0, 1].map(|n: usize| self.memories[n].bytes(at, rest));
        let other = a.iter().zip(b).filter(|(a, b)| a != b).count();
        let shown = rest.min(SHOWN);
        let filled: Vec<u8> = (at..at + shown).map(filling).collect();
        format!(
            "{other} bytes differ in the page from {at:#x} on: {:x?}, {:x?}; it was filled with {filled:x?}",
            &a[..shown],
            &b[..shown]
        )
    }

    /// The first byte of a range in which they differ.
    pub(crate) fn difference(&self, at: usize, len: usize) -> Option<usize> {
        self.readable(at, len).into_iter().find_map(|part| {
            let [a, b] = [0, 1].map(|n: usize| self.memories[n].bytes(part.start, part.len()));
            if a == b {
                return None;
            }
            a.iter().zip(b).position(|(a, b)| a != b).map(|n| part.start + n)
        })
    }
}
