//! Descriptors that the program's threads have at the same numbers as the pager's, so that they can
//! serve their own faults: the userfaultfd, the event that wakes the fault thread, and what tells
//! which pages are there.
//!
//! A thread of the program opens them, in the table of the program. The fault thread begins with a
//! copy of that table and keeps those of it. Whoever closes descriptors for the program has to
//! pass over them.

use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};

use linux_raw_sys::general;
use rustix::fd::{BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};
use rustix::io::Errno;
use rustix::process::{DumpableBehavior, dumpable_behavior, set_dumpable_behavior};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::closed;
use crate::file::WakeEvent;
use crate::futex;
use crate::procfs::Pagemap;
use crate::thread::{self, syscall, syscall_of_program};
use crate::uffd::Uffd;

const NONE: i32 = -1;
/// Of the userfaultfd, the event and the pagemap.
static NUMBERS: [AtomicI32; 3] = [const { AtomicI32::new(NONE) }; 3];

/// Whether the userfaultfd was opened with [`FEATURE_WP`](crate::uffd::FEATURE_WP).
static CAN_PROTECT: AtomicBool = AtomicBool::new(false);

/// What is lent.
pub struct Lent {
    /// For the program's memory.
    pub managed: Uffd,
    /// Wakes the fault thread.
    pub wake: WakeEvent,
    /// Of the process.
    pub pagemap: Pagemap,
}

/// They lie below this, where the program seldom has others, and a table of descriptors is small.
const BELOW: u64 = 1024;
/// So far below the limit.
const BEFORE: u64 = 16;

/// Their numbers, the lowest first, if there are any.
pub fn numbers() -> Option<[i32; 3]> {
    let mut numbers = [0, 1, 2].map(|n| NUMBERS[n].load(Ordering::Relaxed));
    numbers.sort_unstable();
    (numbers[0] != NONE).then_some(numbers)
}

/// Whether a descriptor is one of them.
pub fn is_lent(number: usize) -> bool {
    numbers().is_some_and(|numbers| numbers.contains(&(number as i32)))
}

/// The pagemap that is lent.
pub(crate) fn pagemap() -> Option<BorrowedFd<'static>> {
    let number = NUMBERS[2].load(Ordering::Relaxed);
    // SAFETY: open as long as the process has a pager; only read.
    (number != NONE).then(|| unsafe { BorrowedFd::borrow_raw(number) })
}

/// Do something with as many descriptors as the program might have, whatever it allows itself.
/// Other threads, and who they start, may see that meanwhile; a forked child has none yet. Behind a
/// filter of system calls that is not tried.
pub fn with_most_descriptors<T>(body: impl FnOnce() -> T) -> T {
    match thread::is_filtered() {
        true => body(),
        false => with_raised_limit(body),
    }
}

fn with_raised_limit<T>(body: impl FnOnce() -> T) -> T {
    let limit = getrlimit(Resource::Nofile);
    let (current, maximum) = (limit.maximum, limit.maximum);
    let is_lower = limit.current != maximum;
    let is_raised = is_lower && setrlimit(Resource::Nofile, Rlimit { current, maximum }).is_ok();
    let done = body();
    // What another thread has set meanwhile stays. To lower it is forbidden to nobody.
    if is_raised && getrlimit(Resource::Nofile).current == current {
        let _ = setrlimit(Resource::Nofile, limit);
    }
    done
}

/// Open what a pager needs, in a thread of the program: with as many descriptors as it might have,
/// and the process's own files of /proc. `is_filtered`: a filter of the program's may forbid to try
/// that.
pub fn to_open<T>(is_filtered: bool, body: impl FnOnce() -> T) -> T {
    if is_filtered {
        return body();
    }
    let is_shown = show();
    let done = with_raised_limit(body);
    if is_shown {
        hide();
    }
    done
}

/// Threads that have the process's files of /proc shown, where it hides them; or what one of them
/// is about: [`ASKS`] whether it does, or [`CHANGES`] that. The others wait.
static SHOWN: AtomicU32 = AtomicU32::new(0);
const ASKS: u32 = u32::MAX;
const CHANGES: u32 = u32::MAX - 1;
/// How long they sleep at most until they look again. Nanoseconds.
const LOOK_NS: u64 = 1_000_000;

/// Have the files of /proc of this process be its user's, where they are root's as it is not
/// dumpable: by PR_SET_DUMPABLE, or for an executable that its user may not read. Returns whether
/// they were: until as many have called [`hide`]. Others may see that meanwhile. Not behind a
/// filter of system calls that the program has set.
pub fn show() -> bool {
    let shown = take_shown(|shown| if shown == 0 { ASKS } else { shown + 1 });
    if shown > 0 {
        return true;
    }
    let is_hidden = dumpable_behavior().is_ok_and(|now| now != DumpableBehavior::Dumpable);
    // Whoever is forked from here on hides itself.
    let is_done = is_hidden && {
        SHOWN.store(CHANGES, Ordering::SeqCst);
        set_dumpable_behavior(DumpableBehavior::Dumpable).is_ok()
    };
    put_shown(is_done.into());
    is_done
}

/// Undo [`show`].
pub fn hide() {
    if take_shown(|shown| if shown == 1 { CHANGES } else { shown - 1 }) == 1 {
        let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
        put_shown(0);
    }
}

/// In a forked child: it is as hidden as its parent, who may be showing itself.
pub fn hide_in_child() {
    let shown = SHOWN.swap(0, Ordering::SeqCst);
    if shown != 0 && shown != ASKS {
        let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    }
}

