//! A memory control group, v1 or v2, whichever the machine has.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::super::procfs::{counters, read};
use super::super::undo::{self, Undo};
use crate::Failure;

/// Where control groups for memory are made.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Hierarchy {
    V1(PathBuf),
    V2(PathBuf),
}

/// A group of ours.
pub(crate) struct Cgroup {
    dir: PathBuf,
    is_v2: bool,
}

/// Why none can be made.
pub(super) fn refusal() -> Option<String> {
    let Some(hierarchy) = find() else {
        return Some("no memory controller is mounted (cgroup v1 or v2)".to_owned());
    };
    let (Hierarchy::V1(dir) | Hierarchy::V2(dir)) = hierarchy;
    let probe = dir.join(format!("uzswap-bench-probe.{}", std::process::id()));
    match std::fs::create_dir(&probe) {
        Ok(()) => std::fs::remove_dir(&probe)
            .err()
            .map(|e| format!("{}: {e}", probe.display())),
        Err(e) => Some(format!("no control group can be made in {}: {e}", dir.display())),
    }
}

fn find() -> Option<Hierarchy> {
    parse_mounts(&read("/proc/self/mounts"), |dir| read(dir.join("cgroup.controllers")))
}

/// v1 where the memory controller is bound to it, else v2.
fn parse_mounts(mounts: &str, controllers: impl Fn(&Path) -> String) -> Option<Hierarchy> {
    let fields = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let mut v2 = None;
    for field in fields.filter(|field| field.len() > 3) {
        let dir = PathBuf::from(field[1]);
        match field[2] {
            "cgroup" if field[3].split(',').any(|option| option == "memory") => return Some(Hierarchy::V1(dir)),
            "cgroup2" if controllers(&dir).split_whitespace().any(|name| name == "memory") => {
                v2 = Some(Hierarchy::V2(dir));
            }
            _ => {}
        }
    }
    v2
}

fn write(path: &Path, value: &str) -> Result<(), Failure> {
    std::fs::write(path, value).map_err(|e| Failure::new(format!("{}: cannot write '{value}': {e}", path.display())))
}

impl Cgroup {
    /// A new group that may use `limit` bytes of memory, and as much swap as there is.
    pub(super) fn create(limit: u64) -> Result<(Self, Undo), Failure> {
        let hierarchy = find().ok_or_else(|| Failure::new("no memory controller is mounted"))?;
        let is_v2 = matches!(hierarchy, Hierarchy::V2(_));
        let (Hierarchy::V1(root) | Hierarchy::V2(root)) = hierarchy;
        if is_v2 {
            write(&root.join("cgroup.subtree_control"), "+memory")?;
        }
        let dir = root.join(format!("uzswap-bench.{}", std::process::id()));
        std::fs::create_dir(&dir).map_err(|e| Failure::new(format!("{}: {e}", dir.display())))?;
        let undo = undo::owe(format!("rmdir {}", dir.display()), {
            let dir = dir.clone();
            move || remove(&dir)
        });
        let file = if is_v2 { "memory.max" } else { "memory.limit_in_bytes" };
        write(&dir.join(file), &limit.to_string())?;
        Ok((Self { dir, is_v2 }, undo))
    }

    /// The file that takes the ids of its processes.
    pub(super) fn procs(&self) -> PathBuf {
        self.dir.join("cgroup.procs")
    }

    /// Its counters.
    pub(super) fn memory_stat(&self) -> PathBuf {
        self.dir.join("memory.stat")
    }

    /// Processes that were killed for memory.
    pub(super) fn oom_kills(&self) -> u64 {
        let file = if self.is_v2 {
            "memory.events"
        } else {
            "memory.oom_control"
        };
        counters(&read(self.dir.join(file)))
            .get("oom_kill")
            .copied()
            .unwrap_or(0)
    }
}

/// A group whose last process ended just now may be busy for a moment.
fn remove(dir: &Path) -> Result<(), String> {
    let mut last = String::new();
    for _ in 0..100 {
        match std::fs::remove_dir(dir) {
            Ok(()) => return Ok(()),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(e) => last = e.to_string(),
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Err(last)
}

#[cfg(test)]
mod test {
    use super::*;

    const BOTH: &str = "cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n\
                        cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n\
                        cgroup /sys/fs/cgroup/memory cgroup rw,relatime,memory 0 0\n";

    #[test]
    fn the_controller_is_where_it_is_bound() {
        let none = |_: &Path| "cpu io".to_owned();
        assert_eq!(
            parse_mounts(BOTH, none),
            Some(Hierarchy::V1("/sys/fs/cgroup/memory".into()))
        );
        let v2 = "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n";
        assert_eq!(parse_mounts(v2, none), None);
        let with_memory = |_: &Path| "cpu memory io\n".to_owned();
        assert_eq!(
            parse_mounts(v2, with_memory),
            Some(Hierarchy::V2("/sys/fs/cgroup".into()))
        );
    }
}
