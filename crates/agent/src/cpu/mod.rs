//! Whose turn on a core it is: how the fault thread waits, where it runs, and who yields to it.

pub(crate) mod cores;
pub(crate) mod follow;
pub(crate) mod io_poll;
pub(crate) mod resched;
pub(crate) mod spin;
pub(crate) mod vigil;
