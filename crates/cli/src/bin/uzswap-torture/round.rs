//! One round: a seed, some regions, many steps.

use std::fs::File;
use std::ops::Range;

use uzswap_sys::testing::{Access, Kind, Lodger};
use uzswap_workload::heap::Rng;

use crate::advice::{MADV_DONTNEED, MADV_DONTNEED_LOCKED};
use crate::contents::SECTORS;
use crate::islands::Islands;
use crate::ledger;
use crate::moves::{Move, WEIGHTS, pick};
use crate::region::{Region, sectors};

/// How big a round is.
#[derive(Clone, Copy)]
pub(crate) struct Scale {
    pub(crate) steps: u64,
    pub(crate) pages: u64,
    /// Most processes beside the first. 0: no forks.
    pub(crate) processes: u64,
    pub(crate) islands: u64,
    /// Children that nobody waits for fail.
    pub(crate) spoils: bool,
    /// Each step is told.
    pub(crate) is_verbose: bool,
    /// Moves that are left out: a bit for each place in the table.
    pub(crate) without: u64,
}

const REGIONS: usize = 8;
/// Smallest region: the least that is managed.
const PAGES_MIN: usize = 16;
/// Most pages that are mapped as stacks are: they cannot leave.
const STACK_PAGES: usize = 32;
/// A run is short as a rule.
const SHORT: usize = 16;

pub(crate) struct Round {
    pub(crate) random: Rng,
    pub(crate) scale: Scale,
    pub(crate) regions: Vec<Region>,
    pub(crate) islands: Option<Islands>,
    pub(crate) file: Option<File>,
    /// The child that is waited for, and those that are not.
    pub(crate) child: Option<i32>,
    pub(crate) lodger: Option<Lodger>,
    /// Which round this is, and which child of which step, and so on.
    pub(crate) name: String,
    pub(crate) step: u64,
}

