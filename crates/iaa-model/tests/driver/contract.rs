//! Pages through the compressors' contract: `deflate-iaa` over the driver, over the model, and
//! back. The fallback is the contract's own, so that here every page comes back equal.

use std::sync::Arc;

use uzswap_acomp::{Context, Counts, Error, Op, Request, SCATTER_MAX};
use uzswap_acomp_iaa::{Bounce, DeflateIaa, FALLBACK, IsCanned};
use uzswap_iaa::settings::{CompressionMode, Settings};
use uzswap_iaa_model::fault::Fault;
use uzswap_iaa_model::machine::{Config, Virtual};
use uzswap_iaa_model::options::Options;

use crate::adapters::{BUFFER, Resident, STEP, Time, Way};
use crate::codecs::modes;
use crate::pages::{KINDS, Kind, PAGE, inflate, page};
use crate::world::{Plan, World};

pub type Deflate = DeflateIaa<parking_lot::RawMutex, Resident>;

/// What still pays, as the engine has it.
const UNIT: usize = 3600;
/// A request may take so long, as the engine has it.
const DEADLINE: u64 = 5_000_000;
pub const PAIRS: u32 = 256;

/// A world whose buffers the contract has.
pub struct Rig<C: Time> {
    pub world: Arc<World<C>>,
    pub bounce: Arc<Bounce<parking_lot::RawMutex, Resident>>,
}

impl Rig<Virtual> {
    pub fn new(mode: CompressionMode, options: &str, pairs: u32) -> Self {
        let options: Options = options.parse().unwrap();
        let rig = Self::over(World::new(Plan {
            config: Config {
                permille: 0,
                ..options.config()
            },
            settings: Settings {
                mode,
                ..Settings::default()
            },
            slots: 2048,
            pairs,
            way: if options.may_map { Way::Mapped } else { Way::Written },
        }));
        rig.world.machine.set_permille(options.permille.into());
        rig
    }
}

impl<C: Time> Rig<C> {
    fn over(world: World<C>) -> Self {
        let pairs = std::mem::take(&mut *world.pool.lock().unwrap());
        let bounce = Bounce::new(world.driver.clone(), pairs, BUFFER).expect("the mode is not canned");
        Self {
            world: Arc::new(world),
            bounce: Arc::new(bounce),
        }
    }

    fn context(&self) -> Context<Deflate> {
        Context::with_device(FALLBACK, Some(DeflateIaa::new(self.bounce.clone(), 0)))
    }

    /// One request. For each page its bytes, or why it has none. `is_right` is asked of each.
    fn run(
        &self,
        context: &mut Context<Deflate>,
        op: Op,
        src: &[&[u8]],
        deadline_ns: u64,
        is_right: impl Fn(usize, &[u8]) -> bool,
    ) -> Vec<Result<Vec<u8>, Error>> {
        let unit = if op == Op::Compress { UNIT } else { PAGE };
        let (mut dst, mut found) = (vec![0; src.len() * unit], vec![None; src.len()]);
        let begun = self.world.now();
        let request = Request {
            op,
            src,
            dst: &mut dst,
            unit,
            deadline_ns,
            clock: &|| self.world.tick(),
        };
        context.submit(request).wait(|i, bytes, len| {
            assert!(found[i].is_none(), "page {i} is settled once");
            if len.is_ok_and(|len| !is_right(i, &bytes[..len])) {
                return false;
            }
            found[i] = Some(len.map(|len| bytes[..len].to_vec()));
            true
        });
        let took = self.world.now() - begun;
        assert!(took <= deadline_ns + 2 * STEP, "pages wait for {took} ns");
        found.into_iter().map(|result| result.expect("settled")).collect()
    }

    /// Pages there and back, each compared. Returns how many did not become shorter.
    fn there_and_back(&self, context: &mut Context<Deflate>, pages: &[Vec<u8>], deadline_ns: u64) -> u64 {
        let src: Vec<&[u8]> = pages.iter().map(Vec::as_slice).collect();
        let blocks = self.run(context, Op::Compress, &src, deadline_ns, |_, _| true);
        let stored = || {
            blocks
                .iter()
                .zip(pages)
                .filter_map(|(block, page)| Some((block.as_ref().ok()?, page)))
        };
        for (block, page) in stored() {
            assert_eq!(inflate(block), *page, "any inflater reads the block");
        }
        let (src, kept): (Vec<&[u8]>, Vec<_>) = stored().map(|(block, page)| (block.as_slice(), page)).unzip();
        let back = self.run(context, Op::Decompress, &src, deadline_ns, |i, bytes| bytes == kept[i]);
        assert!(back.iter().zip(&kept).all(|(back, page)| back.as_ref() == Ok(*page)));
        (pages.len() - kept.len()) as u64
    }

