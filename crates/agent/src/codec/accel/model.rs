//! Devices of the model that the launcher runs.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::AtomicU64;

use uzswap_ctl::accel::{self, Job, Region};
use uzswap_iaa::portal::{Portal, Submitted};
use uzswap_iaa::topology::{DEVICES, NODES, Sysfs, Topology};
use uzswap_sys::futex;
use uzswap_sys::time::now_ns;
use uzswap_sys::{Errno, thread};

use super::{Accel, Queues, Way, counters};
use crate::pager::pause;

/// How long an opening is waited for when it is first asked for, nanoseconds. Later kswapd looks at
/// its ticks.
const OPENED_WITHIN: u64 = 50_000_000;
const LOOK_NS: u64 = 100_000;
/// Of a descriptor. The model's engines are threads that may have to wait for a core, which is no
/// reason to distrust its queues: a page waits for `ACCELERATOR_DEADLINE_NS` only.
pub(super) const DEADLINE_NS: u64 = 50_000_000;
/// Looks after which a thread sleeps between two of them, and how long, nanoseconds.
const LOOKS: u32 = 16;
const NAP_NS: u64 = 20_000;

/// Which opening of the region's door is ours.
pub(super) struct Opening {
    file: accel::Accel,
    slot: usize,
    region: Region,
    number: u64,
    /// It is open, and the queues are those of this version of sysfs.
    version: Option<u64>,
}

impl Opening {
    /// Ask for the first one, and wait a little until it is open.
    pub(super) fn ask(file: accel::Accel, slot: usize) -> Option<Self> {
        let opening = Self {
            region: file.region(slot)?,
            number: file.ask(slot)?,
            file,
            slot,
            version: None,
        };
        ring(file);
        let until = now_ns() + OPENED_WITHIN;
        while file.is_open() && !opening.is_open() && now_ns() < until {
            pause(LOOK_NS);
        }
        Some(opening)
    }

    fn is_open(&self) -> bool {
        self.region.opened() == self.number
    }
}

fn ring(file: accel::Accel) {
    if file.ring() {
        futex::wake_word(file.bell());
    }
}

/// The model needs a core, perhaps that of the thread that waits for it and looks once more.
pub(super) fn give_way(looks: u32) {
    match looks {
        ..=LOOKS => thread::yield_now(),
        _ => pause(NAP_NS),
    }
}

impl Accel {
    /// Go from opening to opening: while one is asked for there is no queue. `lacks`: this one is
    /// of little use any more.
    pub(super) fn tend_model(&self, queues: &mut Queues, lacks: bool) {
        let Way::Model(opening) = &mut queues.way else { return };
        let is_left = !opening.file.is_open();
        match opening.version {
            // Nobody answers any more.
            Some(_) if is_left => {
                opening.version = None;
                self.retire(queues, &Topology::default());
            }
            Some(version) if lacks || version != opening.file.sysfs_version() => {
                opening.version = None;
                if let Some(number) = opening.file.ask(opening.slot) {
                    opening.number = number;
                }
                ring(opening.file);
                self.retire(queues, &Topology::default());
            }
            None if !is_left && opening.is_open() => self.begin(queues),
            _ => {}
        }
    }

    /// The opening that was asked for is open, so those before it are over.
    fn begin(&self, queues: &mut Queues) {
        let Way::Model(opening) = &mut queues.way else { return };
        let Some((version, text)) = opening.file.sysfs() else {
            return;
        };
        opening.version = Some(version);
        let (file, region, number) = (opening.file, opening.region, opening.number);
        for queue in &queues.retired {
            queue.drain();
        }
        self.bounce.sweep();
        self.open(queues, &Topology::discover(&Text(text)), |work_queue| {
            let queue = (work_queue.id.device, work_queue.id.queue);
            let door = Door {
                file,
                region,
                number,
                queue,
                counters: counters(file, work_queue),
            };
            match region.has_queue(queue) {
                true => Ok(Box::new(door) as Box<dyn Portal>),
                false => Err(Errno::BUSY),
            }
        });
    }
}

/// The door, for one work queue.
struct Door {
    file: accel::Accel,
    region: Region,
    number: u64,
    queue: (u32, u32),
    counters: [&'static AtomicU64; 4],
}

impl Portal for Door {
    fn submit(&self, descriptor: &[u8; 64]) -> Submitted {
        if self.region.opened() != self.number || !self.file.is_open() {
            return Submitted::Gone;
        }
        let job = Job {
            opening: self.number,
            queue: self.queue,
            descriptor: *descriptor,
        };
        if !self.region.submit(&job) {
            return Submitted::Full;
        }
        ring(self.file);
        Submitted::Accepted
    }

    /// Another opening is open only when this one is over.
    fn drain(&self) -> bool {
        self.region.opened() != self.number
    }

    fn counters(&self) -> Option<[&'static AtomicU64; 4]> {
        Some(self.counters)
    }
}

/// Files by their paths: lines `PATH=VALUE`, from the directory of devices on.
struct Text(String);

impl Text {
    fn lines(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.lines().filter_map(|line| line.split_once('='))
    }
}

impl Sysfs for Text {
    fn read(&self, path: &str) -> Option<String> {
        let path = path.strip_prefix(DEVICES)?.strip_prefix('/')?;
        let (_, text) = self.lines().find(|(name, _)| *name == path)?;
        Some(text.into())
    }

    fn list(&self, path: &str) -> Vec<String> {
        if path == NODES {
            // A node for each queue that is enabled.
            let enabled = |(path, text): (&str, &str)| {
                let (_, name) = path.strip_suffix("/state")?.split_once('/')?;
                (text == "enabled").then(|| name.into())
            };
            return self.lines().filter_map(enabled).collect();
        }
        let Some(directory) = path.strip_prefix(DEVICES) else {
            return Vec::new();
        };
        let directory = directory.trim_start_matches('/');
        let below = |path| match directory {
            "" => Some(path),
            _ => str::strip_prefix(path, directory)?.strip_prefix('/'),
        };
        let mut names: Vec<String> = Vec::new();
        for rest in self.lines().filter_map(|(path, _)| below(path)) {
            let name = rest.split('/').next().unwrap_or(rest);
            // Lines are in the order of their paths.
            if names.last().is_none_or(|last| last != name) {
                names.push(name.into());
            }
        }
        names
    }
}
