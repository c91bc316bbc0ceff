//! A batch of pages: submitted at once, polled, collected.
//!
//! A batch belongs to one thread, which uses it again and again: nothing is allocated after it was
//! made. [`Batch::submit`] and [`Batch::poll`] never wait. While pages wait for a slot or a queue,
//! each poll tries for the first of them; [`Settings::tries`](crate::settings::Settings::tries) and
//! the deadline bound how often.

use crate::buffers::Buffers;
use crate::completion::Direction;
use crate::driver::{Driver, Flight, Progress, Request};
use crate::outcome::{Outcome, Why};
use crate::settings::{Mitigation, SyncMode};
use crate::statistics::count;
use crate::table::Reader;
use alloc::sync::Arc;
use alloc::vec::Vec;
use lock_api::RawMutex;

/// Why a batch was not taken; nothing of it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubmitError {
    /// It has more pages than the batch was made for.
    TooMany {
        /// How many it has.
        pages: usize,
        /// How many it may have.
        limit: usize,
    },
    /// Pages of the batch before are not settled.
    InProgress {
        /// How many.
        pages: usize,
    },
}

impl core::fmt::Display for SubmitError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::TooMany { pages, limit } => write!(f, "a batch of {pages} pages: it has at most {limit}"),
            Self::InProgress { pages } => write!(f, "{pages} pages of the batch before are not settled"),
        }
    }
}

/// Where a page stands.
enum State {
    /// No queue has it.
    Waiting,
    /// A queue has it.
    Flying(Flight),
    /// It is settled, and not yet collected.
    Settled(Outcome),
    /// It was collected.
    Collected,
}

struct Page {
    request: Request,
    state: State,
}

/// Pages of one direction under way for one thread.
pub struct Batch<R: RawMutex, B: Buffers> {
    driver: Arc<Driver<R, B>>,
    reader: Reader,
    direction: Direction,
    core: usize,
    pages: Vec<Page>,
    limit: usize,
    /// The pages in the order in which they are submitted.
    order: Vec<usize>,
    /// How many of them are no longer waiting.
    sent: usize,
    /// How often the next one has tried.
    tries: u32,
    /// Until when pages may wait, in nanoseconds.
    deadline: u64,
    unsettled: usize,
}

impl<R: RawMutex, B: Buffers> Batch<R, B> {
    /// An empty batch of at most `limit` pages.
    pub fn new(driver: Arc<Driver<R, B>>, limit: usize) -> Self {
        Self {
            driver,
            reader: Reader::default(),
            direction: Direction::Compress,
            core: 0,
            pages: Vec::with_capacity(limit),
            limit,
            order: Vec::with_capacity(limit),
            sent: 0,
            tries: 0,
            deadline: 0,
            unsettled: 0,
        }
    }

    /// Submit pages: to the queues of `core`, at the time of `now` nanoseconds. Returns at once;
    /// the pages are settled by polls.
    ///
    /// No two pages of all batches share a buffer while one of them is unsettled or withheld.
    ///
    /// # Errors
    /// It has too many pages, or the batch before is not settled. Outcomes of that one which were
    /// not collected are dropped.
    pub fn submit(
        &mut self,
        direction: Direction,
        core: usize,
        requests: &[Request],
        now: u64,
    ) -> Result<(), SubmitError> {
        if self.unsettled != 0 {
            return Err(SubmitError::InProgress { pages: self.unsettled });
        }
        if requests.len() > self.limit {
            return Err(SubmitError::TooMany {
                pages: requests.len(),
                limit: self.limit,
            });
        }
        let page = |&request: &Request| Page {
            request,
            state: State::Waiting,
        };
        self.pages.clear();
        self.pages.extend(requests.iter().map(page));
        self.order.clear();
        self.order.extend(0..requests.len());
        if direction == Direction::Decompress {
            put_two_largest_first(&mut self.order, requests);
        }
        (self.direction, self.core) = (direction, core);
        (self.sent, self.tries, self.unsettled) = (0, 0, requests.len());
        self.deadline = self.driver.deadline(now);
        let counter = &self.driver.statistics().of(direction).requests;
        counter.fetch_add(requests.len() as u64, core::sync::atomic::Ordering::Relaxed);
        self.send(now);
        Ok(())
    }

    /// Look once at every page, and submit what can be. Returns how many pages are not settled.
    pub fn poll(&mut self, now: u64) -> usize {
        for i in 0..self.pages.len() {
            self.look(i, now);
        }
        self.send(now);
        self.unsettled
    }

