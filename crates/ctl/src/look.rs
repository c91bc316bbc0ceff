//! What a process found that relatives share with it, and what has become of that since.

use uzswap_mm::page::PAGE_SIZE;

/// A look at what relatives share with a process.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// Bytes that are relatives' share; less than nothing: they have so much that is charged to
    /// this process besides what it has.
    pub seen: i64,
    /// When that was.
    pub at: Moment,
    /// Bytes that can have been copied since, at most.
    most_copied: usize,
    /// Nanoseconds; when the one before it began: what it finds has changed since.
    pub began: u64,
    /// As `began`, of the one before it.
    pub before: u64,
}

/// What may say that memory is not shared any more.
#[derive(Clone, Copy, Debug, Default)]
pub struct Moment {
    /// `RssAnon`, bytes.
    pub anon: usize,
    /// Pages that were copied as somebody wrote to them, beginning anywhere; `None`: nobody knows.
    pub copies: Option<i64>,
}

impl Look {
    /// A look has found that `seen` bytes are relatives' share. They have no less of what is
    /// shared, so that is twice as much at most.
    pub fn found(seen: usize, at: Moment, began: u64, before: u64) -> Self {
        Self {
            seen: seen as i64,
            most_copied: seen * 2,
            at,
            began,
            before,
        }
    }

    /// Nobody has looked, and all that there is may be shared.
    pub fn assumed(seen: i64, at: Moment, began: u64, before: u64) -> Self {
        Self {
            seen,
            most_copied: at.anon,
            at,
            began,
            before,
        }
    }

    /// Bytes that are relatives' share at that moment, less than nothing as in `seen`. Each page
    /// that was copied since is one less. Whatever else is gone was theirs as much as all there
    /// was: a new child's pages are all its parent's, so it gives up none of its own.
    pub fn known(&self, at: Moment) -> i64 {
        let copies = self
            .at
            .copies
            .zip(at.copies)
            .map_or(0, |(then, now)| (now - then).max(0));
        let copied = (copies as usize * PAGE_SIZE).min(self.most_copied);
        let gone = self.at.anon.saturating_sub(at.anon).saturating_sub(copied);
        let theirs = gone as i128 * i128::from(self.seen.max(0)) / self.at.anon.max(1) as i128;
        self.seen - copied as i64 - theirs as i64
    }
}

#[cfg(test)]
mod test {
    use super::*;

    const PAGE: i64 = PAGE_SIZE as i64;

    fn at(pages: usize, copies: i64) -> Moment {
        Moment {
            anon: pages * PAGE_SIZE,
            copies: Some(copies),
        }
    }

    #[test]
    fn copies_are_charged_to_the_writer_before_anybody_has_looked() {
        let look = Look::assumed(0, at(100, 7), 0, 0);
        assert_eq!(look.known(at(100, 7)), 0);
        assert_eq!(look.known(at(100, 17)), -10 * PAGE);
        // What is counted besides copies: no more than there was.
        assert_eq!(look.known(at(100, 1000)), -100 * PAGE);
        // What leaves was nobody's but ours, as far as it is known.
        assert_eq!(look.known(at(60, 17)), -10 * PAGE);
        let unknown = Moment {
            copies: None,
            ..at(100, 0)
        };
        assert_eq!(look.known(unknown), 0);
    }

    #[test]
    fn no_more_is_copied_than_was_shared() {
        let look = Look::found(40 * PAGE_SIZE, at(100, 0), 0, 0);
        assert_eq!(look.known(at(100, 50)), -10 * PAGE);
        assert_eq!(look.known(at(100, 1000)), -40 * PAGE);
        // Of what leaves, as much as of all.
        assert_eq!(look.known(at(50, 0)), 20 * PAGE);
    }
}
