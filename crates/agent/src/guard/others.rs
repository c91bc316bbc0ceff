//! process_vm_readv(2) and process_vm_writev(2). Of another process the kernel finds what is mapped
//! there, and waits for no pager. So that one's has to bring what is out (`fault/wanted.rs`), and
//! the call is made in pieces. Of the process's own memory both ends are held: a call that reaches
//! much is made in pieces as well.
//!
//! While the other process is waited for nothing is held here: it may be waiting for us, for room
//! or in such a call.

use core::sync::atomic::{AtomicBool, Ordering};

use uzswap_ctl::{Field, Group, Wanted};
use uzswap_guard::reach::Extent;
use uzswap_mm::page::PAGE_SIZE;
use uzswap_sys::guard::Call;
use uzswap_sys::time::now_ns;
use uzswap_sys::{Errno, remains, thread};

use super::bring::frame_of;
use super::pieces::{self, MAX_RW_COUNT, VECTORS_MAX};
use super::{ADDRESSES, exec};
use crate::fault::inline;
use crate::guest::stacks::Undisturbed;
use crate::pager;

const SYS_PROCESS_VM_READV: usize = 310;
const SYS_PROCESS_VM_WRITEV: usize = 311;

/// Bytes of one piece at most.
const PIECE: usize = Wanted::PAGES_MAX as usize * PAGE_SIZE;
/// So often a page is asked for that is brought and still is not found: one that is written to may
/// come protected at first.
const BROUGHT_MAX: u32 = 16;
/// So often a page is asked for that is there, or that the other's pager does not have.
const NOTHING_MAX: u32 = 3;
/// How long a process that gives no answer is waited for before the kernel is asked again: it may
/// have ended. Nanoseconds. And how often one is waited for.
const LATE_NS: u64 = 1_000_000_000;
const SILENT_MAX: u32 = 5;
/// How long one is waited for that answers others. One of them may be dead, which that one sees
/// after a second. Nanoseconds.
const BUSY_NS: u64 = 20_000_000_000;
/// From one look at the answer to the next: a few, then as long as a look of that one's kswapd
/// takes. Nanoseconds.
const LOOK_NS: u64 = 30_000;
const LOOK_LONGER_NS: u64 = 1_000_000;
const LOOKS: u32 = 30;

/// That such a call failed was said.
static IS_SAID: AtomicBool = AtomicBool::new(false);

/// Whose memory the call reaches.
#[derive(Clone, Copy)]
enum Whose {
    Own,
    /// That of another process of the group.
    Member(Group),
}

/// A call that is made in pieces.
struct Transfer {
    number: usize,
    /// Of the program's call.
    frame: usize,
    process: usize,
    whose: Whose,
}

/// Make the call in pieces, if it has to be. Returns what the program gets. In a thread of the
/// program.
pub(super) fn make(call: &Call) -> Option<isize> {
    if ![SYS_PROCESS_VM_READV, SYS_PROCESS_VM_WRITEV].contains(&call.number) {
        return None;
    }
    let [process, here, heres, there, theres, flags] = call.args;
    let whose = match process == thread::pid() as usize {
        true => Whose::Own,
        false => {
            let group = pager::group()?;
            group.slot_of(process as u64)?;
            Whose::Member(group)
        }
    };
    // What the kernel refuses as a whole it refuses itself.
    let (mut here, mut there) = (Vectors::new(here, heres)?, Vectors::new(there, theres)?);
    let least = match whose {
        Whose::Own => pieces::most()?,
        Whose::Member(_) => 0,
    };
    if flags != 0 || here.left.min(there.left) <= least {
        return None;
    }
    let transfer = Transfer {
        number: call.number,
        frame: frame_of(&call.args),
        process,
        whose,
    };
    let mut moved = 0;
    while let (Some([to, room]), Some([from, rest])) = (here.current(), there.current()) {
        let len = room.min(rest).min(PIECE - from % PIECE).min(MAX_RW_COUNT - moved);
        match transfer.piece([to, len], [from, len]) {
            Ok(0) => break,
            Ok(some) => {
                here.skip(some);
                there.skip(some);
                moved += some;
            }
            Err(errno) if moved == 0 => return Some(-(errno.raw_os_error() as isize)),
            Err(_) => break,
        }
    }
    Some(moved as isize)
}

