//! What the pager's threads and the program's tell each other.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize};

use uzswap_sys::futex::Mailbox;

use super::tickets::Tickets;

/// The pager works as usual.
pub(super) const KEEPS: u32 = 0;
/// All that is stored is to be brought back, however much, for processes that outlive this one in
/// its memory.
pub(super) const LETS_GO: u32 = 1;
/// It is back. Nothing leaves any more.
pub(super) const HAS_LET_GO: u32 = 2;

/// What a pager lacks that cannot give all back as long as it lives.
pub(crate) const CANNOT: u64 = u64::MAX;
/// Or while another process has its memory: a child of vfork executes a program soon.
pub(crate) const SHARES_MEMORY: u64 = u64::MAX - 1;
/// Or others keep the turn to change mappings.
pub(crate) const NO_TURN: u64 = u64::MAX - 2;
/// Nothing.
pub(super) const NOTHING: u64 = 0;

/// What is asked of the pager's threads, and what they answer.
#[derive(Default)]
pub(crate) struct Post {
    pub(crate) mail: Mailbox,
    pub(crate) replies: Mailbox,
    /// Looks at the mappings, and all else, that threads of the program wait for.
    pub(crate) scans: Tickets,
    pub(crate) requests: Tickets,
    /// How far the pager is with giving all memory back: [`KEEPS`], [`LETS_GO`], [`HAS_LET_GO`].
    pub(super) letting_go: AtomicU32,
    /// The pager ends with that, and the process goes on.
    pub(super) retires: AtomicBool,
    /// And no other begins after it.
    pub(super) is_for_good: AtomicBool,
    /// Where it could not: what the limit lacks, in bytes, or one of [`CANNOT`], [`SHARES_MEMORY`],
    /// [`NO_TURN`]; else [`NOTHING`].
    pub(super) lacks: AtomicU64,
    /// What [`mail::JOIN`] is about.
    pub(super) joining: [AtomicUsize; 2],
    /// Not 0: the fault thread is to give up the range that [`mail::RELEASE`] is about.
    pub(super) releasing: AtomicU32,
}

impl Post {
    /// Whether somebody who has the turn to change mappings waits for kswapd.
    pub(crate) fn is_called(&self) -> bool {
        self.mail.peek(mail::JOIN | mail::FREEZE | mail::CALLED) != 0
    }
}

/// Bits of [`Post::mail`], read by kswapd.
pub(crate) mod mail {
    /// Memory is short.
    pub(crate) const RECLAIM: u32 = 1;
    /// Look at the mappings now.
    pub(crate) const SCAN: u32 = 2;
    /// A fork is about to happen: come to rest.
    pub(crate) const FREEZE: u32 = 4;
    /// The fork is over.
    pub(crate) const THAWED: u32 = 8;
    /// Take what was just mapped in the middle of managed memory under our care.
    pub(crate) const JOIN: u32 = 16;
    /// The process is about to end: whoever shares its memory gets all of it.
    pub(crate) const LEAVE: u32 = 32;
    /// The program has changed its credentials.
    pub(crate) const CREDENTIALS: u32 = 64;
    /// The program has a userfaultfd of its own for a range: it gets that back.
    pub(crate) const RELEASE: u32 = 128;
    /// The process is about to end: write what is recorded of it.
    pub(crate) const RECORD: u32 = 256;
    /// A thread of the program waits for the fault thread, and could not wake it perhaps.
    pub(crate) const RING: u32 = 512;
    /// A call wants one thread, or filters the calls of all: the pager ends.
    pub(crate) const RETIRE: u32 = 1024;
    /// The kernel is to wait for pages from now on.
    pub(crate) const BLOCK: u32 = 2048;
    /// A thread of the program has taken its ticket, perhaps after that was done.
    pub(crate) const TICKET: u32 = 4096;
    /// It has the turn to change mappings, too.
    pub(crate) const CALLED: u32 = 8192;
    /// What a thread of the program has a ticket for.
    pub(crate) const ASKED: u32 = LEAVE | CREDENTIALS | RELEASE | RETIRE | BLOCK | TICKET | CALLED;
    /// What one waits for an answer to.
    pub(crate) const WAITED_FOR: u32 = ASKED | SCAN | FREEZE | JOIN | RECORD | RING;
}

/// Bits of [`Post::replies`], read by the thread whose turn it is to change mappings: it forks, or
/// waits for a join.
pub(crate) mod reply {
    /// The engine is at rest.
    pub(crate) const FROZEN: u32 = 1;
    /// The child has its own pager, or there is no child.
    pub(crate) const FORKED: u32 = 2;
    /// The range is joined, or cannot be.
    pub(crate) const JOINED: u32 = 4;
}
