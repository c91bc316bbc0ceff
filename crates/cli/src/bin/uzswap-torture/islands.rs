//! Mappings by the ten thousand, that the kernel cannot make one of.

use uzswap_sys::testing::{Access, Kind, Memory};

use crate::advice::MADV_DONTNEED;
use crate::contents::{PAGE, SECTOR, SECTORS, compare, contents};

/// Pages of an island that stands alone: the least that is managed. One of them is written.
const PAGES: usize = 16;
/// Of so many that would be stripes one stands alone.
const SPREAD: usize = 4;
const MADV_NORMAL: i32 = 0;
const MADV_RANDOM: i32 = 1;
const MADV_SEQUENTIAL: i32 = 2;

/// Many mappings. Island `i` holds, in one sector, what `seed + i` stands for.
pub(crate) struct Islands {
    /// One for each, or one for all: then each page is an island, by its protection.
    memory: Vec<Memory>,
    is_striped: bool,
    seed: u64,
    ids: Vec<u64>,
}

impl Islands {
    /// As many as the address space has room for, `count` at most, or a part of that if each stands
    /// alone: they are spread wide.
    pub(crate) fn new(count: usize, seed: u64) -> Option<Self> {
        let is_striped = seed.is_multiple_of(2);
        let count = if is_striped { count } else { count.div_ceil(SPREAD) };
        let mut islands = Self {
            memory: Vec::new(),
            is_striped,
            seed,
            ids: (0..count as u64).map(|i| seed.wrapping_add(i)).collect(),
        };
        if is_striped {
            islands.memory.push(Memory::map(count * PAGE, Kind::Heap).ok()?);
            (0..count).for_each(|i| islands.write(i));
            for i in (1..count).step_by(2) {
                islands.protect(i, if i % 4 == 1 { Access::Read } else { Access::None });
            }
        } else {
            for i in 0..count {
                let Ok(mut memory) = Memory::map(PAGES * PAGE, Kind::Heap) else {
                    islands.ids.truncate(i);
                    break;
                };
                let advice = if i % 2 == 0 { MADV_RANDOM } else { MADV_SEQUENTIAL };
                let _ = memory.advise(0, memory.len(), advice);
                islands.memory.push(memory);
                islands.write(i);
            }
        }
        Some(islands)
    }

    pub(crate) fn count(&self) -> usize {
        self.ids.len()
    }

    /// Which memory has an island's sector, and where.
    fn place(&self, i: usize) -> (usize, usize) {
        let in_page = (i % SECTORS) * SECTOR;
        if self.is_striped {
            (0, i * PAGE + in_page)
        } else {
            (i, i % PAGES * PAGE + in_page)
        }
    }

    fn write(&mut self, i: usize) {
        let (memory, at) = self.place(i);
        self.memory[memory]
            .bytes_mut(at, SECTOR)
            .copy_from_slice(&contents(self.ids[i]));
    }

    /// The islands are protected by turns for as long as the kernel has room for so many.
    fn protect(&mut self, i: usize, access: Access) {
        let (memory, at) = self.place(i);
        let refused = self.memory[memory].protect(at / PAGE * PAGE, PAGE, access);
        if refused.is_err() {
            let _ = self.memory[memory].protect(at / PAGE * PAGE, PAGE, Access::Write);
        }
    }

    /// Each of a run is opened, compared, and, if it is to be so, closed again or given new
    /// contents.
    pub(crate) fn visit(&mut self, first: usize, count: usize, id: u64) -> Result<(), String> {
        for i in first..(first + count).min(self.count()) {
            if self.is_striped {
                self.protect(i, Access::Write);
            }
            let (memory, at) = self.place(i);
            let (addr, seen) = (self.memory[memory].addr() + at, self.memory[memory].bytes(at, SECTOR));
            compare(addr, self.ids[i], seen).map_err(|line| format!("island {i} of {}: {line}", self.count()))?;
            match (i as u64 ^ id) % 4 {
                0 => {
                    self.ids[i] = id.wrapping_add(i as u64);
                    self.write(i);
                }
                1 if self.memory[memory]
                    .advise(at / PAGE * PAGE, PAGE, MADV_DONTNEED)
                    .is_ok() =>
                {
                    self.ids[i] = 0
                }
                _ => {}
            }
            if self.is_striped && i % 2 == 1 {
                self.protect(i, Access::Read);
            }
        }
        Ok(())
    }

    /// Nothing keeps them apart any more; then all of them are compared.
    pub(crate) fn merge(&mut self) -> Result<(), String> {
        for memory in &mut self.memory {
            let len = memory.len();
            let _ = if self.is_striped {
                memory.protect(0, len, Access::Write)
            } else {
                memory.advise(0, len, MADV_NORMAL)
            };
        }
        let (count, seed) = (self.count(), self.seed);
        self.visit(0, count, seed)
    }
}
