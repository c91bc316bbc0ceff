//! Stacks of our own for handlers of signals, one for each thread that needs one.
//!
//! A stack is found by asking the kernel which alternate stack the thread has: no thread-local
//! storage is needed, and a vfork child, which has its parent's, is no special case.

use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicU64, AtomicUsize, Ordering};

use rustix::io::Result;

use crate::PAGE_SIZE;
use crate::cell::Leaked;
use crate::mapping::Mapping;
use crate::signal::{SS_DISABLE, Stack, alternate};
use crate::{gateways, thread};

/// Bytes of a stack with its guard page and what lies beside it; threads that can have one.
const STACK: usize = 256 << 10;
const STACKS: usize = 512;
/// At the lower end of each: stacks that calls are seen to on, which come while a thread is on one
/// that may have no room. Each, and how many: a handler may interrupt a call, and make one.
const BESIDE: usize = 32 << 10;
const BESIDES: usize = 4;

/// What is known of a thread that has a handler's stack of ours: it lies above that.
#[repr(C)]
#[derive(Debug)]
pub struct Own {
    /// The alternate stack that the program thinks it has: its start and length, 0 if it has none.
    start: AtomicUsize,
    len: AtomicUsize,
    flags: AtomicI32,
    /// Signals that the program thinks are blocked, and are not.
    pub blocked: AtomicU64,
    /// Its calls are stopped, but for ours.
    pub is_dispatched: AtomicBool,
    /// The page that was asked for last, and how often in a row.
    pub asked: [AtomicUsize; 2],
    /// Not 0: that stack for calls is in use.
    besides: [AtomicU8; BESIDES],
    /// The same, before a child began that has this stack as well, while its thread waits.
    kept: [AtomicU8; BESIDES],
}

static REGION: Leaked<usize> = Leaked::new();
/// The threads that have them, as [`me`]; 0: nobody has. One that is gone may still stand here, as
/// not every end is seen.
static THREADS: [AtomicU64; STACKS] = [const { AtomicU64::new(0) }; STACKS];

/// The calling thread: its process, and itself. Processes that share memory (CLONE_VM) share the
/// stacks, and none sees the others' threads among its own.
fn me() -> u64 {
    (thread::pid() as u64) << 32 | thread::tid() as u64
}

fn is_alive(owner: u64) -> bool {
    thread::is_alive((owner >> 32) as i32, owner as i32)
}

/// Reserve the stacks. Before the first is asked for.
///
/// # Errors
/// ENOMEM: no address space.
pub fn reserve() -> Result<()> {
    if REGION.get().is_none() {
        let mapping = Mapping::reserve_beside_data(STACKS * STACK)?.without_huge_pages();
        REGION.set(mapping.leak().addr());
    }
    Ok(())
}

fn number_of(addr: usize) -> Option<usize> {
    let first = *REGION.get()?;
    (first..first + STACKS * STACK)
        .contains(&addr)
        .then(|| (addr - first) / STACK)
}

/// Whether the calling thread runs on one of them.
pub fn is_on_own_stack() -> bool {
    let here = 0u8;
    number_of((&raw const here).addr()).is_some()
}

