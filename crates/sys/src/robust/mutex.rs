//! Mutexes whose words the kernel writes to, as glibc lays them out (`pthread_mutex_t`, the same
//! since 2.4): robust ones, and those that inherit priority. Found by what they hold while somebody
//! has them.
//!
//! ```text
//!  0 futex word: the owner's thread id, and two flags
//!  4 how often it is locked
//!  8 the owner once more, or 0, or: inconsistent
//! 16 kind, and a word that is 0 in these
//! 24 the entry before it in the owner's list, or 0 if it is not robust
//! 32 the next entry: what the list's pointers lead to
//! ```

use core::ops::Range;

use linux_raw_sys::general as raw;

/// Bytes that one has, from its futex word on.
pub const BYTES: usize = 40;
/// How they lie in memory.
pub const ALIGN: usize = 8;
/// From the futex word to where lists lead.
pub const ENTRY: usize = 32;

const OWNER: usize = 8;
const KIND: usize = 16;
const BEFORE: usize = 24;

/// Of the kind: robust.
const ROBUST: u64 = 0x10;
/// Of the kind: inherits priority.
const INHERITS: u64 = 0x20;
/// The bits in which both kinds differ among themselves: type, shared by processes, what was said
/// of lock elision.
const VARIES: u64 = 0x383;
/// The second owner field of one whose owner has died and that nobody has repaired, and of one that
/// nobody will.
const INCONSISTENT: u32 = i32::MAX as u32;
const NOT_RECOVERABLE: u32 = INCONSISTENT - 1;
/// What pointers have beside the address: the entry inherits priority.
const FLAG: usize = 1;
/// No thread has a higher id (PID_MAX_LIMIT).
const ID_MAX: u32 = 1 << 22;
/// Where programs have no memory any more.
const TOP: usize = 1 << 47;

/// What is in the bytes of such a mutex that is locked, or just being locked or let go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Locked {
    /// The thread that has it. `None`: that has died, and whoever takes it over asks the kernel,
    /// since it inherits priority.
    pub owner: Option<i32>,
    /// Somebody waits for it.
    pub has_waiters: bool,
    /// Who waits does so in the kernel, which writes to the word, and wakes the next without being
    /// told if the owner ends.
    pub inherits: bool,
    /// Where the pointers of its neighbours in the owner's list are. `None`: it is being put into
    /// the list, or taken from it, or is not robust.
    pub links: Option<Links>,
}

/// See [`Locked::links`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Links {
    /// Of the one before it, to this one.
    pub before: usize,
    /// The entry after it, and in front of that its pointer back.
    pub next: usize,
}

fn word<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut word = [0; N];
    word.copy_from_slice(&bytes[at..at + N]);
    word
}

impl Locked {
    /// What these bytes are, if they may be such a mutex.
    pub fn read(bytes: &[u8; BYTES]) -> Option<Self> {
        let kind = u64::from_ne_bytes(word(bytes, KIND));
        let futex = u32::from_ne_bytes(word(bytes, 0));
        let owner = futex & raw::FUTEX_TID_MASK;
        let recorded = u32::from_ne_bytes(word(bytes, OWNER));
        // The last owner's, before the next one is recorded.
        let is_recorded = recorded == owner || matches!(recorded, 0 | INCONSISTENT);
        let is_known = is_recorded || recorded <= ID_MAX || recorded == NOT_RECOVERABLE;
        let (is_robust, inherits) = (kind & ROBUST != 0, kind & INHERITS != 0);
        let is_left = owner == 0 && is_robust && inherits && futex & raw::FUTEX_OWNER_DIED != 0;
        let is_locked = (1..=ID_MAX).contains(&owner) || is_left;
        if !is_of_kernel(kind) || !is_locked || !is_known {
            return None;
        }
        let before = usize::from_ne_bytes(word(bytes, BEFORE));
        let next = usize::from_ne_bytes(word(bytes, ENTRY)) & !FLAG;
        let leads = |to: usize| to < TOP && to.is_multiple_of(ALIGN);
        let is_listed = before != 0 || next != 0;
        // Small numbers are common, so what is in no list must name its owner twice.
        if !leads(before) || !leads(next) || !is_robust && (is_listed || recorded != owner) {
            return None;
        }
        // One link is set before the other.
        let links = (is_recorded && before != 0 && next != 0).then_some(Links { before, next });
        Some(Self {
            owner: (owner != 0).then_some(owner as i32),
            has_waiters: futex & raw::FUTEX_WAITERS != 0,
            inherits,
            links,
        })
    }

    /// Whether a neighbour in its list knows the one at `addr`, which tells it from a copy: `read`
    /// says what word is at an address, if it can be known.
    pub fn is_linked(&self, addr: usize, read: impl Fn(usize) -> Option<usize>) -> bool {
        let leads_here = |at: usize| read(at).is_some_and(|to| to & !FLAG == addr + ENTRY);
        self.links
            .is_some_and(|links| leads_here(links.before) || leads_here(links.next - ALIGN))
    }
}

/// Whether the kernel writes to the word of a mutex of this kind.
fn is_of_kernel(kind: u64) -> bool {
    let chosen = kind & !VARIES;
    chosen & !(ROBUST | INHERITS) == 0 && chosen != 0
}

