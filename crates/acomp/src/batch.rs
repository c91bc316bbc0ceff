//! A request under way: submitted, polled, collected.

use crate::{Context, Device, Error, Op, Outcome, Request};

/// What became of the pages that a context's device was given.
///
/// # Counting
/// `pages` = `done` + `poor` + `refused` + `wrong` + `late` + `cancelled`, once nothing is under
/// way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Given to the device.
    pub pages: u64,
    /// Done by it.
    pub done: u64,
    /// Did not become shorter, it said.
    pub poor: u64,
    /// Left to software by it.
    pub refused: u64,
    /// Done by it, and not what they should be.
    pub wrong: u64,
    /// Under way when the deadline passed.
    pub late: u64,
    /// Under way when their request was given up.
    pub cancelled: u64,
}

impl Counts {
    /// Pages that software did in the device's stead.
    pub const fn fallbacks(&self) -> u64 {
        self.refused + self.wrong + self.late
    }

    /// Whether they add up, while nothing is under way.
    pub const fn is_valid(&self) -> bool {
        self.pages == self.done + self.poor + self.fallbacks() + self.cancelled
    }
}

impl core::iter::Sum for Counts {
    fn sum<I: Iterator<Item = Self>>(counts: I) -> Self {
        counts.fold(Self::default(), |a, b| Self {
            pages: a.pages + b.pages,
            done: a.done + b.done,
            poor: a.poor + b.poor,
            refused: a.refused + b.refused,
            wrong: a.wrong + b.wrong,
            late: a.late + b.late,
            cancelled: a.cancelled + b.cancelled,
        })
    }
}

/// A request under way. It is given up when dropped: pages that are not settled then stay so.
#[must_use = "nothing is done until it is polled"]
pub struct Batch<'c, 'a, D: Device> {
    context: &'c mut Context<D>,
    request: Request<'a>,
    /// Until when the device may take.
    deadline: u64,
    /// Pages that the device has, one bit each.
    flying: u64,
    /// Pages that are software's.
    software: u64,
}

/// The pages of a set, in order.
fn each(mut pages: u64) -> impl Iterator<Item = usize> {
    core::iter::from_fn(move || {
        let first = (pages != 0).then(|| pages.trailing_zeros() as usize)?;
        pages &= pages - 1;
        Some(first)
    })
}

impl<'c, 'a, D: Device> Batch<'c, 'a, D> {
    pub(crate) fn submit(context: &'c mut Context<D>, request: Request<'a>) -> Self {
        let pages = request.pages();
        let mut batch = Self {
            context,
            request,
            deadline: 0,
            flying: 0,
            software: pages,
        };
        if let Some(device) = &mut batch.context.device {
            // Somebody forgot the request before instead of dropping it.
            if core::mem::replace(&mut batch.context.is_under_way, true) {
                device.cancel();
            }
            let now = (batch.request.clock)();
            batch.deadline = now.saturating_add(batch.request.deadline_ns);
            device.submit(batch.request.op, batch.request.src, batch.request.unit, now);
            batch.context.counts.pages += u64::from(pages.count_ones());
            (batch.flying, batch.software) = (pages, 0);
        }
        batch
    }

    /// Look once at what the device has, then let software do what is left to it: one page, while
    /// the device has others. Returns how many pages are not settled.
    ///
    /// `done` is called with the number of each page that is settled, its destination, and its
    /// length there or why it has none. It says whether that is what it should be. If not, and the
    /// device did it, software does it over, and `done` is called again.
    pub fn poll(&mut self, mut done: impl FnMut(usize, &mut [u8], Result<usize, Error>) -> bool) -> usize {
        if self.flying != 0 {
            self.look(&mut done);
        }
        for page in each(self.software) {
            self.software &= !(1 << page);
            self.do_by_software(page, &mut done);
            if self.flying != 0 {
                break;
            }
        }
        self.unsettled()
    }

    /// Poll until all pages are settled: until the deadline at most, and as long as software takes.
    pub fn wait(mut self, mut done: impl FnMut(usize, &mut [u8], Result<usize, Error>) -> bool) {
        while self.poll(&mut done) != 0 {
            core::hint::spin_loop();
        }
    }

    /// Pages that are not settled.
    pub fn unsettled(&self) -> usize {
        (self.flying | self.software).count_ones() as usize
    }

    /// Give up the pages that are not settled.
    pub fn cancel(mut self) {
        self.give_up();
    }

    fn look(&mut self, done: &mut impl FnMut(usize, &mut [u8], Result<usize, Error>) -> bool) {
        let now = (self.request.clock)();
        let Context { device, counts, .. } = &mut *self.context;
        let Some(device) = device else { return };
        device.poll(now);
        for page in each(self.flying) {
            let (op, out) = (self.request.op, self.request.unit(page));
            let Some(outcome) = device.collect(page, out) else {
                continue;
            };
            self.flying &= !(1 << page);
            let is_right = match (outcome, op) {
                (Outcome::Done(len), Op::Compress) if len <= out.len() => done(page, out, Ok(len)),
                (Outcome::Done(len), Op::Decompress) if len == out.len() => done(page, out, Ok(len)),
                (Outcome::Poor, Op::Compress) => {
                    done(page, out, Err(Error::Poor));
                    true
                }
                _ => false,
            };
            *match (outcome, is_right) {
                (Outcome::Done(_), true) => &mut counts.done,
                (Outcome::Done(_), false) => &mut counts.wrong,
                (Outcome::Poor, true) => &mut counts.poor,
                (Outcome::Poor | Outcome::Software, _) => &mut counts.refused,
            } += 1;
            self.software |= u64::from(!is_right) << page;
        }
        if now >= self.deadline && self.flying != 0 {
            device.cancel();
            counts.late += u64::from(self.flying.count_ones());
            self.software |= core::mem::take(&mut self.flying);
        }
        self.context.is_under_way = self.flying != 0;
    }

    fn do_by_software(&mut self, page: usize, done: &mut impl FnMut(usize, &mut [u8], Result<usize, Error>) -> bool) {
        let (op, src) = (self.request.op, self.request.src[page]);
        let out = self.request.unit(page);
        let result = match op {
            Op::Compress => self.context.software.compress(src, out),
            Op::Decompress => match self.context.software.decompress(src, out) {
                true => Ok(out.len()),
                false => Err(Error::Failed),
            },
        };
        done(page, out, result);
    }

    fn give_up(&mut self) {
        if self.flying != 0
            && let Some(device) = &mut self.context.device
        {
            device.cancel();
            self.context.counts.cancelled += u64::from(self.flying.count_ones());
            self.context.is_under_way = false;
        }
        (self.flying, self.software) = (0, 0);
    }
}

impl<D: Device> Drop for Batch<'_, '_, D> {
    fn drop(&mut self) {
        self.give_up();
        if let Some(device) = &mut self.context.device {
            device.note(&self.context.counts);
        }
    }
}

#[cfg(test)]
mod test;
