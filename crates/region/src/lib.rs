//! Memory that pages itself, for programs that ask for it.
//!
//! A [`Region`] is memory like any other. All regions of a process together stay below one
//! [`limit`]: what is cold is compressed into a pool in the process, and the coldest part of that
//! goes to a swap file if there is one. A page comes back when it is touched. Nothing else of the
//! process is touched: no function is replaced, no signal handled, nothing preloaded.
//!
//! ```
//! # fn main() -> Result<(), uzswap_region::Error> {
//! uzswap_region::limit(64 << 20)?;
//! let mut region = uzswap_region::Region::new(256 << 20)?;
//! region[123 << 20] = 7;
//! assert_eq!(region[123 << 20], 7);
//! # Ok(())
//! # }
//! ```
//!
//! # What to know
//! - **System calls.** Where [`Stats::get`]`("serves_system_calls")` is 0, as it is without
//!   privileges, a system call that reads or writes cold memory fails with EFAULT. [`Region::pin`]
//!   keeps a part where it is for as long as that takes.
//! - **fork.** A child does not have the regions of its parent: it ends with SIGSEGV where it
//!   touches one. It can make regions of its own.
//! - **Signal handlers** must not touch a region: one that interrupts `malloc` might wait for ever.
//! - Where contents do not compress and there is no swap file, the limit is exceeded
//!   (`limit_exceeded` counts the faults), as the alternative is to end the process.
//!
//! The design is in docs/design/region.md.

#![forbid(unsafe_code)]

mod charge;
mod error;
mod fault;
mod kswapd;
mod machine;
mod pager;
mod pins;
mod region;
mod settings;
mod stats;

pub use error::Error;
pub use pins::Pinned;
pub use region::Region;
pub use settings::Settings;
pub use stats::{Stats, stats};
pub use uzswap_ctl::size::Size;

/// Have the regions of this process stay below `bytes`: what is resident, the pool, and the swap
/// table. It can be changed at any time; [`Settings`] has more to choose before the first region.
///
/// # Errors
/// It is too small ([`Error::Value`]), or what the first region takes cannot be had.
pub fn limit(bytes: u64) -> Result<(), Error> {
    pager::limit(bytes)
}
