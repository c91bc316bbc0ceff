//! A work queue in use: its portal, how full it is, how it fares, and its counters.

use crate::completion::Direction;
use crate::descriptor::{DESCRIPTOR_BYTES, Descriptor, Flags, Opcode};
use crate::portal::{Credits, Portal, Submitted};
use crate::statistics::Counter;
use crate::topology::{Mode, WorkQueue};
use alloc::boxed::Box;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// How often ENQCMD is tried on one shared queue before the next queue is.
///
/// The kernel's `enqcmds_retries` is at most 64; Intel's own test tries 3 times.
pub const ENQCMD_TRIES: u32 = 3;

/// Failures in a row after which a queue gets no more jobs.
///
/// One failure may be one page's. The kernel's driver gives up at the first one, which costs all
/// jobs to come.
pub const STRIKES_MAX: u32 = 4;

/// Counters of a queue under the kernel's names (`iaa-crypto/wq_stats`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueCounts {
    /// Compressions accepted.
    pub comp_calls: u64,
    /// Bytes that compressions wrote.
    pub comp_bytes: u64,
    /// Decompressions accepted.
    pub decomp_calls: u64,
    /// Bytes that decompressions read.
    pub decomp_bytes: u64,
}

/// A work queue with its portal.
///
/// Tables, batches and late descriptors hold it by reference count. The portal is dropped when the
/// last of them lets go.
pub struct Queue {
    work_queue: WorkQueue,
    portal: Box<dyn Portal>,
    /// Of a dedicated queue only.
    credits: Option<Credits>,
    is_gone: AtomicBool,
    is_drained: AtomicBool,
    strikes: AtomicU32,
    /// Compressions and decompressions accepted, and their bytes.
    calls: [Counter; 2],
    bytes: [Counter; 2],
}

impl Queue {
    /// The queue that `portal` leads to.
    #[must_use]
    pub fn new(work_queue: WorkQueue, portal: Box<dyn Portal>) -> Self {
        let credits = match work_queue.mode {
            Mode::Dedicated => Some(Credits::new(work_queue.size)),
            Mode::Shared => None,
        };
        let [comp_calls, comp_bytes, decomp_calls, decomp_bytes] = match portal.counters() {
            Some(words) => words.map(Counter::Shared),
            None => [(); 4].map(|()| Counter::default()),
        };
        Self {
            work_queue,
            portal,
            credits,
            is_gone: AtomicBool::new(false),
            is_drained: AtomicBool::new(false),
            strikes: AtomicU32::new(0),
            calls: [comp_calls, decomp_calls],
            bytes: [comp_bytes, decomp_bytes],
        }
    }

    /// What discovery knows of it.
    #[must_use]
    pub fn work_queue(&self) -> &WorkQueue {
        &self.work_queue
    }

    /// Whether jobs of this direction may be submitted to it.
    #[must_use]
    pub fn supports(&self, direction: Direction) -> bool {
        self.work_queue.opcodes.contains(match direction {
            Direction::Compress => Opcode::COMPRESS,
            Direction::Decompress => Opcode::DECOMPRESS,
        })
    }

    /// The bytes of `descriptor` with only the flags that this queue allows.
    #[must_use]
    pub fn fit(&self, descriptor: Descriptor, block_on_fault: bool) -> [u8; DESCRIPTOR_BYTES] {
        let mut flags = descriptor.flags;
        if !self.work_queue.cache_control {
            flags = flags.without(Flags::CC);
        }
        // A NOOP touches no buffer: the data sheet has it with the record's flags only, and a
        // device may refuse others.
        if block_on_fault && self.work_queue.block_on_fault && descriptor.opcode != Opcode::NOOP {
            flags = flags | Flags::BOF;
        }
        let descriptor = Descriptor { flags, ..descriptor };
        debug_assert_eq!(descriptor.check(), Ok(()));
        descriptor.to_bytes()
    }

    /// Submit a descriptor: to a dedicated queue if it has an entry free, to a shared one with at
    /// most [`ENQCMD_TRIES`] tries.
    ///
    /// Who gets [`Submitted::Accepted`] calls [`Self::finished`] once the record has come.
    pub fn submit(&self, descriptor: &[u8; DESCRIPTOR_BYTES]) -> Submitted {
        if self.is_gone() {
            return Submitted::Gone;
        }
        let submitted = match &self.credits {
            Some(credits) => self.submit_with_credit(credits, descriptor),
            None => self.submit_with_tries(descriptor),
        };
        if submitted == Submitted::Gone {
            self.is_gone.store(true, Ordering::Relaxed);
        }
        submitted
    }

