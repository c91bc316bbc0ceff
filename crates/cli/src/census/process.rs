//! What /proc tells about a process of another program.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use uzswap_ctl::ENV_GROUP;
use uzswap_mm::page::PAGE_SIZE;

/// `/proc/PID/stat`, as far as it is used here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stat {
    pub(super) name: String,
    /// R, S, D, ...
    pub(super) state: char,
    pub(super) parent: i32,
    /// In clock ticks since the machine started: tells apart processes that have had the same
    /// number.
    pub(super) start: u64,
    /// Clock ticks that it has had of a core.
    pub(super) ran: u64,
    pub(super) image: Image,
    /// All its threads have ended, and its parent does not know yet.
    pub(super) is_over: bool,
    /// The first thread has ended alone. What /proc tells of the process's memory is that thread's,
    /// which has none.
    is_headless: bool,
}

/// Where an execve has put a program: others are elsewhere, copies made by fork are not. Zeros
/// where we may not know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Image {
    code: u64,
    stack: u64,
}

impl Stat {
    pub(super) fn of(pid: i32) -> Option<Self> {
        Self::parse(&text::<1024>(pid, "stat")?)
    }

    /// This process's, whose number may be another's in the /proc that is seen here.
    pub(super) fn own() -> Option<Self> {
        Self::parse(&fs::read_to_string("/proc/self/stat").ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        /// Numbers of proc_pid_stat(5), less the two fields before the state.
        const PARENT: usize = 4 - 3;
        const USER: usize = 14 - 3;
        const SYSTEM: usize = 15 - 3;
        const THREADS: usize = 20 - 3;
        const START: usize = 22 - 3;
        const CODE: usize = 26 - 3;
        const STACK: usize = 28 - 3;
        // The name may hold anything.
        let (head, tail) = text.rsplit_once(')')?;
        let fields: Vec<&str> = tail.split_ascii_whitespace().collect();
        let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
        let is_zombie = matches!(*fields.first()?, "Z" | "X");
        let threads = number(THREADS)?;
        Some(Self {
            name: head.split_once('(')?.1.to_owned(),
            state: fields.first()?.chars().next()?,
            parent: number(PARENT)? as i32,
            start: number(START)?,
            ran: number(USER)? + number(SYSTEM)?,
            image: Image {
                code: number(CODE)?,
                stack: number(STACK)?,
            },
            is_over: is_zombie && threads <= 1,
            is_headless: is_zombie,
        })
    }

    /// Resident anonymous memory, own or shared after a fork.
    pub(super) fn anon(&self, pid: i32, sizes: Option<&Sizes>) -> u64 {
        if !self.is_headless {
            return sizes.map_or_else(|| Sizes::open(pid).map_or(0, |sizes| sizes.anon()), Sizes::anon);
        }
        let threads = fs::read_dir(path(pid, "task")).into_iter().flatten().flatten();
        let texts = threads.filter_map(|thread| fs::read_to_string(thread.path().join("statm")).ok());
        texts.map(|text| parse_anon(&text)).max().unwrap_or(0)
    }
}

/// Whether a process is ending: it was sent SIGKILL, or each of its threads is about to end or past
/// it. Who is writing a core for another signal is not: that takes as long as it likes.
pub(super) fn is_ending(pid: i32) -> bool {
    if Status::of(pid).is_some_and(|status| status.is_killed) {
        return true;
    }
    let threads = fs::read_dir(path(pid, "task")).into_iter().flatten().flatten();
    // A thread that is gone by now has ended.
    let mut texts = threads.filter_map(|thread| fs::read_to_string(thread.path().join("stat")).ok());
    texts.all(|text| is_thread_ending(&text))
}

/// SIGKILL among pending signals. The kernel makes it so for each thread when one ends the process.
const KILL: u64 = 1 << (9 - 1);

fn is_thread_ending(stat: &str) -> bool {
    /// Numbers of proc_pid_stat(5), less the two fields before the state.
    const FLAGS: usize = 9 - 3;
    const PENDING: usize = 31 - 3;
    /// `PF_EXITING` of the kernel.
    const EXITING: u64 = 4;
    let Some((_, tail)) = stat.rsplit_once(')') else {
        return true;
    };
    let fields: Vec<&str> = tail.split_ascii_whitespace().collect();
    let has = |at: usize, bit: u64| {
        let number = fields.get(at).and_then(|field| field.parse::<u64>().ok());
        number.unwrap_or(0) & bit != 0
    };
    matches!(fields.first(), Some(&("Z" | "X"))) || has(FLAGS, EXITING) || has(PENDING, KILL)
}

/// A file of /proc that is read again and again.
struct Again(File);

impl Again {
    fn open(path: impl AsRef<Path>) -> Option<Self> {
        File::open(path).ok().map(Self)
    }

