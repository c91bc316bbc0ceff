//! khugepaged kept off this process for a while, and off what is forked meanwhile. Where it makes
//! one page of several it maps zeros for those that are missing, unless a userfaultfd has them.

use core::sync::atomic::{AtomicUsize, Ordering};

use linux_raw_sys::general::__NR_prctl;
use rustix::io::{Errno, Result};

use crate::thread::syscall;

const PR_SET_THP_DISABLE: usize = 41;
const PR_GET_THP_DISABLE: usize = 42;
/// Of what the kernel answers: no huge pages at all, or none but where they are asked for.
const DISABLED: usize = 1;
const EXCEPT_ADVISED: usize = 2;

/// What the program had, and one more. 0: it has that.
static PAUSED: AtomicUsize = AtomicUsize::new(0);

fn prctl(what: usize, value: usize, flags: usize) -> Result<usize> {
    // SAFETY: takes integers; huge pages change no contents.
    unsafe { syscall(__NR_prctl as usize, [what, value, flags, 0, 0, 0]) }
}

/// Keep it off. Nothing is done where the program has none, or Linux cannot tell.
pub fn pause() {
    let had = prctl(PR_GET_THP_DISABLE, 0, 0).unwrap_or(DISABLED);
    if had != DISABLED && prctl(PR_SET_THP_DISABLE, DISABLED, 0) != Err(Errno::INVAL) {
        PAUSED.store(had + 1, Ordering::Relaxed);
    }
}

/// The program has again what it had, in this process.
pub fn resume() {
    if let Some(had) = PAUSED.swap(0, Ordering::Relaxed).checked_sub(1) {
        let _ = prctl(PR_SET_THP_DISABLE, had & DISABLED, had & EXCEPT_ADVISED);
    }
}

#[cfg(all(test, not(miri)))]
mod test {
    use super::*;

    #[test]
    fn a_program_has_again_what_it_had() {
        let has = || prctl(PR_GET_THP_DISABLE, 0, 0);
        assert_eq!(has(), Ok(0));
        pause();
        assert_eq!(has(), Ok(DISABLED));
        resume();
        resume();
        assert_eq!(has(), Ok(0));
    }
}
