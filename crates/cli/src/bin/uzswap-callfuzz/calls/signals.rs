//! Signals. All are blocked, so that none comes but to who asks for it.

use linux_raw_sys::general as nr;
use uzswap_sys::thread;

use super::Call;
use crate::arena::Twin;
use crate::play::{Answer, Play, w};

const MASK: usize = 8;
const ACTION: usize = 32;
const SIGINFO: usize = 128;
const STACK: usize = 24;
/// The signal that is sent and fetched again, and one whose action changes.
const SENT: usize = 40;
const CHANGED: usize = 61;
/// Sent by a program, with a word.
const SI_QUEUE: i32 = -1;
/// The stack for signals is none.
const SS_DISABLE: usize = 2;

pub(super) fn prepare() {
    block();
}

fn block() {
    thread::block_signals();
}

pub(super) const CALLS: &[Call] = &[
    ("rt_sigprocmask", 6, |p| {
        let (set, was, len) = (every(p), p.output(MASK), length(p));
        let how = p.pick(&[0, 2, 7]);
        p.call(nr::__NR_rt_sigprocmask, &[w(how), set, was, len]);
        p.before(|_, _| block());
        p.after(|_, _| {
            block();
            Ok(())
        });
    }),
    ("rt_sigpending", 3, |p| {
        let (set, len) = (p.output(MASK), length(p));
        p.call(nr::__NR_rt_sigpending, &[set, len]);
    }),
    ("rt_sigaction", 6, |p| {
        // SIG_DFL or SIG_IGN; its mask.
        let mut action = vec![0; ACTION];
        action[0] = p.below(2) as u8;
        action[24..].fill(p.below(256) as u8);
        let action = if p.one_in(3) { w(0) } else { p.input(&action) };
        let (was, len) = (p.loose(ACTION), length(p));
        p.call(nr::__NR_rt_sigaction, &[w(CHANGED), action, was, len]);
    }),
    ("rt_sigqueueinfo", 4, |p| {
        let info = info(p);
        p.call(nr::__NR_rt_sigqueueinfo, &[w(p.things.process), w(SENT), info]);
    }),
    ("rt_tgsigqueueinfo", 3, |p| {
        let info = info(p);
        let me = w(p.things.process);
        p.call(nr::__NR_rt_tgsigqueueinfo, &[me, me, w(SENT), info]);
    }),
    ("pidfd_send_signal", 3, |p| {
        let info = info(p);
        p.call(
            nr::__NR_pidfd_send_signal,
            &[w(p.things.process_file), w(SENT), info, w(0)],
        );
    }),
    ("rt_sigtimedwait", 12, |p| {
        // No other signal: those of children are there as well.
        let (set, info, time, len) = (p.whole_input(&of(SENT)), p.output(SIGINFO), p.time(0, 0), length(p));
        p.call(nr::__NR_rt_sigtimedwait, &[set, info, time, len]);
    }),
    ("sigaltstack", 3, |p| {
        let stack = p.words(&[w(0), w(SS_DISABLE), w(0)]);
        let stack = if p.one_in(2) { w(0) } else { stack };
        let was = p.loose(STACK);
        p.call(nr::__NR_sigaltstack, &[stack, was]);
    }),
    ("signalfd4", 3, |p| {
        let (set, len) = (p.input(&of(CHANGED)), length(p));
        p.call(nr::__NR_signalfd4, &[w(usize::MAX), set, len, w(0)]);
        p.answers(Answer::Descriptor);
    }),
    ("signalfd", 2, |p| {
        let (set, len) = (p.input(&of(CHANGED)), length(p));
        p.call(nr::__NR_signalfd, &[w(usize::MAX), set, len]);
        p.answers(Answer::Descriptor);
    }),
];

/// Bytes of a mask, as a rule.
fn length(p: &mut Play) -> Twin {
    if p.one_in(20) { w(p.below(20)) } else { w(MASK) }
}

fn of(signal: usize) -> [u8; MASK] {
    (1u64 << (signal - 1)).to_le_bytes()
}

fn every(p: &mut Play) -> Twin {
    if p.one_in(3) { w(0) } else { p.input(&[0xff; MASK]) }
}

fn info(p: &mut Play) -> Twin {
    let mut info = vec![0; SIGINFO];
    info[..4].copy_from_slice(&(SENT as u32).to_le_bytes());
    info[8..12].copy_from_slice(&SI_QUEUE.to_le_bytes());
    let word = p.random.next_u64().to_le_bytes();
    info[24..32].copy_from_slice(&word);
    p.input(&info)
}
