//! Devices that compress beside the processor.

use alloc::boxed::Box;

use crate::{Codec, Counts, Op};

/// What a device says of a page that it is done with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// So many bytes are in the page's destination.
    Done(usize),
    /// The page does not become shorter than the room given.
    Poor,
    /// Software has to do it.
    Software,
}

/// One thread's way to a device.
///
/// No call waits, and none allocates. Sources are read during [`submit`](Self::submit) only,
/// destinations written during [`collect`](Self::collect) only. So a device that reads and writes
/// by itself does so in memory of its own. It withholds that memory for as long as an answer may
/// come, however late: nobody else has to know (quarantine).
pub trait Device {
    /// How its blocks are read. Software with this codec reads what the device writes; the device
    /// reads what that software writes, or leaves it to software.
    fn codec(&self) -> Codec;

    /// Pages that it wants at once.
    fn batch_size(&self) -> usize;

    /// Take these pages in, each to come to at most `unit` bytes. Those that it does not take are
    /// [`Software`](Outcome::Software)'s when they are collected. All pages of the request before
    /// were collected or cancelled.
    fn submit(&mut self, op: Op, src: &[&[u8]], unit: usize, now: u64);

    /// Look once at what was taken in.
    fn poll(&mut self, now: u64);

    /// What became of a page, which is collected then; `None`: it is under way. If it is done, its
    /// bytes are put into `out`.
    fn collect(&mut self, page: usize, out: &mut [u8]) -> Option<Outcome>;

    /// Give up all pages that were not collected. Their late answers go nowhere.
    fn cancel(&mut self);

    /// A request is over. `counts`: what became of the pages of all requests of the context.
    fn note(&mut self, counts: &Counts) {
        let _ = counts;
    }
}

/// No device at all: software does everything, and what is about devices costs nothing.
#[derive(Clone, Copy, Debug)]
pub enum NoDevice {}

impl Device for NoDevice {
    fn codec(&self) -> Codec {
        match *self {}
    }

    fn batch_size(&self) -> usize {
        match *self {}
    }

    fn submit(&mut self, _: Op, _: &[&[u8]], _: usize, _: u64) {
        match *self {}
    }

    fn poll(&mut self, _: u64) {
        match *self {}
    }

    fn collect(&mut self, _: usize, _: &mut [u8]) -> Option<Outcome> {
        match *self {}
    }

    fn cancel(&mut self) {
        match *self {}
    }
}

/// Any device, chosen while the program runs: at least one virtual call for each page.
impl<D: Device + ?Sized> Device for Box<D> {
    fn codec(&self) -> Codec {
        D::codec(self)
    }

    fn batch_size(&self) -> usize {
        D::batch_size(self)
    }

    fn submit(&mut self, op: Op, src: &[&[u8]], unit: usize, now: u64) {
        D::submit(self, op, src, unit, now);
    }

    fn poll(&mut self, now: u64) {
        D::poll(self, now);
    }

    fn collect(&mut self, page: usize, out: &mut [u8]) -> Option<Outcome> {
        D::collect(self, page, out)
    }

    fn cancel(&mut self) {
        D::cancel(self);
    }

    fn note(&mut self, counts: &Counts) {
        D::note(self, counts);
    }
}
