//! A program and its engine: the engine against a plain copy of the program's memory, in a
//! simulated machine with limits so small that everything is on its way somewhere all the time. For
//! the property tests and the fuzzer.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

use lock_api::RawMutex;
use uzswap_acomp::Algorithm;

use super::{MakeAcomp, SimMachine, VecArena};
use crate::flight::underway::Bring;
use crate::page::{PAGE_SIZE, PageRange, Vpn};
use crate::policy::tunables::Density;
use crate::swapin::bring::Brought;
use crate::swapin::fault::Step;
use crate::vmstat::Item;
use crate::zpool::{PoolKind, ZpoolType};
use crate::{Change, Config, Effort, Fault, Mm, Portions, Replacement, SERVERS_MAX, SwapOut, Tunables, Worker};

mod steps;

pub use steps::OPS;

/// First page of the program's memory.
pub const BASE: u64 = if cfg!(miri) { 0x55_0000 } else { 0x5555_0000 };
/// Pages of it.
pub const PAGES: u64 = if cfg!(miri) { 32 } else { 96 };

/// Faults after which a page must be there.
const TRIES: u32 = 8;
/// The same while steps fail: of 1000 tries that fail half the time, none succeeds only once in
/// 2^1000 runs.
const TRIES_WHILE_FAILING: u32 = 1000;

fn config(swap_pages: u64, tunables: &'static Tunables) -> Config {
    Config {
        portions: Portions {
            folio_order: 4,
            give_up: 32,
        },
        page_cluster: 3,
        store_batch: 8,
        staging_slots: 64,
        staged_most: 16,
        zswap_segment: 64,
        swap_pages,
        writes_plain: swap_pages == 20,
        pool: PoolKind {
            zpool: ZpoolType::Zsmalloc,
            compressor: algorithm(0).into(),
        },
        replacement: Replacement::default(),
        tunables,
    }
}

/// Every compressor, or under Miri, which runs no C, what stands for zstd there.
fn algorithm(seed: u64) -> Algorithm {
    if cfg!(miri) {
        let level = (seed % 3) as i32 + 1;
        return Algorithm::Zstd { level };
    }
    match seed % 4 {
        0 => Algorithm::Lz4 { acceleration: 1 },
        1 => Algorithm::Zstd { level: 1 },
        2 => Algorithm::Words,
        _ => Algorithm::Deflate { level: 1 },
    }
}

/// Few pages have a say, so that both compressors are used.
const HASTY: Tunables = Tunables {
    density: Density {
        judge_every: 16,
        probe_every: 2,
        watched_least: 1,
        ..Tunables::DEFAULT.density
    },
    ..Tunables::DEFAULT
};

/// How far a fault is.
#[derive(Default)]
enum Serving {
    #[default]
    Idle,
    Begun(Waiting, Bring),
    Brought(Waiting, Brought),
}

/// A page that is waited for, and how often whoever waits for it had been woken when its fault
/// began.
#[derive(Clone, Copy)]
struct Waiting {
    vpn: Vpn,
    woken: u64,
}

impl Waiting {
    fn begin(machine: &SimMachine, vpn: Vpn) -> Self {
        Self {
            vpn,
            woken: machine.woken(vpn),
        }
    }

    /// Its fault is over: whoever waits looks again, or nobody will ever serve it.
    fn end(self, machine: &SimMachine, fault: Fault) {
        let Self { vpn, woken } = self;
        assert!(
            fault != Fault::Served || machine.woken(vpn) > woken,
            "{vpn:?} was served and nobody woken"
        );
    }
}

/// The program and its engine.
pub struct World<R> {
    /// The engine.
    pub mm: Mm<R, SimMachine>,
    /// The worker of its fault thread, which reclaims too.
    pub worker: Worker<SimMachine>,
    /// Other threads that serve faults, each somewhere in the middle of one.
    servers: Vec<(Worker<SimMachine>, Serving)>,
    last_served: Vpn,
    /// What the program wrote; other pages are zeros.
    shadow: BTreeMap<Vpn, Vec<u8>>,
    tries: u32,
    /// Mappings changed while the engine was frozen, which leaves them out of its care until
    /// kswapd's next look at them.
    has_gaps: bool,
}

/// Bytes of a line of text and of a word of noise: many under Miri, which counts steps and not
/// bytes.
const LINE: usize = if cfg!(miri) { 1024 } else { 61 };
const WORD: usize = if cfg!(miri) { 256 } else { 8 };

