//! Memory that the device reads and writes, as 64-bit words that live as long as the process.
//!
//! Words are atomics, so what the device writes while the driver reads is a number that another
//! thread has stored, whoever the device is: hardware, or a model in another process.
//!
//! ```text
//!  | records: 64 x slots | scratch | AECS, three slots | buffers: bytes x count |
//! ```

use crate::buffers::{Area, Buffers, Pair, aecs_slot};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};

const WORD: usize = size_of::<u64>();
const RECORD: usize = 64;
const SCRATCH: usize = 64;
/// Of each slot of AECS: the largest, which begins at a multiple of 64.
const AECS: usize = {
    let [a, b, c] = aecs_slot::BYTES;
    let most = if a > b { a } else { b };
    let most = if most > c { most } else { c };
    most.next_multiple_of(64)
};
/// Buffers begin at multiples of it.
const ALIGN: usize = 4096;

/// What the memory has room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Descriptor slots.
    pub slots: u32,
    /// Pairs of buffers.
    pub pairs: u32,
    /// Bytes of a buffer, a multiple of 8.
    pub buffer: u32,
}

impl Room {
    const fn scratch_at(self) -> usize {
        RECORD * self.slots as usize
    }

    const fn aecs_at(self) -> usize {
        self.scratch_at() + SCRATCH
    }

    const fn buffers_at(self) -> usize {
        (self.aecs_at() + AECS * aecs_slot::BYTES.len()).next_multiple_of(ALIGN)
    }

    /// Bytes of all of it, a multiple of the processor's pages.
    #[must_use]
    pub const fn bytes(self) -> usize {
        (self.buffers_at() + 2 * self.pairs as usize * self.buffer as usize).next_multiple_of(ALIGN)
    }

    /// All pairs of buffers.
    #[must_use]
    pub fn pairs(self) -> Vec<Pair> {
        let pair = |i| Pair {
            source: 2 * i,
            destination: 2 * i + 1,
        };
        (0..self.pairs).map(pair).collect()
    }
}

/// Words as the memory of a driver.
#[derive(Clone, Copy, Debug)]
pub struct Resident {
    words: &'static [AtomicU64],
    room: Room,
    /// What the device calls the first of them.
    address: u64,
}

impl Resident {
    /// The device calls the first of `words` `address`, a multiple of 64.
    ///
    /// # Panics
    /// `room` is more than there is, or its buffers are no whole words.
    #[must_use]
    pub fn new(words: &'static [AtomicU64], room: Room, address: u64) -> Self {
        assert!(size_of_val(words) >= room.bytes(), "{room:?} is more than the memory");
        assert!((room.buffer as usize).is_multiple_of(WORD), "{room:?}: no whole words");
        Self { words, room, address }
    }

    /// Where a slot begins, in bytes.
    fn at(&self, area: Area, slot: u32) -> usize {
        let slot = slot as usize;
        match area {
            Area::Record => RECORD * slot,
            Area::Scratch => self.room.scratch_at(),
            Area::Aecs => self.room.aecs_at() + AECS * slot,
            Area::Buffer => self.room.buffers_at() + self.room.buffer as usize * slot,
        }
    }
}

impl Buffers for Resident {
    fn address(&self, area: Area, slot: u32) -> u64 {
        self.address + self.at(area, slot) as u64
    }

    fn read(&self, area: Area, slot: u32, offset: usize, bytes: &mut [u8]) {
        copy_out(self.words, self.at(area, slot) + offset, bytes);
    }

    fn write(&self, area: Area, slot: u32, offset: usize, bytes: &[u8]) {
        copy_in(self.words, self.at(area, slot) + offset, bytes);
    }

    fn status(&self, slot: u32) -> u8 {
        // Acquire pairs with the device's store of the status, which comes last.
        self.words[self.at(Area::Record, slot) / WORD].load(Ordering::Acquire) as u8
    }

    fn touch(&self, address: u64, write: bool) -> bool {
        let at = address.checked_sub(self.address).map(|at| at as usize / WORD);
        let Some(word) = at.and_then(|at| self.words.get(at)) else {
            return false;
        };
        match write {
            true => word.fetch_or(0, Ordering::Relaxed),
            false => word.load(Ordering::Relaxed),
        };
        true
    }
}

/// Copy the bytes from byte `at` on out of words.
///
/// # Panics
/// There are not so many.
pub fn copy_out(words: &[AtomicU64], at: usize, bytes: &mut [u8]) {
    let (skip, end) = (at % WORD, at + bytes.len());
    let mut words = words[at / WORD..end.div_ceil(WORD)].iter();
    let mut rest = bytes;
    if skip != 0
        && let Some(word) = words.next()
    {
        let word = word.load(Ordering::Relaxed).to_le_bytes();
        let (head, behind) = rest.split_at_mut((WORD - skip).min(rest.len()));
        head.copy_from_slice(&word[skip..skip + head.len()]);
        rest = behind;
    }
    let (whole, tail) = rest.as_chunks_mut::<WORD>();
    for (to, word) in whole.iter_mut().zip(words.by_ref()) {
        *to = word.load(Ordering::Relaxed).to_le_bytes();
    }
    if let Some(word) = words.next() {
        tail.copy_from_slice(&word.load(Ordering::Relaxed).to_le_bytes()[..tail.len()]);
    }
}