impl Transfer {
    /// Move a piece, or some of it: of both ends an address and how many bytes.
    fn piece(&self, here: [usize; 2], there: [usize; 2]) -> Result<usize, Errno> {
        let Whose::Member(group) = self.whose else {
            return self.attempt(here, there);
        };
        if there[0] >= ADDRESSES - PIECE || self.pager_of(group).is_none() {
            return self.attempt(here, there);
        }
        // What is written must stay meanwhile.
        match self.is_write() {
            true => self.bring(group, here, there),
            false => match self.attempt(here, there) {
                Err(Errno::FAULT) => self.bring(group, here, there),
                moved => moved,
            },
        }
    }

    /// As [`attempt`](Self::attempt), when the other process has brought what is wanted.
    fn bring(&self, group: Group, here: [usize; 2], there: [usize; 2]) -> Result<usize, Errno> {
        let first = there[0] / PAGE_SIZE;
        let wanted = Wanted {
            first: first as u64,
            pages: ((there[0] + there[1]).div_ceil(PAGE_SIZE) - first) as u64,
            is_write: self.is_write(),
        };
        let (mut brought, mut nothing, mut silent) = (0, 0, 0);
        loop {
            // It may have executed another program since.
            let Some(slot) = self.pager_of(group) else {
                return self.attempt(here, there);
            };
            let answer = Answer::wait_for(group, slot, wanted);
            let (count, most) = match answer.as_ref().map(|answer| answer.is_brought) {
                Ok(true) => (&mut brought, BROUGHT_MAX),
                Ok(false) => (&mut nothing, NOTHING_MAX),
                Err(_) => (&mut silent, SILENT_MAX),
            };
            *count += 1;
            let is_last = *count == most;
            let moved = match &answer {
                Ok(answer) => self.attempt_with(answer, here, there),
                Err(_) => self.attempt_without(group, slot, here, there),
            };
            if moved != Err(Errno::FAULT) {
                return moved;
            }
            if is_last {
                if answer.is_err_and(|silence| silence == Silence::Late) {
                    self.say_why();
                }
                return moved;
            }
        }
    }

    /// While the other process holds it.
    ///
    /// # Errors
    /// EFAULT as well where that one has let go: it does not wait for ever for a thread that is
    /// stopped in here.
    fn attempt_with(&self, answer: &Answer, here: [usize; 2], there: [usize; 2]) -> Result<usize, Errno> {
        let moved = self.attempt(here, there);
        match self.is_write() && !answer.is_held() {
            true => Err(Errno::FAULT),
            false => moved,
        }
    }

    /// While nobody holds it. One that gives no answer may have been stopped as it took that very
    /// page out, and goes on with it: what is written would be lost, unless that memory is gone.
    ///
    /// # Errors
    /// ESRCH: so is the process. EFAULT: nothing was written.
    fn attempt_without(&self, group: Group, slot: usize, here: [usize; 2], there: [usize; 2]) -> Result<usize, Errno> {
        if !self.is_write() {
            return self.attempt(here, there);
        }
        let mut byte = 0u8;
        let own = [(&raw mut byte).expose_provenance(), 1];
        if pieces::transfer(SYS_PROCESS_VM_READV, self.process, own, [there[0], 1]) == Err(Errno::SRCH) {
            return Err(Errno::SRCH);
        }
        let [image, start] = [Field::Image, Field::Start].map(|field| group.field(slot, field));
        match !exec::is_filtered() && remains::is_seen_without_memory(self.process as u32, image, start) {
            true => self.attempt(here, there),
            false => Err(Errno::FAULT),
        }
    }

    fn is_write(&self) -> bool {
        self.number == SYS_PROCESS_VM_WRITEV
    }

    /// The slot of the other process, if it has a pager: or nothing of it is out.
    fn pager_of(&self, group: Group) -> Option<usize> {
        let slot = group.slot_of(self.process as u64)?;
        (group.field(slot, Field::CameBy) != 0).then_some(slot)
    }

    fn attempt(&self, here: [usize; 2], there: [usize; 2]) -> Result<usize, Errno> {
        let extent = |[start, len]: [usize; 2], is_written| Extent { start, len, is_written };
        let ends = [extent(here, !self.is_write()), extent(there, self.is_write())];
        let held = match self.whose {
            Whose::Own => &ends[..],
            Whose::Member(_) => &ends[..1],
        };
        pieces::holding(self.frame, held, || {
            pieces::transfer(self.number, self.process, here, there)
        })
    }

