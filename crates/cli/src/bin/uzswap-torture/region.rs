//! A mapping and what should be in it.
//!
//! The shadow keeps a number for each sector of 512 bytes; the number decides the bytes, 0 means zeros. So the shadow
//! is small, and what it says does not pass through the memory under test.

use uzswap_sys::mapping::{Discard, Mapping};

/// Bytes of a sector.
pub(crate) const SECTOR: usize = 512;
/// Sectors of a page.
pub(crate) const SECTORS: usize = 8;
const PAGE: usize = 4096;

/// The bytes that number `id` stands for: zeros, text, half noise or noise by turns.
pub(crate) fn contents(id: u64) -> [u8; SECTOR] {
    let mut bytes = [0; SECTOR];
    let mut x = id.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    for (i, byte) in bytes.iter_mut().enumerate() {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        *byte = match id % 4 {
            _ if id == 0 => 0,
            0 => b"the quick brown fox, refcount: 1"[i % 32] ^ (id >> 8) as u8,
            1 if i % 2 == 0 => (id >> 4) as u8,
            1 | 2 => x as u8,
            _ if i % 64 < 8 => id.to_le_bytes()[i % 8],
            _ => 0,
        };
    }
    bytes
}

/// A mapping with its shadow.
pub(crate) struct Region {
    mapping: Mapping,
    ids: Vec<u64>,
    pub(crate) is_writable: bool,
    /// Forked children do not get it (MADV_DONTFORK).
    is_private: bool,
    /// A part was mapped anew, so the region may be more than one mapping of the kernel.
    is_split: bool,
}

impl Region {
    /// A fresh region; `None` when the address space is full.
    pub(crate) fn new(pages: usize) -> Option<Self> {
        let mapping = Mapping::reserve(pages * PAGE).ok()?;
        Some(Self {
            mapping,
            ids: vec![0; pages * SECTORS],
            is_writable: true,
            is_private: false,
            is_split: false,
        })
    }

    pub(crate) fn sectors(&self) -> usize {
        self.ids.len()
    }

    pub(crate) fn pages(&self) -> usize {
        self.ids.len() / SECTORS
    }

    pub(crate) fn write(&mut self, sector: usize, id: u64) {
        self.mapping.write(sector * SECTOR, &contents(id));
        self.ids[sector] = id;
    }

    /// Compare a sector. `Err`: what was expected and what was found, in one line.
    pub(crate) fn check(&self, sector: usize) -> Result<(), String> {
        let mut seen = [0; SECTOR];
        self.mapping.read(sector * SECTOR, &mut seen);
        self.compare(sector, &seen)
    }

    fn compare(&self, sector: usize, seen: &[u8]) -> Result<(), String> {
        let expected = contents(self.ids[sector]);
        if seen == expected {
            return Ok(());
        }
        let at = seen.iter().zip(&expected).position(|(a, b)| a != b).unwrap_or(0);
        let zeros = if seen.iter().all(|b| *b == 0) {
            " (it reads as zeros)"
        } else {
            ""
        };
        Err(format!(
            "page {} of {} at {:#x}, sector {}: byte {at} is {:#x}, not {:#x}{zeros}",
            sector / SECTORS,
            self.pages(),
            self.mapping.addr() + sector * SECTOR,
            sector % SECTORS,
            seen[at],
            expected[at],
        ))
    }

    /// Compare `count` sectors after the kernel has carried them through a file.
    pub(crate) fn check_through(&self, file: &std::fs::File, sector: usize, count: usize) -> Result<(), String> {
        use std::os::unix::fs::FileExt;
        let mut seen = vec![0; count * SECTOR];
        let io = |e: std::io::Error| format!("the kernel could not read the region: {e}");
        file.write_all_at(self.mapping.bytes(sector * SECTOR, count * SECTOR), 0)
            .map_err(io)?;
        file.read_exact_at(&mut seen, 0).map_err(io)?;
        seen.chunks_exact(SECTOR)
            .enumerate()
            .try_for_each(|(i, bytes)| self.compare(sector + i, bytes))
    }

    /// Have the kernel write `id` into `count` sectors.
    pub(crate) fn write_through(
        &mut self,
        file: &std::fs::File,
        sector: usize,
        count: usize,
        id: u64,
    ) -> Result<(), String> {
        use std::os::unix::fs::FileExt;
        let io = |e: std::io::Error| format!("the kernel could not write the region: {e}");
        file.write_all_at(&contents(id).repeat(count), 0).map_err(io)?;
        file.read_exact_at(self.mapping.bytes_mut(sector * SECTOR, count * SECTOR), 0)
            .map_err(io)?;
        self.ids[sector..sector + count].fill(id);
        Ok(())
    }

    pub(crate) fn copy_from(&mut self, to: usize, other: &Self, from: usize) {
        self.mapping
            .write(to * SECTOR, other.mapping.bytes(from * SECTOR, SECTOR));
        self.ids[to] = other.ids[from];
    }

    fn zeroed(&mut self, page: usize, pages: usize) {
        self.ids[page * SECTORS..(page + pages) * SECTORS].fill(0);
    }

    pub(crate) fn discard(&mut self, page: usize, pages: usize) {
        if self
            .mapping
            .discard(page * PAGE, pages * PAGE, Discard::DontNeed)
            .is_ok()
        {
            self.zeroed(page, pages);
        }
    }

    /// MADV_FREE leaves each page old or zero, so it is written anew.
    pub(crate) fn free_and_write(&mut self, page: usize, pages: usize, id: u64) {
        let _ = self.mapping.discard(page * PAGE, pages * PAGE, Discard::Free);
        for sector in page * SECTORS..(page + pages) * SECTORS {
            self.write(sector, id + sector as u64);
        }
    }

    pub(crate) fn replace(&mut self, page: usize, pages: usize) {
        if !self.is_private && self.mapping.replace(page * PAGE, pages * PAGE).is_ok() {
            self.is_split = true;
            self.zeroed(page, pages);
        }
    }

    pub(crate) fn keep_from_children(&mut self) {
        // What was mapped anew could not be told from the rest later.
        self.is_private |= !self.is_split && self.mapping.keep_from_children().is_ok();
    }

    /// In a forked child. `None`: it has not got this region.
    pub(crate) fn inherited(self) -> Option<Self> {
        if self.is_private {
            std::mem::forget(self.mapping);
            return None;
        }
        Some(self)
    }

    pub(crate) fn protect(&mut self, is_writable: bool) {
        if self.mapping.protect(0, self.mapping.len(), is_writable).is_ok() {
            self.is_writable = is_writable;
        }
    }

    pub(crate) fn resize(&mut self, pages: usize) {
        if self.mapping.resize(pages * PAGE).is_ok() {
            self.ids.resize(pages * SECTORS, 0);
        }
    }

    /// Move one mapping. Moving several in one mremap (Linux 6.17) stops half-way at a range with a userfaultfd:
    /// docs/compatibility.md.
    pub(crate) fn relocate(&mut self) -> Result<(), String> {
        if self.is_split {
            return Ok(());
        }
        self.mapping
            .relocate()
            .map_err(|errno| format!("mremap of one mapping was refused: {errno}\n{}", self.maps()))
    }

    /// The lines of `/proc/self/maps` about it and its neighbours.
    fn maps(&self) -> String {
        let (start, end) = (self.mapping.addr(), self.mapping.addr() + self.mapping.len());
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
