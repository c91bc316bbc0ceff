//! A word in shared memory in which the kernel says that a thread has ended: the owner bit of a
//! robust futex (`man set_robust_list`).
//!
//! The bit is set when the thread lets go of the process's memory, whether it ends, or the process
//! does, or replaces its image; so before anything is freed, but by the OOM killer. A lease
//! ([`crate::shared`]) ends when the last of the pager's threads is gone: after all is freed, which
//! takes a large process a good while, if it was one of them that let go last.

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use linux_raw_sys::general as raw;
use rustix::io::{Errno, Result};

use crate::thread::{self, is_filtered, syscall};

/// Set by the kernel in the low half of the word, which holds the thread's id until then.
const OWNER_DIED: u64 = raw::FUTEX_OWNER_DIED as u64;

/// `struct robust_list_head`, and behind it the only entry of the list: its pointer to the next,
/// which is the head.
static LIST: [AtomicUsize; 4] = [const { AtomicUsize::new(0) }; 4];
const NEXT: usize = 0;
const OFFSET: usize = 1;
const ENTRY: usize = 3;

/// Have the kernel say in `word` that the calling thread has ended; one thread of a process at a
/// time, a forked child anew.
///
/// # Errors
/// What `set_robust_list` answers; EPERM where a filter of the program decides which system calls
/// there are. The word never says so then.
pub fn confess_end(word: &'static AtomicU64) -> Result<()> {
    if is_filtered() {
        return Err(Errno::PERM);
    }
    word.store(thread::tid() as u64, Ordering::Relaxed);
    let (head, entry) = (LIST.as_ptr() as usize, &raw const LIST[ENTRY] as usize);
    LIST[NEXT].store(entry, Ordering::Relaxed);
    LIST[ENTRY].store(head, Ordering::Relaxed);
    LIST[OFFSET].store((word.as_ptr() as usize).wrapping_sub(entry), Ordering::Relaxed);
    let length = size_of::<raw::robust_list_head>();
    // SAFETY: the list is static and well formed: one entry, whose word lives as long as the
    // process and belongs to this thread. Threads made here are unknown to libc, so it has no list
    // of its own for this one.
    unsafe { syscall(raw::__NR_set_robust_list as usize, [head, length, 0, 0, 0, 0]) }.map(drop)
}

/// Whether `word` says that its thread has ended.
pub fn has_ended(word: u64) -> bool {
    word & OWNER_DIED != 0
}

/// First byte and end of what the kernel reads first as the calling thread ends, whose libc is
/// glibc, with the word in front of it, which that one writes to.
pub fn list_head() -> (usize, usize) {
    /// It is that near to the beginning of what libc knows of the thread.
    const NEAR: usize = 1024;
    match head_of(0) {
        Ok(head) if head != 0 => (head - size_of::<usize>(), head + size_of::<raw::robust_list_head>()),
        // It has none yet, or we may not ask.
        _ => (thread::pointer(), thread::pointer() + NEAR),
    }
}

/// Where the list of thread `id` begins (0: of the calling one), or 0.
fn head_of(id: i32) -> Result<usize> {
    if is_filtered() {
        return Err(Errno::PERM);
    }
    let (mut head, mut length) = (0usize, 0usize);
    let args = [id as usize, &raw mut head as usize, &raw mut length as usize, 0, 0, 0];
    // SAFETY: the kernel writes the two words, and nothing else.
    unsafe { syscall(raw::__NR_get_robust_list as usize, args) }.map(|_| head)
}

#[cfg(test)]
mod test {
    extern crate std;

    use super::*;

    static WORD: AtomicU64 = AtomicU64::new(0);

    #[test]
    fn a_thread_that_ends_is_known_to_have() {
        let confesses = std::thread::spawn(|| {
            let confesses = confess_end(&WORD);
            assert!(!has_ended(WORD.load(Ordering::Relaxed)));
            confesses
        })
        .join()
        .unwrap();
        // Not under a filter of system calls, as most containers have one.
        assert_eq!(has_ended(WORD.load(Ordering::Relaxed)), confesses.is_ok());
        assert!(!has_ended(0));
    }

    #[test]
    fn the_list_begins_in_what_libc_knows_of_the_thread() {
        let (start, end) = list_head();
        let known = thread::pointer()..thread::pointer() + 1024;
        assert!(known.contains(&start) && end <= known.end);
    }
}
