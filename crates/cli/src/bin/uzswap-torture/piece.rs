//! Parts of regions that are replaced, moved, put into others, and torn out.

use std::ops::Range;

use uzswap_sys::testing::{Kind, Memory};

use crate::contents::{PAGE, SECTORS};
use crate::region::{Heritage, Page, Region, sectors, span};

impl Region {
    /// Fresh zeros over a part (MAP_FIXED).
    pub(crate) fn replace(&mut self, pages: &Range<usize>, kind: Kind) {
        let (at, len) = span(pages);
        if self.heritage == Heritage::Copy && self.memory.replace(at, len, kind).is_ok() {
            self.zeroed(pages);
            self.state[pages.clone()].fill(Page::default());
            self.cut(pages);
        }
    }

    /// Move all of it, if it is one mapping. Moving several in one mremap (Linux 6.17) stops
    /// half-way at a range with a userfaultfd: docs/compatibility.md.
    pub(crate) fn relocate(&mut self) -> Result<(), String> {
        if !self.is_whole(&self.all()) {
            return Ok(());
        }
        self.memory
            .relocate()
            .map_err(|errno| format!("mremap of one mapping was refused: {errno}\n{}", self.maps()))
    }

    /// Whether a part can go elsewhere: it is one mapping, and children get a copy of it.
    fn is_movable(&self, pages: &Range<usize>) -> bool {
        self.heritage == Heritage::Copy && self.is_whole(pages)
    }

    /// What is behind once a part has moved on: zeros, in a mapping as it was.
    fn left_behind(&mut self, pages: &Range<usize>) -> (Vec<u64>, Vec<Page>) {
        let moved = (self.ids[sectors(pages)].to_vec(), self.state[pages.clone()].to_vec());
        self.zeroed(pages);
        self.state[pages.clone()]
            .iter_mut()
            .for_each(|page| page.is_guarded = false);
        self.cut(pages);
        moved
    }

    /// A part becomes a region of its own, elsewhere; zeros stay behind.
    pub(crate) fn break_off(&mut self, pages: &Range<usize>) -> Result<Option<Self>, String> {
        if !self.is_movable(pages) {
            return Ok(None);
        }
        let (at, len) = span(pages);
        let memory = match self.memory.break_off(at, len) {
            Ok(memory) => memory,
            Err(errno) => {
                return Err(format!("mremap of a part was refused: {errno}\n{}", self.maps()));
            }
        };
        let (ids, mut state) = self.left_behind(pages);
        state[0].is_seam = false;
        Ok(Some(Self {
            memory,
            ids,
            state,
            heritage: Heritage::Copy,
        }))
    }

    /// A part of `other` moves over a part of this, as long.
    pub(crate) fn implant(&mut self, to: usize, other: &mut Self, pages: &Range<usize>) -> Result<(), String> {
        let over = to..to + pages.len();
        if !other.is_movable(pages) || self.heritage != Heritage::Copy {
            return Ok(());
        }
        let (at, len) = span(pages);
        if let Err(errno) = self.memory.implant(over.start * PAGE, &mut other.memory, at, len) {
            return Err(format!(
                "mremap over another was refused: {errno}\n{}\n{}",
                other.maps(),
                self.maps()
            ));
        }
        let (ids, state) = other.left_behind(pages);
        self.ids[sectors(&over)].copy_from_slice(&ids);
        self.state[over.clone()].copy_from_slice(&state);
        self.cut(&over);
        Ok(())
    }

    /// Two regions, cut at a page.
    fn split(mut self, page: usize) -> (Self, Self) {
        let (memory, rest) = self.memory.split(page * PAGE);
        let rest = Self {
            memory: rest,
            ids: self.ids.split_off(page * SECTORS),
            state: self.state.split_off(page),
            heritage: self.heritage,
        };
        (Self { memory, ..self }, rest)
    }

    /// A part is unmapped: what is left of it, in up to two regions.
    pub(crate) fn tear(self, pages: &Range<usize>) -> Vec<Self> {
        let (mut left, mut torn) = (Vec::new(), self);
        if pages.end < torn.pages() {
            let (rest, tail) = torn.split(pages.end);
            (torn, left) = (rest, vec![tail]);
        }
        if pages.start > 0 {
            let (head, rest) = torn.split(pages.start);
            left.push(head);
            torn = rest;
        }
        drop::<Memory>(torn.memory);
        left
    }
}
