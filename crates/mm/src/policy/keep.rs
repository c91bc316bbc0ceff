//! What becomes of the blocks of pages that are loaded.

/// Whether blocks may be kept.
#[derive(Clone, Copy)]
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
