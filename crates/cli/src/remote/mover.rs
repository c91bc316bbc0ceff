//! The mover's side of the pipe.

use std::cell::Cell;
use std::io::BufRead;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use serde_json::{Value, json};
use uzswap_ctl::{Group, MEMBERSHIP, PROCESSES, Statistic, WORDS};
use uzswap_remote::{Counts, Mover, Place, Service, Watch, leave, probe, wait_for};
use uzswap_sys::cut_short::{self, Loss};
use uzswap_sys::door::{Door, is_over};
use uzswap_sys::keep::Keeper;
use uzswap_sys::shared::{Leases, SharedWords};

use super::speaker::Speaker;
use crate::group::c_path;
use crate::log;
use crate::output::{say, warn_line, write};
use crate::{FAILED, Failure, describe};

/// Whose segments are moved.
struct Members {
    orders: OwnedFd,
    group: Group,
    leases: Leases,
    speaker: Speaker,
    /// The launcher lives, and its stderr is ours.
    is_led: Cell<bool>,
    /// It waits to be told what is left.
    is_asked: Cell<bool>,
    place: String,
}

impl Watch for Members {
    fn say(&self, line: &str) {
        self.speaker.say(line);
    }

    fn note(&self, counts: &Counts) {
        for (statistic, value) in [
            (Statistic::RemoteBytes, counts.bytes),
            (Statistic::RemoteSent, counts.sent),
            (Statistic::RemoteFetched, counts.fetched),
            (Statistic::RemoteLost, counts.lost),
        ] {
            self.group.note(statistic, value);
        }
    }

    fn is_over(&self) -> bool {
        if !is_over(&self.orders) {
            return false;
        }
        if self.is_led.replace(false) {
            self.let_go();
            // Its last word waits in the pipe, if it had one.
            self.is_asked.set(matches!(next_order(), Ok(Some(_))));
        }
        !self.leases.is_held(MEMBERSHIP)
    }

    fn end(&self, left: usize) {
        let answer = json!({ "left": left });
        let is_told = self.is_asked.get() && write(&format!("{answer}\n")).is_ok_and(|is_read| is_read);
        if !is_told && left > 0 {
            self.say(&super::left_behind(left as u64, &self.place));
        }
        self.speaker.flush();
    }
}

impl Members {
    /// Whoever reads the launcher's stderr waits for its end.
    fn let_go(&self) {
        self.speaker.flush();
        if let Ok(nowhere) = std::fs::OpenOptions::new().write(true).open("/dev/null") {
            let _ = rustix::stdio::dup2_stderr(nowhere);
        }
    }
}

/// `uzswap mover`
pub(crate) fn mover() -> Result<u8, Failure> {
    // Whoever signals a whole service tells the mover too, while CMD needs its memory: nothing that
    // is sent ends it. A limit of file sizes is an error of the write, not an end.
    uzswap_sys::thread::block_signals();
    // What the terminal sends is for CMD; nor does the mover end with it.
    let _ = rustix::process::setsid();
    // For the files of its processes, and connections.
    Keeper::make_room(PROCESSES as u64);
    let Some(order) = next_order()? else { return Ok(FAILED) };
    let served = wait_for(serve(order)).map_err(|e| Failure::new(format!("the mover: {e}")))?;
    served.map(|()| 0)
}

/// `None`: the launcher has gone.
fn next_order() -> Result<Option<Value>, Failure> {
    let mut line = String::new();
    let failure = |e: &dyn std::fmt::Display| Failure::new(format!("the mover's orders: {e}"));
    match std::io::stdin().lock().read_line(&mut line).map_err(|e| failure(&e))? {
        0 => Ok(None),
        _ => serde_json::from_str(&line).map(Some).map_err(|e| failure(&e)),
    }
}

fn text<'a>(order: &'a Value, word: &str) -> &'a str {
    order[word].as_str().unwrap_or_default()
}

/// Answer why an order cannot be followed.
fn refuse(why: &str) -> Result<(), Failure> {
    say!("{}", json!({ "error": why }));
    Ok(())
}

async fn serve(order: Value) -> Result<(), Failure> {
    log::begin(&log::log_to(text(&order, "log")).map_err(Failure)?)?;
    let (store, place) = match Service::of_url(text(&order, "url"), text(&order, "run")) {
        Ok(found) => found,
        Err(why) => return refuse(&why),
    };
    if let Err(problem) = probe(store.clone(), &place).await {
        leave(&store, &place).await;
        let why = problem.0;
        return refuse(&format!("{why}; it must take an object, give it back and delete it"));
    }
    say!(
        "{}",
        json!({ "patience": place.patience.as_secs(), "prefix": place.prefix })
    );
    let Some(order) = next_order()? else {
        leave(&store, &place).await;
        return Ok(());
    };
    match attach(Path::new(text(&order, "group")), store, place) {
        Ok(mover) => {
            say!("{}", json!({}));
            mover.serve().await.map_err(|e| Failure::new(format!("the mover: {e}")))
        }
        Err(Failure(why)) => refuse(&why),
    }
}

fn attach(group: &Path, store: Service, place: Place) -> Result<Mover<Service, Members>, Failure> {
    let fail = |e| Failure::new(format!("{}: {}", group.display(), describe(e)));
    let file = c_path(group)?;
    let words = SharedWords::open(&file, WORDS).map_err(fail)?;
    cut_short::watch(words.words(), Loss::Zeros);
    if let Some(name) = group.file_stem().and_then(|name| name.to_str()) {
        log::name_group(name);
    }
    let members = Members {
        orders: std::io::stdin()
            .as_fd()
            .try_clone_to_owned()
            .map_err(|e| Failure::of(group, &e))?,
        group: Group::open(words.words()).ok_or_else(|| Failure::new("it is no group"))?,
        leases: Leases::open(&file).map_err(fail)?,
        speaker: Speaker::begin(|line| warn_line!("{line}")).map_err(|e| Failure::of(group, &e))?,
        is_led: Cell::new(true),
        is_asked: Cell::new(false),
        place: super::place(&place.shown, &place.prefix),
    };
    let path = super::path(group);
    // Left by a group of that name which ended by a signal.
    let _ = std::fs::remove_file(&path);
    let door = Door::bind(&c_path(&path)?).map_err(fail)?;
    Ok(Mover::new(store, place, door, members))
}
