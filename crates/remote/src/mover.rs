//! Who is told what, and what follows: one task that never waits for a remote. What has to be
//! waited for are jobs, whose ends it is told of.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::time::{Duration, Instant};

use tokio::io::Interest;
use tokio::net::UnixDatagram;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use uzswap_ctl::remote::{SEGMENT_BYTES, Seen, State, rung};
use uzswap_sys::AsFd;
use uzswap_sys::door::{Door, Received};

use crate::file::SwapFile;
use crate::store::{Object, Place, Problem, Sent, Store, fetch, forget, leave, probe, probe_object, send};

/// Segments on their way to the remote at a time: more wait in the file.
const SENDS: usize = 4;
/// How often a segment is tried to be sent before the remote is given up for a while.
const TRIES: u32 = 5;
/// How often a remote that was given up is tried.
const PROBE: Duration = Duration::from_secs(3);
/// Objects that are deleted at a time.
const DELETES: usize = 16;
/// How often it is looked who has gone.
const LOOK: Duration = Duration::from_millis(100);
/// What a run leaves behind is deleted as long as some of it is, within this time.
const CLEARS_WITHIN: Duration = Duration::from_secs(5);
/// What a disk is full of may be gone soon.
const ROOM_PAUSE: Duration = Duration::from_millis(100);

/// What a mover has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Bytes that the remote has.
    pub bytes: u64,
    /// Bytes sent.
    pub sent: u64,
    /// Bytes brought back.
    pub fetched: u64,
    /// Segments that could not be.
    pub lost: u64,
}

/// Who listens to a mover.
pub trait Watch {
    /// A line for people.
    fn say(&self, line: &str);
    /// What it has done.
    fn note(&self, counts: &Counts);
    /// Whether no process will ever hand over a file any more.
    fn is_over(&self) -> bool;
    /// The end: so many objects are left.
    fn end(&self, left: usize);
}

/// A segment of a table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct At {
    table: u32,
    segment: u32,
}

/// A segment that is to come back.
struct Fetch {
    at: At,
    object: Object,
    until: Instant,
}

/// A job has ended.
enum Done {
    Sent(At, Seen, Sent),
    Fetched(Fetch, Result<Vec<u8>, Problem>),
    Deleted(Option<Object>),
    Probed(Result<(), Problem>),
}

/// The mover of a group.
pub struct Mover<S, W> {
    store: S,
    place: Place,
    watch: W,
    door: Door,
    files: HashMap<u32, SwapFile>,
    /// Offered.
    offered: BTreeSet<At>,
    /// On their way to the remote.
    sends: BTreeSet<At>,
    /// To be deleted.
    leftover: Vec<Object>,
    deletes: usize,
    is_up: bool,
    /// It is tried whether the remote takes something.
    probing: Option<AbortHandle>,
    jobs: JoinSet<Done>,
    counts: Counts,
    /// Keys that were given out: none is used twice.
    keys: u64,
}

impl<S: Store, W: Watch> Mover<S, W> {
    /// For whoever knocks at `door`.
    pub fn new(store: S, place: Place, door: Door, watch: W) -> Self {
        Self {
            store,
            place,
            watch,
            door,
            files: HashMap::new(),
            offered: BTreeSet::new(),
            sends: BTreeSet::new(),
            leftover: Vec::new(),
            deletes: 0,
            is_up: true,
            probing: None,
            jobs: JoinSet::new(),
            counts: Counts::default(),
            keys: 0,
        }
    }

    /// Serve until it is over, and clear up.
    ///
    /// # Errors
    /// The door cannot be waited at.
    pub async fn serve(mut self) -> io::Result<()> {
        let knocks = std::os::unix::net::UnixDatagram::from(self.door.as_fd().try_clone_to_owned()?);
        let knocks = UnixDatagram::from_std(knocks)?;
        let mut looks = interval(LOOK);
        // A mover that was stopped does not look again and again at the same moment.
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The runtime has not looked yet whether anybody has come.
        while let Some(received) = self.door.receive() {
            self.attend(received);
        }
        loop {
            self.hear(&knocks);
            if self.files.is_empty() && self.watch.is_over() {
                break;
            }
            self.step();
            tokio::select! {
                knock = knocks.readable() => knock?,
                Some(done) = self.jobs.join_next() => self.finish(done),
                _ = looks.tick() => self.look_around(),
            }
        }
        self.clear_up().await;
        Ok(())
    }

    /// Begin what is due.
    fn step(&mut self) {
        while self.is_up && self.sends.len() < SENDS {
            let Some(at) = self.offered.pop_first() else { break };
            self.send(at);
        }
        self.delete();
        self.counts.bytes =
            self.files.values().map(|file| file.objects.len() as u64).sum::<u64>() * SEGMENT_BYTES as u64;
        self.watch.note(&self.counts);
    }

