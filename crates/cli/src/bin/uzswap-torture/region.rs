//! Memory and what should be in it.
//!
//! The shadow keeps a number for each sector of 512 bytes; the number decides the bytes, 0 means
//! zeros. So the shadow is small, and what it says does not pass through the memory under test.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use uzswap_sys::testing::{Access, Kind, Memory};

use crate::contents::{PAGE, SECTOR, SECTORS, compare, contents};

/// What is known of a page beside its contents.
#[derive(Clone, Copy, Default)]
pub(crate) struct Page {
    pub(crate) access: Access,
    /// MADV_GUARD_INSTALL: nobody may touch it, whatever its protection.
    pub(crate) is_guarded: bool,
    /// A mapping of the kernel may begin here: what crosses this may be two of them.
    pub(crate) is_seam: bool,
}

/// What forked children find of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heritage {
    Copy,
    /// MADV_DONTFORK
    Nothing,
    /// MADV_WIPEONFORK
    Zeros,
}

/// Memory with its shadow.
pub(crate) struct Region {
    pub(crate) memory: Memory,
    pub(crate) ids: Vec<u64>,
    pub(crate) state: Vec<Page>,
    pub(crate) heritage: Heritage,
}

pub(crate) fn sectors(pages: &Range<usize>) -> Range<usize> {
    pages.start * SECTORS..pages.end * SECTORS
}

/// A run of pages in bytes: offset and length.
pub(crate) fn span(pages: &Range<usize>) -> (usize, usize) {
    (pages.start * PAGE, pages.len() * PAGE)
}

impl Region {
    /// A fresh region; `None` when the address space is full.
    pub(crate) fn new(pages: usize, kind: Kind) -> Option<Self> {
        let memory = Memory::map(pages * PAGE, kind).ok()?;
        Some(Self::of(memory, vec![0; pages * SECTORS]))
    }

    /// Memory that is one mapping, may be written, and holds `ids`.
    pub(crate) fn of(memory: Memory, ids: Vec<u64>) -> Self {
        Self {
            state: vec![Page::default(); memory.len() / PAGE],
            memory,
            ids,
            heritage: Heritage::Copy,
        }
    }

    pub(crate) fn pages(&self) -> usize {
        self.state.len()
    }

    /// Whether pages may be read.
    pub(crate) fn is_readable(&self, pages: &Range<usize>) -> bool {
        self.state[pages.clone()]
            .iter()
            .all(|page| page.access != Access::None && !page.is_guarded)
    }

    /// Whether pages may be written, and read.
    pub(crate) fn is_writable(&self, pages: &Range<usize>) -> bool {
        self.state[pages.clone()]
            .iter()
            .all(|page| page.access == Access::Write && !page.is_guarded)
    }

    pub(crate) fn has_guards(&self, pages: &Range<usize>) -> bool {
        self.state[pages.clone()].iter().any(|page| page.is_guarded)
    }

    /// Whether pages are one mapping for sure: mremap takes no more.
    pub(crate) fn is_whole(&self, pages: &Range<usize>) -> bool {
        self.state[pages.start + 1..pages.end].iter().all(|page| !page.is_seam)
    }

    pub(crate) fn all(&self) -> Range<usize> {
        0..self.pages()
    }

    /// The kernel may have cut its mapping at both ends of a run.
    pub(crate) fn cut(&mut self, pages: &Range<usize>) {
        self.state[pages.start].is_seam = true;
        if let Some(next) = self.state.get_mut(pages.end) {
            next.is_seam = true;
        }
    }

    pub(crate) fn write(&mut self, sector: usize, id: u64) {
        self.memory
            .bytes_mut(sector * SECTOR, SECTOR)
            .copy_from_slice(&contents(id));
        self.ids[sector] = id;
    }

    /// Compare what may be read of some pages. `Err`: what was expected and what was found, in one
    /// line.
    pub(crate) fn check(&self, pages: Range<usize>) -> Result<(), String> {
        for page in pages.clone().filter(|page| self.is_readable(&(*page..page + 1))) {
            for sector in sectors(&(page..page + 1)) {
                self.compare(sector, self.memory.bytes(sector * SECTOR, SECTOR))?;
            }
        }
        Ok(())
    }

