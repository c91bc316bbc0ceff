//! The census: the launcher follows the tree of its descendants, between its other work.
//!
//! A process with a pager charges the group itself. The census charges what the others have, so
//! that the managed ones give way: those without the agent (static, `env -i`, another user's,
//! set-uid, ...), which it counts and names, and those whose agent is idle. It keeps a group that
//! runs in another within that one's limit, and it applies the OOM rule, since nobody else knows
//! all who belong to the group.
//!
//! ```text
//! step  discover  numbers that were given out since the last step -> children of members, and orphans whose environment names the group
//!       sample    members without a pager: their anonymous memory -> Key::Census
//!       outer     what the group around this one leaves -> Key::OuterMax; what this one has -> that group's words
//!       rule      somebody asked (Key::OomAsked), or members without a pager exceed the limit -> the largest is killed
//! ```
//! Nothing that a program sees is changed: no subreaper, no tracing. Who was seen once stays known,
//! whoever its parent is by now.

use std::collections::{HashMap, HashSet};
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, Instant};

use uzswap_ctl::{ENV_GROUP, Field, Group, Key};
use uzswap_sys::time::now_ns;

use crate::group::OpenGroup;
use crate::output::warn_line;

mod inner;
mod process;
mod rule;

use self::inner::Outer;
use self::process::{Cursor, Image, Loaded, Sizes, Stat, Status};
use self::rule::Rule;
pub(crate) use self::rule::say as say_killed;

/// Between two looks at who is new where there is a limit: what a process fills meanwhile is
/// charged late.
const LOOK: Duration = Duration::from_millis(10);
/// The same where for a second nobody has come, and no member without a pager has grown.
const LOOK_CALM: Duration = Duration::from_millis(20);
const CALM_AFTER: Duration = Duration::from_secs(1);
/// The same where there is none: only what lives shorter is not counted.
const LOOK_UNLIMITED: Duration = Duration::from_millis(50);
/// The memory of members is sampled as soon as one could have filled the room that is left, at a
/// page a microsecond and some more.
const FILLED_PER_SECOND: u64 = 2 << 30;
const SAMPLE_MOST: Duration = Duration::from_secs(1);
/// One part in so many of a core's time is spent at most, while many processes come and go.
const SHARE: u32 = 40;
/// Shared memory is looked at so often at most, and for one part in so many of the time: it takes a
/// walk through page tables.
const SHMEM: Duration = Duration::from_secs(1);
const SHMEM_SHARE: u32 = 100;
/// A process that has not ended is looked at so often for another image.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// More numbers than this were not given out one by one while nobody looked, or it is cheaper to
/// list all processes.
const NEW_MAX: i32 = 2000;
/// A child that a managed process forked has its pager, or its own image, by then. Until then what
/// it has is its parent's.
const CHILD_GRACE: Duration = Duration::from_millis(200);
/// A process that had a pager has ended by then.
const ENDING: Duration = Duration::from_secs(1);
/// A program is loaded by then, even where it had to wait for a core and a disk.
const LOADED_BY: Duration = Duration::from_secs(2);
/// Below this it does not matter whether what a forked process has is its parent's too.
const SHARED_MIN: u64 = 256 << 10;
/// More than an agent that is idle can leave unmanaged: mappings below 4 MiB, and data that came
/// with the program.
const IDLE_MOST: u64 = 8 << 20;
/// Less is not worth a line.
const WORTH_A_LINE: u64 = 1 << 20;

/// Why a process is not managed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Reason {
    Static,
    WithoutAgent,
    Hidden,
    WithoutPager,
}

impl Reason {
    fn text(self) -> &'static str {
        match self {
            Self::Static => "static",
            Self::WithoutAgent => "started without LD_PRELOAD",
            Self::Hidden => "another user's",
            Self::WithoutPager => "without a pager",
        }
    }
}

/// What is known of how a member is managed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Nothing yet; so it was found at so many looks.
    New { looks: u32 },
    /// It has the agent.
    Agent,
    /// It has not.
    Unmanaged,
}

/// A process of the group.
struct Member {
    stat: Stat,
    since: Instant,
    kind: Kind,
    is_named: bool,
    /// When it had a pager last.
    managed: Option<Instant>,
    /// The process that forked it, whose image it still has.
    forked_from: Option<i32>,
    /// It has forked, or was: what it has may be others' too.
    shares: bool,
    /// Its number where it lives.
    inner_pid: i32,
    /// Launcher of a group inside this one that it is a member of: it is charged there.
    under: Option<i32>,
    /// What is charged for it.
    bytes: u64,
    /// Where that is read, once it is known what the process is; and when more was read last.
    sizes: Option<Sizes>,
    looked: Instant,
}

