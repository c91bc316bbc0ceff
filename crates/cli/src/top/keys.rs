//! What keys do.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::model::{Model, Prompt, Verb};

/// How far PageUp and PageDown go.
const PAGE: isize = 10;
/// What a line has at most: no size is longer.
const LINE_MAX: usize = 40;

/// What the model cannot do by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Quit,
    /// Stop, as a shell's job.
    Suspend,
    /// Do to a group what was asked for.
    Do(Prompt),
}

/// For the line at the bottom, the most important first.
pub(super) const HINTS: [&str; 7] = [
    "q quit",
    "h help",
    "l limit",
    "R reclaim",
    "< > sort",
    "r reverse",
    "Space fold",
];

/// Keys and what they do, for the page of help.
pub(super) const HELP: [(&str, &str); 9] = [
    ("q Esc", "quit"),
    ("Up Down j k", "select a row; PgUp PgDn Home End too"),
    ("< > s", "sort by the column to the left, the right"),
    ("r", "reverse the order"),
    ("Space", "fold a group's processes away, and back"),
    ("l", "limit: set memory.max, as `uzswap set`"),
    ("R", "reclaim so much now, as `uzswap reclaim`"),
    ("h ?", "this page"),
    ("Ctrl-Z", "stop; `fg` goes on"),
];

impl Model {
    /// A key was pressed.
    pub(super) fn press(&mut self, key: KeyEvent) -> Option<Action> {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return self.press_control(key.code);
        }
        let was_told = self.status.take().is_some();
        match self.prompt.take() {
            Some(prompt) => self.write(prompt, key.code),
            // It is gone by now, which is all that was asked for.
            None if was_told && key.code == KeyCode::Esc => None,
            None if self.has_help => self.leave_help(),
            None => self.command(key.code),
        }
    }

    fn press_control(&mut self, code: KeyCode) -> Option<Action> {
        match (code, &mut self.prompt) {
            (KeyCode::Char('c'), _) => return Some(Action::Quit),
            (KeyCode::Char('z'), _) => return Some(Action::Suspend),
            (KeyCode::Char('u'), Some(prompt)) => prompt.text.clear(),
            // The backspace of some terminals.
            (KeyCode::Char('h'), Some(prompt)) => drop(prompt.text.pop()),
            _ => {}
        }
        None
    }

    fn leave_help(&mut self) -> Option<Action> {
        self.has_help = false;
        None
    }

    /// A key of a line that is being written.
    fn write(&mut self, mut prompt: Prompt, code: KeyCode) -> Option<Action> {
        match code {
            KeyCode::Esc => return None,
            KeyCode::Enter if prompt.text.trim().is_empty() => return None,
            KeyCode::Enter => return Some(Action::Do(prompt)),
            KeyCode::Backspace => drop(prompt.text.pop()),
            KeyCode::Char(c) if prompt.text.chars().count() < LINE_MAX => prompt.text.push(c),
            _ => {}
        }
        self.prompt = Some(prompt);
        None
    }

    fn command(&mut self, code: KeyCode) -> Option<Action> {
        match code {
            KeyCode::Char('q') | KeyCode::Esc => return Some(Action::Quit),
            KeyCode::Char('h' | '?') => self.has_help = true,
            KeyCode::Char('k') | KeyCode::Up => self.go(-1),
            KeyCode::Char('j') | KeyCode::Down => self.go(1),
            KeyCode::PageUp => self.go(-PAGE),
            KeyCode::PageDown => self.go(PAGE),
            KeyCode::Home => self.go(isize::MIN),
            KeyCode::End => self.go(isize::MAX),
            KeyCode::Char('<') => self.sort_by_next(-1),
            KeyCode::Char('>' | 's') => self.sort_by_next(1),
            KeyCode::Char('r') => self.reverse(),
            KeyCode::Char(' ') => self.fold(),
            KeyCode::Char('l') => self.ask(Verb::Limit),
            KeyCode::Char('R') => self.ask(Verb::Reclaim),
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod test {
    use super::super::model::Status;
    use super::super::model::test::model;
    use super::*;

    /// What the last of them leads to.
    fn press(model: &mut Model, keys: &str) -> Option<Action> {
        let code = |c| match c {
            '\n' => KeyCode::Enter,
            '\x1b' => KeyCode::Esc,
            '\x08' => KeyCode::Backspace,
            c => KeyCode::Char(c),
        };
        let mut press = |c| model.press(KeyEvent::new(code(c), KeyModifiers::NONE));
        keys.chars().map(&mut press).last().flatten()
    }

    #[test]
    fn keys_that_end_it() {
        for keys in ["q", "\x1b", "h?q", "lq\x1b\x1b"] {
            assert_eq!(press(&mut model(), keys), Some(Action::Quit), "{keys:?}");
        }
        for keys in ["hq", "h\x1b", "lq", "l\x1b", "x", "l\n"] {
            assert_eq!(press(&mut model(), keys), None, "{keys:?}");
        }
        let mut asking = model();
        press(&mut asking, "l64");
        let mut control = |c| asking.press(KeyEvent::new(KeyCode::Char(c), KeyModifiers::CONTROL));
        assert_eq!((control('z'), control('u')), (Some(Action::Suspend), None));
        assert_eq!(control('c'), Some(Action::Quit));
        assert_eq!(asking.prompt.unwrap().text, "");
    }

    #[test]
    fn a_line_is_asked_for_and_done() {
        let mut model = model();
        press(&mut model, "jjjl12x\x08M");
        let expected = Prompt {
            verb: Verb::Limit,
            group: "db".to_owned(),
            text: "12M".to_owned(),
        };
        assert_eq!(model.prompt, Some(expected.clone()));
        // It stays that group's, whatever goes on.
        model.see(Vec::new(), 1.0);
        assert_eq!(press(&mut model, "\n"), Some(Action::Do(expected)));
        assert_eq!(model.prompt, None);
        press(&mut model, "R");
        assert_eq!(model.prompt, None, "there is no group");
        let mut model = super::super::model::test::model();
        press(&mut model, &format!("R{}", "9".repeat(100)));
        let prompt = model.prompt.unwrap();
        assert_eq!((prompt.verb, prompt.text.len()), (Verb::Reclaim, LINE_MAX));
    }

    #[test]
    fn a_key_ends_what_was_said() {
        let mut model = model();
        model.status = Some(Status::Said("done".to_owned()));
        press(&mut model, "j");
        assert_eq!((model.status.is_none(), model.selected()), (true, 1));
        model.status = Some(Status::Failed("'abc' is not a size".to_owned()));
        assert_eq!((press(&mut model, "\x1b"), model.status.is_none()), (None, true));
        assert_eq!(press(&mut model, "\x1b"), Some(Action::Quit));
    }
}
