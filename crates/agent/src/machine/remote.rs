//! Cold segments of a swap file lie elsewhere: the mover takes them and brings them back
//! (docs/design/remote.md). Here they are offered, waited for and given up.

use alloc::ffi::CString;
use alloc::vec::Vec;
use core::ffi::CStr;
use core::ops::Range;
use core::sync::atomic::{AtomicU32, Ordering, fence};

use uzswap_backing::{Refusals, SwapFile};
use uzswap_ctl::remote::{Seen, Segments, State, ring};
use uzswap_ctl::{Group, Statistic, Tunable, mover_path};
use uzswap_mm::machine::IoError;
use uzswap_mm::{Look, SEGMENT};
use uzswap_sys::door::Bell;
use uzswap_sys::shared::SharedWords;
use uzswap_sys::time::now_ns;
use uzswap_sys::{AsFd, Errno, OwnedFd, futex, random};

use crate::pager::Pager;

/// A segment that was not touched for so long is cold.
const COLD_NS: u64 = 2_000_000_000;
/// Clusters that are looked at for cold segments at a time.
const LOOKED_AT: u32 = 8;
/// Slots of a segment in use that make it worth sending: all but a quarter, or on a disk that is
/// full any.
const WORTH: u32 = SEGMENT / 4 * 3;
/// How often the mover is told again of a segment that is waited for.
const RING_NS: u64 = 100_000_000;
/// It answers for so long after its own patience at most; stopped, it never would.
const LATE_NS: u64 = 10_000_000_000;
const SECOND_NS: u64 = 1_000_000_000;

/// What this process knows of the segments of a swap file.
pub(crate) struct Remote {
    segments: Segments<'static>,
    /// By which the mover knows the table.
    table: u32,
    group_path: &'static CStr,
    /// `None`: in a child that could not connect it, for want of a descriptor perhaps.
    bell: Option<Bell>,
    patience_ns: u64,
    /// Where cold ones are looked for next.
    hand: AtomicU32,
    refusals: Refusals,
    /// Ends with us: our children's ends are their locks on the file.
    _lifeline: Option<OwnedFd>,
}

fn bell(group_path: &CStr) -> Result<Bell, Errno> {
    let path = CString::new(mover_path(group_path.to_bytes())).map_err(|_| Errno::INVAL)?;
    Bell::connect(&path)
}

/// Whether a ring says that there is no mover any more. A name that does not lead to it (ENOENT)
/// may do so for our relatives, who see other mounts.
fn has_no_mover(rung: Result<(), Errno>) -> bool {
    rung == Err(Errno::CONNREFUSED)
}

impl Remote {
    /// For our own file. `None`: the group has no mover, or it cannot be reached, which it is told;
    /// the file keeps all then.
    pub(crate) fn begin(group: Group, group_path: &'static CStr, file: &SwapFile) -> Option<Self> {
        match group.get(Tunable::SwapRemote) {
            0 => None,
            patience => Self::hand_over(patience, group_path, file)
                .inspect_err(|errno| group.note(Statistic::RemoteError, errno.raw_os_error() as u64 + 1))
                .ok(),
        }
    }

    fn hand_over(patience: u64, group_path: &'static CStr, file: &SwapFile) -> Result<Self, Errno> {
        let bell = bell(group_path)?;
        let (words, memory) = SharedWords::in_memory(c"uzswap-segments", Segments::words_for(file.slots()))?;
        let segments = Segments::new(words.words()).ok_or(Errno::INVAL)?;
        let mut table = [0; 4];
        random::fill(&mut table)?;
        let table = u32::from_ne_bytes(table);
        let lifeline = bell.hand_over(ring(table, 0), [file.file.as_fd(), memory.as_fd()])?;
        Ok(Self {
            segments,
            table,
            group_path,
            bell: Some(bell),
            patience_ns: patience.saturating_mul(SECOND_NS),
            hand: AtomicU32::new(0),
            refusals: Refusals::default(),
            _lifeline: Some(lifeline),
        })
    }

    /// In a forked child, which reads the file.
    pub(crate) fn inherit(&self) -> Self {
        Self {
            bell: bell(self.group_path).ok(),
            hand: AtomicU32::new(0),
            refusals: Refusals::default(),
            _lifeline: None,
            ..*self
        }
    }

    /// Slots are being read or written.
    pub(crate) fn touch(&self, slots: Range<u32>) {
        let now = now_ns();
        Segments::of_slots(slots).for_each(|segment| self.segments.touch(segment, now));
    }

    /// Read slots of the file, as `read` does it, when they are there.
    pub(crate) fn read(&self, slots: Range<u32>, mut read: impl FnMut() -> Result<(), IoError>) -> Result<(), IoError> {
        self.touch(slots.clone());
        let segments = Segments::of_slots(slots);
        loop {
            let Some(before) = self.segments.stamp(segments.clone()) else {
                self.bring(segments.clone())?;
                continue;
            };
            read()?;
            // What was read is older than what the words say now.
            fence(Ordering::Acquire);
            if self.segments.stamp(segments.clone()) == Some(before) {
                return Ok(());
            }
        }
    }

    /// Have these segments brought back, all at once.
    fn bring(&self, segments: Range<u32>) -> Result<(), IoError> {
        for segment in segments.clone() {
            if self.segments.change_from(segment, State::Remote, State::Wanted) {
                let _ = self.ring(segment);
            }
        }
        let until = now_ns() + self.patience_ns + LATE_NS;
        segments
            .into_iter()
            .try_for_each(|segment| self.wait_for(segment, until))
    }