impl Member {
    /// Read what it has, if that is all there is to know: another image is seen with the next look.
    fn glance(&mut self) -> bool {
        let is_known = self.looked.elapsed() < LOOK_AGAIN && !self.shares && self.under.is_none();
        let bytes = self.sizes.as_ref().filter(|_| is_known).map_or(0, Sizes::anon);
        if bytes > 0 {
            self.bytes = bytes;
        }
        bytes > 0
    }
}

/// The members of a group.
pub(crate) struct Census {
    group: Group,
    /// Slots of those that had pagers at the last sample.
    slots: Vec<usize>,
    /// `UZSWAP_GROUP=...`
    variable: Vec<u8>,
    members: HashMap<i32, Member>,
    /// Who may inherit orphans: the launcher's own parents, and the first process.
    reapers: HashSet<i32>,
    cursor: Cursor,
    /// The number that was given out last at the last look.
    last_pid: Option<i32>,
    /// When somebody came last, or one that is not managed grew.
    moved: Instant,
    next_look: Instant,
    next_sample: Instant,
    next_shmem: Instant,
    names: HashMap<(String, Reason), u64>,
    is_quiet: bool,
    has_said: bool,
    outer: Option<Outer>,
    rule: Rule,
}

impl Census {
    /// Of a group that has no members yet.
    pub(crate) fn new(open: &OpenGroup, is_quiet: bool) -> Self {
        let now = Instant::now();
        let outer = Outer::of_environment();
        if let Some(outer) = &outer {
            // Before there is anybody whom the outer census might take for a member of its own.
            outer.exchange(open.group, 0);
        }
        Self {
            group: open.group,
            slots: Vec::new(),
            variable: [ENV_GROUP.as_bytes(), b"=", open.path.as_os_str().as_bytes()].concat(),
            members: HashMap::new(),
            reapers: reapers(),
            cursor: Cursor::default(),
            last_pid: None,
            moved: now,
            next_look: now + LOOK,
            next_sample: now,
            next_shmem: now + SHMEM,
            names: HashMap::new(),
            is_quiet,
            has_said: false,
            outer,
            rule: Rule::default(),
        }
    }

    /// CMD has been started: it is the first member, and who was there before is no descendant of
    /// it.
    pub(crate) fn begin(&mut self, cmd: i32) {
        if let Some(stat) = Stat::of(cmd) {
            self.add(cmd, stat, None);
        }
        self.last_pid = Some(cmd);
        self.next_look = Instant::now() + LOOK;
    }

    /// Whether any member is known to live.
    pub(crate) fn has_members(&self) -> bool {
        self.members
            .iter()
            .any(|(pid, member)| Stat::of(*pid).is_some_and(|stat| stat.start == member.stat.start && !stat.is_over))
    }

    /// A copy of this process goes on, which has no descriptor but those that it is told to keep.
    pub(crate) fn close_files(&mut self) {
        self.cursor = Cursor::default();
        self.members.values_mut().for_each(|member| member.sizes = None);
    }

    /// In the copy.
    pub(crate) fn take_over(&mut self) {
        if let Some(outer) = &mut self.outer {
            outer.take_over();
        }
    }

    fn group(&self) -> Group {
        self.group
    }

    /// How long until the next look.
    pub(crate) fn due_in(&self) -> Duration {
        self.next_look.saturating_duration_since(Instant::now())
    }

    /// One look at the group, if it is time.
    pub(crate) fn step(&mut self, open: &OpenGroup) {
        let (began, spent) = (Instant::now(), processor_time());
        if began < self.next_look {
            return;
        }
        let group = self.group();
        self.discover();
        if began >= self.next_sample || group.get(Key::OomAsked) != 0 {
            self.sample(open);
        }
        if began >= self.next_shmem {
            self.sample_shmem();
        }
        if let Some(outer) = &self.outer {
            outer.exchange(group, self.current());
        }
        group.set(Key::CensusAt, now_ns());
        self.apply_rule();
        let look = match group.memory_max() {
            u64::MAX => LOOK_UNLIMITED,
            _ if self.moved.elapsed() > CALM_AFTER => LOOK_CALM,
            _ => LOOK,
        };
        self.next_look = began + look.max((processor_time() - spent) * SHARE).min(SAMPLE_MOST);
    }

