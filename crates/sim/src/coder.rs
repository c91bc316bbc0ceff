//! What stands for a compressor, of software or a device: it takes the time of one.

use std::sync::Arc;

use uzswap_acomp::{Codec, Device, Op, Outcome};

use crate::world::{Way, World};

/// A page under way.
struct Job {
    ends: u64,
    op: Op,
    bytes: Vec<u8>,
    outcome: Outcome,
}

/// One worker's way to it.
pub(crate) struct Coder {
    world: Arc<World>,
    owner: usize,
    codec: Codec,
    jobs: Vec<Option<Job>>,
    /// Pages of the request that were compressed, and their bytes.
    compressed: (usize, u64),
}

impl Coder {
    pub(crate) fn new(world: Arc<World>, owner: usize, codec: Codec) -> Self {
        Self {
            world,
            owner,
            codec,
            jobs: Vec::new(),
            compressed: (0, 0),
        }
    }

    /// What will come of a page.
    fn job(&self, op: Op, src: &[u8], unit: usize, ends: u64) -> Job {
        let mut bytes = vec![0; unit];
        let contents = &self.world.contents;
        let len = match op {
            Op::Compress => contents.compress(src, &mut bytes),
            Op::Decompress => contents.decompress(src, &mut bytes),
        };
        let outcome = match (len, op) {
            (Some(len), _) => Outcome::Done(len),
            (None, Op::Compress) => Outcome::Poor,
            (None, Op::Decompress) => Outcome::Software,
        };
        Job {
            ends,
            op,
            bytes,
            outcome,
        }
    }

    /// The pages of a request are compressed: put them into the pool.
    fn store(&mut self) {
        let (pages, bytes) = core::mem::take(&mut self.compressed);
        let costs = &self.world.costs;
        self.world.work(costs.store_ns * pages as f64);
        self.world.hold(costs.locked_ns * costs.store_share * pages as f64);
        self.world.stored(self.owner, bytes, 0);
    }
}

impl Device for Coder {
    fn codec(&self) -> Codec {
        self.codec
    }

    fn batch_size(&self) -> usize {
        self.world.costs.coder.batch()
    }

    fn submit(&mut self, op: Op, src: &[&[u8]], unit: usize, _: u64) {
        let way = match op {
            Op::Compress => Way::Compress,
            Op::Decompress => Way::Decompress,
        };
        let ends = self.world.code(way, src.len());
        let job = |(src, ends): (&&[u8], u64)| Some(self.job(op, src, unit, ends));
        self.jobs = src.iter().zip(ends).map(job).collect();
        if op == Op::Decompress {
            let bytes: usize = src.iter().map(|src| src.len()).sum();
            self.world.stored(self.owner, 0, bytes as u64);
            self.world.work(self.world.costs.load_ns * src.len() as f64);
        }
    }

    /// Spin until the next page is done.
    fn poll(&mut self, _: u64) {
        let next = self.jobs.iter().flatten().map(|job| job.ends).min();
        if let Some(next) = next {
            self.world.spin_until(next);
        }
    }

    fn collect(&mut self, page: usize, out: &mut [u8]) -> Option<Outcome> {
        let job = self.jobs[page].take_if(|job| job.ends <= self.world.now())?;
        let bytes = out.len().min(job.bytes.len());
        out[..bytes].copy_from_slice(&job.bytes[..bytes]);
        if let (Op::Compress, Outcome::Done(bytes)) = (job.op, job.outcome) {
            self.compressed.0 += 1;
            self.compressed.1 += bytes as u64;
        }
        if self.jobs.iter().all(Option::is_none) {
            self.store();
        }
        Some(job.outcome)
    }

    fn cancel(&mut self) {
        self.jobs.clear();
    }
}
