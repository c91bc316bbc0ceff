//! The driver's traits over the model: memory, portals, sysfs, time.

use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::Instant;

use uzswap_iaa::buffers::{Area, Buffers};
use uzswap_iaa::portal::Submitted;
use uzswap_iaa::topology::{DEVICES, Mode, NODES, Sysfs, WorkQueue};
use uzswap_iaa_model::machine::{Clock, Errno, File, Machine, Portal, Process, Real, Submission, Virtual};
use uzswap_iaa_model::memory::Regions;
use uzswap_iaa_model::sysfs::Tree;

pub const ME: Process = Process(100);
/// Bytes of a buffer.
pub const BUFFER: usize = 8192;
const AECS: usize = 4096;
/// Where areas begin. Slots of each lie side by side.
const BASES: [(Area, u64, usize); 4] = [
    (Area::Record, 0x10_0000, 64),
    (Area::Aecs, 0x80_0000, AECS),
    (Area::Scratch, 0x90_0000, 64),
    (Area::Buffer, 0x100_0000, BUFFER),
];

/// The driver's memory: the model's regions.
pub struct Resident {
    pub regions: Arc<Regions>,
}

impl Resident {
    pub fn new(slots: u32, buffers: u32) -> Self {
        let regions = Arc::new(Regions::new());
        for (area, base, bytes) in BASES {
            let count = match area {
                Area::Record => slots,
                Area::Aecs => 3,
                Area::Scratch => 1,
                Area::Buffer => buffers,
            };
            regions.map(base, count as usize * bytes);
        }
        Self { regions }
    }
}

impl Buffers for Resident {
    fn address(&self, area: Area, slot: u32) -> u64 {
        let (_, base, bytes) = BASES.into_iter().find(|base| base.0 == area).unwrap();
        base + u64::from(slot) * bytes as u64
    }

    fn read(&self, area: Area, slot: u32, offset: usize, bytes: &mut [u8]) {
        let from = self.address(area, slot) + offset as u64;
        bytes.copy_from_slice(&self.regions.load(from, bytes.len()));
    }

    fn write(&self, area: Area, slot: u32, offset: usize, bytes: &[u8]) {
        self.regions.store(self.address(area, slot) + offset as u64, bytes);
    }

    fn status(&self, slot: u32) -> u8 {
        self.regions.load(self.address(Area::Record, slot), 1)[0]
    }

    fn touch(&self, address: u64, _write: bool) -> bool {
        self.regions.touch(address);
        address >= BASES[0].1
    }
}

/// How time passes while the driver waits.
pub trait Time: Clock + Send + Sync + Sized + 'static {
    /// Nanoseconds since some start.
    fn now(machine: &Machine<Self>) -> u64;
    /// Let a little time pass.
    fn pass(machine: &Machine<Self>);
}

/// At most so much virtual time passes between two looks.
pub const STEP: u64 = 250_000;

impl Time for Virtual {
    fn now(machine: &Machine<Self>) -> u64 {
        machine.now()
    }

    fn pass(machine: &Machine<Self>) {
        let soon = machine.now() + STEP;
        machine.advance(
            machine
                .next_event()
                .map_or(soon, |due| due.clamp(machine.now() + 1, soon)),
        );
    }
}

impl Time for Real {
    fn now(_machine: &Machine<Self>) -> u64 {
        static START: OnceLock<Instant> = OnceLock::new();
        START.get_or_init(Instant::now).elapsed().as_nanos() as u64
    }

    fn pass(machine: &Machine<Self>) {
        machine.poll();
        std::thread::yield_now();
    }
}

/// How descriptors get to a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// ENQCMD or MOVDIR64B to a mapped portal.
    Mapped,
    /// The system call.
    Written,
}

/// The driver's portal: the model's file, and its mapping if there is one.
pub struct Door<C: Time> {
    machine: Arc<Machine<C>>,
    mode: Mode,
    open: RwLock<Option<(File, Option<Portal>)>>,
}

impl<C: Time> Door<C> {
    pub fn open(machine: &Arc<Machine<C>>, queue: &WorkQueue, way: Way) -> Result<Self, Errno> {
        let file = machine.open(ME, queue.id.device, queue.id.queue as u8)?;
        let portal = match way {
            Way::Mapped => Some(file.map(ME)?),
            Way::Written => None,
        };
        Ok(Self {
            machine: machine.clone(),
            mode: queue.mode,
            open: RwLock::new(Some((file, portal))),
        })
    }
}

impl<C: Time> uzswap_iaa::portal::Portal for Door<C> {
    fn submit(&self, descriptor: &[u8; 64]) -> Submitted {
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        match (&*open, self.mode) {
            (None, _) => Submitted::Gone,
            (Some((file, None)), _) => match file.write(ME, &[*descriptor]) {
                Ok(64) => Submitted::Accepted,
                Ok(_) | Err(Errno::Again) => Submitted::Full,
                Err(_) => Submitted::Gone,
            },
            (Some((_, Some(portal))), Mode::Shared) => match portal.enqcmd(descriptor) {
                Submission::Accepted => Submitted::Accepted,
                Submission::Retry => Submitted::Full,
            },
            (Some((_, Some(portal))), Mode::Dedicated) => {
                portal.movdir64b(descriptor);
                Submitted::Accepted
            }
        }
    }

    /// As the kernel's `close`: wait for what the device holds. A halted one never lets go.
    fn drain(&self) -> bool {
        let open = self.open.write().unwrap_or_else(PoisonError::into_inner).take();
        let Some((file, _portal)) = open else {
            return true;
        };
        let until = C::now(&self.machine) + 1_000_000_000;
        while file.held() > 0 && C::now(&self.machine) < until {
            C::pass(&self.machine);
        }
        file.held() == 0
    }
}

/// The driver's files: the model's tree, and a node for each queue that is enabled.
pub struct Files(pub Tree);

impl Sysfs for Files {
    fn read(&self, path: &str) -> Option<String> {
        let path = path.strip_prefix(DEVICES)?.strip_prefix('/')?;
        // The kernel ends lines.
        self.0.read(path).map(|text| format!("{text}\n"))
    }

    fn list(&self, path: &str) -> Vec<String> {
        if path == NODES {
            let enabled = |(path, text): (&str, &str)| {
                let (_, name) = path.strip_suffix("/state")?.split_once('/')?;
                (text == "enabled").then(|| name.to_owned())
            };
            return self.0.files().filter_map(enabled).collect();
        }
        let directory = path.strip_prefix(DEVICES).map(|below| below.trim_start_matches('/'));
        let names = directory.map(|directory| self.0.list(directory)).unwrap_or_default();
        names.into_iter().map(str::to_owned).collect()
    }
}
