//! What one process has: an engine, and two threads.
//!
//! ```text
//! program's threads   Region::new -- mail --> kswapd registers it
//!                     drop, discard: `serving`, then the engine's lock
//!                     a page that is out: they wait in the kernel
//! fault thread        reads faults, makes room, gives pages back    | both have the descriptors,
//! kswapd              reclaims, registers, keeps the accounts       | nobody else has
//! ```
//! The program's threads hold no lock of ours while a signal handler of theirs may run.

use std::mem::ManuallyDrop;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc;

use lock_api::Mutex;
use uzswap_backing::{PoolArena, Seal, SwapFile};
use uzswap_ctl::{ENV_GROUP, defaults};
use uzswap_mm::machine::Memory;
use uzswap_mm::page::{PAGE_SIZE, PageRange};
use uzswap_mm::vmstat::{self, Item, Vmstat};
use uzswap_mm::{Change, Mm, Worker};
use uzswap_sys::Errno;
use uzswap_sys::cell::Leaked;
use uzswap_sys::file::{File, note_stderr, write_stderr};
use uzswap_sys::futex::{self, Mailbox, RawLock};
use uzswap_sys::procfs::ProcSelf;
use uzswap_sys::region::{self, Pages, without_signals};
use uzswap_sys::uffd::{FEATURE_MOVE, FEATURE_POISON, Uffd};
use uzswap_sys::words::words_wiped_on_fork;

use crate::charge::Charge;
use crate::error::{Error, USERFAULTFD};
use crate::fault::FaultThread;
use crate::kswapd::{Kswapd, mail};
use crate::machine::{Fds, RegionMachine};
use crate::settings::{Plan, Settings, check_limit};

/// Stacks of our threads: what they hold is in the heap.
const STACK: usize = 512 << 10;
/// How long an answer is waited for before it is asked again.
const ANSWER_NS: u64 = 10_000_000;
/// At most this part of the limit can be pinned.
const PINNED_SHARE: u64 = 2;

static PAGER: Leaked<Pager> = Leaked::new();
/// Of this process: the number of its pager, and 1 while a thread starts one. Both are 0 again in a
/// child, whose process id may be that of its parent (in a namespace of its own, or reused).
static OWN: Leaked<&[AtomicU64]> = Leaked::new();
const NUMBER: usize = 0;
const STARTING: usize = 1;

/// What one process has.
pub(crate) struct Pager {
    /// As no pager that the process, or those it was forked from, had before.
    number: u64,
    /// Both threads run.
    is_ready: AtomicBool,
    pub(crate) mm: Mm<RawLock, RegionMachine>,
    pub(crate) charge: Charge,
    pub(crate) mail: Mailbox,
    /// Held while faults are served, and by who changes which regions there are.
    pub(crate) serving: Mutex<RawLock, ()>,
    /// Who wants it for such a change: they go first.
    changing: AtomicU32,
    /// One region at a time is registered.
    asking: Mutex<RawLock, ()>,
    request: Request,
    /// How often kswapd has come by.
    rounds: AtomicU64,
    regions: AtomicUsize,
    bytes: AtomicUsize,
}

/// What has been done, ever.
#[derive(Clone, Copy)]
pub(crate) struct Progress {
    /// Pages that left, to the pool or to the swap file.
    pub(crate) reclaimed: u64,
    /// Rounds of kswapd.
    pub(crate) rounds: u64,
}

/// What kswapd is to register.
#[derive(Default)]
struct Request {
    range: [AtomicUsize; 2],
    /// [`WAITS`], [`DONE`], or an errno.
    answer: AtomicU32,
}

const DONE: u32 = 0;
const WAITS: u32 = u32::MAX;

/// Whether this process runs under `uzswap run`, whose agent pages all of its memory.
pub(crate) fn is_under_agent() -> bool {
    std::env::var_os(ENV_GROUP).is_some()
}

/// The pager of this process, if it has one.
pub(crate) fn started() -> Option<&'static Pager> {
    PAGER
        .get()
        .filter(|pager| pager.is_ours() && pager.is_ready.load(Ordering::Acquire))
}

