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
/// How they lie in memory.
pub const ALIGN: usize = 8;

const KIND: usize = 16;

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
/// which begin at an aligned address. It is enough if its kind lies in them.
pub fn may_begin(bytes: &[u8], begins: Range<usize>) -> bool {
    let word = |at: usize| bytes[at..at + 8].try_into().map_or(0, u64::from_ne_bytes);
    let end = begins.end.min((bytes.len() + 1).saturating_sub(KIND + 8));
    (begins.start..end)
        .step_by(ALIGN)
        // Nearly all differ in the first.
        .any(|at| has_kind_of_kernel(word(at + KIND)) && has_owner(word(at) as u32))
}

fn has_kind_of_kernel(kind: u64) -> bool {
    let chosen = kind & !KIND_VARIES;
    chosen & !(KIND_ROBUST | KIND_INHERITS) == 0 && chosen != 0
}

/// A thread, or nobody.
fn has_owner(word: u32) -> bool {
    word & raw::FUTEX_TID_MASK <= ID_MAX
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
        // Was destroyed.
        memory[48..52].fill(0);
        memory[48 + KIND..][..4].fill(0xff);
        assert!(!found(0..128, &memory));
    }
}
