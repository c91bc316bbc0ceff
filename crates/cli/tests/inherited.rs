//! What a forked child inherits, and what not: swap files of its ancestors, locks, memory that is
//! wiped. And what a program locks that has no pager yet.

mod common;

use common::place::{Place, is_root};
use common::{Run, can_manage, run};

/// `programs/NAME.c`, run under `options`, where each user finds it.
fn inherits(name: &str, options: &[&str], args: &[&str]) -> Run {
    let what = format!("{name}-{}", args.join("-"));
    let place = Place::new(&format!("{what}-place"));
    run(&what, options, &[&[place.program(name).as_str()], args].concat())
}

/// More than there can be swap files of ancestors: what no word names any more is let go.
#[test]
fn generations_let_go_of_their_ancestors_files() {
    if can_manage() {
        for guard in ["auto", "on"] {
            let options = ["--memory-max", "9M", "--guard", guard];
            inherits("generations", &options, &["300"]).is_right();
        }
    }
}

#[test]
fn little_is_filled_for_a_program_that_locks_all() {
    if !can_manage() {
        return;
    }
    let guards: &[&str] = if is_root() { &["auto", "on"] } else { &["auto"] };
    for guard in guards {
        for what in ["current", "future", "both"] {
            inherits("locks_all", &["--memory-max", "40M", "--guard", guard], &["8", what]).is_right();
        }
    }
}

#[test]
fn locks_are_not_inherited() {
    if !can_manage() {
        return;
    }
    for way in [&[][..], &["--backend", "mprotect"]] {
        for what in ["some", "all"] {
            let options = [&["--memory-max", "40M"], way].concat();
            inherits("unlocked_child", &options, &[what]).is_right();
        }
    }
}

#[test]
fn what_may_be_dropped_is_wiped_in_a_child() {
    if can_manage() {
        inherits("droppable", &["--memory-max", "24M", "--backend", "mprotect"], &[]).is_right();
    }
}