/// The pager of this process.
///
/// # Errors
/// There is none, and none can be had.
pub(crate) fn running() -> Result<&'static Pager, Error> {
    match started() {
        Some(pager) => Ok(pager),
        None => start_once(&Settings::default()).map(|(pager, _)| pager),
    }
}

/// As [`Settings::start`].
pub(crate) fn start(settings: &Settings) -> Result<(), Error> {
    let plan = settings.plan()?;
    if is_under_agent() {
        note_agent(plan.limit);
        return Ok(());
    }
    match start_once(settings)? {
        (_, Begun::Now) => Ok(()),
        (_, Begun::Before) => Err(Error::Value(
            "settings: they are chosen before the first region and limit of a process; only the limit changes later"
                .into(),
        )),
    }
}

/// As [`crate::limit`].
pub(crate) fn limit(bytes: u64) -> Result<(), Error> {
    check_limit(bytes)?;
    if is_under_agent() {
        note_agent(bytes);
        return Ok(());
    }
    let pager = match started() {
        Some(pager) => pager,
        None => start_once(&Settings::default().limit(bytes))?.0,
    };
    pager.charge.set_limit(bytes);
    pager.mail.post(mail::RECLAIM);
    Ok(())
}

fn note_agent(limit: u64) {
    static NOTED: AtomicU32 = AtomicU32::new(0);
    if NOTED.swap(1, Ordering::Relaxed) == 0 {
        note_stderr();
        write_stderr(&format!(
            "uzswap: the limit of {limit} bytes is not used: this process runs under uzswap run, whose limit holds\n"
        ));
    }
}

/// Whether a pager has the settings of who asked for it, or those of another thread.
enum Begun {
    Now,
    Before,
}

/// Start a pager, unless another thread does so first.
fn start_once(settings: &Settings) -> Result<(&'static Pager, Begun), Error> {
    let plan = settings.plan()?;
    let starting = &own_words().map_err(Error::system("memory that no child gets"))?[STARTING];
    while starting.swap(1, Ordering::Acquire) == 1 {
        std::thread::yield_now();
    }
    let pager = match started() {
        Some(pager) => Ok((pager, Begun::Before)),
        None => start_threads(plan, settings.swap.clone()).map(|pager| (pager, Begun::Now)),
    };
    starting.store(0, Ordering::Release);
    pager
}

/// [`OWN`], of whoever comes first.
fn own_words() -> Result<&'static [AtomicU64], Errno> {
    match OWN.get() {
        Some(words) => Ok(words),
        None => words_wiped_on_fork(PAGE_SIZE).map(|words| *OWN.get_or_set(|| words)),
    }
}

fn start_threads(plan: Plan, swap: Option<PathBuf>) -> Result<&'static Pager, Error> {
    let (tell, told) = mpsc::channel();
    spawn("uzswap-fault", move || match open(plan, swap.as_deref()) {
        Ok((pager, worker)) => {
            let kswapd = Kswapd::new(pager);
            match spawn("uzswap-kswapd", move || kswapd.run()) {
                Ok(()) => {
                    let _ = tell.send(Ok(pager));
                    drop(tell);
                    FaultThread::new(pager, worker).run()
                }
                Err(error) => drop(tell.send(Err(error))),
            }
        }
        Err(error) => drop(tell.send(Err(error))),
    })?;
    let pager: &'static Pager = told.recv().unwrap_or(Err(Error::System {
        what: "a thread".into(),
        errno: Errno::SRCH.raw_os_error(),
    }))?;
    pager.is_ready.store(true, Ordering::Release);
    Ok(pager)
}

/// Run `body` in a thread that gets none of the program's signals. If it ends by a panic the
/// process does: a page must never read back wrong because its pager is confused.
fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> Result<(), Error> {
    struct Watched;
    impl Drop for Watched {
        fn drop(&mut self) {
            if std::thread::panicking() {
                std::process::abort();
            }
        }
    }
    let thread = std::thread::Builder::new().name(name.into()).stack_size(STACK);
    let spawned = without_signals(|| {
        thread.spawn(move || {
            let _watched = Watched;
            body();
        })
    });
    spawned.map(drop).map_err(|error| Error::System {
        what: "a thread".into(),
        errno: error.raw_os_error().unwrap_or(0),
    })
}

