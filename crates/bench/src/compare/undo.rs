//! What was switched on in the kernel is switched off again, on every way out: when its guard is
//! dropped, on a signal, on a panic (which aborts and drops nothing).

use std::sync::{Mutex, MutexGuard, PoisonError};

use parking_lot::{ReentrantMutex, ReentrantMutexGuard};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::Failure;

type Action = Box<dyn FnOnce() -> Result<(), String> + Send>;

struct Entry {
    id: u64,
    /// What is undone, for the line that says that it could not be.
    what: String,
    action: Action,
}

/// The latest last.
static ENTRIES: Mutex<Vec<Entry>> = Mutex::new(Vec::new());

/// Undoes something when dropped.
#[must_use]
pub(crate) struct Undo(u64);

fn entries() -> MutexGuard<'static, Vec<Entry>> {
    ENTRIES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Held while something is switched on and not owed yet, and while something is undone: two threads
/// that undo at a time would do it in another order. Whoever undoes everything keeps it, and so
/// ends the others' turns for good.
static TURN: ReentrantMutex<()> = ReentrantMutex::new(());

/// To be held from before something is switched on until it is owed.
pub(crate) fn turn() -> ReentrantMutexGuard<'static, ()> {
    TURN.lock()
}

/// From now on `action` is owed.
pub(crate) fn owe(what: impl Into<String>, action: impl FnOnce() -> Result<(), String> + Send + 'static) -> Undo {
    let mut entries = entries();
    let id = entries.last().map_or(0, |last| last.id + 1);
    entries.push(Entry {
        id,
        what: what.into(),
        action: Box::new(action),
    });
    Undo(id)
}

impl Drop for Undo {
    fn drop(&mut self) {
        let _turn = turn();
        let mut owed = entries();
        let at = owed.iter().position(|entry| entry.id == self.0);
        let entry = at.map(|at| owed.remove(at));
        // An action may take long, and may itself owe or undo.
        drop(owed);
        if let Some(entry) = entry {
            carry_out(entry);
        }
    }
}

fn carry_out(entry: Entry) {
    if let Err(reason) = (entry.action)() {
        eprintln!("uzswap bench: could not undo '{}': {reason}", entry.what);
    }
}

/// Everything that is owed, the latest first.
fn undo_all() {
    let turn = turn();
    std::mem::forget(turn);
    loop {
        let entry = entries().pop();
        match entry {
            Some(entry) => carry_out(entry),
            None => return,
        }
    }
}

/// Undo everything when this process is told to end or panics.
pub(crate) fn on_every_way_out() -> Result<(), Failure> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])
        .map_err(|e| Failure::new(format!("cannot watch for SIGINT and SIGTERM: {e}")))?;
    std::thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            eprintln!("\nuzswap bench: ended by signal {signal}; putting things back");
            undo_all();
            std::process::exit(128 + signal);
        }
    });
    let say = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        say(info);
        undo_all();
    }));
    Ok(())
}

#[cfg(test)]
mod test {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn each_is_undone_once() {
        let count = Arc::new(AtomicU32::new(0));
        let owed = || {
            let count = Arc::clone(&count);
            owe("a test", move || {
                count.fetch_add(1, Ordering::Relaxed);
                Ok(())
            })
        };
        let (first, second) = (owed(), owed());
        drop(first);
        assert_eq!(count.load(Ordering::Relaxed), 1);
        drop(second);
        assert_eq!(count.load(Ordering::Relaxed), 2);
    }
}
