//! A mover, an agent's side that offers and reads, and a remote that fails as it is told.

use std::collections::HashMap;
use std::ffi::CString;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use uzswap_ctl::remote::{SEGMENT_BYTES, Segments, State, ring};
use uzswap_sys::aligned::AlignedBuf;
use uzswap_sys::door::{Bell, Door};
use uzswap_sys::file::File;
use uzswap_sys::shared::SharedWords;
use uzswap_sys::thread::pid;
use uzswap_sys::{AsFd, OwnedFd, PAGE_SIZE};

use crate::file::{OWNERLESS, RESERVE, SwapFile};
use crate::{Counts, Mover, Place, Problem, Store, Watch, probe, wait_for};

const TABLE: u32 = 77;
const SEGMENTS: u32 = 3 * RESERVE as u32;

/// A remote in memory.
#[derive(Clone, Default)]
struct Shelf(Arc<Inside>);

#[derive(Default)]
struct Inside {
    objects: Mutex<HashMap<String, Vec<u8>>>,
    is_gone: AtomicBool,
    /// Answers wait until it is not, and are counted.
    is_slow: AtomicBool,
    slow_gets: AtomicU32,
    /// Nothing is given back.
    is_mute: AtomicBool,
    /// So many answers bring other bytes.
    forgeries: AtomicU32,
    /// So many objects do not come when they are sent: each is there, empty, once another has come.
    late: AtomicU32,
    /// How long it takes to delete one.
    delete_takes: Mutex<Duration>,
    on_the_way: Mutex<Vec<String>>,
}

/// Whether there was one more of so many.
fn take_one(count: &AtomicU32) -> bool {
    let one_less = |left: u32| left.checked_sub(1);
    count
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less)
        .is_ok()
}

impl Inside {
    fn is_there(&self) -> Result<(), Problem> {
        match self.is_gone.load(Ordering::Relaxed) {
            true => Err(Problem("gone".to_owned())),
            false => Ok(()),
        }
    }
}

impl Store for Shelf {
    async fn put(&self, key: &str, bytes: &[u8]) -> Result<(), Problem> {
        self.0.is_there()?;
        let (mut objects, mut on_the_way) = (self.0.objects.lock().unwrap(), self.0.on_the_way.lock().unwrap());
        if take_one(&self.0.late) {
            on_the_way.push(key.to_owned());
            return Err(Problem("no answer".to_owned()));
        }
        objects.insert(key.to_owned(), bytes.to_vec());
        objects.extend(on_the_way.drain(..).map(|key| (key, Vec::new())));
        Ok(())
    }

    async fn get(&self, key: &str) -> Result<Vec<u8>, Problem> {
        self.0.is_there()?;
        if self.0.is_mute.load(Ordering::Relaxed) {
            return Err(Problem("mute".to_owned()));
        }
        let found = self.0.objects.lock().unwrap().get(key).cloned();
        let mut bytes = found.ok_or(Problem("no such object".to_owned()))?;
        if self.0.is_slow.load(Ordering::Relaxed) {
            self.0.slow_gets.fetch_add(1, Ordering::Relaxed);
        }
        while self.0.is_slow.load(Ordering::Relaxed) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        if take_one(&self.0.forgeries) {
            bytes[9] ^= 1;
        }
        Ok(bytes)
    }

    async fn delete(&self, key: &str) -> Result<(), Problem> {
        self.0.is_there()?;
        let time = *self.0.delete_takes.lock().unwrap();
        tokio::time::sleep(time).await;
        self.0.objects.lock().unwrap().remove(key);
        Ok(())
    }
}

/// What a mover said and counted.
#[derive(Clone, Debug, Default)]
struct Heard {
    said: Vec<String>,
    counts: Counts,
    /// At its end.
    left: Option<usize>,
}

#[derive(Clone, Default)]
struct Ear(Arc<Mutex<Heard>>);

