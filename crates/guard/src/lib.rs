//! What stands before a program's system calls, where the kernel may not wait for a page.
//!
//! A userfaultfd of an ordinary user serves faults of the program alone: the kernel, copying to or
//! from a page that is not there, gets none and answers EFAULT. So the program's calls are seen
//! before the kernel sees them, and what they reach is brought and held first.
//!
//! | module | what |
//! |---|---|
//! | [`site`] | where code makes system calls, and what a jump may take the place of |
//! | [`notes`] | what was found there, for the next process |
//! | [`stub`] | the code that such a jump leads to |
//! | [`frames`] | where functions begin and end |
//! | [`table`] | what each call reaches, a row a call ([`row`] has its words) |
//! | [`reach`] | the memory that one call with its arguments reaches |
//! | [`seccomp`] | what a filter of the program answers to calls of a pager |
//!
//! Nothing here makes a system call or touches the program: `uzswap-sys` puts the jumps into place,
//! the agent brings and holds.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod frames;
pub mod notes;
pub mod reach;
pub mod row;
pub mod seccomp;
mod x86_64;

pub use x86_64::{site, stub, table};
