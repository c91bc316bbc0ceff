//! What parent and child tell each other during a fork: words that both see, and a log of changes
//! to mappings.

use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};

use lock_api::RawMutex;
use uzswap_mm::Change;
use uzswap_mm::page::{PAGE_SIZE, PageRange, Vpn};
use uzswap_sys::door::{self, Door, Found};
use uzswap_sys::futex::RawLock;
use uzswap_sys::shared::{FamilyWords, Leases};
use uzswap_sys::uffd::Uffd;
use uzswap_sys::{AsFd, Errno, OwnedFd, lent, random, thread};

use crate::guard::exec;
use crate::pager::missing::Missing;
use crate::pager::{Pager, pause};

/// How a fork is going, and what the child needs to know.
pub(crate) struct Handover {
    /// Shared by parent and child. Each fork has words of its own: a child still reads its changes
    /// when the parent forks again, and forks itself meanwhile.
    words: FamilyWords,
    /// `prepare` ran and neither `parent` nor `child` yet. Copied by the fork, like all that is not
    /// in `words`.
    pub(super) is_prepared: AtomicBool,
    /// The parent's files of /proc are shown until it is through with the fork.
    pub(super) is_shown: AtomicBool,
    pub(super) parent_returned: AtomicBool,
    /// The process that prepares the fork: the child's parent, for the child to see whether it
    /// lives.
    pub(super) parent: AtomicI32,
    /// What the fork has returned, once it has: the child's process id, or less than 0.
    pub(super) returned: AtomicI32,
    /// Held from `prepare` to `parent`: one fork at a time.
    pub(super) lock: RawLock,
    /// Signal mask to restore after the fork: a handler that ran between could fork itself.
    pub(super) mask: AtomicU64,
}

const STATE: usize = 0;
const CHANGES: usize = 1;
/// Not 0: the child is there, which nobody tells where there are no fork events.
const ARRIVED: usize = 2;
const PARENT_TID: usize = 3;
const FILES: usize = 4;
/// Batches of pages that the parent has sent a child without a pager, and those that it has taken;
/// pages of the last.
const SENT: usize = 5;
const TAKEN: usize = 6;
const PAGES: usize = 7;
/// Where the child waits for its userfaultfd, 0: nowhere; in which network namespace; and what only
/// its parent can know.
const DOOR: usize = 8;
const NETWORK: usize = 9;
const SECRET: usize = 10;
/// Pairs: number of a descriptor of the parent's fault thread, byte that a lease on it locks.
const FIRST_FILE: usize = 11;
/// Datagrams that the child looks at: others may send, too.
const LETTERS_MAX: usize = 16;
const FILES_MAX: usize = 254;
/// Four words each: kind, start, end, target.
const FIRST_CHANGE: usize = FIRST_FILE + 2 * FILES_MAX;
pub(super) const CHANGES_MAX: usize = 64 * 1024;
/// A page each, in the place of changes, which only a child with a pager reads: its number, with
/// [`LOST`] if its contents are, and those.
const PAGE_WORDS: usize = 1 + PAGE_SIZE / size_of::<u64>();
const LOST: u64 = 1 << 63;
/// Pages of a batch, at most.
pub(super) const BATCH: usize = 4 * CHANGES_MAX / PAGE_WORDS;

/// What a child lacks whose parent was killed.
pub(super) const ORPHAN: Missing = Missing::named("a parent that lived until the fork was complete", Errno::SRCH);

/// Values of [`STATE`], in order; fresh words say 0. READY is answered by RELEASED, UNMANAGED by
/// RELEASED_UNMANAGED. The parent describes the fork when it has read the event, and the child runs
/// from that moment on, so it waits for the description.
pub(super) const DESCRIBED: u64 = 1;
pub(super) const READY: u64 = 2;
pub(super) const UNMANAGED: u64 = 3;
pub(super) const RELEASED: u64 = 4;
pub(super) const RELEASED_UNMANAGED: u64 = 5;

impl Handover {
    pub(crate) fn new() -> Self {
        Self {
            words: FamilyWords::new(FIRST_CHANGE + 4 * CHANGES_MAX),
            is_prepared: AtomicBool::new(false),
            is_shown: AtomicBool::new(false),
            parent_returned: AtomicBool::new(false),
            parent: AtomicI32::new(0),
            returned: AtomicI32::new(0),
            lock: RawLock::INIT,
            mask: AtomicU64::new(0),
        }
    }

    /// A place for the words of all forks, as the pager begins: one that is found later may be one
    /// that the program has just left. Where there is none the first fork looks again.
    pub(crate) fn begin(&self) {
        if self.words.words().is_empty() {
            // SAFETY: nobody forks before the pager is there.
            let _ = unsafe { self.words.renew() };
        }
    }

