//! What all engines of a simulation share: the clocks of the cores, the accelerators, and the locks
//! that whole groups take.

use parking_lot::Mutex;

use crate::contents::Contents;
use crate::server::{Server, Servers};

/// How pages are compressed and decompressed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Coder {
    /// By the core, one page after the other.
    Software {
        /// Nanoseconds to compress a page.
        compress_ns: f64,
        /// To decompress one.
        decompress_ns: f64,
    },
    /// By devices; the core waits for the whole request.
    Device {
        /// Nanoseconds of the core for each page.
        submit_ns: f64,
        /// Of an engine to compress a page.
        compress_ns: f64,
        /// To decompress one.
        decompress_ns: f64,
        /// From the engine to the core that polls, and all else that is neither.
        latency_ns: f64,
        /// Pages under way at once.
        batch: usize,
        /// Each page is decompressed again to see that it is right.
        verifies: bool,
        /// Jobs go to all devices in turn, else to the one of the core.
        spreads: bool,
    },
}

impl Coder {
    /// Pages under way at once.
    pub(crate) fn batch(&self) -> usize {
        match self {
            Self::Software { .. } => 1,
            Self::Device { batch, .. } => *batch,
        }
    }
}

/// Nanoseconds of a core, but where named.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Costs {
    /// A fault, however much it maps.
    pub(crate) fault_ns: f64,
    /// A page that is made zero and mapped.
    pub(crate) zero_ns: f64,
    /// A page that leaves: everything but its compression, and what is under the lock.
    pub(crate) store_ns: f64,
    /// Under locks that all have in common, for each page that is stored, or dropped while it is.
    pub(crate) locked_ns: f64,
    /// How much of that a store has, in parts of what a drop has.
    pub(crate) store_share: f64,
    /// A page that comes back: everything but its decompression.
    pub(crate) load_ns: f64,
    /// A page that is dropped while it is stored: everything but what is under the lock.
    pub(crate) drop_ns: f64,
    /// Pages that software compresses between two visits to the pool.
    pub(crate) store_batch: usize,
    /// How pages are compressed.
    pub(crate) coder: Coder,
}

/// Accelerators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Accelerators {
    /// Packages, which cores belong to in turn: each core uses the devices of its own.
    pub(crate) packages: usize,
    /// Devices of each package.
    pub(crate) devices: usize,
    /// Engines of each that compress.
    pub(crate) compressors: usize,
    /// Engines of each that decompress only.
    pub(crate) decompressors: usize,
}

impl Accelerators {
    /// What the seeds' machine has: their script configures four devices on each socket.
    pub(crate) const SEEDS: Self = Self {
        packages: 2,
        devices: 4,
        compressors: 2,
        decompressors: 6,
    };
}

struct Device {
    compressors: Servers,
    decompressors: Servers,
}

/// From a core that has work for another to the other's first instruction. Source: assumed.
const WAKE_NS: u64 = 3000;

/// Lanes of one core's work.
pub(crate) struct Fork {
    start: u64,
    /// When this core is done with those that it does itself.
    own: u64,
    /// When all others are done.
    end: u64,
}

struct State {
    /// The time of each core.
    now: Vec<u64>,
    /// How much longer it takes than others for the same.
    slowness: Vec<f64>,
    /// Nanoseconds in the kernel, of each.
    system: Vec<u64>,
    /// The device of its package that the core's next job goes to.
    next: Vec<usize>,
    core: usize,
    packages: Vec<Vec<Device>>,
    /// Cores that no program runs on.
    idle: Servers,
    /// What all programs have in common; each core takes that of its part of the machine.
    locks: Vec<Server>,
    /// Nanoseconds that cores waited for a lock.
    lock_waits: u64,
    /// Compressed bytes in the pools of all engines, and of each.
    stored_bytes: u64,
    bytes_of: Vec<u64>,
}

/// The machine that all engines are on.
pub(crate) struct World {
    pub(crate) costs: Costs,
    pub(crate) contents: Contents,
    state: Mutex<State>,
}

/// Which way a page goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Compress,
    Decompress,
}

impl World {
    /// `slowness` has one number for each core.
    pub(crate) fn new(costs: Costs, accelerators: Accelerators, contents: Contents, slowness: Vec<f64>) -> Self {
        let cores = slowness.len();
        let device = || Device {
            compressors: Servers::new(accelerators.compressors),
            decompressors: Servers::new(accelerators.decompressors),
        };
        let state = State {
            now: vec![0; cores],
            slowness,
            system: vec![0; cores],
            // Neighbours on a package have different ones.
            next: (0..cores).map(|core| core / accelerators.packages).collect(),
            core: 0,
            packages: (0..accelerators.packages)
                .map(|_| (0..accelerators.devices).map(|_| device()).collect())
                .collect(),
            idle: Servers::new(0),
            locks: vec![Server::default()],
            lock_waits: 0,
            stored_bytes: 0,
            bytes_of: vec![0; cores],
        };
        Self {
            costs,
            contents,
            state: Mutex::new(state),
        }
    }