    /// All contexts are gone: every buffer comes back, and the driver's counters add up.
    pub fn check_at_rest(&self) -> uzswap_iaa::statistics::Snapshot {
        for queue in self.world.queues() {
            assert!(queue.drain(), "{queue:?} does not drain");
        }
        self.bounce.sweep();
        assert_eq!(self.world.driver.late(), 0);
        assert_eq!(self.world.driver.free_slots(), self.world.driver.slots());
        let snapshot = self.world.driver.snapshot();
        assert_eq!(snapshot.flaw(), None, "{snapshot:?}");
        snapshot
    }
}

fn batch(number: u64) -> Vec<Vec<u8>> {
    let pages = (0..SCATTER_MAX as u64).map(|i| number * SCATTER_MAX as u64 + i);
    pages.map(|i| page(KINDS[i as usize % KINDS.len()], i)).collect()
}

/// So many batches under `options`. Returns what became of the pages, and how many did not shrink.
fn play(mode: &CompressionMode, options: &str, batches: u64) -> (Counts, u64) {
    let rig = Rig::new(mode.clone(), options, PAIRS);
    let mut context = rig.context();
    let mut poor = 0;
    for number in 0..batches {
        poor += rig.there_and_back(&mut context, &batch(number), DEADLINE);
        rig.world.refresh();
    }
    let counts = context.counts();
    assert!(counts.is_valid(), "{counts:?}");
    assert_eq!(counts.cancelled, 0);
    drop(context);
    rig.world.machine.set_permille(0);
    rig.world.refresh();
    let snapshot = rig.check_at_rest();
    assert_eq!(rig.bounce.free(), PAIRS as usize);
    assert!(snapshot.compress.requests + snapshot.decompress.requests <= counts.pages);
    assert!(snapshot.compress.done + snapshot.decompress.done >= counts.done);
    (counts, poor)
}

const PORTALS: [&str; 3] = ["devices=2,wqs=2", "devices=2,mode=dedicated", "devices=2,map=no"];

#[test]
fn without_faults_no_page_goes_to_software() {
    for (mode, options) in modes()[..2]
        .iter()
        .flat_map(|mode| PORTALS.map(|options| (mode, options)))
    {
        let (counts, poor) = play(mode, options, 6);
        assert_eq!((counts.fallbacks(), counts.poor), (0, poor), "{mode:?} {options}");
        // Noise.
        assert_eq!(poor, 6 * SCATTER_MAX as u64 / 6, "{mode:?} {options}");
    }
}

/// With 50 permille of faults no page differs, none waits beyond its deadline, and software has
/// counted what it did.
#[test]
fn with_faults_no_page_differs() {
    let mut all = Vec::new();
    for (seed, mode) in modes()[..2].iter().enumerate() {
        for options in PORTALS {
            let options = format!("{options},faults=50,seed={seed}");
            let (counts, _) = play(mode, &options, 16);
            assert!(counts.done > counts.pages / 2, "{options}: {counts:?}");
            assert!(counts.refused > 0 && counts.wrong > 0, "{options}: {counts:?}");
            all.push(counts);
        }
    }
    let all: Counts = all.into_iter().sum();
    assert!(all.pages > 10_000 && all.late > 0 && all.poor > 0, "{all:?}");
}

#[test]
fn nothing_but_faults_is_softwares() {
    let (counts, _) = play(&CompressionMode::Fixed, "faults=1000,seed=7", 2);
    // A fault may be an answer that is late, but not too late, or a checksum that nobody needs.
    assert!(counts.fallbacks() > 5 * counts.done && counts.late > 0, "{counts:?}");
}

