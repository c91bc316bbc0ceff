//! Children: programs that are begun, and how they end.

use linux_raw_sys::general as nr;
use uzswap_sys::testing;

use super::Call;
use crate::arena::Twin;
use crate::play::{Answer, Play, w};
use crate::things::Things;

const USAGE: usize = 144;
const SIGINFO: usize = 128;
/// The child's number, in `siginfo_t`.
const PID: std::ops::Range<usize> = 16..20;
const STATUS: u8 = 3;
const WEXITED: usize = 4;
/// Bytes of an argument at most (MAX_ARG_STRLEN).
const ARGUMENT: usize = 131_071;
const AT_FDCWD: usize = usize::MAX - 99;

pub(super) const CALLS: &[Call] = &[
    ("execve", 1, |p| {
        let (path, args, environment) = (program(p), arguments(p), environment(p));
        p.call(nr::__NR_execve, &[path, args, environment]);
        p.in_child();
    }),
    ("execveat", 1, |p| {
        let (path, args, environment) = (program(p), arguments(p), environment(p));
        p.call(nr::__NR_execveat, &[w(AT_FDCWD), path, args, environment, w(0)]);
        p.in_child();
    }),
    ("wait4", 1, |p| {
        let (status, usage) = (p.output(4), p.loose(USAGE));
        p.call(nr::__NR_wait4, &[w(usize::MAX), status, w(0), usage]);
        p.before(bear);
        p.answers(Answer::Number);
    }),
    ("waitid", 1, |p| {
        let (info, usage) = (p.output_but(SIGINFO, &[PID]), p.loose(USAGE));
        p.call(nr::__NR_waitid, &[w(0), w(0), info, w(WEXITED), usage]);
        p.before(bear);
    }),
];

fn bear(_things: &mut Things, _which: usize) {
    let _ = testing::fork_and(|| STATUS);
}

fn program(p: &mut Play) -> Twin {
    p.text("/usr/bin/test")
}

/// `test X = X`, which succeeds if both are the same.
fn arguments(p: &mut Play) -> Twin {
    let len = if p.one_in(3) { p.below(ARGUMENT) } else { p.below(200) };
    let long: String = (0..len).map(|n| char::from(b'a' + (n % 23) as u8)).collect();
    let texts = ["test", &long, "=", &long];
    let mut words: Vec<Twin> = texts.iter().map(|text| p.text(text)).collect();
    words.push(w(0));
    p.words(&words)
}

fn environment(p: &mut Play) -> Twin {
    let mut words: Vec<Twin> = (0..p.below(40)).map(|n| p.text(&format!("NAME{n}=value"))).collect();
    words.push(w(0));
    p.words(&words)
}
