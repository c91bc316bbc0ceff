//! Whether processor time is rationed here: `cpu.max` of control groups version 2,
//! `cpu.cfs_quota_us` of version 1.

use std::path::{Path, PathBuf};

/// Whether this process's control group, or one above it, has a quota. What cannot be read has
/// none.
pub(crate) fn is_set() -> bool {
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    groups.lines().filter_map(places).any(|(files, group)| {
        files
            .iter()
            .any(|(root, file)| group.ancestors().any(|group| rations(&root.join(group).join(file))))
    })
}

/// The files that a line of /proc/self/cgroup is about, each with the directory that the group is
/// to be looked for in.
fn places(line: &str) -> Option<(Vec<(PathBuf, &'static str)>, &Path)> {
    let mut fields = line.splitn(3, ':').skip(1);
    let (controllers, group) = (fields.next()?, fields.next()?);
    let root = Path::new("/sys/fs/cgroup");
    let files = match controllers {
        "" => vec![(root.to_owned(), "cpu.max"), (root.join("unified"), "cpu.max")],
        _ if controllers.split(',').any(|controller| controller == "cpu") => vec![
            (root.join("cpu"), "cpu.cfs_quota_us"),
            (root.join(controllers), "cpu.cfs_quota_us"),
        ],
        _ => return None,
    };
    Some((files, Path::new(group.trim_start_matches('/'))))
}

fn rations(file: &Path) -> bool {
    std::fs::read_to_string(file).is_ok_and(|text| is_quota(&text))
}

/// `max 100000`, or `-1`: none.
fn is_quota(text: &str) -> bool {
    let microseconds = text.split_whitespace().next().and_then(|word| word.parse::<u64>().ok());
    microseconds.is_some()
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_quota_is_a_number() {
        assert!(is_quota("50000 100000\n") && is_quota("20000\n"));
        assert!(!is_quota("max 100000\n") && !is_quota("-1\n") && !is_quota(""));
    }

    #[test]
    fn groups_of_both_versions_are_found() {
        let (files, group) = places("0::/user.slice/a:b").unwrap();
        assert_eq!(group, Path::new("user.slice/a:b"));
        assert_eq!(
            files[0].0.join(group).join(files[0].1),
            Path::new("/sys/fs/cgroup/user.slice/a:b/cpu.max")
        );
        let (files, _) = places("4:cpu,cpuacct:/").unwrap();
        assert_eq!(files[1].0, Path::new("/sys/fs/cgroup/cpu,cpuacct"));
        assert!(places("3:cpuset:/").is_none() && places("").is_none());
    }
}
