//! What the pager has to say, a line at a time.

use core::fmt::{self, Arguments};

use super::group;

/// Say one line on the stderr that the program was started with. What the program has at its number
/// by now may be a file of its own, and a thread of the pager has there what is the pager's. Then
/// the launcher says it, when CMD has ended.
///
/// Not inlined: the line would take room on the stack of each signal handler that may say one.
#[inline(never)]
pub(crate) fn say(text: Arguments<'_>) {
    say_line(Line::of(text).as_str());
}

fn say_line(line: &str) {
    if !uzswap_sys::file::write_stderr(line)
        && let Some(group) = group()
    {
        group.set_last_words(line);
    }
}

/// Last words, from any thread: to the launcher, and to stderr if this thread has one.
#[inline(never)]
pub(crate) fn say_last(text: Arguments<'_>) {
    let line = Line::of(text);
    group()
        .into_iter()
        .for_each(|group| group.set_last_words(line.as_str()));
    say_line(line.as_str());
}

/// One line of text that needs no heap.
pub(crate) struct Line([u8; 400], usize);

impl Line {
    pub(crate) fn of(text: Arguments<'_>) -> Self {
        let mut line = Self([0; 400], 0);
        let _ = fmt::Write::write_fmt(&mut line, text);
        line
    }

    pub(crate) fn as_str(&self) -> &str {
        core::str::from_utf8(&self.0[..self.1]).unwrap_or("uzswap: internal error\n")
    }
}

impl fmt::Write for Line {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        let n = s.len().min(self.0.len() - self.1);
        self.0[self.1..self.1 + n].copy_from_slice(&s.as_bytes()[..n]);
        self.1 += n;
        Ok(())
    }
}
