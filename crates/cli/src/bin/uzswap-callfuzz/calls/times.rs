//! Clocks and timers.

use linux_raw_sys::general as nr;
use uzswap_sys::testing;

use super::Call;
use crate::arena::Twin;
use crate::play::{Answer, Play, w};

const TIME: usize = 16;
const TIMER: usize = 32;
/// In so many seconds no timer ends while this runs.
const LATER: u64 = 1 << 24;
const SIGEV_NONE: u32 = 1;
const SIGEVENT: usize = 64;

pub(super) const CALLS: &[Call] = &[
    ("nanosleep", 4, |p| {
        let (time, left) = (p.time(0, 1000), rest(p));
        p.call(nr::__NR_nanosleep, &[time, left]);
    }),
    ("clock_nanosleep", 4, |p| {
        let (time, left, clock) = (p.time(0, 1000), rest(p), p.pick(&[0, 1, 99]));
        p.call(nr::__NR_clock_nanosleep, &[w(clock), w(0), time, left]);
    }),
    ("clock_gettime", 6, |p| {
        let (time, clock) = (p.loose(TIME), p.pick(&[0, 1, 2, 3, 4, 7, 99]));
        p.call(nr::__NR_clock_gettime, &[w(clock), time]);
    }),
    ("clock_getres", 3, |p| {
        let (time, clock) = (p.output(TIME), p.pick(&[0, 1, 5, 99]));
        p.call(nr::__NR_clock_getres, &[w(clock), time]);
    }),
    ("gettimeofday", 4, |p| {
        let (time, zone) = (p.loose(TIME), p.output(8));
        p.call(nr::__NR_gettimeofday, &[time, zone]);
    }),
    ("time", 3, |p| {
        let time = p.loose(8);
        p.call(nr::__NR_time, &[time]);
        p.answers(Answer::Number);
    }),
    ("times", 3, |p| {
        let times = p.loose(32);
        p.call(nr::__NR_times, &[times]);
        p.answers(Answer::Number);
    }),
    ("adjtimex", 2, |p| {
        // Nothing is to be set.
        let times = p.input_but(&[0; 208], std::slice::from_ref(&(0..208)));
        p.call(nr::__NR_adjtimex, &[times]);
        p.answers(Answer::Number);
    }),
    ("clock_adjtime", 2, |p| {
        let times = p.input_but(&[0; 208], std::slice::from_ref(&(0..208)));
        p.call(nr::__NR_clock_adjtime, &[w(0), times]);
        p.answers(Answer::Number);
    }),
    ("getitimer", 3, |p| {
        let (which, timer) = (p.below(4), p.loose(TIMER));
        p.call(nr::__NR_getitimer, &[w(which), timer]);
    }),
    ("setitimer", 3, |p| {
        let (which, timer, was) = (p.below(4), timer(p), p.loose(TIMER));
        p.call(nr::__NR_setitimer, &[w(which), timer, was]);
    }),
    ("timer_create", 4, |p| {
        let mut event = vec![0; SIGEVENT];
        event[12..16].copy_from_slice(&SIGEV_NONE.to_le_bytes());
        let (event, (number, at)) = (p.input(&event), p.loose_at(4));
        p.call(nr::__NR_timer_create, &[w(1), event, number]);
        p.after(move |p, results| {
            if let Some(at) = at.filter(|_| results == [0; 2]) {
                let made = p.answered(at, 4);
                let number = |bytes: &Vec<u8>| bytes.first_chunk().map_or(0, |word| u32::from_le_bytes(*word) as usize);
                let made = made.map(|[a, b]| [number(&a), number(&b)]);
                for old in std::mem::replace(&mut p.things.clocks, made).into_iter().flatten() {
                    testing::call(nr::__NR_timer_delete, [old, 0, 0, 0, 0, 0], &mut []);
                }
            }
            Ok(())
        });
    }),
    ("timer_settime", 4, |p| {
        let (clock, timer, was) = (clock(p), timer(p), p.loose(TIMER));
        p.call(nr::__NR_timer_settime, &[clock, w(0), timer, was]);
    }),
    ("timer_gettime", 4, |p| {
        let (clock, timer) = (clock(p), p.loose(TIMER));
        p.call(nr::__NR_timer_gettime, &[clock, timer]);
    }),
    ("timerfd_settime", 4, |p| {
        let (timer, was) = (timer(p), p.loose(TIMER));
        p.call(nr::__NR_timerfd_settime, &[p.things.timers, w(0), timer, was]);
    }),
    ("timerfd_gettime", 4, |p| {
        let timer = p.loose(TIMER);
        p.call(nr::__NR_timerfd_gettime, &[p.things.timers, timer]);
    }),
];

/// Where a call says what is left of a time.
fn rest(p: &mut Play) -> Twin {
    if p.one_in(2) { w(0) } else { p.output(TIME) }
}

/// When a timer is to end: later.
fn timer(p: &mut Play) -> Twin {
    let words = [0, 0, LATER, p.random.below(1_000_000_000)];
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    p.input(&bytes)
}

/// The timer that was made last.
fn clock(p: &mut Play) -> Twin {
    p.things.clocks.unwrap_or(w(usize::MAX))
}
