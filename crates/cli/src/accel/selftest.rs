//! `uzswap accel selftest`: what each work queue answers to words that are known, and whether the
//! device and software read each other.

use std::ffi::CString;
use std::time::Instant;

use uzswap_acomp::{Algorithm, Context};
use uzswap_ctl::accel::MEMORY_BYTES;
use uzswap_iaa::aecs::CompressAecs;
use uzswap_iaa::buffers::{Area, Buffers, aecs_slot};
use uzswap_iaa::completion::{COMPLETION_BYTES, Completion, Status};
use uzswap_iaa::descriptor::{ComprFlags, Descriptor};
use uzswap_iaa::portal::Submitted;
use uzswap_iaa::recipe::{self, Job};
use uzswap_iaa::resident::{Resident, Room};
use uzswap_iaa::topology::{Mode, Topology, WorkQueue};
use uzswap_iaa_model::machine::{Errno, File, Portal, Process, Submission};
use uzswap_iaa_model::random::Random;
use uzswap_sys::portal::{Answer, Instructions, WorkQueue as Opened};
use uzswap_sys::words;

use super::options::Selftest;
use super::place::{InModel, Place};
use crate::output::print;
use crate::{Failure, describe};

const PAGE: usize = 4096;
const ROOM: Room = Room {
    slots: 1,
    pairs: 1,
    buffer: 2 * PAGE as u32,
};
const _: () = assert!(ROOM.bytes() <= MEMORY_BYTES);
/// How long a device may take for a descriptor.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(1);
const ME: Process = Process(1);

/// What the data sheet says becomes of `uzswap`, without matches.
const WORD: &[u8] = b"uzswap";
const STREAM: [u8; 8] = [0x2b, 0xad, 0x2a, 0x2e, 0x4f, 0x2c, 0, 0];
const CRC: u32 = 0x5d98_9fc2;
const XOR: u16 = 0x7d67;

pub(super) fn selftest(options: &Selftest) -> Result<u8, Failure> {
    let place = Place::of(&options.machine)?;
    let topology = Topology::discover(&place);
    if topology.queues().next().is_none() {
        let why = match topology.refusals.first() {
            Some(refusal) => refusal.to_string(),
            None => format!("{} has no iax device", uzswap_iaa::topology::DEVICES),
        };
        return Err(Failure::new(format!(
            "{}: no work queue can be used: {why}",
            place.name()
        )));
    }
    let memory = memory(&place)?;
    let mut text = format!("work queues of {}\n", place.name());
    let mut failed = 0;
    for work_queue in topology.queues() {
        let result = Queue::open(&place, work_queue, memory).and_then(|queue| queue.test(options.pages));
        text += &match result {
            Ok(said) => format!("PASS {}: {said}\n", work_queue.id),
            Err(why) => {
                failed += 1;
                format!("FAIL {}: {why}\n", work_queue.id)
            }
        };
    }
    print(&text)?;
    Ok(u8::from(failed > 0))
}

/// Memory that the devices reach.
fn memory(place: &Place) -> Result<Resident, Failure> {
    match place {
        Place::Model(model) => {
            let region = model.file.region(0).expect("the first of many");
            Ok(Resident::new(region.memory(), ROOM, region.address()))
        }
        Place::Files(_) => {
            let fail = |e| Failure::new(format!("memory for the devices: {}", describe(e)));
            let words = words::words(ROOM.bytes()).map_err(fail)?;
            words::lock(words).map_err(fail)?;
            Ok(Resident::new(words, ROOM, words.as_ptr().expose_provenance() as u64))
        }
    }
}

/// What a descriptor is submitted to.
enum Door<'a> {
    Hardware(Opened),
    Model(&'a InModel, File, Option<Portal>),
}

struct Queue<'a> {
    door: Door<'a>,
    mode: Mode,
    memory: Resident,
}

impl<'a> Queue<'a> {
    fn open(place: &'a Place, work_queue: &WorkQueue, memory: Resident) -> Result<Self, String> {
        let door = match place {
            Place::Files(_) => {
                let path = CString::new(work_queue.id.node()).expect("no zero in it");
                let is_shared = work_queue.mode == Mode::Shared;
                let opened = Opened::open(&path, is_shared, Instructions::detect());
                Door::Hardware(opened.map_err(|e| format!("{}: {}", work_queue.id.node(), describe(e)))?)
            }
            Place::Model(model) => {
                let id = work_queue.id;
                let file = model.machine.open(ME, id.device, id.queue as u8);
                let file = file.map_err(|e| format!("opening it: {e:?}"))?;
                let portal = file.map(ME).ok();
                Door::Model(model, file, portal)
            }
        };
        Ok(Self {
            door,
            mode: work_queue.mode,
            memory,
        })
    }

