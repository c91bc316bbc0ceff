//! Where a page is put that was loaded, and what becomes of its block.

use crate::policy::Policy;
use crate::policy::view::Working;

/// Whether blocks may be kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keep {
    /// `--swap-cache`.
    pub(crate) is_on: bool,
    /// The pool has room for blocks that may not be needed.
    pub(crate) has_room: bool,
    /// Pages whose blocks are kept are mapped protected.
    pub(crate) protects: bool,
}

impl Keep {
    /// What was decided before the load, as far as it holds still.
    pub(crate) fn and(self, now: Self) -> Self {
        Self {
            is_on: self.is_on && now.is_on,
            has_room: self.has_room && now.has_room,
            ..self
        }
    }
}

/// A page was loaded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoadFacts {
    /// Pages stored since it was; `None`: long ago. As many more frames would have kept it.
    pub(crate) distance: Option<u64>,
    /// Its block may be kept: it would be made in the same way again, or a relative has it too.
    pub(crate) is_keepable: bool,
    /// A relative has its block too, so freeing it frees nothing.
    pub(crate) is_inherited: bool,
}

/// Where it is put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admit {
    /// It is wanted: other pages leave before it.
    Active,
    /// Its block is kept.
    Cached,
    Inactive,
}

impl Policy {
    /// Where a page is put that was loaded.
    pub(crate) fn admit(&mut self, page: LoadFacts, keep: Keep, working: Working) -> Admit {
        let costs_nothing = keep.is_on && page.is_keepable && page.is_inherited;
        match page.is_keepable && (keep.has_room || costs_nothing) {
            _ if !costs_nothing && self.wants(page, working) => Admit::Active,
            true => Admit::Cached,
            false => Admit::Inactive,
        }
    }

    /// What becomes of the blocks of `pages` pages that are loaded together, from the pool or not,
    /// where `keep` could be.
    pub(crate) fn keeps(&mut self, pages: usize, of_pool: bool, keep: Keep) -> Keep {
        let is_run = of_pool && pages >= self.tunables.keeping.stream_min;
        let has_room = keep.has_room && is_run && self.keeping.is_due();
        Keep {
            has_room,
            protects: has_room && self.protecting.is_due(),
            ..keep
        }
    }

    /// log2 of the pages that are unprotected with one that is written to.
    pub(crate) fn unprotect_order(&self) -> u32 {
        match self.protecting.is_proven() {
            true => self.tunables.keeping.unprotect_order,
            false => self.tunables.keeping.probe_unprotect_order,
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::policy::replacement::Replacement;
    use crate::policy::tunables::Tunables;

    #[test]
    fn a_page_that_memory_would_have_kept_is_active_unless_its_block_costs_nothing() {
        let working = Working {
            pages: 100,
            ..Working::default()
        };
        let keep = Keep {
            is_on: true,
            has_room: true,
            protects: false,
        };
        let page = |distance, is_keepable, is_inherited| LoadFacts {
            distance,
            is_keepable,
            is_inherited,
        };
        let mut policy = Policy::new(&Tunables::DEFAULT, Replacement::default(), false);
        let mut admit = |page| policy.admit(page, keep, working);
        assert_eq!(admit(page(Some(100), true, false)), Admit::Active);
        assert_eq!(admit(page(Some(101), true, false)), Admit::Cached);
        assert_eq!(admit(page(None, true, false)), Admit::Cached);
        assert_eq!(admit(page(None, false, false)), Admit::Inactive);
        assert_eq!(admit(page(Some(1), true, true)), Admit::Cached);
        let full = Keep {
            has_room: false,
            ..keep
        };
        assert_eq!(policy.admit(page(None, true, false), full, working), Admit::Inactive);
        assert_eq!(policy.admit(page(None, true, true), full, working), Admit::Cached);
        let off = Keep { is_on: false, ..full };
        assert_eq!(policy.admit(page(Some(1), true, true), off, working), Admit::Active);
    }
}
