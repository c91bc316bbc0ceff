//! A scripted device over memory made of a vector: enough to drive the driver down each path.
//!
//! It is no model of the device. It answers within `submit`, unless its script says otherwise.

use super::memory::Memory;
use crate::aecs::{Code, D_SYMBOLS};
use crate::aecs::{CompressAecs, Header, LL_SYMBOLS, Prefix, Tables};
use crate::batch::Batch;
use crate::buffers::{Area, Buffers, Pair};
use crate::completion::{Completion, Direction, ErrorCode, Status};
use crate::descriptor::{DecomprFlags, Descriptor, Flags, Opcode};
use crate::driver::{Driver, Request};
use crate::outcome::Outcome;
use crate::portal::{Portal, Submitted};
use crate::queue::Queue;
use crate::settings::Settings;
use crate::table::{DeviceQueues, Layout, Table};
use crate::topology::{Mode, WorkQueue};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};
use parking_lot::Mutex;

pub(crate) type TestDriver = Driver<parking_lot::RawMutex, Arc<Memory>>;
pub(crate) type TestBatch = Batch<parking_lot::RawMutex, Arc<Memory>>;

/// What the device does with the next descriptor. Without one it answers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Act {
    Answer,
    Full,
    Gone,
    /// Take it and say nothing.
    Never,
    /// Take it and answer when told to.
    Hold,
    /// Answer only this.
    Say(Completion),
    /// Answer, with another CRC.
    WrongCrc,
    /// Answer, but flip a bit of the output.
    FlipOutput,
}

/// The device behind one queue.
pub(crate) struct Device {
    memory: Arc<Memory>,
    pub acts: Mutex<VecDeque<Act>>,
    /// What it does once its acts are done.
    pub always: Mutex<Act>,
    held: Mutex<Vec<Descriptor>>,
    /// What it was submitted.
    pub log: Mutex<Vec<Descriptor>>,
    pub can_drain: AtomicBool,
}

struct Door(Arc<Device>);

impl Portal for Door {
    fn submit(&self, descriptor: &[u8; 64]) -> Submitted {
        let descriptor = Descriptor::from_bytes(descriptor).unwrap();
        assert_eq!(descriptor.check(), Ok(()));
        let act = self.0.acts.lock().pop_front().unwrap_or(*self.0.always.lock());
        match act {
            Act::Full => return Submitted::Full,
            Act::Gone => return Submitted::Gone,
            _ => self.0.log.lock().push(descriptor),
        }
        match act {
            Act::Hold => self.0.held.lock().push(descriptor),
            Act::Never => {}
            act => self.0.answer(&descriptor, act),
        }
        Submitted::Accepted
    }

    fn drain(&self) -> bool {
        self.0.can_drain.load(Ordering::Relaxed)
    }
}

impl Device {
    /// Answer all that is held.
    pub fn answer_held(&self) {
        let held = core::mem::take(&mut *self.held.lock());
        held.iter().for_each(|descriptor| self.answer(descriptor, Act::Answer));
    }

    pub fn script(&self, acts: &[Act]) {
        self.acts.lock().extend(acts);
    }

    fn answer(&self, descriptor: &Descriptor, act: Act) {
        let mut completion = match act {
            Act::Say(completion) => completion,
            _ => self.execute(descriptor),
        };
        match act {
            Act::WrongCrc => completion.crc ^= 1,
            Act::FlipOutput => {
                let middle = descriptor.dst_addr + u64::from(completion.output_size / 2);
                let byte = self.memory.load(middle, 1)[0] ^ 0x10;
                self.memory.store(middle, &[byte]);
            }
            _ => {}
        }
        self.memory.store(descriptor.completion_addr, &completion.to_bytes());
    }

    fn execute(&self, descriptor: &Descriptor) -> Completion {
        let source = || self.memory.load(descriptor.src1_addr, descriptor.src1_size as usize);
        match descriptor.opcode {
            Opcode::NOOP => success(&[], 0, 0),
            Opcode::COMPRESS => self.compress(descriptor, &source()),
            Opcode::DECOMPRESS => self.decompress(descriptor, &source()),
            _ => says(Status::OPCODE, ErrorCode::NONE),
        }
    }

