//! What tells that a slot of a swap file holds what was written there last: the tag of a cipher, or
//! a fingerprint where nothing is encrypted. Kept in memory, so that the disk cannot forge it;
//! forked children read with it.

use alloc::boxed::Box;
use core::sync::atomic::{AtomicU64, Ordering};

use uzswap_mm::page::{PAGE_SIZE, fingerprint};
use uzswap_sys::Errno;
use uzswap_sys::words::{discard_words, words};

use super::cipher::Cipher;

/// Slots that there is room for at most: a device of 256 GiB.
const SLOTS_MAX: u64 = 1 << 26;

/// Some words for each of `slots` slots, or of as many as there is address space for.
///
/// # Errors
/// ENOMEM.
pub(crate) fn room(slots: u64, each: usize) -> Result<&'static [AtomicU64], Errno> {
    let len = slots.clamp(1, SLOTS_MAX) as usize * each * size_of::<u64>();
    (0..12)
        .map(|i| (len >> i).next_multiple_of(PAGE_SIZE))
        .find_map(|len| words(len).ok())
        .ok_or(Errno::NOMEM)
}

/// The seals of a swap file's slots. Kept for ever.
#[derive(Clone, Copy)]
pub enum Seal {
    Cipher(&'static Cipher),
    /// A word a slot; 0: never written.
    Fingerprints(&'static [AtomicU64]),
}

impl Seal {
    /// For a new file.
    ///
    /// # Errors
    /// ENOMEM; ENOSYS: the system gives no random numbers.
    pub fn new(is_encrypted: bool, slots: u64) -> Result<Self, Errno> {
        Ok(match is_encrypted {
            true => Self::Cipher(Box::leak(Box::new(Cipher::new(slots)?))),
            false => Self::Fingerprints(room(slots, 1)?),
        })
    }

    /// For another new file, in the place of these, whose file nobody reads any more in this
    /// process.
    ///
    /// # Errors
    /// ENOSYS: the system gives no random numbers.
    pub fn renewed(self) -> Result<Self, Errno> {
        Ok(match self {
            Self::Cipher(cipher) => Self::Cipher(Box::leak(Box::new(cipher.renewed()?))),
            Self::Fingerprints(words) => {
                discard_words(words);
                self
            }
        })
    }

    /// Slots that it has room for.
    pub fn slots(self) -> u64 {
        match self {
            Self::Cipher(cipher) => cipher.slots(),
            Self::Fingerprints(words) => words.len() as u64,
        }
    }

    /// Seal what goes into a slot. False: there is no room for its seal.
    pub fn seal(self, slot: u32, page: &mut [u8]) -> bool {
        match self {
            Self::Cipher(cipher) => cipher.seal(slot, page),
            // Relaxed: a slot is written by one thread, and read after the engine's lock was handed
            // over.
            Self::Fingerprints(words) => words
                .get(slot as usize)
                .map(|word| word.store(fingerprint(page).into(), Ordering::Relaxed))
                .is_some(),
        }
    }

    /// Make what was read from a slot what was sealed. False: it is not what was written there
    /// last.
    pub fn open(self, slot: u32, page: &mut [u8]) -> bool {
        match self {
            Self::Cipher(cipher) => cipher.open(slot, page),
            Self::Fingerprints(words) => words
                .get(slot as usize)
                .is_some_and(|word| word.load(Ordering::Relaxed) == fingerprint(page).into()),
        }
    }
}
