//! The words that a group has once, by their roles: who writes them, and what goes by them.
//!
//! | role          | written by                        | read by                                |
//! |---------------|-----------------------------------|----------------------------------------|
//! | [`Limit`]     | the launcher, `uzswap set`        | agents and the census: what may be had |
//! | [`Tunable`]   | the launcher, `uzswap set`        | agents: how that is done               |
//! | [`Test`]      | the launcher                      | agents: what fails                     |
//! | [`Notice`]    | launchers and agents, as they run | each other, who act on it              |
//! | [`Statistic`] | whoever sees it happen            | reports; nobody else decides by it     |
//!
//! The first three are settings: [`Group::set`](crate::Group::set) takes them and nothing else, and
//! what changes notices and statistics takes no setting.

use core::fmt::Debug;

use crate::layout::{HEAD, Head, LIMITS, NOTICES, STATISTICS, TESTS, TUNABLES, words};

words! {
    /// What the group may have. Sizes are bytes; `u64::MAX` is "max".
    pub enum Limit {
        /// `memory.max`
        MemoryMax,
        /// `memory.high`: reclaim starts here.
        MemoryHigh,
        /// `memory.swap.max`
        SwapMax,
        /// `memory.zswap.max`
        ZswapMax,
        /// `memory.zswap.writeback`: 0: compressed pages are never written back.
        ZswapWriteback,
        /// `stall`: the limit is automatic, and so large a share of the time may be spent waiting
        /// for pages that it took out; millionths. 0: it is what `memory.max` says.
        Stall,
    }
}

words! {
    /// How memory is reclaimed, stored and loaded. Of flags, 1 is on.
    pub enum Tunable {
        /// `enabled`: zswap takes pages.
        Enabled,
        /// A [`Compressor`](uzswap_acomp::Compressor) as a word.
        Compressor,
        /// A [`ZpoolType`](uzswap_mm::zpool::ZpoolType) as a word.
        Zpool,
        /// Of the memory limit.
        MaxPoolPercent,
        /// Of the pool limit.
        AcceptThresholdPercent,
        /// `shrinker_enabled`: cold compressed pages go to the device under pressure, before the
        /// pool is full.
        ShrinkerEnabled,
        /// `balance`: the pool gives way to the working set.
        Balance,
        /// `swap_cache`: stored copies are kept of pages that were loaded and are expected to leave
        /// again.
        SwapCache,
        /// An [`Algorithm`](uzswap_acomp::Algorithm) as a word; 0: idle pages stay as they are.
        Recompress,
        /// A [`SwapOut`](uzswap_mm::SwapOut) as a word.
        SwapOut,
        /// A [`Replacement`](uzswap_mm::Replacement) as a word.
        Replacement,
        /// log2 of the pages of the largest folio.
        FolioOrder,
        /// log2 of the neighbours that are loaded with a page.
        PageCluster,
        /// Pages compressed at a time.
        StoreBatch,
        /// Background compression threads of each process.
        Kcompressd,
        /// Threads of each process that serve faults.
        FaultThreads,
        /// Threads may keep a core awake for a fault that is expected.
        Spin,
        /// Pages are copied out even where the kernel can move them, and nothing newer than Linux
        /// 5.7 is used.
        Copies,
        /// There is a swap file.
        Swap,
        /// What is written to it is encrypted.
        SwapEncrypted,
        /// Pages are written to it as they were, not as they are compressed.
        SwapPlain,
        /// Its path is that of a file to create, not of a directory.
        SwapPathIsFile,
        /// What cannot be managed runs on without limit.
        AllowUnmanaged,
        /// The program's system calls are seen before the kernel, which cannot wait for pages.
        Guard,
        /// Threads serve their own faults; only with that.
        InlineFaults,
        /// There is no userfaultfd: pages that are out are closed (PROT_NONE); only with that.
        Closes,
        /// With the guard: a process for which the kernel has to wait, as it reaches the program's
        /// memory when nobody knows (io_uring, AIO, virtual machines), may have it wait.
        MayBlock,
        /// With the guard: a process that it would disturb (under a debugger, say), or in which no
        /// code can be replaced, does without, if the kernel can wait for its pages and tells of
        /// its forks.
        MayGoUnguarded,
        /// Filters of system calls that the launcher has itself, and one more. 0: not known.
        Filters,
        /// What compresses where the compressor is a device: a [`Source`](crate::accel::Source) as
        /// a word.
        Iaa,
        /// The launcher's process and descriptor of the file that is shared for it
        /// ([`accel`](crate::accel)).
        IaaPid,
        IaaFd,
        /// `verify_compress`: the device reads back what it compressed.
        IaaVerify,
        /// `sync_mode`: one page of a thread is under way at a time.
        IaaSync,
        /// The device makes codes for each page, else it uses deflate's fixed ones.
        IaaDynamic,
        /// Cold segments of the swap files go to a mover ([`remote`](crate::remote)), which tries
        /// for so many seconds to bring one back; 0: there is none.
        SwapRemote,
    }
}

words! {
    /// Failures that tests ask for.
    pub enum Test {
        /// Of 1000 steps of the machine so many fail.
        FailPerMille,
        /// How they fail: a set of [`FailKind`](crate::FailKind)s.
        FailKinds,
    }
}

