//! What a decision is made from: numbers, all of one hold of the engine's lock.

/// Resident pages that can leave: the memory to work with.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Working {
    /// Those that do not leave because a relative has them are left out.
    pub(crate) pages: u64,
    /// Of them.
    pub(crate) active: u64,
    pub(crate) cached: u64,
    pub(crate) unevictable: u64,
}

/// What there is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct View {
    pub(crate) working: Working,
    /// All resident pages.
    pub(crate) resident: u64,
    /// Frames that wait to be stored.
    pub(crate) staged: u64,
    /// Pages that the pool holds, but for those of one word, and pages that it takes.
    pub(crate) objects: u64,
    pub(crate) pool: u64,
    /// Slots of the device in use.
    pub(crate) on_device: u64,
    /// There is a device, and pages may go there.
    pub(crate) drains: bool,
    /// What leaves the pool frees nothing, since a relative has it too.
    pub(crate) shares_pool: bool,
}

impl View {
    /// Whether memory comes free when an entry of the pool goes to the device.
    pub(crate) fn frees_by_sending_on(&self) -> bool {
        self.drains && !self.shares_pool
    }
}