/// Contents of kind `seed % 4`: zeros, one word over and over or text, half noise, noise.
pub fn contents(seed: u64) -> Vec<u8> {
    let mut x = seed | 1;
    let mut noise = || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x.to_ne_bytes()
    };
    let mut page = vec![0; PAGE_SIZE];
    match seed % 4 {
        0 => {}
        1 if (seed / 4).is_multiple_of(3) => page.fill(seed as u8),
        1 => (0..)
            .zip(page.chunks_mut(LINE))
            .for_each(|(i, line)| line.fill((seed + i) as u8)),
        2 => page
            .chunks_mut(2 * WORD)
            .for_each(|chunk| chunk[..8].copy_from_slice(&noise())),
        _ => page
            .chunks_mut(WORD)
            .for_each(|chunk| chunk[..8].copy_from_slice(&noise())),
    }
    page
}

impl<R: RawMutex> World<R> {
    /// A program of [`PAGES`] pages, with a first pool of `arena_pages` and a device of
    /// `swap_pages` pages.
    pub fn new(swap_pages: u64, arena_pages: usize) -> Self {
        Self::tuned(swap_pages, arena_pages, &HASTY)
    }

    /// The same, which decides by `tunables`.
    pub(crate) fn tuned(swap_pages: u64, arena_pages: usize, tunables: &'static Tunables) -> Self {
        Self::on(SimMachine::default(), arena_pages, config(swap_pages, tunables))
    }

    /// As [`new`](Self::new), where pages leave in another order.
    pub fn replacing(swap_pages: u64, arena_pages: usize, replacement: Replacement) -> Self {
        let config = Config {
            replacement,
            ..config(swap_pages, &HASTY)
        };
        Self::on(SimMachine::default(), arena_pages, config)
    }

    /// The same, on a machine with accelerators.
    pub fn accelerated(swap_pages: u64, arena_pages: usize, make: Box<MakeAcomp>) -> Self {
        let machine = SimMachine::default();
        machine.make_acomp.replace(Some(make));
        Self::on(machine, arena_pages, config(swap_pages, &HASTY))
    }

    fn on(machine: SimMachine, arena_pages: usize, config: Config) -> Self {
        let mm = Mm::new(machine, VecArena::new(arena_pages), config, SimMachine::vmstat());
        mm.manage(PageRange::new(Vpn::new(BASE), PAGES));
        Self {
            worker: Worker::new(&config, mm.machine()),
            last_served: Vpn::new(BASE),
            servers: (1..SERVERS_MAX)
                .map(|n| (Worker::for_server(&config, mm.machine(), n), Serving::Idle))
                .collect(),
            mm,
            shadow: BTreeMap::new(),
            tries: TRIES,
            has_gaps: false,
        }
    }

    /// Of 1000 steps of the machine about `per_mille` fail from now on.
    pub fn set_fail_rate(&mut self, seed: u64, per_mille: u64) {
        self.mm.machine().fail.set_rate(seed, per_mille);
        self.tries = if per_mille == 0 { TRIES } else { TRIES_WHILE_FAILING };
    }

    /// The end of a freeze, and kswapd's look at the mappings.
    fn thaw(&mut self) {
        self.mm.thaw();
        self.has_gaps = false;
        self.mm.manage(PageRange::new(Vpn::new(BASE), PAGES));
    }

    /// What a program's access does: fault until the page is there.
    fn touch(&mut self, vpn: Vpn) {
        for _ in 0..self.tries {
            if self.mm.machine().read(vpn).is_some() {
                return;
            }
            let waiting = Waiting::begin(self.mm.machine(), vpn);
            let fault = self.mm.fault(&mut self.worker, vpn);
            waiting.end(self.mm.machine(), fault);
            if fault == Fault::Retry {
                // It may wait for whoever brings the page, or for the end of a fork.
                self.finish_serving();
                if self.mm.is_frozen() {
                    self.thaw();
                }
            }
            let lost = |item| self.mm.stat().get(item);
            assert!(
                fault != Fault::Lost,
                "{vpn:?} is lost: {} blocks damaged, {} pages unreadable",
                lost(Item::DecompressFail),
                lost(Item::SwapReadFail)
            );
        }
        panic!("{vpn:?} faults for ever");
    }

    /// What a program's write to a page that is there does.
    fn unprotect(&mut self, vpn: Vpn) {
        for _ in 0..self.tries {
            if !self.mm.machine().protected.borrow().contains(&vpn) {
                return;
            }
            let waiting = Waiting::begin(self.mm.machine(), vpn);
            let fault = self.mm.write_fault(vpn, vpn.number().is_multiple_of(2));
            waiting.end(self.mm.machine(), fault);
        }
        panic!("{vpn:?} is protected for ever");
    }

