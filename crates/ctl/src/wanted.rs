//! What one process has another bring: memory of that one, which it is about to read or write.
//!
//! It is one word of the other's slot. Who asks takes it, and gives it back:
//!
//! ```text
//! free (0) -> asked, by one process -> answered, by the other -> free, by the one
//! ```
//! While it is answered the pages stay: who writes to memory that is being taken out loses what it
//! writes. All changes are by compare-and-swap on the whole word, as either side may have given up.

use core::sync::atomic::Ordering;

use crate::{Field, Group};

/// Pages of another process, and what for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Number of the first.
    pub first: u64,
    /// How many: 1 to [`PAGES_MAX`](Self::PAGES_MAX).
    pub pages: u64,
    /// They are written to.
    pub is_write: bool,
}

const FIRST_BITS: u32 = 36;
const PAGES_BITS: u32 = 6;
const WRITE: u64 = 1 << (FIRST_BITS + PAGES_BITS);
const ASKED: u64 = 1 << 60;
const ANSWERED: u64 = 1 << 61;
const BROUGHT: u64 = 1 << 62;
/// What the other says to it.
const ANSWER: u64 = ANSWERED | BROUGHT;

impl Wanted {
    /// Pages of one request at most.
    pub const PAGES_MAX: u64 = 1 << PAGES_BITS;

    fn word(self) -> u64 {
        let first = self.first & ((1 << FIRST_BITS) - 1);
        let pages = (self.pages.clamp(1, Self::PAGES_MAX) - 1) << FIRST_BITS;
        ASKED | if self.is_write { WRITE } else { 0 } | pages | first
    }

    /// Whether the word asks for this, answered or not.
    fn is_in(self, word: u64) -> bool {
        word & !ANSWER == self.word()
    }

    fn of_word(word: u64) -> Self {
        Self {
            first: word & ((1 << FIRST_BITS) - 1),
            pages: (word >> FIRST_BITS & (Self::PAGES_MAX - 1)) + 1,
            is_write: word & WRITE != 0,
        }
    }
}

impl Group {
    /// Process `asker` asks the one in `slot`. False: another asks it for something.
    pub fn ask_for(&self, slot: usize, wanted: Wanted, asker: i32) -> bool {
        let is_first = self.change_wanted(slot, 0, wanted.word());
        if is_first {
            self.set_field(slot, Field::WantedBy, asker as u64);
        }
        is_first
    }

    /// What the process in `slot` is asked for and has not answered.
    pub fn asked_for(&self, slot: usize) -> Option<Wanted> {
        let word = self.word(slot, Field::Wanted).load(Ordering::Acquire);
        (word & (ASKED | ANSWERED) == ASKED).then(|| Wanted::of_word(word))
    }

    /// The process in `slot` has brought what was out of it; not `is_brought`: the first page was
    /// not. False: who asked has given up.
    pub fn answer(&self, slot: usize, wanted: Wanted, is_brought: bool) -> bool {
        let answer = ANSWERED | if is_brought { BROUGHT } else { 0 };
        self.change_wanted(slot, wanted.word(), wanted.word() | answer)
    }

    /// What it has answered, if it has.
    pub fn answered(&self, slot: usize, wanted: Wanted) -> Option<bool> {
        let word = self.word(slot, Field::Wanted).load(Ordering::Acquire);
        (word & !BROUGHT == wanted.word() | ANSWERED).then_some(word & BROUGHT != 0)
    }

    /// Whether the process in `slot` is asked for that, or has answered. False: it was cleared
    /// with the slot.
    pub fn is_asked_for(&self, slot: usize, wanted: Wanted) -> bool {
        wanted.is_in(self.wanted_word(slot))
    }

    /// Who asked has the answer, or does not wait for it.
    pub fn end_asking(&self, slot: usize, wanted: Wanted) {
        let word = self.wanted_word(slot);
        if wanted.is_in(word) && !self.change_wanted(slot, word, 0) {
            // It was answered between the two.
            self.end_asking(slot, wanted);
        }
    }

    /// What the word is, whoever has it; 0: nobody has.
    pub fn wanted_word(&self, slot: usize) -> u64 {
        self.field(slot, Field::Wanted)
    }

    /// Whoever asked for that is dead.
    pub fn drop_asked(&self, slot: usize, word: u64) {
        self.change_wanted(slot, word, 0);
    }

    fn change_wanted(&self, slot: usize, from: u64, to: u64) -> bool {
        self.word(slot, Field::Wanted)
            .compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn who_asks_gets_an_answer_to_that() {
        let group = Group::fresh();
        let wanted = Wanted {
            first: 0x7_ffff_ffc0,
            pages: Wanted::PAGES_MAX,
            is_write: true,
        };
        let other = Wanted {
            is_write: false,
            pages: 1,
            ..wanted
        };
        for is_brought in [true, false] {
            assert_eq!(group.asked_for(1), None);
            assert!(group.ask_for(1, wanted, 7) && !group.ask_for(1, other, 8));
            assert_eq!((group.asked_for(1), group.answered(1, wanted)), (Some(wanted), None));
            assert!(!group.answer(1, other, true));
            assert_eq!(group.answered(1, wanted), None);
            assert!(group.is_asked_for(1, wanted) && !group.is_asked_for(1, other));
            assert!(group.answer(1, wanted, is_brought));
            assert!(group.is_asked_for(1, wanted) && !group.is_asked_for(0, wanted));
            assert_eq!((group.asked_for(1), group.answered(1, other)), (None, None));
            assert_eq!(group.answered(1, wanted), Some(is_brought));
            group.end_asking(1, other);
            assert!(!group.ask_for(1, other, 8));
            group.end_asking(1, wanted);
        }
        assert!(group.ask_for(1, other, 8));
        let word = group.wanted_word(1);
        group.drop_asked(1, word + 1);
        assert_eq!(group.asked_for(1), Some(other));
        group.drop_asked(1, word);
        assert_eq!(group.wanted_word(1), 0);
    }
}
