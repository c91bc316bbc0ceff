//! A page whose descriptor a queue has accepted, until it is settled.

use super::{Driver, Request};
use crate::buffers::{Area, Buffers};
use crate::completion::{COMPLETION_BYTES, Completion, Direction, Verdict};
use crate::outcome::{Done, Outcome, Why};
use crate::portal::Submitted;
use crate::quarantine::Late;
use crate::queue::Queue;
use crate::statistics::count;
use alloc::sync::Arc;
use lock_api::RawMutex;

/// Which descriptor of the page is under way.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// The page itself.
    Job,
    /// Reading back what the job has written.
    Verify(Done),
}

/// A page under way.
pub(crate) struct Flight {
    slot: u32,
    queue: Arc<Queue>,
    /// Of the descriptor, or of waiting to submit the next one, in nanoseconds.
    deadline: u64,
    step: Step,
    /// The device has the descriptor. If not, the slot is ours and the queue was full.
    is_submitted: bool,
    was_touched: bool,
}

/// What a look at a page has brought.
pub(crate) enum Progress {
    /// It is under way still.
    Flying(Flight),
    /// It is settled; slot and credit are back, or in quarantine.
    Settled(Outcome),
}

impl Flight {
    pub(super) fn new(slot: u32, queue: Arc<Queue>, deadline: u64) -> Self {
        Self {
            slot,
            queue,
            deadline,
            step: Step::Job,
            is_submitted: true,
            was_touched: false,
        }
    }

    /// Look once whether the device has answered, and do what follows.
    pub fn advance<R: RawMutex, B: Buffers>(
        mut self,
        driver: &Driver<R, B>,
        direction: Direction,
        request: &Request,
        now: u64,
    ) -> Progress {
        if !self.is_submitted {
            return self.submit_again(driver, direction, request, now);
        }
        // Before the status: a queue drained before it was read writes no record after.
        let is_drained = self.queue.is_drained();
        if driver.buffers.status(self.slot) == 0 {
            return self.wait(driver, request, is_drained, now);
        }
        let mut bytes = [0; COMPLETION_BYTES];
        driver.buffers.read(Area::Record, self.slot, 0, &mut bytes);
        let completion = Completion::from_bytes(&bytes);
        self.queue.finished();
        self.is_submitted = false;
        self.decide(driver, direction, request, &completion, now)
    }

    /// The device has not answered.
    fn wait<R: RawMutex, B: Buffers>(
        self,
        driver: &Driver<R, B>,
        request: &Request,
        is_drained: bool,
        now: u64,
    ) -> Progress {
        if is_drained {
            self.queue.finished();
            return self.settle(driver, Outcome::Software(Why::Gone));
        }
        if now < self.deadline {
            return Progress::Flying(self);
        }
        count(&driver.statistics.errors.timeout);
        count(&driver.statistics.errors.suspect);
        self.queue.strike();
        self.keep(driver, request);
        Progress::Settled(Outcome::Software(Why::Late))
    }

    /// The device has answered `completion`.
    fn decide<R: RawMutex, B: Buffers>(
        self,
        driver: &Driver<R, B>,
        direction: Direction,
        request: &Request,
        completion: &Completion,
        now: u64,
    ) -> Progress {
        let direction_now = match self.step {
            Step::Job => direction,
            Step::Verify(_) => Direction::Decompress,
        };
        let verdict = completion.verdict(direction_now);
        if let Verdict::RetryAfterTouch { address, write } = verdict
            && !self.was_touched
            && driver.buffers.touch(address, write)
        {
            count(&driver.statistics.errors.fault_retries);
            return Self {
                was_touched: true,
                ..self
            }
            .begin(driver, direction, request, now);
        }
        match (verdict, self.step) {
            (Verdict::Done, Step::Job) => self.job_done(driver, direction, request, completion, now),
            (Verdict::Done, Step::Verify(done)) => self.verified(driver, direction, done, completion),
            (Verdict::Incompressible, _) => {
                driver.statistics.count_error(completion.status, true);
                self.queue.trust();
                self.settle(driver, Outcome::Incompressible)
            }
            (verdict, step) => {
                driver.statistics.count_error(completion.status, false);
                // What the device wrote a moment ago it must be able to read.
                if verdict == Verdict::Suspect || matches!(step, Step::Verify(_)) {
                    self.strike(driver);
                }
                let why = Why::Refused(completion.status, completion.error_code);
                self.settle(driver, Outcome::Software(why))
            }
        }
    }