    /// What is in it now, from its first few words on.
    fn read<T>(&self, parse: impl FnOnce(&str) -> T) -> Option<T> {
        let mut bytes = [0; 128];
        let n = self.0.read_at(&mut bytes, 0).ok()?;
        std::str::from_utf8(&bytes[..n]).ok().map(parse)
    }
}

/// `statm` of a process, whatever has its number later.
pub(super) struct Sizes(Again);

impl Sizes {
    pub(super) fn open(pid: i32) -> Option<Self> {
        Again::open(path(pid, "statm")).map(Self)
    }

    /// Resident anonymous memory; 0 once the process is gone.
    pub(super) fn anon(&self) -> u64 {
        self.0.read(parse_anon).unwrap_or(0)
    }
}

/// A file of a process, of `MOST` bytes at most: in one read, where the length is not known to the
/// standard library.
fn text<const MOST: usize>(pid: i32, file: &str) -> Option<String> {
    let mut bytes = [0; MOST];
    let n = File::open(path(pid, file)).ok()?.read_at(&mut bytes, 0).ok()?;
    Some(String::from_utf8_lossy(&bytes[..n]).into_owned())
}

fn path(pid: i32, file: &str) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/{file}"))
}

fn parse_anon(statm: &str) -> u64 {
    let mut pages = statm
        .split_ascii_whitespace()
        .skip(1)
        .map(|field| field.parse::<u64>().unwrap_or(0));
    let (resident, shared) = (pages.next().unwrap_or(0), pages.next().unwrap_or(0));
    resident.saturating_sub(shared) * PAGE_SIZE as u64
}

/// Bytes of a line of `status` or `smaps_rollup`.
fn kilobytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim()
        .strip_suffix(" kB")?
        .trim()
        .parse::<u64>()
        .ok()
        .map(|kib| kib << 10)
}

/// Anonymous and shared memory, each page by the part that is not other processes'. `None`: not
/// ours to know. Walks the page tables.
pub(super) fn proportional(pid: i32) -> Option<(u64, u64)> {
    let text = text::<4096>(pid, "smaps_rollup")?;
    Some((kilobytes(&text, "Pss_Anon:")?, kilobytes(&text, "Pss_Shmem:")?))
}

/// Anonymous memory that is no changed copy of a file's, as a library's data are. `None`: not ours
/// to know. Walks the page tables.
pub(super) fn anon_without_files(pid: i32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps")).ok()?;
    Some(sum_without_files(&text))
}

fn sum_without_files(smaps: &str) -> u64 {
    let mut has_file = false;
    let mut sum = 0;
    for line in smaps.lines() {
        let mut words = line.split_ascii_whitespace();
        match words.next() {
            Some("Anonymous:") if !has_file => {
                sum += words.next().and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) << 10;
            }
            // Permissions, offset, device and inode.
            Some(first) if !first.ends_with(':') => has_file = words.nth(3).is_some_and(|inode| inode != "0"),
            _ => {}
        }
    }
    sum
}

