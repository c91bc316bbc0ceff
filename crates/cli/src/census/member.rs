//! A process of the group, and what is found out about it.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use uzswap_ctl::Launcher;

use super::process::{self, Loaded, Sizes, Stat};

/// A process that has not ended is looked at so often for another image.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// A child that a managed process forked has its pager, or its own image, by then, or when it has
/// had a core for so many clock ticks, or at the latest. Until then what it has is its parent's.
const CHILD_GRACE: Duration = Duration::from_millis(200);
const CHILD_TICKS: u64 = 10;
const CHILD_MOST: Duration = Duration::from_secs(2);
/// A process that had a pager has ended by then.
const ENDING: Duration = Duration::from_secs(1);
/// A program is loaded by then, even where it had to wait for a core and a disk.
const LOADED_BY: Duration = Duration::from_secs(2);
/// More than an agent that is idle can leave unmanaged: mappings below 4 MiB, and data that came
/// with the program.
pub(super) const IDLE_MOST: u64 = 8 << 20;
/// Below this it does not matter whether what a forked process has is its parent's too.
const SHARED_MIN: u64 = 256 << 10;

/// Why a process is not managed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Reason {
    Static,
    WithoutAgent,
    ChangesUser,
    AnotherUsers,
    WithoutPager,
}

impl Reason {
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Static => "static",
            Self::WithoutAgent => "started without uzswap's LD_PRELOAD",
            Self::ChangesUser => "set-uid, so the loader ignores LD_PRELOAD",
            Self::AnotherUsers => "another user's",
            Self::WithoutPager => "without a pager",
        }
    }

    /// Why one that has the agent has no pager.
    pub(super) fn of_agent(pid: i32) -> Self {
        match process::other_user(pid) {
            Some(_) => Self::AnotherUsers,
            None => Self::WithoutPager,
        }
    }

    /// What to do about it, to end a line with; empty: nothing that would be known to help.
    pub(super) fn fix(self, pid: i32) -> String {
        match (self, process::other_user(pid)) {
            (Self::AnotherUsers, Some(user)) => format!(
                "; change the user first and run uzswap as that one (setpriv --reuid {user} ... uzswap run ...)"
            ),
            _ => String::new(),
        }
    }
}

/// What is known of how a member is managed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Nothing yet; so it was found at so many looks.
    New { looks: u32 },
    /// It has the agent.
    Agent,
    /// It has not.
    Unmanaged,
}

/// A process of the group.
pub(super) struct Member {
    pub(super) stat: Stat,
    pub(super) since: Instant,
    pub(super) kind: Kind,
    /// Why it is not managed, once it is counted among those.
    pub(super) named: Option<Reason>,
    /// When it had a pager last.
    pub(super) managed: Option<Instant>,
    /// The process that forked it, whose image it still has.
    pub(super) forked_from: Option<i32>,
    /// That one had a pager, so it makes one.
    pub(super) makes_pager: bool,
    /// It has forked, or was: what it has may be others' too.
    pub(super) shares: bool,
    /// Its number where it lives.
    pub(super) inner_pid: i32,
    /// First launcher of a group inside this one that it is a member of: it is charged there.
    pub(super) under: Option<Launcher>,
    /// What is charged for it.
    pub(super) bytes: u64,
    /// Where that is read, once it is known what the process is; and when more was read last.
    pub(super) sizes: Option<Sizes>,
    pub(super) looked: Instant,
}

impl Member {
    /// What its slot says of it, if it has one.
    fn who(&self) -> Who {
        (self.inner_pid, self.stat.start)
    }

    /// Read what it has, if that is all there is to know: another image is seen with the next look.
    pub(super) fn glance(&mut self) -> bool {
        let is_known = self.looked.elapsed() < LOOK_AGAIN && !self.shares && self.under.is_none();
        let bytes = self.sizes.as_ref().filter(|_| is_known).map_or(0, Sizes::anon);
        if bytes > 0 {
            self.bytes = bytes;
        }
        bytes > 0
    }

    /// Whether it was forked by a managed process, and may not have had the time to make its pager:
    /// on a crowded machine that takes seconds.
    fn is_starting(&self) -> bool {
        let age = self.since.elapsed();
        let lacks_time = age < CHILD_GRACE || age < CHILD_MOST && self.stat.ran < CHILD_TICKS;
        self.kind == Kind::Agent && self.forked_from.is_some() && self.makes_pager && lacks_time
    }