    /// The page's own descriptor succeeded.
    fn job_done<R: RawMutex, B: Buffers>(
        self,
        driver: &Driver<R, B>,
        direction: Direction,
        request: &Request,
        completion: &Completion,
        now: u64,
    ) -> Progress {
        let consumed_all = completion.bytes_completed == request.length;
        let is_plausible = (1..=request.room).contains(&completion.output_size)
            // A stream may end before its bytes do; a page may not.
            && (direction == Direction::Decompress || consumed_all);
        if !is_plausible {
            self.strike(driver);
            return self.settle(driver, Outcome::Software(Why::Implausible));
        }
        let done = Done {
            length: completion.output_size,
            crc: completion.crc,
            xor: completion.xor,
        };
        if direction == Direction::Compress && driver.settings.verify {
            count(&driver.statistics.errors.verify_calls);
            return Self {
                step: Step::Verify(done),
                ..self
            }
            .begin(driver, direction, request, now);
        }
        self.done(driver, direction, request.length, done)
    }

    /// The stream was read back.
    fn verified<R: RawMutex, B: Buffers>(
        self,
        driver: &Driver<R, B>,
        direction: Direction,
        done: Done,
        completion: &Completion,
    ) -> Progress {
        if completion.crc == done.crc {
            return self.done(driver, direction, done.length, done);
        }
        count(&driver.statistics.errors.verify_failed);
        self.strike(driver);
        self.settle(driver, Outcome::Software(Why::VerifyFailed))
    }

    /// The page is done; `source` is the bytes of a decompression's source.
    fn done<R: RawMutex, B: Buffers>(
        self,
        driver: &Driver<R, B>,
        direction: Direction,
        source: u32,
        done: Done,
    ) -> Progress {
        self.queue.trust();
        let stream = match direction {
            Direction::Compress => done.length,
            Direction::Decompress => source,
        };
        self.queue.count_bytes(direction, stream);
        let bytes = &driver.statistics.of(direction).bytes;
        bytes.fetch_add(stream.into(), core::sync::atomic::Ordering::Relaxed);
        self.settle(driver, Outcome::Done(done))
    }

    /// Begin another descriptor of the page, in the same slot.
    fn begin<R: RawMutex, B: Buffers>(
        mut self,
        driver: &Driver<R, B>,
        direction: Direction,
        request: &Request,
        now: u64,
    ) -> Progress {
        self.deadline = driver.deadline(now);
        self.submit_again(driver, direction, request, now)
    }

    /// Try once to have the queue take the descriptor of this step.
    fn submit_again<R: RawMutex, B: Buffers>(
        mut self,
        driver: &Driver<R, B>,
        direction: Direction,
        request: &Request,
        now: u64,
    ) -> Progress {
        let descriptor = match self.step {
            Step::Job => driver.describe(&self.queue, direction, request, self.slot),
            Step::Verify(done) => driver.describe_verify(&self.queue, request, done, self.slot),
        };
        let submitted = match descriptor {
            Some(descriptor) => driver.submit(&self.queue, self.slot, descriptor),
            None => Submitted::Gone,
        };
        match submitted {
            Submitted::Accepted => {
                self.is_submitted = true;
                self.deadline = driver.deadline(now);
                Progress::Flying(self)
            }
            Submitted::Full if now < self.deadline => Progress::Flying(self),
            Submitted::Full => self.settle(driver, Outcome::Software(Why::Full)),
            Submitted::Gone => self.settle(driver, Outcome::Software(Why::Gone)),
        }
    }

    fn strike<R: RawMutex, B: Buffers>(&self, driver: &Driver<R, B>) {
        count(&driver.statistics.errors.suspect);
        self.queue.strike();
    }

    /// The device is done with the slot.
    fn settle<R: RawMutex, B: Buffers>(self, driver: &Driver<R, B>, outcome: Outcome) -> Progress {
        driver.slab.give(self.slot);
        Progress::Settled(outcome)
    }

    /// Nobody waits for the page any more. True: the device has it still, so it is kept.
    pub fn abandon<R: RawMutex, B: Buffers>(self, driver: &Driver<R, B>, request: &Request) -> bool {
        if self.is_submitted {
            self.keep(driver, request);
            return true;
        }
        driver.slab.give(self.slot);
        false
    }

    fn keep<R: RawMutex, B: Buffers>(self, driver: &Driver<R, B>, request: &Request) {
        driver.keep_late(Late {
            slot: self.slot,
            queue: self.queue,
            buffers: Some(request.buffers),
        });
    }
}