/// The request's deadline passes while the device has the page. Its buffers stay withheld until the
/// answer comes, so that it lands in nobody else's page.
#[test]
fn buffers_of_a_late_page_are_withheld() {
    const LATE: u64 = 50_000_000;
    let rig = Rig::new(CompressionMode::Fixed, "", 3);
    let mut context = rig.context();
    rig.world.machine.inject(Fault::Late { ns: LATE });
    let begun = rig.world.now();
    let pages = [page(Kind::Text, 1)];
    // Sooner than the driver's own deadline.
    assert_eq!(rig.there_and_back(&mut context, &pages, DEADLINE / 2), 0);
    assert_eq!((context.counts().late, context.counts().done), (1, 1));
    assert_eq!((rig.bounce.free(), rig.world.driver.late()), (2, 1));
    for seed in 2..20 {
        let pages = [
            page(Kind::Text, seed),
            page(Kind::Structured, seed),
            page(Kind::Halves, seed),
        ];
        rig.there_and_back(&mut context, &pages, DEADLINE);
        assert_eq!((rig.bounce.free(), rig.world.driver.late()), (2, 1));
    }
    // Of three pages two had buffers, there and back.
    assert_eq!(context.counts().refused, 18 * 2);
    rig.world.machine.advance(begun + 2 * LATE);
    rig.there_and_back(&mut context, &batch(0)[..3], DEADLINE);
    assert_eq!((rig.bounce.free(), rig.world.driver.late()), (3, 0));
    drop(context);
    rig.check_at_rest();
}

#[test]
fn a_request_that_is_given_up_gives_its_buffers_back() {
    let rig = Rig::new(CompressionMode::Fixed, "", 8);
    let mut context = rig.context();
    let pages = batch(0);
    let src: Vec<&[u8]> = pages[..8].iter().map(Vec::as_slice).collect();
    let mut dst = vec![0; 8 * UNIT];
    let request = Request {
        op: Op::Compress,
        src: &src,
        dst: &mut dst,
        unit: UNIT,
        deadline_ns: DEADLINE,
        clock: &|| rig.world.now(),
    };
    context.submit(request).cancel();
    assert_eq!((context.counts().cancelled, rig.bounce.free()), (8, 0));
    assert!(dst.iter().all(|byte| *byte == 0));
    drop(context);
    rig.check_at_rest();
    assert_eq!(rig.bounce.free(), 8);
}

/// A page that no buffer holds is not submitted.
#[test]
fn what_does_not_fit_into_a_buffer_is_softwares() {
    let rig = Rig::new(CompressionMode::Fixed, "", 8);
    let mut context = rig.context();
    let long = vec![7; BUFFER + 1];
    let blocks = rig.run(
        &mut context,
        Op::Compress,
        &[&long, &page(Kind::Text, 1)],
        DEADLINE,
        |_, _| true,
    );
    assert_eq!(inflate(blocks[0].as_ref().unwrap()), long);
    assert_eq!((context.counts().refused, context.counts().done), (1, 1));
    drop(context);
    rig.check_at_rest();
}

#[test]
fn canned_streams_have_no_fallback() {
    let world = World::new(Plan {
        settings: Settings {
            mode: modes()[2].clone(),
            ..Settings::default()
        },
        ..Plan::default()
    });
    let bounce = Bounce::new(world.driver.clone(), Vec::new(), BUFFER);
    assert_eq!(bounce.err(), Some(IsCanned));
}

/// Several threads share the buffers, fewer than they want at once, in real time.
#[test]
fn threads_share_the_buffers() {
    // Long enough for a machine that others use.
    const SECONDS: u64 = 1_000_000_000;
    let options: Options = "devices=2,wqs=2".parse().unwrap();
    let mut plan = Plan {
        config: options.config(),
        pairs: 48,
        ..Plan::default()
    };
    plan.settings.deadline_ns = 2 * SECONDS;
    let rig = Rig::over(World::threads(plan, 2));
    let counts: Counts = std::thread::scope(|scope| {
        let play = |thread: u64| {
            let rig = &rig;
            scope.spawn(move || {
                let mut context = rig.context();
                for turn in 0..4 {
                    let pages = &batch(100 * thread + turn)[..32];
                    rig.there_and_back(&mut context, pages, 10 * SECONDS);
                }
                context.counts()
            })
        };
        let threads = [0, 1, 2, 3].map(play);
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert!(counts.is_valid() && counts.done > 0 && counts.refused > 0, "{counts:?}");
    assert_eq!((counts.wrong, counts.late), (0, 0));
    rig.check_at_rest();
    assert_eq!(rig.bounce.free(), 48);
}
