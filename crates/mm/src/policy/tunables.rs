//! Every number that could be another one, with its unit, why it is what it is, and the experiment
//! that says so (docs/experiments.md).
//!
//! A number that follows from a format, a word's bits or the kernel's interface is not among them:
//! it stands where that format is.

/// One of them.
#[derive(Clone, Copy, Debug)]
pub struct Tunable {
    /// Where it belongs, and its name.
    pub name: &'static str,
    /// What it is counted in.
    pub unit: &'static str,
    /// What it is.
    pub value: f64,
}

macro_rules! tunables {
    ($($(#[$of:meta])* $group:ident {
        $($(#[$why:meta])* $name:ident: $type:ty = $value:expr, $unit:literal;)*
    })*) => {
        $($(#[$of])* pub(crate) mod $group {
            $($(#[$why])* pub(crate) const $name: $type = $value;)*
        })*

        /// All of them.
        pub const TUNABLES: &[Tunable] = &[$($(Tunable {
            name: concat!(stringify!($group), ".", stringify!($name)),
            unit: $unit,
            value: $group::$name as f64,
        },)*)*];
    };
}

tunables! {
    /// Whether the pool gives way to the working set.
    balance {
        /// What a fault of one of the youngest entries is good for: about twice as many as a page
        /// of the pool holds. E-087, E-088.
        ENTRIES_PER_REFAULT: i64 = 8, "entries";
        /// What a read from the device costs. E-087, E-088.
        READ_COST: i64 = 6, "loads from the pool";
        /// Where what is gained is so many times as much as what is lost, there is haste. E-091.
        CLEAR: i64 = 4, "times";
        /// With haste so many times as many are sent on. E-092.
        HASTE: i64 = 4, "times";
        /// How many loads that is seen by.
        REMEMBERED: i64 = 1024, "loads";
        /// Of the pool, the part that is weighed at either end: one in so many. E-087.
        PART: u64 = 8, "parts";
        /// Pages on the device are counted in parts, as chances are taken of them.
        SENT_PART: u64 = 256, "parts of a page";
        /// Of the device's slots, each, at most: what is stored there is a guess.
        PAGES_PER_SLOT: u64 = 2, "pages";
        /// Sent on in a round (SWAP_CLUSTER_MAX).
        ROUND: i64 = 32, "entries";
        /// The balance stays within this: what was long ago counts little.
        MOST: i64 = 1024, "entries";
        /// As far below, since a working set that grew too far costs more than a pool that did.
        LEAST: i64 = -4096, "entries";
    }

    /// What the neighbours of a page are worth, where faults do not come in sequence.
    neighbours {
        /// Probes that are watched at a time. E-082.
        PROBES: usize = 64, "probes";
        /// They follow each other in as many faults as one part in so many of the stored pages.
        /// E-097.
        HORIZON: u64 = 8, "parts";
        /// Stored pages that are reckoned with at least.
        STORED_LEAST: u64 = 1024, "pages";
        /// Or in so many times as many faults as a page stays for, if that is less. E-097.
        STAYS: u64 = 4, "times";
        /// From one probe to the next at least: a prime, as patterns have periods. E-082.
        EVERY_LEAST: u64 = 17, "faults";
        /// After which a probe has a say. E-097.
        AGE_LEAST: u64 = 64, "faults";
        /// Between two verdicts.
        JUDGE_EVERY: u64 = 16, "faults";
        /// Watched for a verdict at least. E-082.
        WATCHED_LEAST: f32 = 32.0, "neighbours";
        /// log2 of the pages of an aligned folio that are near to each other. E-097.
        NEAR_ORDER: u32 = 2, "log2 of pages";
        /// A neighbour that is read along is worth it if one in so many is wanted while it stays.
        /// E-112.
        READ_SHARE: f32 = 20.0, "neighbours";
        /// Of those that are watched, the part that must be wanted beyond chance: a fault that is
        /// spared costs about twice as much as a page that was brought for nothing.
        LOAD_GAIN: f32 = 0.4, "of the neighbours";
        /// Warm are those that are wanted so many times as often as by chance, and some more.
        WARM_RATIO: f32 = 1.6, "times chance";
        /// So many more.
        WARM_MORE: f32 = 4.0, "neighbours";
        /// Where chance would have it that so many are wanted, fewer have a say.
        CHANCE_LEAST: f32 = 4.0, "neighbours";
        /// Not warm are those that are wanted less often than that.
        COLD_RATIO: f32 = 1.3, "times chance";
        /// Worth loading from the pool at once out of sequence, where a block costs as much as the
        /// next. E-095.
        POOL_CLUSTER_MAX: u32 = 2, "log2 of pages";
    }

    /// Which faults follow each other.
    sequence {
        /// Streams that are remembered. E-046.
        STREAMS: usize = 8, "streams";
        /// The longest stride that is looked for. E-047.
        STRIDE_MAX: u64 = 512, "pages";
        /// That a stream may pass over, if the pages there need not be brought. E-047.
        SKIP_MAX: u64 = 8, "strides";
    }

    /// Blocks of loaded pages that are kept, and pages that are protected for it.
    keeping {
        /// Blocks are kept while the pool is below this: what is stored must not go to the device
        /// for them.
        POOL_SIXTEENTHS: u64 = 15, "sixteenths of the pool's limit";
        /// Loaded at once in sequence at least; out of it they are fewer
        /// ([`cluster`](crate::Config::cluster)).
        STREAM_MIN: usize = 8, "pages";
        /// A write unprotects so many: what is written to in sequence would fault page by page.
        /// Those of them that are not written to have to be compared. E-042.
        UNPROTECT_ORDER: u32 = 4, "log2 of pages";
        /// The same where protection is only probed. E-042.
        PROBE_UNPROTECT_ORDER: u32 = 7, "log2 of pages";
        /// A page that leaves unwritten is worth one point, one that was written to costs one. A
        /// write that has to wait costs the time that a whole window of protected pages gains:
        /// whoever has to let it is as likely as not bringing the rest of the window. E-042,
        /// E-043.
        WRITE_FAULT_POINTS: i32 = 128, "points";
        /// It pays from 0 points on; the sum stays within this. E-044.
        POINTS: i32 = 1024, "points";
        /// Below that it is done in one of so many loads, to see whether it would pay again.
        /// E-044.
        PROBE_EVERY: u32 = 16, "loads";
    }

    /// Cold entries that go to the device before the pool is full.
    shrinker {
        /// That one round of reclaim may send on (SWAP_CLUSTER_MAX).
        ROUND: u64 = 32, "entries";
    }

    /// How much moves at a time.
    sizing {
        /// That the memory to work with must hold at least. E-070.
        FOLIOS_MIN: u64 = 64, "folios";
        /// The part of it that may be frames whose pages are in the pool already. E-076.
        GIVE_UP_SHARE: u64 = 256, "parts";
        /// And the most of them.
        GIVE_UP_MAX: u64 = 256, "pages";
        /// Of what relatives do not share, at most one in so many waits in staging. E-070.
        STAGED_SHARE: u64 = 4, "parts";
    }

    /// Which resident folio leaves next.
    victims {
        /// Active pages leave when the others are fewer than one in so many. E-084, E-114.
        ACTIVE_SHARE: u64 = 16, "resident pages";
        /// Cached ones leave first when they are more than one in so many. E-093.
        CACHED_SHARE: u64 = 8, "resident pages";
        /// Of so many that leave, one is looked for among those that did not compress.
        UNEVICTABLE_SHARE: u32 = 64, "folios";
        /// That turn out to be needed in a round in which nothing else is left.
        NEEDED_MAX: u32 = 32, "pages";
        /// At a page's age until the oldest are looked for again: that goes over all tags.
        AGE_LOOKS: u32 = 256, "looks";
    }

    /// A round of reclaim.
    scan {
        /// Looked at in one go (SWAP_CLUSTER_MAX).
        CLUSTER_MAX: u32 = 32, "pages";
        /// Of the run that isolated pages are packed into.
        BATCH_SLOTS: u32 = 64, "staging slots";
        /// Entries that a round looks at, for each page that is wanted.
        LOOKS_PER_PAGE: usize = 4, "entries";
        /// And so many more: entries may be stale.
        LOOKS_MORE: usize = 256, "entries";
        /// Remembered for [`Scan::shared`](crate::Scan::shared) and what does not move.
        REMEMBERED_MAX: usize = 64, "ranges";
    }

    /// What is done under one hold of the lock.
    hold {
        /// Pages are isolated for so long, at least one entry. Each run costs a TLB flush: 15 to
        /// 20 us while a thread of the process is on another core, 1.5 us while none is. A program
        /// with one thread is on none while its fault waits for the lock, so what leaves page by
        /// page leaves together. E-027, E-030.
        NS: u64 = 500_000, "ns";
        /// Of one entry end it. E-031.
        MANY: u32 = 16, "pages";
        /// Blocks that are dropped.
        DROPPED: u64 = 64, "blocks";
        /// Entries that writeback looks at.
        WRITEBACK_LOOKS: usize = 1024, "entries";
        /// Pages that the gate protects.
        PROTECTED: u64 = 512, "pages";
        /// Pages that compaction looks at.
        COMPACTED: u64 = 64, "pages";
    }

    /// When the pool is compacted. E-083.
    compaction {
        /// After one in so many of the entries has left for the device.
        EMPTIED_SHARE: u64 = 32, "parts";
        /// And so many at least.
        EMPTIED_LEAST: u64 = 1024, "entries";
        /// All words are gone through for it, however few are of stored pages: not before one
        /// entry for so many of them has left.
        WORDS_PER_ENTRY: u64 = 128, "words";
        /// If that frees one in so many.
        GAIN_SHARE: u64 = 64, "pages of the pool";
        /// And so many at least.
        GAIN_LEAST: u64 = 64, "pages";
    }

    /// What forked relatives have too. E-072.
    sharing {
        /// It leaves when it has been shared for so long.
        PATIENCE_NS: u64 = 15_000_000_000, "ns";
        /// How long it then takes at least until most are gone. Each that one has taken costs
        /// memory until its relatives have taken theirs, and what both work with is to be left to
        /// them.
        DRAIN_NS: u64 = 60_000_000_000, "ns";
        /// And a page at most.
        DRAIN_PAGE_NS_MAX: u64 = 1_000_000, "ns";
        /// Taken at once, but for those of a folio.
        AT_ONCE: u64 = 32, "pages";
    }

    /// How pages are stored, and stored again.
    stored {
        /// A block that is longer is stored as it is: it would take a whole page anyway.
        COMPRESSED_MAX: usize = 3_600, "bytes";
        /// By which a block must become shorter to be worth moving.
        GAIN_MIN: usize = 64, "bytes";
        /// Of a dictionary's sample that are taken at once.
        SAMPLED_AT_ONCE: usize = 4, "pages";
        /// That are looked at for them.
        LOOKS_AT_ONCE: u32 = 128, "words";
        /// For a whole sample: if one in a thousand pages is stored, it becomes complete.
        LOOKS_MAX: u32 = 1 << 17, "words";
    }

    /// Pages that are copied before they are dropped, where they cannot move.
    copied {
        /// They are resident twice meanwhile.
        PAGES_MAX: u64 = 64, "pages";
        /// At a time.
        RUNS_MAX: usize = 32, "runs";
    }
}

// What leaves together fits the memory that it leaves from.
const _: () = assert!(scan::CLUSTER_MAX <= scan::BATCH_SLOTS);
// A probe may have its say before the next verdict but one.
const _: () = assert!(neighbours::AGE_LEAST >= neighbours::EVERY_LEAST);
// A round that was decided on is within the bounds of the balance.
const _: () = assert!(balance::ROUND < balance::MOST && balance::LEAST < -balance::ROUND);
// A write that waits neither decides by itself nor counts for nothing.
const _: () = assert!(keeping::WRITE_FAULT_POINTS < keeping::POINTS && keeping::WRITE_FAULT_POINTS > 1);
