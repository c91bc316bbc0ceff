//! Whether something that some loads may do pays: to keep the blocks of what is loaded, to protect
//! its pages.

use crate::policy::tunables::Keeping;

/// Whether something that some loads may do pays.
pub(crate) struct Worth {
    tunables: &'static Keeping,
    points: i32,
    loads: u32,
}

impl Worth {
    /// Nothing speaks against it yet.
    pub(crate) fn new(tunables: &'static Keeping) -> Self {
        Self {
            tunables,
            points: 0,
            loads: 0,
        }
    }

    /// It gained so much, or cost so much (below 0).
    pub(crate) fn note(&mut self, points: i32) {
        self.points = (self.points + points).clamp(-self.tunables.points, self.tunables.points);
    }

    /// Whether it is done to all loads.
    pub(crate) fn is_proven(&self) -> bool {
        self.points >= 0
    }

    /// A run is loaded: whether to do it.
    pub(crate) fn is_due(&mut self) -> bool {
        self.loads = self.loads.wrapping_add(1);
        self.is_proven() || self.loads.is_multiple_of(self.tunables.probe_every)
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::policy::tunables::Tunables;

    #[test]
    fn what_is_written_is_soon_not_kept() {
        let tunables = &Tunables::DEFAULT.keeping;
        let mut keeping = Worth::new(tunables);
        assert!((0..100).all(|_| keeping.is_due()));
        (0..2 * tunables.points).for_each(|_| keeping.note(-1));
        assert_eq!((0..160).filter(|_| keeping.is_due()).count(), 10);
        (0..tunables.points).for_each(|_| keeping.note(1));
        assert!(keeping.is_due());
    }
}
