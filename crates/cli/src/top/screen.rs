//! The loop: look every so often, draw, and do what keys and signals ask for.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use ratatui::crossterm::event::{self, Event, KeyEventKind};
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGTERM, SIGTSTP};
use signal_hook::iterator::Signals;

use super::errands::{Reclaim, limit};
use super::keys::Action;
use super::model::{Model, Prompt, Status, Verb};
use super::terminal::{self, Terminal};
use super::{look, seconds_since};
use crate::{Failure, reclaim};

/// How long a signal is left to the loop.
const GRACE: Duration = Duration::from_secs(3);

/// What can happen between two looks.
enum Message {
    Input(Event),
    Signal(i32),
    /// Of a group, a reclaim has ended.
    Reclaimed(String, Result<String, String>),
    /// Nothing can be read from the terminal any more.
    HungUp,
}

struct Screen {
    model: Model,
    terminal: Terminal,
    messages: Receiver<Message>,
    sender: Sender<Message>,
    /// Groups of which something is being reclaimed.
    reclaiming: Vec<String>,
}

/// Why the loop ends.
enum End {
    Quit,
    Signal(i32),
}

/// Until told to quit, look every `interval` seconds.
pub(super) fn show(interval: f64) -> Result<u8, Failure> {
    let interval = Duration::from_secs_f64(interval);
    let mut at = Instant::now();
    let mut model = Model::new();
    model.see(look()?, seconds_since(&mut at));
    let mut screen = Screen::begin(model).map_err(|e| Failure::new(format!("taking the terminal: {e}")))?;
    loop {
        match screen.show_until(at + interval) {
            Ok(None) => {}
            Ok(Some(End::Signal(signal))) => return Ok(exit_status(signal)),
            // Nobody looks any more.
            Ok(Some(End::Quit)) | Err(_) => return Ok(0),
        }
        screen.model.see(look()?, seconds_since(&mut at));
    }
}

impl Screen {
    fn begin(model: Model) -> io::Result<Self> {
        let (sender, messages) = channel();
        let signals = Signals::new([SIGHUP, SIGINT, SIGTERM, SIGTSTP, SIGCONT])?;
        let terminal = Terminal::take()?;
        spawn_reader(sender.clone())?;
        spawn_waiter(signals, sender.clone())?;
        Ok(Self {
            model,
            terminal,
            messages,
            sender,
            reclaiming: Vec::new(),
        })
    }

    /// Draw, again after all that happens.
    ///
    /// # Errors
    /// The terminal is gone.
    fn show_until(&mut self, due: Instant) -> io::Result<Option<End>> {
        loop {
            self.terminal.draw(&mut self.model)?;
            let left = due.saturating_duration_since(Instant::now());
            match self.messages.recv_timeout(left) {
                Ok(message) => {
                    if let Some(end) = self.obey(message)? {
                        return Ok(Some(end));
                    }
                }
                Err(RecvTimeoutError::Timeout) => return Ok(None),
                Err(RecvTimeoutError::Disconnected) => return Ok(Some(End::Quit)),
            }
        }
    }

    fn obey(&mut self, message: Message) -> io::Result<Option<End>> {
        match message {
            Message::Input(Event::Key(key)) if key.kind != KeyEventKind::Release => {
                let action = self.model.press(key);
                return action.map_or(Ok(None), |action| self.act(action));
            }
            // It is drawn in its new size.
            Message::Input(_) => {}
            Message::Signal(SIGTSTP) => self.terminal.stop()?,
            Message::Signal(SIGCONT) => self.terminal.take_again()?,
            Message::Signal(signal) => return Ok(Some(End::Signal(signal))),
            Message::Reclaimed(group, result) => {
                // Not another of the same group, which refused it.
                let at = self.reclaiming.iter().position(|name| *name == group);
                at.map(|at| self.reclaiming.swap_remove(at));
                self.say(result);
            }
            Message::HungUp => return Ok(Some(End::Quit)),
        }
        Ok(None)
    }

    fn act(&mut self, action: Action) -> io::Result<Option<End>> {
        match action {
            Action::Quit => return Ok(Some(End::Quit)),
            Action::Suspend => self.terminal.stop()?,
            Action::Do(prompt) => {
                let said = self.run(&prompt);
                self.say(said);
            }
        }
        Ok(None)
    }

    fn run(&mut self, Prompt { verb, group, text }: &Prompt) -> Result<String, String> {
        match verb {
            Verb::Limit => limit(group, text),
            Verb::Reclaim => {
                let reclaim = Reclaim::new(group, text)?;
                let said = format!("reclaiming {} ...", reclaim.what());
                let begun = self.begin_reclaim(group, reclaim);
                begun.map(|()| said).map_err(|e| format!("reclaiming: {e}"))
            }
        }
    }

    /// In the background: keys are obeyed meanwhile.
    fn begin_reclaim(&mut self, group: &str, reclaim: Reclaim) -> io::Result<()> {
        let (name, sender) = (group.to_owned(), self.sender.clone());
        spawn(move || {
            let result = reclaim.run();
            // Where nobody listens any more it has been given up.
            let _ = sender.send(Message::Reclaimed(name, result));
        })?;
        self.reclaiming.push(group.to_owned());
        Ok(())
    }

    fn say(&mut self, result: Result<String, String>) {
        self.model.status = Some(match result {
            Ok(line) => Status::Said(line),
            Err(line) => Status::Failed(line),
        });
    }
}

impl Drop for Screen {
    /// With this process go the threads that would end their requests.
    fn drop(&mut self) {
        self.reclaiming.iter().for_each(|group| reclaim::give_up(group));
    }
}

/// A thread that ends with this process.
fn spawn(work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    std::thread::Builder::new().spawn(work).map(drop)
}

fn spawn_reader(sender: Sender<Message>) -> io::Result<()> {
    spawn(move || {
        while let Ok(event) = event::read() {
            if sender.send(Message::Input(event)).is_err() {
                return;
            }
        }
        let _ = sender.send(Message::HungUp);
    })
}

fn spawn_waiter(mut signals: Signals, sender: Sender<Message>) -> io::Result<()> {
    spawn(move || {
        for signal in signals.forever() {
            if sender.send(Message::Signal(signal)).is_err() {
                return;
            }
            if ![SIGTSTP, SIGCONT].contains(&signal) {
                end_at_last(signal);
            }
        }
    })
}

/// The loop is given time to obey. It cannot where it waits for a terminal that takes nothing.
fn end_at_last(signal: i32) -> ! {
    std::thread::sleep(GRACE);
    terminal::abandon();
    std::process::exit(exit_status(signal).into())
}

/// As of a program that the signal has ended.
fn exit_status(signal: i32) -> u8 {
    (128 + signal) as u8
}
