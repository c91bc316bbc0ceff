//! What pages are stored with: a codec is stored with only once whoever serves faults has the
//! working memory to read it.

use core::sync::atomic::{AtomicU32, Ordering};

use uzswap_acomp::{Algorithm, Codec};
use uzswap_mm::Worker;
use uzswap_mm::machine::Threads;
use uzswap_mm::zpool::PoolKind;

use crate::machine::{AgentMachine, CREW};
use crate::pager::Pager;

/// Codecs (a bit each) that are to be stored with, and those that every server has the working
/// memory for. None may allocate while the engine is frozen, so nothing is stored with a codec
/// before.
pub(crate) struct Codecs {
    wanted: AtomicU32,
    ready: AtomicU32,
}

impl Codecs {
    /// The workers have been made for `algorithm`.
    pub(crate) fn new(algorithm: Algorithm) -> Self {
        Self {
            wanted: AtomicU32::new(0),
            ready: AtomicU32::new(codec_bit(algorithm.codec())),
        }
    }
}

fn codec_bit(codec: Codec) -> u32 {
    1 << codec.to_bits()
}

fn prepare(worker: &mut Worker<AgentMachine>, codecs: u32, machine: &AgentMachine) {
    for codec in (0..1 << Codec::BITS).map(Codec::from_bits) {
        if let (true, Some(algorithm)) = (codecs & codec_bit(codec) != 0, codec.algorithm()) {
            worker.prepare(algorithm.into(), machine);
        }
    }
}

impl Pager {
    /// Have pages stored as the group says; part of it may have to wait until a later call. Called
    /// by kswapd.
    pub(crate) fn change_pool(&self, kind: PoolKind) -> bool {
        if kind.compressor.is_parallel {
            CREW.grow(self.mm.machine().lanes() - 1);
        }
        self.can_load(kind.compressor.algorithm) && self.mm.set_pool(kind)
    }

    /// Whether what `algorithm` stores can be loaded. If not yet, the fault thread is asked to
    /// prepare for it.
    pub(crate) fn can_load(&self, algorithm: Algorithm) -> bool {
        let bit = codec_bit(algorithm.codec());
        let is_ready = self.codecs.ready.load(Ordering::Acquire) & bit != 0;
        if !is_ready {
            self.codecs.wanted.fetch_or(bit, Ordering::Release);
            self.fds().wake.set();
        }
        is_ready
    }

    /// In the fault thread: make the working memory that the next codec needs.
    pub(crate) fn prepare_codecs<'a>(&self, workers: impl Iterator<Item = &'a mut Worker<AgentMachine>>) {
        if self.codecs.wanted.load(Ordering::Relaxed) == 0 {
            return;
        }
        // As a piece of reclaim, which a freeze waits for: the child must not inherit our heap
        // half-way.
        self.unless_freezing(|mm| {
            let wanted = self.codecs.wanted.swap(0, Ordering::Acquire);
            workers.for_each(|worker| prepare(worker, wanted, mm.machine()));
            self.codecs.ready.fetch_or(wanted, Ordering::Release);
        });
    }

    /// While the engine is not frozen: make what a worker needs for all that pages may be stored
    /// with by now. Returns that.
    pub(crate) fn prepare_known_codecs(&self, worker: &mut Worker<AgentMachine>) -> u32 {
        let known = self.known_codecs();
        prepare(worker, known, self.mm.machine());
        known
    }

    /// What pages may be stored with by now, a bit each.
    pub(crate) fn known_codecs(&self) -> u32 {
        self.codecs.ready.load(Ordering::Acquire)
    }
}
