//! Control groups around this process, version 1 and 2: files of its own group and of those above.

use std::path::{Path, PathBuf};

/// A file of a controller, as the versions of control groups name it.
pub(crate) struct Named {
    pub(crate) controller: &'static str,
    pub(crate) v2: &'static str,
    pub(crate) v1: &'static str,
}

/// What that file says, first words of this process's group and of each above that has it.
pub(crate) fn first_words(file: &Named) -> Vec<String> {
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let first_word = |path: PathBuf| {
        let text = std::fs::read_to_string(path).ok()?;
        text.split_whitespace().next().map(str::to_owned)
    };
    groups
        .lines()
        .flat_map(|line| paths(line, file))
        .filter_map(first_word)
        .collect()
}

/// Where that file may be, of the group that a line of /proc/self/cgroup names and of all above. In
/// a container only the last may be there: the container's own.
fn paths(line: &str, file: &Named) -> Vec<PathBuf> {
    let mut fields = line.splitn(3, ':').skip(1);
    let (Some(controllers), Some(group)) = (fields.next(), fields.next()) else {
        return Vec::new();
    };
    let root = Path::new("/sys/fs/cgroup");
    let (roots, name) = match controllers {
        "" => ([root.to_owned(), root.join("unified")], file.v2),
        _ if controllers.split(',').any(|one| one == file.controller) => {
            ([root.join(file.controller), root.join(controllers)], file.v1)
        }
        _ => return Vec::new(),
    };
    let groups = Path::new(group.trim_start_matches('/')).ancestors();
    let in_roots = |group: &Path| roots.clone().map(|root| root.join(group).join(name));
    groups.flat_map(in_roots).collect()
}

#[cfg(test)]
mod test {
    use super::*;

    const CPU: Named = Named {
        controller: "cpu",
        v2: "cpu.max",
        v1: "cpu.cfs_quota_us",
    };

    #[test]
    fn groups_of_both_versions_are_found() {
        let found = paths("0::/user.slice/a:b", &CPU);
        assert_eq!(found[0], Path::new("/sys/fs/cgroup/user.slice/a:b/cpu.max"));
        assert_eq!(found[2], Path::new("/sys/fs/cgroup/user.slice/cpu.max"));
        assert_eq!(found[4], Path::new("/sys/fs/cgroup/cpu.max"));
        assert_eq!(found.len(), 6);
        let found = paths("4:cpu,cpuacct:/", &CPU);
        assert_eq!(found[1], Path::new("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us"));
        assert!(paths("3:cpuset:/", &CPU).is_empty() && paths("", &CPU).is_empty());
        assert!(paths("nonsense", &CPU).is_empty() && paths("1:cpu", &CPU).is_empty());
    }
}
