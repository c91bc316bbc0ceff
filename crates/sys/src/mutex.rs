//! glibc's mutexes (`pthread_mutex_t`, the same since 2.4): how `pthread_mutex_init` makes one, and
//! how one is known to which the kernel writes: robust ones, and those that inherit priority.
//!
//! ```text
//!  0 futex word: the owner's thread id and two flags, or, above those, the ceiling of its priority
//!  4 how often it is locked
//!  8 the owner once more, or 0, or: inconsistent
//! 16 kind, and a word that is 0 where the kernel writes
//! 24 the entry before it in the owner's list, or 0 if it is not robust
//! 32 the next entry
//! ```

use core::ops::Range;

use linux_raw_sys::general as raw;
use rustix::io::{Errno, Result};

/// Bytes that one has, from its futex word on.
pub const BYTES: usize = 40;
/// How their futex words lie in memory: the kernel asks for no more.
pub const ALIGN: usize = 4;

const OWNER: usize = 8;
const KIND: usize = 16;
const BEFORE: usize = 24;
const NEXT: usize = 32;

/// `pthread_mutexattr_t`: the type and what was said of lock elision, four bits that nobody has
/// named, and the rest.
const TYPE: u32 = 0x0f00_0fff;
const CEILING: u32 = 0x00ff_f000;
const CEILING_SHIFT: u32 = 12;
const PROTOCOL: u32 = 3 << 28;
const INHERIT: u32 = 1 << 28;
const PROTECT: u32 = 2 << 28;
const ROBUST: u32 = 1 << 30;
const SHARED: u32 = 1 << 31;

/// What the kind says of that.
const KIND_ROBUST: u64 = 0x10;
const KIND_INHERITS: u64 = 0x20;
const KIND_PROTECTS: u64 = 0x40;
const KIND_SHARED: u64 = 0x80;
/// The bits in which those that the kernel writes to differ among themselves: type, shared by
/// processes, what was said of lock elision.
const KIND_VARIES: u64 = 0x383;

/// Where in the futex word the ceiling is, and the lowest there is (of SCHED_FIFO).
const WORD_CEILING_SHIFT: u32 = 19;
const CEILING_MIN: u32 = 1;
/// No thread has a higher id (PID_MAX_LIMIT).
const ID_MAX: u32 = 1 << 22;
/// The second owner field of one whose owner has died and that nobody has repaired, and of one that
/// nobody will.
const INCONSISTENT: u32 = i32::MAX as u32;
const NOT_RECOVERABLE: u32 = INCONSISTENT - 1;
/// What links have beside the address: the entry that they lead to inherits priority.
const LINK_INHERITS: u64 = 1;
/// Where no program has memory, with five levels of page tables either.
const TOP: u64 = 1 << 56;

/// The words of a new mutex, in the order in which they lie.
pub type New = [u64; BYTES / 8];

/// What `pthread_mutex_init` makes of these attributes.
///
/// # Errors
/// NOTSUP: a robust mutex has no ceiling of priority.
pub fn new(attributes: u32) -> Result<New> {
    let (protocol, is_robust) = (attributes & PROTOCOL, attributes & ROBUST != 0);
    let mut kind = u64::from(attributes & TYPE);
    let mut word = 0;
    match protocol {
        0 => {}
        INHERIT => kind |= KIND_INHERITS,
        _ if is_robust => return Err(Errno::NOTSUP),
        PROTECT => {
            kind |= KIND_PROTECTS;
            let ceiling = (attributes & CEILING) >> CEILING_SHIFT;
            word = ceiling.max(CEILING_MIN) << WORD_CEILING_SHIFT;
        }
        _ => {}
    }
    if is_robust {
        kind |= KIND_ROBUST;
    }
    if attributes & (SHARED | ROBUST) != 0 {
        kind |= KIND_SHARED;
    }
    Ok([u64::from(word), 0, kind, 0, 0])
}

