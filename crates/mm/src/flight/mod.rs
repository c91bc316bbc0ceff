//! What somebody does without the engine's lock.

pub(crate) mod departing;
pub(crate) mod leaving;
