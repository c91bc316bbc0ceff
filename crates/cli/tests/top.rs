//! `uzswap top` on a terminal, which is a pseudo-terminal here: what is on it is what a person
//! would see.

mod common;

use std::fs::File;
use std::num::NonZeroU16;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use common::{Held, UZSWAP, can_manage};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Termios, Winsize, tcgetattr, tcsetwinsize};
use vt100::Parser;

/// As long as anybody would wait.
const PATIENCE: Duration = Duration::from_secs(60);

/// `uzswap top` on a terminal of its own.
struct Screen {
    child: Child,
    /// The terminal's end of the cable, and the computer's.
    master: OwnedFd,
    computer: File,
    parser: Parser,
    /// All that was written to it.
    written: Vec<u8>,
    before: Termios,
}

fn some(number: u16) -> NonZeroU16 {
    NonZeroU16::new(number).expect("not zero")
}

fn window((width, height): (u16, u16)) -> Winsize {
    Winsize {
        ws_row: height,
        ws_col: width,
        ws_xpixel: 0,
        ws_ypixel: 0,
    }
}

impl Screen {
    fn start(size: (u16, u16), args: &[&str], env: &[(&str, &str)]) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).expect("a pseudo-terminal");
        grantpt(&master).expect("access");
        unlockpt(&master).expect("unlocking");
        let name = ptsname(&master, Vec::new())
            .expect("its name")
            .into_string()
            .expect("a path");
        tcsetwinsize(&master, window(size)).expect("its size");
        let computer = File::options()
            .read(true)
            .write(true)
            .open(name)
            .expect("the other end");
        let before = tcgetattr(&computer).expect("its modes");
        let end = || Stdio::from(computer.try_clone().expect("another descriptor"));
        // In a session of its own, whose terminal it is.
        let child = Command::new("setsid")
            .args(["--ctty", UZSWAP, "top", "--interval", "0.1"])
            .args(args)
            .env("TERM", "xterm-256color")
            .env_remove("NO_COLOR")
            .envs(env.iter().copied())
            .stdin(end())
            .stdout(end())
            .stderr(end())
            .spawn()
            .expect("setsid uzswap top");
        Self {
            child,
            master,
            computer,
            parser: Parser::new(some(size.1), some(size.0), 0),
            written: Vec::new(),
            before,
        }
    }

    /// One that shows groups, or that there are none.
    fn of_80_columns() -> Self {
        let mut screen = Self::start((80, 24), &[], &[]);
        screen.wait_for("q quit");
        screen
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    fn text(&self) -> String {
        self.parser.screen().contents()
    }

    fn last_line(&self) -> String {
        let text = self.text();
        text.trim_end().lines().last().unwrap_or_default().to_owned()
    }

    /// What was written within a moment.
    fn read(&mut self) {
        let mut polled = [PollFd::new(&self.master, PollFlags::IN)];
        let moment = Timespec {
            tv_sec: 0,
            tv_nsec: 20_000_000,
        };
        if poll(&mut polled, Some(&moment)).is_ok_and(|ready| ready > 0) {
            let mut bytes = [0; 4096];
            let count = rustix::io::read(&self.master, &mut bytes).unwrap_or(0);
            self.parser.process(&bytes[..count]);
            self.written.extend(&bytes[..count]);
        }
    }

    #[track_caller]
    fn wait_until(&mut self, what: &str, mut is_so: impl FnMut(&mut Self) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !is_so(self) {
            assert!(Instant::now() < deadline, "waited until {what}:\n{}", self.text());
            self.read();
        }
    }

    #[track_caller]
    fn wait_for(&mut self, text: &str) {
        self.wait_until(text, |screen| screen.text().contains(text));
    }

    #[track_caller]
    fn press(&mut self, keys: &str) {
        rustix::io::write(&self.master, keys.as_bytes()).expect("pressing a key");
    }

    fn resize(&mut self, size: (u16, u16)) {
        tcsetwinsize(&self.master, window(size)).expect("another size");
        self.parser.screen_mut().set_size(some(size.1), some(size.0));
    }

    #[track_caller]
    fn end(&mut self) -> ExitStatus {
        let mut status = None;
        self.wait_until("it ends", |screen| {
            status = screen.child.try_wait().expect("waiting");
            status.is_some()
        });
        self.read();
        status.expect("it has ended")
    }

    /// The terminal is as it was before.
    #[track_caller]
    fn assert_given_back(&mut self) {
        self.wait_until("the screen is left", |screen| {
            !screen.parser.screen().alternate_screen() && !screen.parser.screen().hide_cursor()
        });
        let now = tcgetattr(&self.computer).expect("its modes");
        assert_eq!(
            (now.local_modes, now.input_modes, now.output_modes),
            (
                self.before.local_modes,
                self.before.input_modes,
                self.before.output_modes
            )
        );
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn keys_end_it_and_the_terminal_is_given_back() {
    for key in ["q", "\x1b", "\x03"] {
        let mut screen = Screen::of_80_columns();
        assert!(screen.parser.screen().alternate_screen());
        let modes = tcgetattr(screen.computer.as_fd()).expect("its modes").local_modes;
        assert!(!modes.intersects(LocalModes::ICANON | LocalModes::ECHO));
        screen.press(key);
        assert_eq!(screen.end().code(), Some(0), "{key:?}");
        screen.assert_given_back();
    }
}

#[test]
fn signals_end_it_and_the_terminal_is_given_back() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let mut screen = Screen::of_80_columns();
        kill_process(screen.pid(), signal).expect("a signal");
        assert_eq!(screen.end().code(), Some(128 + signal.as_raw()), "{signal:?}");
        screen.assert_given_back();
    }
}

