//! Pages by number. Addresses stop at the agent's edge: inside the engine a page is a [`Vpn`].

use core::fmt;

/// Bytes in a page.
pub const PAGE_SIZE: usize = 4096;
/// log2 of the largest folio: 512 pages, 2 MiB.
pub const MAX_ORDER: u32 = 9;

/// A virtual page number: a user address shifted right by 12. User addresses have 47 bits, so 35
/// are used.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Vpn(u64);

/// Bits of a page number, as the encodings in words and queues count on; fewer under Miri, which
/// would be busy for seconds with a directory for them all.
pub const VPN_BITS: u32 = if cfg!(miri) { 25 } else { 36 };

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
    /// All pages that a program may have.
    pub const USER: Self = Self::new(Vpn::new(0), 1 << (VPN_BITS - 1));
    /// Every page number, those that no program has included (`flight/departing.rs`).
    pub const ALL: Self = Self::new(Vpn::new(0), (1 << VPN_BITS) - 1);

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

    /// The fewest whole aligned folios, of at most `order_max`, that these pages make: first page
    /// and order of each.
    pub fn folios(self, order_max: u32) -> impl Iterator<Item = (Vpn, u32)> {
        let mut at = self.start;
        core::iter::from_fn(move || {
            let left = self.end.0.saturating_sub(at.0).checked_ilog2()?;
            let folio = (at, at.alignment().min(left).min(order_max));
            at = at.add(1 << folio.1);
            Some(folio)
        })
    }

    /// Its parts, each of which ends at a multiple of `pages` or with the range.
    pub fn pieces(self, pages: u64) -> impl Iterator<Item = Self> {
        let mut start = self.start;
        core::iter::from_fn(move || {
            (start < self.end).then(|| {
                let next = Vpn::new((start.number() / pages + 1) * pages);
                let end = next.min(self.end);
                let start = core::mem::replace(&mut start, end);
                Self { start, end }
            })
        })
    }

    /// Each page in order.
    pub fn iter(self) -> impl Iterator<Item = Vpn> {
        (self.start.0..self.end.0).map(Vpn::new)
    }
}

/// Add a page to the last of these ranges, if it comes next there. False: it does not.
pub(crate) fn extend_last(ranges: &mut [PageRange], vpn: Vpn) -> bool {
    let last = ranges.last_mut().filter(|last| last.end == vpn);
    last.map(|last| last.end = vpn.add(1)).is_some()
}

/// The word that a page is made of, if it is one word over and over.
pub fn same_filled(page: &[u8]) -> Option<u32> {
    let words = page.as_chunks::<8>().0;
    let (first, last) = (words.first()?, words.last()?);
    let word = u32::from_ne_bytes([first[0], first[1], first[2], first[3]]);
    let is_same = |pair: &[u8; 8]| pair == first;
    // The last word first: pages that only begin alike are common.
    (first[..4] == first[4..] && is_same(last) && words.iter().all(is_same)).then_some(word)
}

/// What contents that do not compress are recognised by: two pages with the same fingerprint are
/// the same, or the second goes uncompressed once though it could have been. Never 0.
pub fn fingerprint(page: &[u8]) -> u32 {
    (xxhash_rust::xxh3::xxh3_64(page) as u32).max(1)
}

#[cfg(test)]
mod test {
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn pieces_end_at_multiples() {
        let range = |start, end| PageRange {
            start: Vpn::new(start),
            end: Vpn::new(end),
        };
        let pieces: Vec<_> = range(3, 17).pieces(8).collect();
        assert_eq!(pieces, [range(3, 8), range(8, 16), range(16, 17)]);
        assert_eq!(range(8, 16).pieces(8).count(), 1);
        assert_eq!(range(9, 8).pieces(8).count(), 0);
    }

    #[test]
    fn a_page_is_filled_with_one_word_or_not() {
        let mut page = [0xabu8; PAGE_SIZE];
        assert_eq!(same_filled(&page), Some(0xabab_abab));
        for at in [0, 3, 5, 2048, PAGE_SIZE - 1] {
            page[at] ^= 1;
            assert_eq!(same_filled(&page), None, "{at}");
            page[at] ^= 1;
        }
        assert_eq!(same_filled(&[0; PAGE_SIZE]), Some(0));
    }
}
