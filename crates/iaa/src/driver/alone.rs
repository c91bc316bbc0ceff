//! Jobs of the driver itself, one at a time: the proof that a queue answers, and the set-up of
//! canned mode.

use super::Driver;
use crate::aecs::{DecompressAecs, DecompressState, Header};
use crate::buffers::{Area, Buffers, aecs_slot};
use crate::completion::{COMPLETION_BYTES, Completion, ErrorCode, Status};
use crate::descriptor::Descriptor;
use crate::portal::Submitted;
use crate::quarantine::Late;
use crate::queue::Queue;
use crate::recipe;
use crate::settings::CompressionMode;
use alloc::sync::Arc;
use core::sync::atomic::Ordering;
use lock_api::RawMutex;

/// The AECS of canned mode was not set up.
pub(super) const NOT_SET_UP: u32 = 0;
/// Somebody sets it up, or the device was late with it and may still write it.
const UNDER_WAY: u32 = 1;

/// Why a job of the driver itself failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AloneError {
    /// All descriptor slots are taken.
    NoSlot,
    /// The queue takes nothing.
    Gone,
    /// The queue was full, or the device did not answer, until the deadline.
    Late,
    /// The device answered with an error.
    Refused(Status, ErrorCode),
    /// The device has not read the header to its end.
    State(DecompressState),
    /// The driver's mode is not canned.
    NotCanned,
    /// The AECS is there, but of another generation; its bytes.
    OtherFormat(u32),
    /// Another thread sets it up, or the device was late with it.
    UnderWay,
}

impl core::fmt::Display for AloneError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::NoSlot => f.write_str("all descriptor slots are taken"),
            Self::Gone => f.write_str("the work queue takes no descriptors"),
            Self::Late => f.write_str("the device did not answer in time"),
            Self::Refused(status, error) => write!(f, "the device answered {status:?}, error {error:?}"),
            Self::State(state) => write!(f, "the AECS is at {state:?}: it must be at a symbol"),
            Self::NotCanned => f.write_str("the mode is not canned"),
            Self::OtherFormat(bytes) => write!(f, "the AECS has {bytes} bytes: it is of another generation"),
            Self::UnderWay => f.write_str("the AECS is being set up, or a device was late with it"),
        }
    }
}

impl<R: RawMutex, B: Buffers> Driver<R, B> {
    /// Prove that `queue` takes a descriptor and answers it, and trust it again. `clock` gives
    /// nanoseconds.
    ///
    /// # Errors
    /// It does not.
    pub fn probe(&self, queue: &Arc<Queue>, clock: impl FnMut() -> u64) -> Result<(), AloneError> {
        match self.run_alone(queue, recipe::noop, clock) {
            // Who says that the queue's op_config has no NOOP answers, too.
            Ok(_) | Err(AloneError::Refused(Status::OPCODE, _)) => queue.trust(),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Have the device behind `queue` make the AECS of canned mode. Until then no queue takes a
    /// canned job, and afterwards those of the same generation do. Once made it stays, since jobs
    /// read it at any time.
    ///
    /// # Errors
    /// The mode is another one, or the device did not read the header. If it was late, canned mode
    /// stays off: the device may write the AECS at any time.
    pub fn set_up_canned(&self, queue: &Arc<Queue>, clock: impl FnMut() -> u64) -> Result<(), AloneError> {
        let CompressionMode::Canned(tables) = &self.settings.mode else {
            return Err(AloneError::NotCanned);
        };
        let size = queue.work_queue().aecs;
        let begun = self
            .canned
            .compare_exchange(NOT_SET_UP, UNDER_WAY, Ordering::Acquire, Ordering::Relaxed);
        match begun {
            Ok(_) => {}
            Err(UNDER_WAY) => return Err(AloneError::UnderWay),
            Err(bytes) if bytes == size.bytes() => return Ok(()),
            Err(bytes) => return Err(AloneError::OtherFormat(bytes)),
        }
        let made = self.make_canned_aecs(queue, &tables.header(), size, clock);
        let state = match made {
            Ok(()) => size.bytes(),
            Err(AloneError::Late) => UNDER_WAY,
            Err(_) => NOT_SET_UP,
        };
        // Release pairs with the Acquire of who describes a canned job: the AECS is there.
        self.canned.store(state, Ordering::Release);
        made
    }

    fn make_canned_aecs(
        &self,
        queue: &Arc<Queue>,
        header: &Header,
        size: DecompressAecs,
        clock: impl FnMut() -> u64,
    ) -> Result<(), AloneError> {
        let room = aecs_slot::BYTES[aecs_slot::HEADER as usize];
        assert!(header.bytes().len() <= room, "no header is longer than {room} bytes");
        self.buffers.write(Area::Aecs, aecs_slot::HEADER, 0, header.bytes());
        let (source, pair) = (self.aecs(aecs_slot::HEADER), self.aecs(aecs_slot::DECOMPRESS));
        self.run_alone(
            queue,
            |record| recipe::canned_set_up(record, source, header, pair, size),
            clock,
        )?;
        let mut aecs = [0; DecompressAecs::Format1.bytes() as usize];
        self.buffers.read(Area::Aecs, aecs_slot::DECOMPRESS, 0, &mut aecs);
        match DecompressState::of(&aecs) {
            DecompressState::Symbol { .. } => Ok(()),
            state => Err(AloneError::State(state)),
        }
    }

    /// Submit one descriptor and wait for its record until the deadline.
    fn run_alone(
        &self,
        queue: &Arc<Queue>,
        describe: impl FnOnce(u64) -> Descriptor,
        mut clock: impl FnMut() -> u64,
    ) -> Result<Completion, AloneError> {
        let slot = self.slab.take().ok_or(AloneError::NoSlot)?;
        let deadline = self.deadline(clock());
        let descriptor = describe(self.record(slot));
        loop {
            let error = match self.submit(queue, slot, descriptor) {
                Submitted::Accepted => break,
                Submitted::Full if clock() < deadline => {
                    core::hint::spin_loop();
                    continue;
                }
                Submitted::Full => AloneError::Late,
                Submitted::Gone => AloneError::Gone,
            };
            self.slab.give(slot);
            return Err(error);
        }
        while self.buffers.status(slot) == 0 {
            if clock() >= deadline {
                self.keep_late(Late {
                    slot,
                    queue: queue.clone(),
                    buffers: None,
                });
                return Err(AloneError::Late);
            }
            core::hint::spin_loop();
        }
        let mut bytes = [0; COMPLETION_BYTES];
        self.buffers.read(Area::Record, slot, 0, &mut bytes);
        queue.finished();
        self.slab.give(slot);
        let completion = Completion::from_bytes(&bytes);
        if completion.status == Status::SUCCESS && completion.error_code == ErrorCode::NONE {
            return Ok(completion);
        }
        Err(AloneError::Refused(completion.status, completion.error_code))
    }
}