    /// What has come by now.
    fn hear(&mut self, knocks: &UnixDatagram) {
        let receive = |door: &Door| door.receive().ok_or(io::ErrorKind::WouldBlock.into());
        while let Ok(received) = knocks.try_io(Interest::READABLE, || receive(&self.door)) {
            self.attend(received);
        }
    }

    fn attend(&mut self, received: Received) {
        let (table, segment) = rung(received.word);
        if received.fds.is_empty() {
            return self.look(At { table, segment });
        }
        // A number that is taken is refused: nothing of that file ever leaves it.
        if !self.files.contains_key(&table)
            && let Some(file) = SwapFile::received(received.sender, received.fds)
        {
            file.segments().set_open(self.is_up);
            self.files.insert(table, file);
        }
    }

    /// What a segment's word says now, whatever it said when the bell rang.
    fn look(&mut self, at: At) {
        let Some(file) = self.files.get_mut(&at.table) else {
            return;
        };
        if at.segment >= file.segments().len() {
            return;
        }
        file.note_bell(at.segment);
        match file.segments().look(at.segment).state() {
            State::Offered => {
                let segments = file.segments();
                let following = (at.segment..segments.len())
                    .take_while(|segment| segments.look(*segment).state() == State::Offered);
                let following = following.map(|segment| At { segment, ..at });
                self.offered.extend(following.filter(|at| !self.sends.contains(at)));
            }
            State::Wanted => self.fetch(at),
            State::Dropped => {
                file.release(at.segment);
                self.leftover.extend(file.objects.remove(&at.segment));
            }
            State::Local | State::Both | State::Remote | State::Arriving | State::Lost => {}
        }
    }

    fn send(&mut self, at: At) {
        let Some(file) = self.files.get(&at.table) else { return };
        let seen = file.segments().look(at.segment);
        if seen.state() != State::Offered {
            return;
        }
        // What cannot be read now stays, and is looked at again.
        let Ok(bytes) = file.read(at.segment) else { return };
        self.keys += 1;
        let key = format!("{}/{:08x}-{}-{}", self.place.prefix, at.table, at.segment, self.keys);
        self.sends.insert(at);
        let sent = send(self.store.clone(), key, bytes, TRIES);
        self.jobs.spawn(async move { Done::Sent(at, seen, sent.await) });
    }

    fn fetch(&mut self, at: At) {
        let Some(file) = self.files.get_mut(&at.table) else {
            return;
        };
        let Some(object) = file.objects.get(&at.segment).cloned() else {
            return self.lose(at, &Problem("it was never sent".to_owned()));
        };
        if file.fetching.insert(at.segment) {
            let until = Instant::now() + self.place.patience;
            let fetched = fetch(self.store.clone(), object.clone(), self.place.patience);
            let job = Fetch { at, object, until };
            self.jobs.spawn(async move { Done::Fetched(job, fetched.await) });
        }
    }

    fn finish(&mut self, done: Result<Done, tokio::task::JoinError>) {
        match done {
            Ok(Done::Sent(at, seen, Sent { result, strays })) => {
                self.sends.remove(&at);
                self.leftover.extend(strays);
                match result {
                    Ok(object) => self.acknowledge(at, seen, object),
                    Err(problem) => {
                        self.offered.insert(at);
                        self.give_up(&problem);
                    }
                }
            }
            Ok(Done::Fetched(fetch, _)) if self.is_outdated(&fetch) => self.look(fetch.at),
            Ok(Done::Fetched(fetch, Ok(bytes))) => self.arrive(fetch, bytes),
            Ok(Done::Fetched(fetch, Err(problem))) => self.lose(fetch.at, &problem),
            Ok(Done::Deleted(left)) => {
                self.deletes -= 1;
                self.leftover.extend(left);
            }
            Ok(Done::Probed(Ok(()))) => self.go_on(),
            Ok(Done::Probed(Err(_))) => self.probe(),
            // A probe that was cancelled.
            Err(_) => {}
        }
    }

    fn acknowledge(&mut self, at: At, seen: Seen, object: Object) {
        self.counts.sent += SEGMENT_BYTES as u64;
        let file = self.files.get_mut(&at.table);
        let taken = file.filter(|file| file.segments().change(at.segment, seen, State::Both).is_some());
        let Some(file) = taken else {
            // Withdrawn, and offered anew perhaps; or its process has gone.
            self.leftover.push(object);
            return self.look(at);
        };
        // One that was lost while its process waited, which a mover that was stopped missed.
        self.leftover.extend(file.objects.insert(at.segment, object));
        file.keep(at.segment);
    }

