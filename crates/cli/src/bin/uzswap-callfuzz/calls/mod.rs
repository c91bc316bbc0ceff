//! The calls: a name, how often it is played beside the others, and how one is planned.
//!
//! None does harm to the machine, whoever runs it: what needs a privilege is left out.

mod bytes;
mod children;
mod files;
mod names;
mod process;
mod queues;
mod signals;
mod sockets;
mod times;
mod waits;

use std::sync::LazyLock;

use crate::play::Play;

type Call = (&'static str, usize, fn(&mut Play));

static ALL: LazyLock<Vec<Call>> = LazyLock::new(|| {
    let groups: [&[Call]; 10] = [
        bytes::CALLS,
        children::CALLS,
        files::CALLS,
        names::CALLS,
        process::CALLS,
        queues::CALLS,
        signals::CALLS,
        sockets::CALLS,
        times::CALLS,
        waits::CALLS,
    ];
    groups.concat()
});

pub(crate) fn all() -> &'static [Call] {
    &ALL
}

/// Before the first of them.
pub(crate) fn prepare() {
    signals::prepare();
}
