//! What was found in the code of an image, noted, so that the next process with that image need not
//! look: decoding a libc takes longer than starting a small program.
//!
//! ```text
//! "uzsites1", length of the code, number of calls (8 bytes each)
//! for each call, six words of 4 bytes: where its function begins, the call, its window's beginning
//!     and end, the bytes of the first instruction, and a hash of the bytes that are written over
//! ```
//! Who uses a note compares each hash with the code that it has: what differs was not looked at.

use alloc::vec::Vec;
use core::ops::Range;

use crate::site::{JUMP, SYSCALL, Site, Sites};

const MAGIC: &[u8; 8] = b"uzsites1";
const HEAD: usize = 24;
const WORDS: usize = 6;

/// FNV-1a of what moves and what the jump covers.
fn hash(code: &[u8], window: &Range<usize>) -> Option<u32> {
    let bytes = code.get(window.start..window.end.max(window.start.checked_add(JUMP)?))?;
    let mix = |hash: u32, byte: &u8| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
    Some(bytes.iter().fold(0x811c_9dc5, mix))
}

/// Note `sites` of `code`. `None`: it cannot be noted (a function is unknown, or it is too long).
pub fn write(
    code: &[u8],
    sites: &[Site],
    mut function_of: impl FnMut(usize) -> Option<Range<usize>>,
) -> Option<Vec<u8>> {
    let mut note = Vec::from(*MAGIC);
    note.extend((code.len() as u64).to_le_bytes());
    note.extend((sites.len() as u64).to_le_bytes());
    for site in sites {
        let function = function_of(site.call)?.start;
        let places = [function, site.call, site.window.start, site.window.end, site.first];
        for place in places {
            note.extend(u32::try_from(place).ok()?.to_le_bytes());
        }
        note.extend(hash(code, &site.window)?.to_le_bytes());
    }
    Some(note)
}

/// Whether it is a note of this version, as long as it says.
pub fn is_whole(note: &[u8]) -> bool {
    let count = note
        .get(16..HEAD)
        .and_then(|word| word.try_into().ok().map(u64::from_le_bytes));
    let bytes = count.and_then(|count| usize::try_from(count).ok()?.checked_mul(4 * WORDS)?.checked_add(HEAD));
    note.starts_with(MAGIC) && bytes == Some(note.len())
}

/// The sites of `code` that a note tells of, but for those in functions of which `is_replaced` says
/// so, by their code. `None`: it is no note of this code.
pub fn read(note: &[u8], code: &[u8], is_replaced: impl Fn(&[u8]) -> bool) -> Option<Sites> {
    let word = |at: usize| Some(u64::from_le_bytes(note.get(at..at + 8)?.try_into().ok()?));
    if !is_whole(note) || word(8)? != code.len() as u64 {
        return None;
    }
    let mut sites = Sites::default();
    let mut end = 0;
    for entry in note[HEAD..].chunks_exact(4 * WORDS) {
        let mut words = entry.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word));
        let mut place = || words.next().map(|place| place as usize);
        let [function, call, start, stop, first] = [place()?, place()?, place()?, place()?, place()?];
        let (window, known) = (start..stop, words.next()?);
        if is_replaced(code.get(function..)?) {
            continue;
        }
        let is_inside = start <= call && call + SYSCALL.len() <= stop && stop - start >= JUMP && function <= start;
        let is_call = is_inside && code.get(call..)?.starts_with(&SYSCALL);
        if !is_call || start < end || hash(code, &window)? != known {
            return None;
        }
        end = stop;
        sites.found.push(Site { call, window, first });
    }
    Some(sites)
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::site::find;
    use crate::stub::Stubs;

    /// Two functions: `mov eax, 28; syscall; cmp rax, -4095; ret` and the same of another number.
    fn code() -> Vec<u8> {
        let one = |number: u8| {
            [
                0xb8, number, 0, 0, 0, 0x0f, 0x05, 0x48, 0x3d, 0x01, 0xf0, 0xff, 0xff, 0xc3,
            ]
        };
        [one(28), one(11)].concat()
    }

    fn function_of(at: usize) -> Option<Range<usize>> {
        Some(at / 14 * 14..at / 14 * 14 + 14)
    }

    #[test]
    fn a_note_tells_what_was_found() {
        let code = code();
        let sites = find(&code, function_of);
        assert_eq!(sites.found.len(), 2);
        let note = write(&code, &sites.found, function_of).unwrap();
        assert_eq!(read(&note, &code, |_| false).unwrap().found, sites.found);
        let second = read(&note, &code, |function| function[1] == 28).unwrap();
        assert_eq!(second.found, sites.found[1..]);
    }

    #[test]
    fn a_note_of_other_code_is_none() {
        let code = code();
        let sites = find(&code, function_of);
        let note = write(&code, &sites.found, function_of).unwrap();
        for at in [1, 7, 20] {
            let mut other = code.clone();
            other[at] ^= 1;
            // What moves, and what lies beyond it.
            assert_eq!(read(&note, &other, |_| false).is_none(), at != 7, "{at}");
        }
        assert!(read(&note, &code[1..], |_| false).is_none());
        assert!(read(&note[..note.len() - 1], &code, |_| false).is_none());
        for (at, bit) in (0..note.len()).flat_map(|at| (0..8).map(move |bit| (at, bit))) {
            let mut damaged = note.clone();
            damaged[at] ^= 1 << bit;
            // Nothing is taken for a call that is none, and a stub can be made of all that is.
            let mut stubs = Stubs::new(0);
            for site in read(&damaged, &code, |_| false)
                .into_iter()
                .flat_map(|sites| sites.found)
            {
                assert!(sites.found.iter().any(|one| one.call == site.call));
                let _ = stubs.add(&site, &code, 1 << 20, 1 << 21, 0);
            }
        }
        assert!(read(&[], &code, |_| false).is_none());
    }
}