    /// The last look before the launcher tells what CMD came to.
    pub(crate) fn look_once_more(&mut self, open: &OpenGroup) {
        self.next_look = Instant::now();
        self.next_sample = self.next_look;
        self.step(open);
    }

    /// The group is over.
    pub(crate) fn end(&self) {
        if let Some(outer) = &self.outer {
            outer.leave();
        }
    }

    /// Find processes that are new.
    fn discover(&mut self) {
        let last = self.cursor.last();
        if last.is_some() && last == self.last_pid {
            return;
        }
        let mut new: Vec<i32> = match (self.last_pid, last) {
            (Some(before), Some(last)) if before < last && last - before < NEW_MAX => (before + 1..=last).collect(),
            _ => process::all(),
        };
        self.last_pid = last;
        new.retain(|pid| !self.members.contains_key(pid));
        // Again as long as any is found: a parent may have the higher number, where they wrap.
        loop {
            let before = self.members.len();
            new.retain(|pid| Stat::of(*pid).is_some_and(|stat| !self.consider(*pid, stat)));
            if new.is_empty() || self.members.len() == before {
                break;
            }
        }
    }

    /// Whether a process is a member, or one of its threads. It is known then.
    fn consider(&mut self, pid: i32, stat: Stat) -> bool {
        // A member that has ended since may have left its number to a stranger.
        let is_same = |parent: &Member| Stat::of(stat.parent).is_none_or(|now| now.start == parent.stat.start);
        let is_child = self.members.get(&stat.parent).is_some_and(is_same);
        let is_orphan = || self.reapers.contains(&stat.parent) && process::names_group(pid, &self.variable);
        if !is_child && !is_orphan() {
            return false;
        }
        let parent = is_child.then_some(stat.parent);
        self.add(pid, stat, parent);
        true
    }

    fn add(&mut self, pid: i32, stat: Stat, parent: Option<i32>) {
        // Those above us are nobody's members: all that runs here may descend from them.
        if self.reapers.contains(&pid) || pid == uzswap_sys::thread::pid() {
            return;
        }
        let Some(status) = Status::of(pid).filter(|status| status.is_process) else {
            return;
        };
        let found = parent.and_then(|pid| self.members.get_mut(&pid).map(|member| (pid, member)));
        let (mut forked_from, mut kind, mut under) = (None, Kind::New { looks: 0 }, None);
        if let Some((parent, member)) = found {
            under = match self.group.is_inner_launcher(parent) {
                true => Some(parent),
                false => member.under,
            };
            if member.stat.image == stat.image && stat.image != Image::default() {
                (forked_from, kind, member.shares) = (Some(parent), member.kind, true);
            }
        }
        let member = Member {
            stat,
            since: Instant::now(),
            kind,
            is_named: false,
            managed: None,
            shares: forked_from.is_some(),
            forked_from,
            inner_pid: status.inner_pid,
            under,
            bytes: 0,
            sizes: None,
            looked: Instant::now(),
        };
        self.moved = member.since;
        self.members.insert(pid, member);
    }

    /// Look at all members: who is gone, who is managed, and what the others have.
    fn sample(&mut self, open: &OpenGroup) {
        let (began, spent) = (Instant::now(), processor_time());
        let group = self.group();
        self.slots = open.processes().collect();
        let slots: HashSet<i32> = self
            .slots
            .iter()
            .map(|slot| group.field(*slot, Field::Pid) as i32)
            .collect();
        inner::forget_dead(group);
        // Those that nobody saw begin. What a slot says is a number where its process lives, and
        // may be a stranger's here.
        for pid in &slots {
            if !self.members.contains_key(pid)
                && process::names_group(*pid, &self.variable)
                && let Some(stat) = Stat::of(*pid)
            {
                self.add(*pid, stat, None);
            }
        }
        let pids: Vec<i32> = self.members.keys().copied().collect();
        for pid in pids {
            let Some(mut member) = self.members.remove(&pid) else {
                continue;
            };
            let is_managed = slots.contains(&pid) || slots.contains(&member.inner_pid);
            if is_managed && member.kind == Kind::Agent {
                (member.bytes, member.sizes, member.managed) = (0, None, Some(began));
            } else if !is_managed && member.glance() {
                // Nothing more to know for now.
            } else if !self.look_at(pid, &mut member, is_managed) {
                continue;
            }
            self.members.insert(pid, member);
        }
        self.publish();
        let room = group.memory_max().saturating_sub(self.current());
        let filled = Duration::from_secs_f64(room as f64 / FILLED_PER_SECOND as f64);
        self.next_sample = began + filled.max((processor_time() - spent) * SHARE).min(SAMPLE_MOST);
    }

