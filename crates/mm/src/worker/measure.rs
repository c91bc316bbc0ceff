//! What a page would take in the pool, stored with another compressor.

use alloc::vec;
use alloc::vec::Vec;

use uzswap_acomp::{Algorithm, Context};

use crate::checksum;
use crate::page::{PAGE_SIZE, same_filled};
use crate::policy::tunables::COMPRESSED_MAX;

/// A compressor that pages are measured with and not stored.
pub struct Measure {
    context: Context,
    room: Vec<u8>,
}

impl Measure {
    /// Working memory for `algorithm`.
    pub fn new(algorithm: Algorithm) -> Self {
        Self {
            context: Context::new(algorithm),
            room: vec![0; COMPRESSED_MAX],
        }
    }

    /// Bytes of the block that `page` would be stored as, with what is behind it; 0: it is one word
    /// over and over; those of a page: it does not compress.
    pub fn bytes(&mut self, page: &[u8]) -> u32 {
        if same_filled(page).is_some() {
            return 0;
        }
        let len = self.context.compress_page(page, &mut self.room).ok();
        let with_checksum = len.and_then(|len| checksum::append(&mut self.room, len, page));
        with_checksum.unwrap_or(PAGE_SIZE) as u32
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_page_is_filled_or_shrinks_or_stays() {
        let mut measure = Measure::new(Algorithm::Lz4 { acceleration: 1 });
        assert_eq!(measure.bytes(&[7; PAGE_SIZE]), 0);
        let text: Vec<u8> = b"some text, ".iter().cycle().copied().take(PAGE_SIZE).collect();
        assert!((20..200).contains(&measure.bytes(&text)));
        let mut state = 1u64;
        let noise = core::iter::repeat_with(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        });
        assert_eq!(measure.bytes(&noise.take(PAGE_SIZE).collect::<Vec<_>>()), 4096);
    }
}
