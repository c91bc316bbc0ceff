//! Whether something that some loads may do pays: to keep the blocks of what is loaded, to protect
//! its pages.

/// It does from 0 points on, and of one in so many loads below that, to see whether it would be
/// worth it again.
const POINTS: i32 = 1024;
const PROBE_EVERY: u32 = 16;

/// Whether something that some loads may do pays.
#[derive(Default)]
pub(crate) struct Worth {
    points: i32,
    loads: u32,
}

impl Worth {
    /// It gained so much, or cost so much (below 0).
    pub(crate) fn note(&mut self, points: i32) {
        self.points = (self.points + points).clamp(-POINTS, POINTS);
    }

    /// Whether it is done to all loads.
    pub(crate) fn is_proven(&self) -> bool {
        self.points >= 0
    }

    /// A run is loaded: whether to do it.
    pub(crate) fn is_due(&mut self) -> bool {
        self.loads = self.loads.wrapping_add(1);
        self.is_proven() || self.loads.is_multiple_of(PROBE_EVERY)
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn what_is_written_is_soon_not_kept() {
        let mut keeping = Worth::default();
        assert!((0..100).all(|_| keeping.is_due()));
        (0..2 * POINTS).for_each(|_| keeping.note(-1));
        assert_eq!((0..160).filter(|_| keeping.is_due()).count(), 10);
        (0..POINTS).for_each(|_| keeping.note(1));
        assert!(keeping.is_due());
    }
}
