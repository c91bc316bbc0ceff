//! What is asked of a compressor: pages in, for each a block or an error out, and back.

/// Pages that a request may have.
pub const SCATTER_MAX: usize = 64;

/// What is done to each page of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// A page becomes a block, which must not be longer than the unit.
    Compress,
    /// A block becomes a page, which fills the unit.
    Decompress,
}

/// Why a page has no compressed form, or a block no page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// The page does not become shorter than the room given.
    Poor,
    /// The compressor failed, or the block is damaged.
    Failed,
}

/// Pages to compress, or blocks to decompress, all at once.
pub struct Request<'a> {
    /// What is done to each of them.
    pub op: Op,
    /// The scatter list: at most [`SCATTER_MAX`] pages or blocks, wherever they lie.
    pub src: &'a [&'a [u8]],
    /// A destination for each: the `i`th `unit` bytes are those of the `i`th page.
    pub dst: &'a mut [u8],
    /// Bytes of each destination.
    pub unit: usize,
    /// Nanoseconds that a device may take for all of it. What it has not done then is done by
    /// software.
    pub deadline_ns: u64,
    /// Nanoseconds on a clock that never goes back. Only who waits for a device looks at it.
    pub clock: &'a dyn Fn() -> u64,
}

impl Request<'_> {
    /// The destination of a page.
    pub(crate) fn unit(&mut self, page: usize) -> &mut [u8] {
        &mut self.dst[page * self.unit..][..self.unit]
    }

    /// All of its pages, one bit each.
    ///
    /// # Panics
    /// It has too many pages, or less room than they have units.
    pub(crate) fn pages(&self) -> u64 {
        let pages = self.src.len();
        assert!(
            pages <= SCATTER_MAX,
            "{pages} pages: a request has at most {SCATTER_MAX}"
        );
        assert!(
            self.dst.len() >= pages * self.unit,
            "no room for {pages} units of {} bytes",
            self.unit
        );
        match pages {
            SCATTER_MAX => u64::MAX,
            _ => (1 << pages) - 1,
        }
    }
}
