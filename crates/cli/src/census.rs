//! The census: the launcher follows the tree of its descendants, between its other work.
//!
//! A process with a pager charges the group itself. The census charges what the others have, so
//! that the managed ones give way: those without the agent (static, `env -i`, another user's,
//! set-uid, ...), which it counts and names, and those whose agent is idle. It keeps a group that
//! runs in another within that one's limit, and it applies the OOM rule, since nobody else knows
//! all who belong to the group.
//!
//! ```text
//! step  discover  numbers that were given out since the last step
//!                 -> children of members, and orphans whose environment names the group
//!       sample    members without a pager: their anonymous memory -> Notice::Census
//!       outer     what the group around this one leaves -> Notice::OuterMax;
//!                 what this one has -> that group's words
//!       rule      somebody asked (Notice::OomAsked), or members without a pager exceed the limit
//!                 -> the largest is killed, unless memory is on its way back (`leaving`)
//!       thrash    somebody waits for pages most of the time -> a line
//!       auto      the limit is automatic -> what is cold (Notice::ColdAsked)
//! ```
//! Nothing that a program sees is changed: no subreaper, no tracing. Who was seen once stays known,
//! whoever its parent is by now.

use std::collections::{HashMap, HashSet};
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, Instant};

use serde_json::json;
use uzswap_ctl::{ENV_GROUP, Field, Group, Notice, Statistic, Tunable};
use uzswap_sys::time::now_ns;

use crate::group::OpenGroup;
use crate::log::{self, Event};

mod auto;
mod discover;
mod inner;
mod leaving;
mod member;
mod process;
mod rule;
mod thrash;

use self::auto::Auto;
use self::discover::{Doubtful, Reapers};
use self::inner::Outer;
use self::member::{Claims, IDLE_MOST, Kind, Member, Reason, Who, anon, shares_parents};
pub(crate) use self::process::below;
use self::process::{Cursor, Sizes, Stat, Status};
use self::rule::Rule;
pub(crate) use self::rule::say as say_killed;
pub(crate) use self::thrash::{PART, WINDOW};
use self::thrash::{Thrash, Waits};

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
/// Less is not worth a line.
const WORTH_A_LINE: u64 = 1 << 20;

/// Processes of one name that were not managed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unmanaged {
    pub(crate) process: String,
    pub(crate) reason: &'static str,
    pub(crate) count: u64,
}

/// The members of a group.
pub(crate) struct Census {
    group: Group,
    /// Slots of those that had pagers at the last sample.
    slots: Vec<usize>,
    /// `UZSWAP_GROUP=...`
    variable: Vec<u8>,
    members: HashMap<i32, Member>,
    reapers: Reapers,
    /// When CMD began: of those that name the group, who began before is of an earlier run.
    first: u64,
    cursor: Cursor,
    /// The number that was given out last at the last look.
    last_pid: Option<i32>,
    /// Who is to be looked at again.
    doubtful: Doubtful,
    /// When somebody came last, or one that is not managed grew.
    moved: Instant,
    next_look: Instant,
    next_sample: Instant,
    next_shmem: Instant,
    names: HashMap<(String, Reason), u64>,
    is_quiet: bool,
    /// Names that were told of.
    said: HashSet<String>,
    outer: Option<Outer>,
    rule: Rule,
    thrash: Thrash,
    auto: Auto,
}

impl Census {
    /// Of a group that has no members yet.
    pub(crate) fn new(open: &OpenGroup, is_quiet: bool) -> Self {
        let now = Instant::now();
        let outer = Outer::of_environment(open);
        if let Some(outer) = &outer {
            // Before there is anybody whom the outer census might take for a member of its own.
            outer.exchange(open.group, 0);
        }
        Self {
            group: open.group,
            slots: Vec::new(),
            variable: [ENV_GROUP.as_bytes(), b"=", open.path.as_os_str().as_bytes()].concat(),
            members: HashMap::new(),
            reapers: Reapers::default(),
            first: Stat::own().map_or(u64::MAX, |own| own.start),
            cursor: Cursor::default(),
            last_pid: None,
            doubtful: Doubtful::default(),
            moved: now,
            next_look: now + LOOK,
            next_sample: now,
            next_shmem: now + SHMEM,
            names: HashMap::new(),
            is_quiet,
            said: HashSet::new(),
            outer,
            rule: Rule::default(),
            thrash: Thrash::default(),
            auto: Auto::default(),
        }
    }

