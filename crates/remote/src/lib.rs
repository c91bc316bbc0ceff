//! The mover: takes cold segments of swap files elsewhere, and brings them back when they are
//! needed (docs/design/remote.md). It has ciphertext and no key.
//!
//! | file       | what is in it                                                  |
//! |------------|----------------------------------------------------------------|
//! | `store`    | what a remote can do, and trying it again                      |
//! | `file`     | a swap file, its table of segments, and what the remote has    |
//! | `mover`    | who is told what, and what follows                             |
//! | `services` | remotes by their URLs, through OpenDAL (feature `services`)    |

#![forbid(unsafe_code)]

mod file;
mod mover;
#[cfg(feature = "services")]
mod services;
mod store;
#[cfg(test)]
mod test;

pub use mover::{Counts, Mover, Watch};
#[cfg(feature = "services")]
pub use services::{Service, shown};
pub use store::{Place, Problem, Store, leave, probe};

/// Do what is to be waited for, on this thread.
///
/// # Errors
/// There is no runtime: what the system answered.
pub fn wait_for<T>(future: impl Future<Output = T>) -> std::io::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    Ok(runtime.block_on(future))
}
