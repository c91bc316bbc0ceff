//! How far the benchmark is: a bar on a terminal, lines elsewhere.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressStyle};

/// Runs done of all.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    done: u64,
    total: u64,
}

impl Progress {
    pub(crate) fn new(total: u64) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(total);
            let style = ProgressStyle::with_template("{bar:30} {pos}/{len} runs, {elapsed}, {eta} left  {wide_msg}");
            if let Ok(style) = style {
                bar.set_style(style);
            }
            bar.enable_steady_tick(std::time::Duration::from_millis(500));
            bar
        });
        Self { bar, done: 0, total }
    }

    /// What is being done.
    pub(crate) fn begin(&self, what: &str) {
        match &self.bar {
            Some(bar) => bar.set_message(what.to_owned()),
            None => eprintln!("[{}/{}] {what}", self.done, self.total),
        }
    }

    /// A line that stays.
    pub(crate) fn say(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| eprintln!("{line}")),
            None => eprintln!("{line}"),
        }
    }

    /// So many runs are done, or will not be.
    pub(crate) fn advance(&mut self, runs: u64) {
        self.done += runs;
        if let Some(bar) = &self.bar {
            bar.set_position(self.done);
        }
    }
}