/// Call `found` with each that begins at one of the offsets `begins` of `bytes`, which begin at an
/// aligned address, and lies in them as a whole.
pub fn for_each_locked(bytes: &[u8], begins: Range<usize>, mut found: impl FnMut(usize, Locked)) {
    let end = begins.end.min((bytes.len() + 1).saturating_sub(BYTES));
    for at in (begins.start..end).step_by(ALIGN) {
        // Nearly all differ here.
        if is_of_kernel(u64::from_ne_bytes(word(bytes, at + KIND)))
            && let Some(locked) = Locked::read(&word(bytes, at))
        {
            found(at, locked);
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;

    fn bytes(futex: u32, owner: u32, kind: u64, before: usize, next: usize) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        bytes[..4].copy_from_slice(&futex.to_ne_bytes());
        bytes[OWNER..OWNER + 4].copy_from_slice(&owner.to_ne_bytes());
        bytes[KIND..BEFORE].copy_from_slice(&kind.to_ne_bytes());
        bytes[BEFORE..ENTRY].copy_from_slice(&before.to_ne_bytes());
        bytes[ENTRY..].copy_from_slice(&next.to_ne_bytes());
        bytes
    }

    #[test]
    fn a_mutex_is_known_in_each_step_of_being_locked() {
        let links = Links {
            before: 0x1000,
            next: 0x2000,
        };
        let locked = Locked {
            owner: Some(77),
            has_waiters: true,
            inherits: false,
            links: Some(links),
        };
        let waited_for = 77 | raw::FUTEX_WAITERS;
        assert_eq!(Locked::read(&bytes(waited_for, 77, 0x90, 0x1000, 0x2000)), Some(locked));
        assert_eq!(Locked::read(&bytes(waited_for, 0, 0x10, 0x1000, 0x2000)), Some(locked));
        let inherits = Locked::read(&bytes(77, INCONSISTENT, 0x31, 0x1000, 0x2001)).unwrap();
        assert!(inherits.inherits && inherits.links == Some(links));
        // On the way into a list or out of it, or taken over.
        for bytes in [
            bytes(77, 0, 0x10, 0, 0),
            bytes(77, 77, 0x210, 0, 0x2000),
            bytes(77, 76, 0x10, 0x1000, 0x2000),
            bytes(77 | raw::FUTEX_OWNER_DIED, NOT_RECOVERABLE, 0x30, 0x1000, 0x2000),
        ] {
            let locked = Locked::read(&bytes).unwrap();
            assert_eq!((locked.owner, locked.links), (Some(77), None));
        }
    }

    #[test]
    fn who_waits_in_the_kernel_needs_the_word() {
        let plain = Locked::read(&bytes(77 | raw::FUTEX_WAITERS, 77, 0xa1, 0, 0)).unwrap();
        assert!(plain.inherits && plain.owner == Some(77) && plain.links.is_none());
        let left = Locked::read(&bytes(raw::FUTEX_OWNER_DIED, 77, 0x30, 0, 0)).unwrap();
        assert!(left.inherits && left.owner.is_none());
    }

    #[test]
    fn what_nobody_has_is_none() {
        for bytes in [
            bytes(0, 0, 0x10, 0, 0),
            bytes(raw::FUTEX_OWNER_DIED | raw::FUTEX_WAITERS, 77, 0x10, 0x1000, 0x2000),
            bytes(77, 77, 0, 0x1000, 0x2000),
            // Not in a list, but linked, or named once.
            bytes(77, 77, 0x20, 0x1000, 0x2000),
            bytes(77, 0, 0x20, 0, 0),
            bytes(0, 0, 0x20, 0, 0),
            bytes(77, ID_MAX + 1, 0x10, 0x1000, 0x2000),
            bytes(77, 77, 0x10, 0x1000, TOP),
            bytes(77, 77, 0x10, 0x1004, 0x2000),
            bytes(77, 77, 0x1_0000_0010, 0x1000, 0x2000),
            bytes(ID_MAX + 1, 0, 0x10, 0x1000, 0x2000),
        ] {
            assert_eq!(Locked::read(&bytes), None);
        }
    }

    #[test]
    fn those_that_lie_inside_are_found() {
        let mut memory = [0; 128];
        memory[8..8 + BYTES].copy_from_slice(&bytes(5, 5, 0x10, 8, 8));
        memory[88..].copy_from_slice(&bytes(6, 6, 0x12, 8, 8));
        let found = |begins, memory: &[u8]| {
            let mut all = alloc::vec::Vec::new();
            for_each_locked(memory, begins, |at, locked| all.push((at, locked.owner.unwrap())));
            all
        };
        assert_eq!(found(0..128, &memory), [(8, 5), (88, 6)]);
        assert_eq!(found(16..128, &memory), [(88, 6)]);
        assert_eq!(found(0..128, &memory[..127]), [(8, 5)]);
        assert_eq!(found(0..128, &memory[..BYTES - 1]), []);
    }

    #[test]
    fn neighbours_know_each_other() {
        let locked = Locked::read(&bytes(5, 5, 0x10, 0x1000, 0x2000)).unwrap();
        let points = |at| match at {
            0x1000 => Some(0x3020 | FLAG),
            _ => None,
        };
        assert!(locked.is_linked(0x3000, points));
        assert!(locked.is_linked(0x3000, |at| (at == 0x1ff8).then_some(0x3020)));
        assert!(!locked.is_linked(0x4000, points));
        assert!(!locked.is_linked(0x3000, |_| None));
    }
}