    fn submit_with_credit(&self, credits: &Credits, descriptor: &[u8; DESCRIPTOR_BYTES]) -> Submitted {
        if !credits.take() {
            return Submitted::Full;
        }
        let submitted = self.portal.submit(descriptor);
        if submitted != Submitted::Accepted {
            credits.give();
        }
        submitted
    }

    fn submit_with_tries(&self, descriptor: &[u8; DESCRIPTOR_BYTES]) -> Submitted {
        for _ in 1..ENQCMD_TRIES {
            match self.portal.submit(descriptor) {
                Submitted::Full => core::hint::spin_loop(),
                submitted => return submitted,
            }
        }
        self.portal.submit(descriptor)
    }

    /// A descriptor that was accepted has its completion record, or never will since the portal was
    /// drained.
    pub fn finished(&self) {
        if let Some(credits) = &self.credits {
            credits.give();
        }
    }

    /// Close the portal; see [`Portal::drain`].
    pub fn drain(&self) -> bool {
        self.is_gone.store(true, Ordering::Relaxed);
        if self.portal.drain() {
            // Release pairs with the Acquire in `is_drained`: who sees it sees the records that
            // came before the drain ended.
            self.is_drained.store(true, Ordering::Release);
        }
        self.is_drained()
    }

    /// Whether the device is done with all that was submitted, for good.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.is_drained.load(Ordering::Acquire)
    }

    /// Whether the queue was disabled or removed, or its portal closed.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.is_gone.load(Ordering::Relaxed)
    }

    /// Whether it failed too often in a row to be given jobs.
    #[must_use]
    pub fn is_suspect(&self) -> bool {
        self.strikes.load(Ordering::Relaxed) >= STRIKES_MAX
    }

    /// Whether it may be given jobs.
    #[must_use]
    pub fn is_usable(&self) -> bool {
        !self.is_gone() && !self.is_suspect()
    }

    /// A job failed in a way that the device may be to blame for.
    pub fn strike(&self) {
        let strike = |strikes: u32| Some(strikes.saturating_add(1));
        // The closure refuses nothing, so there is no failure to look at.
        let _ = self.strikes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, strike);
    }

    /// A job went well, or the queue was tested and found well: forget the failures before.
    pub fn trust(&self) {
        // Most of the time there are none, and a store would take the line from other cores.
        if self.strikes.load(Ordering::Relaxed) != 0 {
            self.strikes.store(0, Ordering::Relaxed);
        }
    }

    /// Count a job that was accepted.
    pub(crate) fn count_call(&self, direction: Direction) {
        self.calls[direction as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Count the compressed bytes of a job that is done.
    pub(crate) fn count_bytes(&self, direction: Direction, bytes: u32) {
        self.bytes[direction as usize].fetch_add(bytes.into(), Ordering::Relaxed);
    }

    /// Its counters now.
    #[must_use]
    pub fn counts(&self) -> QueueCounts {
        let [comp_calls, decomp_calls] = [0, 1].map(|i: usize| self.calls[i].load(Ordering::Relaxed));
        let [comp_bytes, decomp_bytes] = [0, 1].map(|i: usize| self.bytes[i].load(Ordering::Relaxed));
        QueueCounts {
            comp_calls,
            comp_bytes,
            decomp_calls,
            decomp_bytes,
        }
    }

    /// Descriptors in flight, of a dedicated queue.
    #[must_use]
    pub fn in_flight(&self) -> Option<u32> {
        self.credits.as_ref().map(Credits::in_flight)
    }
}

impl core::fmt::Debug for Queue {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}", self.work_queue.id)
    }
}

const _: () = assert!(Direction::Compress as usize == 0 && Direction::Decompress as usize == 1);

#[cfg(test)]
pub(crate) mod test {
    use super::*;
    use crate::aecs::DecompressAecs;
    use crate::topology::WorkQueueId;
    use alloc::sync::Arc;
    use alloc::vec::Vec;

    /// A work queue of 4 entries as discovery would find it.
    pub(crate) fn work_queue(device: u32, queue: u32, mode: Mode) -> WorkQueue {
        WorkQueue {
            id: WorkQueueId { device, queue },
            mode,
            size: 4,
            threshold: 4,
            priority: 10,
            group: Some(0),
            opcodes: [Opcode::NOOP, Opcode::COMPRESS, Opcode::DECOMPRESS]
                .into_iter()
                .collect(),
            max_transfer_size: 2 << 20,
            block_on_fault: true,
            cache_control: true,
            header_generation: true,
            aecs: DecompressAecs::Format2,
        }
    }

