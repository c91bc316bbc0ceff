//! A checksum of the page behind each compressed block: what comes out is what went in, or the page
//! is lost loudly.
//!
//! It is of the page and not of the block, so it holds for all that happens in between: the
//! compressors, the pool, the swap device, and a block that was taken for another. Pages that are
//! stored as they are have no room for one; on the device the cipher's tag covers them.

use xxhash_rust::xxh3::xxh3_64;

/// Bytes of a checksum.
pub const LEN: usize = 4;

fn of(page: &[u8]) -> [u8; LEN] {
    (xxh3_64(page) as u32).to_le_bytes()
}

/// Put the checksum of `page` behind its block, the first `len` bytes of `room`. The length with
/// it; `None`: it does not fit.
#[must_use]
pub fn append(room: &mut [u8], len: usize, page: &[u8]) -> Option<usize> {
    room.get_mut(len..len + LEN)?.copy_from_slice(&of(page));
    Some(len + LEN)
}

/// A block without its checksum, and the checksum. `None`: it is shorter than that.
#[must_use]
pub fn split(block: &[u8]) -> Option<(&[u8], &[u8; LEN])> {
    block.split_last_chunk()
}

/// Whether `page` is what the checksum was made of.
#[must_use]
pub fn holds(checksum: &[u8; LEN], page: &[u8]) -> bool {
    *checksum == of(page)
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::page::PAGE_SIZE;
    use alloc::vec;

    #[test]
    fn another_page_is_told_from_the_one() {
        let (mut page, mut room) = (vec![7; PAGE_SIZE], [0; 100]);
        let len = append(&mut room, 90, &page).unwrap();
        assert_eq!(len, 94);
        assert_eq!(append(&mut room, 97, &page), None);
        let (block, checksum) = split(&room[..len]).unwrap();
        assert_eq!(block.len(), 90);
        assert!(holds(checksum, &page));
        page[4095] ^= 1;
        assert!(!holds(checksum, &page));
        assert_eq!(split(&room[..3]), None);
    }
}
