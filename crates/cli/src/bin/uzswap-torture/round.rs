//! One round: a seed, some regions, many steps.

use std::fs::File;

use uzswap_sys::testing;
use uzswap_workload::heap::Rng;

use crate::region::{Region, SECTORS};

/// How big a round is.
#[derive(Clone, Copy)]
pub(crate) struct Scale {
    pub(crate) steps: u64,
    pub(crate) pages: u64,
    pub(crate) forks: bool,
}

/// What became of a round.
#[derive(Default)]
pub(crate) struct Outcome {
    pub(crate) steps: u64,
    pub(crate) forks: u64,
    pub(crate) difference: Option<String>,
}

const REGIONS: usize = 8;
/// Smallest region: the least that is managed.
const PAGES_MIN: u64 = 16;
/// Exit status of a forked child that found a difference.
const DIFFERENT: u8 = 42;

pub(crate) struct Round {
    random: Rng,
    scale: Scale,
    regions: Vec<Region>,
    file: Option<File>,
    child: Option<i32>,
    outcome: Outcome,
}

/// A nameless file that the kernel copies through.
fn scratch_file() -> Option<File> {
    use std::os::unix::fs::OpenOptionsExt;
    const O_TMPFILE: i32 = 0o20_200_000;
    File::options()
        .read(true)
        .write(true)
        .custom_flags(O_TMPFILE)
        .open("/var/tmp")
        .ok()
}

impl Round {
    pub(crate) fn new(seed: u64, scale: Scale) -> Self {
        Self {
            random: Rng::new(seed),
            scale,
            regions: Vec::new(),
            file: scratch_file(),
            child: None,
            outcome: Outcome::default(),
        }
    }

    /// Play to the end or to the first difference.
    pub(crate) fn play(mut self) -> Outcome {
        while self.outcome.steps < self.scale.steps && self.outcome.difference.is_none() {
            if let Err(line) = self.step() {
                self.outcome.difference = Some(format!("step {}: {line}", self.outcome.steps));
            }
            self.outcome.steps += 1;
        }
        let last = self.check_all().and_then(|()| self.reap(true));
        self.outcome.difference = self.outcome.difference.take().or(last.err());
        self.outcome
    }

    fn below(&mut self, n: usize) -> usize {
        self.random.below(n.max(1) as u64) as usize
    }

    fn id(&mut self) -> u64 {
        self.random.next_u64() >> 8
    }

    fn new_region(&mut self) {
        let pages = PAGES_MIN + self.random.below(self.scale.pages.saturating_sub(PAGES_MIN).max(1));
        self.regions.extend(Region::new(pages as usize));
    }

    /// A region, a first page and how many pages: a run within it, often short.
    fn run(&mut self) -> (usize, usize, usize) {
        let region = self.below(self.regions.len());
        let pages = self.regions[region].pages();
        let first = self.below(pages);
        let longest = if self.below(4) == 0 {
            pages - first
        } else {
            (pages - first).min(16)
        };
        (region, first, 1 + self.below(longest))
    }

    fn step(&mut self) -> Result<(), String> {
        if self.regions.is_empty() {
            self.new_region();
        }
        let op = self.below(100);
        let (at, page, pages) = self.run();
        let id = self.id();
        // Read-only memory cannot be reclaimed, so it does not stay so for long.
        if !self.regions[at].is_writable && self.below(2) == 0 {
            self.regions[at].protect(true);
        }
        match op {
            0..30 => self.write(at, page, pages, id),
            30..60 => self.check(at, page, pages)?,
            60..68 => self.copy(at, page, pages),
            68..73 => self.through_the_kernel(at, page, pages, id)?,
            73..78 if self.regions[at].is_writable => self.regions[at].discard(page, pages),
            78..80 if self.regions[at].is_writable => self.regions[at].free_and_write(page, pages.min(16), id),
            80..83 if self.regions[at].is_writable => self.regions[at].replace(page, pages),
            83..86 => {
                let is_writable = !self.regions[at].is_writable;
                self.regions[at].protect(is_writable);
            }
            // mremap works on one mapping, and protection or replacement may have split it: then it is refused.
            86..90 => {
                let pages = PAGES_MIN as usize + self.below(self.scale.pages as usize);
                self.regions[at].resize(pages);
            }
            90..93 => self.regions[at].relocate()?,
            93..95 => drop(self.regions.swap_remove(at)),
            95 if self.below(4) == 0 => self.regions[at].keep_from_children(),
            95..98 if self.regions.len() < REGIONS => self.new_region(),
            98.. if self.below(4) == 0 => self.fork()?,
            _ => {}
        }
        Ok(())
    }

