//! The only place in uzswap that talks to the kernel or touches raw memory.
//!
//! Every other crate forbids `unsafe`, but for the agent's C edge and `crates/c`, which C calls.
//! What they need from the machine they get here, behind safe types. Nothing in this crate calls
//! libc, allocates from the program's heap, or uses thread-local storage: it runs inside other
//! people's processes, in threads that libc does not know ([`thread`]), while those processes may
//! be in the middle of `malloc` or `fork`.
//!
//! | module | what it wraps |
//! |---|---|
//! | [`uffd`] | userfaultfd: register, copy, move, wake, events |
//! | [`closed`] | the program's memory where there is none |
//! | [`mapping`] | anonymous mappings that we own: the staging range, the pool, test memory |
//! | [`mod@words`] | atomic words that live as long as the process |
//! | [`mod@file`] | the swap file and other descriptors, positioned I/O |
//! | [`procfs`] | what `/proc/self` tells: mappings, residency, sizes |
//! | [`proc_mem`] | the program's memory as a file |
//! | [`sysfs`] | small files of the kernel's, and directories |
//! | [`portal`] | work queues of accelerators |
//! | [`futex`] | locks and mailboxes, private to a process or shared by a group |
//! | [`children`] | children of this process |
//! | [`crew`] | threads that share the pieces of one job |
//! | `cut_short` | group files that somebody truncates (only in the launcher) |
//! | [`thread`] | threads outside libc, with a descriptor table of their own |
//! | [`string`] | `memcpy` and its like, which no program can define for us |
//! | [`text`] | replacing the first instructions of a libc function |
//! | [`guard`] | where the program's system calls come by |
//! | [`near`] | stubs beside its code, and jumps to them |
//! | [`populate`] | its memory, where the kernel does not wait for a page |
//! | [`gateways`] | where they are made; having the kernel stop all others |
//! | [`signal`] | actions, masks, and what a handler of a signal is given |
//! | [`own_stack`] | stacks of our own for handlers |
//! | [`heap`] | the agent's allocator over one reserved range |
//! | [`region`] | memory that the library gives a program, and threads of its own |
//! | [`request`] | what the program asks of a userfaultfd of its own |
//! | [`shared`] | a file of 64-bit words that all processes of a group map |
//! | [`shield`] | a tracer for the pager's threads, so that nobody else stops them |
//! | [`cell`] | values set once and read without a lock |
//! | `job` | stops, and ends by a signal, as a shell sees them (only in the launcher) |
//! | [`keep`] | descriptors that the launcher holds until a process is gone |
//! | `inject` | a library in a program that loads none (only there) |
//! | `launch` | starting programs, and what reaches the launcher (only there) |
//! | [`khugepaged`] | what makes huge pages, kept off for a while |
//! | [`lent`] | descriptors that the program's threads share with the pager's |
//! | [`maps`] | the mappings of the process |
//! | [`libc`] | libc's own functions, whoever else defines their names |
//! | [`lz4`] | liblz4 through its allocation-free interface |

#![no_std]

extern crate alloc;

pub mod affinity;
pub mod aio;
pub mod aligned;
pub mod ask;
mod byte_locks;
pub mod cell;
pub mod children;
pub mod closed;
pub mod creds;
pub mod crew;
#[cfg(feature = "launcher")]
pub mod cut_short;
pub mod door;
pub mod executable;
pub mod file;
pub mod futex;
pub mod heap;
mod holes;
#[cfg(feature = "launcher")]
pub mod job;
pub mod keep;
pub mod khugepaged;
#[cfg(feature = "launcher")]
pub mod launch;
pub mod lent;
pub mod libc;
pub mod lz4;
pub mod mapping;
pub mod maps;
pub mod mlock;
pub mod mutex;
pub mod own_stack;
pub mod populate;
pub mod portal;
pub mod proc_mem;
pub mod procfs;
pub mod random;
pub mod region;
pub mod remains;
pub mod request;
pub mod robust;
pub mod sched;
pub mod shared;
pub mod shield;
pub mod small_file;
pub mod spans;
pub mod sysfs;
#[cfg(feature = "testing")]
pub mod testing;
pub mod thread;
pub mod time;
#[cfg(feature = "launcher")]
pub mod tracee;
pub mod turn;
pub mod uffd;
pub mod vdso;
pub mod wait;
pub mod words;
#[cfg(target_arch = "x86_64")]
mod x86_64;

pub use rustix::fd::{AsFd, OwnedFd};
pub use rustix::io::Errno;
#[cfg(all(target_arch = "x86_64", feature = "launcher"))]
use x86_64::environment;
#[cfg(all(target_arch = "x86_64", feature = "launcher"))]
pub use x86_64::inject;
#[cfg(target_arch = "x86_64")]
pub use x86_64::{gateways, guard, near, signal, string, text};

/// Bytes in a base page on every machine uzswap runs on (x86-64).
pub const PAGE_SIZE: usize = 4096;
