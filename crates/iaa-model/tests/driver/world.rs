//! A driver with its queues on a machine of the model.

use std::sync::{Arc, Mutex};

use uzswap_iaa::batch::Batch;
use uzswap_iaa::buffers::{Area, Buffers, Pair};
use uzswap_iaa::completion::Direction;
use uzswap_iaa::driver::{Driver, Request};
use uzswap_iaa::outcome::Outcome;
use uzswap_iaa::portal::Portal;
use uzswap_iaa::queue::Queue;
use uzswap_iaa::settings::{CompressionMode, Settings};
use uzswap_iaa::table::{Fleet, Layout, Table};
use uzswap_iaa::topology::Topology;
use uzswap_iaa_model::machine::{Config, Machine, Real, Virtual};

use crate::adapters::{Door, Files, Resident, STEP, Time, Way};

pub type TestDriver = Driver<parking_lot::RawMutex, Resident>;
pub type TestBatch = Batch<parking_lot::RawMutex, Resident>;

/// Of destinations, before the device writes them.
pub const UNTOUCHED: u8 = 0xa5;
/// Deadlines after which a page is settled at the latest, as the driver promises.
pub const DEADLINES: u64 = 6;
pub const BATCH: usize = 32;

/// How a world is made.
pub struct Plan {
    pub config: Config,
    pub settings: Settings,
    pub slots: u32,
    pub pairs: u32,
    pub way: Way,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            config: Config::default(),
            settings: Settings::default(),
            slots: 128,
            pairs: 64,
            way: Way::Mapped,
        }
    }
}

pub struct World<C: Time> {
    pub machine: Arc<Machine<C>>,
    pub driver: Arc<TestDriver>,
    fleet: Mutex<Fleet>,
    /// Buffers that nobody uses or withholds.
    pub pool: Mutex<Vec<Pair>>,
    way: Way,
}

impl World<Virtual> {
    pub fn new(plan: Plan) -> Self {
        Self::with(plan, Machine::<Virtual>::new)
    }
}

impl World<Real> {
    pub fn inline(plan: Plan) -> Self {
        Self::with(plan, Machine::inline)
    }

    pub fn threads(plan: Plan, threads: usize) -> Self {
        Self::with(plan, |config, memory| Machine::threads(config, memory, threads))
    }
}

impl<C: Time> World<C> {
    fn with(plan: Plan, machine: impl FnOnce(Config, Arc<dyn uzswap_iaa_model::memory::Memory>) -> Machine<C>) -> Self {
        let resident = Resident::new(plan.slots, 2 * plan.pairs);
        let machine = Arc::new(machine(plan.config, resident.regions.clone()));
        let pair = |i| Pair {
            source: 2 * i,
            destination: 2 * i + 1,
        };
        let driver = Driver::new(plan.settings, resident, plan.slots, Table::default()).unwrap();
        let world = Self {
            machine,
            driver: Arc::new(driver),
            fleet: Mutex::default(),
            pool: Mutex::new((0..plan.pairs).map(pair).collect()),
            way: plan.way,
        };
        world.refresh();
        if matches!(world.driver.settings().mode, CompressionMode::Canned(_)) {
            world.driver.set_up_canned(&world.queues()[0], || world.tick()).unwrap();
        }
        world
    }

    pub fn topology(&self) -> Topology {
        Topology::discover(&Files(self.machine.sysfs()))
    }

    /// Let a little time pass; what time it is then.
    pub fn tick(&self) -> u64 {
        C::pass(&self.machine);
        C::now(&self.machine)
    }

    pub fn now(&self) -> u64 {
        C::now(&self.machine)
    }

    pub fn queues(&self) -> Vec<Arc<Queue>> {
        self.fleet.lock().unwrap().queues().cloned().collect()
    }