#[test]
fn it_stops_as_a_job_and_goes_on() {
    let mut screen = Screen::of_80_columns();
    for _ in 0..2 {
        screen.press("\x1a");
        screen.wait_until("it stops", |screen| {
            let options = WaitOptions::UNTRACED | WaitOptions::NOHANG;
            let stopped = waitpid(Some(screen.pid()), options).expect("waiting");
            stopped.is_some_and(|(_, status)| status.stopped())
        });
        screen.assert_given_back();
        kill_process(screen.pid(), Signal::CONT).expect("a signal");
        screen.wait_until("it is back", |screen| screen.parser.screen().alternate_screen());
        screen.wait_for("q quit");
    }
    screen.press("q");
    assert!(screen.end().success());
    screen.assert_given_back();
}

#[test]
fn a_terminal_that_is_gone_ends_it() {
    let mut screen = Screen::of_80_columns();
    screen.master = File::open("/dev/null").expect("/dev/null").into();
    // By the signal of a terminal that hangs up, or for want of anything to read.
    let status = screen.child.wait().expect("waiting");
    assert!([Some(0), Some(129)].contains(&status.code()), "{status}");
}

/// A connection that is stuck: what is written waits for ever.
#[test]
fn a_terminal_that_takes_no_more_does_not_keep_it() {
    let mut screen = Screen::of_80_columns();
    // All is drawn anew each time, and nobody reads it.
    for round in 0..200 {
        tcsetwinsize(&screen.master, window((79 + round % 2, 24))).expect("another size");
        std::thread::sleep(Duration::from_millis(2));
    }
    kill_process(screen.pid(), Signal::TERM).expect("a signal");
    let status = screen.child.wait().expect("waiting");
    assert_eq!(status.code(), Some(128 + Signal::TERM.as_raw()), "{status}");
}

#[test]
fn any_size_is_drawn() {
    let mut screen = Screen::of_80_columns();
    screen.resize((30, 5));
    screen.wait_for("30x5 is too small for 40x8");
    screen.resize((160, 45));
    screen.wait_for("sorted by MEM");
    screen.resize((40, 10));
    screen.wait_until("it is drawn small", |screen| {
        screen.last_line() == "q quit  h help  l limit  R reclaim"
    });
    screen.press("h");
    screen.wait_for("any key: back");
    screen.press("xq");
    assert!(screen.end().success());
}