    /// Whether the remote's copy of a segment is not the one that was fetched: its process gave
    /// that up while the mover was stopped, and has sent other bytes since. True: none is fetched.
    fn is_outdated(&mut self, Fetch { at, object, .. }: &Fetch) -> bool {
        let Some(file) = self.files.get_mut(&at.table) else {
            return false;
        };
        let is_outdated = file.objects.get(&at.segment).is_some_and(|now| now.key != object.key);
        if is_outdated {
            file.fetching.remove(&at.segment);
        }
        is_outdated
    }

    fn arrive(&mut self, job: Fetch, bytes: Vec<u8>) {
        let at = job.at;
        let Some(file) = self.files.get_mut(&at.table) else {
            return;
        };
        let mut arrived = file.arrive(at.segment, &bytes);
        while arrived.is_err() && file.make_room() {
            arrived = file.arrive(at.segment, &bytes);
        }
        match arrived {
            Ok(()) => {
                file.fetching.remove(&at.segment);
                self.counts.fetched += SEGMENT_BYTES as u64;
            }
            Err(_) if Instant::now() < job.until => {
                self.jobs.spawn(async move {
                    sleep(ROOM_PAUSE).await;
                    Done::Fetched(job, Ok(bytes))
                });
            }
            Err(errno) => self.lose(at, &Problem(format!("the local file cannot take it: {errno}"))),
        }
    }

    fn lose(&mut self, at: At, Problem(why): &Problem) {
        let Some(file) = self.files.get_mut(&at.table) else {
            return;
        };
        file.fetching.remove(&at.segment);
        self.leftover.extend(file.objects.remove(&at.segment));
        // Its process may have died of waiting meanwhile.
        if file.lose(at.segment) {
            self.counts.lost += 1;
            self.watch.say(&format!(
                "uzswap: process {} has lost {} KiB of its swapped-out memory: {} did not bring it back within {:?}: {why}; \
                 whoever reads a page of it gets SIGBUS",
                file.pid,
                SEGMENT_BYTES >> 10,
                self.place.shown,
                self.place.patience,
            ));
        }
    }

    /// Nothing is sent until the remote answers.
    fn give_up(&mut self, Problem(why): &Problem) {
        if !std::mem::replace(&mut self.is_up, false) {
            return;
        }
        self.tell_files();
        self.watch.say(&format!(
            "uzswap: {} takes nothing: {why}; swapped-out memory stays in the local file until it does",
            self.place.shown
        ));
        self.probe();
    }

    fn go_on(&mut self) {
        self.is_up = true;
        self.probing = None;
        self.tell_files();
        self.watch
            .say(&format!("uzswap: {} takes swapped-out memory again", self.place.shown));
    }

    fn tell_files(&self) {
        self.files
            .values()
            .for_each(|file| file.segments().set_open(self.is_up));
    }

    fn probe(&mut self) {
        let (store, place) = (self.store.clone(), self.place.clone());
        self.probing = Some(self.jobs.spawn(async move {
            sleep(PROBE).await;
            Done::Probed(probe(store, &place).await)
        }));
    }

    fn delete(&mut self) {
        // Also while it takes nothing: it may be full of them.
        while self.deletes < DELETES {
            let Some(object) = self.leftover.pop() else { break };
            self.deletes += 1;
            let store = self.store.clone();
            self.jobs.spawn(async move {
                let gone = forget(store, &object).await;
                Done::Deleted((!gone).then_some(object))
            });
        }
    }

    fn look_around(&mut self) {
        self.forget_gone();
        for (&table, file) in &mut self.files {
            let offered = file.sweep().into_iter().map(|segment| At { table, segment });
            self.offered.extend(offered.filter(|at| !self.sends.contains(at)));
        }
    }

    fn forget_gone(&mut self) {
        let nobody_lives = self.watch.is_over();
        let gone = self.files.extract_if(|_, file| file.is_over(nobody_lives));
        self.leftover
            .extend(gone.flat_map(|(_, file)| file.objects.into_values()));
        self.files.values_mut().for_each(SwapFile::trim);
    }

    /// Objects that the remote has, or may have, and nobody needs.
    fn unfinished(&self) -> usize {
        self.leftover.len() + self.deletes + self.sends.len()
    }

    /// Delete all that is left, as long as the remote lets us.
    async fn clear_up(&mut self) {
        if let Some(probing) = self.probing.take() {
            probing.abort();
            self.leftover.push(probe_object(&self.place).0);
        }
        while timeout(CLEARS_WITHIN, self.clear_one()).await == Ok(true) {}
        if self.unfinished() == 0 {
            leave(&self.store, &self.place).await;
        }
        self.watch.end(self.unfinished());
    }

    /// Go on until less is left. False: there is nothing.
    async fn clear_one(&mut self) -> bool {
        let before = self.unfinished();
        while self.unfinished() > 0 && self.unfinished() >= before {
            self.delete();
            // `None`: nothing is under way that would end.
            let Some(done) = self.jobs.join_next().await else {
                return false;
            };
            self.finish(done);
        }
        before > 0
    }
}
