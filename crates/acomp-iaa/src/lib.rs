//! `deflate-iaa`: the driver of `uzswap-iaa` as a [`Device`] of `uzswap-acomp`.
//!
//! A [`DeflateIaa`] is one thread's. It copies pages into resident buffers, submits them, and
//! copies what the device has made out of them. [`Bounce`] has the buffers, which all threads
//! share. What the driver leaves to software, the contract gives to its fallback: [`FALLBACK`].
//!
//! ```text
//!  page --copy--> source buffer --device--> destination buffer --copy--> the request's unit
//!                     ^                          |
//!                     '-- free <-- collected ----'   late: withheld, free again after a sweep
//! ```
//!
//! # Codes
//! Fixed and dynamic streams are raw deflate: the fallback reads them, and the device reads those
//! of the fallback, as no page is longer than its window. Streams of canned mode lack their header.
//! No fallback reads those, so [`Bounce::new`] refuses that mode.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

use alloc::sync::Arc;
use alloc::vec::Vec;

use lock_api::{Mutex, RawMutex};
use uzswap_acomp::{Algorithm, Codec, Device, Op, Outcome, SCATTER_MAX};
use uzswap_iaa::batch::Batch;
use uzswap_iaa::buffers::{Area, Buffers, Pair};
use uzswap_iaa::completion::Direction;
use uzswap_iaa::driver::{Driver, Request};
use uzswap_iaa::outcome;
use uzswap_iaa::settings::CompressionMode;

/// The software that does what the device leaves.
pub const FALLBACK: Algorithm = Algorithm::Deflate { level: 1 };

/// Pages that the device wants at once: one for each of the eight engines of four devices.
const BATCH: usize = 32;

/// The mode is canned, whose streams no fallback reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IsCanned;

/// A driver, and the buffers that its pages go through.
pub struct Bounce<R: RawMutex, B: Buffers> {
    driver: Arc<Driver<R, B>>,
    /// Pairs that nobody uses and that are not withheld.
    free: Mutex<R, Vec<Pair>>,
    /// Bytes of a buffer.
    bytes: usize,
}

impl<R: RawMutex, B: Buffers> Bounce<R, B> {
    /// `pairs` of buffers of so many `bytes` each, which nobody else uses.
    ///
    /// # Errors
    /// The driver's mode is canned.
    pub fn new(driver: Arc<Driver<R, B>>, pairs: Vec<Pair>, bytes: usize) -> Result<Self, IsCanned> {
        match driver.settings().mode {
            CompressionMode::Canned(_) => Err(IsCanned),
            CompressionMode::Fixed | CompressionMode::Dynamic => Ok(Self {
                driver,
                free: Mutex::new(pairs),
                bytes,
            }),
        }
    }

    /// The driver.
    pub fn driver(&self) -> &Driver<R, B> {
        &self.driver
    }

    /// Pairs that are free.
    pub fn free(&self) -> usize {
        self.free.lock().len()
    }

    /// Take back what was withheld from late answers that have come. Returns how many descriptors
    /// came back.
    pub fn sweep(&self) -> usize {
        // The driver's lock outside, that of the pairs inside.
        self.driver.sweep(|pair| self.free.lock().push(pair))
    }

    fn take(&self) -> Option<Pair> {
        self.free.lock().pop()
    }

    /// A page is settled: its buffers are free, unless the device may still use them.
    fn put(&self, pair: Pair, outcome: outcome::Outcome) {
        if !outcome.is_withheld() {
            self.free.lock().push(pair);
        }
    }
}

/// Where a page of the request stands.
#[derive(Clone, Copy)]
enum Page {
    /// Not taken in, or collected.
    NotOurs,
    /// The driver has it.
    UnderWay(Pair),
    Settled(Pair, outcome::Outcome),
}

/// One thread's way to the device.
pub struct DeflateIaa<R: RawMutex, B: Buffers> {
    bounce: Arc<Bounce<R, B>>,
    batch: Batch<R, B>,
    core: usize,
    pages: [Page; SCATTER_MAX],
    /// What the driver is asked, and for which page of the request each.
    requests: Vec<Request>,
    numbers: Vec<usize>,
}

