//! What the model's kernel says of its devices: a text of lines `PATH=VALUE`.

use alloc::string::String;
use alloc::vec;
use core::sync::atomic::{Ordering, fence};

use super::{Accel, Head, SYSFS, SYSFS_WORDS};

/// How often a text is read that changes meanwhile.
const TRIES: u32 = 100;

impl Accel {
    /// Change the text. Only whoever runs the model does. False: it is too long.
    #[must_use]
    pub fn set_sysfs(&self, text: &str) -> bool {
        if text.len() > SYSFS_WORDS * 8 {
            return false;
        }
        let version = self.head(Head::SysfsVersion);
        version.fetch_add(1, Ordering::Relaxed);
        // Whoever sees any of the new text sees the odd version.
        fence(Ordering::Release);
        self.head(Head::SysfsBytes).store(text.len() as u64, Ordering::Relaxed);
        for (word, chunk) in self.0[SYSFS..].iter().zip(text.as_bytes().chunks(8)) {
            let mut bytes = [0; 8];
            bytes[..chunk.len()].copy_from_slice(chunk);
            word.store(u64::from_le_bytes(bytes), Ordering::Relaxed);
        }
        version.fetch_add(1, Ordering::Release);
        true
    }

    /// Changes whenever the text does.
    pub fn sysfs_version(&self) -> u64 {
        self.head(Head::SysfsVersion).load(Ordering::Acquire)
    }

    /// The text, and its version. `None`: it is never the same for as long as it takes to read.
    pub fn sysfs(&self) -> Option<(u64, String)> {
        (0..TRIES).find_map(|_| {
            let before = self.sysfs_version();
            if !before.is_multiple_of(2) {
                core::hint::spin_loop();
                return None;
            }
            let len = (self.head(Head::SysfsBytes).load(Ordering::Relaxed) as usize).min(SYSFS_WORDS * 8);
            let mut bytes = vec![0; len];
            for (chunk, word) in bytes.chunks_mut(8).zip(&self.0[SYSFS..]) {
                let word = word.load(Ordering::Relaxed).to_le_bytes();
                chunk.copy_from_slice(&word[..chunk.len()]);
            }
            fence(Ordering::Acquire);
            (self.sysfs_version() == before).then(|| (before, String::from_utf8_lossy(&bytes).into_owned()))
        })
    }
}