/// `/proc/PID/status`, as far as it is used here.
pub(super) struct Status {
    /// What the number was of is a process, not a thread of one.
    pub(super) is_process: bool,
    /// Its number where it lives.
    pub(super) inner_pid: i32,
    /// Bytes of shared memory that it has touched.
    pub(super) shmem: u64,
    /// It was sent SIGKILL. That stays so: nobody takes this signal.
    is_killed: bool,
}

impl Status {
    pub(super) fn of(pid: i32) -> Option<Self> {
        Self::parse(pid, &text::<8192>(pid, "status")?)
    }

    fn parse(pid: i32, text: &str) -> Option<Self> {
        let last = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_ascii_whitespace().last()?.parse::<i32>().ok()
        };
        let signals = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|set| u64::from_str_radix(set.trim(), 16).ok())
                .unwrap_or(0)
        };
        Some(Self {
            is_process: last("Tgid:")? == pid,
            inner_pid: last("NSpid:").unwrap_or(pid),
            shmem: kilobytes(text, "RssShmem:").unwrap_or(0),
            is_killed: signals("ShdPnd:") & KILL != 0,
        })
    }
}

/// Whether a thread of it is a pager's: each pager has these in each way to serve faults.
pub(super) fn has_pager(pid: i32) -> bool {
    let threads = fs::read_dir(path(pid, "task")).into_iter().flatten().flatten();
    let mut names = threads.filter_map(|thread| fs::read(thread.path().join("comm")).ok());
    names.any(|name| matches!(&name[..], b"uzswap-fault\n" | b"uzswap-kswapd\n"))
}

/// Whether the file of its program is set-uid or set-gid.
pub(super) fn changes_user(pid: i32) -> bool {
    const SET: u32 = 0o6000;
    fs::metadata(path(pid, "exe")).is_ok_and(|exe| exe.mode() & SET != 0)
}

/// Whose it is, if that is another user than we are; of one that has changed that since its last
/// exec this is not known.
pub(super) fn other_user(pid: i32) -> Option<u32> {
    let owner = fs::metadata(path(pid, "")).ok()?.uid();
    let own = rustix::process::geteuid().as_raw();
    (owner != own && owner != 0).then_some(owner)
}

/// What a program was loaded with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Loaded {
    /// The agent.
    Agent,
    /// A libc, but no agent.
    LibcAlone,
    /// No shared library.
    Nothing,
    /// It is being loaded still.
    Unfinished,
    /// Not ours to know: another user's, or set-uid.
    Hidden,
}

impl Loaded {
    pub(super) fn of(pid: i32) -> Self {
        let mut maps = Vec::with_capacity(1 << 15);
        match File::open(path(pid, "maps")).and_then(|mut file| file.read_to_end(&mut maps)) {
            Ok(_) => Self::parse(&String::from_utf8_lossy(&maps)),
            Err(e) if e.kind() == std::io::ErrorKind::PermissionDenied => Self::Hidden,
            Err(_) => Self::Unfinished,
        }
    }

    /// The loader maps what is preloaded before libc. A process that ends, or becomes another
    /// program, in the middle of the reading has no stack.
    fn parse(maps: &str) -> Self {
        if !maps.contains("[stack]") {
            return Self::Unfinished;
        }
        let names = || {
            maps.lines()
                .filter_map(|line| line.split_once('/'))
                .map(|(_, path)| path)
        };
        let file = |path: &str| path.rsplit('/').next().unwrap_or("").to_owned();
        let any = |is: fn(&str) -> bool| names().any(|path| is(&file(path)));
        let is_agent = |path: &str| path.contains("uzswap") && file(path).contains(crate::agent::NAME);
        if names().any(is_agent) {
            Self::Agent
        } else if any(|file| file.starts_with("libc.so") || file.starts_with("libc-2") || file.starts_with("ld-musl")) {
            Self::LibcAlone
        } else if names().next().is_none() || any(|file| file.starts_with("ld-") || file.starts_with("ld64")) {
            Self::Unfinished
        } else {
            Self::Nothing
        }
    }
}

