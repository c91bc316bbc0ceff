//! The largest pool of a running group, by looking at its group file again and again.

use std::ffi::CString;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use uzswap_ctl::{Field, Group, WORDS};
use uzswap_mm::page::PAGE_SIZE;
use uzswap_sys::shared::SharedWords;

/// As often as the agents write their sizes, about.
const INTERVAL: Duration = Duration::from_millis(20);

/// The pool when it was largest.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PoolPeak {
    pub(crate) bytes: u64,
    /// Of the pages that were stored in it.
    pub(crate) page_bytes: u64,
}

impl PoolPeak {
    /// Bytes of pages for each byte of the pool.
    pub(crate) fn ratio(self) -> f64 {
        if self.bytes == 0 {
            return 0.0;
        }
        self.page_bytes as f64 / self.bytes as f64
    }

    fn raise(&mut self, group: Group) {
        let bytes = group.sum(Field::Pool);
        if bytes > self.bytes {
            self.bytes = bytes;
            self.page_bytes = group.sum(Field::Stored) * PAGE_SIZE as u64;
        }
    }
}

/// Watch the group of that name from when it appears until `is_over`.
pub(crate) fn watch(group_name: &str, is_over: &AtomicBool) -> PoolPeak {
    let mut peak = PoolPeak::default();
    let mut file = None;
    while !is_over.load(Ordering::Relaxed) {
        file = file.or_else(|| open(group_name));
        if let Some(group) = file.as_ref().and_then(|file: &SharedWords| Group::open(file.words())) {
            peak.raise(group);
        }
        std::thread::sleep(INTERVAL);
    }
    peak
}

/// The file of a running group. `None`: it is not there yet.
pub(crate) fn open(group_name: &str) -> Option<SharedWords> {
    let uid = std::fs::metadata("/proc/self").ok()?.uid();
    let path = CString::new(format!("/tmp/uzswap-{uid}/{group_name}.group")).ok()?;
    SharedWords::open(&path, WORDS).ok()
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_pool_that_never_was_has_no_ratio() {
        let is_over = AtomicBool::new(true);
        assert_eq!(watch("no such group", &is_over).ratio(), 0.0);
        let peak = PoolPeak {
            bytes: 1000,
            page_bytes: 2500,
        };
        assert_eq!(peak.ratio(), 2.5);
    }
}
