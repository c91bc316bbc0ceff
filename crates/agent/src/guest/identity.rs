//! The program changes who it is, or ends: libc's functions for that, diverted, in the program's
//! threads.
//!
//! What the program gives up the pager's threads give up as well (`uzswap_sys::creds`), before the
//! call returns: the program may forbid such calls next. Calls that do not come through libc are
//! seen by kswapd within a tick. A pager begins before libc gives root up, as none could after it:
//! a daemon with a user of its own is small until then.

use core::ffi::{CStr, c_int, c_void};
use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use uzswap_sys::libc::Function;
use uzswap_sys::text::{self, Moved};
use uzswap_sys::{Errno, thread};

use super::hook;
use crate::fault::inline;
use crate::pager::early;
use crate::pager::mailbox::mail;
use crate::pager::missing::Missing;
use crate::{guard, pager};

const SYS_CAPSET: usize = 126;
const PR_SET_SECCOMP: c_int = 22;
const PR_SET_NO_NEW_PRIVS: c_int = 38;

/// The program has asked for what goes before a filter of its system calls, or is one.
static MAY_BE_FILTERED: AtomicBool = AtomicBool::new(false);

/// Before the program's prctl(2), where its calls are not seen.
pub(super) fn note_prctl(option: c_int) {
    if matches!(option, PR_SET_SECCOMP | PR_SET_NO_NEW_PRIVS) {
        MAY_BE_FILTERED.store(true, Ordering::Relaxed);
    }
}

/// Whether a filter of the program's may decide which calls there are.
pub(crate) fn may_be_filtered() -> bool {
    inline::is_filtered() || MAY_BE_FILTERED.load(Ordering::Relaxed)
}

const ROOT: u32 = 0;

/// Before it becomes one of `users`; -1: it stays who it is.
fn before_user(users: &[usize]) {
    if users.iter().any(|user| !matches!(*user as u32, ROOT | u32::MAX)) {
        begin_early();
    }
}

/// Before it gives up what root may.
fn begin_early() {
    if thread::effective_user() == ROOT {
        early::activate(|_| Missing::named("its pager, as it gave up root", Errno::PERM));
    }
}

type Call = unsafe extern "C" fn(usize, usize, usize) -> c_int;

fn have_pager_take_on() {
    if let Some(pager) = pager::active() {
        pager.ask(mail::CREDENTIALS);
    }
}

/// Functions that take integers, three at most, and how many of those are users.
macro_rules! diverted {
    ($($name:ident $original:ident $users:literal,)*) => {
        $(
            static $original: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());

            extern "C" fn $name(first: usize, second: usize, third: usize) -> c_int {
                before_user(&[first, second, third][..$users]);
                // SAFETY: the original's entry, stored before anything can come here, called with
                // what was passed to it.
                let result = unsafe {
                    let original: Call = core::mem::transmute($original.load(Ordering::Acquire));
                    original(first, second, third)
                };
                if result == 0 {
                    have_pager_take_on();
                }
                result
            }
        )*

        const DIVERTED: &[(&CStr, Call, &AtomicPtr<c_void>)] = &[$((
            // SAFETY: ends with the only null byte.
            unsafe { CStr::from_bytes_with_nul_unchecked(concat!(stringify!($name), "\0").as_bytes()) },
            $name,
            &$original,
        ),)*];
    };
}

diverted! {
    setuid SETUID 1,
    setgid SETGID 0,
    seteuid SETEUID 1,
    setegid SETEGID 0,
    setreuid SETREUID 2,
    setregid SETREGID 0,
    setresuid SETRESUID 3,
    setresgid SETRESGID 0,
    setgroups SETGROUPS 0,
}

extern "C" fn capset(header: usize, data: usize) -> c_int {
    begin_early();
    // SAFETY: exactly the call that the program makes.
    match unsafe { guard::make(SYS_CAPSET, [header, data, 0, 0, 0, 0]) } {
        Ok(_) => {
            have_pager_take_on();
            0
        }
        Err(errno) => hook::fail(errno),
    }
}

/// `_exit`, which `exit` and the end of the last thread that libc knows come to as well.
///
/// Under a filter of the program's this is the only call that is made: any other may end it with
/// another status. Who goes on in its memory then finds what is out poisoned.
extern "C" fn exit(status: c_int) -> ! {
    if !may_be_filtered()
        && let Some(pager) = pager::active()
    {
        pager.leave();
    }
    thread::end_process(status as u8)
}

/// Divert them. Without one of them its calls are seen later, and what outlives this process in its
/// memory may be stopped.
///
/// # Safety
/// `find` finds functions of libc, which nobody runs now.
pub(crate) unsafe fn divert(find: impl Fn(&CStr) -> Result<Function, Errno>) {
    if let Ok(mut moved) = Moved::new() {
        for (name, _, original) in DIVERTED {
            // SAFETY: the caller's promise.
            let entry = find(name).ok().and_then(|function| unsafe { moved.add(&function) });
            original.store(entry.unwrap_or(core::ptr::null_mut()), Ordering::Release);
        }
        if moved.seal().is_ok() {
            let known = DIVERTED
                .iter()
                .filter(|(.., original)| !original.load(Ordering::Acquire).is_null());
            for (name, replacement, _) in known {
                // SAFETY: see above; the replacement calls the original.
                let _ = find(name)
                    .and_then(|function| unsafe { text::replace_any(&function, *replacement as *const c_void) });
            }
        }
    }
    // SAFETY: see above; the replacement makes the same call.
    let _ = find(c"capset")
        .and_then(|function| unsafe { text::replace(&function, SYS_CAPSET as u8, capset as *const c_void) });
    // SAFETY: see above; the replacement ends the process as well.
    let _ = find(c"_exit").and_then(|function| unsafe { text::replace_any(&function, exit as *const c_void) });
}
