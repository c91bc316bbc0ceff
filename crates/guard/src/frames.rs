//! Where functions begin and end: the sorted table for unwinders that each image carries
//! (`.eh_frame_hdr`, Linux Standard Base).

use core::ops::Range;

/// DW_EH_PE_sdata4, relative to the table itself.
const RELATIVE_TO_TABLE: u8 = 0x3b;
/// DW_EH_PE_udata4.
const COUNT: u8 = 0x03;
const VERSION: u8 = 1;
/// Version, three encodings, and the address of `.eh_frame`, which is not needed.
const HEAD: usize = 8;
const ENTRY: usize = 8;

/// The table of one image.
#[derive(Clone, Copy)]
pub struct Frames<'a> {
    entries: &'a [u8],
    /// Its address.
    base: usize,
}

impl<'a> Frames<'a> {
    /// `bytes`: the section at address `base`. `None`: it is of another kind than linkers write.
    pub fn new(bytes: &'a [u8], base: usize) -> Option<Self> {
        let [VERSION, _, COUNT, RELATIVE_TO_TABLE, ..] = *bytes else {
            return None;
        };
        let count = word(bytes, HEAD)? as u32 as usize;
        let entries = bytes.get(HEAD + 4..)?.get(..count.checked_mul(ENTRY)?)?;
        Some(Self { entries, base })
    }

    fn start(&self, n: usize) -> Option<usize> {
        let offset = word(self.entries, n * ENTRY)?;
        Some(self.base.wrapping_add_signed(offset as isize))
    }

    /// The function that holds `addr`: up to where the next one begins, and what pads it. `None`:
    /// none does, as far as the table says, or it is the last.
    pub fn function(&self, addr: usize) -> Option<Range<usize>> {
        let (mut low, mut high) = (0, self.entries.len() / ENTRY);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.start(middle)? <= addr {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        let start = self.start(low.checked_sub(1)?)?;
        Some(start..self.start(low)?)
    }
}

fn word(bytes: &[u8], at: usize) -> Option<i32> {
    let bytes = bytes.get(at..at.checked_add(4)?)?;
    Some(i32::from_le_bytes(bytes.try_into().ok()?))
}

#[cfg(test)]
mod test {
    use super::*;
    use alloc::vec::Vec;

    fn table(starts: &[i32]) -> Vec<u8> {
        let mut bytes = Vec::from([VERSION, 0x1b, COUNT, RELATIVE_TO_TABLE, 0, 0, 0, 0]);
        bytes.extend((starts.len() as u32).to_le_bytes());
        for start in starts {
            bytes.extend(start.to_le_bytes());
            bytes.extend([0; 4]);
        }
        bytes
    }

    #[test]
    fn a_function_ends_where_the_next_begins() {
        let bytes = table(&[-0x800, -0x700, 0x40]);
        let frames = Frames::new(&bytes, 0x1000).expect("as linkers write it");
        assert_eq!(frames.function(0x800), Some(0x800..0x900));
        assert_eq!(frames.function(0x8ff), Some(0x800..0x900));
        assert_eq!(frames.function(0x900), Some(0x900..0x1040));
        assert_eq!(frames.function(0x7ff), None);
        assert_eq!(frames.function(0x1040), None, "where the last ends is not known");
    }

    #[test]
    fn another_kind_or_a_short_one_is_refused() {
        let mut bytes = table(&[1, 2]);
        assert!(Frames::new(&bytes[..20], 0).is_none());
        assert!(Frames::new(&[], 0).is_none());
        bytes[3] = 0x1b;
        assert!(Frames::new(&bytes, 0).is_none());
    }
}