/// No database of terminals is asked.
#[test]
fn a_terminal_of_a_name_that_nobody_knows_is_drawn_on() {
    let mut screen = Screen::start((80, 24), &[], &[("TERM", "xyz")]);
    screen.wait_for("q quit");
    assert!(screen.parser.screen().alternate_screen());
    screen.press("q");
    assert!(screen.end().success());
    screen.assert_given_back();
}

#[test]
fn it_has_no_colours_where_none_are_wanted() {
    let coloured = |env: &[(&str, &str)]| {
        let mut screen = Screen::start((80, 24), &[], env);
        screen.wait_for("q quit");
        screen.press("q");
        assert!(screen.end().success());
        let written = String::from_utf8_lossy(&screen.written).into_owned();
        // As crossterm names colours of ink and of paper.
        ["\x1b[30m", "\x1b[3", "38;5;", "48;5;"][2..]
            .iter()
            .any(|code| written.contains(code))
    };
    assert!(coloured(&[]) && coloured(&[("NO_COLOR", "")]));
    assert!(!coloured(&[("NO_COLOR", "1")]));
}

#[test]
fn it_is_lines_where_it_cannot_be_a_screen() {
    for (args, env) in [
        (&["--count", "2"][..], &[("TERM", "dumb")][..]),
        (&["--count", "2"], &[("TERM", "unknown")]),
        (&["--plain", "-n2"], &[]),
    ] {
        let mut screen = Screen::start((80, 24), args, env);
        assert!(screen.end().success());
        screen.wait_for("GROUP / PID");
        let written = String::from_utf8_lossy(&screen.written);
        assert!(!written.contains('\x1b'), "{written:?}");
        assert!(written.lines().all(|line| line.chars().count() <= 80), "{written}");
        assert_eq!(written.matches("GROUP / PID").count(), 2);
    }
    let output = Command::new(UZSWAP)
        .args(["top", "-n", "1"])
        .output()
        .expect("uzswap top");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains(" SWOUT/S") && !text.contains('\x1b'),
        "{text}"
    );
}

#[test]
fn groups_are_shown_limited_and_reclaimed() {
    if !can_manage() {
        return;
    }
    let held = Held::start("top", &["--memory-max", "64M"], 32);
    let mut screen = Screen::of_80_columns();
    screen.wait_for(&held.group);
    // Others may be running, of other tests: this one is sought by its name.
    let seek = |screen: &mut Screen| {
        let title = format!("── {}: ", held.group);
        let mut looks = 0;
        screen.wait_until("the group is selected", |screen| {
            let is_selected = screen.text().contains(&title);
            if !is_selected {
                looks += 1;
                // No key before the first look: what it shows would be of before that key.
                screen.press(if looks % 16 == 0 { "\x1b[H" } else { "j" });
            }
            is_selected
        });
    };
    seek(&mut screen);
    screen.press("l5Q");
    screen.wait_for(": 5Q_");
    screen.press("\r");
    screen.wait_for("memory.max: '5Q' is not a size: write a number of bytes");
    screen.wait_for("or a percentage as 50%");

    screen.press("l1.5G\r");
    screen.wait_for(&format!("memory.max of {} is 1.5G now", held.group));
    assert_eq!(held.now("memory.max"), 3 << 29);
    screen.wait_for("1.50G");

    screen.press("R4M\r");
    screen.wait_until("it is reclaimed", |screen| {
        let line = screen.last_line();
        line == format!("reclaimed 4M from {}", held.group) || line.contains("of 4M could be reclaimed")
    });
    screen.press("R1X\r");
    screen.wait_for("'1X' is not a size");

    seek(&mut screen);
    screen.press("l8M");
    screen.wait_for(": 8M_");
    let group = held.group.clone();
    held.finish();
    screen.wait_for("(now gone): 8M_");
    screen.press("\r");
    screen.wait_for(&format!("no group named '{group}' is running"));
    screen.press("q");
    assert!(screen.end().success());
    screen.assert_given_back();
}