    /// Look at a member that is not known to charge itself. False: it is gone.
    fn look_at(&mut self, pid: i32, member: &mut Member, is_managed: bool) -> bool {
        let Some(stat) = Stat::of(pid) else { return false };
        if stat.start != member.stat.start || stat.is_over {
            return false;
        }
        if stat.image != member.stat.image {
            // Another program.
            (member.kind, member.is_named, member.since) = (Kind::New { looks: 0 }, false, Instant::now());
            (member.forked_from, member.shares, member.managed) = (None, false, None);
        }
        member.stat = stat;
        member.bytes = 0;
        member.looked = Instant::now();
        if member.under.is_some() {
            return true;
        }
        if is_managed {
            (member.kind, member.sizes, member.managed) = (Kind::Agent, None, Some(member.looked));
            return true;
        }
        let reason = self.classify(pid, member);
        member.shares |= shares_parents(pid, member);
        member.bytes = anon(pid, member);
        let reason = match member.kind {
            // Its pager could not be had, or ended it would have been.
            Kind::Agent if member.bytes > IDLE_MOST && member.since.elapsed() > CHILD_GRACE => {
                member.kind = Kind::Unmanaged;
                Some(Reason::WithoutPager)
            }
            Kind::Unmanaged => reason.or(Some(Reason::WithoutPager)),
            _ => None,
        };
        // Whoever has nothing is about to end.
        if let Some(reason) = reason
            && !member.is_named
            && member.bytes > 0
        {
            member.is_named = true;
            self.group().add(Key::UnmanagedProcesses, 1);
            *self.names.entry((member.stat.name.clone(), reason)).or_insert(0) += 1;
        }
        if member.kind == Kind::Unmanaged && member.bytes >= WORTH_A_LINE {
            self.say(pid, member);
        }
        let is_settled = member.is_named || member.kind == Kind::Agent && member.bytes < IDLE_MOST;
        if is_settled && member.sizes.is_none() {
            member.sizes = Sizes::open(pid);
        }
        true
    }

    /// Find out whether a member has the agent; the reason if it has not.
    fn classify(&self, pid: i32, member: &mut Member) -> Option<Reason> {
        let looks = match member.kind {
            Kind::New { looks } => looks + 1,
            Kind::Unmanaged if !member.is_named => 2,
            _ => return None,
        };
        let loaded = Loaded::of(pid);
        let reason = match loaded {
            Loaded::Agent => None,
            Loaded::LibcAlone => Some(Reason::WithoutAgent),
            Loaded::Unfinished => (member.since.elapsed() > LOADED_BY).then_some(Reason::Static),
            // At the second look: between the beginning of an execve and its end little is mapped.
            Loaded::Nothing => (looks > 1).then_some(Reason::Static),
            Loaded::Hidden => (looks > 1).then_some(Reason::Hidden),
        };
        member.kind = match (loaded, reason) {
            (Loaded::Agent, _) => Kind::Agent,
            (_, Some(_)) => Kind::Unmanaged,
            (_, None) => Kind::New { looks },
        };
        reason
    }

    /// One line for the first that matters, where there is a limit that it escapes.
    fn say(&mut self, pid: i32, member: &Member) {
        if self.has_said || self.is_quiet || self.group().memory_max() == u64::MAX {
            return;
        }
        self.has_said = true;
        let of_name = |((name, reason), _): (&(String, Reason), _)| (*name == member.stat.name).then_some(*reason);
        let reason = self.names.iter().find_map(of_name).unwrap_or(Reason::WithoutPager);
        let what = match self.allows_unmanaged() {
            true => "it runs beside the limit",
            false => "what it has is charged to the limit, but cannot be taken out",
        };
        warn_line!(
            "uzswap: process {pid} ({}) is not managed ({}): {what}",
            member.stat.name,
            reason.text()
        );
    }

    fn allows_unmanaged(&self) -> bool {
        self.group().get(Key::AllowUnmanaged) != 0
    }