    /// Whether it has the agent, and more than one that is idle can leave unmanaged: its pager
    /// could not be had, or has ended before the process.
    pub(super) fn has_lost_its_pager(&self, pid: i32) -> bool {
        let is_settled = self.since.elapsed() > CHILD_GRACE && !self.is_starting();
        let is_too_much = self.kind == Kind::Agent && self.bytes > IDLE_MOST;
        is_too_much && is_settled && !process::is_ending(pid) && !self.is_of_files(pid)
    }

    /// Whether nearly all is changed copies of files, of a program that has never had a pager: one
    /// that loads many libraries, and maps little memory or none yet.
    fn is_of_files(&self, pid: i32) -> bool {
        let may_be = self.managed.is_none() && (self.forked_from.is_none() || !self.makes_pager);
        may_be && process::anon_without_files(pid).is_some_and(|bytes| bytes <= IDLE_MOST)
    }

    /// Find out whether it has the agent; the reason if it has not.
    pub(super) fn classify(&mut self, pid: i32) -> Option<Reason> {
        let looks = match self.kind {
            Kind::New { looks } => looks + 1,
            Kind::Unmanaged if self.named.is_none() => 2,
            _ => return None,
        };
        let loaded = Loaded::of(pid);
        let reason = match loaded {
            Loaded::Agent => None,
            Loaded::LibcAlone if process::changes_user(pid) => Some(Reason::ChangesUser),
            Loaded::LibcAlone if process::other_user(pid).is_some() => Some(Reason::AnotherUsers),
            Loaded::LibcAlone => Some(Reason::WithoutAgent),
            Loaded::Unfinished => (self.since.elapsed() > LOADED_BY).then_some(Reason::Static),
            // At the second look: between the beginning of an execve and its end little is mapped.
            Loaded::Nothing => (looks > 1).then_some(Reason::Static),
            Loaded::Hidden => (looks > 1).then_some(Reason::AnotherUsers),
        };
        self.kind = match (loaded, reason) {
            (Loaded::Agent, _) => Kind::Agent,
            (_, Some(_)) => Kind::Unmanaged,
            (_, None) => Kind::New { looks },
        };
        reason
    }
}

/// What a slot says of its process: the number that it has where it lives, which processes of
/// several namespaces may have, and when it began; 0: nobody knows.
pub(super) type Who = (i32, u64);

/// Whose the slots are.
pub(super) struct Claims {
    /// Slots, and members, of a number: those of a moment that both tell, and all others.
    counts: HashMap<Who, (usize, usize)>,
}

impl Claims {
    pub(super) fn new<'a>(slots: &[Who], members: impl Iterator<Item = &'a Member>) -> Self {
        let members: Vec<Who> = members
            .filter(|member| member.under.is_none())
            .map(Member::who)
            .collect();
        let told: HashSet<Who> = slots.iter().copied().collect();
        let met: HashMap<Who, (usize, usize)> = members
            .iter()
            .filter(|who| told.contains(who))
            .map(|who| (*who, (0, 0)))
            .collect();
        let mut claims = Self { counts: met };
        for who in slots {
            let key = claims.key(*who);
            claims.counts.entry(key).or_default().0 += 1;
        }
        for who in members {
            let key = claims.key(who);
            claims.counts.entry(key).or_default().1 += 1;
        }
        claims
    }

    /// Which of the counts it is in.
    fn key(&self, who: Who) -> Who {
        match self.counts.contains_key(&who) {
            true => who,
            false => (who.0, 0),
        }
    }

    /// Whether what a slot says may be said of a member.
    pub(super) fn may_be(&self, slot: Who, member: &Member) -> bool {
        self.key(slot) == self.key(member.who())
    }

    /// Whether it has a slot. Where others may be meant, who has a pager has it: two of one number
    /// may have begun at one tick. The younger has its maker's image then, and may have no pager.
    pub(super) fn is_managed(&self, member: &Member, has_pager: impl FnOnce() -> bool) -> bool {
        let (slots, members) = self.of(member);
        slots > 0 && (slots >= members || has_pager())
    }

    /// Whether the slot with its number is its, and can be nobody else's.
    pub(super) fn is_sure(&self, member: &Member) -> bool {
        self.of(member) == (1, 1)
    }

    fn of(&self, member: &Member) -> (usize, usize) {
        let counts = self
            .counts
            .get(&self.key(member.who()))
            .filter(|_| member.under.is_none());
        counts.copied().unwrap_or_default()
    }
}

