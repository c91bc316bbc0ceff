//! libc's `mmap`, `munmap`, `mremap`, `madvise`, `brk` and `mlockall`, replaced: the same system
//! call, plus what the pager needs.
//!
//! They run in the program's threads, perhaps inside its malloc, perhaps on a stack in managed
//! memory, perhaps in a vfork child; so they take no lock of the pager's, allocate nothing, and
//! touch little but atomics.
//!
//! # Order of events
//! The kernel changes the mapping first and queues the event after it has let go of its own lock.
//! So two threads' events may be read in the wrong order: one unmaps X and is preempted, another's
//! mremap lands on X and is reported first; dropping X then drops what was just moved there.
//! Changes that raise events are therefore made one at a time ([`InOrder`]): such a call returns
//! when its event was read. For programs that make these calls without libc the engine puts events
//! in order (`mm/flight/departing.rs`), as far as that can be known.

use core::ffi::{c_int, c_long, c_ulong, c_void};
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicUsize, Ordering};

use lock_api::RawMutex;
use uzswap_mm::page::PAGE_SIZE;
use uzswap_sys::Errno;
use uzswap_sys::futex::RawLock;
use uzswap_sys::libc::Function;
use uzswap_sys::mapping;
use uzswap_sys::procfs::ProcSelf;
use uzswap_sys::thread::{self, syscall};
use uzswap_sys::uffd::Request;

use crate::memcg::deferral;
use crate::stacks::StackChange;
use crate::{mapped, pager, vma};

pub(crate) const SYS_MMAP: usize = 9;
pub(crate) const SYS_MUNMAP: usize = 11;
pub(crate) const SYS_BRK: usize = 12;
pub(crate) const SYS_IOCTL: usize = 16;
pub(crate) const SYS_MREMAP: usize = 25;
pub(crate) const SYS_MADVISE: usize = 28;
const SYS_MLOCK: usize = 149;
pub(crate) const SYS_MLOCKALL: usize = 151;

/// MADV_DONTNEED, MADV_FREE, MADV_REMOVE, MADV_DONTNEED_LOCKED: advice that raises events.
/// MADV_GUARD_INSTALL should.
const DROPPING_ADVICE: [c_int; 5] = [MADV_DONTNEED, MADV_FREE, 9, 24, MADV_GUARD_INSTALL];
const MADV_DONTNEED: c_int = 4;
const MADV_FREE: c_int = 8;
const MADV_MERGEABLE: c_int = 12;
const MADV_WIPEONFORK: c_int = 18;
const MADV_GUARD_INSTALL: c_int = 102;
const MAP_FIXED: c_int = 0x10;
const MREMAP_MAYMOVE: c_int = 1;
const MREMAP_FIXED: c_int = 2;
const MREMAP_DONTUNMAP: c_int = 4;

const MCL_CURRENT: c_int = 1;
const MCL_FUTURE: c_int = 2;
const MCL_ONFAULT: c_int = 4;

const MAP_PRIVATE: c_int = 0x02;
const MAP_ANONYMOUS: c_int = 0x20;
const MAP_GROWSDOWN: c_int = 0x100;
const MAP_STACK: c_int = 0x20000;
const MAP_HUGETLB: c_int = 0x40000;
const PROT_WRITE: c_int = 2;
const PROT_EXEC: c_int = 4;

/// libc's `__errno_location`, which a program may define, too.
static ERRNO_LOCATION: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());

/// Before any wrapper is replaced.
pub(crate) fn find_errno(location: &Function) {
    ERRNO_LOCATION.store(location.entry, Ordering::Relaxed);
}

fn set_errno(errno: Errno) {
    // SAFETY: set before any of the replacements could run, to libc's function of this type.
    let location: extern "C" fn() -> *mut c_int =
        unsafe { core::mem::transmute(ERRNO_LOCATION.load(Ordering::Relaxed)) };
    // SAFETY: libc's errno of the calling thread, which is one of the program's.
    unsafe { *location() = errno.raw_os_error() };
}

/// libc's record of the program break, where libc itself takes it from: `sbrk` computes from it. A
/// weak symbol, so that a libc without it can load this library, and refuse it in words.
#[unsafe(naked)]
extern "C" fn current_break() -> *mut *mut c_void {
    core::arch::naked_asm!(".weak __curbrk", "mov rax, [rip + __curbrk@GOTPCREL]", "ret")
}

/// What a function of libc that failed returns.
pub(crate) fn fail(errno: Errno) -> c_int {
    set_errno(errno);
    -1
}