    fn say_why(&self) {
        if IS_SAID.swap(true, Ordering::Relaxed) {
            return;
        }
        let name = match self.number {
            SYS_PROCESS_VM_READV => "process_vm_readv",
            _ => "process_vm_writev",
        };
        pager::say(format_args!(
            "uzswap: {name} of process {} fails in process {}: it does not run, so nobody brings its pages that are out. If it is \
                 stopped, continue it (SIGCONT)\n",
            self.process,
            thread::pid(),
        ));
    }
}

/// What a process was asked for stays, while this lives. No handler of the program runs meanwhile:
/// it would wait for its own thread, or leave the word taken for ever.
struct Answer {
    group: Group,
    slot: usize,
    wanted: Wanted,
    /// The first page of it was out.
    is_brought: bool,
    _undisturbed: Undisturbed,
}

/// Why there is no answer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Silence {
    /// The process does not run, as it is stopped, or has ended.
    Late,
    /// It answers somebody else.
    Busy,
}

impl Answer {
    /// Have the process in `slot` bring something, and hold it.
    fn wait_for(group: Group, slot: usize, wanted: Wanted) -> Result<Self, Silence> {
        let _undisturbed = Undisturbed::begin();
        let began = now_ns();
        let mut looks = 0;
        let ago = |then: u64| now_ns().saturating_sub(then);
        // A thread that waits for room may do so for long: as long as kswapd comes by.
        let is_late = || ago(began) >= LATE_NS && ago(group.field(slot, Field::CameBy)) >= LATE_NS;
        let mut look = || {
            looks += 1;
            inline::pause(if looks < LOOKS { LOOK_NS } else { LOOK_LONGER_NS });
        };
        while !group.ask_for(slot, wanted, thread::pid()) {
            if is_late() {
                return Err(Silence::Late);
            }
            if ago(began) >= BUSY_NS {
                return Err(Silence::Busy);
            }
            look();
        }
        let is_brought = loop {
            if let Some(answer) = group.answered(slot, wanted) {
                break answer;
            }
            // Or it is another process's slot by now.
            if is_late() || !group.is_asked_for(slot, wanted) {
                group.end_asking(slot, wanted);
                return Err(Silence::Late);
            }
            look();
        };
        Ok(Self {
            group,
            slot,
            wanted,
            is_brought,
            _undisturbed,
        })
    }

    /// Whether what was asked for has stayed until now.
    fn is_held(&self) -> bool {
        self.group.answered(self.slot, self.wanted).is_some()
            && self.group.field(self.slot, Field::WantedBy) == thread::pid() as u64
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.group.end_asking(self.slot, self.wanted);
    }
}

/// What is left of an array of `struct iovec` in the program's memory.
struct Vectors {
    list: usize,
    /// The next one, and how many there are.
    next: usize,
    count: usize,
    /// Address and length of the rest of the one before.
    rest: [usize; 2],
    /// Bytes of all.
    left: usize,
}

impl Vectors {
    /// `None`: the kernel takes no such array.
    fn new(list: usize, count: usize) -> Option<Self> {
        if count > VECTORS_MAX {
            return None;
        }
        let mut left = 0usize;
        for n in 0..count {
            let (start, len) = pieces::vector(list, n)?;
            left = left.checked_add(len).filter(|_| !pieces::is_beyond(start, len))?;
        }
        Some(Self {
            list,
            next: 0,
            count,
            rest: [0; 2],
            left,
        })
    }

    /// Address and length of what comes next, if anything does.
    fn current(&mut self) -> Option<[usize; 2]> {
        while self.rest[1] == 0 && self.next < self.count {
            let (start, len) = pieces::vector(self.list, self.next)?;
            self.rest = [start, len];
            self.next += 1;
        }
        (self.rest[1] > 0).then_some(self.rest)
    }

    /// So many bytes of it are done.
    fn skip(&mut self, bytes: usize) {
        let [start, len] = self.rest;
        self.rest = [start.wrapping_add(bytes), len.saturating_sub(bytes)];
    }
}
