//! Every number that could be another one, with its unit, why it is what it is, and the experiment
//! that says so (docs/experiments.md).
//!
//! An engine is told them when it starts ([`Config::tunables`](crate::Config::tunables)), so they
//! can be swept without a build: `uzswap-bench policy --set balance.read_cost=3`. A number that
//! follows from a format, a word's bits or the kernel's interface is not among them: it stands
//! where that format is (`cli/tests/tidy` has the list). Each names its experiment, or says that
//! there was none.

use core::fmt;

use crate::policy::portions::Portions;

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tunable {
    /// Where it belongs, and its name.
    pub name: &'static str,
    /// What it is counted in.
    pub unit: &'static str,
    /// What it is.
    pub value: f64,
    /// Only a build changes it (`FIXED`).
    pub is_fixed: bool,
}

/// Why a value was not set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// No tunable has that name.
    Unknown,
    /// Only a build changes it (`FIXED`).
    Fixed,
    /// The type of the number does not hold it, or it is 0.
    Range,
    /// What has to be so between several of them is not.
    Rule(&'static str),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unknown => "no tunable has that name",
            Self::Fixed => "only a build changes it: it sizes memory, or is asked where no tunables are told",
            Self::Range => "must be a number of its kind, and not 0 (whole unless its default has a fraction)",
            Self::Rule(rule) => rule,
        })
    }
}

/// What a tunable is kept as.
trait Number: Copy {
    /// `None`: it is not one of these.
    fn of(value: f64) -> Option<Self>;
}

macro_rules! whole {
    ($($type:ty)*) => {$(
        impl Number for $type {
            fn of(value: f64) -> Option<Self> {
                // As a cast saturates, what does not fit comes back as another.
                let number = value as Self;
                (number as f64 == value).then_some(number)
            }
        }
    )*};
}

whole!(i32 i64 u32 u64 usize);

impl Number for f32 {
    fn of(value: f64) -> Option<Self> {
        value.is_finite().then_some(value as Self)
    }
}