/// Whether the libc of this process is glibc, as far as can be told before anything else is known
/// of it.
pub(crate) fn is_glibc() -> bool {
    !current_break().is_null()
}

/// Held over a system call that raises events, and over a fork. Reset in forked children.
static ORDER: RawLock = RawLock::INIT;
/// Thread that holds [`ORDER`]: a handler of a signal that the call itself raised (SIGSYS) must not
/// wait for itself.
static OWNER: AtomicI32 = AtomicI32::new(0);

/// Looks at [`ORDER`] without and with sleeping between them before giving up, after ten seconds.
const SPINS: u32 = 2_000;
const PAUSES: u32 = 200_000;
const PAUSE_NS: u64 = 50_000;
/// Looks between two at whether the owner lives: a system call filter may end it in the middle of
/// the call.
const LOOKS_AT_OWNER: u32 = 1_000;

/// This thread's turn to change mappings.
///
/// A handler of the program never runs in it: one that left by siglongjmp would keep the turn for
/// ever, as would a thread that is cancelled asynchronously. So signals are blocked from before the
/// turn until after it; those that come are handled then.
pub(crate) struct InOrder {
    has_turn: bool,
    mask: Option<u64>,
}

impl InOrder {
    /// Wait for our turn if there is a pager. In a vfork child there is none: its parent's must not
    /// wait for it.
    fn begin() -> Self {
        if pager::active().is_none() {
            return Self {
                has_turn: false,
                mask: None,
            };
        }
        let mask = thread::block_asynchronous_signals();
        Self {
            has_turn: take_turn(),
            mask,
        }
    }

    /// Perhaps `[start, end)` was mapped in the middle of a mapping that is registered. The kernel
    /// joins the two only if it is registered as well before it is touched, and the program's next
    /// mremap takes one mapping: so have kswapd do it now.
    fn join(&self, start: usize, end: usize) {
        // While nothing is registered there is nothing to join. No scan registers any: it needs our
        // turn.
        if let Some(pager) = pager::active().filter(|_| self.has_turn && !deferral::is_deferred()) {
            pager.request_join(start, end);
        }
    }

    /// kswapd's turn, if it can be had at once: whoever forks waits for kswapd while it has the
    /// turn.
    pub(crate) fn attempt() -> Option<Self> {
        for _ in 0..SPINS {
            if ORDER.try_lock() {
                OWNER.store(thread::tid(), Ordering::Relaxed);
                return Some(Self {
                    has_turn: true,
                    mask: None,
                });
            }
            core::hint::spin_loop();
        }
        None
    }
}

impl Drop for InOrder {
    fn drop(&mut self) {
        // Not if a handler forked in the middle of the call: in the child the turn was ended
        // already.
        if self.has_turn && OWNER.load(Ordering::Relaxed) == thread::tid() {
            end_turn();
        }
        if let Some(mask) = self.mask {
            thread::restore_signals(mask);
        }
    }
}

fn take_turn() -> bool {
    let me = thread::tid();
    for i in 0..SPINS + PAUSES {
        if ORDER.try_lock() {
            OWNER.store(me, Ordering::Relaxed);
            return true;
        }
        let owner = OWNER.load(Ordering::Relaxed);
        if owner == me {
            return false;
        }
        if is_orphaned(owner, i) && inherit_turn(owner, me) {
            return true;
        }
        if i < SPINS {
            core::hint::spin_loop()
        } else {
            pager::pause(PAUSE_NS)
        }
    }
    false
}

/// Whether the turn is that of a thread that does not exist any more.
fn is_orphaned(owner: i32, looks: u32) -> bool {
    owner != 0 && looks > SPINS && looks.is_multiple_of(LOOKS_AT_OWNER) && !thread::is_alive(owner)
}

fn inherit_turn(owner: i32, me: i32) -> bool {
    OWNER
        .compare_exchange(owner, me, Ordering::Relaxed, Ordering::Relaxed)
        .is_ok()
}

fn end_turn() {
    OWNER.store(0, Ordering::Relaxed);
    // SAFETY: only called by the thread that `take_turn` gave the lock to.
    unsafe { ORDER.unlock() };
}

/// A fork is a change as well: whatever was changed before it has had its event read, so the
/// child's copy of memory and the words that describe it are of one moment.
static FORK_HAS_TURN: AtomicBool = AtomicBool::new(false);

/// Before a fork, in the forking thread.
pub(crate) fn begin_fork() {
    FORK_HAS_TURN.store(take_turn(), Ordering::Relaxed);
}