    /// Fresh words for the next fork.
    pub(super) fn renew(&self) {
        // SAFETY: called by kswapd between two forks: the fault thread and the forking threads use
        // the words only from FREEZE to FORKED, and forks are serialised by `lock`.
        if let Err(errno) = unsafe { self.words.renew() } {
            panic!("no memory to prepare a fork: {errno}");
        }
    }

    fn get(&self, word: usize) -> u64 {
        self.words.words()[word].load(Ordering::Acquire)
    }

    fn set(&self, word: usize, value: u64) {
        self.words.words()[word].store(value, Ordering::Release);
    }

    /// The program is as it was.
    pub(super) fn hide_again(&self) {
        if self.is_shown.swap(false, Ordering::Relaxed) {
            lent::hide();
        }
    }

    /// In the child, at once.
    pub(super) fn arrive(&self) {
        self.set(ARRIVED, 1);
    }

    /// Whether the child is there.
    pub(crate) fn has_arrived(&self) -> bool {
        self.get(ARRIVED) != 0
    }

    /// Whether the child has not been told anything yet.
    pub(super) fn is_fresh(&self) -> bool {
        self.state() == 0
    }

    pub(super) fn state(&self) -> u64 {
        self.get(STATE)
    }

    pub(super) fn set_state(&self, state: u64) {
        self.set(STATE, state);
    }

    /// Whether `fork` has returned in the parent, so that its event, if there was one, has been
    /// read.
    pub(crate) fn parent_returned(&self) -> bool {
        self.parent_returned.load(Ordering::SeqCst)
    }

    /// In the child: wait until the parent has come so far. False: it died before; its descriptors
    /// were closed by then.
    pub(super) fn wait_for_parent(&self, pager: &Pager, state: u64) -> bool {
        self.wait_until(pager, || self.get(STATE) >= state)
    }

    /// In the child: wait for what the parent does. False: it died before.
    fn wait_until(&self, pager: &Pager, is_done: impl Fn() -> bool) -> bool {
        while !is_done() {
            let parent_lives = match thread::parent_pid() {
                // In another PID namespace. The slot is still the parent's, and so is the lease on
                // it.
                0 => Leases::open(pager.memcg.path()).map_or(true, |leases| leases.is_held(pager.memcg.slot())),
                pid => pid == self.parent.load(Ordering::SeqCst),
            };
            if !parent_lives {
                return is_done();
            }
            pause(20_000);
        }
        true
    }

    /// In the child: wait where the parent can send a descriptor. `None`: it cannot, or a filter of
    /// the program's might end who tries.
    pub(super) fn open_door(&self) -> Option<Door> {
        if exec::is_filtered() {
            return None;
        }
        let (network, (door, name)) = (door::network()?, Door::bind_anywhere().ok()?);
        let mut secret = [0; size_of::<u64>()];
        random::fill(&mut secret).ok()?;
        self.set(SECRET, u64::from_ne_bytes(secret));
        self.set(NETWORK, network);
        self.set(DOOR, name.0);
        Some(door)
    }

    /// In the parent: send the child its userfaultfd. False: it does not arrive.
    pub(super) fn hand_over(&self, child: &Uffd) -> bool {
        match self.get(DOOR) {
            0 => false,
            _ if exec::is_filtered() => false,
            // Somebody else may have that name in ours.
            _ if door::network() != Some(self.get(NETWORK)) => false,
            name => Found(name).send(self.get(SECRET), child.as_fd()).is_ok(),
        }
    }

    /// In the child, once it is RELEASED: what the parent has sent. `None`: nothing, or there was
    /// no room for it; then nobody has it any more.
    pub(super) fn receive(&self, door: &Door) -> Option<OwnedFd> {
        let mut letters = core::iter::from_fn(|| door.receive()).take(LETTERS_MAX);
        let sent = letters.find(|sent| sent.word == self.get(SECRET))?;
        sent.fds.into_iter().next()
    }

    /// In the parent: page `n` of the next batch is `page`, with `contents`; `None`: they are lost.
    pub(super) fn write_page(&self, n: usize, page: Vpn, contents: Option<&[u8]>) {
        let first = FIRST_CHANGE + n * PAGE_WORDS;
        self.set(first, page.number() | contents.map_or(LOST, |_| 0));
        let words = contents.unwrap_or_default().chunks_exact(size_of::<u64>());
        for (at, word) in (first + 1..).zip(words) {
            // Eight bytes each, by the line above.
            self.set(at, word.try_into().map_or(0, u64::from_ne_bytes));
        }
    }