    /// Mostly the page above or below the last one that a fault of another thread began at: windows
    /// of several threads overlap then.
    fn near_the_last(&mut self, seed: u64, vpn: Vpn) -> Vpn {
        let at = self.last_served.number() - BASE;
        self.last_served = match seed % 8 {
            0 | 1 => vpn,
            2 | 3 => Vpn::new(BASE + (at + PAGES - 1) % PAGES),
            _ => Vpn::new(BASE + (at + 1) % PAGES),
        };
        self.last_served
    }

    /// The next step of a fault at `vpn` in one of the other threads, or of the one that it is
    /// serving.
    fn serve(&mut self, server: usize, vpn: Vpn) {
        let mm = &self.mm;
        let (worker, serving) = &mut self.servers[server];
        let (waiting, step) = match core::mem::take(serving) {
            Serving::Idle if mm.machine().read(vpn).is_some() => return,
            Serving::Idle => (Waiting::begin(mm.machine(), vpn), mm.begin_fault(worker, vpn)),
            Serving::Begun(waiting, bring) => {
                let brought = mm.bring(worker, bring);
                *serving = Serving::Brought(waiting, brought);
                return;
            }
            Serving::Brought(waiting, brought) => (waiting, mm.publish_brought(worker, brought)),
        };
        match step {
            Step::Bring(bring) => *serving = Serving::Begun(waiting, bring),
            Step::Done(fault) => {
                waiting.end(mm.machine(), fault);
                assert!(fault != Fault::Lost, "{:?} is lost", waiting.vpn);
            }
        }
    }

    /// Have all faults served, as they must be before a change of the mappings is applied.
    fn finish_serving(&mut self) {
        for server in 0..self.servers.len() {
            while !matches!(self.servers[server].1, Serving::Idle) {
                self.serve(server, Vpn::new(BASE));
            }
        }
    }

    /// Read a page: it must be what was written last.
    pub fn check(&mut self, vpn: Vpn) {
        self.touch(vpn);
        let seen = self.mm.machine().read(vpn).unwrap();
        match self.shadow.get(&vpn) {
            Some(expected) => assert!(seen[..] == expected[..], "{vpn:?} reads back different"),
            None => assert!(seen[..] == [0; PAGE_SIZE], "{vpn:?} should read as zeros"),
        }
    }

    /// Write a page.
    pub fn write(&mut self, vpn: Vpn, seed: u64) {
        self.write_bytes(vpn, contents(seed));
    }

    /// Write these bytes to a page.
    pub fn write_bytes(&mut self, vpn: Vpn, bytes: Vec<u8>) {
        self.touch(vpn);
        self.unprotect(vpn);
        self.mm
            .machine()
            .pages
            .borrow_mut()
            .get_mut(&vpn)
            .unwrap()
            .copy_from_slice(&bytes);
        self.shadow.insert(vpn, bytes);
    }

    /// MADV_DONTNEED.
    pub fn remove(&mut self, range: PageRange) {
        self.finish_serving();
        self.mm.change(Change::Remove(range));
        self.forget(range);
    }

    /// What the kernel does to the pages of a range that is unmapped or emptied.
    pub fn forget(&mut self, range: PageRange) {
        let is_elsewhere = |vpn: &Vpn| !range.contains(*vpn);
        self.mm.machine().pages.borrow_mut().retain(|vpn, _| is_elsewhere(vpn));
        self.mm.machine().protected.borrow_mut().retain(is_elsewhere);
        self.shadow.retain(|vpn, _| is_elsewhere(vpn));
    }

    /// What it does to those of one that is moved.
    pub fn carry(&mut self, from: PageRange, to: Vpn) {
        self.forget(PageRange::new(to, from.pages()));
        let key = |vpn: Vpn| to.add(vpn.number() - from.start.number());
        let mut pages = self.mm.machine().pages.borrow_mut();
        let moved: Vec<_> = pages.keys().copied().filter(|vpn| from.contains(*vpn)).collect();
        let mut protected = self.mm.machine().protected.borrow_mut();
        for vpn in moved {
            let page = pages.remove(&vpn).unwrap();
            pages.insert(key(vpn), page);
            if protected.remove(&vpn) {
                protected.insert(key(vpn));
            }
        }
        drop((pages, protected));
        let moved: Vec<_> = self.shadow.keys().copied().filter(|vpn| from.contains(*vpn)).collect();
        for vpn in moved {
            let page = self.shadow.remove(&vpn).unwrap();
            self.shadow.insert(key(vpn), page);
        }
    }

