//! Mutexes whose words the kernel writes to: robust ones, whose owner's death it tells whoever
//! waits, and those that inherit priority, at which threads wait in the kernel.
//!
//! It cannot wait for us where a page is not there, or is protected. As a thread ends it goes
//! through the list of what that has locked, and gives up for good at such a page. A call that
//! waits for a mutex, or hands it on, fails (EFAULT), at which glibc ends the program. So a page in
//! which such a mutex lies stays, locked or not. A thread that has found it locked may lose its
//! core before it calls the kernel, and any other may unlock it meanwhile.
//!
//! # Why no such page is away
//! 1. `pthread_mutex_init`, which is the only way to such a mutex, is replaced by [`init`].
//! 2. Whoever makes a mutex notes its pages once it is there, waits for all who were taking pages
//!    out before ([`Taking`]), and writes it again, which brings back what they took
//!    ([`write_and_keep`]).
//! 3. Whoever takes pages out asks for each ([`first_needed`]), and says before that it does. So it
//!    sees the note, or whoever makes the mutex sees it.
//! 4. A note ends when no such mutex is in its page any more. It counts how often it was made, so
//!    that one that is made anew at that moment does not end.
//!
//! Programs that have none pay nothing. docs/limits.md has what this does not see.

use core::ffi::{c_int, c_uint, c_void};
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use uzswap_mm::page::{PAGE_SIZE, Vpn};
use uzswap_sys::cell::Leaked;
use uzswap_sys::proc_mem::ProcMem;
use uzswap_sys::words::words_wiped_on_fork;
use uzswap_sys::{Errno, mutex};

use crate::pager;
use crate::pager::mailbox::mail;

/// There is a note.
static IS_ANY: AtomicBool = AtomicBool::new(false);

/// Whether the program has had such a mutex.
pub(crate) fn is_any() -> bool {
    IS_ANY.load(Ordering::SeqCst)
}

/// A place was lacking for a note: each page is looked at before it leaves.
static IS_FULL: AtomicBool = AtomicBool::new(false);

/// Where a note is, and what it says.
type Note = (&'static AtomicU64, u64);

/// The number of a page, how often it was noted, and the two flags. 0: none yet. The number of a
/// page stays; whoever looks for it stops at the first that is none.
static NOTES: [AtomicU64; NOTES_MAX] = [const { AtomicU64::new(0) }; NOTES_MAX];
/// Pages of 256 MiB. A page whose memory was unmapped keeps its place.
const NOTES_MAX: usize = 1 << 16;
/// Notes looked at for a page.
const REACH: usize = 1 << 10;

/// A mutex is in that page.
const LIVE: u64 = 1;
/// It is there, and nobody is taking it out any more who has not seen that.
const SETTLED: u64 = 2;
const ONCE: u64 = 4;
/// Addresses have 57 bits at most.
const PAGE_SHIFT: u32 = 19;

/// Notes where one of the page may be, in order.
fn places(page: Vpn) -> impl Iterator<Item = &'static AtomicU64> {
    /// The golden ratio, in 64 bits.
    const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
    let first = (page.number().wrapping_mul(SPREAD) >> (u64::BITS - NOTES_MAX.ilog2())) as usize;
    (0..REACH).map(move |i| &NOTES[(first + i) % NOTES_MAX])
}

fn is_of(note: u64, page: Vpn) -> bool {
    note >> PAGE_SHIFT == page.number()
}

/// The note of the page, and what it says. `None`: there is none.
fn find(page: Vpn) -> Option<Note> {
    places(page)
        .map(|place| (place, place.load(Ordering::SeqCst)))
        .take_while(|(_, note)| *note != 0)
        .find(|(_, note)| is_of(*note, page))
}

/// What was noted, and whether all who take pages out know it. `None`: no place is left.
fn note(page: Vpn) -> Option<Note> {
    for place in places(page) {
        let mut known = place.load(Ordering::SeqCst);
        while known == 0 || is_of(known, page) {
            // The flags as they are, but live; the count begins anew at the end.
            let counted = (known + ONCE) % (1 << PAGE_SHIFT);
            let noted = page.number() << PAGE_SHIFT | counted | LIVE;
            match place.compare_exchange(known, noted, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => return Some((place, noted)),
                Err(changed) => known = changed,
            }
        }
    }
    None
}

/// The first of the `pages` pages from `vpn` on that has to stay. `memory`: where the program's is
/// read, if it can be. Asked between the beginning and the end of a [`Taking`].
pub(crate) fn first_needed(memory: Option<&ProcMem>, vpn: Vpn, pages: u32) -> Option<u32> {
    if !is_any() {
        return None;
    }
    (0..pages).find(|i| is_needed(memory, vpn.add(u64::from(*i))))
}

