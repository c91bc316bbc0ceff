//! `uzswap metrics`: the counters of all groups as OpenMetrics text, once or over HTTP.
//!
//! | file       | what is in it                                       |
//! |------------|-----------------------------------------------------|
//! | `families` | the metrics of all groups: names, units, values     |
//! | `text`     | OpenMetrics' text format                            |
//! | `server`   | an HTTP server that answers each request with them  |

mod families;
mod server;
mod text;

use crate::look_options::MetricsOptions;
use crate::output::print;
use crate::{Failure, group};

/// `uzswap metrics`
pub(crate) fn metrics(options: &MetricsOptions) -> Result<u8, Failure> {
    match options.listen {
        Some(address) => server::serve(address),
        None => {
            print(&now()?)?;
            Ok(0)
        }
    }
}

/// All metrics of the groups that run now.
fn now() -> Result<String, Failure> {
    let groups = group::running()?;
    Ok(families::of(&groups.iter().map(families::Seen::of).collect::<Vec<_>>()))
}
