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
    first_words_below(Path::new("/sys/fs/cgroup"), &groups, file)
}

/// `groups`: as /proc/self/cgroup has them.
fn first_words_below(root: &Path, groups: &str, file: &Named) -> Vec<String> {
    let first_word = |path: PathBuf| {
        let text = std::fs::read_to_string(path).ok()?;
        text.split_whitespace().next().map(str::to_owned)
    };
    let paths = groups.lines().flat_map(|line| paths(root, line, file));
    paths.filter_map(first_word).collect()
}

/// Where that file may be, of the group that a line names and of all above. In a container only the
/// last may be there: the container's own.
fn paths(root: &Path, line: &str, file: &Named) -> Vec<PathBuf> {
    let mut fields = line.splitn(3, ':').skip(1);
    let (Some(controllers), Some(group)) = (fields.next(), fields.next()) else {
        return Vec::new();
    };
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

    const ROOT: &str = "/sys/fs/cgroup";
    const CPU: Named = Named {
        controller: "cpu",
        v2: "cpu.max",
        v1: "cpu.cfs_quota_us",
    };

    #[test]
    fn groups_of_both_versions_are_found() {
        let found = paths(ROOT.as_ref(), "0::/user.slice/a:b", &CPU);
        assert_eq!(found[0], Path::new("/sys/fs/cgroup/user.slice/a:b/cpu.max"));
        assert_eq!(found[2], Path::new("/sys/fs/cgroup/user.slice/cpu.max"));
        assert_eq!(found[4], Path::new("/sys/fs/cgroup/cpu.max"));
        assert_eq!(found.len(), 6);
        let found = paths(ROOT.as_ref(), "4:cpu,cpuacct:/", &CPU);
        assert_eq!(found[1], Path::new("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us"));
        assert!(paths(ROOT.as_ref(), "3:cpuset:/", &CPU).is_empty() && paths(ROOT.as_ref(), "", &CPU).is_empty());
        assert!(paths(ROOT.as_ref(), "nonsense", &CPU).is_empty() && paths(ROOT.as_ref(), "1:cpu", &CPU).is_empty());
    }

    #[test]
    fn a_limit_of_any_group_above_is_read() {
        let root = std::env::temp_dir().join(format!("uzswap-cgroup-{}", std::process::id()));
        let write = |path: &str, text: &str| {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("a/b/memory.max", "max\n");
        write("a/memory.max", "4096\n");
        write("memory/limit", "77\n");
        write("memory/job/limit", "\n");
        write("other/memory.max", "1\n");
        let file = Named {
            controller: "memory",
            v2: "memory.max",
            v1: "limit",
        };
        let found = |groups| {
            let mut words = first_words_below(&root, groups, &file);
            // A controller by itself is looked for by its name and by the list that has it alone.
            words.dedup();
            words
        };
        assert_eq!(found("0::/a/b\n"), ["max", "4096"]);
        // A container sees its own group as the root, and may be told a path outside.
        assert_eq!(found("4:memory:/docker/0af1\n1:cpu:/x\n0::/\n"), ["77"]);
        assert_eq!(found("4:memory:/job\n"), ["77"]);
        assert!(found("").is_empty() && found("0::/elsewhere\n").is_empty());
        std::fs::remove_dir_all(root).unwrap();
    }
}