    fn wait_for(&self, segment: u32, until: u64) -> Result<(), IoError> {
        loop {
            let seen = self.segments.look(segment);
            match seen.state() {
                State::Arriving if now_ns() > until => return Err(IoError::Failed),
                State::Wanted if now_ns() > until => self.lose(segment, seen),
                State::Wanted | State::Arriving => {
                    futex::wait_for_word(self.segments.word(segment), seen.word(), RING_NS);
                    if has_no_mover(self.ring(segment)) {
                        self.lose(segment, seen);
                    }
                }
                State::Lost | State::Dropped => return Err(IoError::Failed),
                // Its turn in the caller's loop, if it has left again.
                State::Local | State::Offered | State::Both | State::Remote => return Ok(()),
            }
        }
    }

    /// Nobody brings it any more.
    fn lose(&self, segment: u32, seen: Seen) {
        self.segments.change(segment, seen, State::Lost);
    }

    fn ring(&self, segment: u32) -> Result<(), Errno> {
        let word = ring(self.table, segment);
        match &self.bell {
            Some(bell) => bell.ring(word),
            None => bell(self.group_path)?.ring(word),
        }
    }

    /// The file took what was written, or not.
    pub(crate) fn note_written(&self, is_written: bool) {
        match is_written {
            true => self.refusals.end(),
            false => self.refusals.add(now_ns()),
        }
    }

    fn refuses(&self, now: u64) -> bool {
        self.refusals.since(now).is_some()
    }

    /// Whether the local disk is full, and the mover may yet have made room on it.
    fn may_make_room(&self, now: u64) -> bool {
        let since = self.refusals.since(now);
        since.is_some_and(|since| now.saturating_sub(since) < self.patience_ns)
    }

    fn is_cold(&self, segment: u32, now: u64) -> bool {
        now.saturating_sub(self.segments.touched(segment)) > COLD_NS
    }

    /// A segment is for the mover to take, once it is told. False: not now.
    fn offer(&self, segment: u32) -> bool {
        self.segments.change_from(segment, State::Local, State::Offered)
    }

    /// Have a segment back that the mover has not taken yet.
    fn withdraw(&self, segment: u32) -> bool {
        self.segments.change_from(segment, State::Offered, State::Local)
    }

    /// Tell the mover of a segment that was dropped. True: there is none that would ever answer.
    fn is_free(&self, segment: u32, dropped: Seen) -> bool {
        has_no_mover(self.ring(segment)) && self.segments.change(segment, dropped, State::Local).is_some()
    }

    /// Nothing of a segment is needed. True: it may be written to again.
    fn give_up(&self, segment: u32) -> bool {
        let seen = self.segments.look(segment);
        match seen.state() {
            State::Local => true,
            State::Offered | State::Lost => self.segments.change(segment, seen, State::Local).is_some(),
            State::Both | State::Remote => {
                let dropped = self.segments.change(segment, seen, State::Dropped);
                dropped.is_some_and(|dropped| self.is_free(segment, dropped))
            }
            // Told again, as the first word may have found the queue full.
            State::Dropped => self.is_free(segment, seen),
            State::Wanted | State::Arriving => false,
        }
    }
}

fn own(pager: &Pager) -> Option<&Remote> {
    pager.fds().swap.as_ref()?.remote.as_ref()
}

/// Before anything is written to our own file.
pub(crate) fn provide(pager: &Pager) {
    if own(pager).is_some() {
        pager.mm.allow_aside();
    }
}

/// Whether faults wait for room that the mover may make.
pub(crate) fn may_make_room(pager: &Pager) -> bool {
    own(pager).is_some_and(|remote| remote.may_make_room(now_ns()))
}

/// By kswapd, now and then: offer what is cold, have back what is needed no more.
pub(crate) fn send_on(pager: &Pager) {
    let Some(remote) = own(pager) else { return };
    let emptied = pager.mm.emptied_segments().into_iter();
    emptied
        .filter(|segment| remote.give_up(*segment))
        .for_each(|segment| pager.mm.bring_back(segment));
    match remote.segments.is_open() {
        true => offer_cold(pager, remote),
        false => withdraw(pager, remote, &pager.mm.segments_aside()),
    }
}

fn offer_cold(pager: &Pager, remote: &Remote) {
    let now = now_ns();
    let (segments, next) = pager.mm.full_segments(Look {
        from: remote.hand.load(Ordering::Relaxed),
        clusters: LOOKED_AT,
        least: if remote.refuses(now) { 1 } else { WORTH },
    });
    remote.hand.store(next, Ordering::Relaxed);
    let is_offered = |segment: &u32| {
        let is_aside = remote.is_cold(*segment, now) && pager.mm.set_aside(*segment);
        let is_offered = is_aside && remote.offer(*segment);
        if is_aside && !is_offered {
            pager.mm.bring_back(*segment);
        }
        is_offered
    };
    let offered: Vec<u32> = segments.into_iter().filter(is_offered).collect();
    // The queue is short: the mover takes what follows along.
    for run in offered.chunk_by(|segment, next| segment + 1 == *next) {
        if remote.ring(run[0]).is_err() {
            withdraw(pager, remote, run);
        }
    }
}

/// Have back what the mover has not taken.
fn withdraw(pager: &Pager, remote: &Remote, segments: &[u32]) {
    let withdrawn = segments.iter().filter(|segment| remote.withdraw(**segment));
    withdrawn.for_each(|segment| pager.mm.bring_back(*segment));
}
