//! Whether something that some loads may do pays: to keep the blocks of what is loaded, to protect
//! its pages.

use crate::policy::tunables::keeping;

/// Whether something that some loads may do pays.
#[derive(Default)]
pub(crate) struct Worth {
    points: i32,
    loads: u32,
}

impl Worth {
    /// It gained so much, or cost so much (below 0).
    pub(crate) fn note(&mut self, points: i32) {
        self.points = (self.points + points).clamp(-keeping::POINTS, keeping::POINTS);
    }

    /// Whether it is done to all loads.
    pub(crate) fn is_proven(&self) -> bool {
        self.points >= 0
    }

    /// A run is loaded: whether to do it.
    pub(crate) fn is_due(&mut self) -> bool {
        self.loads = self.loads.wrapping_add(1);
        self.is_proven() || self.loads.is_multiple_of(keeping::PROBE_EVERY)
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn what_is_written_is_soon_not_kept() {
        let mut keeping = Worth::default();
        assert!((0..100).all(|_| keeping.is_due()));
        (0..2 * keeping::POINTS).for_each(|_| keeping.note(-1));
        assert_eq!((0..160).filter(|_| keeping.is_due()).count(), 10);
        (0..keeping::POINTS).for_each(|_| keeping.note(1));
        assert!(keeping.is_due());
    }
}