    /// CMD has been started: it is the first member, and who was there before is no descendant of
    /// it.
    pub(crate) fn begin(&mut self, cmd: i32) {
        self.reapers.refresh();
        if let Some(stat) = Stat::of(cmd) {
            self.first = stat.start;
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
        if began >= self.next_sample || group.get(Notice::OomAsked) != 0 {
            self.sample(open);
        }
        if began >= self.next_shmem {
            self.sample_shmem();
        }
        if let Some(outer) = &self.outer {
            outer.exchange(group, self.current());
        }
        group.tell(Notice::CensusAt, now_ns());
        self.apply_rule(open);
        self.say_who_thrashes(open);
        self.auto.step(group, self.members.keys().copied());
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

    /// Look at all members: who is gone, who is managed, and what the others have.
    fn sample(&mut self, open: &OpenGroup) {
        let (began, spent) = (Instant::now(), processor_time());
        let group = self.group();
        self.slots = open.processes().collect();
        let slots = self.slot_owners();
        self.forget_dead_inner();
        // Those that nobody saw begin. What a slot says is a number where its process lives, and
        // may be a stranger's here.
        for (pid, _) in &slots {
            if !self.members.contains_key(pid)
                && let Some(stat) = self.stat_if_named(*pid)
            {
                self.add(*pid, stat, None);
            }
        }
        let claims = Claims::new(&slots, self.members.values());
        let pids: Vec<i32> = self.members.keys().copied().collect();
        for pid in pids {
            let Some(mut member) = self.members.remove(&pid) else {
                continue;
            };
            let is_managed = claims.is_managed(&member, || process::has_pager(pid));
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

    /// What the slots call their processes.
    fn slot_owners(&self) -> Vec<Who> {
        self.slots.iter().map(|slot| self.owner_of(*slot)).collect()
    }

    fn owner_of(&self, slot: usize) -> Who {
        let field = |field| self.group.field(slot, field);
        (field(Field::Pid) as i32, field(Field::Start))
    }

    /// Look at a member that is not known to charge itself. False: it is gone.
    fn look_at(&mut self, pid: i32, member: &mut Member, is_managed: bool) -> bool {
        let Some(stat) = Stat::of(pid) else { return false };
        if stat.start != member.stat.start || stat.is_over {
            return false;
        }
        if stat.image != member.stat.image {
            // Another program.
            (member.kind, member.named, member.since) = (Kind::New { looks: 0 }, None, Instant::now());
            (member.forked_from, member.makes_pager) = (None, false);
            (member.shares, member.managed) = (false, None);
        }
        member.stat = stat;
        member.bytes = 0;
        member.looked = Instant::now();
        if member.under.is_some_and(|first| self.group.has_inner(first)) {
            return true;
        }
        // Nobody says any more what that group has.
        member.under = None;
        if is_managed {
            (member.kind, member.sizes, member.managed) = (Kind::Agent, None, Some(member.looked));
            return true;
        }
        let reason = member.classify(pid);
        member.shares |= shares_parents(pid, member);
        let has_left = |slot| self.group.field(slot, Field::Left) as i32 == member.inner_pid;
        let has_left = (0..self.group.high_water()).any(has_left);
        member.bytes = anon(pid, member, has_left);
        let reason = match member.kind {
            // Killed: its pager has ended, and it has not yet.
            _ if self.rule.is_victim(pid, member.stat.start) => None,
            Kind::Agent if member.has_lost_its_pager(pid) => {
                member.kind = Kind::Unmanaged;
                Some(Reason::of_agent(pid))
            }
            Kind::Unmanaged if member.named.is_none() => Some(reason.unwrap_or_else(|| Reason::of_agent(pid))),
            _ => None,
        };
        // Whoever has nothing is about to end.
        if let Some(reason) = reason
            && member.named.is_none()
            && member.bytes > 0
        {
            member.named = Some(reason);
            self.group().count(Statistic::UnmanagedProcesses);
            *self.names.entry((member.stat.name.clone(), reason)).or_insert(0) += 1;
        }
        if member.kind == Kind::Unmanaged && member.bytes >= WORTH_A_LINE {
            self.say(pid, member);
        }
        let is_settled = member.named.is_some() || member.kind == Kind::Agent && member.bytes < IDLE_MOST;
        if is_settled && member.sizes.is_none() {
            member.sizes = Sizes::open(pid);
        }
        true
    }

    /// One line for the first that matters, where there is a limit that it escapes; programs are
    /// told of each name.
    fn say(&mut self, pid: i32, member: &Member) {
        let name = &member.stat.name;
        let is_told = self.said.contains(name) || !(self.said.is_empty() || log::is_json());
        if is_told || self.is_quiet || self.group().memory_max() == u64::MAX {
            return;
        }
        self.said.insert(name.clone());
        let reason = member.named.unwrap_or(Reason::WithoutPager);
        let what = match self.allows_unmanaged() {
            true => "it runs beside the limit",
            false => "what it has is charged to the limit, but cannot be taken out",
        };
        let fix = reason.fix(pid);
        let reason = reason.text();
        let line = format!("uzswap: process {pid} ({name}) is not managed ({reason}): {what}{fix}");
        let fields = json!({ "pid": pid, "process": name, "reason": reason });
        log::tell(Event::of(log::Kind::Unmanaged, Some(line), fields));
    }

    fn allows_unmanaged(&self) -> bool {
        self.group().is_on(Tunable::AllowUnmanaged)
    }

    /// Tell the group what its members have that charge nothing themselves.
    fn publish(&mut self) {
        let group = self.group();
        let sum = |is: fn(&Member) -> bool| self.members.values().filter(|m| is(m)).map(|m| m.bytes).sum::<u64>();
        let unmanaged = sum(|member| member.kind == Kind::Unmanaged);
        let others = sum(|member| member.kind != Kind::Unmanaged);
        if unmanaged > group.get(Statistic::Unmanaged) {
            self.moved = Instant::now();
        }
        group.note(Statistic::Unmanaged, unmanaged);
        group.raise(Statistic::UnmanagedPeak, unmanaged);
        let charged = if self.allows_unmanaged() { 0 } else { unmanaged };
        group.tell(Notice::Census, charged + others);
        group.raise(Statistic::MemoryPeak, self.current());
    }

    /// A limit that is too low for what a program does is no failure, and looks like one.
    fn say_who_thrashes(&mut self, open: &OpenGroup) {
        let group = self.group;
        if self.is_quiet || group.memory_max() == u64::MAX {
            return;
        }
        let processes = || {
            open.processes().map(|slot| Waits {
                who: (slot, group.field(slot, Field::Pid) as i32),
                waited: Duration::from_nanos(group.field(slot, Field::Waited)),
                shortfall: group.field(slot, Field::Shortfall),
            })
        };
        for thrashing in self.thrash.look(Duration::from_nanos(now_ns()), processes) {
            let process = self.process_of(thrashing.who.1);
            log::tell(thrashing.event(process, group.memory_max()));
        }
    }

    /// The process that has this number where it lives, as it is known here, if that can be nobody
    /// else.
    fn process_of(&self, inner_pid: i32) -> Option<(i32, String)> {
        let is_its = |(_, member): &(&i32, &Member)| member.inner_pid == inner_pid && member.under.is_none();
        let mut its = self.members.iter().filter(is_its);
        match (its.next(), its.next()) {
            (Some((pid, _)), None) => Stat::of(*pid).map(|stat| (*pid, stat.name)),
            _ => None,
        }
    }

    /// What the group has: of processes that live.
    fn current(&self) -> u64 {
        let group = self.group();
        let charges = self
            .slots
            .iter()
            .map(|slot| group.field(*slot, Field::Charge))
            .sum::<u64>();
        charges + group.get(Notice::Census) + group.inner()
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
        self.group().note(Statistic::Shmem, shmem);
        self.group().raise(Statistic::ShmemPeak, shmem);
        self.next_shmem = began + SHMEM.max((processor_time() - spent) * SHMEM_SHARE);
    }

    /// Programs that were not managed, by name.
    pub(crate) fn unmanaged(&self) -> Vec<Unmanaged> {
        let mut names: Vec<_> = self.names.iter().collect();
        names.sort();
        let unmanaged = |((name, reason), count): (&(String, Reason), &u64)| Unmanaged {
            process: name.clone(),
            reason: reason.text(),
            count: *count,
        };
        names.into_iter().map(unmanaged).collect()
    }

    /// Lines for the summary.
    pub(crate) fn summary(&self) -> Vec<String> {
        let group = self.group();
        let mut lines = Vec::new();
        let unmanaged = self.unmanaged();
        if !unmanaged.is_empty() {
            let name = |Unmanaged { process, reason, count }: &Unmanaged| match count {
                1 => format!("{process} ({reason})"),
                _ => format!("{count} times {process} ({reason})"),
            };
            let names: Vec<String> = unmanaged.iter().map(name).collect();
            lines.push(format!(
                "not managed: {} processes, at most {} together: {}",
                group.get(Statistic::UnmanagedProcesses),
                uzswap_ctl::size::Size(group.get(Statistic::UnmanagedPeak)),
                names.join(", ")
            ));
        }
        if group.get(Statistic::ShmemPeak) > 0 {
            lines.push(format!(
                "shared memory, which is not charged: at most {}",
                uzswap_ctl::size::Size(group.get(Statistic::ShmemPeak))
            ));
        }
        lines
    }
}

/// What this thread has had of a core.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