/// Whether it has an agent that has joined the group of this file, and nothing in its environment
/// names a group: a daemon may write over that.
pub(super) fn has_joined(pid: i32, group: &Path) -> bool {
    let environment = fs::read(path(pid, "environ")).unwrap_or_default();
    let is_name = |entry: &[u8]| entry.starts_with(ENV_GROUP.as_bytes());
    if environment.split(|byte| *byte == 0).any(is_name) {
        return false;
    }
    let maps = fs::read(path(pid, "maps")).unwrap_or_default();
    maps_group(&String::from_utf8_lossy(&maps), group)
}

fn maps_group(maps: &str, group: &Path) -> bool {
    let is_its = |line: &str| line.find('/').is_some_and(|at| Path::new(&line[at..]) == group);
    maps.lines().any(is_its) && Loaded::parse(maps) == Loaded::Agent
}

/// Whether the environment that the process was started with names this group.
pub(super) fn names_group(pid: i32, variable: &[u8]) -> bool {
    let environment = fs::read(path(pid, "environ")).unwrap_or_default();
    environment.split(|byte| *byte == 0).any(|entry| entry == variable)
}

/// Whether it has no environment: it is about to become another program, or has become one without.
pub(super) fn has_no_environment(pid: i32) -> bool {
    fs::read(path(pid, "environ")).is_ok_and(|environment| environment.is_empty())
}

/// How much the OOM rule spares it, or the contrary: -1000 to 1000.
pub(super) fn oom_score_adj(pid: i32) -> i64 {
    let text = text::<64>(pid, "oom_score_adj").unwrap_or_default();
    text.trim().parse().unwrap_or(0)
}

/// Which process or thread number was given out last.
#[derive(Default)]
pub(super) struct Cursor(Option<Again>);

impl Cursor {
    /// `None`: /proc does not say.
    pub(super) fn last(&mut self) -> Option<i32> {
        if self.0.is_none() {
            self.0 = Again::open("/proc/loadavg");
        }
        let parse = |text: &str| text.split_ascii_whitespace().last()?.parse().ok();
        self.0.as_ref()?.read(parse).flatten()
    }
}

/// All processes.
pub(super) fn all() -> Vec<i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