    /// mremap to another place and back to the front: the second half swaps places with the first.
    pub fn remap(&mut self, from: PageRange, to: Vpn) {
        self.finish_serving();
        self.has_gaps |= self.mm.is_frozen();
        self.carry(from, to);
        self.mm.change(Change::Unmap(PageRange::new(to, from.pages())));
        self.mm.change(Change::Remap { from, to });
        self.mm.change(Change::Unmap(from));
        self.mm.manage(from);
    }

    /// Two threads at once: one unmaps X, or moves it to Z, another's mremap from Y is given X, and
    /// is reported first.
    pub fn cross(&mut self, pages: u64, moves: bool) {
        self.finish_serving();
        if self.has_gaps {
            self.thaw();
        }
        self.has_gaps = self.mm.is_frozen();
        let [x, y, z] = [0, 1, 2].map(|third| PageRange::new(Vpn::new(BASE + third * PAGES / 3), pages));
        self.mm.change(Change::Unmap(z));
        self.forget(z);
        if moves {
            self.carry(x, z.start);
        } else {
            self.forget(x);
            self.mm.manage(z);
        }
        self.carry(y, x.start);
        let (landing, departure) = (
            Change::Remap { from: y, to: x.start },
            match moves {
                true => Change::Remap { from: x, to: z.start },
                false => Change::Unmap(x),
            },
        );
        self.mm.change(landing);
        self.mm.change(departure);
        if moves {
            self.mm.change(Change::Unmap(x));
        }
        self.mm.change(Change::Unmap(y));
        self.mm.manage(y);
    }

    /// The end of a run: nothing fails, is pinned or frozen any more. All pages read back, and all
    /// can be reclaimed.
    pub fn finish(&mut self) {
        self.set_fail_rate(0, 0);
        self.finish_serving();
        self.thaw();
        let machine = self.mm.machine();
        machine.pinned.borrow_mut().clear();
        machine.disk_fails.set(false);
        self.mm.end_sharing();
        self.mm.set_writeback(true);
        self.mm.set_enabled(true);
        self.mm.set_swap_out(SwapOut::Whole);
        self.check_all();
        if self.mm.config().swap_pages >= PAGES {
            // Straight to the device, where there is room for all: what stays is on no list.
            self.mm.set_pool_limit(0, 0);
            // Not until rounds come to nothing: the first may find the staging range full of what
            // was taken back, a run each.
            let mut fruitless = 0;
            while fruitless < 3 {
                let scan = self.mm.shrink(&mut self.worker, 32, Effort::Urgent);
                let is_fruitful = scan.reclaimed > 0 || scan.isolated > 0;
                fruitless = if is_fruitful { 0 } else { fruitless + 1 };
            }
            let gauges = self.mm.gauges();
            assert_eq!(gauges.resident + gauges.staged, 0, "every page can be reclaimed");
            self.check_all();
            // And through the pool: what is stored is on a list that writeback finds it on.
            self.mm.set_pool_limit(u64::MAX, u64::MAX);
            for _ in 0..2 * PAGES {
                self.mm.shrink(&mut self.worker, 32, Effort::Requested);
            }
            self.mm.tick();
            while self.mm.writeback(&mut self.worker, 64) > 0 {}
            assert_eq!(self.mm.gauges().stored, 0, "every stored page can be written back");
            self.check_all();
        }
    }

    /// Read all pages; then nothing is stored any more but for pages that are mapped as well.
    pub fn check_all(&mut self) {
        for page in 0..PAGES {
            self.check(Vpn::new(BASE + page));
        }
        let gauges = self.mm.gauges();
        assert_eq!(gauges.staged, self.mm.machine().staged_frames() as u64);
        // Pages that were mapped while their range was not managed (a remap during a freeze) have
        // no word.
        assert!(gauges.resident <= self.mm.machine().pages.borrow().len() as u64);
        assert!(gauges.active + gauges.cached + gauges.shared <= gauges.resident);
        assert_eq!(gauges.stored, gauges.cached, "all of it was loaded again");
        self.mm.set_swap_cache(false);
        let gauges = self.mm.gauges();
        assert_eq!(
            (gauges.stored, gauges.pool, gauges.swapped),
            (0, 0, 0),
            "nothing is kept"
        );
        self.mm.set_swap_cache(true);
    }
}