    fn compress(&self, descriptor: &Descriptor, source: &[u8]) -> Completion {
        let output = match self.canned_tables(descriptor) {
            Some(tables) => tables.encode_literals(Prefix::NONE, source),
            None => miniz_oxide::deflate::compress_to_vec(source, 1),
        };
        if output.len() > descriptor.max_dst_size as usize {
            return says(Status::ANALYTICS, ErrorCode::OUTPUT_TOO_BIG);
        }
        self.memory.store(descriptor.dst_addr, &output);
        success(source, source.len(), output.len())
    }

    /// The tables of an AECS without bits before the first symbol.
    fn canned_tables(&self, descriptor: &Descriptor) -> Option<Tables> {
        if !descriptor.flags.contains(Flags::RD_SRC2_AECS) {
            return None;
        }
        let aecs = self.memory.load(descriptor.src2_addr, descriptor.src2_size as usize);
        let word = |at: usize| Code(u32::from_le_bytes(aecs[at..at + 4].try_into().unwrap()));
        (word(28).0 == 0).then(|| Tables {
            ll: core::array::from_fn::<_, LL_SYMBOLS, _>(|i| word(288 + 4 * i)),
            d: core::array::from_fn::<_, D_SYMBOLS, _>(|i| word(1440 + 4 * i)),
        })
    }

    fn decompress(&self, descriptor: &Descriptor, source: &[u8]) -> Completion {
        if descriptor.flags.contains(Flags::AECS_TOGGLE) {
            // Set-up: this device keeps the header itself where the AECS should be.
            self.memory.store(descriptor.src2_addr, source);
            self.memory.store(descriptor.src2_addr + 1076, &[4, 0]);
            return success(&[], source.len(), 0);
        }
        let stream = match descriptor.flags.contains(Flags::RD_SRC2_AECS) {
            true => CANNED.with(|header| header.stream(source)),
            false => source.to_vec(),
        };
        let Ok(output) = miniz_oxide::inflate::decompress_to_vec(&stream) else {
            return says(Status::ANALYTICS, ErrorCode::LL_CODE);
        };
        if descriptor.operation_flags & DecomprFlags::SUPPRESS_OUTPUT.0 != 0 {
            return success(&output, source.len(), 0);
        }
        if output.len() > descriptor.max_dst_size as usize {
            return says(Status::OUTPUT_OVERFLOW, ErrorCode::NONE);
        }
        self.memory.store(descriptor.dst_addr, &output);
        success(&output, source.len(), output.len())
    }
}

std::thread_local! {
    /// The header that canned streams of tests lack.
    static CANNED: Header = canned_tables().header();
}

/// The canned tables of tests: made for small numbers.
pub(crate) fn canned_tables() -> Tables {
    let mut histogram = crate::aecs::Histogram {
        ll: [0; LL_SYMBOLS],
        d: [0; D_SYMBOLS],
    };
    histogram.ll[..16].fill(1000);
    Tables::canned(&histogram)
}

pub(crate) fn says(status: Status, error_code: ErrorCode) -> Completion {
    Completion {
        status,
        error_code,
        ..Completion::default()
    }
}

fn success(content: &[u8], consumed: usize, written: usize) -> Completion {
    Completion {
        bytes_completed: consumed as u32,
        output_size: written as u32,
        crc: crc32(content),
        ..says(Status::SUCCESS, ErrorCode::NONE)
    }
}

/// `stream` inflated by a library that had no part in the driver.
pub(crate) fn inflate(stream: &[u8]) -> Vec<u8> {
    miniz_oxide::inflate::decompress_to_vec(stream).expect("a deflate stream")
}

/// CRC-32 of gzip.
pub(crate) fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32, _| crc >> 1 ^ (0xedb8_8320 & 0u32.wrapping_sub(crc & 1));
    !bytes
        .iter()
        .fold(!0, |crc, &byte| (0..8).fold(crc ^ u32::from(byte), step))
}

/// A driver with its devices, one a queue.
pub(crate) struct World {
    pub driver: Arc<TestDriver>,
    pub memory: Arc<Memory>,
    pub devices: Vec<Arc<Device>>,
    pub queues: Vec<Arc<Queue>>,
}

/// How a world is made.
pub(crate) struct Plan {
    pub settings: Settings,
    pub slots: u32,
    pub queues: Vec<WorkQueue>,
}

