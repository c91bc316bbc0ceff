//! The code that a jump in the place of a system call leads to.
//!
//! ```text
//! what moved from before the call
//! mov rcx, gateway        which makes the call: rcx and r11 are the call's to change
//! jmp [entry]             of the guard
//! what moved from behind, jump back            where the gateway leads to
//! ```

use alloc::vec::Vec;

use crate::site::{JUMP, SYSCALL, Site};

const MOV_RCX: [u8; 2] = [0x48, 0xb9];
const JUMP_INDIRECT: [u8; 2] = [0xff, 0x25];
const JUMP_NEAR: u8 = 0xe9;
/// What stubs take besides what moves.
const FIXED: usize = MOV_RCX.len() + 8 + JUMP_INDIRECT.len() + 4 + JUMP;

/// What leads to a stub, and back out of the gateway of its call.
#[derive(Clone, Copy, Debug)]
pub struct Jump {
    /// What takes the place of the first instruction that moved.
    pub bytes: [u8; JUMP],
    /// Where the program goes on behind the call.
    pub goes_on: usize,
}

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
        let of = |site: &Site| site.window.len() + FIXED;
        size_of::<u64>() + sites.iter().map(of).sum::<usize>()
    }

    /// A stub for `site` of `code`, which is at `code_at`, if the stubs are at `stubs_at`, whose
    /// call is made at `gateway`. `None`: they are too far apart.
    pub fn add(&mut self, site: &Site, code: &[u8], code_at: usize, stubs_at: usize, gateway: usize) -> Option<Jump> {
        let (call_end, stub) = (site.call + SYSCALL.len(), self.bytes.len());
        self.bytes.extend(&code[site.window.start..site.call]);
        self.bytes.extend(MOV_RCX);
        self.bytes.extend((gateway as u64).to_le_bytes());
        let here = self.bytes.len() + JUMP_INDIRECT.len() + 4;
        self.bytes.extend(JUMP_INDIRECT);
        self.bytes.extend((-(here as i32)).to_le_bytes());
        let goes_on = stubs_at + self.bytes.len();
        self.bytes.extend(&code[call_end..site.window.end]);
        let back = jump(stubs_at + self.bytes.len(), code_at + site.window.end);
        let there = jump(code_at + site.window.start, stubs_at + stub);
        match (back, there) {
            (Some(back), Some(bytes)) => {
                self.bytes.extend(back);
                Some(Jump { bytes, goes_on })
            }
            _ => {
                self.bytes.truncate(stub);
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