fn is_needed(memory: Option<&ProcMem>, page: Vpn) -> bool {
    let noted = find(page).filter(|(_, note)| note & LIVE != 0);
    if noted.is_none() && !IS_FULL.load(Ordering::SeqCst) {
        return false;
    }
    if memory.is_none_or(|memory| has_mutex(memory, page)) {
        return true;
    }
    // Refused if it was noted again since: before that the mutex was written.
    noted.is_some_and(|(place, note)| {
        place
            .compare_exchange(note, note & !(LIVE | SETTLED), Ordering::SeqCst, Ordering::SeqCst)
            .is_err()
    })
}

/// Bytes read at a time, over the stack.
const PIECE: usize = PAGE_SIZE / 4;

/// Whether such a mutex lies in the page, or on its border.
fn has_mutex(memory: &ProcMem, page: Vpn) -> bool {
    let mut bytes = [0; PIECE + 2 * mutex::BYTES];
    let may_begin = |bytes: &mut [u8], start: usize, limit: usize| {
        // One that begins in the last bytes has its kind behind them.
        let len = (limit + mutex::BYTES - start).min(bytes.len());
        let read = memory.read(start, &mut bytes[..len]);
        mutex::may_begin(&bytes[..read], 0..limit - start)
    };
    let (start, end) = (page.addr(), page.addr() + PAGE_SIZE);
    may_begin(&mut bytes, start + mutex::ALIGN - mutex::BYTES, start)
        || (start..end)
            .step_by(PIECE)
            .any(|at| may_begin(&mut bytes, at, at + PIECE))
}

/// Threads that take pages out, each at one of these: odd while it does. A child begins with zeros,
/// as it has none of these threads.
static TAKING: Leaked<&[AtomicU64]> = Leaked::new();
/// More than threads of ours ever do at once.
const TAKING_MAX: usize = PAGE_SIZE / size_of::<u64>();

/// Before there is a pager.
///
/// # Errors
/// What `mmap` and `madvise` answer.
pub(crate) fn prepare() -> Result<(), Errno> {
    TAKING.set(words_wiped_on_fork(TAKING_MAX * size_of::<u64>())?);
    Ok(())
}

fn taking() -> &'static [AtomicU64] {
    TAKING.get().copied().unwrap_or(&[])
}

/// Held from before it is asked which pages have to stay until the others are gone, or protected.
pub(crate) struct Taking(Option<&'static AtomicU64>);

impl Taking {
    pub(crate) fn begin() -> Self {
        loop {
            let places = taking();
            for place in places {
                let turn = place.load(Ordering::Relaxed);
                let begun = || place.compare_exchange(turn, turn + 1, Ordering::SeqCst, Ordering::Relaxed);
                if turn.is_multiple_of(2) && begun().is_ok() {
                    return Self(Some(place));
                }
            }
            if places.is_empty() {
                return Self(None);
            }
            core::hint::spin_loop();
        }
    }
}

impl Drop for Taking {
    fn drop(&mut self) {
        if let Some(place) = self.0 {
            place.fetch_add(1, Ordering::SeqCst);
        }
    }
}

/// Looks at whoever takes pages out before the program goes on, after half a minute: its process
/// was killed, and this one lives on in its memory.
const PAUSES: u32 = 300_000;
const PAUSE_NS: u64 = 50_000;

/// Wait for all that have begun to take pages out.
fn drain() {
    for place in taking() {
        let begun = place.load(Ordering::SeqCst);
        let is_taking = || begun % 2 == 1 && place.load(Ordering::SeqCst) == begun;
        (0..PAUSES)
            .take_while(|_| is_taking())
            .for_each(|_| pager::pause(PAUSE_NS));
    }
}

/// Times that a mutex is written. Two do, unless its pages are taken out in between.
const WRITES: u32 = 100;
/// As many where there is no place for a note: the first brings back one page, and the second what
/// was taken out since it was not seen that a mutex lies on the border.
const WRITES_UNNOTED: u32 = 3;

/// Write the mutex at `at`, and have its pages stay. Nobody else knows it yet.
fn write_and_keep(at: *mut mutex::New, new: mutex::New) {
    let addr = at.expose_provenance();
    let pages = [addr, addr + mutex::BYTES - 1].map(Vpn::of_addr);
    for writes in 0..WRITES {
        write(at, new);
        let notes = pages.map(note);
        if notes.iter().any(Option::is_none) {
            IS_FULL.store(true, Ordering::SeqCst);
        }
        note_first();
        let is_settled = |note: &Option<Note>| match note {
            Some((_, note)) => note & SETTLED != 0,
            None => writes >= WRITES_UNNOTED,
        };
        if notes.iter().all(is_settled) {
            return;
        }
        drain();
        write(at, new);
        // Not before it is back: whoever makes another one in this page waits as well until then.
        // Refused where the page was noted again since, or the note ended, as half of the mutex was
        // away.
        for (place, note) in notes.into_iter().flatten() {
            let _ = place.compare_exchange(note, note | SETTLED, Ordering::SeqCst, Ordering::SeqCst);
        }
    }
}

/// From now on whoever takes pages out asks.
fn note_first() {
    if !IS_ANY.swap(true, Ordering::SeqCst)
        && let Some(pager) = pager::inherited()
    {
        // The gate has to be opened.
        pager.post.mail.post(mail::RECLAIM);
    }
}

/// `pthread_mutex_init`.
pub(crate) extern "C" fn init(at: *mut mutex::New, attributes: *const c_uint) -> c_int {
    // SAFETY: the program's attributes, as it would pass them to libc.
    let attributes = unsafe { attributes.as_ref() }.copied().unwrap_or(0);
    let new = match mutex::new(attributes) {
        Ok(new) => new,
        Err(errno) => return errno.raw_os_error(),
    };
    match mutex::is_of_kernel(attributes) {
        true => write_and_keep(at, new),
        false => write(at, new),
    }
    0
}

/// libc would not mind.
#[repr(C, packed)]
struct Unaligned(mutex::New);

fn write(at: *mut mutex::New, new: mutex::New) {
    // SAFETY: the program's mutex, as it would pass it to libc. Written even if it holds the same.
    unsafe { ptr::write_volatile(at.cast(), Unaligned(new)) }
}

/// What a function of the name `pthread_mutex_init` is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Init {
    /// It makes mutexes as [`init`] does.
    Same,
    /// It makes none: it goes on to a library that is not there (glibc before 2.34).
    Forwards,
    Other,
}