    /// Call `settled` with the number and the outcome of each page settled since it was last
    /// called.
    pub fn collect(&mut self, mut settled: impl FnMut(usize, Outcome)) {
        for (i, page) in self.pages.iter_mut().enumerate() {
            if let State::Settled(outcome) = page.state {
                page.state = State::Collected;
                settled(i, outcome);
            }
        }
    }

    /// Pages that are not settled.
    #[must_use]
    pub fn unsettled(&self) -> usize {
        self.unsettled
    }

    /// Give up the pages that are not settled. Those that a device has go into quarantine.
    pub fn cancel(&mut self) {
        for i in 0..self.pages.len() {
            let is_late = match core::mem::replace(&mut self.pages[i].state, State::Collected) {
                State::Waiting => {
                    count(&self.driver.statistics().of(self.direction).withdrawn);
                    false
                }
                State::Flying(flight) => flight.abandon(&self.driver, &self.pages[i].request),
                settled => {
                    self.pages[i].state = settled;
                    continue;
                }
            };
            self.settle(i, Outcome::Cancelled { is_late }, None);
        }
        self.sent = self.order.len();
    }

    /// Let go of the table of queues; who will not submit for long does so.
    pub fn park(&mut self) {
        self.reader.park();
    }

    fn look(&mut self, i: usize, now: u64) {
        let page = &mut self.pages[i];
        if !matches!(page.state, State::Flying(_)) {
            return;
        }
        let State::Flying(flight) = core::mem::replace(&mut page.state, State::Waiting) else {
            unreachable!("it was flying");
        };
        match flight.advance(&self.driver, self.direction, &page.request, now) {
            Progress::Flying(flight) => page.state = State::Flying(flight),
            Progress::Settled(outcome) => self.settle(i, outcome, None),
        }
    }

    /// Submit pages until one has to wait: for a queue, or for the page before it.
    fn send(&mut self, now: u64) {
        let is_sync = self.driver.settings().sync_mode == SyncMode::Sync;
        while let Some(&i) = self.order.get(self.sent) {
            if is_sync && self.sent > 0 && now >= self.deadline {
                // Others had the one slot that a thread may have for too long.
                self.mitigate(i, Why::NoSlot);
                self.sent += 1;
                continue;
            }
            if is_sync && self.is_flying() {
                return;
            }
            let page = &mut self.pages[i];
            match self
                .driver
                .start(&mut self.reader, self.core, self.direction, &page.request, now)
            {
                Ok(flight) => page.state = State::Flying(flight),
                Err(why @ (Why::NoSlot | Why::Full)) => {
                    self.tries += 1;
                    if self.tries < self.driver.settings().tries_of(self.direction) && now < self.deadline {
                        count(&self.driver.statistics().of(self.direction).retries);
                        return;
                    }
                    self.mitigate(i, why);
                }
                Err(why) => self.mitigate(i, why),
            }
            self.sent += 1;
            self.tries = 0;
        }
    }

    /// Whether a queue has one of the pages: not all that are unsettled wait.
    fn is_flying(&self) -> bool {
        self.unsettled > self.order.len() - self.sent
    }

    /// No queue takes the page.
    fn mitigate(&mut self, i: usize, why: Why) {
        let outcome = match (self.direction, self.driver.settings().mitigation) {
            (Direction::Compress, Mitigation::Incompressible) => Outcome::Incompressible,
            _ => Outcome::Software(why),
        };
        self.settle(i, outcome, Some(why));
    }

    fn settle(&mut self, i: usize, outcome: Outcome, why: Option<Why>) {
        self.driver.statistics().settle(self.direction, outcome, why);
        self.pages[i].state = State::Settled(outcome);
        self.unsettled -= 1;
    }
}

impl<R: RawMutex, B: Buffers> Drop for Batch<R, B> {
    /// The device may still write to buffers of this batch: they go into quarantine.
    fn drop(&mut self) {
        self.cancel();
    }
}

/// The two longest sources first: they take longest, so that the others end beside them.
fn put_two_largest_first(order: &mut [usize], requests: &[Request]) {
    for place in 0..2.min(order.len()) {
        let longest = (place..order.len()).rev().max_by_key(|&at| requests[order[at]].length);
        if let Some(at) = longest {
            // The others keep their order.
            order[place..=at].rotate_right(1);
        }
    }
}

#[cfg(test)]
mod test;