impl<R: RawMutex, B: Buffers> DeflateIaa<R, B> {
    /// For a thread on this core, whose queues it submits to.
    pub fn new(bounce: Arc<Bounce<R, B>>, core: usize) -> Self {
        Self {
            batch: Batch::new(bounce.driver.clone(), SCATTER_MAX),
            bounce,
            core,
            pages: [Page::NotOurs; SCATTER_MAX],
            requests: Vec::with_capacity(SCATTER_MAX),
            numbers: Vec::with_capacity(SCATTER_MAX),
        }
    }

    /// Submit to the queues of another core: the thread has moved there.
    pub fn set_core(&mut self, core: usize) {
        self.core = core;
    }

    /// Buffers for a page: its bytes are in the first. `None`: there are none, or it is too long.
    fn take_in(&self, src: &[u8], unit: usize) -> Option<Request> {
        let fits = (1..=self.bounce.bytes).contains(&src.len()) && unit <= self.bounce.bytes;
        let buffers = fits.then(|| self.bounce.take())??;
        let memory = self.bounce.driver.buffers();
        memory.write(Area::Buffer, buffers.source, 0, src);
        Some(Request {
            buffers,
            length: src.len() as u32,
            room: unit as u32,
        })
    }

    /// What the driver has settled since the last time.
    fn take_outcomes(&mut self) {
        let Self {
            batch, pages, numbers, ..
        } = self;
        batch.collect(|i, outcome| {
            let page = &mut pages[numbers[i]];
            if let Page::UnderWay(pair) = *page {
                *page = Page::Settled(pair, outcome);
            }
        });
    }
}

impl<R: RawMutex, B: Buffers> Device for DeflateIaa<R, B> {
    fn codec(&self) -> Codec {
        Codec::Deflate
    }

    fn batch_size(&self) -> usize {
        BATCH
    }

    fn submit(&mut self, op: Op, src: &[&[u8]], unit: usize, now: u64) {
        if self.bounce.free() < src.len() {
            self.bounce.sweep();
        }
        self.requests.clear();
        self.numbers.clear();
        for (number, src) in src.iter().enumerate() {
            self.pages[number] = Page::NotOurs;
            if let Some(request) = self.take_in(src, unit) {
                self.pages[number] = Page::UnderWay(request.buffers);
                self.requests.push(request);
                self.numbers.push(number);
            }
        }
        let direction = match op {
            Op::Compress => Direction::Compress,
            Op::Decompress => Direction::Decompress,
        };
        let submitted = self.batch.submit(direction, self.core, &self.requests, now);
        submitted.expect("the request before was collected or cancelled, and none has more pages");
    }

    fn poll(&mut self, now: u64) {
        self.batch.poll(now);
        self.take_outcomes();
    }

    fn collect(&mut self, page: usize, out: &mut [u8]) -> Option<Outcome> {
        let (pair, outcome) = match self.pages[page] {
            Page::NotOurs => return Some(Outcome::Software),
            Page::UnderWay(_) => return None,
            Page::Settled(pair, outcome) => (pair, outcome),
        };
        self.pages[page] = Page::NotOurs;
        let said = match outcome {
            outcome::Outcome::Done(done) => match out.get_mut(..done.length as usize) {
                Some(bytes) => {
                    let memory = self.bounce.driver.buffers();
                    memory.read(Area::Buffer, pair.destination, 0, bytes);
                    Outcome::Done(bytes.len())
                }
                None => Outcome::Software,
            },
            outcome::Outcome::Incompressible => Outcome::Poor,
            outcome::Outcome::Software(_) | outcome::Outcome::Cancelled { .. } => Outcome::Software,
        };
        self.bounce.put(pair, outcome);
        Some(said)
    }

    fn cancel(&mut self) {
        self.batch.cancel();
        self.take_outcomes();
        for page in &mut self.pages {
            if let Page::Settled(pair, outcome) = core::mem::replace(page, Page::NotOurs) {
                self.bounce.put(pair, outcome);
            }
        }
    }
}

impl<R: RawMutex, B: Buffers> Drop for DeflateIaa<R, B> {
    /// The device may still write to buffers of this thread: those are withheld.
    fn drop(&mut self) {
        self.cancel();
    }
}
