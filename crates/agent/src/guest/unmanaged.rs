//! What becomes of a process that has the agent and cannot be managed. It ends, with one line that
//! says why and what helps: it would exceed the limit unseen. It runs on, with a line as well:
//! * where `--allow-unmanaged` says so;
//! * where the launcher has put us into it unasked (env -i);
//! * where it has got out of its group's reach: as another user, in another root directory, or
//!   behind a filter of system calls;
//! * where a process that has given up what a pager needs forked it.
//!
//! The launcher's census sees those that run on.

use core::ffi::CStr;
use core::fmt::{Arguments, Display};
use core::sync::atomic::{AtomicBool, Ordering};

use uzswap_ctl::{PROCESSES, Tunable};
use uzswap_sys::{Errno, creds, file, thread};

use crate::pager::blocking;
use crate::pager::mailbox::{CANNOT, NO_TURN, SHARES_MEMORY};
use crate::pager::missing::{Missing, Part};
use crate::pager::words::Line;
use crate::{guard, pager};

/// As the launcher's, when it cannot do what was asked for.
const STATUS: u8 = 125;

/// Said in the environment, for processes that cannot read it in the group's file.
static IS_ALLOWED: AtomicBool = AtomicBool::new(false);

/// The launcher has put us where nobody had asked for us.
static IS_GIVEN: AtomicBool = AtomicBool::new(false);

/// The launcher has put us into this program's environment.
pub(crate) fn note_given() {
    IS_GIVEN.store(true, Ordering::Relaxed);
}

/// The launcher was given `--allow-unmanaged`.
pub(crate) fn allow() {
    IS_ALLOWED.store(true, Ordering::Relaxed);
}

fn is_allowed() -> bool {
    let by_group = || pager::group().is_some_and(|group| group.is_on(Tunable::AllowUnmanaged));
    IS_ALLOWED.load(Ordering::Relaxed) || by_group()
}

/// The file at `path` is not the group's: `error`, or it is there and of another version. In the
/// constructor.
pub(crate) fn lacks_group(path: &CStr, error: Option<Errno>) {
    const UNSET: &str = "unset LD_PRELOAD and UZSWAP_GROUP to run it without a limit";
    let (cause, fix) = match error {
        None => ("the file of its group is of another version of uzswap", UNSET),
        Some(Errno::NOENT | Errno::NOTDIR) => ("its group has ended, or its file is not to be seen here", UNSET),
        Some(Errno::MFILE | Errno::NFILE) => ("no descriptor is left for the file of its group", "raise `ulimit -n`"),
        Some(Errno::NOMEM) => ("the file of its group could not be mapped", "raise `ulimit -v`"),
        Some(Errno::ACCESS | Errno::PERM) => ("the file of its group may not be opened", "give it back to its owner"),
        Some(_) => ("the file of its group could not be opened", UNSET),
    };
    run_on_or_end(Some(path), &cause, error, &fix);
}

/// The pager of this process did not start. In a thread of the program.
pub(crate) fn lacks_pager(path: Option<&CStr>, Missing { part, errno }: Missing) {
    if matches!((part, errno), (Part::Thread, Errno::INVAL)) {
        return say_counts_as_it_is(format_args!(
            "it can have no more threads, as its children are to be in another namespace of processes; have it fork first (unshare --pid \
             --fork)"
        ));
    }
    let fix = match (part, errno) {
        (_, Errno::MFILE | Errno::NFILE) => format_args!("raise `ulimit -n`"),
        (Part::Thread, Errno::AGAIN) => {
            format_args!("raise the limit of threads by ten a process (`ulimit -u`, pids.max of the container)")
        }
        (_, Errno::NOMEM) => format_args!("raise `ulimit -v`, or vm.overcommit_memory forbids large mappings"),
        (Part::ProcessSlot, _) => format_args!("it holds {PROCESSES} processes: put some into another"),
        _ => format_args!("`uzswap doctor`, in the same place, says more"),
    };
    run_on_or_end(path, &part, Some(errno), &fix);
}

/// The pager of this process has retired for a call that wanted one thread, and no other could
/// begin after it.
pub(crate) fn lacks_another_pager(Missing { part, errno }: Missing) {
    pager::say(format_args!(
        "uzswap: process {} is not managed any more and counts as it is: after a call that wants one thread (unshare, setns), or has the kernel reach its memory, it lacks \
             {part}: {}{errno}\n",
        thread::pid(),
        name(errno),
    ));
}

