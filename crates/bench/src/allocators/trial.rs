//! One pool, filled, read, thinned out and compacted.

use std::time::Instant;

use uzswap_acomp::Context;
use uzswap_mm::page::{PAGE_SIZE, same_filled};
use uzswap_mm::sim::VecArena;
use uzswap_mm::zpool::{Handle, PoolKind, Pools};
use uzswap_workload::heap::Rng;

use super::corpus::Corpus;
use super::histogram::Histogram;
use crate::Failure;
use crate::cpu_times::CpuTimes;

/// How many objects of ten are freed before the compaction.
const FREED_OF_TEN: usize = 7;
/// Address space for each page stored, in pages: a zspage has a span of 8, and may hold one object.
const ARENA_SHARE: usize = 8;

/// What a pool costs for what it holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Density {
    pub(crate) pool_bytes: u64,
    pub(crate) stored_bytes: u64,
}

impl Density {
    /// 1 is perfect.
    pub(crate) fn ratio(self) -> f64 {
        self.pool_bytes as f64 / self.stored_bytes as f64
    }
}

/// What one round measured.
pub(crate) struct Figures {
    /// Wall, system and user seconds of storing everything.
    pub(crate) real: f64,
    pub(crate) cpu: CpuTimes,
    pub(crate) store: Histogram,
    pub(crate) load: Histogram,
    /// The most that the pool took.
    pub(crate) pool_max: u64,
    pub(crate) objects: u64,
    /// Of them, stored as they are.
    pub(crate) incompressible: u64,
    /// Pages of one repeated word, which the pool never sees.
    pub(crate) same_filled: u64,
    pub(crate) full: Density,
    pub(crate) thinned: Density,
    pub(crate) compacted: Density,
    pub(crate) relocated: u64,
    pub(crate) compaction_seconds: f64,
}

/// A stored page.
struct Object {
    page: usize,
    handle: Handle,
    len: usize,
}

struct Trial<'a> {
    corpus: &'a Corpus,
    context: Context,
    pools: Pools<parking_lot::RawMutex, VecArena>,
    live: Vec<Object>,
    pool_max: u64,
}

/// One round with the allocator and the compressor of `kind`.
pub(crate) fn run(kind: PoolKind, corpus: &Corpus, seed: u64) -> Result<Figures, Failure> {
    let arena = VecArena::new((corpus.len() + 1) * ARENA_SHARE);
    let mut trial = Trial {
        corpus,
        context: Context::new(kind.compressor.algorithm),
        pools: Pools::new(kind, arena),
        live: Vec::with_capacity(corpus.len()),
        pool_max: 0,
    };
    let (before, start) = (CpuTimes::own()?, Instant::now());
    let store = trial.store_all()?;
    let (real, cpu) = (start.elapsed().as_secs_f64(), CpuTimes::own()?.since(before));
    let objects = trial.live.len() as u64;
    let incompressible = trial.live.iter().filter(|object| object.len == PAGE_SIZE).count() as u64;
    let full = trial.density();
    let mut rng = Rng::new(seed);
    let load = trial.load_all(&mut rng)?;
    trial.thin_out(&mut rng);
    let thinned = trial.density();
    let start = Instant::now();
    let relocated = trial.compact();
    Ok(Figures {
        real,
        cpu,
        store,
        load,
        pool_max: trial.pool_max,
        objects,
        incompressible,
        same_filled: corpus.len() as u64 - objects,
        full,
        thinned,
        relocated,
        compaction_seconds: start.elapsed().as_secs_f64(),
        compacted: trial.density(),
    })
}

