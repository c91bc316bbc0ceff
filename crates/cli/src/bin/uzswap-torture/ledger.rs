//! What all processes of a run have in common: what was counted, who failed, and whose children
//! nobody waits for.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use uzswap_sys::testing;

use crate::moves::MOVES;

const FAILURES: usize = 0;
const PROCESSES: usize = 1;
const STEPS: usize = 2;
const FORKS: usize = 3;
const COUNTS: usize = 4;
const ORPHANS: usize = COUNTS + MOVES.len();
/// Children that may wait to be reaped by the first process; more stay until its end.
const ORPHANS_MAX: usize = 512;

static WORDS: OnceLock<&'static [AtomicU64]> = OnceLock::new();

/// Before the first fork.
pub(crate) fn open() {
    let words = testing::shared_words(ORPHANS + ORPHANS_MAX).expect("a page of shared memory");
    WORDS.get_or_init(|| words);
}

fn word(at: usize) -> &'static AtomicU64 {
    &WORDS.get().expect("opened first")[at]
}

/// Somebody has failed; everybody ends.
pub(crate) fn fail(line: &str) {
    word(FAILURES).fetch_add(1, Ordering::Relaxed);
    println!("{line}");
}

pub(crate) fn has_failed() -> bool {
    word(FAILURES).load(Ordering::Relaxed) > 0
}

pub(crate) fn count_step(place: usize) {
    word(STEPS).fetch_add(1, Ordering::Relaxed);
    word(COUNTS + place).fetch_add(1, Ordering::Relaxed);
}

/// Whether there may be one more process, of at most `most`. It counts until it calls
/// [`end_process`].
pub(crate) fn begin_process(most: u64) -> bool {
    let more = |n| (n < most).then_some(n + 1);
    word(PROCESSES)
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
        .is_ok()
}

pub(crate) fn end_process() {
    word(PROCESSES).fetch_sub(1, Ordering::Relaxed);
}

pub(crate) fn count_fork() {
    word(FORKS).fetch_add(1, Ordering::Relaxed);
}

/// Nobody waits for this child: the first process is to, once it is its parent.
pub(crate) fn forget(pid: i32) {
    for slot in 0..ORPHANS_MAX {
        let taken = word(ORPHANS + slot).compare_exchange(0, pid as u64, Ordering::Relaxed, Ordering::Relaxed);
        if taken.is_ok() {
            return;
        }
    }
}

/// In the first process: a child that nobody else waits for ended so.
fn judge(pid: i32, status: u8) {
    if status != 0 {
        fail(&format!(
            "DIFFERENCE: process {pid}, that nobody waits for, ended with status {status}"
        ));
    }
}

/// In the first process: reap those that have ended.
pub(crate) fn reap_forgotten() {
    for slot in 0..ORPHANS_MAX {
        let pid = word(ORPHANS + slot).load(Ordering::Relaxed) as i32;
        if pid == 0 {
            continue;
        }
        if let Some(status) = testing::reap(pid, false) {
            word(ORPHANS + slot).store(0, Ordering::Relaxed);
            judge(pid, status);
        }
    }
}

/// In the first process, at the end: wait until all descendants are gone.
pub(crate) fn reap_all() {
    while let Some((pid, status)) = testing::reap_any() {
        judge(pid, status);
    }
}

/// What was counted: each move, then the sums.
pub(crate) fn summary() -> String {
    let count = |at| word(at).load(Ordering::Relaxed);
    let moves: Vec<String> = MOVES
        .iter()
        .enumerate()
        .map(|(place, (_, _, name))| format!("{name} {}", count(COUNTS + place)))
        .collect();
    format!("{}\n{} steps, {} forks", moves.join(", "), count(STEPS), count(FORKS))
}