macro_rules! tunables {
    ($($(#[$of:meta])* $group:ident: $Group:ident {
        $($(#[$why:meta])* $name:ident: $type:ty = $value:expr, $unit:literal;)*
    })*) => {
        $($(#[$of])* #[derive(Clone, Copy, Debug)] pub struct $Group {
            $($(#[$why])* pub(crate) $name: $type,)*
        })*

        /// All that are not `FIXED`.
        #[derive(Clone, Copy, Debug)]
        pub struct Tunables {
            $($(#[$of])* pub(crate) $group: $Group,)*
        }

        impl Tunables {
            /// As the experiments left them.
            pub const DEFAULT: Self = Self {
                $($group: $Group { $($name: $value,)* },)*
            };

            /// Each of them, the fixed ones behind the others.
            pub fn iter(&self) -> impl Iterator<Item = Tunable> {
                [$($(Tunable {
                    name: concat!(stringify!($group), ".", stringify!($name)),
                    unit: $unit,
                    value: self.$group.$name as f64,
                    is_fixed: false,
                },)*)*].into_iter().chain(FIXED.iter().copied())
            }

            fn replace(&mut self, name: &str, value: f64) -> Result<(), Refused> {
                match name {
                    $($(concat!(stringify!($group), ".", stringify!($name)) => {
                        self.$group.$name = Number::of(value).ok_or(Refused::Range)?;
                    })*)*
                    _ if FIXED.iter().any(|fixed| fixed.name == name) => return Err(Refused::Fixed),
                    _ => return Err(Refused::Unknown),
                }
                Ok(())
            }
        }
    };
}

macro_rules! fixed {
    ($($(#[$why:meta])* $name:ident: $type:ty = $value:expr, $as:literal, $unit:literal;)*) => {
        $($(#[$why])* pub(crate) const $name: $type = $value;)*

        /// Those that size memory, or are asked where no tunables are told.
        const FIXED: &[Tunable] = &[$(Tunable {
            name: $as,
            unit: $unit,
            value: $name as f64,
            is_fixed: true,
        },)*];
    };
}

impl Tunables {
    /// How much moves at a time where `pages` are there to work with.
    pub fn portions(&self, pages: u64) -> Portions {
        Portions::of(pages, &self.sizing)
    }

    /// Set the one of that name. Refused, it leaves all as they were.
    ///
    /// # Errors
    /// [`Refused`] names the rule.
    pub fn set(&mut self, name: &str, value: f64) -> Result<(), Refused> {
        let mut changed = *self;
        changed.replace(name, value)?;
        // Most of them divide.
        if value == 0.0 {
            return Err(Refused::Range);
        }
        changed.check().map_err(Refused::Rule)?;
        *self = changed;
        Ok(())
    }

    const fn check(&self) -> Result<(), &'static str> {
        if self.scan.cluster_max > self.scan.batch_slots {
            return Err("scan.cluster_max must be at most scan.batch_slots: what leaves together fits where it goes");
        }
        if self.neighbours.age_least < self.neighbours.every_least {
            return Err("neighbours.age_least must be at least neighbours.every_least: a probe has its say in turn");
        }
        if self.balance.round >= self.balance.most || self.balance.least >= -self.balance.round {
            return Err("balance.round must lie within balance.least and balance.most");
        }
        if self.keeping.write_fault_points >= self.keeping.points || self.keeping.write_fault_points <= 1 {
            return Err("keeping.write_fault_points must lie between 1 and keeping.points: no write decides by itself");
        }
        Ok(())
    }
}

const _: () = assert!(Tunables::DEFAULT.check().is_ok());

fixed! {
    /// Parts of the pool that are weighed against resident pages, oldest first. E-087, E-167.
    PARTS: usize = 8, "balance.parts", "parts";
    /// Streams that are remembered. E-046.
    STREAMS: usize = 8, "sequence.streams", "streams";
    /// Probes that are watched at a time. E-082.
    PROBES: usize = 64, "neighbours.probes", "probes";
    /// A block that is longer is stored as it is: it would take a whole page anyway.
    /// Experiment: none.
    COMPRESSED_MAX: usize = 3_600, "stored.compressed_max", "bytes";
    /// Of a worker's buffer for the device at least. Experiment: none.
    IO_PAGES: usize = 64, "worker.io_pages", "pages";
    /// An accelerator may take so long for the pages of a request; then software does them.
    /// Experiment: none.
    ACCELERATOR_DEADLINE_NS: u64 = 5_000_000, "worker.accelerator_deadline", "ns";
    /// That are loaded at a time for anything but a fault (recompression). Experiment: none.
    RECLAIM_PAGES: usize = IO_PAGES / 4, "worker.reclaim_pages", "pages";
    /// Room of the log of a freeze, which lasts about a millisecond; a fault takes several
    /// microseconds. Experiment: none.
    LOG_MAX: usize = 64 * 1024, "freeze.log_max", "entries";
    /// Room kept in it for changes, which must not be lost; faults stop being logged before.
    /// Experiment: none.
    LOG_CHANGES: usize = 4 * 1024, "freeze.log_changes", "entries";
    /// Added to a list between two sweeps. Experiment: none.
    SWEEP_EVERY: usize = 128, "sweep.every", "entries";
    /// That a sweep looks at. Experiment: none.
    SWEEP_LOOKS: usize = 8 * SWEEP_EVERY, "sweep.looks", "entries";
    /// Below which no sweep is due. Experiment: none.
    SWEEP_LEAST: usize = 1024, "sweep.least", "entries";
    /// Of spans that were given back and stay backed for the next zspage. Experiment: none.
    WARM_PAGES: u64 = 128, "pool.warm_pages", "pages";
    /// That room is made for at once, at least. Experiment: none.
    ZSPAGES_MORE: usize = 16, "pool.zspages_more", "zspages";
    /// That room is made for at once, at least. Experiment: none.
    FINGERPRINTS_MORE: usize = 256, "pool.fingerprints_more", "fingerprints";
    /// Of the pages that are waited for, the part that is left out when it is said how much more
    /// memory would end the waiting: one in so many. E-165.
    SHORTFALL_LEFT: u32 = 10, "shortfall.left", "parts";
    /// Those of this long ago count half. Experiment: none.
    SHORTFALL_HALVED_NS: u64 = 1_000_000_000, "shortfall.halved_ns", "ns";
    /// Freed on paper that are freed under one hold of the lock. Experiment: none.
    REOPENED: usize = 64, "hold.reopened", "objects";
}

tunables! {
    /// Whether the pool gives way to the working set.
    balance: Balance {
        /// What a fault that would have been spared is good for: about twice as many as a page of
        /// the pool holds. E-087, E-088.
        entries_per_refault: i64 = 8, "entries";
        /// What a read from the device costs at least, and while no time is known. E-087, E-088.
        read_cost: i64 = 6, "loads from the pool";
        /// And at most, however slow it is. E-192.
        read_cost_most: i64 = 64, "loads from the pool";
        /// How many loads that is seen by. Experiment: none.
        remembered: i64 = 1024, "loads";
        /// Pages on the device and the worth of a load are counted in parts. Experiment: none.
        chances: u64 = 256, "parts";
        /// Of the device's slots, each, at most: what is stored there is a guess. Experiment: none.
        pages_per_slot: u64 = 2, "pages";
        /// Sent on in a round (SWAP_CLUSTER_MAX). Experiment: none.
        round: i64 = 32, "entries";
        /// The balance stays within this: what was long ago counts little. Experiment: none.
        most: i64 = 1024, "entries";
        /// As far below: a working set that grew too far costs more. Experiment: none.
        least: i64 = -4096, "entries";
    }

    /// What the neighbours of a page are worth, where faults do not come in sequence.
    neighbours: Neighbours {
        /// They follow each other in as many faults as one part in so many of the stored pages.
        /// E-097.
        horizon: u64 = 8, "parts";
        /// Stored pages that are reckoned with at least. Experiment: none.
        stored_least: u64 = 1024, "pages";
        /// Or in so many times as many faults as a page stays for, if that is less. E-097.
        stays: u64 = 4, "times";
        /// From one probe to the next at least: a prime, as patterns have periods. E-082.
        every_least: u64 = 17, "faults";
        /// After which a probe has a say. E-097.
        age_least: u64 = 64, "faults";
        /// Between two verdicts. Experiment: none.
        judge_every: u64 = 16, "faults";
        /// Watched for a verdict at least. E-082.
        watched_least: f32 = 32.0, "neighbours";
        /// log2 of the pages of an aligned folio that are near to each other. E-097.
        near_order: u32 = 2, "log2 of pages";
        /// A neighbour on the device is worth it if one in so many is wanted while it stays.
        /// E-112.
        read_share: f32 = 20.0, "neighbours";
        /// Of those that are watched, the part that must be wanted beyond chance: a fault that is
        /// spared costs about twice as much as a page that was brought for nothing.
        /// Experiment: none.
        load_gain: f32 = 0.4, "of the neighbours";
        /// Warm are those that are wanted so many times as often as by chance, and some more.
        /// Experiment: none.
        warm_ratio: f32 = 1.6, "times chance";
        /// So many more. Experiment: none.
        warm_more: f32 = 4.0, "neighbours";
        /// Where chance would have it that so many are wanted, fewer have a say. Experiment: none.
        chance_least: f32 = 4.0, "neighbours";
        /// Not warm are those that are wanted less often than that. Experiment: none.
        cold_ratio: f32 = 1.3, "times chance";
        /// Worth loading from the pool at once out of sequence, where a block costs as much as the
        /// next. E-095.
        pool_cluster_max: u32 = 2, "log2 of pages";
    }

    /// Which faults follow each other.
    sequence: Sequence {
        /// The longest stride that is looked for. E-047.
        stride_max: u64 = 512, "pages";
        /// That a stream may pass over, if the pages there need not be brought. E-047.
        skip_max: u64 = 8, "strides";
    }

    /// Blocks of loaded pages that are kept, and pages that are protected for it.
    keeping: Keeping {
        /// Blocks are kept while the pool is below this: what is stored must not go to the device
        /// for them. Experiment: none.
        pool_sixteenths: u64 = 15, "sixteenths of the pool's limit";
        /// Loaded at once in sequence at least; out of it they are fewer
        /// ([`cluster`](crate::Config::cluster)). Experiment: none.
        stream_min: usize = 8, "pages";
        /// A write unprotects so many: what is written to in sequence would fault page by page.
        /// Those of them that are not written to have to be compared. E-042.
        unprotect_order: u32 = 4, "log2 of pages";
        /// The same where protection is only probed. E-042.
        probe_unprotect_order: u32 = 7, "log2 of pages";
        /// A page that leaves unwritten is worth one point, one that was written to costs one. A
        /// write that has to wait costs the time that a whole window of protected pages gains:
        /// whoever has to let it is as likely as not bringing the rest of the window. E-042,
        /// E-043.
        write_fault_points: i32 = 128, "points";
        /// It pays from 0 points on; the sum stays within this. E-044.
        points: i32 = 1024, "points";
        /// Below that it is done in one of so many loads, to see whether it would pay again.
        /// E-044.
        probe_every: u32 = 16, "loads";
    }

    /// Cold entries that go to the device before the pool is full.
    shrinker: Shrinker {
        /// That one round of reclaim may send on (SWAP_CLUSTER_MAX). Experiment: none.
        round: u64 = 32, "entries";
    }

    /// How much moves at a time.
    sizing: Sizing {
        /// That the memory to work with must hold at least. E-070.
        folios_min: u64 = 64, "folios";
        /// The part of it that may be frames whose pages are in the pool already. E-076.
        give_up_share: u64 = 256, "parts";
        /// And the most of them. Experiment: none.
        give_up_max: u64 = 256, "pages";
        /// Of what relatives do not share, at most one in so many waits in staging. E-070.
        staged_share: u64 = 4, "parts";
        /// The part of what may wait there that does while nothing is shared. E-209.
        staged_unshared: u64 = 4, "parts";
        /// And at least so many: of less than a round nothing waits. Experiment: none.
        staged_least: u64 = 64, "frames";
    }

    /// Which resident folio leaves next.
    victims: Victims {
        /// Active pages leave when the others are fewer than one in so many. E-084, E-114.
        active_share: u64 = 16, "resident pages";
        /// Active pages fill the memory when the others are fewer than one in so many. E-218.
        crowded_share: u64 = 8, "resident pages";
        /// What comes back from no further than one in so many is active even then. E-218.
        near_share: u64 = 8, "resident pages";
        /// Of so many that come back from further, one is active. E-218.
        far_every: u32 = 32, "pages";
        /// Cached ones leave first when they are more than one in so many. E-093.
        cached_share: u64 = 8, "resident pages";
        /// The same under `--policy s3-fifo`, as published. Experiment: none.
        small_share: u64 = 10, "resident pages";
        /// That `--policy clock` lets pass in a row. Experiment: none.
        passes_max: u32 = 128, "folios";
        /// Of so many that leave, one is looked for among those that did not compress.
        /// Experiment: none.
        unevictable_share: u32 = 64, "folios";
        /// That turn out to be needed in a round in which nothing else is left. Experiment: none.
        needed_max: u32 = 32, "pages";
        /// At a page's age until the oldest are looked for again: that goes over all tags.
        /// Experiment: none.
        age_looks: u32 = 256, "looks";
    }

    /// A round of reclaim.
    scan: Scan {
        /// Looked at in one go (SWAP_CLUSTER_MAX). Experiment: none.
        cluster_max: u32 = 32, "pages";
        /// Of the run that isolated pages are packed into. Experiment: none.
        batch_slots: u32 = 64, "staging slots";
        /// Entries that a round looks at, for each page that is wanted. Experiment: none.
        looks_per_page: usize = 4, "entries";
        /// And so many more: entries may be stale. Experiment: none.
        looks_more: usize = 256, "entries";
        /// Remembered for [`Scan::shared`](crate::Scan::shared) and what does not move.
        /// Experiment: none.
        remembered_max: usize = 64, "ranges";
    }

    /// What is done under one hold of the lock.
    hold: Hold {
        /// Pages are isolated for so long, at least one entry. Each run costs a TLB flush: 15 to
        /// 20 us while a thread of the process is on another core, 1.5 us while none is. A program
        /// with one thread is on none while its fault waits for the lock, so what leaves page by
        /// page leaves together. E-027, E-030.
        ns: u64 = 500_000, "ns";
        /// Of one entry end it. E-031.
        many: u32 = 16, "pages";
        /// Blocks that are dropped. Experiment: none.
        dropped: u64 = 64, "blocks";
        /// Entries that writeback looks at. Experiment: none.
        writeback_looks: usize = 1024, "entries";
        /// Pages that the gate protects. Experiment: none.
        protected: u64 = 512, "pages";
        /// Pages that compaction looks at. Experiment: none.
        compacted: u64 = 64, "pages";
    }

    /// When the pool is compacted. E-083.
    compaction: Compaction {
        /// After one in so many of the entries has left for the device.
        emptied_share: u64 = 32, "parts";
        /// And so many at least.
        emptied_least: u64 = 1024, "entries";
        /// All words are gone through for it, however few are of stored pages: not before one
        /// entry for so many of them has left.
        words_per_entry: u64 = 128, "words";
        /// If that frees one in so many.
        gain_share: u64 = 64, "pages of the pool";
        /// And so many at least.
        gain_least: u64 = 64, "pages";
    }

    /// What forked relatives have too. E-072.
    sharing: Sharing {
        /// It leaves when it has been shared for so long.
        patience_ns: u64 = 15_000_000_000, "ns";
        /// How long it then takes at least until most are gone. Each that one has taken costs
        /// memory until its relatives have taken theirs, and what both work with is to be left to
        /// them.
        drain_ns: u64 = 60_000_000_000, "ns";
        /// And a page at most.
        drain_page_ns_max: u64 = 1_000_000, "ns";
        /// Taken at once, but for those of a folio.
        at_once: u64 = 32, "pages";
        /// From so many relatives on, what one has broken the sharing of goes straight to the
        /// device, however it compresses: some leave theirs where it is. E-198, E-199.
        many: u64 = 2, "relatives";
        /// How it compresses is known when so many are stored. Experiment: none.
        judged_least: u64 = 64, "pages";
    }

    /// How pages are stored, and stored again.
    stored: Stored {
        /// By which a block must become shorter to be worth moving. Experiment: none.
        gain_min: usize = 64, "bytes";
        /// Of a dictionary's sample that are taken at once. Experiment: none.
        sampled_at_once: usize = 4, "pages";
        /// That are looked at for them. Experiment: none.
        looks_at_once: u32 = 128, "words";
        /// For a whole sample: if one in a thousand pages is stored, it becomes complete.
        /// Experiment: none.
        looks_max: u32 = 1 << 17, "words";
    }

    /// Whether pages are stored by the fast compressor or by the denser one. E-164.
    density: Density {
        /// What a load costs that would not have been, and the store that made room for it, but
        /// for the compressor.
        load_ns: u64 = 40_000, "ns";
        /// Stored between two verdicts.
        judge_every: u64 = 2048, "pages";
        /// Once they are dense they stay so while it is worth one part in so many.
        stays: u64 = 4, "parts";
        /// Of so many batches, one page of one is compressed with the other compressor as well.
        probe_every: u32 = 8, "batches";
        /// Compressed with either that have a say.
        watched_least: u64 = 16, "pages";
        /// How many are seen by what they cost; of probes as many as are made in a while.
        remembered: u64 = 256, "pages";
    }

    /// Waiting for pages that were taken out.
    stall: Stall {
        /// What a thread waits besides the service: until its fault is known, and until it runs.
        /// Experiment: none.
        outside_ns: u64 = 3_000, "ns";
    }

    /// Pages that are copied before they are dropped, where they cannot move.
    copied: Copied {
        /// They are resident twice meanwhile. Experiment: none.
        pages_max: u64 = 64, "pages";
        /// At a time. Experiment: none.
        runs_max: usize = 32, "runs";
    }
}

#[cfg(test)]
mod test;