/// A call that wants one thread fails, as what is out exceeds the limit by so many bytes. In a
/// thread of the program.
pub(crate) fn may_not_be_alone(excess: u64) {
    pager::say(format_args!(
        "uzswap: a call that wants one thread (unshare, setns) fails in process {}: for that its memory is brought back, which exceeds \
             the limit by {}K; raise --memory-max\n",
        thread::pid(),
        excess.div_ceil(1024),
    ));
}

/// A filter of system calls for all threads comes, and the pager has ended for it.
pub(crate) fn filters_pager() {
    say_counts_as_it_is(format_args!(
        "it filters the system calls of all its threads, and forbids what a pager does; have it managed by leaving the filter out"
    ));
}

/// Such a filter is refused, as the pager cannot end: `why`, and what helps.
pub(crate) fn may_not_filter(why: Arguments<'_>) {
    pager::say(format_args!(
        "uzswap: process {} may not filter the system calls of all its threads (ENOMEM): its pager would have to end, and {why}\n",
        thread::pid(),
    ));
}

/// A call is refused after which the kernel would reach memory when nobody knows: it `lacks` that
/// much, as in [`Post`](crate::pager::mailbox::Post).
pub(crate) fn may_not_block(lacks: u64) {
    let pid = thread::pid();
    const WHAT: &str =
        "has the kernel reach memory that it may not wait for (io_uring and AIO: ENOSYS, others: EFAULT)";
    match lacks {
        SHARES_MEMORY => pager::say(format_args!(
            "uzswap: process {pid} {WHAT}: it shares its memory with another process\n"
        )),
        NO_TURN => pager::say(format_args!(
            "uzswap: process {pid} {WHAT}: other threads change mappings without end\n"
        )),
        CANNOT => pager::say(format_args!(
            "uzswap: process {pid} {WHAT}: it is recorded, swaps to a remote store, has lost a page, or may open no userfaultfd for that; \
             use --faults thread\n"
        )),
        excess => pager::say(format_args!(
            "uzswap: process {pid} {WHAT}: for that its memory is brought back, which exceeds the limit by {}K; raise --memory-max, or \
             use --faults thread\n",
            excess.div_ceil(1024)
        )),
    }
}

/// libc's wrappers could not be replaced. In the constructor.
pub(crate) fn lacks_hooks(errno: Errno) {
    let (cause, fix) = match errno {
        Errno::INVAL => ("this libc lacks a wrapper of mmap's kind", "run it with glibc"),
        Errno::NOSYS => (
            "a wrapper of a system call in this libc is not that alone",
            "run it with an unchanged glibc",
        ),
        Errno::OPNOTSUPP => (
            "its system calls cannot be seen",
            "it takes Linux 5.11 and --faults inline; without userfaultfd no program can be managed that is built with AddressSanitizer or \
             LeakSanitizer",
        ),
        _ => (
            "the system lets no code of libc be replaced",
            "allow executable mappings of a memfd (SELinux execmem, noexec of memfd)",
        ),
    };
    // Wherever it is, and whoever: what it has loaded is not what it takes.
    run_on_or_end(None, &cause, Some(errno), &fix);
}

/// How a process got out of its group's reach: what a pager needs is not to be had there.
enum Away {
    /// It acts as the one user, and the group is the other's.
    User(u32, u32),
    /// It has another root directory than it began with.
    Root,
    /// Its /proc shows the processes of another namespace than its own.
    Processes,
    /// Nothing can be written where the file of its group is.
    ReadOnly,
    /// A filter of system calls forbids it what its launcher may.
    Filter,
    /// So do rules about files: Landlock, AppArmor.
    Rules,
}

impl Away {
    /// How a process whose group's file is at `path` got away, if it did.
    fn of(path: &CStr, has_begun: bool, error: Option<Errno>) -> Option<Self> {
        let me = thread::effective_user();
        match (error?, file::owner(path)) {
            (Errno::ACCESS | Errno::PERM, Ok(owner)) if owner != me => Some(Self::User(me, owner)),
            // It is a member, so the file is there for those who can see it.
            (Errno::NOENT, Err(Errno::NOENT)) if has_begun => Some(Self::Root),
            (Errno::SRCH, _) => Some(Self::Processes),
            (Errno::ROFS, _) => Some(Self::ReadOnly),
            (Errno::PERM | Errno::NOSYS, _) if guard::exec::is_filtered() => Some(Self::Filter),
            // What is the process's own, and not to be had.
            (Errno::ACCESS, _) if has_begun && !pager::has_new_identity() => Some(Self::Rules),
            _ => None,
        }
    }

