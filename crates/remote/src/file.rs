//! A swap file of some process, as the mover has it.

use std::collections::{HashMap, HashSet, VecDeque};

use uzswap_ctl::remote::{SEGMENT_BYTES, Segments, State};
use uzswap_sys::aligned::AlignedBuf;
use uzswap_sys::door::is_over;
use uzswap_sys::file::File;
use uzswap_sys::shared::ReceivedWords;
use uzswap_sys::time::now_ns;
use uzswap_sys::{Errno, OwnedFd, PAGE_SIZE, futex};

use crate::store::Object;

/// Acknowledged segments that stay in the file: room for what is fetched when the disk is full.
pub(crate) const RESERVE: usize = 8;
/// How often in a row a file must be seen without an owner: for a second.
pub(crate) const OWNERLESS: u32 = 10;
/// Segments of a file that are swept over at a time.
const SWEPT: u32 = 256;
/// Segments from the one that a bell rings for to the last that it may be meant for.
const RUN: u32 = 128;
/// What was touched in this time stays longer.
const HOT_NS: u64 = 2_000_000_000;

/// A swap file, and what the remote has of it.
pub(crate) struct SwapFile {
    /// Whose it is.
    pub(crate) pid: i32,
    file: File,
    words: ReceivedWords,
    lifeline: OwnedFd,
    /// How often in a row nobody was seen to have it.
    ownerless: u32,
    /// By segment.
    pub(crate) objects: HashMap<u32, Object>,
    /// Segments that the file has too, the one that came first in front.
    kept: VecDeque<u32>,
    /// On their way here.
    pub(crate) fetching: HashSet<u32>,
    /// Where it is looked next for what is offered.
    hand: u32,
    /// Bells have rung for segments below. The table of those beyond takes no memory until then.
    reach: u32,
}

fn place(segment: u32) -> u64 {
    u64::from(segment) * SEGMENT_BYTES as u64
}

impl SwapFile {
    /// Of what process `pid` has handed over. `None`: it is something else.
    pub(crate) fn received(pid: i32, fds: Vec<OwnedFd>) -> Option<Self> {
        let [file, table, lifeline] = fds.try_into().ok()?;
        let words = ReceivedWords::map(&table).ok()?;
        Segments::new(words.words())?;
        Some(Self {
            pid,
            file: File::received(file).ok()?,
            words,
            lifeline,
            ownerless: 0,
            objects: HashMap::new(),
            kept: VecDeque::new(),
            fetching: HashSet::new(),
            hand: 0,
            reach: 0,
        })
    }

    /// The table.
    pub(crate) fn segments(&self) -> Segments<'_> {
        Segments::new(self.words.words()).expect("checked when it was received")
    }

    /// Whether nobody can read the file any more: its process has gone, and no child has a lease on
    /// it. A child that has just opened it has none yet, so it is asked again and again, unless no
    /// process of the group lives.
    pub(crate) fn is_over(&mut self, nobody_lives: bool) -> bool {
        let is_ownerless = is_over(&self.lifeline) && !self.file.is_locked_anywhere();
        self.ownerless = if is_ownerless { self.ownerless + 1 } else { 0 };
        is_ownerless && (nobody_lives || self.ownerless >= OWNERLESS)
    }

    /// A bell rang for a segment and those behind it.
    pub(crate) fn note_bell(&mut self, segment: u32) {
        let reach = segment.saturating_add(RUN).min(self.segments().len());
        self.reach = self.reach.max(reach);
    }

    /// Those of the next segments that are offered: they could not be read when their bell rang, or
    /// the first of its run was withdrawn before it was looked at.
    pub(crate) fn sweep(&mut self) -> Vec<u32> {
        let from = self.hand;
        let to = self.reach.min(from.saturating_add(SWEPT));
        self.hand = if to < self.reach { to } else { 0 };
        let is_offered = |segment: &u32| self.segments().look(*segment).state() == State::Offered;
        (from..to).filter(is_offered).collect()
    }

    /// What lies in a segment.
    pub(crate) fn read(&self, segment: u32) -> Result<Vec<u8>, Errno> {
        let mut buffer = AlignedBuf::new(SEGMENT_BYTES / PAGE_SIZE)?;
        self.file.read_at(buffer.bytes_mut(SEGMENT_BYTES), place(segment))?;
        Ok(buffer.bytes(SEGMENT_BYTES).to_vec())
    }

    fn write(&self, segment: u32, bytes: &[u8]) -> Result<(), Errno> {
        let mut buffer = AlignedBuf::new(SEGMENT_BYTES / PAGE_SIZE)?;
        buffer.bytes_mut(SEGMENT_BYTES).copy_from_slice(bytes);
        match self.file.write_at(buffer.bytes(SEGMENT_BYTES), place(segment)) {
            Err(Errno::FBIG) => self.file.write_mapped(buffer.bytes(SEGMENT_BYTES), place(segment)),
            written => written,
        }
    }

    fn punch(&self, segment: u32) {
        self.file.punch(place(segment), SEGMENT_BYTES as u64);
    }

    /// The remote has a segment, and so has the file.
    pub(crate) fn keep(&mut self, segment: u32) {
        self.kept.push_back(segment);
        self.trim();
    }

    /// Let the file have no more than the reserve of what the remote has.
    pub(crate) fn trim(&mut self) {
        let now = now_ns();
        for _ in 0..self.kept.len() {
            if self.kept.len() <= RESERVE {
                return;
            }
            match self.kept.pop_front() {
                Some(hot) if now.saturating_sub(self.segments().touched(hot)) < HOT_NS => self.kept.push_back(hot),
                Some(cold) => self.leave(cold),
                None => return,
            }
        }
    }

    /// Have the space of one segment that the remote has too. False: there is none.
    pub(crate) fn make_room(&mut self) -> bool {
        let Some(segment) = self.kept.pop_front() else {
            return false;
        };
        self.leave(segment);
        true
    }

    /// A segment is elsewhere alone, unless its owner has dropped it.
    fn leave(&self, segment: u32) {
        // First the word: whoever reads meanwhile finds it changed.
        if self.segments().change_from(segment, State::Both, State::Remote) {
            self.punch(segment);
        }
    }

    /// Put a segment that was fetched into the file, unless nobody waits any more: its slots may be
    /// others' then.
    pub(crate) fn arrive(&mut self, segment: u32, bytes: &[u8]) -> Result<(), Errno> {
        if !self.segments().change_from(segment, State::Wanted, State::Arriving) {
            return Ok(());
        }
        // Whoever waits has it before it leaves again, however long it took.
        self.segments().touch(segment, now_ns());
        let written = self.write(segment, bytes);
        let next = if written.is_ok() { State::Both } else { State::Wanted };
        self.segments().change_from(segment, State::Arriving, next);
        if written.is_ok() {
            self.keep(segment);
        }
        self.wake(segment);
        written
    }

    /// A segment cannot be had.
    pub(crate) fn lose(&self, segment: u32) -> bool {
        let is_waited_for = self.segments().change_from(segment, State::Wanted, State::Lost);
        self.wake(segment);
        is_waited_for
    }

    /// A segment that nobody needs is as any other.
    pub(crate) fn release(&mut self, segment: u32) {
        self.kept.retain(|kept| *kept != segment);
        // First the hole: it may be written to afterwards.
        self.punch(segment);
        self.segments().change_from(segment, State::Dropped, State::Local);
    }

    fn wake(&self, segment: u32) {
        futex::wake_word(self.segments().word(segment));
    }
}