/// All that `root` has started, and what that has started.
pub(crate) fn below(root: i32) -> Vec<i32> {
    let parent_of = |pid: i32| Some((pid, Stat::of(pid)?.parent));
    let parents: Vec<(i32, i32)> = all().into_iter().filter_map(parent_of).collect();
    let mut family = vec![root];
    let mut at = 0;
    while let Some(&member) = family.get(at) {
        let is_child = |(child, parent): &&(i32, i32)| *parent == member && !family.contains(child);
        let children: Vec<_> = parents.iter().filter(is_child).map(|(child, _)| *child).collect();
        family.extend(children);
        at += 1;
    }
    family.split_off(1)
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn changed_copies_of_files_are_told_apart() {
        let smaps = "\
            7f00-7f40 rw-p 00000000 00:00 0 \n\
            Rss: 40 kB\nAnonymous: 40 kB\nVmFlags: rd wr\n\
            7f40-7f80 rw-p 00001000 08:01 77 /usr/lib/libc.so.6\n\
            Anonymous: 20 kB\n\
            7f80-7fc0 rw-p 00000000 00:00 0 [heap]\n\
            Anonymous: 3 kB\n";
        assert_eq!(sum_without_files(smaps), 43 << 10);
        assert_eq!(sum_without_files(""), 0);
    }

    #[test]
    fn a_name_may_hold_anything() {
        let fields = "S 7 1 1 0 -1 0 0 0 0 0 8 9 0 0 20 0 3 0 55 0 0 0 400 0 900 0";
        let stat = Stat::parse(&format!("12 (a) b) {fields}")).unwrap();
        assert_eq!((stat.name.as_str(), stat.parent, stat.start), ("a) b", 7, 55));
        assert_eq!(stat.ran, 17);
        assert_eq!(stat.image, Image { code: 400, stack: 900 });
        assert!(!stat.is_over && !stat.is_headless);
        let headless = Stat::parse(&format!("12 (a) {}", fields.replace('S', "Z"))).unwrap();
        assert!(headless.is_headless && !headless.is_over);
    }

    #[test]
    fn a_thread_ends_that_is_exiting_or_killed() {
        let stat = |state: &str, flags: u64, pending: u64| {
            format!(
                "12 (a) b) {state} 7 1 1 0 -1 {flags} 0 0 0 0 0 0 0 0 20 0 3 0 55 0 0 0 400 0 900 0 0 {pending} 0 0"
            )
        };
        assert!(!is_thread_ending(&stat("S", 0x40_0000, 1 << 14)));
        assert!(is_thread_ending(&stat("S", 0x40_0000, 1 << 8)));
        assert!(is_thread_ending(&stat("R", 0x40_0004, 0)));
        assert!(is_thread_ending(&stat("Z", 0, 0)));
    }

    #[test]
    fn a_process_ends_once_it_is_killed() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("sleep");
        let pid = child.id() as i32;
        assert!(!is_ending(pid) && !is_ending(std::process::id() as i32));
        child.kill().expect("a child");
        assert!(is_ending(pid));
        child.wait().expect("its end");
    }

    #[test]
    fn what_is_loaded_is_told_by_the_files_that_are_mapped() {
        let maps = |files: &[&str]| {
            let line = |file: &&str| format!("7f00-7f01 r-xp 00000000 08:01 12   {file}\n");
            Loaded::parse(&files.iter().chain(&["[stack]"]).map(line).collect::<String>())
        };
        let (ld, libc) = ("/usr/lib/ld-linux-x86-64.so.2", "/usr/lib/libc.so.6");
        assert_eq!(maps(&["/bin/a", "/tmp/uzswap-0/agent-12.so", ld, libc]), Loaded::Agent);
        assert_eq!(
            maps(&["/bin/a", "/memfd:uzswap-agent-12.so (deleted)", ld]),
            Loaded::Agent
        );
        assert_eq!(maps(&["/bin/a", ld]), Loaded::Unfinished);
        let joined = |files: &str| {
            maps_group(
                &format!("7f00-7f01 rw-s 0 08:01 12 {files}\n[stack]"),
                Path::new("/tmp/g"),
            )
        };
        assert!(joined("/tmp/g\n7f02-7f03 r-xp 0 08:01 13 /tmp/uzswap-0/agent-12.so"));
        // Somebody looks at the group; has another; its name only begins like that.
        assert!(!joined("/tmp/g") && !joined("/lib/agent-1.so") && !joined("/tmp/uzswap-0/agent-12.so"));
        assert!(!joined(
            "/tmp/g.old\n7f02-7f03 r-xp 0 08:01 13 /tmp/uzswap-0/agent-12.so"
        ));
        assert_eq!(maps(&["/bin/a", ld, libc]), Loaded::LibcAlone);
        assert_eq!(maps(&["/bin/a", "/lib/ld-musl-x86_64.so.1"]), Loaded::LibcAlone);
        assert_eq!(maps(&["/bin/a"]), Loaded::Nothing);
        assert_eq!(maps(&[]), Loaded::Unfinished);
        assert_eq!(
            Loaded::parse("7f00-7f01 r-xp 00000000 08:01 12   /bin/a\n"),
            Loaded::Unfinished
        );
    }

    #[test]
    fn this_process_is_known() {
        let pid = std::process::id() as i32;
        let stat = Stat::of(pid).unwrap();
        assert_eq!(stat.parent, uzswap_sys::thread::parent_pid());
        assert!(stat.anon(pid, None) > 0 && stat.image != Image::default());
        let status = Status::of(pid).unwrap();
        assert!(status.is_process);
        assert!(all().contains(&pid));
        assert!(Cursor::default().last().unwrap() > 0);
        assert_ne!(Loaded::of(pid), Loaded::Agent);
    }
}