impl Init {
    /// Find out.
    ///
    /// # Safety
    /// `function` is libc's, and has that type.
    pub(crate) unsafe fn of(function: *const c_void) -> Self {
        type Function = unsafe extern "C" fn(*mut mutex::New, *const c_uint) -> c_int;
        const UNTOUCHED: mutex::New = [!0; 5];
        // SAFETY: the caller's promise.
        let function = unsafe { core::mem::transmute::<*const c_void, Function>(function) };
        let mut known = None;
        for attributes in mutex::attributes_of_each_sort() {
            let mut made = UNTOUCHED;
            // SAFETY: as many bytes as a mutex has, and one word of attributes.
            let answer = unsafe { function(&mut made, &attributes) };
            let this = match mutex::new(attributes) {
                _ if answer == 0 && made == UNTOUCHED => Self::Forwards,
                Ok(ours) if answer == 0 && made == ours => Self::Same,
                Err(errno) if answer == errno.raw_os_error() => Self::Same,
                _ => Self::Other,
            };
            if known.is_some_and(|known| known != this) {
                return Self::Other;
            }
            known = Some(this);
        }
        known.unwrap_or(Self::Other)
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_note_counts_and_keeps_its_flags() {
        let page = Vpn::new(0x7_0000);
        assert!(find(page).is_none());
        let (place, first) = note(page).unwrap();
        place.store(first | SETTLED, Ordering::SeqCst);
        let (again, second) = note(page).unwrap();
        assert!(core::ptr::eq(place, again) && second == (first | SETTLED) + ONCE);
        assert!(is_of(second, page) && !is_of(second, page.add(1)));
        // One that has ended is not settled when it is made anew.
        place.store(second & !(LIVE | SETTLED), Ordering::SeqCst);
        let (_, third) = note(page).unwrap();
        assert_eq!(third, (second + ONCE) & !SETTLED);
        assert_eq!(find(page).unwrap().1, third);
    }

    #[test]
    fn the_count_begins_anew_and_leaves_the_page_alone() {
        let page = Vpn::new(0x7_1000);
        let (place, first) = note(page).unwrap();
        place.store(first | ((1 << PAGE_SHIFT) - ONCE), Ordering::SeqCst);
        let (_, second) = note(page).unwrap();
        assert!(is_of(second, page) && second & LIVE != 0 && second < first);
    }

    #[test]
    fn who_began_before_is_waited_for() {
        prepare().unwrap();
        let begun = Taking::begin();
        let ends = std::thread::spawn(move || drop(begun));
        drain();
        ends.join().unwrap();
        let odd = || taking().iter().any(|place| place.load(Ordering::SeqCst) % 2 == 1);
        assert!(!odd());
    }
}