    fn submit(&self, descriptor: &[u8; 64]) -> Submitted {
        match &self.door {
            Door::Hardware(opened) => match opened.submit(descriptor) {
                Answer::Accepted => Submitted::Accepted,
                Answer::Full => Submitted::Full,
                Answer::Gone => Submitted::Gone,
            },
            Door::Model(_, file, None) => match file.write(ME, &[*descriptor]) {
                Ok(64) => Submitted::Accepted,
                Ok(_) | Err(Errno::Again) => Submitted::Full,
                Err(_) => Submitted::Gone,
            },
            Door::Model(_, _, Some(portal)) if self.mode == Mode::Shared => match portal.enqcmd(descriptor) {
                Submission::Accepted => Submitted::Accepted,
                Submission::Retry => Submitted::Full,
            },
            Door::Model(_, _, Some(portal)) => {
                portal.movdir64b(descriptor);
                Submitted::Accepted
            }
        }
    }

    /// Have the device do one job.
    fn ask(&self, what: &str, descriptor: &Descriptor) -> Result<Completion, String> {
        self.memory.write(Area::Record, 0, 0, &[0; COMPLETION_BYTES]);
        let until = Instant::now() + PATIENCE;
        let late = || format!("{what}: no answer within {} s", PATIENCE.as_secs());
        loop {
            match self.submit(&descriptor.to_bytes()) {
                Submitted::Accepted => break,
                Submitted::Gone => return Err(format!("{what}: the queue takes no descriptor")),
                Submitted::Full if Instant::now() > until => return Err(late()),
                Submitted::Full => std::hint::spin_loop(),
            }
        }
        while self.memory.status(0) == 0 {
            if Instant::now() > until {
                return Err(late());
            }
            if let Door::Model(model, ..) = &self.door {
                model.machine.poll();
            }
            std::hint::spin_loop();
        }
        let mut bytes = [0; COMPLETION_BYTES];
        self.memory.read(Area::Record, 0, 0, &mut bytes);
        let completion = Completion::from_bytes(&bytes);
        match completion.status {
            Status::SUCCESS => Ok(completion),
            status => Err(format!("{what}: status {status:?}, error {:?}", completion.error_code)),
        }
    }

    /// A job on `source`.
    fn job(&self, source: &[u8], room: usize) -> Job {
        self.memory.write(Area::Buffer, 0, 0, source);
        Job {
            record: self.memory.address(Area::Record, 0),
            source: self.memory.address(Area::Buffer, 0),
            length: source.len() as u32,
            destination: self.memory.address(Area::Buffer, 1),
            room: room as u32,
        }
    }

    fn output(&self, completion: &Completion) -> Result<Vec<u8>, String> {
        let len = completion.output_size as usize;
        if len > 2 * PAGE {
            return Err(format!("it says that it wrote {len} bytes"));
        }
        let mut bytes = vec![0; len];
        self.memory.read(Area::Buffer, 1, 0, &mut bytes);
        Ok(bytes)
    }

    fn test(&self, pages: u64) -> Result<String, String> {
        self.ask("NOOP", &recipe::noop(self.memory.address(Area::Record, 0)))?;
        let aecs = self.memory.address(Area::Aecs, aecs_slot::COMPRESS);
        self.memory
            .write(Area::Aecs, aecs_slot::COMPRESS, 0, &CompressAecs::fixed().to_bytes());
        self.golden(aecs)?;
        let mut software = Context::new(Algorithm::Deflate { level: 1 });
        let mut random = Random::new(1);
        let (mut bytes, mut poor) = (0, 0);
        for number in 0..pages {
            let page = page(&mut random, number);
            match self.there(aecs, &page, &mut software)? {
                Some(len) => bytes += len,
                None => poor += 1,
            }
            self.back(&page, &mut software)?;
        }
        Ok(format!(
            "golden words, {pages} pages there and back, {poor} of them too dense, {bytes} bytes of streams"
        ))
    }

    /// The data sheet's words, and its vector.
    fn golden(&self, aecs: u64) -> Result<(), String> {
        let job = self.job(WORD, PAGE);
        let mut descriptor = recipe::fixed_compress(job, aecs);
        for (name, descriptor, word) in [
            ("NOOP", recipe::noop(job.record), 0x0000_000c_u32),
            ("fixed compress", descriptor, 0x4301_010c),
            ("decompress", recipe::decompress(job), 0x4200_010c),
        ] {
            if descriptor.to_bytes()[4..8] != word.to_le_bytes() {
                return Err(format!(
                    "the word of {name} is not {word:#010x}: this program is damaged"
                ));
            }
        }
        descriptor.operation_flags |= ComprFlags::GEN_LITS.0;
        let completion = self.ask("the golden word", &descriptor)?;
        let stream = self.output(&completion)?;
        if (stream.as_slice(), completion.crc, completion.xor) != (&STREAM[..], CRC, XOR) {
            return Err(format!(
                "the golden word became {stream:02x?}, crc {:#x}, xor {:#x}",
                completion.crc, completion.xor
            ));
        }
        Ok(())
    }

