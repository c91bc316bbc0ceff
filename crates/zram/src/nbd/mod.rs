//! The NBD protocol, as a server speaks it: newstyle with fixed handshake, simple replies.
//!
//! A client that breaks it is left: the connection is closed, and nothing is answered. One that
//! asks for what cannot be done is told so, and goes on.

pub(crate) mod handshake;
pub(crate) mod transmission;
pub(crate) mod wire;

#[cfg(test)]
mod test;
