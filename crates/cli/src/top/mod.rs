//! `uzswap top`: the running groups and their processes, again and again. On a terminal they fill
//! the screen and obey keys; elsewhere they are lines.

mod columns;
mod detail;
mod draw;
mod errands;
mod header;
mod history;
mod keys;
mod look;
mod model;
mod palette;
mod plain;
mod rows;
mod screen;
mod table;
mod terminal;
mod text;

use std::io::IsTerminal;
use std::time::Instant;

use look::SeenGroup;
use rows::branches;

use crate::again::has_screen;
use crate::look_options::{AgainOptions, TopOptions};
use crate::{Failure, group};

/// `uzswap top`
pub(crate) fn top(options: &TopOptions) -> Result<u8, Failure> {
    let is_screen = can_be_screen();
    match is_screen && !options.plain && options.count.is_none() {
        true => screen::show(options.interval),
        false => lines(options, is_screen),
    }
}

/// Whether keys can be read, and what is written can be put anywhere.
fn can_be_screen() -> bool {
    std::io::stdin().is_terminal() && has_screen() && terminal::width().is_some()
}

fn lines(options: &TopOptions, is_screen: bool) -> Result<u8, Failure> {
    let again = AgainOptions {
        watch: Some(options.interval),
        diff: false,
        count: options.count,
    };
    let (mut before, mut at) = (Vec::new(), Instant::now());
    again.show(is_screen && !options.plain, || {
        let now = look()?;
        let branches = branches(&before, &now, seconds_since(&mut at));
        before = now;
        Ok(Some(plain::table(&branches, width_of_lines())))
    })
}

/// Whoever reads a pipe gets all.
fn width_of_lines() -> usize {
    let is_terminal = std::io::stdout().is_terminal();
    let width = is_terminal.then(terminal::width).flatten();
    width.unwrap_or(usize::MAX)
}

/// All groups that run.
fn look() -> Result<Vec<SeenGroup>, Failure> {
    Ok(group::running()?.iter().map(SeenGroup::look).collect())
}

/// From `at` to now, where `at` is then.
fn seconds_since(at: &mut Instant) -> f64 {
    let now = Instant::now();
    let before = std::mem::replace(at, now);
    now.duration_since(before).as_secs_f64().max(1e-3)
}
