//! Group files that somebody makes shorter while this process has them mapped: whoever reads what
//! is gone gets SIGBUS. Nothing can forbid it, a file that has a name can be truncated by its
//! owner. A launcher ends its program then, whose limit nobody knows any more, and says so; other
//! commands read zeros, which is no group.

use alloc::boxed::Box;
use alloc::ffi::CString;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, AtomicU64, Ordering};

use linux_raw_sys::general as raw;
use rustix::fd::BorrowedFd;
use rustix::fs;
use rustix::io::Result;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};

use crate::launch::SIGKILL;
use crate::signal::{self, Context, DEFAULT, SIGBUS, SignalInfo};
use crate::thread::{self, syscall};
use crate::{futex, wait};

/// What is done where words are gone.
pub enum Loss {
    /// They are zeros from then on.
    Zeros,
    /// This process ends.
    Ends(Ending),
}

/// How this process ends.
pub struct Ending {
    /// What is said on standard error.
    pub line: Vec<u8>,
    /// What is removed before.
    pub files: Vec<CString>,
    /// The exit status.
    pub status: u8,
}

/// Words that are watched. Never freed: the handler may be at them at any moment.
struct Watched {
    words: &'static [AtomicU64],
    loss: Loss,
    next: *const Watched,
}

impl Watched {
    fn holds(&self, address: usize) -> bool {
        self.words
            .as_ptr_range()
            .contains(&core::ptr::with_exposed_provenance(address))
    }
}

/// The words that were watched last.
static WATCHED: AtomicPtr<Watched> = AtomicPtr::new(core::ptr::null_mut());
/// The process that ends with this one; 0: none; `ENDS`: a thread is ending both.
static PROGRAM: AtomicI32 = AtomicI32::new(0);
const ENDS: i32 = -1;

/// From now on this is done where a part of `words`, a mapped file, is cut off. Words are watched
/// once.
pub fn watch(words: &'static [AtomicU64], loss: Loss) {
    let watched = Box::leak(Box::new(Watched {
        words,
        loss,
        next: core::ptr::null(),
    }));
    let mut newest = WATCHED.load(Ordering::Relaxed);
    loop {
        watched.next = newest;
        // Release: the handler of any thread finds it complete.
        match WATCHED.compare_exchange_weak(newest, watched, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => break,
            Err(now) => newest = now,
        }
    }
    // Where that is refused, SIGBUS ends this process without a line.
    let _ = signal::handle(SIGBUS, on_signal, 0, 0);
}

/// The program that is killed where this process ends so: not for longer than it is a child of this
/// one, whose number nobody else has. `None`: no longer. Does not return where another thread is
/// ending this process: it has killed the program, and its status counts, not that of the program.
pub fn name_program(pid: Option<i32>) {
    take_program(pid.unwrap_or(0));
}

fn take_program(next: i32) -> i32 {
    let program = PROGRAM.swap(next, Ordering::Relaxed);
    if program == ENDS {
        loop {
            futex::wait(&AtomicU32::new(0), 0, None, false);
        }
    }
    program
}

fn find(address: usize) -> Option<&'static Watched> {
    let mut next = WATCHED.load(Ordering::Acquire).cast_const();
    loop {
        // SAFETY: null, or leaked by `watch` before it was published.
        let watched = unsafe { next.as_ref() }?;
        if watched.holds(address) {
            return Some(watched);
        }
        next = watched.next;
    }
}

/// Called in any thread, wherever it is: it calls the kernel alone.
extern "C" fn on_signal(signal: i32, info: &SignalInfo, _interrupted: &mut Context) {
    // Sent by another process it has no address.
    let watched = (info.code() > 0).then(|| find(info.address())).flatten();
    match watched.map(|watched| (&watched.loss, watched.words)) {
        Some((Loss::Ends(ending), _)) => end(ending),
        Some((Loss::Zeros, words)) if put_zeros(words).is_ok() => {}
        // As if nobody handled it: it waits until this returns.
        _ => {
            let default = signal::Action {
                handler: DEFAULT,
                ..signal::Action::default()
            };
            // SAFETY: no handler.
            let _ = unsafe { signal::action(signal, Some(&default)) };
            signal::raise(signal);
        }
    }
}

/// Of two threads that are here at a time, the second takes away what was written since the first:
/// into words that are no group's any more.
fn put_zeros(words: &'static [AtomicU64]) -> Result<()> {
    let (prot, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::FIXED);
    let start = words.as_ptr().cast_mut().cast();
    // SAFETY: in place of a mapping of this length that nobody unmaps; the words are atomics, and
    // any contents are.
    unsafe { mmap_anonymous(start, size_of_val(words), prot, flags).map(drop) }
}

fn end(ending: &Ending) -> ! {
    let program = take_program(ENDS);
    if program != 0 {
        thread::signal(program, SIGKILL);
        // Whoever finds this process ended finds the program ended. Left as it is: another thread
        // may be waiting for it, and comes to `name_program` then.
        let _ = wait::wait(Some(program), wait::EXITED | wait::LEAVE);
    }
    for file in &ending.files {
        let _ = fs::unlink(file.as_c_str());
    }
    // Last: it waits where nobody reads.
    // SAFETY: where standard error is closed, this fails.
    let _ = rustix::io::write(unsafe { BorrowedFd::borrow_raw(2) }, &ending.line);
    loop {
        // SAFETY: takes an integer, and does not return.
        let _ = unsafe { syscall(raw::__NR_exit_group as usize, [ending.status as usize, 0, 0, 0, 0, 0]) };
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::shared::SharedWords;

    #[test]
    fn words_that_were_cut_off_are_zeros() {
        let path = alloc::format!("/tmp/uzswap-cut-short-{}", thread::pid());
        let path = CString::new(path).unwrap();
        let words = SharedWords::create(&path, 1024).unwrap().words();
        watch(words, Loss::Zeros);
        words[1023].store(7, Ordering::Relaxed);
        let file = fs::open(path.as_c_str(), fs::OFlags::RDWR, fs::Mode::empty()).unwrap();
        fs::ftruncate(&file, 0).unwrap();
        assert_eq!(words[1023].load(Ordering::Relaxed), 0);
        words[0].store(1, Ordering::Relaxed);
        assert_eq!(words[0].load(Ordering::Relaxed), 1);
        fs::unlink(path.as_c_str()).unwrap();
    }
}
