//! Whether processor time is rationed here: `cpu.max` of control groups version 2,
//! `cpu.cfs_quota_us` of version 1.

use crate::cgroup::{self, Named};

/// Whether this process's control group, or one above it, has a quota. What cannot be read has
/// none.
pub(crate) fn is_set() -> bool {
    let file = Named {
        controller: "cpu",
        v2: "cpu.max",
        v1: "cpu.cfs_quota_us",
    };
    cgroup::first_words(&file).iter().any(|word| is_quota(word))
}

/// `max`, or `-1`: none.
fn is_quota(word: &str) -> bool {
    word.parse::<u64>().is_ok()
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_quota_is_a_number() {
        assert!(is_quota("50000"));
        assert!(!is_quota("max") && !is_quota("-1") && !is_quota(""));
    }
}
