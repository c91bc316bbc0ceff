//! More in the environment of a program that has not begun, as its tracer. What it was given stays
//! in order, and what is put behind that the kernel shows nobody (`/proc/PID/environ`).
//!
//! ```text
//! before                           rsp: argc argv 0 envp      0 auxv  .. texts
//! after   rsp: argc argv 0 envp more 0 auxv  more's texts   (as it was)
//! ```

use alloc::vec;
use alloc::vec::Vec;

use rustix::io::{Errno, Result};

use super::inject::Child;

const WORD: usize = size_of::<usize>();
/// The kernel makes a stack of 128 KiB at least below what it puts there (`setup_arg_pages`): so
/// much of it is used, in bytes.
const MOST: usize = 96 << 10;
/// What is read at once, in bytes.
const PIECE: usize = 4096;
/// The pair that the auxiliary vector ends with begins with it.
const AT_NULL: usize = 0;
/// As the ABI has it of the stack of a program that begins.
const ALIGNED: usize = 16;

/// Put `entries` behind the environment of `pid`, which stands in the middle of execve(2), in at
/// most so many bytes of its stack. What cannot be put there leaves all as it was. Where the stack
/// began.
///
/// # Errors
/// E2BIG: what it has already is too long. EPERM: it has other rights than its maker, which goes
/// for more than its file says. What its memory answers.
pub(crate) fn extend(pid: i32, entries: &[Vec<u8>], most: usize) -> Result<usize> {
    let mut child = Child::standing(pid)?;
    let rsp = child.stack();
    if entries.is_empty() {
        return Ok(rsp);
    }
    let words = words_at(&child, rsp)?;
    if is_secure(&words) {
        return Err(Errno::PERM);
    }
    let extended = extended(&words, rsp, entries).filter(|(_, bytes)| bytes.len() <= most);
    let (start, bytes) = extended.ok_or(Errno::TOOBIG)?;
    child.write(start, &bytes)?;
    child.move_stack(start).map(|()| rsp)
}

/// Whether the loader is to trust no environment (AT_SECURE).
fn is_secure(words: &[usize]) -> bool {
    const AT_SECURE: usize = 23;
    let vector = parts(words).map_or(&[][..], |(environment, _)| &words[environment + 1..]);
    vector.chunks_exact(2).any(|pair| pair[0] == AT_SECURE && pair[1] != 0)
}

/// All words from the number of arguments to the end of the auxiliary vector.
fn words_at(child: &Child, rsp: usize) -> Result<Vec<usize>> {
    let mut words = Vec::new();
    while words.len() * WORD < MOST {
        let at = rsp + words.len() * WORD;
        let mut bytes = vec![0; PIECE - at % PIECE];
        child.read(at, &mut bytes)?;
        let piece = bytes.chunks_exact(WORD).filter_map(|word| word.try_into().ok());
        words.extend(piece.map(usize::from_ne_bytes));
        if let Some((_, end)) = parts(&words) {
            words.truncate(end);
            return Ok(words);
        }
    }
    Err(Errno::TOOBIG)
}

/// Where the null behind the environment is, and the end of all, if that is among `words`.
fn parts(words: &[usize]) -> Option<(usize, usize)> {
    let behind = |start: usize| Some(start + words.get(start..)?.iter().position(|word| *word == 0)?);
    let environment = behind(words.first()?.checked_add(2)?)?;
    let vector = words.get(environment + 1..)?;
    let end = vector.chunks_exact(2).position(|pair| pair[0] == AT_NULL)?;
    Some((environment, environment + 1 + (end + 1) * 2))
}

/// Where the stack begins with `entries` in it, and what is there, up to where it began.
fn extended(words: &[usize], rsp: usize, entries: &[Vec<u8>]) -> Option<(usize, Vec<u8>)> {
    let (environment, end) = parts(words)?;
    let texts: usize = entries.iter().map(|entry| entry.len() + 1).sum();
    let len = texts + (end + entries.len()) * WORD;
    let start = rsp.checked_sub(len)? & !(ALIGNED - 1);
    let mut at = rsp - texts;
    let places = entries.iter().map(|entry| {
        let place = at;
        at += entry.len() + 1;
        place
    });
    let places: Vec<_> = places.collect();
    let all = words[..environment]
        .iter()
        .chain(&places)
        .chain(&words[environment..end]);
    let mut bytes: Vec<u8> = all.flat_map(|word| word.to_ne_bytes()).collect();
    bytes.resize(rsp - texts - start, 0);
    entries.iter().for_each(|entry| {
        bytes.extend(entry);
        bytes.push(0);
    });
    (bytes.len() <= MOST).then_some((start, bytes))
}

#[cfg(test)]
mod test {
    use super::*;

    const RSP: usize = 0x7fff_0000_1230;

    fn word(bytes: &[u8], at: usize) -> usize {
        usize::from_ne_bytes(bytes[at * WORD..][..WORD].try_into().expect("a word"))
    }

    #[test]
    fn what_was_there_stays_in_order() {
        // Two arguments, one entry, one pair and the last.
        let words = [2, 100, 101, 0, 200, 0, 6, 4096, 0, 0];
        let entries = [b"A=1".to_vec(), b"BC=".to_vec()];
        let (start, bytes) = extended(&words, RSP, &entries).expect("room");
        assert_eq!((start % ALIGNED, start + bytes.len()), (0, RSP));
        let found: Vec<_> = (0..12).map(|at| word(&bytes, at)).collect();
        assert_eq!(found[..5], words[..5]);
        assert_eq!(found[7..], words[5..]);
        for (place, entry) in found[5..7].iter().zip([b"A=1\0", b"BC=\0"]) {
            assert_eq!(&bytes[place - start..][..4], entry);
        }
    }

    #[test]
    fn an_empty_environment_takes_entries() {
        let words = [1, 100, 0, 0, 0, 0];
        let (_, bytes) = extended(&words, RSP, &[b"A=".to_vec()]).expect("room");
        assert_eq!([0, 1, 2, 4].map(|at| word(&bytes, at)), [1, 100, 0, 0]);
        assert_ne!(word(&bytes, 3), 0);
    }

    #[test]
    fn who_trusts_no_environment_is_known() {
        assert!(is_secure(&[1, 100, 0, 200, 0, 6, 4096, 23, 1, 0, 0]));
        assert!(!is_secure(&[1, 100, 0, 23, 0, 6, 4096, 23, 0, 0, 0]));
    }

    #[test]
    fn what_has_no_end_or_no_room_is_refused() {
        assert_eq!(parts(&[]), None);
        assert_eq!(parts(&[usize::MAX, 0, 0]), None);
        assert_eq!(parts(&[1, 100, 0, 200, 0, 6, 4096, 0]), None);
        let many = vec![1; MOST / WORD];
        let words = [&[many.len()], &many[..], &[0, 0, 0, 0]].concat();
        assert!(parts(&words).is_some());
        assert_eq!(extended(&words, RSP, &[b"A=".to_vec()]), None);
    }
}
