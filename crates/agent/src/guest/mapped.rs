//! What the program has mapped since kswapd looked last, as the replaced wrappers saw it.
//!
//! Going through all mappings takes as long as there are mappings. A program with tens of thousands
//! of them maps the next one in a microsecond, and near the limit kswapd looks at each before
//! `mmap` returns. So the program's threads leave word of what they map, and kswapd looks at that
//! alone. Where more was mapped than there is room for here, or by system calls that nobody sees,
//! it goes through all of them ([`crate::kswapd`]).

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Records: of what is mapped in one tick of kswapd by a program that does little else. 8 KiB,
/// touched as they are used.
const MAX: usize = 512;
/// Start and end. Both are 0: free; the end is: not yet written, or taken by kswapd.
static RECORDS: [[AtomicUsize; 2]; MAX] = [const { [const { AtomicUsize::new(0) }; 2] }; MAX];
/// Where to look for a free one first.
static NEXT: AtomicUsize = AtomicUsize::new(0);
/// A record found no room, or something was mapped that nobody saw.
static IS_MISSED: AtomicBool = AtomicBool::new(true);

/// The program mapped `[start, end)`. Called in its own thread, before it may wait for kswapd.
pub(crate) fn note(start: usize, end: usize) {
    let [from, to] = &RECORDS[NEXT.fetch_add(1, Ordering::Relaxed) % MAX];
    match from.compare_exchange(0, start, Ordering::Acquire, Ordering::Relaxed) {
        // Release: pairs with `drain`, which reads the start after it.
        Ok(_) => to.store(end, Ordering::Release),
        Err(_) => miss(),
    }
}

/// Something was mapped that is not recorded.
pub(crate) fn miss() {
    IS_MISSED.store(true, Ordering::SeqCst);
}

/// Whether anything was since the last [`restart`].
pub(crate) fn is_missed() -> bool {
    IS_MISSED.load(Ordering::SeqCst)
}

/// All mappings are about to be gone through. Called by kswapd.
pub(crate) fn restart() {
    IS_MISSED.store(false, Ordering::SeqCst);
}

/// Take the records. Called by kswapd. One that is half written belongs to an `mmap` that has not
/// returned, and is taken next time.
pub(crate) fn drain(mut found: impl FnMut(usize, usize)) {
    for [from, to] in &RECORDS {
        let end = to.load(Ordering::Acquire);
        if end != 0 {
            found(from.load(Ordering::Relaxed), end);
            to.store(0, Ordering::Relaxed);
            // Release: whoever takes the record next writes an end after the one that is cleared.
            from.store(0, Ordering::Release);
        }
    }
}

/// In a forked child: whoever was writing a record does not exist here.
pub(crate) fn reset_in_child() {
    for [from, to] in RECORDS.iter().filter(|[from, _]| from.load(Ordering::Relaxed) != 0) {
        to.store(0, Ordering::Relaxed);
        from.store(0, Ordering::Relaxed);
    }
    miss();
}