words! {
    /// What launchers and processes tell one another. Times are nanoseconds of CLOCK_MONOTONIC.
    pub enum Notice {
        /// The census: bytes of members that charge nothing themselves, having no agent or one that
        /// is idle.
        Census,
        /// The census: when it looked last.
        CensusAt,
        /// The census: what the group that this launcher runs in leaves to this one, and 1; 0: it
        /// runs in none.
        OuterMax,
        /// A process, or a group inside: the census is to apply the OOM rule, which they may not do
        /// themselves; since when. 0: nobody asks.
        OomAsked,
        /// `uzswap reclaim` (`memory.reclaim`): bytes that it asks for and nobody has taken on.
        ReclaimAsked,
        /// `uzswap reclaim`: 1: only from zswap to the device.
        ReclaimZswap,
        /// Processes: bytes reclaimed for that request.
        ReclaimDone,
        /// Processes: how many are at work on it.
        ReclaimBusy,
        /// Processes: how often relatives found that they share other pages than they thought.
        Unshared,
        /// Processes: how many programs have been loaded with the agent, ever.
        Joined,
        /// Processes: when one would have been killed for what stays free while relatives share
        /// pages.
        NeedsAllAt,
        /// The automatic limit: bytes that are to be given back, and that nobody has taken on.
        ColdAsked,
        /// Processes: bytes that they took out for it, ever (wrapping).
        ColdTaken,
        /// Processes: when the sharing of two would have been broken for what stays free while
        /// relatives share pages.
        SparedAt,
    }
}

words! {
    /// What happened, for reports.
    pub enum Statistic {
        /// Highest sum of charges seen, bytes.
        MemoryPeak,
        /// The most that would have been resident without a pool and a device, bytes.
        NeededPeak,
        /// The most that an automatic limit had given back at a time, bytes.
        SavedPeak,
        /// Process that killed itself because nothing was left to reclaim; 0: none.
        OomPid,
        /// What the group used then, bytes.
        OomUsage,
        /// 1 + errno of a swap file that could not be made; 0: none failed.
        SwapError,
        /// Bytes of members without an agent.
        Unmanaged,
        /// The most that they ever had.
        UnmanagedPeak,
        /// Members without an agent that were seen, ever.
        UnmanagedProcesses,
        /// Shared memory that all members have mapped, bytes: not charged.
        Shmem,
        /// The most that they ever had.
        ShmemPeak,
        /// The mover: bytes of swap files that lie elsewhere, in the file as well or not.
        RemoteBytes,
        /// Bytes that it sent, ever.
        RemoteSent,
        /// Bytes that it brought back, ever.
        RemoteFetched,
        /// Segments that it could not bring back.
        RemoteLost,
        /// 1 + errno of a process that could not reach it; 0: all could.
        RemoteError,
    }
}

/// What launchers set and agents go by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    Limit(Limit),
    Tunable(Tunable),
    Test(Test),
}

/// The name of a word, whatever its role.
pub trait Key: Copy + Debug + place::At {}

/// Nobody else says where words are.
pub(crate) mod place {
    pub trait At {
        /// Which word of the file it is.
        fn at(self) -> usize;
    }
}

macro_rules! keys {
    ($($role:ident in $part:ident,)*) => {
        $(
            impl Key for $role {}

            impl place::At for $role {
                fn at(self) -> usize {
                    $part.word(self as usize)
                }
            }
        )*
    };
}

keys! {
    Head in HEAD,
    Limit in LIMITS,
    Tunable in TUNABLES,
    Test in TESTS,
    Notice in NOTICES,
    Statistic in STATISTICS,
}

impl Key for Setting {}

impl place::At for Setting {
    fn at(self) -> usize {
        match self {
            Self::Limit(limit) => limit.at(),
            Self::Tunable(tunable) => tunable.at(),
            Self::Test(test) => test.at(),
        }
    }
}

impl From<Limit> for Setting {
    fn from(limit: Limit) -> Self {
        Self::Limit(limit)
    }
}

impl From<Tunable> for Setting {
    fn from(tunable: Tunable) -> Self {
        Self::Tunable(tunable)
    }
}

impl From<Test> for Setting {
    fn from(test: Test) -> Self {
        Self::Test(test)
    }
}

#[cfg(test)]
mod test {
    use alloc::vec::Vec;

    use super::place::At;
    use super::*;
    use crate::Group;

    #[test]
    fn no_two_names_are_of_one_word() {
        let all = [
            Head::ALL.iter().map(|key| key.at()).collect::<Vec<_>>(),
            Limit::ALL.iter().map(|key| key.at()).collect(),
            Tunable::ALL.iter().map(|key| key.at()).collect(),
            Test::ALL.iter().map(|key| key.at()).collect(),
            Notice::ALL.iter().map(|key| key.at()).collect(),
            Statistic::ALL.iter().map(|key| key.at()).collect(),
        ];
        let mut words = all.concat();
        let named = words.len();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), named);
    }

    #[test]
    fn a_setting_is_read_by_its_own_name() {
        let group = Group::fresh();
        for (value, setting) in (7..).zip([
            Setting::from(Limit::SwapMax),
            Tunable::Swap.into(),
            Test::FailKinds.into(),
        ]) {
            group.set(setting, value);
            assert_eq!(group.get(setting), value);
        }
        let read = (
            group.get(Limit::SwapMax),
            group.get(Tunable::Swap),
            group.get(Test::FailKinds),
        );
        assert_eq!(read, (7, 8, 9));
    }
}
