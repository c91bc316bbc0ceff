//! Pages by number. Addresses stop at the agent's edge: inside the engine a page is a [`Vpn`].

use core::fmt;

/// Bytes in a page.
pub const PAGE_SIZE: usize = 4096;
/// log2 of the largest folio: 512 pages, 2 MiB.
pub const MAX_ORDER: u32 = 9;

/// A virtual page number: a user address shifted right by 12. User addresses have 47 bits, so 35 are used.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Vpn(u64);

/// Bits of a page number, as the encodings in words and queues count on.
pub const VPN_BITS: u32 = 36;

impl Vpn {
    /// Page number `n`.
    pub const fn new(n: u64) -> Self {
        debug_assert!(n < 1 << VPN_BITS);
        Self(n)
    }

    /// The page that holds `addr`.
    pub const fn of_addr(addr: usize) -> Self {
        Self::new((addr / PAGE_SIZE) as u64 & ((1 << VPN_BITS) - 1))
    }

    /// The number.
    pub const fn number(self) -> u64 {
        self.0
    }

    /// Address of its first byte.
    pub const fn addr(self) -> usize {
        self.0 as usize * PAGE_SIZE
    }

    /// The page `n` further on.
    pub const fn add(self, n: u64) -> Self {
        Self::new(self.0 + n)
    }

    /// The largest order of which this page is the first of an aligned folio.
    pub const fn alignment(self) -> u32 {
        let zeros = self.0.trailing_zeros();
        if zeros < MAX_ORDER { zeros } else { MAX_ORDER }
    }
}

impl fmt::Debug for Vpn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "vpn:{:#x}", self.0)
    }
}

/// Pages from `start` up to, not including, `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageRange {
    /// First page.
    pub start: Vpn,
    /// One past the last.
    pub end: Vpn,
}

impl PageRange {
    /// `pages` pages from `start`.
    pub const fn new(start: Vpn, pages: u64) -> Self {
        Self {
            start,
            end: start.add(pages),
        }
    }

    /// The pages that lie wholly or partly in `[start, end)`, in bytes.
    pub const fn of_bytes(start: usize, end: usize) -> Self {
        Self {
            start: Vpn::of_addr(start),
            end: Vpn::of_addr(end + PAGE_SIZE - 1),
        }
    }

    /// How many pages.
    pub const fn pages(self) -> u64 {
        self.end.0.saturating_sub(self.start.0)
    }

    /// Whether `vpn` is one of them.
    pub const fn contains(self, vpn: Vpn) -> bool {
        self.start.0 <= vpn.0 && vpn.0 < self.end.0
    }

    /// Each page in order.
    pub fn iter(self) -> impl Iterator<Item = Vpn> {
        (self.start.0..self.end.0).map(Vpn::new)
    }
}

/// Whether every byte of a page is zero.
pub fn is_zero(page: &[u8]) -> bool {
    let (words, rest) = page.as_chunks::<8>();
    // The last word first: pages that only begin with zeros are common.
    words.last().is_none_or(|w| *w == [0; 8]) && words.iter().all(|w| *w == [0; 8]) && rest.iter().all(|b| *b == 0)
}