/// Copy bytes to words, from byte `at` on. The other bytes of the first and the last word stay as
/// they are, whoever writes to them meanwhile.
///
/// # Panics
/// There are not so many.
pub fn copy_in(words: &[AtomicU64], at: usize, bytes: &[u8]) {
    let (skip, end) = (at % WORD, at + bytes.len());
    let mut words = words[at / WORD..end.div_ceil(WORD)].iter();
    let mut rest = bytes;
    if skip != 0
        && let Some(word) = words.next()
    {
        let (head, behind) = rest.split_at((WORD - skip).min(rest.len()));
        put(word, skip, head);
        rest = behind;
    }
    let (whole, tail) = rest.as_chunks::<WORD>();
    for (from, word) in whole.iter().zip(words.by_ref()) {
        word.store(u64::from_le_bytes(*from), Ordering::Relaxed);
    }
    if let Some(word) = words.next() {
        put(word, 0, tail);
    }
}

/// Store the byte at byte `at`, after all that this thread has stored before.
///
/// # Panics
/// There is no such byte.
pub fn publish(words: &[AtomicU64], at: usize, byte: u8) {
    let shift = 8 * (at % WORD);
    let set = |word: u64| Some(word & !(0xff << shift) | u64::from(byte) << shift);
    // The closure refuses nothing. Release pairs with the Acquire of `Resident::status`.
    let _ = words[at / WORD].fetch_update(Ordering::Release, Ordering::Relaxed, set);
}

/// Change the bytes from byte `skip` of a word on.
fn put(word: &AtomicU64, skip: usize, bytes: &[u8]) {
    let set = |old: u64| {
        let mut all = old.to_le_bytes();
        all[skip..skip + bytes.len()].copy_from_slice(bytes);
        Some(u64::from_le_bytes(all))
    };
    // The closure refuses nothing.
    let _ = word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, set);
}

#[cfg(test)]
mod test {
    use super::*;
    use alloc::vec;

    const ROOM: Room = Room {
        slots: 3,
        pairs: 2,
        buffer: 4096,
    };

    fn words(bytes: usize) -> &'static [AtomicU64] {
        let words: Vec<AtomicU64> = (0..bytes / WORD).map(|_| AtomicU64::new(0)).collect();
        words.leak()
    }

    #[test]
    fn bytes_go_in_and_come_out_wherever_they_begin() {
        for at in 0..20 {
            for len in 0..30 {
                let words = words(64);
                copy_in(words, 0, &[0xee; 64]);
                let bytes: Vec<u8> = (1..=len).collect();
                copy_in(words, at, &bytes);
                let mut all = [0; 64];
                copy_out(words, 0, &mut all);
                let mut expected = [0xee; 64];
                expected[at..at + bytes.len()].copy_from_slice(&bytes);
                assert_eq!(all, expected, "{len} bytes at {at}");
                let mut back = vec![0; bytes.len()];
                copy_out(words, at, &mut back);
                assert_eq!(back, bytes);
            }
        }
    }

    #[test]
    fn slots_lie_side_by_side() {
        let memory = Resident::new(words(ROOM.bytes()), ROOM, 0x10_0000);
        let slots = [
            (Area::Record, 3, RECORD),
            (Area::Scratch, 1, SCRATCH),
            (Area::Aecs, 3, AECS),
            (Area::Buffer, 4, 4096),
        ];
        let mut end = 0x10_0000;
        for (area, count, bytes) in slots {
            for slot in 0..count {
                let address = memory.address(area, slot);
                assert!(address >= end && address.is_multiple_of(64), "{area:?} {slot}");
                memory.write(area, slot, 0, &vec![slot as u8 + 1; bytes]);
                end = address + bytes as u64;
            }
        }
        assert_eq!(end, 0x10_0000 + ROOM.bytes() as u64);
        for (area, count, bytes) in slots {
            for slot in 0..count {
                let mut back = vec![0; bytes];
                memory.read(area, slot, 0, &mut back);
                assert_eq!(back, vec![slot as u8 + 1; bytes], "{area:?} {slot}");
            }
        }
    }

    #[test]
    fn a_status_is_one_byte() {
        let memory = Resident::new(words(ROOM.bytes()), ROOM, 64);
        memory.write(Area::Record, 1, 0, &[0, 2, 3]);
        publish(memory.words, memory.at(Area::Record, 1), 0x13);
        let mut bytes = [0; 4];
        memory.read(Area::Record, 1, 0, &mut bytes);
        assert_eq!((memory.status(1), bytes), (0x13, [0x13, 2, 3, 0]));
        assert_eq!((memory.status(0), memory.status(2)), (0, 0));
    }

    #[test]
    fn only_its_own_memory_is_touched() {
        let memory = Resident::new(words(ROOM.bytes()), ROOM, 4096);
        let end = 4096 + ROOM.bytes() as u64;
        let touched = [4095, 4096, end - 1, end].map(|address| memory.touch(address, true));
        assert_eq!(touched, [false, true, true, false]);
    }

    #[test]
    #[should_panic(expected = "is more than the memory")]
    fn more_than_there_is_is_refused() {
        let _ = Resident::new(words(4096), ROOM, 0);
    }
}
