//! What runs in the program's threads, around its calls, and what it says of its memory. None of it
//! takes a lock of the engine, or allocates while the program holds a lock of its own.

pub(crate) mod closed;
pub(crate) mod hook;
pub(crate) mod identity;
pub(crate) mod mapped;
pub(crate) mod mlock;
pub(crate) mod mmap;
pub(crate) mod mremap;
pub(crate) mod mutexes;
pub(crate) mod order;
pub(crate) mod small;
pub(crate) mod stacks;
mod strays;
pub(crate) mod unmanaged;
pub(crate) mod vma;
mod window;

/// Calls that change mappings, or lock all of them: they are made here.
pub(crate) const CHANGES: [usize; 8] = [
    hook::SYS_BRK,
    uzswap_sys::mlock::SYS_MLOCKALL,
    mmap::SYS_MMAP,
    mmap::SYS_MUNMAP,
    mremap::SYS_MREMAP,
    mmap::SYS_MADVISE,
    mmap::SYS_MPROTECT,
    mmap::SYS_PKEY_MPROTECT,
];