impl Watch for Ear {
    fn say(&self, line: &str) {
        self.0.lock().unwrap().said.push(line.to_owned());
    }

    fn note(&self, counts: &Counts) {
        self.0.lock().unwrap().counts = *counts;
    }

    fn end(&self, left: usize) {
        self.0.lock().unwrap().left = Some(left);
    }

    fn is_over(&self) -> bool {
        true
    }
}

/// What an agent has.
struct Agent {
    file: File,
    segments: Segments<'static>,
    bell: Bell,
    _lifeline: OwnedFd,
}

fn byte(segment: u32) -> u8 {
    segment as u8 + 1
}

impl Agent {
    fn hand_over(bell: Bell) -> Self {
        let dir = CString::new(std::env::temp_dir().into_os_string().into_encoded_bytes()).unwrap();
        let file = File::create_unnamed(&dir).unwrap();
        file.lengthen(u64::from(SEGMENTS) * SEGMENT_BYTES as u64, None);
        let slots = u64::from(SEGMENTS) * (SEGMENT_BYTES / PAGE_SIZE) as u64;
        let (words, memory) = SharedWords::in_memory(c"uzswap-test", Segments::words_for(slots)).unwrap();
        let lifeline = bell.hand_over(ring(TABLE, 0), [file.as_fd(), memory.as_fd()]).unwrap();
        let agent = Self {
            file,
            segments: Segments::new(words.words()).unwrap(),
            bell,
            _lifeline: lifeline,
        };
        (0..SEGMENTS).for_each(|segment| agent.write(segment));
        agent
    }

    fn write(&self, segment: u32) {
        self.fill(segment, byte(segment));
    }

    fn fill(&self, segment: u32, byte: u8) {
        let mut buffer = AlignedBuf::new(SEGMENT_BYTES / PAGE_SIZE).unwrap();
        buffer.bytes_mut(SEGMENT_BYTES).fill(byte);
        let at = u64::from(segment) * SEGMENT_BYTES as u64;
        self.file.write_at(buffer.bytes(SEGMENT_BYTES), at).unwrap();
    }

    /// The first byte of a segment in the file.
    fn first(&self, segment: u32) -> u8 {
        let mut buffer = AlignedBuf::new(1).unwrap();
        let at = u64::from(segment) * SEGMENT_BYTES as u64;
        self.file.read_at(buffer.bytes_mut(PAGE_SIZE), at).unwrap();
        buffer.bytes(1)[0]
    }