    /// The device compresses, software reads. `None`: the page does not become shorter.
    fn there(&self, aecs: u64, page: &[u8], software: &mut Context) -> Result<Option<usize>, String> {
        let descriptor = recipe::fixed_compress(self.job(page, PAGE - 1), aecs);
        let completion = match self.ask("compress", &descriptor) {
            Ok(completion) => completion,
            // Fixed codes make noise longer.
            Err(_) if is_dense(page) => return Ok(None),
            Err(why) => return Err(why),
        };
        let stream = self.output(&completion)?;
        let mut read = vec![0; PAGE];
        if !software.decompress(&stream, &mut read) || read != page {
            return Err("software does not read a stream of the device as the page was".into());
        }
        if completion.crc != crc32(page) {
            return Err(format!("the checksum of a page is said to be {:#x}", completion.crc));
        }
        Ok(Some(stream.len()))
    }

    /// Software compresses, the device reads.
    fn back(&self, page: &[u8], software: &mut Context) -> Result<(), String> {
        let mut stream = vec![0; 2 * PAGE];
        let Ok(len) = software.compress_page(page, &mut stream) else {
            return Ok(());
        };
        let descriptor = recipe::decompress(self.job(&stream[..len], PAGE));
        let completion = self.ask("decompress", &descriptor)?;
        if self.output(&completion)? != page || completion.crc != crc32(page) {
            return Err("the device does not read a stream of software as the page was".into());
        }
        Ok(())
    }
}

/// A page of words, of text, or of noise.
fn page(random: &mut Random, number: u64) -> Vec<u8> {
    const TEXT: [&str; 6] = ["page ", "folio ", "of ", "the ", "swap\n", "kswapd "];
    match number % 4 {
        0 => vec![number as u8; PAGE],
        1 => {
            let words = std::iter::repeat_with(|| TEXT[random.below(TEXT.len() as u64) as usize]);
            words.flat_map(str::bytes).take(PAGE).collect()
        }
        2 => {
            let words = (0..PAGE as u64 / 8).map(|i| 0x7f00_0000_0000 + (random.below(1 << 12) << 4) * (i % 2));
            words.flat_map(u64::to_le_bytes).collect()
        }
        _ => (0..PAGE).map(|_| (random.bits() >> 33) as u8).collect(),
    }
}

/// Whether most values of a byte are in it.
fn is_dense(page: &[u8]) -> bool {
    let mut seen = [false; 256];
    page.iter().for_each(|byte| seen[usize::from(*byte)] = true);
    seen.iter().filter(|seen| **seen).count() > 200
}

/// CRC-32 of gzip.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32, byte: &u8| (0..8).fold(crc ^ u32::from(*byte), |crc, _| crc >> 1 ^ (0xedb8_8320 * (crc & 1)));
    !bytes.iter().fold(!0, step)
}

#[cfg(test)]
mod test {
    use super::super::options::{Machine, model};
    use super::*;

    fn run(text: &str) -> Result<u8, Failure> {
        selftest(&Selftest {
            machine: Machine {
                iaa_model: Some(model(text).unwrap()),
                root: None,
            },
            pages: 8,
        })
    }

    #[test]
    fn a_sound_model_passes() {
        for text in ["devices=2,wqs=2", "mode=dedicated,wqs=1", "generation=1,map=no,wqs=1"] {
            assert_eq!(run(text).unwrap(), 0, "{text}");
        }
    }

    #[test]
    fn a_model_that_errs_fails() {
        assert_eq!(run("faults=1000,seed=1,wqs=1").unwrap(), 1);
    }

    #[test]
    fn where_there_is_no_queue_that_is_said() {
        let options = Selftest {
            machine: Machine {
                iaa_model: None,
                root: Some(std::env::temp_dir()),
            },
            pages: 1,
        };
        let line = selftest(&options).unwrap_err().0;
        assert_eq!(
            line,
            "the directory: no work queue can be used: /sys/bus/dsa/devices has no iax device"
        );
    }

    #[test]
    fn the_checksum_is_gzips() {
        assert_eq!(crc32(WORD), CRC);
    }
}