impl Trial<'_> {
    /// As the engine stores a page: looked at for one repeated word, compressed, and as it is if it
    /// does not shrink.
    fn store_all(&mut self) -> Result<Histogram, Failure> {
        let mut histogram = Histogram::new();
        let mut block = [0; PAGE_SIZE - 1];
        for index in 0..self.corpus.len() {
            let page = self.corpus.page(index);
            let start = Instant::now();
            if same_filled(page).is_some() {
                continue;
            }
            let bytes = match self.context.compress_page(page, &mut block) {
                Ok(len) => &block[..len],
                Err(_) => page,
            };
            let handle = self.pools.store(bytes);
            histogram.record(start.elapsed().as_nanos() as u64);
            let handle = handle.map_err(|_| Failure::new("the pool is full: give it fewer --mb"))?;
            self.live.push(Object {
                page: index,
                handle,
                len: bytes.len(),
            });
            self.pool_max = self.pool_max.max(self.pools.pages() * PAGE_SIZE as u64);
        }
        match self.live.is_empty() {
            false => Ok(histogram),
            true => Err(Failure::new("every page is one repeated word: nothing is stored")),
        }
    }

    /// In random order, as pages fault. Each must come back as it was.
    fn load_all(&mut self, rng: &mut Rng) -> Result<Histogram, Failure> {
        let mut histogram = Histogram::new();
        let mut page = [0; PAGE_SIZE];
        for at in shuffled(self.live.len(), rng) {
            let object = &self.live[at];
            let start = Instant::now();
            let is_whole = self.pools.with_bytes(object.handle, object.len, |bytes| {
                if object.len == PAGE_SIZE {
                    page.copy_from_slice(bytes);
                    true
                } else {
                    self.context.decompress(bytes, &mut page)
                }
            });
            histogram.record(start.elapsed().as_nanos() as u64);
            if !is_whole || page != self.corpus.page(object.page) {
                return Err(Failure::new(format!("page {} came back different", object.page)));
            }
        }
        Ok(histogram)
    }

    /// Free seven of ten objects, drawn at random.
    fn thin_out(&mut self, rng: &mut Rng) {
        let order = shuffled(self.live.len(), rng);
        let mut stays = vec![true; self.live.len()];
        for &at in &order[..self.live.len() * FREED_OF_TEN / 10] {
            stays[at] = false;
            self.pools.free(self.live[at].handle, self.live[at].len);
        }
        let mut stays = stays.into_iter();
        self.live.retain(|_| stays.next() == Some(true));
    }

    /// As the engine compacts, the list in place of the words. Returns how many objects moved.
    fn compact(&mut self) -> u64 {
        let mut relocated = 0;
        self.pools.begin_compaction();
        for object in &mut self.live {
            if let Some(handle) = self.pools.relocate(object.handle, object.len) {
                object.handle = handle;
                relocated += 1;
            }
        }
        self.pools.end_compaction();
        relocated
    }

    fn density(&self) -> Density {
        Density {
            pool_bytes: self.pools.pages() * PAGE_SIZE as u64,
            stored_bytes: self.live.iter().map(|object| object.len as u64).sum(),
        }
    }
}

/// Every number below `len`, in random order.
fn shuffled(len: usize, rng: &mut Rng) -> Vec<usize> {
    let mut order: Vec<usize> = (0..len).collect();
    for last in (1..len).rev() {
        order.swap(last, rng.below(last as u64 + 1) as usize);
    }
    order
}

#[cfg(test)]
mod test {
    use super::*;
    use uzswap_acomp::Algorithm;
    use uzswap_mm::zpool::ZpoolType;

    #[test]
    fn every_allocator_gives_back_what_it_took() {
        let corpus = Corpus::heap_like(3, 4 << 20);
        for zpool in ZpoolType::ALL {
            let kind = PoolKind {
                zpool,
                compressor: Algorithm::Lz4 { acceleration: 1 }.into(),
            };
            let figures = run(kind, &corpus, 1).expect("pages that come back");
            assert_eq!(figures.objects + figures.same_filled, 1024, "{zpool}");
            assert!(figures.full.pool_bytes <= figures.pool_max, "{zpool}");
            assert!(figures.full.ratio() >= 1.0, "{zpool}");
            assert!(figures.compacted.ratio() <= figures.thinned.ratio(), "{zpool}");
        }
    }
}