/// Whether it has its parent's very memory, and no copy of it. The tracer of the pager's threads
/// has nothing else, and ends just after them, when its parent has let go of it.
pub(super) fn shares_parents(pid: i32, member: &Member) -> bool {
    member.stat.name == "uzswap-shield"
        || uzswap_sys::procfs::shares_memory(pid, member.forked_from.unwrap_or(member.stat.parent))
}

/// Anonymous memory of a member that is its own, or its part of what others have too. `has_left`:
/// it goes on without the pager that it had.
pub(super) fn anon(pid: i32, member: &Member, has_left: bool) -> u64 {
    // One that loses its pager is ending, and is charged in its slot until others have seen that.
    if !has_left && member.managed.is_some_and(|managed| managed.elapsed() < ENDING) {
        return 0;
    }
    // In a vfork child the parent's memory is no copy.
    if member.is_starting() || shares_parents(pid, member) {
        return 0;
    }
    let all = member.stat.anon(pid, member.sizes.as_ref());
    match member.shares && all > SHARED_MIN {
        true => process::proportional(pid).map_or(all, |(anon, _)| anon),
        false => all,
    }
}

#[cfg(test)]
pub(super) mod test {
    use super::*;

    pub(crate) fn member(inner_pid: i32, kind: Kind) -> Member {
        Member {
            stat: Stat::own().expect("this process"),
            since: Instant::now(),
            kind,
            named: None,
            managed: None,
            forked_from: None,
            makes_pager: false,
            shares: false,
            inner_pid,
            under: None,
            bytes: 0,
            sizes: None,
            looked: Instant::now(),
        }
    }

    #[test]
    fn a_child_without_a_core_is_starting() {
        let mut child = member(2, Kind::Agent);
        child.bytes = IDLE_MOST + 1;
        (child.forked_from, child.makes_pager) = (Some(1), true);
        child.since -= CHILD_GRACE * 2;
        child.stat.ran = 1;
        assert!(child.is_starting() && !child.has_lost_its_pager(std::process::id() as i32));
        child.stat.ran = CHILD_TICKS;
        assert!(!child.is_starting() && child.has_lost_its_pager(std::process::id() as i32));
        child.stat.ran = 1;
        assert!(child.is_starting());
        child.makes_pager = false;
        assert!(!child.is_starting());
        (child.makes_pager, child.forked_from) = (true, None);
        assert!(!child.is_starting());
    }

    #[test]
    fn a_slot_is_nobodys_who_has_its_number_elsewhere() {
        let (own, twin) = (member(2, Kind::Agent), member(2, Kind::Unmanaged));
        let claims = Claims::new(&[(2, 0)], [&own, &twin].into_iter());
        assert!(claims.is_managed(&own, || true) && !claims.is_managed(&twin, || false));
        assert!(!claims.is_sure(&own) && !claims.is_sure(&twin));
        let claims = Claims::new(&[(2, 0)], [&own].into_iter());
        assert!(claims.is_managed(&own, || false) && claims.is_sure(&own));
        assert!(!claims.is_managed(&member(3, Kind::Agent), || true));
        let mut inside = member(2, Kind::Agent);
        inside.under = Some(Launcher::new(9, 9));
        assert!(!Claims::new(&[(2, 0)], [&inside].into_iter()).is_managed(&inside, || true));
    }

    #[test]
    fn of_those_with_one_number_each_began_at_another_moment() {
        let (zygote, mut forked) = (member(1, Kind::Agent), member(1, Kind::Agent));
        forked.stat.start += 1;
        let slot = (1, zygote.stat.start);
        let claims = Claims::new(&[slot], [&zygote, &forked].into_iter());
        assert!(claims.is_sure(&zygote) && claims.may_be(slot, &zygote));
        assert!(!claims.is_managed(&forked, || true) && !claims.may_be(slot, &forked));
        // One that does not say when it began may be either's.
        let claims = Claims::new(&[slot, (1, 0)], [&zygote, &forked].into_iter());
        assert!(claims.is_managed(&forked, || false) && claims.may_be((1, 0), &forked));
        // Told by another clock (a namespace of time): who is left has it.
        let claims = Claims::new(&[(1, 7)], [&forked].into_iter());
        assert!(claims.is_sure(&forked));
    }
}
