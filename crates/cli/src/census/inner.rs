//! A group that runs in another: both launchers have the outer one's group file, and tell each
//! other there what is had and what is left.

use std::os::unix::ffi::OsStringExt;

use uzswap_ctl::{ENV_GROUP, Group, Key, WORDS};
use uzswap_sys::shared::SharedWords;

use super::process::Stat;

/// The group that this launcher is a process of.
pub(super) struct Outer {
    group: Group,
    /// What this launcher is called there.
    pid: i32,
}

impl Outer {
    pub(super) fn of_environment() -> Option<Self> {
        let path = std::ffi::CString::new(std::env::var_os(ENV_GROUP)?.into_vec()).ok()?;
        let group = Group::open(SharedWords::open(&path, WORDS).ok()?.words())?;
        let pid = uzswap_sys::thread::pid();
        Some(Self { group, pid })
    }

    /// Another process tells it from now on.
    pub(super) fn take_over(&mut self) {
        let before = std::mem::replace(&mut self.pid, uzswap_sys::thread::pid());
        self.group.rename_inner(before, self.pid);
    }

    /// Tell it that the group inside has so many bytes, and that one what it may have.
    pub(super) fn exchange(&self, inner: Group, current: u64) {
        self.group.tell_inner(self.pid, current);
        let max = self.group.memory_max();
        let others = self.group.current().saturating_sub(self.group.inner_charge(self.pid));
        let left = match max {
            // No limit: no word.
            u64::MAX => 0,
            max => 1 + max.saturating_sub(others),
        };
        inner.set(Key::OuterMax, left);
    }

    /// Its limit is the one that holds: the rule is its to apply.
    pub(super) fn ask(&self) {
        self.group.set(Key::OomAsked, uzswap_sys::time::now_ns());
    }

    /// The group inside has ended.
    pub(super) fn leave(&self) {
        self.group.tell_inner(self.pid, 0);
        self.group.forget_inner(self.pid);
    }
}

/// Groups inside this one whose launcher has been killed have nobody who says what they have: their
/// processes are sampled from now on.
pub(super) fn forget_dead(group: Group) {
    let is_dead = |pid: &i32| Stat::of(*pid).is_none_or(|stat| stat.is_over);
    group
        .inner_launchers()
        .filter(is_dead)
        .for_each(|pid| group.forget_inner(pid));
}