    /// What is done from now on is done by this core.
    pub(crate) fn run_on(&self, core: usize) {
        self.state.lock().core = core;
    }

    /// The time of the core that runs.
    pub(crate) fn now(&self) -> u64 {
        let state = self.state.lock();
        state.now[state.core]
    }

    /// The core that runs works for so many nanoseconds in the kernel.
    pub(crate) fn work(&self, ns: f64) {
        self.state.lock().work(ns);
    }

    /// The core that runs works for its program.
    pub(crate) fn work_for_program(&self, ns: f64) {
        let mut state = self.state.lock();
        let core = state.core;
        state.now[core] += (ns * state.slowness[core]) as u64;
    }

    /// The core that runs spins until `at`.
    pub(crate) fn spin_until(&self, at: u64) {
        let mut state = self.state.lock();
        let core = state.core;
        let ns = at.saturating_sub(state.now[core]);
        state.now[core] += ns;
        state.system[core] += ns;
    }

    /// The core that runs sleeps for so many nanoseconds.
    pub(crate) fn sleep(&self, ns: u64) {
        let mut state = self.state.lock();
        let core = state.core;
        state.now[core] += ns;
    }

    /// The core that runs takes its lock for so many nanoseconds.
    pub(crate) fn hold(&self, ns: f64) {
        let mut state = self.state.lock();
        let (core, ns) = (state.core, ns as u64);
        let now = state.now[core];
        let at = core % state.locks.len();
        let end = state.locks[at].take(now, ns);
        state.lock_waits += end - now - ns;
        state.system[core] += end - now;
        state.now[core] = end;
    }

    /// Nobody asks for what was before `at` any more.
    pub(crate) fn forget(&self, at: u64) {
        let mut state = self.state.lock();
        state.locks.iter_mut().for_each(|lock| lock.forget(at));
        state.idle.forget(at);
        for device in state.packages.iter_mut().flatten() {
            device.compressors.forget(at);
            device.decompressors.forget(at);
        }
    }

    /// The core that runs begins a request of so many pages. When each is done: for software that
    /// is now.
    pub(crate) fn code(&self, way: Way, pages: usize) -> Vec<u64> {
        let mut state = self.state.lock();
        match self.costs.coder {
            Coder::Software {
                compress_ns,
                decompress_ns,
            } => {
                let each = if way == Way::Compress {
                    compress_ns
                } else {
                    decompress_ns
                };
                state.work(each * pages as f64);
                vec![state.now[state.core]; pages]
            }
            Coder::Device { .. } => (0..pages).map(|_| state.submit(&self.costs.coder, way)).collect(),
        }
    }

    /// So many more cores help those that have lanes.
    pub(crate) fn add_idle(&self, cores: usize) {
        self.state.lock().idle = Servers::new(cores);
    }

    /// What is under one lock is under so many, one for each part of the machine.
    pub(crate) fn split_lock(&self, locks: usize) {
        self.state.lock().locks = vec![Server::default(); locks];
    }

    /// The core that runs has something done in lanes.
    pub(crate) fn fork(&self) -> Fork {
        let start = self.now();
        Fork {
            start,
            own: start,
            end: start,
        }
    }

    /// What is done from now on is one lane's.
    pub(crate) fn begin_lane(&self, fork: &Fork) {
        let mut state = self.state.lock();
        let core = state.core;
        state.now[core] = fork.start;
    }

    /// It is done: by a core that is idle, or by this one, behind what it does of the lanes, if
    /// that is sooner.
    pub(crate) fn end_lane(&self, fork: &mut Fork) {
        let mut state = self.state.lock();
        let len = state.now[state.core] - fork.start;
        let begin = fork.start + WAKE_NS;
        match state.idle.end(begin, len) {
            Some(end) if end < fork.own + len => {
                state.idle.take(begin, len);
                fork.end = fork.end.max(end);
            }
            _ => fork.own += len,
        }
    }

    /// All lanes are done.
    pub(crate) fn join(&self, fork: &Fork) {
        let mut state = self.state.lock();
        let core = state.core;
        state.now[core] = fork.end.max(fork.own);
    }

    /// Bytes of engine `owner` came into the pool, or left it.
    pub(crate) fn stored(&self, owner: usize, more: u64, less: u64) {
        let mut state = self.state.lock();
        state.stored_bytes = (state.stored_bytes + more).saturating_sub(less);
        state.bytes_of[owner] = (state.bytes_of[owner] + more).saturating_sub(less);
    }

