//! The terminal, taken and given back: with a key, a signal or a panic.

use std::io::{self, Stdout, stdout};
use std::mem::ManuallyDrop;
use std::sync::Once;

use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode, size,
};
use rustix::process::{Signal, getpid, kill_process};

use super::draw::draw;
use super::model::Model;
use super::palette::Palette;

/// Columns that it has. `None`: its size is not known, and nothing can be drawn.
pub(super) fn width() -> Option<usize> {
    let (width, height) = size().ok()?;
    (width > 0 && height > 0).then_some(width.into())
}

type Drawn = ratatui::Terminal<CrosstermBackend<Stdout>>;

/// Ours until dropped.
pub(super) struct Terminal {
    /// Its own way to be dropped is to say on stderr that the terminal has gone, and to panic where
    /// stderr has gone with it.
    inner: ManuallyDrop<Drawn>,
    palette: Palette,
}

impl Terminal {
    /// Take it: keys come one by one, and what stood there is kept.
    pub(super) fn take() -> io::Result<Self> {
        give_back_on_panic();
        let inner = ManuallyDrop::new(enter().inspect_err(|_| leave())?);
        Ok(Self {
            inner,
            palette: Palette::of_environment(),
        })
    }

    /// # Errors
    /// It is gone.
    pub(super) fn draw(&mut self, model: &mut Model) -> io::Result<()> {
        model.width = self.inner.size()?.width.into();
        self.inner.draw(|frame| draw(frame, model, self.palette)).map(drop)
    }

    /// Stop as a shell's job does, and go on when the shell says so.
    pub(super) fn stop(&mut self) -> io::Result<()> {
        leave();
        // Nobody else is stopped: jobs of a shell are groups of their own.
        let _ = kill_process(getpid(), Signal::STOP);
        self.take_again()
    }

    /// Somebody else, a shell, has had it.
    pub(super) fn take_again(&mut self) -> io::Result<()> {
        leave();
        self.inner = ManuallyDrop::new(enter()?);
        Ok(())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        leave();
    }
}

fn enter() -> io::Result<Drawn> {
    enable_raw_mode()?;
    execute!(stdout(), EnterAlternateScreen)?;
    // A new one remembers nothing of what it drew before, so it draws all.
    ratatui::Terminal::new(CrosstermBackend::new(stdout()))
}

/// Whoever hung up needs nothing back.
fn leave() {
    let _ = execute!(stdout(), LeaveAlternateScreen, Show);
    let _ = disable_raw_mode();
}

/// Give back what can be given back without writing to it.
pub(super) fn abandon() {
    let _ = disable_raw_mode();
}

/// A panic ends the process without dropping anything, and its message is to be read.
fn give_back_on_panic() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            leave();
            before(info);
        }));
    });
}