    /// Say so, and what helps.
    fn say(&self, path: &CStr, cause: &dyn Display) {
        let directory = directory_of(path);
        match self {
            Self::User(me, owner) => say_counts_as_it_is(format_args!(
                "it runs as user {me}, and its group is user {owner}'s; change the user first and run uzswap as that one (setpriv --reuid \
                 {me} ... uzswap run ...)"
            )),
            Self::Root => say_counts_as_it_is(format_args!(
                "its root directory has no /dev/userfaultfd, no /proc or not the directory of its group; mount them there"
            )),
            Self::Processes => say_counts_as_it_is(format_args!(
                "its /proc is of another namespace of processes than it is; mount one there"
            )),
            Self::ReadOnly => say_counts_as_it_is(format_args!(
                "the directory of its group is read-only where it is; have that writable there (bwrap --bind {directory} {directory})"
            )),
            Self::Filter => say_counts_as_it_is(format_args!(
                "a filter of system calls keeps it from what a pager needs ({cause}); have it managed by leaving the filter out"
            )),
            Self::Rules => say_counts_as_it_is(format_args!(
                "rules about files (Landlock, AppArmor) keep it from what a pager needs ({cause}); have them allow /proc/self and \
                 {directory}"
            )),
        }
    }
}

fn directory_of(path: &CStr) -> &str {
    path.to_str()
        .ok()
        .and_then(|path| path.rsplit_once('/'))
        .map_or("", |(directory, _)| directory)
}

/// Say why this process runs on without a pager.
fn say_counts_as_it_is(why: Arguments<'_>) {
    let pid = thread::pid();
    pager::say(format_args!(
        "uzswap: process {pid} is not managed and counts as it is: {why}\n"
    ));
}

fn run_on_or_end(path: Option<&CStr>, cause: &dyn Display, error: Option<Errno>, fix: &dyn Display) {
    let has_begun = pager::group().is_some();
    if let Some(path) = path
        && let Some(away) = Away::of(path, has_begun, error)
    {
        // Helpers that are sandboxed, of `man` for one: the census names those that are large.
        let is_helper = matches!(away, Away::Filter) && !has_begun;
        if !is_helper {
            away.say(path, cause);
        }
        return;
    }
    let has_given_up = || pager::has_new_identity() || (!guard::is_on() || blocking::is_on()) && !creds::may_trace();
    if matches!(error, Some(Errno::ACCESS | Errno::PERM)) && has_given_up() {
        return say_counts_as_it_is(format_args!(
            "it, or who forked it, has given up what a pager needs (CAP_SYS_PTRACE): {cause}"
        ));
    }
    let error = error.map(|errno| Line::of(format_args!(": {}{errno}", name(errno))));
    let error = error.as_ref().map_or("", Line::as_str);
    if IS_GIVEN.load(Ordering::Relaxed) {
        return say_counts_as_it_is(format_args!("{cause}{error}; {fix}"));
    }
    let pid = thread::pid();
    if is_allowed() {
        return pager::say(format_args!(
            "uzswap: process {pid} runs on unmanaged, which is allowed: {cause}{error}; {fix}\n"
        ));
    }
    pager::say(format_args!(
        "uzswap: process {pid} is ended, since it cannot be managed: {cause}{error}; {fix}, or allow it with --allow-unmanaged\n"
    ));
    thread::end_process(STATUS);
}

/// What is looked up in manuals: there is no table of texts here.
fn name(errno: Errno) -> &'static str {
    match errno {
        Errno::PERM => "EPERM, ",
        Errno::NOENT => "ENOENT, ",
        Errno::AGAIN => "EAGAIN, ",
        Errno::NOMEM => "ENOMEM, ",
        Errno::ACCESS => "EACCES, ",
        Errno::NODEV => "ENODEV, ",
        Errno::INVAL => "EINVAL, ",
        Errno::NFILE => "ENFILE, ",
        Errno::MFILE => "EMFILE, ",
        Errno::NOSPC => "ENOSPC, ",
        Errno::NOSYS => "ENOSYS, ",
        _ => "",
    }
}