    /// A portal that answers from a list, then accepts; it counts the calls.
    struct Listed(Vec<Submitted>, Arc<AtomicU32>);

    impl Portal for Listed {
        fn submit(&self, _descriptor: &[u8; 64]) -> Submitted {
            let call = self.1.fetch_add(1, Ordering::Relaxed) as usize;
            self.0.get(call).copied().unwrap_or(Submitted::Accepted)
        }
    }

    fn queue(mode: Mode, answers: &[Submitted]) -> (Queue, Arc<AtomicU32>) {
        let calls = Arc::new(AtomicU32::new(0));
        let portal = Box::new(Listed(answers.to_vec(), calls.clone()));
        (Queue::new(work_queue(1, 0, mode), portal), calls)
    }

    #[test]
    fn a_dedicated_queue_takes_no_more_than_its_size() {
        let (queue, calls) = queue(Mode::Dedicated, &[]);
        let answers: Vec<_> = (0..5).map(|_| queue.submit(&[0; 64])).collect();
        assert_eq!(answers[..4], [Submitted::Accepted; 4]);
        assert_eq!((answers[4], calls.load(Ordering::Relaxed)), (Submitted::Full, 4));
        queue.finished();
        assert_eq!(queue.submit(&[0; 64]), Submitted::Accepted);
    }

    #[test]
    fn a_refusal_costs_a_dedicated_queue_no_credit() {
        let (queue, _) = queue(Mode::Dedicated, &[Submitted::Full, Submitted::Gone]);
        assert_eq!(queue.submit(&[0; 64]), Submitted::Full);
        assert_eq!(queue.submit(&[0; 64]), Submitted::Gone);
        assert_eq!(queue.in_flight(), Some(0));
    }

    #[test]
    fn a_shared_queue_is_tried_a_few_times() {
        let (queue, calls) = queue(Mode::Shared, &[Submitted::Full; 5]);
        assert_eq!(queue.submit(&[0; 64]), Submitted::Full);
        assert_eq!(calls.load(Ordering::Relaxed), ENQCMD_TRIES);
        assert_eq!(queue.submit(&[0; 64]), Submitted::Accepted);
        assert_eq!((calls.load(Ordering::Relaxed), queue.in_flight()), (6, None));
    }

    #[test]
    fn a_queue_that_is_gone_is_not_asked_again() {
        let (queue, calls) = queue(Mode::Shared, &[Submitted::Gone]);
        assert_eq!([queue.submit(&[0; 64]), queue.submit(&[0; 64])], [Submitted::Gone; 2]);
        assert_eq!(calls.load(Ordering::Relaxed), 1);
        assert!(queue.is_gone() && !queue.is_usable());
    }

    #[test]
    fn strikes_in_a_row_make_it_suspect() {
        let (queue, _) = queue(Mode::Shared, &[]);
        (1..STRIKES_MAX).for_each(|_| queue.strike());
        assert!(queue.is_usable());
        queue.trust();
        (0..STRIKES_MAX).for_each(|_| queue.strike());
        assert!(queue.is_suspect() && !queue.is_usable());
        queue.trust();
        assert!(queue.is_usable());
    }

    #[test]
    fn only_flags_that_the_queue_allows_are_submitted() {
        let flags_of = |queue: &Queue, block: bool| {
            let descriptor = Descriptor::new(Opcode::DECOMPRESS, 0).flags(Flags::CC).source(0, 1);
            Descriptor::from_bytes(&queue.fit(descriptor, block)).unwrap().flags
        };
        let (all, _) = queue(Mode::Shared, &[]);
        assert_eq!(flags_of(&all, true), Flags::RECORD | Flags::CC | Flags::BOF);
        assert_eq!(flags_of(&all, false), Flags::RECORD | Flags::CC);
        let mut plain = work_queue(1, 0, Mode::Shared);
        (plain.block_on_fault, plain.cache_control) = (false, false);
        let plain = Queue::new(plain, Box::new(Listed(Vec::new(), Arc::default())));
        assert_eq!(flags_of(&plain, true), Flags::RECORD);
        let noop = Descriptor::new(Opcode::NOOP, 0);
        assert_eq!(all.fit(noop, true), noop.to_bytes());
    }
}