/// After a fork, in the parent.
pub(crate) fn end_fork() {
    if FORK_HAS_TURN.swap(false, Ordering::Relaxed) {
        end_turn();
    }
}

/// In a forked child: whose turn it was does not exist here, or was the fork's.
pub(crate) fn reset_in_child() {
    FORK_HAS_TURN.store(false, Ordering::Relaxed);
    if ORDER.is_locked() {
        end_turn();
    }
}

fn is_stack(flags: c_int) -> bool {
    flags & (MAP_STACK | MAP_GROWSDOWN) != 0
}

/// Whether a new mapping is memory that may come under our care; a small one only as a part of
/// another.
fn is_ours(len: usize, prot: c_int, flags: c_int) -> bool {
    let kind = flags & (MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB);
    let is_big_enough = len >= vma::MIN_BYTES || flags & MAP_FIXED != 0;
    is_big_enough && kind == MAP_PRIVATE | MAP_ANONYMOUS && prot & PROT_EXEC == 0
}

pub(crate) extern "C" fn mmap(
    addr: *mut c_void,
    len: usize,
    prot: c_int,
    flags: c_int,
    fd: c_int,
    offset: c_long,
) -> *mut c_void {
    let args = [
        addr as usize,
        len,
        prot as usize,
        flags as usize,
        fd as usize,
        offset as usize,
    ];
    let turn = (flags & MAP_FIXED != 0).then(InOrder::begin);
    // After the turn began: while it is waited for, somebody else's join must be able to look at
    // the mappings.
    let stack = is_stack(flags).then(StackChange::begin);
    if turn.is_some() && stack.is_none() {
        // Nothing else takes it under our care before the call: that needs a turn as well.
        StackChange::begin().remove(addr as usize, len);
    }
    // SAFETY: exactly the call that the program makes; libc's wrapper adds nothing (the kernel
    // checks the offset).
    let result = unsafe { syscall(SYS_MMAP, args) };
    if let (Ok(start), Some(turn)) = (result, &turn)
        && stack.is_none()
        && is_ours(len, prot, flags)
    {
        turn.join(start, start + thread::page_align(len));
    }
    // Ended before kswapd is waited for, which needs a turn of its own to look at mappings.
    drop(turn);
    match result {
        Ok(start) => {
            if let Some(change) = &stack {
                change.add(start, start + thread::page_align(len));
            } else if is_ours(len, prot, flags) {
                deferral::note_growth(start, len, prot & PROT_WRITE != 0);
            }
            core::ptr::with_exposed_provenance_mut(start)
        }
        Err(errno) => {
            set_errno(errno);
            core::ptr::without_provenance_mut(usize::MAX)
        }
    }
}

pub(crate) extern "C" fn munmap(addr: *mut c_void, len: usize) -> c_int {
    let start = addr as usize;
    let _turn = InOrder::begin();
    let change = StackChange::begin();
    change.remove(start, len);
    // SAFETY: exactly the call that the program makes.
    let result = unsafe { syscall(SYS_MUNMAP, [start, len, 0, 0, 0, 0]) };
    match result {
        Ok(_) => 0,
        Err(errno) => {
            set_errno(errno);
            -1
        }
    }
}

pub(crate) extern "C" fn mlockall(flags: c_int) -> c_int {
    let result = match pager::active() {
        Some(_) => lock_all_but_ours(flags),
        None => lock_all(flags),
    };
    match result {
        Ok(()) => 0,
        Err(errno) => {
            set_errno(errno);
            -1
        }
    }
}

fn lock_all(flags: c_int) -> Result<(), Errno> {
    // SAFETY: locking changes no contents.
    unsafe { syscall(SYS_MLOCKALL, [flags as usize, 0, 0, 0, 0, 0]) }.map(drop)
}

/// Lock the memory of the program, as it wants, but not ours: the kernel would fill the staging
/// range, waiting for pages that nobody gives.
fn lock_all_but_ours(flags: c_int) -> Result<(), Errno> {
    // Without filling anything at first.
    lock_all(flags | MCL_ONFAULT)?;
    mapping::own::unlock();
    if flags & MCL_ONFAULT != 0 {
        return Ok(());
    }
    if flags & MCL_CURRENT != 0
        && let Ok(proc) = ProcSelf::open()
    {
        let mut at = 0;
        while let Ok(Some(vma)) = proc.vma_at_or_after(at) {
            at = vma.end;
            if !mapping::own::overlaps(vma.start, vma.end) {
                // As mlockall does, which passes over what cannot be locked or filled.
                // SAFETY: fills the program's memory, changes no contents.
                let _ = unsafe { syscall(SYS_MLOCK, [vma.start, vma.end - vma.start, 0, 0, 0, 0]) };
            }
        }
    }
    match flags & MCL_FUTURE {
        0 => Ok(()),
        future => lock_all(future),
    }
}