    /// What the owner of the queues does when one has come, gone or become suspect.
    pub fn refresh(&self) {
        for queue in self.queues().iter().filter(|queue| queue.is_suspect()) {
            if self.driver.probe(queue, || self.tick()).is_err() {
                queue.drain();
            }
        }
        let mut fleet = self.fleet.lock().unwrap();
        let topology = self.topology();
        let taken = fleet.retain(&topology);
        drop(self.driver.current().replace(fleet.table(&[0; 4], Layout::default())));
        taken.iter().for_each(|queue| {
            queue.drain();
        });
        // A queue may go away between the discovery and the opening: the next refresh sees it.
        let _ = fleet.open(&topology, |queue| {
            Door::open(&self.machine, queue, self.way).map(|door| Box::new(door) as Box<dyn Portal>)
        });
        drop(self.driver.current().replace(fleet.table(&[0; 4], Layout::default())));
    }

    pub fn batch(&self) -> TestBatch {
        Batch::new(self.driver.clone(), BATCH)
    }

    /// Take buffers for `source`. None: all are in use or withheld.
    pub fn request(&self, source: &[u8], room: usize) -> Option<Request> {
        let buffers = self.pool.lock().unwrap().pop()?;
        let memory = self.driver.buffers();
        memory.write(Area::Buffer, buffers.source, 0, source);
        memory.write(Area::Buffer, buffers.destination, 0, &vec![UNTOUCHED; room + 1]);
        Some(Request {
            buffers,
            length: source.len() as u32,
            room: room as u32,
        })
    }

    pub fn load(&self, slot: u32, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.driver.buffers().read(Area::Buffer, slot, 0, &mut bytes);
        bytes
    }

    /// Submit pages, wait, and give each outcome with the output of what is done.
    ///
    /// # Panics
    /// A page waits beyond its deadlines, or a byte beyond the room or the output changed.
    pub fn run(
        &self,
        batch: &mut TestBatch,
        direction: Direction,
        sources: &[Vec<u8>],
        room: usize,
    ) -> Vec<(Outcome, Vec<u8>)> {
        let begun = self.now();
        let request = |source: &Vec<u8>| self.request(source, room).expect("buffers that are not withheld");
        let requests: Vec<_> = sources.iter().map(request).collect();
        batch.submit(direction, 0, &requests, begun).unwrap();
        let mut now = begun;
        while batch.poll(now) != 0 {
            let limit = DEADLINES * (self.driver.settings().deadline_ns + STEP);
            assert!(now - begun <= limit, "pages wait for {} ns", now - begun);
            now = self.tick();
        }
        let mut settled = Vec::new();
        batch.collect(|i, outcome| {
            assert_eq!(i, settled.len());
            settled.push((outcome, self.take_back(&requests[i], outcome)));
        });
        assert_eq!(settled.len(), sources.len());
        self.sweep();
        settled
    }

    fn take_back(&self, request: &Request, outcome: Outcome) -> Vec<u8> {
        let room = request.room as usize;
        let mut output = self.load(request.buffers.destination, room + 1);
        assert_eq!(output[room], UNTOUCHED, "the byte beyond the room changed");
        match outcome {
            Outcome::Done(done) => output.truncate(done.length as usize),
            _ => output.clear(),
        }
        if !outcome.is_withheld() {
            self.pool.lock().unwrap().push(request.buffers);
        }
        output
    }

    pub fn sweep(&self) -> usize {
        self.driver.sweep(|pair| self.pool.lock().unwrap().push(pair))
    }

    /// Drain all queues and sweep: each slot, buffer and credit is back, and counters add up.
    pub fn check_at_rest(&self, pairs: usize) {
        for queue in self.queues() {
            assert!(queue.drain(), "{queue:?} does not drain");
        }
        self.sweep();
        assert_eq!((self.driver.late(), self.driver.free_slots()), (0, self.driver.slots()));
        assert!(self.queues().iter().all(|queue| queue.in_flight().unwrap_or(0) == 0));
        assert_eq!(self.pool.lock().unwrap().len(), pairs);
        let snapshot = self.driver.snapshot();
        assert_eq!(snapshot.flaw(), None, "{snapshot:?}");
        assert_eq!(snapshot.errors.late, snapshot.errors.late_back);
        let counters = self.machine.counters();
        assert!(counters.is_valid(), "{counters:?}");
    }
}
