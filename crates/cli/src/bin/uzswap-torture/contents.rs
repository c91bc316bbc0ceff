//! The bytes that a sector holds, as a number decides.

/// Bytes of a sector.
pub(crate) const SECTOR: usize = 512;
/// Sectors of a page.
pub(crate) const SECTORS: usize = 8;
pub(crate) const PAGE: usize = 4096;

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

/// Compare a sector at `addr` with what `id` stands for. `Err`: what was expected and what was
/// found, in one line.
pub(crate) fn compare(addr: usize, id: u64, seen: &[u8]) -> Result<(), String> {
    let expected = contents(id);
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
        "sector {addr:#x}, {id:#x}: byte {at} is {:#x}, not {:#x}{zeros}",
        seen[at], expected[at],
    ))
}