/// The address that is moved from by an mremap which leaves its mapping behind; 0: none is under
/// way.
static KEEPING: AtomicUsize = AtomicUsize::new(0);

/// Until the call is over.
struct Kept(bool);

impl Drop for Kept {
    fn drop(&mut self) {
        if self.0 {
            KEEPING.store(0, Ordering::SeqCst);
        }
    }
}

/// Whether what is moved from `addr` at this moment leaves its mapping behind.
pub(crate) fn is_keeping(addr: usize) -> bool {
    addr != 0 && KEEPING.load(Ordering::SeqCst) == addr
}

/// The break that the kernel reported last.
static BREAK: AtomicUsize = AtomicUsize::new(0);

pub(crate) extern "C" fn mremap(
    addr: *mut c_void,
    old_len: usize,
    new_len: usize,
    flags: c_int,
    new_addr: *mut c_void,
) -> *mut c_void {
    // Before Linux 6.15 the event of a move that shrinks says the length from before, so the tail
    // goes first, as in the kernel. Only if nothing else is wrong with the call.
    let is_aligned = (addr as usize | new_addr as usize | old_len | new_len).is_multiple_of(PAGE_SIZE);
    let is_apart = (addr as usize).abs_diff(new_addr as usize) >= old_len;
    let shrinks = flags == MREMAP_MAYMOVE | MREMAP_FIXED && 0 < new_len && new_len < old_len && is_aligned && is_apart;
    if shrinks && pager::active().is_some() {
        if munmap(addr.wrapping_byte_add(new_len), old_len - new_len) != 0 {
            return core::ptr::without_provenance_mut(usize::MAX);
        }
        return mremap(addr, new_len, new_len, flags, new_addr);
    }
    let args = [addr as usize, old_len, new_len, flags as usize, new_addr as usize, 0];
    let keeps = flags & MREMAP_DONTUNMAP != 0;
    let is_fixed = flags & MREMAP_FIXED != 0;
    let call = || {
        let _turn = InOrder::begin();
        let stacks = StackChange::begin();
        let moving = stacks.lift(addr as usize, old_len);
        if is_fixed {
            stacks.remove(new_addr as usize, new_len);
        }
        // The event is read before the call returns.
        KEEPING.store(if keeps { addr as usize } else { 0 }, Ordering::SeqCst);
        let _done = Kept(keeps);
        // SAFETY: exactly the call that the program makes. `new_addr` is whatever the register held
        // if it passed none; the kernel looks at it only with MREMAP_FIXED or MREMAP_DONTUNMAP,
        // which take it.
        let result = unsafe { syscall(SYS_MREMAP, args) };
        if let Ok(start) = result {
            stacks.put(&moving, start, thread::page_align(new_len));
        }
        if keeps || result.is_err() {
            stacks.put(&moving, addr as usize, old_len);
        }
        result
    };
    if let (true, Some(pager)) = (is_fixed && deferral::has_unseen(), pager::active()) {
        // What is two mappings only because a part is not registered yet would be refused, perhaps
        // after the target was unmapped.
        pager.request_scan();
    }
    let mut result = call();
    if let (Err(Errno::FAULT), false, Some(pager)) = (result, is_fixed, pager::active()) {
        // The same; but nothing was unmapped, so it may be tried again.
        mapped::miss();
        pager.request_scan();
        result = call();
    }
    match result {
        Ok(start) => {
            if new_len > old_len {
                deferral::note_growth(start + old_len, new_len - old_len, true);
            }
            core::ptr::with_exposed_provenance_mut(start)
        }
        Err(errno) => {
            set_errno(errno);
            core::ptr::without_provenance_mut(usize::MAX)
        }
    }
}

/// Some memory is not for children, or was once.
static WIPES_ON_FORK: AtomicBool = AtomicBool::new(false);

/// Whether the program ever asked for memory that its children get empty.
pub(crate) fn wipes_on_fork() -> bool {
    WIPES_ON_FORK.load(Ordering::SeqCst)
}

/// Some memory may be merged with other memory.
static MERGES: AtomicBool = AtomicBool::new(false);

