//! The code that a jump in the place of a system call leads to.
//!
//! ```text
//! what moved from before the call
//! lea rcx, [1f]           where to go on: rcx and r11 are the call's to change
//! jmp [entry]             of the guard
//! address behind the call, for whoever unwinds the stack
//! 1: syscall              where the guard goes on if the call is none of its business
//! 2: what moved from behind, jump back            where it goes on if it has made the call
//! ```

use alloc::vec::Vec;

use crate::site::{JUMP, SYSCALL, Site};

const LEA_RCX: [u8; 3] = [0x48, 0x8d, 0x0d];
const JUMP_INDIRECT: [u8; 2] = [0xff, 0x25];
const JUMP_NEAR: u8 = 0xe9;
/// What no stub fills: nobody gets there.
const TRAP: u8 = 0xcc;
/// Stubs begin at multiples of it, so that the word inside them is whole.
const ALIGN: usize = 8;

/// Stubs for one image, which are to lie within two gibibytes of it.
#[derive(Default)]
pub struct Stubs {
    bytes: Vec<u8>,
}

impl Stubs {
    /// None yet. `entry`: the address of the guard.
    pub fn new(entry: usize) -> Self {
        let mut bytes = Vec::new();
        bytes.extend((entry as u64).to_le_bytes());
        Self { bytes }
    }

    /// Bytes that the stubs of `sites` take at most.
    pub fn bytes_for(sites: &[Site]) -> usize {
        let of = |site: &Site| site.window.len() + 40 + ALIGN;
        ALIGN + sites.iter().map(of).sum::<usize>()
    }

    /// A stub for `site` of `code`, which is at `code_at`, if the stubs are at `stubs_at`. Returns
    /// the jump to it. `None`: they are too far apart.
    pub fn add(&mut self, site: &Site, code: &[u8], code_at: usize, stubs_at: usize) -> Option<[u8; JUMP]> {
        let (call_end, before) = (site.call + SYSCALL.len(), self.bytes.len());
        self.bytes.resize(before.next_multiple_of(ALIGN), TRAP);
        let stub = self.bytes.len();
        let moved = &code[site.window.start..site.call];
        self.bytes.extend(moved);
        // The word is aligned, and `1:` is right behind it.
        let word = (stub + moved.len() + LEA_RCX.len() + 4 + JUMP_INDIRECT.len() + 4).next_multiple_of(ALIGN);
        let here = self.bytes.len() + LEA_RCX.len() + 4;
        self.bytes.extend(LEA_RCX);
        self.bytes.extend(((word + 8 - here) as i32).to_le_bytes());
        let here = self.bytes.len() + JUMP_INDIRECT.len() + 4;
        self.bytes.extend(JUMP_INDIRECT);
        self.bytes.extend((-(here as i32)).to_le_bytes());
        self.bytes.resize(word, TRAP);
        self.bytes.extend(((code_at + call_end) as u64).to_le_bytes());
        self.bytes.extend(SYSCALL);
        self.bytes.extend(&code[call_end..site.window.end]);
        let back = jump(stubs_at + self.bytes.len(), code_at + site.window.end);
        let there = jump(code_at + site.window.start, stubs_at + stub);
        match (back, there) {
            (Some(back), Some(there)) => {
                self.bytes.extend(back);
                Some(there)
            }
            _ => {
                self.bytes.truncate(before);
                None
            }
        }
    }

    /// All of them.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// A jump that lies at `at` and leads to `to`.
fn jump(at: usize, to: usize) -> Option<[u8; JUMP]> {
    let distance = (to as i64).wrapping_sub((at + JUMP) as i64);
    let [a, b, c, d] = i32::try_from(distance).ok()?.to_le_bytes();
    Some([JUMP_NEAR, a, b, c, d])
}