/// Whether the kernel writes to the mutexes that have these attributes.
pub fn is_of_kernel(attributes: u32) -> bool {
    attributes & ROBUST != 0 || attributes & PROTOCOL == INHERIT
}

/// Attributes of each sort. Of those with a ceiling it is named: libc would ask the kernel for the
/// lowest.
pub fn attributes_of_each_sort() -> impl Iterator<Item = u32> {
    const TYPES: [u32; 5] = [0, 1, 2, 3, 512];
    const HIGHEST: u32 = 99 << CEILING_SHIFT;
    let protocols = [0, INHERIT, PROTECT | HIGHEST];
    let flags = [0, ROBUST, SHARED, ROBUST | SHARED];
    TYPES.into_iter().flat_map(move |kind| {
        let with_protocol = move |protocol| flags.map(move |flags| kind | protocol | flags);
        protocols.into_iter().flat_map(with_protocol)
    })
}

/// Whether one to which the kernel writes may begin at one of the offsets `begins` of `bytes`,
/// which begin at an address that is aligned as futexes are. It is enough if its kind lies in them.
/// What the program changes meanwhile makes it no other: each word is judged alone.
pub fn may_begin(bytes: &[u8], begins: Range<usize>) -> bool {
    let end = begins.end.min((bytes.len() + 1).saturating_sub(KIND + 8));
    (begins.start..end)
        .step_by(ALIGN)
        // Nearly all differ in the first.
        .any(|at| is_kind_of_kernel(word(bytes, at + KIND)) && may_be(&bytes[at..]))
}

fn word<T: Word>(bytes: &[u8], at: usize) -> T {
    T::of(&bytes[at..])
}

/// The kind itself is one.
fn may_be(bytes: &[u8]) -> bool {
    let is_robust = word::<u64>(bytes, KIND) & KIND_ROBUST != 0;
    let owner: u32 = word(bytes, OWNER);
    let has_links = |at| {
        let link = bytes
            .get(at..at + 8)
            .map_or(0, |link| word::<u64>(link, 0) & !LINK_INHERITS);
        match is_robust {
            true => link.is_multiple_of(ALIGN as u64) && link < TOP,
            false => link == 0,
        }
    };
    word::<u32>(bytes, 0) & raw::FUTEX_TID_MASK <= ID_MAX
        && (owner <= ID_MAX || owner == INCONSISTENT || owner == NOT_RECOVERABLE)
        && has_links(BEFORE)
        && has_links(NEXT)
}

/// A word of a mutex.
trait Word {
    /// What `bytes` begin with.
    fn of(bytes: &[u8]) -> Self;
}

impl Word for u32 {
    fn of(bytes: &[u8]) -> Self {
        bytes.first_chunk().map_or(0, |bytes| Self::from_ne_bytes(*bytes))
    }
}

impl Word for u64 {
    fn of(bytes: &[u8]) -> Self {
        bytes.first_chunk().map_or(0, |bytes| Self::from_ne_bytes(*bytes))
    }
}

fn is_kind_of_kernel(kind: u64) -> bool {
    let chosen = kind & !KIND_VARIES;
    let is_robust = chosen & KIND_ROBUST != 0;
    chosen & !(KIND_ROBUST | KIND_INHERITS) == 0 && chosen != 0 && (!is_robust || kind & KIND_SHARED != 0)
}

#[cfg(test)]
mod test {
    extern crate std;

    use super::*;

    #[cfg(not(miri))]
    mod libc {
        unsafe extern "C" {
            pub(super) fn pthread_mutex_init(mutex: *mut u64, attributes: *const u32) -> i32;
        }
    }