impl Default for Plan {
    /// One shared queue, 8 slots, no verification.
    fn default() -> Self {
        let settings = Settings {
            verify: false,
            ..Settings::default()
        };
        Self {
            settings,
            slots: 8,
            queues: vec![crate::queue::test::work_queue(1, 0, Mode::Shared)],
        }
    }
}

impl World {
    pub fn new(plan: Plan) -> Self {
        let memory = Memory::new(64);
        let device = |_: &WorkQueue| {
            Arc::new(Device {
                memory: memory.clone(),
                acts: Mutex::default(),
                always: Mutex::new(Act::Answer),
                held: Mutex::default(),
                log: Mutex::default(),
                can_drain: AtomicBool::new(false),
            })
        };
        let devices: Vec<_> = plan.queues.iter().map(device).collect();
        let queue = |(work_queue, device): (WorkQueue, &Arc<Device>)| {
            Arc::new(Queue::new(work_queue, Box::new(Door(device.clone()))))
        };
        let queues: Vec<_> = plan.queues.into_iter().zip(&devices).map(queue).collect();
        let table = table_of(&queues);
        let driver = Driver::new(plan.settings, memory.clone(), plan.slots, table).unwrap();
        Self {
            driver: Arc::new(driver),
            memory,
            devices,
            queues,
        }
    }

    /// A new queue to the device of an old one, as after opening it again.
    pub fn open_again(&self, i: usize) -> Arc<Queue> {
        let work_queue = self.queues[i].work_queue().clone();
        Arc::new(Queue::new(work_queue, Box::new(Door(self.devices[i].clone()))))
    }

    pub fn batch(&self) -> TestBatch {
        Batch::new(self.driver.clone(), 32)
    }

    /// Put `source` into a buffer and ask for a job into the next one.
    pub fn request(&self, number: u32, source: &[u8], room: u32) -> Request {
        let buffers = Pair {
            source: 2 * number,
            destination: 2 * number + 1,
        };
        self.memory.write(Area::Buffer, buffers.source, 0, source);
        Request {
            buffers,
            length: source.len() as u32,
            room,
        }
    }

    /// The first bytes of a buffer.
    pub fn buffer(&self, slot: u32, len: u32) -> Vec<u8> {
        let mut bytes = vec![0; len as usize];
        self.memory.read(Area::Buffer, slot, 0, &mut bytes);
        bytes
    }

    /// Submit one page and poll once.
    pub fn one(&self, direction: Direction, request: Request) -> Outcome {
        let mut batch = self.batch();
        batch.submit(direction, 0, &[request], 0).unwrap();
        settle(&mut batch)[0]
    }

    /// Nothing is under way: counters add up, and each slot is free or late.
    pub fn check_at_rest(&self) {
        assert_eq!(self.driver.snapshot().flaw(), None);
        let late = self.driver.late() as u32;
        assert_eq!(self.driver.free_slots() + late, self.driver.slots());
        let errors = self.driver.snapshot().errors;
        assert_eq!(errors.late - errors.late_back, u64::from(late));
    }
}

/// The table of one core and these queues, all generic.
pub(crate) fn table_of(queues: &[Arc<Queue>]) -> Table {
    let devices = DeviceQueues {
        number: 1,
        package: 0,
        queues: queues.to_vec(),
    };
    let layout = Layout {
        compress_queues: 0,
        ..Layout::default()
    };
    Table::new(&[devices], &[0], layout)
}

/// Poll until all pages are settled, a nanosecond a poll, and give their outcomes.
pub(crate) fn settle(batch: &mut TestBatch) -> Vec<Outcome> {
    let mut now = 0;
    while batch.poll(now) != 0 {
        now += 1;
        assert!(now < 100_000, "{} pages are not settled", batch.unsettled());
    }
    let mut outcomes = Vec::new();
    batch.collect(|i, outcome| {
        assert_eq!(i, outcomes.len());
        outcomes.push(outcome);
    });
    outcomes
}

/// A page that compresses: of small numbers, different for each seed.
pub(crate) fn page(seed: u8) -> Vec<u8> {
    (0..4096u32)
        .map(|i| (i / 16 * u32::from(seed | 1) % 13) as u8)
        .collect()
}

#[test]
fn the_checksum_is_gzips() {
    assert_eq!(crc32(b"uzswap"), 0x5d98_9fc2);
    assert_eq!(CompressAecs::fixed().prefix, Prefix::FIXED_FINAL);
}
