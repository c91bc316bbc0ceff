//! The mover's lines, on a thread of their own: whoever reads them may stop reading, and segments
//! must come back all the same.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

/// Lines that wait to be read. What more there is is dropped.
const LINES: usize = 64;
/// How long the mover waits at its end until they are written.
const WRITTEN_WITHIN: Duration = Duration::from_secs(1);

enum Word {
    Line(String),
    /// All before it is written: tell so.
    Flush(SyncSender<()>),
}

/// Who says lines, and is never waited for.
pub(super) struct Speaker(SyncSender<Word>);

impl Speaker {
    /// One that writes lines as `write` does.
    ///
    /// # Errors
    /// There is no thread.
    pub(super) fn begin(write: impl Fn(&str) + Send + 'static) -> std::io::Result<Self> {
        let (speaker, words) = sync_channel(LINES);
        let thread = std::thread::Builder::new().name("speaker".to_owned());
        thread.spawn(move || speak(&words, write))?;
        Ok(Self(speaker))
    }

    /// A line.
    pub(super) fn say(&self, line: &str) {
        let _ = self.0.try_send(Word::Line(line.to_owned()));
    }

    /// Wait until all is written, if somebody reads.
    pub(super) fn flush(&self) {
        let (done, is_done) = sync_channel(1);
        if self.0.try_send(Word::Flush(done)).is_ok() {
            let _ = is_done.recv_timeout(WRITTEN_WITHIN);
        }
    }
}

fn speak(words: &Receiver<Word>, write: impl Fn(&str)) {
    for word in words {
        match word {
            Word::Line(line) => write(&line),
            Word::Flush(done) => drop(done.try_send(())),
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn lines_that_nobody_reads_hold_up_nobody() {
        let (reader, written) = sync_channel(0);
        let speaker = Speaker::begin(move |line| drop(reader.send(line.to_owned()))).unwrap();
        (0..3 * LINES).for_each(|line| speaker.say(&line.to_string()));
        let read: Vec<String> = (0..LINES).map(|_| written.recv().unwrap()).collect();
        assert!(
            read.iter().enumerate().all(|(i, line)| *line == i.to_string()),
            "{read:?}"
        );
    }

    #[test]
    fn all_is_written_when_that_was_waited_for() {
        let (reader, written) = sync_channel(2);
        let speaker = Speaker::begin(move |line| drop(reader.send(line.to_owned()))).unwrap();
        speaker.say("one");
        speaker.say("two");
        speaker.flush();
        assert_eq!(written.try_iter().collect::<Vec<_>>(), ["one", "two"]);
    }
}
