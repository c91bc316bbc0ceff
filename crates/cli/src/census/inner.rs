//! A group that runs in another: both launchers have the outer one's group file, and tell each
//! other there what is had and what is left.

use std::path::PathBuf;

use uzswap_ctl::{ENV_GROUP, Group, Launcher, Notice, WORDS};
use uzswap_sys::cut_short::{self, Loss};
use uzswap_sys::shared::SharedWords;

use super::Census;
use super::process::Stat;
use crate::group::{OpenGroup, c_path, ending};

/// The group that this launcher is a process of.
pub(super) struct Outer {
    group: Group,
    /// Who this launcher is there.
    own: Launcher,
}

impl Outer {
    /// As the environment names it to the launcher of the group `inner`.
    pub(super) fn of_environment(inner: &OpenGroup) -> Option<Self> {
        let path = PathBuf::from(std::env::var_os(ENV_GROUP)?);
        let words = SharedWords::open(&c_path(&path).ok()?, WORDS).ok()?.words();
        cut_short::watch(words, Loss::Ends(ending(&path, &inner.path).ok()?));
        let group = Group::open(words)?;
        Some(Self { group, own: own()? })
    }

    /// Another process tells it from now on.
    pub(super) fn take_over(&mut self) {
        let Some(now) = own() else { return };
        let before = std::mem::replace(&mut self.own, now);
        self.group.rename_inner(before, now);
    }

    /// Tell it that the group inside has so many bytes, and that one what it may have.
    pub(super) fn exchange(&self, inner: Group, current: u64) {
        self.group.tell_inner(self.own, current);
        let max = self.group.memory_max();
        let others = self.group.current().saturating_sub(self.group.inner_charge(self.own));
        let left = match max {
            // No limit: no word.
            u64::MAX => 0,
            max => 1 + max.saturating_sub(others),
        };
        inner.tell(Notice::OuterMax, left);
    }

    /// Its limit is the one that holds: the rule is its to apply.
    pub(super) fn ask(&self) {
        self.group.tell(Notice::OomAsked, uzswap_sys::time::now_ns());
    }

    /// The group inside has ended.
    pub(super) fn leave(&self) {
        self.group.tell_inner(self.own, 0);
        self.group.forget_inner(self.own);
    }
}

fn own() -> Option<Launcher> {
    Some(Launcher::new(uzswap_sys::thread::pid(), Stat::own()?.start))
}

impl Census {
    /// Groups inside this one whose launcher has been killed have nobody who says what they have:
    /// their processes are sampled from now on.
    pub(super) fn forget_dead_inner(&self) {
        let is_it = |stat: &Stat, launcher: Launcher| stat.start == launcher.start() && !stat.is_over;
        let lives = |launcher: Launcher| {
            // Known by the number that it has where it lives.
            let is_member = self.members.iter().any(|(pid, member)| {
                member.inner_pid == launcher.pid()
                    && member.stat.start == launcher.start()
                    && Stat::of(*pid).is_some_and(|stat| is_it(&stat, launcher))
            });
            is_member || Stat::of(launcher.pid()).is_some_and(|stat| is_it(&stat, launcher))
        };
        let dead = self.group.inner_launchers().filter(|launcher| !lives(*launcher));
        dead.for_each(|launcher| self.group.forget_inner(launcher));
    }
}