    /// Engine `owner` dropped so many of its stored pages.
    pub(crate) fn drop_stored(&self, owner: usize, pages: u64, of: u64) {
        let bytes = self.state.lock().bytes_of[owner];
        self.stored(owner, 0, (bytes * pages).checked_div(of).unwrap_or(0));
    }

    /// Compressed bytes in all pools: what a group is charged for.
    pub(crate) fn stored_bytes(&self) -> u64 {
        self.state.lock().stored_bytes
    }

    /// Nanoseconds in the kernel, of all cores.
    pub(crate) fn system_ns(&self) -> u64 {
        self.state.lock().system.iter().sum()
    }

    /// Nanoseconds that the engines that compress were busy, and that cores waited for the lock.
    pub(crate) fn busy_ns(&self) -> (u64, u64) {
        let state = self.state.lock();
        let work = state
            .packages
            .iter()
            .flatten()
            .map(|device| device.compressors.work())
            .sum();
        (work, state.lock_waits)
    }
}

impl State {
    fn work(&mut self, ns: f64) {
        let core = self.core;
        let ns = (ns * self.slowness[core]) as u64;
        self.now[core] += ns;
        self.system[core] += ns;
    }

    /// Give one page to a device. Returns when its core sees that it is done.
    fn submit(&mut self, coder: &Coder, way: Way) -> u64 {
        let Coder::Device {
            submit_ns,
            compress_ns,
            decompress_ns,
            latency_ns,
            verifies,
            spreads,
            ..
        } = *coder
        else {
            return self.now[self.core];
        };
        self.work(submit_ns);
        let core = self.core;
        let packages = self.packages.len();
        let devices = &mut self.packages[core % packages];
        let at = self.next[core] % devices.len();
        let device = &mut devices[at];
        if spreads {
            self.next[core] += 1;
        }
        let now = self.now[core];
        let mut end = match way {
            Way::Compress => device.compressors.take(now, compress_ns as u64),
            Way::Decompress => device.decompressors.take(now, decompress_ns as u64),
        };
        if verifies && way == Way::Compress {
            end = device.decompressors.take(end, decompress_ns as u64);
        }
        end + latency_ns as u64
    }
}

#[cfg(test)]
mod test {
    use super::*;

    fn world(coder: Coder, cores: usize) -> World {
        let costs = Costs {
            fault_ns: 0.0,
            zero_ns: 0.0,
            store_ns: 0.0,
            locked_ns: 0.0,
            store_share: 1.0,
            load_ns: 0.0,
            drop_ns: 0.0,
            store_batch: 1,
            coder,
        };
        let accelerators = Accelerators {
            packages: 1,
            devices: 2,
            compressors: 1,
            decompressors: 1,
        };
        World::new(costs, accelerators, Contents::new(1, 2.0), vec![1.0; cores])
    }

    #[test]
    fn software_takes_one_page_after_the_other() {
        let coder = Coder::Software {
            compress_ns: 10.0,
            decompress_ns: 3.0,
        };
        let world = world(coder, 1);
        assert_eq!(world.code(Way::Compress, 3), [30; 3]);
        assert_eq!(world.code(Way::Decompress, 1), [33]);
        assert_eq!((world.now(), world.system_ns()), (33, 33));
    }

    #[test]
    fn devices_work_side_by_side() {
        let coder = |spreads, verifies| Coder::Device {
            submit_ns: 1.0,
            compress_ns: 10.0,
            decompress_ns: 4.0,
            latency_ns: 2.0,
            batch: 8,
            verifies,
            spreads,
        };
        assert_eq!(world(coder(true, false), 1).code(Way::Compress, 3), [13, 14, 23]);
        assert_eq!(world(coder(false, false), 1).code(Way::Compress, 3), [13, 23, 33]);
        assert_eq!(world(coder(true, true), 1).code(Way::Compress, 1), [17]);
    }

    #[test]
    fn lanes_are_done_by_idle_cores_where_that_is_sooner() {
        let software = Coder::Software {
            compress_ns: 10_000.0,
            decompress_ns: 0.0,
        };
        for (idle, end) in [(0, 40_000), (1, 23_000), (3, 13_000)] {
            let world = world(software, 1);
            world.add_idle(idle);
            let mut fork = world.fork();
            for _ in 0..4 {
                world.begin_lane(&fork);
                world.code(Way::Compress, 1);
                world.end_lane(&mut fork);
            }
            world.join(&fork);
            assert_eq!((world.now(), world.system_ns()), (end, 40_000), "{idle}");
        }
    }

    #[test]
    fn a_lock_is_held_by_one() {
        let world = world(
            Coder::Software {
                compress_ns: 0.0,
                decompress_ns: 0.0,
            },
            2,
        );
        world.hold(10.0);
        world.run_on(1);
        world.hold(10.0);
        assert_eq!((world.now(), world.busy_ns(), world.system_ns()), (20, (0, 10), 30));
    }
}
