//! The classes of words.

/// What a word is, and what stands for it.
#[derive(Clone, Copy)]
pub(super) enum Class {
    /// Zero: nothing.
    Zero = 0,
    /// A recent word: its place, 1 byte.
    Recent = 1,
    /// Of a recent word the upper 48 bits: its place, and the lower 16 bits; 3 bytes.
    UpperRecent = 2,
    /// Below 2^16: 2 bytes.
    Short = 3,
    /// Below 2^32: 4 bytes.
    LowerHalf = 4,
    /// Anything: 8 bytes.
    Whole = 5,
    /// The lower half is zero: the upper one, 4 bytes.
    UpperHalf = 6,
    /// The lower half is that of a recent word: the upper one, and the place of that word; 5 bytes.
    LowerRecent = 7,
}

/// Bytes that stand for a word of each class.
pub(super) const LEN: [u8; 8] = [0, 1, 3, 2, 4, 8, 4, 5];

/// Class and length of a word by six facts about it, the lowest bit first: it is below 2^16; its
/// upper half is zero; its lower half is; that is the lower half of a recent word; its upper 48
/// bits are those of a recent word; it is a recent word.
pub(super) const CLASS_AND_LEN: [(u8, u8); 64] = {
    let mut table = [(0, 0); 64];
    let mut facts = 0;
    while facts < table.len() {
        let class = class_by(facts) as u8;
        table[facts] = (class, LEN[class as usize]);
        facts += 1;
    }
    table
};

const fn class_by(facts: usize) -> Class {
    let (is_short, has_no_upper, has_no_lower) = (facts & 1 != 0, facts & 2 != 0, facts & 4 != 0);
    let (is_lower_recent, is_upper_recent, is_recent) = (facts & 8 != 0, facts & 16 != 0, facts & 32 != 0);
    match () {
        () if has_no_upper && has_no_lower => Class::Zero,
        () if is_recent => Class::Recent,
        () if is_short => Class::Short,
        () if is_upper_recent => Class::UpperRecent,
        () if has_no_upper => Class::LowerHalf,
        () if has_no_lower => Class::UpperHalf,
        () if is_lower_recent => Class::LowerRecent,
        () => Class::Whole,
    }
}