/// Some memory may be guards.
static INSTALLS_GUARDS: AtomicBool = AtomicBool::new(false);

/// Whether the program ever had pages merged with others of the same contents (MADV_MERGEABLE).
pub(crate) fn merges() -> bool {
    MERGES.load(Ordering::SeqCst)
}

/// Whether the program ever asked for guards (MADV_GUARD_INSTALL).
pub(crate) fn installs_guards() -> bool {
    INSTALLS_GUARDS.load(Ordering::SeqCst)
}

pub(crate) extern "C" fn madvise(addr: *mut c_void, len: usize, advice: c_int) -> c_int {
    let _turn = DROPPING_ADVICE.contains(&advice).then(InOrder::begin);
    if advice == MADV_WIPEONFORK {
        WIPES_ON_FORK.store(true, Ordering::SeqCst);
    }
    if advice == MADV_MERGEABLE {
        MERGES.store(true, Ordering::SeqCst);
    }
    if advice == MADV_GUARD_INSTALL {
        // Before they are there: UFFDIO_COPY puts a page in the place of a guard.
        INSTALLS_GUARDS.store(true, Ordering::SeqCst);
    }
    // SAFETY: exactly the call that the program makes.
    let advise = |advice: c_int| unsafe { syscall(SYS_MADVISE, [addr as usize, len, advice as usize, 0, 0, 0]) };
    let result = advise(advice);
    // Also where a part was not mapped: it was done to the others.
    let is_done = matches!(result, Ok(_) | Err(Errno::NOMEM));
    if matches!(advice, MADV_FREE | MADV_GUARD_INSTALL) && is_done && pager::active().is_some() {
        // MADV_FREE: the kernel may drop the pages at any time, and the program has to expect that
        // it does so now. Pages that stayed would be charged, and be nobody's to reclaim: their
        // words are gone. MADV_GUARD_INSTALL has dropped them without an event, so what was stored
        // of them would come back when the guards go.
        let _ = advise(MADV_DONTNEED);
        if advice == MADV_GUARD_INSTALL {
            // What another thread's fault had brought along until that event was read may have
            // taken guards away. Nothing is brought any more but the very page that faults.
            let _ = advise(MADV_GUARD_INSTALL);
        }
    }
    match result {
        Ok(_) => 0,
        Err(errno) => {
            set_errno(errno);
            -1
        }
    }
}

/// Variadic for the program; a wrapper takes the third argument from its register, whether it was
/// passed or not.
pub(crate) extern "C" fn ioctl(fd: c_int, request: c_ulong, argument: usize) -> c_int {
    let wanted = match Request::may_be(request as u32) {
        // SAFETY: what the program passes.
        true => unsafe { Request::decode(request as u32, argument) },
        false => None,
    };
    let _turn = wanted.map(|_| InOrder::begin());
    if let Some(Request::Register(start, end)) = wanted {
        // A mapping has one userfaultfd: the program's. From now on it is left alone, as a stack
        // is.
        StackChange::begin().add(start, end);
        if let Some(pager) = pager::active() {
            pager.request_release(start, end);
        }
    }
    // SAFETY: exactly the call that the program makes.
    let result = unsafe { syscall(SYS_IOCTL, [fd as usize, request as usize, argument, 0, 0, 0]) };
    match (wanted, &result) {
        (Some(Request::Register(start, end)), Err(_)) | (Some(Request::Unregister(start, end)), Ok(_)) => {
            StackChange::begin().remove(start, end - start);
            mapped::note(start, end);
        }
        _ => {}
    }
    match result {
        Ok(value) => value as c_int,
        Err(errno) => {
            set_errno(errno);
            -1
        }
    }
}

pub(crate) extern "C" fn brk(addr: *mut c_void) -> c_int {
    let _turn = ((addr as usize) < BREAK.load(Ordering::Relaxed)).then(InOrder::begin);
    // SAFETY: exactly the call that the program makes; it answers with the break, changed or not.
    let now = unsafe { syscall(SYS_BRK, [addr as usize, 0, 0, 0, 0, 0]) }.unwrap_or(0);
    // SAFETY: libc's own variable, set as its wrapper sets it; libc serialises changes of the
    // break.
    unsafe { *current_break() = core::ptr::with_exposed_provenance_mut(now) };
    let before = BREAK.swap(now, Ordering::Relaxed);
    if now < addr as usize {
        set_errno(Errno::NOMEM);
        return -1;
    }
    if before != 0 && now > before {
        deferral::note_growth(before, now - before, true);
    }
    0
}