/// Change [`SHOWN`] when no other thread is about it. Returns what it was.
fn take_shown(to: impl Fn(u32) -> u32) -> u32 {
    loop {
        let shown = SHOWN.load(Ordering::SeqCst);
        if shown >= CHANGES {
            futex::wait(&SHOWN, shown, Some(LOOK_NS), false);
        } else if SHOWN
            .compare_exchange(shown, to(shown), Ordering::SeqCst, Ordering::Relaxed)
            .is_ok()
        {
            return shown;
        }
    }
}

fn put_shown(shown: u32) {
    SHOWN.store(shown, Ordering::SeqCst);
    futex::wake_all(&SHOWN, false);
}

/// The lowest number that they get.
fn first() -> i32 {
    let limit = getrlimit(Resource::Nofile).current;
    limit.unwrap_or(BELOW).min(BELOW).saturating_sub(BEFORE) as i32
}

/// Have the program's table of descriptors be as large as they will take it, while the process has
/// one thread. With several the kernel waits for all processors before a larger one is used, ten
/// milliseconds perhaps. Whatever fails, that is all that is lost.
pub fn widen() {
    if !thread::is_filtered()
        && let Ok(event) = WakeEvent::new()
    {
        let _ = rustix::io::fcntl_dupfd_cloexec(&event, first());
    }
}

/// Lend the program's threads these. In one of them.
///
/// # Errors
/// EMFILE.
pub fn lend(lent: Lent) -> Result<(), Errno> {
    let first = first();
    let place = |fd: OwnedFd| rustix::io::fcntl_dupfd_cloexec(&fd, first).or(Ok(fd));
    CAN_PROTECT.store(lent.managed.can_protect(), Ordering::Relaxed);
    let [managed, wake, pagemap] = [lent.managed.into_fd(), lent.wake.into_fd(), lent.pagemap.0];
    let numbers = [place(managed)?, place(wake)?, place(pagemap)?].map(IntoRawFd::into_raw_fd);
    for (number, lent) in NUMBERS.iter().zip(numbers) {
        number.store(lent, Ordering::Relaxed);
    }
    Ok(())
}

/// What was lent is closed, where nobody uses it: in a forked child, or as the pager begins or has
/// ended. In a thread of the program.
pub fn close() {
    for number in &NUMBERS {
        let lent = number.swap(NONE, Ordering::Relaxed);
        if lent != NONE {
            // SAFETY: a copy of the parent's that nobody uses here.
            let _ = unsafe { syscall(general::__NR_close as usize, [lent as usize, 0, 0, 0, 0, 0]) };
        }
    }
}

/// The pager has ended, and threads of the program may still ring for it. The userfaultfd is
/// closed, and its number stays ours. What it has missed to let go the kernel lets go.
pub fn give_managed_up() {
    let [managed, wake, _] = NUMBERS.each_ref().map(|number| number.load(Ordering::Relaxed) as usize);
    if managed as i32 != NONE {
        let flags = general::O_CLOEXEC as usize;
        // SAFETY: of descriptors that are lent, of which nobody uses the first any more.
        let _ = unsafe { syscall(general::__NR_dup3 as usize, [wake, managed, flags, 0, 0, 0]) };
    }
}

/// In the fault thread: its copies of them.
pub fn borrow() -> Option<Lent> {
    numbers()?;
    let own = |number: &AtomicI32| {
        // SAFETY: in the fault thread's own table, which begins as a copy of the program's: nobody
        // else owns them there.
        unsafe { OwnedFd::from_raw_fd(number.load(Ordering::Relaxed)) }
    };
    let [managed, wake, pagemap] = NUMBERS.each_ref().map(own);
    Some(Lent {
        managed: match closed::is_on() {
            true => Uffd::closing(managed),
            false => Uffd::opened(managed, CAN_PROTECT.load(Ordering::Relaxed)),
        },
        wake: WakeEvent::from_fd(wake),
        pagemap: Pagemap(pagemap),
    })
}

/// Close every descriptor of this thread's table but those that are lent. Only for a thread with a
/// private table, before it opens its own.
pub fn close_all_others() {
    match numbers() {
        None => thread::close_all_descriptors(),
        // Linux 6.8 at least, which has this.
        Some(_) => drop(close_range(0, u32::MAX as usize, 0)),
    }
}

/// close_range(2), but for what is lent. The descriptors are the caller's to close.
///
/// # Errors
/// What the system answers.
pub fn close_range(first: usize, last: usize, flags: usize) -> Result<usize, Errno> {
    let (first, last) = (first as u32 as usize, last as u32 as usize);
    let close = |first: usize, last: usize| {
        // SAFETY: takes integers; whose descriptors they are is the caller's to know.
        unsafe { syscall_of_program(general::__NR_close_range as usize, [first, last, flags, 0, 0, 0]) }
    };
    let (mut first, mut closed) = (first, Ok(0));
    for lent in numbers().into_iter().flatten().map(|lent| lent as usize) {
        if (first..=last).contains(&lent) {
            if first < lent {
                closed = closed.and(close(first, lent - 1));
            }
            first = lent + 1;
        }
    }
    match first <= last {
        true => closed.and(close(first, last)),
        // What is wrong with it the kernel says.
        false if closed == Ok(0) && numbers().is_none_or(|[lent, ..]| first as i32 <= lent) => close(first, last),
        false => closed,
    }
}