    /// In the parent: the batch has so many pages. Returns its number, which [`Handover::taken`]
    /// answers once the child has them.
    pub(super) fn send_batch(&self, pages: usize) -> u64 {
        let batch = self.get(SENT) + 1;
        self.set(PAGES, pages as u64);
        self.set(SENT, batch);
        batch
    }

    /// Batches that the child has taken.
    pub(super) fn taken(&self) -> u64 {
        self.get(TAKEN)
    }

    /// In the child: wait for batch number `batch`. How many pages it has; none: there is no such
    /// batch, as that was all. `None`: the parent died before.
    pub(super) fn wait_for_batch(&self, pager: &Pager, batch: u64) -> Option<usize> {
        let is_sent = || self.get(SENT) >= batch;
        let has_come = self.wait_until(pager, || is_sent() || self.state() >= RELEASED_UNMANAGED);
        has_come.then(|| {
            if is_sent() {
                (self.get(PAGES) as usize).min(BATCH)
            } else {
                0
            }
        })
    }

    /// In the child: page `n` of the batch, and its contents. True: they are there, and not lost.
    pub(super) fn read_page(&self, n: usize, contents: &mut [u8; PAGE_SIZE]) -> (Vpn, bool) {
        let first = FIRST_CHANGE + n * PAGE_WORDS;
        for (at, word) in (first + 1..).zip(contents.chunks_exact_mut(size_of::<u64>())) {
            word.copy_from_slice(&self.get(at).to_ne_bytes());
        }
        let page = self.get(first);
        (Vpn::new(page & !LOST), page & LOST == 0)
    }

    /// In the child: it has the batch.
    pub(super) fn take_batch(&self, batch: u64) {
        self.set(TAKEN, batch);
    }

    /// The parent's swap files, by their descriptors in the calling thread, and the byte that a
    /// lease on each locks. Those beyond [`FILES_MAX`] are only counted.
    pub(super) fn describe_files(&self, files: impl Iterator<Item = (i32, u64)>) {
        self.set(PARENT_TID, thread::tid() as u64);
        let mut n = 0;
        for (number, byte) in files {
            if n < FILES_MAX {
                self.set(FIRST_FILE + 2 * n, number as u64);
                self.set(FIRST_FILE + 2 * n + 1, byte);
            }
            n += 1;
        }
        self.set(FILES, n as u64);
    }

    /// The thread whose descriptors [`Handover::files`] names.
    pub(super) fn parent_tid(&self) -> i32 {
        self.get(PARENT_TID) as i32
    }

    /// What [`Handover::describe_files`] was told. `None`: they are more than a child can have, as
    /// each of so many generations has left pages in its own.
    pub(super) fn files(&self) -> Option<impl Iterator<Item = (i32, u64)>> {
        let files = Some(self.get(FILES) as usize).filter(|files| *files <= FILES_MAX)?;
        Some((0..files).map(|n| {
            let word = |i| self.get(FIRST_FILE + 2 * n + i);
            (word(0) as i32, word(1))
        }))
    }

    /// In the parent, once: what happened to the child's mappings, oldest first, at most
    /// [`CHANGES_MAX`].
    pub(super) fn push_changes(&self, changes: &[Change]) {
        changes.iter().for_each(|change| self.push_change(*change));
    }

    fn push_change(&self, change: Change) {
        let n = self.get(CHANGES) as usize;
        assert!(n < CHANGES_MAX, "more changes than a fork's log holds");
        let (kind, range, to) = match change {
            Change::Remove(range) => (0, range, Vpn::new(0)),
            Change::Unmap(range) => (1, range, Vpn::new(0)),
            Change::Remap { from, to } => (2, from, to),
        };
        for (i, word) in [kind, range.start.number(), range.end.number(), to.number()]
            .into_iter()
            .enumerate()
        {
            self.set(FIRST_CHANGE + 4 * n + i, word);
        }
        self.set(CHANGES, n as u64 + 1);
    }

    pub(super) fn changes(&self) -> impl Iterator<Item = Change> {
        (0..(self.get(CHANGES) as usize).min(CHANGES_MAX)).map(|n| {
            let word = |i| self.get(FIRST_CHANGE + 4 * n + i);
            let range = PageRange {
                start: Vpn::new(word(1)),
                end: Vpn::new(word(2)),
            };
            match word(0) {
                0 => Change::Remove(range),
                1 => Change::Unmap(range),
                _ => Change::Remap {
                    from: range,
                    to: Vpn::new(word(3)),
                },
            }
        })
    }
}
