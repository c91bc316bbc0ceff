//! Words that all threads of a process read and write, and that live as long as it.

use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64};

use rustix::io::Result;
use rustix::mm::{self, Advice};

use crate::mapping::Mapping;

/// `len` bytes of zeroed words that live as long as the process.
///
/// # Errors
/// What `mmap` answers.
pub fn words(len: usize) -> Result<&'static [AtomicU64]> {
    let mapping = Mapping::reserve_beside_data(len)?.without_huge_pages().leak();
    let first = core::ptr::with_exposed_provenance(mapping.addr());
    // SAFETY: aligned to a page, readable and writable, zeroed, never unmapped (leaked), and from
    // now on only used as these atomics.
    Ok(unsafe { core::slice::from_raw_parts(first, len / size_of::<AtomicU64>()) })
}

/// As [`words`], of bytes.
///
/// # Errors
/// As for [`words`].
pub fn bytes(len: usize) -> Result<&'static [AtomicU8]> {
    let mapping = Mapping::reserve_beside_data(len)?.without_huge_pages().leak();
    let first = core::ptr::with_exposed_provenance(mapping.addr());
    // SAFETY: readable and writable, zeroed, never unmapped (leaked), and from now on only used as
    // these atomics.
    Ok(unsafe { core::slice::from_raw_parts(first, len) })
}

/// As [`words`], of half their size.
///
/// # Errors
/// As for [`words`].
pub fn halves(len: usize) -> Result<&'static [AtomicU32]> {
    let first = bytes(len)?.as_ptr().cast();
    // SAFETY: as for `bytes`, whose mapping is aligned to a page, and which nobody else has.
    Ok(unsafe { core::slice::from_raw_parts(first, len / size_of::<AtomicU32>()) })
}

/// As [`words`], but zeros again in every child that gets a copy, however it is forked.
///
/// # Errors
/// What `mmap` and `madvise` answer.
pub fn words_wiped_on_fork(len: usize) -> Result<&'static [AtomicU64]> {
    let words = words(len)?;
    // SAFETY: a leaked mapping of our own; changes nothing in this process.
    unsafe { mm::madvise(words.as_ptr().cast_mut().cast(), len, Advice::LinuxWipeOnFork)? };
    Ok(words)
}

/// Keep the pages of words from [`words`] or [`words_wiped_on_fork`] where they are, for a device
/// that reads and writes them.
///
/// # Errors
/// What `mlock` answers: ENOMEM or EPERM, where RLIMIT_MEMLOCK is too low.
pub fn lock(words: &'static [AtomicU64]) -> Result<()> {
    // SAFETY: a leaked mapping of our own; changes none of its contents.
    unsafe { mm::mlock(words.as_ptr().cast_mut().cast(), size_of_val(words)) }
}

/// Give the pages of words from [`words`] back to the system: they are zeros from now on.
pub fn discard_words(words: &'static [AtomicU64]) {
    let (addr, len) = (words.as_ptr() as usize, size_of_val(words));
    assert!(
        addr.is_multiple_of(crate::PAGE_SIZE) && len.is_multiple_of(crate::PAGE_SIZE),
        "whole pages"
    );
    // SAFETY: the pages of a leaked anonymous mapping, used as atomics only: that they become zeros
    // is to every reader as if another thread had stored zeros. An error leaves them as they are,
    // which are zeros for whoever calls this.
    let _ = unsafe { mm::madvise(words.as_ptr().cast_mut().cast(), len, Advice::LinuxDontNeed) };
}

#[cfg(test)]
mod test {
    use core::sync::atomic::Ordering;

    use super::*;
    use crate::PAGE_SIZE as PAGE;

    #[test]
    fn words_are_zeros_that_threads_may_write() {
        let words = words(PAGE).unwrap();
        assert_eq!(words.len(), PAGE / 8);
        words[511].fetch_add(5, Ordering::Relaxed);
        assert_eq!(
            (words[0].load(Ordering::Relaxed), words[511].load(Ordering::Relaxed)),
            (0, 5)
        );
    }
}
