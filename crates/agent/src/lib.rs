//! The agent: preloaded into every process of a group, it pages the process's private anonymous
//! memory.
//!
//! It is a guest. It has its own heap, stacks, threads and descriptor table. It shadows no symbol
//! of the program, never calls the program's malloc, and never writes to its stdout. It costs a
//! process that stays small nothing but the replacement of a few libc wrappers. Only when a process
//! has mapped `memcg::deferral::ACTIVATE_BYTES` does it start its threads.
//!
//! | folder or file | what |
//! |---|---|
//! | `init`, `x86_64` | the constructor; names that its code and the compilers call, bound here |
//! | `guest` | in the program's threads: replaced functions of libc, changes of mappings in order |
//! | `guard` | the program's system calls, where the kernel cannot wait for a page |
//! | `pager` | the state of an active agent, its threads, mailboxes, what a trace is told |
//! | `fault` | events and faults: by the fault thread and its servers, or by who raises them |
//! | `cpu` | how and where the fault thread waits for a fault |
//! | `kswapd` | the reclaim thread: background reclaim, finding mappings, accounting |
//! | `memcg` | charging the group and enforcing its limit |
//! | `machine` | the engine's machine: userfaultfd, staging range, pool's range, swap file |
//! | `codec` | what may be stored with: compressors, devices, background compression |
//! | `fork` | handing a forked child its own pager |
//! | `statics` | what becomes of each global in a forked child |
//!
//! # Threads and locks
//! The program's stacks may lie in managed memory, and a thread that faults while it holds what the
//! pager needs would wait for itself. So the program's threads take a lock of the engine in one
//! place alone: the handler that serves their own fault (`fault::inline`), on a stack of ours, with
//! all signals blocked that could take one. Else they talk to the pager's threads through mailboxes
//! (futex words). Lock order: engine lock, then the heap's lock.

// The library that is embedded stands alone. In a build of the whole workspace std is there anyway:
// the agent gets the features of a dependency that the launcher needs. It brings what a program has
// only once (a panic handler).
#![cfg_attr(uzswap_image, no_std)]

extern crate alloc;

mod codec;
mod config;
mod cpu;
mod fault;
mod fork;
mod guard;
mod guest;
mod init;
mod kswapd;
mod machine;
mod memcg;
mod pager;
mod statics;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg_attr(uzswap_image, global_allocator)]
static HEAP: uzswap_sys::heap::Heap = uzswap_sys::heap::Heap::new();

/// Last words in one line, then the process stops: a page must never read back wrong because its
/// pager is confused.
#[cfg_attr(uzswap_image, panic_handler)]
#[cfg_attr(not(uzswap_image), allow(dead_code, reason = "std panics"))]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    let (at, why) = (info.location(), info.message());
    let (file, line) = at.map_or(("?", 0), |at| (at.file(), at.line()));
    pager::say_last(format_args!("uzswap: stopping the process: {why} ({file}:{line})\n"));
    uzswap_sys::thread::kill_self()
}