    fn change(&self, segment: u32, from: State, to: State) {
        assert!(self.segments.change_from(segment, from, to), "{segment}");
        // The queue is short.
        while self.bell.ring(ring(TABLE, segment)) == Err(uzswap_sys::Errno::AGAIN) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn state(&self, segment: u32) -> State {
        self.segments.look(segment).state()
    }

    fn in_state(&self, state: State) -> Vec<u32> {
        (0..SEGMENTS).filter(|segment| self.state(*segment) == state).collect()
    }

    fn offer_all(&self) {
        (0..SEGMENTS).for_each(|segment| self.change(segment, State::Local, State::Offered));
    }

    fn offer_all_and_wait(&self) {
        self.offer_all();
        let is_sent = || self.in_state(State::Remote).len() == SEGMENTS as usize - RESERVE;
        until("all but the reserve have left", is_sent);
    }
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn place(patience: Duration) -> Place {
    Place {
        shown: "shelf://".to_owned(),
        prefix: "uzswap-test".to_owned(),
        patience,
    }
}

/// What `agent` does while a mover serves it; what was said.
fn with_mover(patience: Duration, agent: impl FnOnce(&Agent, &Shelf) + Send) -> (Vec<String>, Counts, Shelf) {
    let (heard, shelf) = with_mover_on(false, patience, agent);
    assert_eq!(heard.left, Some(0));
    (heard.said, heard.counts, shelf)
}

/// The same; with time that passes only, and at once, while the mover waits.
fn with_mover_on(is_paused: bool, patience: Duration, agent: impl FnOnce(&Agent, &Shelf) + Send) -> (Heard, Shelf) {
    static RUNS: AtomicU32 = AtomicU32::new(0);
    let run = RUNS.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("uzswap-mover-{}-{run}", std::process::id()));
    let name = CString::new(path.as_os_str().as_encoded_bytes()).unwrap();
    let (shelf, ear) = (Shelf::default(), Ear::default());
    let door = Door::bind(&name).unwrap();
    let place = place(patience);
    let bell = Bell::connect(&name).unwrap();
    std::thread::scope(|scope| {
        // What it has sent is there before anybody looks: the mover is not over before it came.
        let agent_side = Agent::hand_over(bell);
        let mover = Mover::new(shelf.clone(), place, door, ear.clone());
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().start_paused(is_paused).build().unwrap();
        scope.spawn(move || runtime.block_on(mover.serve()).unwrap());
        until("the file is known", || agent_side.segments.is_open());
        agent(&agent_side, &shelf);
    });
    std::fs::remove_file(&path).unwrap();
    let heard = ear.0.lock().unwrap().clone();
    (heard, shelf)
}

const PATIENT: Duration = Duration::from_secs(60);

#[test]
fn segments_leave_and_come_back_as_they_were_and_nothing_is_left() {
    let (said, counts, shelf) = with_mover(PATIENT, |agent, shelf| {
        agent.offer_all_and_wait();
        let gone = agent.in_state(State::Remote);
        assert!(gone.iter().all(|segment| agent.first(*segment) == 0), "there is a hole");
        assert_eq!(shelf.0.objects.lock().unwrap().len(), SEGMENTS as usize);
        // The first answer of each is another.
        shelf.0.forgeries.store(2, Ordering::Relaxed);
        for segment in &gone[..2] {
            agent.change(*segment, State::Remote, State::Wanted);
            until("it is back", || agent.state(*segment) == State::Both);
            assert_eq!(agent.first(*segment), byte(*segment));
        }
        agent.change(gone[0], State::Both, State::Dropped);
        agent.change(gone[3], State::Remote, State::Dropped);
        until("nobody needs them", || {
            [0, 3]
                .iter()
                .all(|i| agent.state(gone[*i]) == State::Local && agent.first(gone[*i]) == 0)
        });
        until("they are deleted", || {
            shelf.0.objects.lock().unwrap().len() == SEGMENTS as usize - 2
        });
    });
    assert!(said.is_empty(), "{said:?}");
    let bytes = |segments: u32| u64::from(segments) * SEGMENT_BYTES as u64;
    assert_eq!(
        (counts.sent, counts.fetched, counts.lost),
        (bytes(SEGMENTS), bytes(2), 0)
    );
    assert!(shelf.0.objects.lock().unwrap().is_empty());
}

#[test]
fn a_try_that_comes_late_writes_over_nothing() {
    let (said, counts, shelf) = with_mover(PATIENT, |agent, shelf| {
        shelf.0.late.store(2, Ordering::Relaxed);
        agent.offer_all_and_wait();
        for segment in agent.in_state(State::Remote) {
            agent.change(segment, State::Remote, State::Wanted);
            until("it is back", || agent.state(segment) == State::Both);
            assert_eq!(agent.first(segment), byte(segment));
        }
    });
    assert!(said.is_empty(), "{said:?}");
    assert_eq!(counts.lost, 0);
    assert!(shelf.0.objects.lock().unwrap().is_empty());
}

#[test]
fn what_is_left_is_deleted_as_long_as_that_goes_on_and_counted_when_it_does_not() {
    let (heard, shelf) = with_mover_on(true, PATIENT, |agent, shelf| {
        agent.offer_all_and_wait();
        // In two rounds, longer together than the mover would wait for one.
        *shelf.0.delete_takes.lock().unwrap() = Duration::from_secs(4);
    });
    assert_eq!(heard.left, Some(0));
    assert!(shelf.0.objects.lock().unwrap().is_empty());
    let (heard, _) = with_mover_on(true, PATIENT, |agent, shelf| {
        agent.offer_all_and_wait();
        shelf.0.is_gone.store(true, Ordering::Relaxed);
    });
    assert_eq!(heard.left, Some(SEGMENTS as usize));
}

#[test]
fn a_probe_that_fails_leaves_nothing() {
    let shelf = Shelf::default();
    shelf.0.is_mute.store(true, Ordering::Relaxed);
    let probed = wait_for(probe(shelf.clone(), &place(PATIENT))).unwrap();
    assert_eq!(probed, Err(Problem("reading: mute".to_owned())));
    assert!(shelf.0.objects.lock().unwrap().is_empty());
}

#[test]
fn what_is_withdrawn_while_it_is_sent_stays() {
    let (_, _, shelf) = with_mover(PATIENT, |agent, shelf| {
        shelf.0.is_gone.store(true, Ordering::Relaxed);
        agent.change(5, State::Local, State::Offered);
        std::thread::sleep(Duration::from_millis(60));
        assert!(agent.segments.change_from(5, State::Offered, State::Local));
        shelf.0.is_gone.store(false, Ordering::Relaxed);
        agent.change(6, State::Local, State::Offered);
        until("the other one is sent", || agent.state(6) == State::Both);
        until("only that one is there", || shelf.0.objects.lock().unwrap().len() == 1);
        assert_eq!((agent.state(5), agent.first(5)), (State::Local, byte(5)));
    });
    assert!(shelf.0.objects.lock().unwrap().is_empty());
}

#[test]
fn a_remote_that_takes_nothing_is_left_alone_until_it_does() {
    let (said, _, _) = with_mover(PATIENT, |agent, shelf| {
        shelf.0.is_gone.store(true, Ordering::Relaxed);
        agent.offer_all();
        until("it is given up", || !agent.segments.is_open());
        assert_eq!(agent.in_state(State::Offered).len(), SEGMENTS as usize);
        assert!((0..SEGMENTS).all(|segment| agent.first(segment) == byte(segment)));
        (0..SEGMENTS).for_each(|segment| agent.change(segment, State::Offered, State::Local));
        shelf.0.is_gone.store(false, Ordering::Relaxed);
        until("it is there again", || agent.segments.is_open());
        agent.offer_all_and_wait();
    });
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(said[0].contains("shelf:// takes nothing: gone") && said[1].contains("takes swapped-out memory again"));
}

#[test]
fn what_is_offered_is_sent_though_the_first_of_its_run_was_withdrawn() {
    with_mover(PATIENT, |agent, _| {
        assert!(agent.segments.change_from(7, State::Local, State::Offered));
        agent.bell.ring(ring(TABLE, 5)).unwrap();
        until("it is sent", || agent.state(7) == State::Both);
    });
}

#[test]
fn what_stays_offered_while_the_remote_is_gone_is_sent_when_it_is_back() {
    let (_, counts, _) = with_mover(PATIENT, |agent, shelf| {
        shelf.0.is_gone.store(true, Ordering::Relaxed);
        agent.offer_all();
        until("it is given up", || !agent.segments.is_open());
        shelf.0.is_gone.store(false, Ordering::Relaxed);
        // Nobody rings again.
        let is_sent = || agent.in_state(State::Offered).is_empty();
        until("all are sent", is_sent);
    });
    assert_eq!(counts.sent, u64::from(SEGMENTS) * SEGMENT_BYTES as u64);
}

#[test]
fn what_was_fetched_of_a_segment_that_holds_something_else_by_now_is_not_taken_for_it() {
    with_mover(PATIENT, |agent, shelf| {
        agent.offer_all_and_wait();
        let gone = agent.in_state(State::Remote)[0];
        shelf.0.is_slow.store(true, Ordering::Relaxed);
        agent.change(gone, State::Remote, State::Wanted);
        until("it is being fetched", || shelf.0.slow_gets.load(Ordering::Relaxed) == 1);
        // Its process waits no more, needs nothing of it, and writes and offers it anew.
        agent.change(gone, State::Wanted, State::Lost);
        agent.change(gone, State::Lost, State::Local);
        agent.fill(gone, 200);
        agent.change(gone, State::Local, State::Offered);
        until("it has left anew", || agent.state(gone) == State::Both);
        agent.change(gone, State::Both, State::Remote);
        agent.fill(gone, 0);
        agent.change(gone, State::Remote, State::Wanted);
        shelf.0.is_slow.store(false, Ordering::Relaxed);
        until("it is back", || agent.state(gone) == State::Both);
        assert_eq!(agent.first(gone), 200);
    });
}

#[test]
fn a_file_is_given_up_when_it_was_often_seen_without_an_owner() {
    let path = std::env::temp_dir().join(format!("uzswap-owner-{}", std::process::id()));
    let name = CString::new(path.as_os_str().as_encoded_bytes()).unwrap();
    let door = Door::bind(&name).unwrap();
    let agent = Agent::hand_over(Bell::connect(&name).unwrap());
    let received = door.receive().unwrap();
    let mut file = SwapFile::received(received.sender, received.fds).unwrap();
    assert!(!file.is_over(true));
    let Agent {
        file: theirs,
        _lifeline,
        ..
    } = agent;
    let childs = File::open_of_thread(pid(), pid(), theirs.number()).unwrap();
    drop(_lifeline);
    let mut look = || file.is_over(false);
    // A child that opened it a moment ago, and takes its lease now.
    assert!((1..OWNERLESS).all(|_| !look()));
    assert!(childs.lock_shared(3) && !look());
    drop(childs);
    assert!((1..OWNERLESS).all(|_| !look()) && look());
    assert!(file.is_over(true));
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn a_segment_that_does_not_come_back_in_time_is_lost_with_a_line() {
    let (said, counts, _) = with_mover(Duration::from_millis(300), |agent, shelf| {
        agent.offer_all_and_wait();
        let gone = agent.in_state(State::Remote);
        shelf.0.is_gone.store(true, Ordering::Relaxed);
        agent.change(gone[0], State::Remote, State::Wanted);
        until("it is lost", || agent.state(gone[0]) == State::Lost);
        shelf.0.is_gone.store(false, Ordering::Relaxed);
        agent.change(gone[1], State::Remote, State::Wanted);
        until("others are not", || agent.state(gone[1]) == State::Both);
    });
    assert_eq!((said.len(), counts.lost), (1, 1), "{said:?}");
    let pid = format!("process {}", std::process::id());
    assert!(said[0].contains(&pid) && said[0].contains("shelf:// did not bring it back within 300ms: gone"));
}

#[test]
fn what_no_agent_says_is_passed_over() {
    let (said, counts, _) = with_mover(PATIENT, |agent, _| {
        for word in [
            ring(TABLE, SEGMENTS),
            ring(TABLE, u32::MAX),
            ring(TABLE + 1, 0),
            ring(TABLE, 0),
        ] {
            agent.bell.ring(word).unwrap();
        }
        // Never sent, so it cannot come back.
        agent.change(1, State::Local, State::Remote);
        agent.change(1, State::Remote, State::Wanted);
        until("it is lost", || agent.state(1) == State::Lost);
        agent.change(2, State::Local, State::Offered);
        until("the others go on", || agent.state(2) == State::Both);
    });
    assert!(said.len() == 1 && said[0].contains("never sent"), "{said:?}");
    assert_eq!(counts.sent, SEGMENT_BYTES as u64);
}
