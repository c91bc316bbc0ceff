//! Where everything is in a group file: an array of 64-bit words that the launcher and every agent
//! of a run map.
//!
//! ```text
//! words     0 ..     7  Head: what file this is, and how many slots were ever used
//! words     8 ..    15  Limit: what the group may have
//! words    16 ..    55  Tunable: how that is done
//! words    56 ..    63  Test: what is made to fail
//! words    64 ..    95  Notice: what launchers and processes tell one another
//! words    96 ..   127  Statistic: what happened
//! words   128 ..   175  groups inside this one, 3 words each (`inner`)
//! words   176 ..   263  where the swap file goes (bytes of a path)
//! words   264 ..  1095  counters and histograms (uzswap_mm::vmstat)
//! words  1096 ..  1159  how often each failure was made to happen (FailKind)
//! words  1160 .. 42119  a slot of 40 words for each process (Field)
//! words 42120 .. 42183  the last words of a pager that had to stop its process, as text
//! ```
//! Each word stands alone and is read and written atomically. A process that scribbles over them
//! can spoil the numbers, and what another one writes here at its request (`wanted`), but nothing
//! else of anybody's memory. Which slots are in use is decided by leases on the
//! file (`uzswap_sys::shared`), not by what is written here: a lease ends when its process does,
//! however that happens.
//!
//! Words that are written all the time share no cache line with settings: every part begins one.

use core::ops::Range;

use uzswap_mm::vmstat;

use crate::key::{Limit, Notice, Statistic, Test, Tunable};
use crate::{FailKind, Field};

/// [`Head::Magic`] of a group file.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"uzswap01");
/// [`Head::Version`]: changes whenever the layout does, or the meaning of a word. An agent of
/// another version must not touch the file.
pub(crate) const VERSION: u64 = 31;

/// Defines words that follow each other: an enum whose variants are counted from 0.
macro_rules! words {
    ($(#[$doc:meta])* $visible:vis enum $name:ident { $($(#[$word_doc:meta])* $word:ident,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(usize)]
        $visible enum $name { $($(#[$word_doc])* $word,)* }

        impl $name {
            /// All, in the order of their words.
            pub const ALL: &[Self] = &[$(Self::$word,)*];
        }
    };
}
pub(crate) use words;

words! {
    /// Words that say what the file is, and how far it is used.
    pub(crate) enum Head {
        /// [`MAGIC`], written last.
        Magic,
        /// [`VERSION`]
        Version,
        /// One more than the highest slot that was ever taken: nobody looks at those beyond.
        SlotsUsed,
    }
}

/// Words that follow each other in the file.
#[derive(Clone, Copy)]
pub(crate) struct Part {
    at: usize,
    len: usize,
}

/// Parts begin a cache line.
const LINE_WORDS: usize = 8;

impl Part {
    const fn end(self) -> usize {
        self.at + self.len
    }

    /// The next `len` words.
    const fn then(self, len: usize) -> Self {
        let at = self.end();
        assert!(at.is_multiple_of(LINE_WORDS));
        Self { at, len }
    }

    /// Whether so many words are in it.
    const fn holds(self, words: usize) -> bool {
        words <= self.len
    }

    /// Where one of its words is.
    pub(crate) const fn word(self, index: usize) -> usize {
        debug_assert!(index < self.len);
        self.at + index
    }

    /// Where all of them are.
    pub(crate) const fn range(self) -> Range<usize> {
        self.at..self.end()
    }
}

pub(crate) const HEAD: Part = Part { at: 0, len: 8 };
pub(crate) const LIMITS: Part = HEAD.then(8);
pub(crate) const TUNABLES: Part = LIMITS.then(40);
pub(crate) const TESTS: Part = TUNABLES.then(8);
pub(crate) const NOTICES: Part = TESTS.then(32);
pub(crate) const STATISTICS: Part = NOTICES.then(32);
pub(crate) const INNER: Part = STATISTICS.then(INNER_GROUPS * INNER_WORDS);
pub(crate) const SWAP_PATH: Part = INNER.then(88);
const VMSTAT: Part = SWAP_PATH.then(832);
pub(crate) const FAILURES: Part = VMSTAT.then(64);
const SLOTS: Part = FAILURES.then(PROCESSES * SLOT_WORDS);
pub(crate) const LAST_WORDS: Part = SLOTS.then(64);

/// Words of a group file.
pub const WORDS: usize = LAST_WORDS.end();
/// Words before those of the first process.
pub const HEADER_WORDS: usize = SLOTS.at;
/// The longest path of a swap file, with its terminating zero.
pub(crate) const PATH_MAX: usize = SWAP_PATH.len * 8 - 1;

/// Groups inside a group that are told apart. More at a time are charged as what has no agent.
pub(crate) const INNER_GROUPS: usize = 16;
pub(crate) const INNER_WORDS: usize = 3;

/// Processes that a group can hold at a time.
pub const PROCESSES: usize = 1024;
const SLOT_WORDS: usize = 40;

/// The words of the process in `slot`.
pub(crate) const fn slot(slot: usize) -> Range<usize> {
    let first = SLOTS.word(slot % PROCESSES * SLOT_WORDS);
    first..first + SLOT_WORDS
}

/// The words of a [`uzswap_mm::vmstat::Vmstat`].
pub(crate) const fn counters() -> Range<usize> {
    VMSTAT.at..VMSTAT.at + vmstat::WORDS
}

/// The byte of the file that the launcher locks for as long as it lives (`uzswap_sys::shared`). The
/// bytes before it are the leases on the slots.
pub const LAUNCHER: usize = PROCESSES;
/// The byte that members lock, all together, as long as they have the file mapped.
pub const MEMBERSHIP: usize = LAUNCHER + 1;

// The picture above.
const _: () = assert!(LIMITS.at == 8 && TUNABLES.at == 16 && TESTS.at == 56);
const _: () = assert!(NOTICES.at == 64 && STATISTICS.at == 96 && INNER.at == 128);
const _: () = assert!(SWAP_PATH.at == 176 && VMSTAT.at == 264 && FAILURES.at == 1096);
const _: () = assert!(SLOTS.at == 1160 && LAST_WORDS.at == 42120 && WORDS == 42184);
// What is in the parts.
const _: () = assert!(HEAD.holds(Head::ALL.len()));
const _: () = assert!(LIMITS.holds(Limit::ALL.len()));
const _: () = assert!(TUNABLES.holds(Tunable::ALL.len()));
const _: () = assert!(TESTS.holds(Test::ALL.len()));
const _: () = assert!(NOTICES.holds(Notice::ALL.len()));
const _: () = assert!(STATISTICS.holds(Statistic::ALL.len()));
const _: () = assert!(VMSTAT.holds(vmstat::WORDS));
const _: () = assert!(FAILURES.holds(FailKind::ALL.len()));
const _: () = assert!(Field::ALL.len() <= SLOT_WORDS);