/// In the fault thread: open what both threads need, and make an engine.
fn open(plan: Plan, swap: Option<&Path>) -> Result<(&'static Pager, Worker<RegionMachine>), Error> {
    let opened = region::with_own_descriptors(|| open_fds(&plan, swap));
    let fds = opened.map_err(Error::system("descriptors of its own"))??;
    let config = plan.config(fds.swap.as_ref().map_or(0, SwapFile::slots));
    let machine = RegionMachine::new(fds, &plan, config.staging_slots)?;
    let arena: PoolArena = machine
        .arena()
        .ok_or(Errno::NOMEM)
        .map_err(Error::system("a range for the pool"))?;
    let worker = Worker::new(&config, &machine);
    let words = Vec::leak((0..vmstat::WORDS).map(|_| Default::default()).collect());
    let number = PAGER.get().map_or(0, |before| before.number) + 1;
    let pager = PAGER.set(Pager {
        number,
        is_ready: AtomicBool::new(false),
        mm: Mm::new(machine, arena, config, Vmstat::new(words)),
        charge: Charge::new(plan.limit),
        mail: Mailbox::new(),
        serving: Mutex::new(()),
        changing: AtomicU32::new(0),
        asking: Mutex::new(()),
        request: Request::default(),
        rounds: AtomicU64::new(0),
        regions: AtomicUsize::new(0),
        bytes: AtomicUsize::new(0),
    });
    let own = own_words().map_err(Error::system("memory that no child gets"))?;
    own[NUMBER].store(number, Ordering::Release);
    Ok((pager, worker))
}

fn open_fds(plan: &Plan, swap: Option<&Path>) -> Result<Fds, Error> {
    note_stderr();
    let (managed, serves_system_calls) = open_userfaultfd().map_err(Error::system(USERFAULTFD))?;
    let open = |path: &Path| {
        let failed = Error::system(format!("the swap file {}", path.display()));
        open_swap(path, plan).map_err(failed)
    };
    Ok(Fds {
        managed,
        serves_system_calls,
        proc: ProcSelf::open().map_err(Error::system("/proc/self"))?,
        swap: swap.map(open).transpose()?,
    })
}

/// A userfaultfd, and whether the kernel waits for pages too.
fn open_userfaultfd() -> Result<(Uffd, bool), Errno> {
    let features = FEATURE_MOVE | FEATURE_POISON;
    match Uffd::open(features) {
        Ok(uffd) => Ok((uffd, true)),
        Err(_) => Uffd::open_for_user(features).map(|uffd| (uffd, false)),
    }
}

fn open_swap(path: &Path, plan: &Plan) -> Result<SwapFile, Errno> {
    let name = std::ffi::CString::new(path.as_os_str().as_bytes()).map_err(|_| Errno::INVAL)?;
    let file = match path.is_dir() {
        true => File::create_unnamed(&name),
        false => File::create_at(&name),
    }?;
    let seal = Seal::new(defaults::SWAP_ENCRYPTED, plan.swap_slots)?;
    Ok(SwapFile::new(file, seal, None))
}

impl Pager {
    /// Whether it is that of this process, and not of the one that forked it.
    pub(crate) fn is_ours(&self) -> bool {
        OWN.get()
            .is_some_and(|own| own[NUMBER].load(Ordering::Acquire) == self.number)
    }