    fn compare(&self, sector: usize, seen: &[u8]) -> Result<(), String> {
        compare(self.memory.addr() + sector * SECTOR, self.ids[sector], seen).map_err(|line| {
            let page = sector / SECTORS;
            let Page { access, is_seam, .. } = self.state[page];
            format!("page {page} of {} ({access:?}, seam: {is_seam}), {line}", self.pages())
        })
    }

    /// Compare pages after the kernel has carried them through a file.
    pub(crate) fn check_through(&self, file: &File, pages: &Range<usize>) -> Result<(), String> {
        let (at, len) = span(pages);
        let mut seen = vec![0; len];
        let io = |e: std::io::Error| format!("the kernel could not read the region: {e}");
        file.write_all_at(self.memory.bytes(at, len), 0).map_err(io)?;
        file.read_exact_at(&mut seen, 0).map_err(io)?;
        sectors(pages)
            .zip(seen.chunks_exact(SECTOR))
            .try_for_each(|(sector, bytes)| self.compare(sector, bytes))
    }

    /// Have the kernel write `id` into each sector of some pages.
    pub(crate) fn write_through(&mut self, file: &File, pages: &Range<usize>, id: u64) -> Result<(), String> {
        let (at, len) = span(pages);
        let io = |e: std::io::Error| format!("the kernel could not write the region: {e}");
        file.write_all_at(&contents(id).repeat(len / SECTOR), 0).map_err(io)?;
        file.read_exact_at(self.memory.bytes_mut(at, len), 0).map_err(io)?;
        self.ids[sectors(pages)].fill(id);
        Ok(())
    }

    pub(crate) fn copy_from(&mut self, to: usize, other: &Self, from: usize) {
        self.memory
            .bytes_mut(to * SECTOR, SECTOR)
            .copy_from_slice(other.memory.bytes(from * SECTOR, SECTOR));
        self.ids[to] = other.ids[from];
    }

    pub(crate) fn zeroed(&mut self, pages: &Range<usize>) {
        self.ids[sectors(pages)].fill(0);
    }

    /// Another protection for a run.
    pub(crate) fn protect(&mut self, pages: &Range<usize>, access: Access) {
        let (at, len) = span(pages);
        if self.memory.protect(at, len, access).is_ok() {
            self.state[pages.clone()]
                .iter_mut()
                .for_each(|page| page.access = access);
        }
        // What was refused half-way has cut, too.
        if *pages != self.all() {
            self.cut(pages);
        }
    }

    /// Everything may be written again, guards aside.
    pub(crate) fn open(&mut self) {
        self.protect(&self.all(), Access::Write);
    }

    /// In a forked child. `None`: it has not got this region.
    pub(crate) fn inherited(mut self) -> Option<Self> {
        match self.heritage {
            Heritage::Copy => Some(self),
            Heritage::Nothing => {
                std::mem::forget(self.memory);
                None
            }
            Heritage::Zeros => {
                self.zeroed(&self.all());
                Some(self)
            }
        }
    }

    pub(crate) fn resize(&mut self, pages: usize) {
        // What grows is as the last page is, but not guarded.
        let last = self.state.last().copied().unwrap_or_default();
        if self.memory.resize(pages * PAGE).is_ok() {
            self.ids.resize(pages * SECTORS, 0);
            self.state.resize(
                pages,
                Page {
                    access: last.access,
                    ..Page::default()
                },
            );
        }
    }

    /// The lines of `/proc/self/maps` about it and its neighbours.
    pub(crate) fn maps(&self) -> String {
        let (start, end) = (self.memory.addr(), self.memory.addr() + self.memory.len());
        let is_near = |line: &&str| {
            let (from, rest) = line.split_once('-').unwrap_or_default();
            let to = rest.split(' ').next().unwrap_or_default();
            let parse = |hex| usize::from_str_radix(hex, 16).unwrap_or_default();
            parse(from) <= end && parse(to) >= start
        };
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
        let lines: Vec<&str> = maps.lines().filter(is_near).collect();
        format!("{start:x}-{end:x} is in\n{}", lines.join("\n"))
    }
}
