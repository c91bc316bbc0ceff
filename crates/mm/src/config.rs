//! What an engine is told when it starts, and how folios leave.

use crate::policy::portions::Portions;
use crate::policy::replacement::Replacement;
use crate::policy::tunables::Tunables;
use crate::zpool::PoolKind;

/// How folios leave (`--swapout`): for comparison, as the kernel can be built with and without
/// THP_SWAP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum SwapOut {
    /// Stored as they are, whatever their order.
    #[default]
    Whole = 0,
    /// Split into pages first.
    Split = 1,
    /// Written to the swap device without zswap.
    Direct = 2,
}

impl SwapOut {
    /// Every way, in the order of its word.
    pub const ALL: [Self; 3] = [Self::Whole, Self::Split, Self::Direct];

    /// The name that users see.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Whole => "whole",
            Self::Split => "split",
            Self::Direct => "direct",
        }
    }

    /// The way of that name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|way| way.name() == text)
    }

    /// The inverse of `as u64`; anything else reads as the default.
    pub fn from_word(word: u64) -> Self {
        Self::ALL.get(word as usize).copied().unwrap_or_default()
    }
}

/// The most that `page_cluster` may be.
pub const PAGE_CLUSTER_MAX: u32 = 5;

/// What is fixed when an engine starts.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// How much moves at a time at most (`--folio-max`).
    pub portions: Portions,
    /// log2 of the pages read from the swap device, or loaded from zswap, at once, until
    /// [`set_page_cluster`](crate::Mm::set_page_cluster) says otherwise (`--page-cluster`).
    pub page_cluster: u32,
    /// Pages compressed between two publications (`--batch`).
    pub store_batch: u32,
    /// Slots of the staging range.
    pub staging_slots: u32,
    /// Frames that wait for a second chance in steady state at most.
    pub staged_most: u64,
    /// Pages stored in a segment of the lists of stored folios: refault distances are told apart up
    /// to 512 of them.
    pub zswap_segment: u64,
    /// Pages of the swap device; 0: there is none.
    pub swap_pages: u64,
    /// Pages are written back as they were, not as they are compressed (`--swap-format plain`).
    pub writes_plain: bool,
    /// Allocator and compressor of the first pool.
    pub pool: PoolKind,
    /// In which order pages leave (`--policy`).
    pub replacement: Replacement,
    /// What is decided by.
    pub tunables: &'static Tunables,
}

impl Config {
    /// log2 of the pages that one fault ever loads at most, whatever `page_cluster` will be.
    pub(crate) fn load_order_max(&self) -> u32 {
        self.portions.folio_order.max(PAGE_CLUSTER_MAX)
    }
}