    fn write(&mut self, at: usize, page: usize, pages: usize, id: u64) {
        if !self.regions[at].is_writable {
            return;
        }
        let sparse = 1 + self.below(9);
        for sector in (page * SECTORS..(page + pages) * SECTORS).step_by(sparse) {
            let id = if id.is_multiple_of(5) { 0 } else { id + sector as u64 };
            self.regions[at].write(sector, id);
        }
    }

    fn check(&self, at: usize, page: usize, pages: usize) -> Result<(), String> {
        (page * SECTORS..(page + pages) * SECTORS).try_for_each(|sector| self.regions[at].check(sector))
    }

    fn check_all(&self) -> Result<(), String> {
        (0..self.regions.len()).try_for_each(|at| self.check(at, 0, self.regions[at].pages()))
    }

    fn copy(&mut self, at: usize, page: usize, pages: usize) {
        let other = self.below(self.regions.len());
        if at == other || !self.regions[at].is_writable {
            return;
        }
        let source = self.regions.swap_remove(other);
        // The last region took the place of the source.
        let at = if at == self.regions.len() { other } else { at };
        for sector in page * SECTORS..(page + pages) * SECTORS {
            let from = sector % source.sectors();
            self.regions[at].copy_from(sector, &source, from);
        }
        self.regions.push(source);
    }

    fn through_the_kernel(&mut self, at: usize, page: usize, pages: usize, id: u64) -> Result<(), String> {
        let Some(file) = &self.file else { return Ok(()) };
        let (sector, count) = (page * SECTORS, pages.min(16) * SECTORS);
        if id.is_multiple_of(2) && self.regions[at].is_writable {
            self.regions[at].write_through(file, sector, count, id)
        } else {
            self.regions[at].check_through(file, sector, count)
        }
    }

    /// Fork; both sides go on, each with its own copy of everything.
    fn fork(&mut self) -> Result<(), String> {
        self.reap(false)?;
        if !self.scale.forks || self.child.is_some() {
            return Ok(());
        }
        let steps = self.random.below(200);
        let child = testing::fork_and(|| {
            self.scale = Scale {
                steps,
                forks: self.random.below(3) == 0,
                ..self.scale
            };
            self.outcome = Outcome::default();
            self.child = None;
            let regions = std::mem::take(&mut self.regions);
            self.regions = regions.into_iter().filter_map(Region::inherited).collect();
            self.file = scratch_file();
            let before = self.check_all();
            while before.is_ok() && self.outcome.steps < steps {
                if let Err(line) = self.step() {
                    println!("in a forked child, step {}: {line}", self.outcome.steps);
                    return DIFFERENT;
                }
                self.outcome.steps += 1;
            }
            match before.and_then(|()| self.check_all()).and_then(|()| self.reap(true)) {
                Ok(()) => 0,
                Err(line) => {
                    println!("in a forked child: {line}");
                    DIFFERENT
                }
            }
        });
        self.child = child.ok();
        self.outcome.forks += u64::from(self.child.is_some());
        Ok(())
    }

    fn reap(&mut self, block: bool) -> Result<(), String> {
        let Some(pid) = self.child else { return Ok(()) };
        match testing::reap(pid, block) {
            None => Ok(()),
            Some(0) => {
                self.child = None;
                Ok(())
            }
            Some(status) => Err(format!("a forked child ended with status {status}")),
        }
    }
}
