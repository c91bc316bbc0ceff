//! How things look: in colours, or by weight alone where NO_COLOR asks for none.

use ratatui::style::{Color, Modifier, Style};

#[derive(Clone, Copy, Debug)]
pub(super) struct Palette {
    has_colour: bool,
}

impl Palette {
    pub(super) fn new(has_colour: bool) -> Self {
        Self { has_colour }
    }

    /// As the environment asks for (no-color.org).
    pub(super) fn of_environment() -> Self {
        Self::new(std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()))
    }

    fn ink(self, colour: Color) -> Style {
        match self.has_colour {
            true => Style::new().fg(colour),
            false => Style::new(),
        }
    }

    fn paper(self, colour: Color) -> Style {
        match self.has_colour {
            true => Style::new().fg(Color::Black).bg(colour),
            false => Style::new().add_modifier(Modifier::REVERSED),
        }
    }

    pub(super) fn resident(self) -> Style {
        self.ink(Color::Green)
    }

    pub(super) fn pool(self) -> Style {
        self.ink(Color::Cyan)
    }

    pub(super) fn other(self) -> Style {
        self.ink(Color::Magenta)
    }

    pub(super) fn free(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    pub(super) fn titles(self) -> Style {
        match self.has_colour {
            true => self.paper(Color::Green),
            false => Style::new().add_modifier(Modifier::UNDERLINED),
        }
    }

    /// Of the column that rows are sorted by.
    pub(super) fn sorted(self) -> Style {
        self.paper(Color::Cyan).add_modifier(Modifier::BOLD)
    }

    pub(super) fn selected(self) -> Style {
        self.paper(Color::Cyan)
    }

    pub(super) fn bold(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    pub(super) fn failed(self) -> Style {
        self.ink(Color::Red).add_modifier(Modifier::BOLD)
    }
}
