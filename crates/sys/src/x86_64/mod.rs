//! What depends on the processor: another architecture has a folder of the same modules.

#[cfg(feature = "launcher")]
pub(crate) mod environment;
pub mod gateways;
pub mod guard;
#[cfg(feature = "launcher")]
pub mod inject;
pub(crate) mod instructions;
pub mod near;
mod nested;
pub mod signal;
pub mod string;
pub mod text;