    #[test]
    #[cfg(not(miri))]
    fn one_is_as_libc_makes_it() {
        let lowest = [PROTECT, PROTECT | SHARED | 1, PROTECT | ROBUST];
        for attributes in attributes_of_each_sort().chain(lowest) {
            let mut made = [!0; 5];
            // SAFETY: as many bytes as a mutex has; attributes are one word.
            let answer = unsafe { libc::pthread_mutex_init(made.as_mut_ptr(), &attributes) };
            let libcs = if answer == 0 { Ok(made) } else { Err(answer) };
            let ours = new(attributes).map_err(Errno::raw_os_error);
            assert_eq!(ours, libcs, "{attributes:#x}");
        }
    }

    #[test]
    fn those_that_the_kernel_writes_to_are_known() {
        for attributes in attributes_of_each_sort() {
            let Ok(mut mutex) = new(attributes) else { continue };
            // Free, had by a thread, and left by one.
            for word in [
                0,
                77,
                u64::from(77 | raw::FUTEX_WAITERS),
                u64::from(raw::FUTEX_OWNER_DIED),
            ] {
                mutex[0] |= word;
                let bytes: std::vec::Vec<u8> = mutex.iter().flat_map(|word| word.to_ne_bytes()).collect();
                let is_known = may_begin(&bytes, 0..BYTES);
                assert_eq!(is_known, is_of_kernel(attributes), "{attributes:#x} {word:#x}");
            }
        }
    }

    #[test]
    fn they_are_found_where_they_begin() {
        let mut memory = [0u8; 128];
        memory[48 + KIND] = 0x21;
        let found = |begins, memory: &[u8]| may_begin(memory, begins);
        assert!(found(0..128, &memory) && found(48..56, &memory));
        assert!(!found(0..48, &memory) && !found(56..128, &memory));
        // Its kind is not there.
        assert!(!found(0..128, &memory[..48 + KIND]) && found(0..128, &memory[..48 + KIND + 8]));
        assert!(!found(0..8, &[]));
        // No thread has such an id.
        memory[48..52].copy_from_slice(&(ID_MAX + 1).to_ne_bytes());
        assert!(!found(0..128, &memory));
        memory[48..52].fill(0);
        memory[48 + OWNER + 2] = 0x80;
        assert!(!found(0..128, &memory));
        memory[48 + OWNER + 2] = 0;
        // One that is not robust is in no list.
        memory[48 + NEXT] = 8;
        assert!(!found(0..128, &memory) && found(0..128, &memory[..48 + NEXT]));
        // Was destroyed.
        memory[48 + NEXT] = 0;
        memory[48 + KIND..][..4].fill(0xff);
        assert!(!found(0..128, &memory));
    }

    #[test]
    fn what_malloc_writes_is_none() {
        // The size of a block, what lies before it, and what it begins with.
        let heap = |size: u64, before: u64, first: u64| {
            let words = [before, before, size, first, first];
            let bytes: std::vec::Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
            may_begin(&bytes, 0..BYTES)
        };
        for size in (0x11..0x800).step_by(16) {
            assert!(!heap(size, 7, 7) && !heap(size, 0x5555_5555_0000, 0));
        }
        for size in [0x11, 0x31, 0x51] {
            assert!(!heap(size, 0, 0));
        }
    }

    #[test]
    fn robust_ones_are_known_in_each_step_of_being_locked() {
        let mutex = |word: u32, owner: u32, before: u64, next: u64| {
            let words = [u64::from(word), u64::from(owner), 0x90, before, next];
            let bytes: std::vec::Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
            may_begin(&bytes, 0..BYTES)
        };
        for (word, owner, before, next) in [
            (77, 0, 0, 0),
            (77, 77, 0x1000, 0x2001),
            (77 | raw::FUTEX_WAITERS, INCONSISTENT, 0x1000, 0),
            (raw::FUTEX_OWNER_DIED, NOT_RECOVERABLE, 0x1004, 0x7fff_ffff_fffc),
        ] {
            assert!(mutex(word, owner, before, next));
        }
        assert!(!mutex(77, 77, 0x1002, 0) && !mutex(77, 77, 0, !7));
    }
}