/// A nameless file that the kernel copies through.
pub(crate) fn scratch_file() -> Option<File> {
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
            islands: None,
            file: scratch_file(),
            child: None,
            lodger: None,
            name: format!("round {seed}"),
            step: 0,
        }
    }

    /// Play to the end or to the first difference, which is said.
    pub(crate) fn play(mut self) {
        let steps = self.scale.steps;
        if let Err(line) = self.play_steps(steps).and_then(|()| self.finish()) {
            ledger::fail(&format!("DIFFERENCE in {}, step {}: {line}", self.name, self.step));
        }
    }

    /// So many steps, or until somebody has failed.
    pub(crate) fn play_steps(&mut self, steps: u64) -> Result<(), String> {
        for _ in 0..steps {
            if ledger::has_failed() {
                break;
            }
            self.step()?;
            self.step += 1;
        }
        Ok(())
    }

    /// All of it is compared, and those who are waited for have ended well.
    pub(crate) fn finish(&mut self) -> Result<(), String> {
        self.check_all()?;
        self.part(true)?;
        self.reap(true)
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.random.below(n.max(1) as u64) as usize
    }

    pub(crate) fn id(&mut self) -> u64 {
        self.random.next_u64() >> 8
    }

    /// A region and a run within it, often short.
    fn run(&mut self) -> (usize, Range<usize>) {
        let at = self.below(self.regions.len());
        let pages = self.regions[at].pages();
        let first = self.below(pages);
        let longest = if self.below(4) == 0 {
            pages - first
        } else {
            (pages - first).min(SHORT)
        };
        (at, first..first + 1 + self.below(longest))
    }

    fn step(&mut self) -> Result<(), String> {
        if self.regions.is_empty() {
            self.map(Kind::Heap);
        }
        let number = self.random.below(WEIGHTS);
        let (one, place) = pick(number);
        let (at, pages) = self.run();
        let id = self.id();
        if self.scale.without >> place & 1 == 1 {
            return Ok(());
        }
        ledger::count_step(place);
        if self.scale.is_verbose {
            self.tell(one, at, &pages);
        }
        match one {
            Move::Islands => self.visit_islands(id),
            Move::Fork | Move::ForkAndForget | Move::Orphan | Move::Generations | Move::Storm => self.fork(one, id),
            Move::Vfork | Move::Lodger => self.lodge(one == Move::Vfork, at),
            Move::Outlive => self.outlive(id),
            _ => self.change(one, at, pages, id),
        }
    }

    /// One line about a step.
    fn tell(&self, one: Move, at: usize, pages: &Range<usize>) {
        let (region, id) = (&self.regions[at], std::process::id());
        let (step, addr, len) = (self.step, region.memory.addr(), region.pages());
        println!("{id} {step}: {one:?} {pages:?} of {len} pages at {addr:#x}");
    }

    /// The moves within this process.
    fn change(&mut self, one: Move, at: usize, pages: Range<usize>, id: u64) -> Result<(), String> {
        let region = &mut self.regions[at];
        match one {
            Move::Write => self.write(at, pages, id),
            Move::Check => return region.check(pages),
            Move::Copy => self.copy(at, pages),
            Move::ThroughTheKernel => return self.through_the_kernel(at, pages, id),
            Move::Discard if id.is_multiple_of(8) => region.discard(&pages, MADV_DONTNEED_LOCKED),
            Move::Discard => region.discard(&pages, MADV_DONTNEED),
            Move::Free => {
                let pages = pages.start..pages.end.min(pages.start + SHORT);
                if region.is_writable(&pages) {
                    region.free_and_write(&pages, id);
                }
            }
            Move::Advise => region.advise(&pages, id),
            Move::Populate => return region.populate(pages, id.is_multiple_of(2)),
            Move::Lock => region.lock(pages),
            Move::Guard => region.guard(&pages),
            Move::Replace => region.replace(&pages, Kind::Heap),
            Move::ReplaceByStack if pages.len() <= STACK_PAGES => region.replace(&pages, Kind::Stack),
            Move::ReadOnly if id.is_multiple_of(4) => region.protect(&(0..region.pages()), Access::Read),
            Move::ReadOnly => region.protect(&pages, Access::Read),
            Move::NoAccess => region.protect(&pages, Access::None),
            Move::Open => region.open(),
            Move::Resize => {
                let pages = PAGES_MIN + self.below(self.scale.pages as usize);
                self.regions[at].resize(pages);
            }
            Move::Relocate => return region.relocate(),
            Move::BreakOff if pages.len() >= PAGES_MIN || id.is_multiple_of(4) => {
                let piece = region.break_off(&pages)?;
                self.regions.extend(piece);
            }
            Move::Implant => return self.implant(at, pages),
            Move::Tear => {
                let torn = self.regions.swap_remove(at).tear(&pages);
                self.regions.extend(torn);
            }
            Move::Unmap => drop(self.regions.swap_remove(at)),
            Move::Map => self.map(Kind::Heap),
            Move::MapStack => self.map(Kind::Stack),
            Move::Bequeath => region.bequeath(id),
            _ => {}
        }
        self.keep_few();
        Ok(())
    }

    fn map(&mut self, kind: Kind) {
        let most = match kind {
            Kind::Heap => self.scale.pages as usize,
            Kind::Stack => STACK_PAGES,
        };
        let pages = PAGES_MIN + self.below(most.saturating_sub(PAGES_MIN));
        self.regions.extend(Region::new(pages, kind));
    }

    /// Pieces add up: some go, so that as much is in use as ever.
    fn keep_few(&mut self) {
        while self.regions.len() > REGIONS {
            let at = self.below(self.regions.len());
            self.regions.swap_remove(at);
        }
        // Phases without writing end.
        let at = self.below(self.regions.len());
        if self.below(8) == 0 && at < self.regions.len() {
            self.regions[at].open();
        }
    }

    fn write(&mut self, at: usize, pages: Range<usize>, id: u64) {
        let sparse = 1 + self.below(9);
        let region = &mut self.regions[at];
        for sector in sectors(&pages).step_by(sparse) {
            let page = sector / SECTORS;
            if region.is_writable(&(page..page + 1)) {
                let id = if id.is_multiple_of(5) { 0 } else { id + sector as u64 };
                region.write(sector, id);
            }
        }
    }

    pub(crate) fn check_all(&self) -> Result<(), String> {
        self.regions.iter().try_for_each(|region| region.check(region.all()))
    }

    /// Take a region out, do something to another with it, and put it back. Its place may change.
    fn with_other(
        &mut self,
        at: usize,
        f: impl FnOnce(&mut Region, &mut Region) -> Result<(), String>,
    ) -> Result<(), String> {
        let other = self.below(self.regions.len());
        if at == other {
            return Ok(());
        }
        let mut source = self.regions.swap_remove(other);
        // The last region took the place of the source.
        let at = if at == self.regions.len() { other } else { at };
        let result = f(&mut self.regions[at], &mut source);
        self.regions.push(source);
        result
    }

    fn copy(&mut self, at: usize, pages: Range<usize>) {
        let copied = self.with_other(at, |target, source| {
            if target.is_writable(&pages) {
                for sector in sectors(&pages) {
                    let from = sector % source.ids.len();
                    let page = from / SECTORS;
                    if source.is_readable(&(page..page + 1)) {
                        target.copy_from(sector, source, from);
                    }
                }
            }
            Ok(())
        });
        debug_assert!(copied.is_ok());
    }

    /// Pages of this region move over pages of another.
    fn implant(&mut self, at: usize, pages: Range<usize>) -> Result<(), String> {
        let to = self.below(self.scale.pages as usize);
        self.with_other(at, |source, target| {
            if to + pages.len() > target.pages() {
                return Ok(());
            }
            target.implant(to, source, &pages)
        })
    }

    fn through_the_kernel(&mut self, at: usize, pages: Range<usize>, id: u64) -> Result<(), String> {
        let Some(file) = &self.file else { return Ok(()) };
        let pages = pages.start..pages.end.min(pages.start + SHORT);
        let region = &mut self.regions[at];
        if id.is_multiple_of(2) && region.is_writable(&pages) {
            region.write_through(file, &pages, id)
        } else if region.is_readable(&pages) {
            region.check_through(file, &pages)
        } else {
            Ok(())
        }
    }

    /// Make many mappings, look at some of them, make fewer of them, or let them go.
    fn visit_islands(&mut self, id: u64) -> Result<(), String> {
        let count = 1 + self.random.below(self.scale.islands.max(1)) as usize;
        let (kind, first) = (self.below(8), self.below(count));
        let Some(islands) = &mut self.islands else {
            self.islands = Islands::new(count, id);
            return Ok(());
        };
        match kind {
            0 => islands.merge(),
            1 => {
                islands.merge()?;
                self.islands = None;
                Ok(())
            }
            _ => {
                let first = first.min(islands.count());
                islands.visit(first, count / 4, id)
            }
        }
    }
}
