//! Whoever serves one at a time: an engine of a device, or a lock. Cores are simulated a step at a
//! time, so one may ask for an earlier time than another before it: a server takes it in where it
//! is idle.

use std::collections::VecDeque;

/// One server, as the times that it is busy at: in order, and none touches the next.
#[derive(Clone, Default, Debug)]
pub(crate) struct Server {
    busy: VecDeque<(u64, u64)>,
    /// Nanoseconds of work that it was given.
    pub(crate) work: u64,
}

impl Server {
    /// The first time from `at` on at which it is idle for `len`, and the interval behind it.
    fn gap(&self, at: u64, len: u64) -> (u64, usize) {
        let mut behind = self.busy.partition_point(|(_, end)| *end <= at);
        let mut start = at;
        while let Some((from, to)) = self.busy.get(behind) {
            if start + len <= *from {
                break;
            }
            start = start.max(*to);
            behind += 1;
        }
        (start, behind)
    }

    /// When work of `len` that comes at `at` could begin.
    pub(crate) fn start(&self, at: u64, len: u64) -> u64 {
        self.gap(at, len).0
    }

    /// Give it work of `len` that comes at `at`. Returns when it is done.
    pub(crate) fn take(&mut self, at: u64, len: u64) -> u64 {
        if len == 0 {
            return at;
        }
        self.work += len;
        let (start, behind) = self.gap(at, len);
        let end = start + len;
        let joins_before = behind > 0 && self.busy[behind - 1].1 == start;
        let joins_behind = self.busy.get(behind).is_some_and(|(from, _)| *from == end);
        match (joins_before, joins_behind) {
            (true, true) => {
                self.busy[behind - 1].1 = self.busy[behind].1;
                self.busy.remove(behind);
            }
            (true, false) => self.busy[behind - 1].1 = end,
            (false, true) => self.busy[behind].0 = start,
            (false, false) => self.busy.insert(behind, (start, end)),
        }
        end
    }

    /// Nobody asks for a time before `at` any more.
    pub(crate) fn forget(&mut self, at: u64) {
        while self.busy.front().is_some_and(|(_, end)| *end < at) {
            self.busy.pop_front();
        }
    }
}

/// Servers that are alike, each with its own queue, of which the one that begins first is taken.
#[derive(Clone, Debug)]
pub(crate) struct Servers(Vec<Server>);

impl Servers {
    pub(crate) fn new(count: usize) -> Self {
        Self(vec![Server::default(); count])
    }

    /// As [`Server::take`].
    pub(crate) fn take(&mut self, at: u64, len: u64) -> u64 {
        let first = (0..self.0.len()).min_by_key(|i| self.0[*i].start(at, len));
        first.map_or(at, |i| self.0[i].take(at, len))
    }

    /// When work of `len` that comes at `at` would be done. `None`: there is no server.
    pub(crate) fn end(&self, at: u64, len: u64) -> Option<u64> {
        self.0.iter().map(|server| server.start(at, len) + len).min()
    }

    pub(crate) fn forget(&mut self, at: u64) {
        self.0.iter_mut().for_each(|server| server.forget(at));
    }

    /// Nanoseconds of work that all of them were given.
    pub(crate) fn work(&self) -> u64 {
        self.0.iter().map(|server| server.work).sum()
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::random::Random;

    #[test]
    fn work_waits_for_work_before_it() {
        let mut server = Server::default();
        assert_eq!(server.take(100, 10), 110);
        assert_eq!(server.take(105, 10), 120);
        assert_eq!(server.take(50, 10), 60);
        // What comes early fits in front, if there is room.
        assert_eq!(server.take(60, 40), 100);
        assert_eq!(server.take(0, 60), 180);
        assert_eq!(server.busy.iter().copied().collect::<Vec<_>>(), [(50, 180)]);
        server.forget(200);
        assert!(server.busy.is_empty());
        assert_eq!(server.work, 130);
    }

    #[test]
    fn no_two_are_served_at_once() {
        let mut random = Random::new(3);
        let mut server = Server::default();
        let mut served: Vec<(u64, u64)> = Vec::new();
        for _ in 0..500 {
            let (at, len) = (random.below(5000), 1 + random.below(9));
            let end = server.take(at, len);
            assert!(end - len >= at);
            served.push((end - len, end));
        }
        served.sort_unstable();
        assert!(served.windows(2).all(|pair| pair[0].1 <= pair[1].0));
        let busy = &server.busy;
        assert!(busy.iter().zip(busy.iter().skip(1)).all(|(a, b)| a.1 < b.0));
    }

    #[test]
    fn the_first_that_is_idle_serves() {
        let mut servers = Servers::new(2);
        assert_eq!([servers.take(0, 5), servers.take(0, 5), servers.take(0, 5)], [5, 5, 10]);
        assert_eq!((servers.work(), servers.end(3, 4)), (15, Some(9)));
        assert_eq!(Servers::new(0).end(3, 4), None);
    }
}