    /// kswapd comes by, or goes on.
    pub(crate) fn come_by(&self) {
        self.rounds.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn progress(&self) -> Progress {
        Progress {
            reclaimed: self.mm.stat().get(Item::PgSteal) + self.mm.stat().get(Item::ZswpWb),
            rounds: self.rounds.load(Ordering::Relaxed),
        }
    }

    /// Have the pages of a new region paged.
    ///
    /// # Errors
    /// What the kernel answers to their registration.
    pub(crate) fn adopt(&self, pages: &Pages) -> Result<(), Errno> {
        let answer = without_signals(|| {
            let _asking = self.asking.lock();
            self.request.range[0].store(pages.addr(), Ordering::Relaxed);
            self.request.range[1].store(pages.addr() + pages.len(), Ordering::Relaxed);
            self.request.answer.store(WAITS, Ordering::Relaxed);
            // Release and acquire: `post` and `take`.
            self.mail.post(mail::ADOPT);
            loop {
                match self.request.answer.load(Ordering::Acquire) {
                    WAITS => futex::wait(&self.request.answer, WAITS, Some(ANSWER_NS), false),
                    answer => break answer,
                }
            }
        });
        match answer {
            DONE => {
                self.regions.fetch_add(1, Ordering::Relaxed);
                self.bytes.fetch_add(pages.len(), Ordering::Relaxed);
                Ok(())
            }
            errno => Err(Errno::from_raw_os_error(errno as i32)),
        }
    }

    /// kswapd's part of it.
    pub(crate) fn register(&self) {
        let [start, end] = [0, 1].map(|i| self.request.range[i].load(Ordering::Relaxed));
        let registered = self.mm.machine().fds.managed.register_missing(start, end - start);
        let answer = match registered {
            Ok(()) => {
                self.mm.manage(PageRange::of_bytes(start, end));
                DONE
            }
            Err(errno) => errno.raw_os_error() as u32,
        };
        self.request.answer.store(answer, Ordering::Release);
        futex::wake(&self.request.answer, 1, false);
    }

    /// A region ends. Whoever gets that address next has it registered under the same lock later.
    pub(crate) fn release(&self, pages: Pages) {
        let (range, len) = (range_of(&pages), pages.len());
        match self.change(Change::Unmap(range), || pages.unmap()) {
            Ok(()) => {
                self.regions.fetch_sub(1, Ordering::Relaxed);
                self.bytes.fetch_sub(len, Ordering::Relaxed);
            }
            Err((pages, errno)) => self.keep_empty(pages, errno),
        }
    }

    /// A region that the kernel does not unmap (ENOMEM: too many mappings; EPERM: a sealed one)
    /// stays one for ever, but takes no memory if that can be had.
    fn keep_empty(&self, pages: Pages, errno: Errno) {
        let mut pages = ManuallyDrop::new(pages);
        let (range, len) = (range_of(&pages), pages.len());
        let _ = self.change(Change::Remove(range), || pages.discard(0, len));
        write_stderr(&format!(
            "uzswap: a region of {len} bytes cannot be unmapped: {errno}\n"
        ));
    }

    /// Have the kernel make a change of regions, and the engine know of it if that succeeds. No
    /// fault is served meanwhile, and nothing moves.
    ///
    /// # Errors
    /// What `make` answers.
    pub(crate) fn change<E>(&self, change: Change, make: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
        without_signals(|| {
            self.changing.fetch_add(1, Ordering::Relaxed);
            let _serving = self.serving.lock();
            self.changing.fetch_sub(1, Ordering::Relaxed);
            self.mm.with_changes(|changes| {
                make()?;
                changes.apply(change);
                Ok(())
            })
        })
    }

    /// Whether somebody waits to make a change.
    pub(crate) fn is_to_change(&self) -> bool {
        self.changing.load(Ordering::Relaxed) > 0
    }

    /// In the fault thread, before it serves: let changes be made first.
    pub(crate) fn give_way(&self) {
        while self.is_to_change() {
            std::thread::yield_now();
        }
    }

    /// Pin pages of a region, which are not there yet.
    ///
    /// # Errors
    /// They and what is pinned already are too many for the limit.
    pub(crate) fn pin(&'static self, range: PageRange) -> Result<u64, Error> {
        let page = PAGE_SIZE as u64;
        let most = self.charge.limit() / page / PINNED_SHARE;
        let added = without_signals(|| self.mm.machine().pins.lock().add(range, most));
        added.map_err(|pinned| {
            Error::Value(format!(
                "{} bytes to be pinned: with the {} that are, must be at most half of the limit of {} bytes",
                range.pages() * page,
                pinned * page,
                self.charge.limit()
            ))
        })
    }

    /// Regions that there are, and their bytes.
    pub(crate) fn regions(&self) -> (usize, usize) {
        (self.regions.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed))
    }
}

/// The pages of a region.
pub(crate) fn range_of(pages: &Pages) -> PageRange {
    PageRange::of_bytes(pages.addr(), pages.addr() + pages.len())
}
