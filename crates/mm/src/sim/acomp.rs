//! An accelerator of the simulated machine, late or wrong now and then.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use uzswap_acomp::{Algorithm, Codec, Context, Device, Op, Outcome};

use super::SimMachine;
use crate::machine::Accelerators;

/// Pages that it takes in of a request.
const BATCH: usize = 6;
/// Looks after which it has answered, or never will.
const LOOKS: u64 = 4;

/// What will come of a page.
struct Job {
    /// At which look; `None`: never.
    at: Option<u64>,
    outcome: Outcome,
    bytes: Vec<u8>,
}

/// One thread's way to it.
pub struct SimAcomp {
    software: Context,
    per_mille: u64,
    random: u64,
    jobs: Vec<Job>,
    looks: u64,
}

impl SimAcomp {
    /// For all algorithms: of 1000 pages so many come to nothing there.
    pub fn all(per_mille: u64) -> Box<MakeAcomp> {
        Box::new(move |algorithm| Some(Box::new(Self::new(algorithm, per_mille))))
    }

    fn new(algorithm: Algorithm, per_mille: u64) -> Self {
        Self {
            software: Context::new(algorithm),
            per_mille,
            random: 1 + algorithm.to_word(),
            jobs: Vec::new(),
            looks: 0,
        }
    }

    fn dice(&mut self) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        self.random >> 33
    }

    fn do_page(&mut self, op: Op, src: &[u8], unit: usize) -> Job {
        let mut bytes = vec![0; unit];
        let outcome = match op {
            Op::Compress => match self.software.compress_page(src, &mut bytes) {
                Ok(len) => Outcome::Done(len),
                Err(_) => Outcome::Poor,
            },
            Op::Decompress => match self.software.decompress(src, &mut bytes) {
                true => Outcome::Done(unit),
                false => Outcome::Software,
            },
        };
        let at = Some(self.dice() % LOOKS);
        Job { at, outcome, bytes }
    }

    /// Something goes wrong.
    fn spoil(&mut self, op: Op, unit: usize, job: &mut Job) {
        match (self.dice() % 8, op) {
            (0, _) => job.at = None,
            (1 | 2, _) => job.outcome = Outcome::Software,
            (3, _) => job.outcome = Outcome::Done(unit + 1),
            // Whoever compresses verifies: what it says is done reads back.
            (_, Op::Compress) => job.outcome = Outcome::Poor,
            (_, Op::Decompress) => {
                let at = self.dice() as usize % unit;
                job.bytes[at] ^= 1;
            }
        }
    }
}

impl Device for SimAcomp {
    fn codec(&self) -> Codec {
        self.software.algorithm().codec()
    }

    fn batch_size(&self) -> usize {
        BATCH
    }

    fn submit(&mut self, op: Op, src: &[&[u8]], unit: usize, _: u64) {
        self.jobs.clear();
        self.looks = 0;
        for src in src.iter().take(BATCH) {
            let mut job = self.do_page(op, src, unit);
            if self.dice() % 1000 < self.per_mille {
                self.spoil(op, unit, &mut job);
            }
            self.jobs.push(job);
        }
    }

    fn poll(&mut self, _: u64) {
        self.looks += 1;
    }

    fn collect(&mut self, page: usize, out: &mut [u8]) -> Option<Outcome> {
        let Some(job) = self.jobs.get(page) else {
            return Some(Outcome::Software);
        };
        if job.at.is_none_or(|at| at > self.looks) {
            return None;
        }
        out.copy_from_slice(&job.bytes);
        Some(job.outcome)
    }

    fn cancel(&mut self) {
        self.jobs.clear();
    }
}

/// Makes a thread's way to an accelerator that does what an algorithm does.
pub type MakeAcomp = dyn Fn(Algorithm) -> Option<Box<dyn Device + Send>>;

impl Accelerators for SimMachine {
    type Acomp = Box<dyn Device + Send>;

    fn acomp(&self, algorithm: Algorithm) -> Option<Self::Acomp> {
        self.make_acomp.borrow().as_ref()?(algorithm)
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::sim::{ARENA_PAGES, OPS, PAGES, World};
    use crate::vmstat::Item;

    /// Pages go out and come back through it, and by software when it errs: the world compares each
    /// with what the program wrote.
    #[test]
    fn an_accelerator_that_errs_loses_no_page() {
        for (per_mille, seed) in [(0, 1), (50, 2), (50, 3), (500, 4), (1000, 5)] {
            let mut world = World::<parking_lot::RawMutex>::accelerated(1000, ARENA_PAGES, SimAcomp::all(per_mille));
            let mut random = SimAcomp::new(Algorithm::Zstd { level: 1 }, 0);
            random.random = seed;
            for _ in 0..if cfg!(miri) { 20 } else { 2000 } {
                let [op, page, len, seed] = [(); 4].map(|()| random.dice());
                world.step((op % u64::from(OPS)) as u8, page % PAGES, 1 + len % 23, seed);
            }
            world.finish();
            let counts = world.worker.accelerator_counts();
            assert!(counts.is_valid(), "{counts:?}");
            assert_eq!(world.mm.stat().get(Item::DecompressFail), 0);
            let has_erred = counts.wrong > 0 && counts.late > 0;
            assert!(
                cfg!(miri) || has_erred == (per_mille > 0),
                "{per_mille} per mille: {counts:?}"
            );
            assert!(cfg!(miri) || counts.refused > 0 && counts.pages > 300, "{counts:?}");
            assert!(cfg!(miri) || (counts.done > 0) == (per_mille < 1000), "{counts:?}");
        }
    }

    #[test]
    fn a_machine_without_an_accelerator_gives_it_nothing() {
        let mut world = World::<parking_lot::RawMutex>::new(0, ARENA_PAGES);
        (0..200).for_each(|seed| world.step(seed as u8 % OPS, seed % PAGES, 8, seed));
        world.finish();
        assert_eq!(world.worker.accelerator_counts(), uzswap_acomp::Counts::default());
    }
}
