//! What a run prints: whether it is the same as another's, the last of it, and passing it on.

use std::io::{Read, Write};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use xxhash_rust::xxh3::Xxh3;

/// So long an end is waited for once all who could write are gone.
const END: Duration = Duration::from_secs(5);
/// So much of what was said last is kept.
const TAIL: usize = 4096;

/// What is kept of it.
pub(crate) trait Kept: Default + Send + 'static {
    fn take(&mut self, bytes: &[u8]);
}

/// A fingerprint of all of it.
#[derive(Default)]
pub(crate) struct Fingerprint(Xxh3);

impl Fingerprint {
    pub(crate) fn value(&self) -> u64 {
        self.0.digest()
    }
}

impl Kept for Fingerprint {
    fn take(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }
}

/// Its end.
#[derive(Default)]
pub(crate) struct Tail(Vec<u8>);

impl Tail {
    /// The last line that is one.
    pub(crate) fn line(&self) -> Option<String> {
        let text = String::from_utf8_lossy(&self.0);
        let line = text.lines().rfind(|line| !line.trim().is_empty())?;
        Some(line.trim_end().to_owned())
    }
}

impl Kept for Tail {
    fn take(&mut self, bytes: &[u8]) {
        self.0.extend(bytes);
        let too_many = self.0.len().saturating_sub(TAIL);
        self.0.drain(..too_many);
    }
}

/// Something that is being read to its end.
pub(crate) struct Reading<T>(Receiver<T>);

impl<T: Kept> Reading<T> {
    /// Read `from` in a thread of its own, passing on what comes to `to`.
    pub(crate) fn begin(mut from: impl Read + Send + 'static, mut to: Option<Box<dyn Write + Send>>) -> Self {
        let (send, receive) = channel();
        std::thread::spawn(move || {
            let mut kept = T::default();
            let mut buffer = vec![0; 64 << 10];
            loop {
                match from.read(&mut buffer) {
                    Ok(0) => break,
                    Ok(length) => {
                        kept.take(&buffer[..length]);
                        // Whoever reads may have gone.
                        let _ = to
                            .as_mut()
                            .map(|to| to.write_all(&buffer[..length]).and_then(|()| to.flush()));
                    }
                    Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                    Err(_) => break,
                }
            }
            let _ = send.send(kept);
        });
        Self(receive)
    }

    /// What was kept. `None`: somebody has it open still who could not be ended.
    pub(crate) fn end(self) -> Option<T> {
        self.0.recv_timeout(END).ok()
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_fingerprint_does_not_depend_on_pieces() {
        let of = |pieces: &[&[u8]]| {
            let mut fingerprint = Fingerprint::default();
            pieces.iter().for_each(|piece| fingerprint.take(piece));
            fingerprint.value()
        };
        assert_eq!(of(&[b"a", b"bc"]), of(&[b"abc"]));
        assert_ne!(of(&[b"abc"]), of(&[b"abd"]));
    }

    #[test]
    fn the_last_line_is_kept_of_much() {
        let mut text = b"first\n".repeat(10_000);
        text.extend(b"why\n\n");
        let tail = Reading::<Tail>::begin(std::io::Cursor::new(text), None).end().unwrap();
        assert_eq!(tail.line().as_deref(), Some("why"));
        assert_eq!(tail.0.len(), TAIL);
        assert_eq!(Tail::default().line(), None);
    }
}
