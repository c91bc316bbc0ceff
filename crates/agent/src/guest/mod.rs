//! What runs in the program's threads, around its calls, and what it says of its memory. None of it
//! takes a lock of the engine, or allocates while the program holds a lock of its own.

pub(crate) mod closed;
pub(crate) mod hook;
pub(crate) mod identity;
pub(crate) mod mapped;
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
