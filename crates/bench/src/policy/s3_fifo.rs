//! S3-FIFO as published (Yang and others, "FIFO queues are all you need for cache eviction", SOSP
//! 2023), which sees every touch.
//!
//! New pages enter a small queue, and leave it for the main one if they were touched twice there,
//! else for a list of *ghosts*: pages that are not there any more. A ghost that is touched enters
//! the main queue. That is a CLOCK that counts to three.

use std::collections::VecDeque;

use super::baseline::Policy;
use super::trace::Trace;

/// The small queue is one in so many of the pages.
const SMALL_SHARE: usize = 10;
/// Touches that are counted, and those that lead to the main queue.
const TOUCHES_MAX: u8 = 3;
const WANTED: u8 = 2;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Out,
    /// Its number in the list of ghosts.
    Ghost(usize),
    /// Resident, and touched so often since.
    Resident(u8),
}

/// The policy at work.
pub(crate) struct S3Fifo {
    capacity: usize,
    small: VecDeque<u32>,
    main: VecDeque<u32>,
    /// Ghosts so far: older ones than the main queue has pages are forgotten.
    ghosts: usize,
    places: Vec<Place>,
}

impl S3Fifo {
    /// With room for `capacity` of the pages of `trace`.
    pub(crate) fn new(trace: &Trace, capacity: usize) -> Self {
        Self {
            capacity,
            small: VecDeque::new(),
            main: VecDeque::new(),
            ghosts: 0,
            places: vec![Place::Out; trace.pages()],
        }
    }

    fn small_capacity(&self) -> usize {
        (self.capacity / SMALL_SHARE).max(1)
    }

    fn touches(&self, page: u32) -> u8 {
        match self.places[page as usize] {
            Place::Resident(touches) => touches,
            Place::Out | Place::Ghost(_) => unreachable!("it is in a queue"),
        }
    }

    fn evict(&mut self) {
        while self.small.len() + self.main.len() >= self.capacity {
            if self.small.len() >= self.small_capacity() {
                self.evict_small();
            } else {
                self.evict_main();
            }
        }
    }

    /// Pages leave the small queue, until one leaves memory.
    fn evict_small(&mut self) {
        while let Some(page) = self.small.pop_front() {
            if self.touches(page) < WANTED {
                self.places[page as usize] = Place::Ghost(self.ghosts);
                self.ghosts += 1;
                return;
            }
            self.places[page as usize] = Place::Resident(0);
            self.main.push_back(page);
        }
    }

    /// One page leaves the main queue, or goes to its end.
    fn evict_main(&mut self) {
        let Some(page) = self.main.pop_front() else { return };
        self.places[page as usize] = match self.touches(page).checked_sub(1) {
            Some(left) => {
                self.main.push_back(page);
                Place::Resident(left)
            }
            None => Place::Out,
        };
    }

    fn is_remembered(&self, ghost: usize) -> bool {
        self.ghosts - ghost <= self.capacity - self.small_capacity()
    }
}

impl Policy for S3Fifo {
    fn touch(&mut self, page: u32) -> bool {
        let place = self.places[page as usize];
        if let Place::Resident(touches) = place {
            self.places[page as usize] = Place::Resident((touches + 1).min(TOUCHES_MAX));
            return false;
        }
        self.evict();
        match place {
            Place::Ghost(ghost) if self.is_remembered(ghost) => self.main.push_back(page),
            _ => self.small.push_back(page),
        }
        self.places[page as usize] = Place::Resident(0);
        true
    }
}

#[cfg(test)]
mod test {
    use super::*;

    fn loads(pages: &[u64], capacity: usize) -> Vec<u64> {
        let trace = Trace::new("", pages.iter().copied());
        let mut policy = S3Fifo::new(&trace, capacity);
        let touches = trace.touches().iter().filter(|page| policy.touch(**page));
        touches.map(|page| trace.numbers()[*page as usize]).collect()
    }

    #[test]
    fn what_was_touched_twice_more_stays() {
        // 3 sends 1 to the main queue and 2 to the ghosts; 2 comes back from there and sends 3; 3
        // then finds 1 touched, but not 2.
        assert_eq!(loads(&[1, 1, 1, 2, 3, 1, 2, 3, 1], 2), [1, 2, 3, 2, 3]);
    }

    #[test]
    fn a_scan_leaves_the_main_queue_alone() {
        let hot = [0, 1, 2, 3].repeat(3);
        let scan: Vec<u64> = (10..50).collect();
        let touches = [&hot[..], &scan, &hot].concat();
        assert_eq!(loads(&touches, 10).len(), 4 + 40);
    }
}
