//! From a page to the descriptor that asks for it, as mode and queue allow.

use super::{Driver, Request};
use crate::aecs::DecompressAecs;
use crate::buffers::{Area, Buffers, aecs_slot};
use crate::completion::Direction;
use crate::descriptor::Descriptor;
use crate::outcome::Done;
use crate::queue::Queue;
use crate::recipe::{self, Job};
use crate::settings::CompressionMode;
use core::sync::atomic::Ordering;
use lock_api::RawMutex;

impl<R: RawMutex, B: Buffers> Driver<R, B> {
    fn job(&self, request: &Request, slot: u32) -> Job {
        Job {
            record: self.record(slot),
            source: self.buffers.address(Area::Buffer, request.buffers.source),
            length: request.length,
            destination: self.buffers.address(Area::Buffer, request.buffers.destination),
            room: request.room,
        }
    }

    pub(super) fn aecs(&self, slot: u32) -> u64 {
        self.buffers.address(Area::Aecs, slot)
    }

    /// The AECS that canned decompressions on `queue` start from, if it was set up in its format.
    fn canned_aecs(&self, queue: &Queue) -> Option<DecompressAecs> {
        let size = queue.work_queue().aecs;
        // Acquire pairs with the Release of the set-up: the AECS is there.
        (self.canned.load(Ordering::Acquire) == size.bytes()).then_some(size)
    }

    /// The descriptor of a job on `queue`. None: the queue does not take it.
    pub(super) fn describe(
        &self,
        queue: &Queue,
        direction: Direction,
        request: &Request,
        slot: u32,
    ) -> Option<Descriptor> {
        let limit = queue.work_queue().max_transfer_size;
        if request.length == 0 || u64::from(request.length.max(request.room)) > limit {
            return None;
        }
        let is_verified = direction == Direction::Compress && self.settings.verify;
        if is_verified && !queue.supports(Direction::Decompress) {
            return None;
        }
        let job = self.job(request, slot);
        let compress_aecs = self.aecs(aecs_slot::COMPRESS);
        let descriptor = match (direction, &self.settings.mode) {
            (Direction::Compress, CompressionMode::Fixed) => recipe::fixed_compress(job, compress_aecs),
            (Direction::Compress, CompressionMode::Canned(_)) => {
                // What cannot be read back must not be written.
                self.canned_aecs(queue)?;
                recipe::canned_compress(job, compress_aecs)
            }
            (Direction::Compress, CompressionMode::Dynamic) => {
                if request.length > recipe::DYNAMIC_INPUT_MAX || !queue.work_queue().header_generation {
                    return None;
                }
                recipe::dynamic_compress(job)
            }
            (Direction::Decompress, CompressionMode::Canned(_)) => {
                recipe::canned_decompress(job, self.aecs(aecs_slot::DECOMPRESS), self.canned_aecs(queue)?)
            }
            (Direction::Decompress, _) => recipe::decompress(job),
        };
        Some(descriptor)
    }

    /// The descriptor that reads a compression back.
    pub(super) fn describe_verify(
        &self,
        queue: &Queue,
        request: &Request,
        done: Done,
        slot: u32,
    ) -> Option<Descriptor> {
        let record = self.record(slot);
        let stream = self.buffers.address(Area::Buffer, request.buffers.destination);
        let scratch = self.buffers.address(Area::Scratch, 0);
        Some(match self.settings.mode {
            CompressionMode::Canned(_) => {
                let (aecs, size) = (self.aecs(aecs_slot::DECOMPRESS), self.canned_aecs(queue)?);
                recipe::canned_verify(record, stream, done.length, scratch, aecs, size)
            }
            _ => recipe::verify(record, stream, done.length, scratch),
        })
    }
}