    /// Tell the group what its members have that charge nothing themselves.
    fn publish(&mut self) {
        let group = self.group();
        let sum = |is: fn(&Member) -> bool| self.members.values().filter(|m| is(m)).map(|m| m.bytes).sum::<u64>();
        let unmanaged = sum(|member| member.kind == Kind::Unmanaged);
        let others = sum(|member| member.kind != Kind::Unmanaged);
        if unmanaged > group.get(Key::Unmanaged) {
            self.moved = Instant::now();
        }
        group.set(Key::Unmanaged, unmanaged);
        group.raise(Key::UnmanagedPeak, unmanaged);
        let charged = if self.allows_unmanaged() { 0 } else { unmanaged };
        group.set(Key::Census, charged + others);
        group.raise(Key::MemoryPeak, self.current());
    }

    /// What the group has: of processes that live.
    fn current(&self) -> u64 {
        let group = self.group();
        let charges = self.slots.iter().map(|slot| group.charge_of(*slot)).sum::<u64>();
        charges + group.get(Key::Census) + group.inner()
    }

    /// Shared memory is nobody's alone and can be taken from nobody: it is told, and not charged.
    fn sample_shmem(&mut self) {
        let (began, spent) = (Instant::now(), processor_time());
        let shmem = |pid: &i32| {
            let all = Status::of(*pid).map_or(0, |status| status.shmem);
            let share = (all > 0).then(|| process::proportional(*pid)).flatten();
            share.map_or(all, |(_, shmem)| shmem)
        };
        let shmem = self.members.keys().map(shmem).sum();
        self.group().set(Key::Shmem, shmem);
        self.group().raise(Key::ShmemPeak, shmem);
        self.next_shmem = began + SHMEM.max((processor_time() - spent) * SHMEM_SHARE);
    }

    /// Lines for the summary.
    pub(crate) fn summary(&self) -> Vec<String> {
        let group = self.group();
        let mut lines = Vec::new();
        let mut names: Vec<_> = self.names.iter().collect();
        names.sort();
        if !names.is_empty() {
            let name = |((name, reason), count): &(&(String, Reason), &u64)| match count {
                1 => format!("{name} ({})", reason.text()),
                _ => format!("{count} times {name} ({})", reason.text()),
            };
            let names: Vec<String> = names.iter().map(name).collect();
            lines.push(format!(
                "not managed: {} processes, at most {} together: {}",
                group.get(Key::UnmanagedProcesses),
                crate::size::Size(group.get(Key::UnmanagedPeak)),
                names.join(", ")
            ));
        }
        if group.get(Key::ShmemPeak) > 0 {
            lines.push(format!(
                "shared memory, which is not charged: at most {}",
                crate::size::Size(group.get(Key::ShmemPeak))
            ));
        }
        lines
    }
}

/// Whether it has its parent's very memory, and no copy of it. The tracer of the pager's threads has
/// nothing else, and ends just after them, when its parent has let go of it.
fn shares_parents(pid: i32, member: &Member) -> bool {
    member.stat.name == "uzswap-shield"
        || uzswap_sys::procfs::shares_memory(pid, member.forked_from.unwrap_or(member.stat.parent))
}

/// Anonymous memory of a member that is its own, or its part of what others have too.
fn anon(pid: i32, member: &Member) -> u64 {
    // One that loses its pager is ending, and is charged in its slot until others have seen that.
    if member.managed.is_some_and(|managed| managed.elapsed() < ENDING) {
        return 0;
    }
    let is_young = member.forked_from.is_some() && member.since.elapsed() < CHILD_GRACE;
    // In a vfork child the parent's memory is no copy.
    if is_young && member.kind == Kind::Agent || shares_parents(pid, member) {
        return 0;
    }
    let all = member.stat.anon(pid, member.sizes.as_ref());
    match member.shares && all > SHARED_MIN {
        true => process::proportional(pid).map_or(all, |(anon, _)| anon),
        false => all,
    }
}

/// What this thread has had of a core.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The launcher's own parents, and the first process.
fn reapers() -> HashSet<i32> {
    let mut reapers = HashSet::from([1]);
    let mut pid = uzswap_sys::thread::parent_pid();
    while pid > 1 && reapers.insert(pid) {
        pid = Stat::of(pid).map_or(0, |stat| stat.parent);
    }
    reapers
}
