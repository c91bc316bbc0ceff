//! What is written to the swap file, encrypted: its contents mean nothing to whoever finds them
//! later, on the disk or in a snapshot of it, however this process ends.
//!
//! AES-256-GCM, a slot at a time. The key is made when the swap file is opened and is nowhere but
//! in this process's memory and that of the children which read the file. Nonces are counted, never
//! repeated under a key: a forked child has a swap file and a key of its own. The tag of a slot is
//! kept in memory too, so a slot that was changed, exchanged for another or for an older state of
//! itself, or torn, does not open.

use core::sync::atomic::{AtomicU64, Ordering};

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, Tag, UnboundKey};
use uzswap_sys::words::discard_words;
use uzswap_sys::{Errno, random};

use super::seal::room;

/// Words of a slot: the number of its nonce and its tag.
const SEAL: usize = 3;

/// The key of a swap file and the seals of its slots.
pub struct Cipher {
    key: LessSafeKey,
    seals: &'static [AtomicU64],
    sealed: AtomicU64,
}

impl Cipher {
    /// With a fresh key, for `slots` slots or as many as there is address space for.
    ///
    /// # Errors
    /// ENOMEM; ENOSYS: the system gives no random numbers.
    pub fn new(slots: u64) -> Result<Self, Errno> {
        Self::with(room(slots, SEAL)?)
    }

    /// With a fresh key, in the place of this one, whose file nobody reads any more.
    ///
    /// # Errors
    /// ENOSYS, as for [`new`](Self::new).
    pub fn renewed(&self) -> Result<Self, Errno> {
        discard_words(self.seals);
        Self::with(self.seals)
    }

    fn with(seals: &'static [AtomicU64]) -> Result<Self, Errno> {
        let mut key = [0; 32];
        random::fill(&mut key)?;
        let key = UnboundKey::new(&AES_256_GCM, &key).map_err(|_| Errno::INVAL)?;
        Ok(Self {
            key: LessSafeKey::new(key),
            seals,
            sealed: AtomicU64::new(0),
        })
    }

    /// Slots that it has room for.
    pub fn slots(&self) -> u64 {
        (self.seals.len() / SEAL) as u64
    }

    fn seal_of(&self, slot: u32) -> Option<&[AtomicU64]> {
        self.seals.get(slot as usize * SEAL..(slot as usize + 1) * SEAL)
    }

    /// Encrypt what goes into a slot. False: there is no room for its seal.
    pub fn seal(&self, slot: u32, page: &mut [u8]) -> bool {
        let Some([number, low, high]) = self.seal_of(slot) else {
            return false;
        };
        // Relaxed: a slot is written by one thread, and read after the engine's lock was handed
        // over.
        let n = self.sealed.fetch_add(1, Ordering::Relaxed) + 1;
        let sealed = self.key.seal_in_place_separate_tag(nonce(n), Aad::empty(), page);
        let Some(tag) = sealed.ok().and_then(|tag| tag.as_ref().try_into().ok()) else {
            return false;
        };
        let tag = u128::from_le_bytes(tag);
        number.store(n, Ordering::Relaxed);
        low.store(tag as u64, Ordering::Relaxed);
        high.store((tag >> 64) as u64, Ordering::Relaxed);
        true
    }

    /// Decrypt what was read from a slot. False: it is not what was written there last, and is
    /// nothing any more.
    pub fn open(&self, slot: u32, page: &mut [u8]) -> bool {
        let Some([number, low, high]) = self.seal_of(slot) else {
            return false;
        };
        let half = |word: &AtomicU64| u128::from(word.load(Ordering::Relaxed));
        let tag = Tag::from((half(high) << 64 | half(low)).to_le_bytes());
        let nonce = nonce(number.load(Ordering::Relaxed));
        self.key
            .open_in_place_separate_tag(nonce, Aad::empty(), tag, page, 0..)
            .is_ok()
    }
}

fn nonce(n: u64) -> Nonce {
    let mut nonce = [0; 12];
    nonce[..8].copy_from_slice(&n.to_le_bytes());
    Nonce::assume_unique_for_key(nonce)
}