impl Own {
    /// The one that an address lies in.
    pub(crate) fn at(addr: usize) -> Option<&'static Self> {
        let (number, first) = (number_of(addr)?, *REGION.get()?);
        let place = first + (number + 1) * STACK - size_of::<Self>().next_multiple_of(64);
        // SAFETY: aligned, in a mapping that stays, of atomics alone, for which zeros will do.
        Some(unsafe { &*core::ptr::with_exposed_provenance(place) })
    }

    /// The calling thread's, as the kernel knows it.
    pub fn current_of_kernel() -> Option<&'static Self> {
        REGION.get()?;
        let stack = alternate(None).ok()?;
        let is_set = stack.flags & SS_DISABLE == 0;
        is_set.then(|| Self::at(stack.start)).flatten()
    }

    /// The calling thread's.
    pub fn current() -> Option<&'static Self> {
        REGION.get()?;
        Self::current_of_kernel().or_else(|| {
            // A handler that began before it had one has returned since.
            let own = Self::of_thread(me())?;
            alternate(Some(&own.stack())).ok()?;
            Some(own)
        })
    }

    fn of_thread(thread: u64) -> Option<&'static Self> {
        let first = *REGION.get()?;
        let number = THREADS
            .iter()
            .position(|owner| owner.load(Ordering::Relaxed) == thread)?;
        Self::at(first + number * STACK)
    }

    /// One for the calling thread, which the kernel is not told yet: what it has, or the first that
    /// is free, or whose thread is gone. `None`: there is none.
    pub fn take() -> Option<&'static Self> {
        let (first, me) = (*REGION.get()?, me());
        if let Some(own) = Self::of_thread(me) {
            return Some(own);
        }
        for (number, owner) in THREADS.iter().enumerate() {
            let thread = owner.load(Ordering::Relaxed);
            let is_free = thread == 0 || !is_alive(thread);
            let takes = || owner.compare_exchange(thread, me, Ordering::Acquire, Ordering::Relaxed);
            if is_free && takes().is_ok() {
                forbid(first + number * STACK);
                let own = Self::at(first + number * STACK)?;
                own.begin();
                return Some(own);
            }
        }
        None
    }

    /// The calling thread has it from now on.
    fn begin(&self) {
        self.set_program_stack(Stack::new(0, 0, SS_DISABLE));
        self.blocked.store(0, Ordering::Relaxed);
        self.asked[1].store(0, Ordering::Relaxed);
        self.besides.iter().for_each(|used| used.store(0, Ordering::Relaxed));
        self.dispatch();
    }

    /// Have the calls of the calling thread stopped, whose this is.
    pub fn dispatch(&self) {
        self.is_dispatched.store(gateways::dispatch(), Ordering::Relaxed);
    }

    /// As [`take_on`](Self::take_on), in a thread that begins: its number may have been that of
    /// another, of which nothing is left.
    pub fn take_on_at_first() -> Option<&'static Self> {
        let own = Self::take_on()?;
        own.begin();
        Some(own)
    }

    /// One for the calling thread, in place of the alternate stack that it has.
    pub fn take_on() -> Option<&'static Self> {
        let own = Self::take()?;
        let before = alternate(Some(&own.stack())).ok()?;
        if before.flags & SS_DISABLE == 0 && Self::at(before.start).is_none() {
            own.set_program_stack(Stack::new(before.start, before.len, 0));
        }
        Some(own)
    }

    /// The calling thread ends: it has no alternate stack from now on. Not in a vfork child, whose
    /// parent's this is.
    pub fn leave(&self) {
        if is_on_own_stack() {
            // Its last call is seen to on one of these: who takes it next finds that it is gone.
            return;
        }
        let none = Stack::new(0, 0, SS_DISABLE);
        let Some(number) = number_of((&raw const *self).addr()) else {
            return;
        };
        if THREADS[number].load(Ordering::Relaxed) == me() && alternate(Some(&none)).is_ok() {
            THREADS[number].store(0, Ordering::Release);
        }
    }

    /// In a forked child, in its only thread, whose `own` is: no other has one.
    pub fn keep_alone(own: Option<&Self>) {
        let kept = own.and_then(|own| number_of((&raw const *own).addr()));
        for (n, thread) in THREADS.iter().enumerate() {
            let owner = if kept == Some(n) { me() } else { 0 };
            thread.store(owner, Ordering::Relaxed);
        }
        own.into_iter().for_each(Own::dispatch);
    }

    /// Where what belongs to it begins.
    fn first(&self) -> usize {
        (&raw const *self).addr() + size_of::<Self>().next_multiple_of(64) - STACK
    }

    /// As the kernel is told.
    pub(crate) fn stack(&self) -> Stack {
        let (start, end) = (self.first() + PAGE_SIZE + BESIDES * BESIDE, (&raw const *self).addr());
        Stack::new(start, end - start, 0)
    }

    /// The upper end of a stack to see to a call on. In its thread. `None`: all are in use.
    pub fn take_beside(&self) -> Option<usize> {
        let is_free = |used: &AtomicU8| {
            used.compare_exchange(0, 1, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
        };
        let number = self.besides.iter().position(is_free)?;
        Some(self.first() + PAGE_SIZE + (number + 1) * BESIDE)
    }

    /// A child begins that uses these as well: it may end in the middle of a call. The call that
    /// makes it, on the one that `here` lies on, is over by then.
    pub fn lend_besides(&self, here: usize) {
        for (kept, used) in self.kept.iter().zip(&self.besides) {
            kept.store(used.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        if let Some((own, number)) = Self::beside(here) {
            own.kept[number].store(0, Ordering::Relaxed);
        }
    }

    /// It has ended, or become another program.
    pub fn take_besides_back(&self) {
        for (kept, used) in self.kept.iter().zip(&self.besides) {
            used.store(kept.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    /// Which of them `addr` lies on.
    fn beside(addr: usize) -> Option<(&'static Self, usize)> {
        let own = Self::at(addr)?;
        let number = addr.checked_sub(own.first() + PAGE_SIZE)? / BESIDE;
        (number < BESIDES).then_some((own, number))
    }

    /// What says that such a stack is in use, the one that `addr` lies on.
    pub fn is_used(addr: usize) -> Option<&'static AtomicU8> {
        let (own, number) = Self::beside(addr)?;
        own.besides.get(number)
    }

    /// The upper end of the one that a thread's stack pointer is on.
    pub(crate) fn end_of_beside(sp: usize) -> Option<usize> {
        // At its end nothing is on it yet.
        let (own, number) = Self::beside(sp - 1)?;
        Some(own.first() + PAGE_SIZE + (number + 1) * BESIDE)
    }

    /// The alternate stack that the program thinks it has.
    pub fn program_stack(&self) -> Stack {
        Stack::new(
            self.start.load(Ordering::Relaxed),
            self.len.load(Ordering::Relaxed),
            self.flags.load(Ordering::Relaxed),
        )
    }

    /// It has this one from now on.
    pub fn set_program_stack(&self, stack: Stack) {
        self.start.store(stack.start, Ordering::Relaxed);
        self.len.store(stack.len, Ordering::Relaxed);
        self.flags.store(stack.flags, Ordering::Relaxed);
    }
}

/// Nobody may use the lowest page of a stack: what runs over raises a signal that ends the process.
fn forbid(addr: usize) {
    let page = core::ptr::with_exposed_provenance_mut(addr);
    // SAFETY: the lowest page of a stack of ours, which nobody uses.
    let _ = unsafe { rustix::mm::mprotect(page, PAGE_SIZE, rustix::mm::MprotectFlags::empty()) };
}
