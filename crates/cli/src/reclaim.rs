//! `uzswap reclaim`: memory.reclaim for a group. The request is a number of bytes in the group
//! file, from which the processes' reclaim threads take pieces; it is over when nobody is at work
//! on it and nothing more comes of it.

use std::time::{Duration, Instant};

use uzswap_ctl::Notice;

use crate::options::ReclaimOptions;
use crate::{Failure, group};
use uzswap_ctl::size::Size;

const POLL: Duration = Duration::from_millis(10);
/// Reclaim threads look at least every 20 ms; one that waits for a fork or a disk may take longer.
const NO_PROGRESS: Duration = Duration::from_millis(1000);

/// Exit status 0 when all of it was reclaimed; else an error that says how much was.
pub(crate) fn reclaim(options: &ReclaimOptions) -> Result<u8, Failure> {
    let open = group::find(Some(&options.group))?;
    let group = &open.group;
    let Size(bytes) = options.size;
    // Requests that overlap would read each other's figures.
    if group.get(Notice::ReclaimAsked) > 0 {
        return Err(Failure::new(format!(
            "another request to reclaim '{}' is under way; try again when it is over",
            open.name
        )));
    }
    // A process that was killed at work on one stays counted.
    group.tell(Notice::ReclaimBusy, 0);
    group.tell(Notice::ReclaimDone, 0);
    group.tell(Notice::ReclaimZswap, u64::from(options.source.is_some()));
    group.tell(Notice::ReclaimAsked, bytes);
    let mut seen = (0, Instant::now());
    loop {
        std::thread::sleep(POLL);
        let done = group.get(Notice::ReclaimDone);
        if done != seen.0 {
            seen = (done, Instant::now());
        }
        let is_over = group.get(Notice::ReclaimAsked) == 0 && group.get(Notice::ReclaimBusy) == 0;
        if is_over || seen.1.elapsed() > NO_PROGRESS || !open.is_alive() {
            group.tell(Notice::ReclaimAsked, 0);
            let done = group.get(Notice::ReclaimDone);
            return if done >= bytes / 4096 * 4096 {
                Ok(0)
            } else {
                Err(Failure::new(format!(
                    "only {} of {} could be reclaimed of '{}'; `uzswap stat {}` shows what it has left, and how full the swap file is",
                    Size(done),
                    options.size,
                    open.name,
                    open.name
                )))
            };
        }
    }
}

/// End what is asked of a group: whoever asked for it will not be there to do so.
pub(crate) fn give_up(group: &str) {
    if let Ok(open) = group::find(Some(group)) {
        open.group.tell(Notice::ReclaimAsked, 0);
    }
}
