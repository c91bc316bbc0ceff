//! Groups: where their files are, and finding those that run.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use uzswap_ctl::{Field, Group, LAUNCHER, MEMBERSHIP, WORDS};
use uzswap_sys::cut_short::{self, Ending, Loss};
use uzswap_sys::shared::{Leases, SharedWords};

use crate::Failure;
use crate::agent::{self, runtime_dir};
use crate::{FAILED, describe, keeper, remote};

const SUFFIX: &str = ".group";

/// A group file that this process has open.
pub(crate) struct OpenGroup {
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    pub(crate) leases: Leases,
    pub(crate) group: Group,
}

fn taken(name: &str) -> Failure {
    Failure::new(format!(
        "--name {name}: a group of that name is running: choose another; `uzswap list` shows those that are taken"
    ))
}

/// Why nothing could be set up, with what helps unless it is another name.
pub(crate) fn not_set_up(Failure(line): Failure, name: Option<&str>) -> Failure {
    match name {
        Some(name) if line == taken(name).0 => taken(name),
        _ => Failure(format!("{line}, or run it with --allow-unmanaged")),
    }
}

/// Beforehand, for that is no fault of the program's or the machine's.
///
/// # Errors
/// A group of that name is running.
pub(crate) fn check_free(name: Option<&str>) -> Result<(), Failure> {
    let Some(name) = name else { return Ok(()) };
    let path = runtime_dir()?.join(format!("{name}{SUFFIX}"));
    match OpenGroup::open(&path) {
        Some(group) if group.is_alive() => Err(taken(name)),
        _ => Ok(()),
    }
}

pub(crate) fn c_path(path: &Path) -> Result<CString, Failure> {
    CString::new(path.as_os_str().as_bytes())
        .map_err(|_| Failure::new(format!("{}: a path with a zero byte", path.display())))
}

impl OpenGroup {
    /// Make the file of a new group, and hold the launcher's lease on it.
    pub(crate) fn create(name: Option<&str>) -> Result<Self, Failure> {
        let dir = runtime_dir()?;
        let _names = lock_names()?;
        // Members of a group outlive its launcher, whose process id may be another's by now.
        let own = (0..).map(|n| match n {
            0 => std::process::id().to_string(),
            n => format!("{}-{n}", std::process::id()),
        });
        let names: Box<dyn Iterator<Item = String>> = match name {
            Some(name) => Box::new(std::iter::once(name.to_owned())),
            None => Box::new(own),
        };
        for name in names {
            let path = dir.join(format!("{name}{SUFFIX}"));
            if is_left_over(&path)? {
                let _ = std::fs::remove_file(&path);
            }
            let fail = |e| {
                Failure::new(format!(
                    "{}: {}; set TMPDIR to a directory with room for it",
                    path.display(),
                    describe(e)
                ))
            };
            let c = c_path(&path)?;
            let file = match SharedWords::create(&c, WORDS) {
                Err(uzswap_sys::Errno::EXIST) => continue,
                made => made.map_err(fail)?,
            };
            let group = Group::create(file.words());
            cut_short::watch(file.words(), Loss::Ends(ending(&path, &path)?));
            let leases = Leases::open(&c).map_err(fail)?;
            leases.try_take(LAUNCHER);
            return Ok(Self {
                name,
                path,
                leases,
                group,
            });
        }
        Err(taken(name.unwrap_or_default()))
    }

    /// Open a group file. `None`: it is not one of ours.
    pub(crate) fn open(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?.strip_suffix(SUFFIX)?.to_owned();
        let c = c_path(path).ok()?;
        let group = Group::open(map_once(path)?.words())?;
        let leases = Leases::open(&c).ok()?;
        Some(Self {
            name,
            path: path.to_owned(),
            leases,
            group,
        })
    }

    /// Whether the launcher or any process of the group lives.
    pub(crate) fn is_alive(&self) -> bool {
        self.leases.is_held(LAUNCHER) || self.has_members()
    }

    /// Whether any process lives that has the agent.
    pub(crate) fn has_members(&self) -> bool {
        self.leases.is_held(MEMBERSHIP) || self.processes().next().is_some()
    }

    /// Remove what this group has in the directory. It is over.
    pub(crate) fn remove_files(&self) {
        // A cleaner of temporary files may have freed the name, and another group may have it now.
        let named = std::fs::metadata(&self.path).map(|file| (file.dev(), file.ino()));
        let own = rustix::fs::fstat(&self.leases).map(|file| (file.st_dev, file.st_ino));
        if named.is_ok_and(|named| own != Ok(named)) {
            return;
        }
        for path in files(&self.path) {
            let _ = std::fs::remove_file(path);
        }
    }

    /// Slots of living processes with a pager.
    pub(crate) fn processes(&self) -> impl Iterator<Item = usize> {
        let used = |slot: &usize| self.group.field(*slot, Field::Pid) != 0 && self.leases.is_held(*slot);
        (0..self.group.high_water()).filter(used)
    }
}

/// What the group of that file has in the directory.
fn files(group: &Path) -> [PathBuf; 4] {
    [
        keeper::path(group),
        remote::path(group),
        agent::link_path(group),
        group.to_owned(),
    ]
}

/// What the launcher of the group `own` does where somebody truncates `file`, its own or that of
/// the group around it.
pub(crate) fn ending(file: &Path, own: &Path) -> Result<Ending, Failure> {
    let dir = file.parent().unwrap_or(file).display();
    let file = file.display();
    let files = files(own).map(|path| c_path(&path));
    Ok(Ending {
        line: format!(
            "uzswap: {file} was cut short by another program: CMD is ended, since nobody knows its limit any more; let nothing but \
             uzswap write to {dir}\n"
        )
        .into_bytes(),
        files: files.into_iter().collect::<Result<_, _>>()?,
        status: FAILED,
    })
}

/// The words of a file. Nothing unmaps them, so a file that is looked at again and again is mapped
/// once: a process may have no more than so many mappings.
fn map_once(path: &Path) -> Option<SharedWords> {
    static MAPPED: Mutex<BTreeMap<(u64, u64), SharedWords>> = Mutex::new(BTreeMap::new());
    let number = || {
        let file = std::fs::metadata(path).ok()?;
        Some((file.dev(), file.ino()))
    };
    let before = number()?;
    let mut mapped = MAPPED.lock().ok()?;
    if let Some(words) = mapped.get(&before) {
        return Some(*words);
    }
    let words = SharedWords::open(&c_path(path).ok()?, WORDS).ok()?;
    // Another file may have got the name meanwhile. No other gets the number while this is mapped.
    if number() == Some(before) {
        cut_short::watch(words.words(), Loss::Zeros);
        mapped.insert(before, words);
    }
    Some(words)
}

/// Whether the group of that file has ended without removing it, whatever version of uzswap ran it.
fn is_left_over(path: &Path) -> Result<bool, Failure> {
    Ok(match OpenGroup::open(path) {
        Some(old) => !old.is_alive(),
        None => !is_held(path),
    })
}

/// Whether somebody has the group of this file, whatever version of uzswap.
fn is_held(path: &Path) -> bool {
    let leases = c_path(path).ok().and_then(|path| Leases::open(&path).ok());
    leases.is_some_and(|leases| [LAUNCHER, MEMBERSHIP].iter().any(|who| leases.is_held(*who)))
}

/// Names of groups that run under another version of uzswap: nothing of them can be read.
pub(crate) fn of_other_versions() -> Result<Vec<String>, Failure> {
    let dir = runtime_dir()?;
    let entries = std::fs::read_dir(&dir).map_err(|e| Failure::new(format!("{}: {e}", dir.display())))?;
    let name_of = |path: PathBuf| {
        let name = path.file_name()?.to_str()?.strip_suffix(SUFFIX)?.to_owned();
        (OpenGroup::open(&path).is_none() && is_held(&path)).then_some(name)
    };
    Ok(entries.flatten().filter_map(|entry| name_of(entry.path())).collect())
}

/// All groups that run; files of those that do not are removed.
pub(crate) fn running() -> Result<Vec<OpenGroup>, Failure> {
    let dir = runtime_dir()?;
    let entries = std::fs::read_dir(&dir).map_err(|e| Failure::new(format!("{}: {e}", dir.display())))?;
    let groups = entries.flatten().filter_map(|entry| OpenGroup::open(&entry.path()));
    let (mut alive, dead): (Vec<_>, Vec<_>) = groups.partition(OpenGroup::is_alive);
    if dead.is_empty() {
        return Ok(alive);
    }
    // Where it cannot be had they stay until it can.
    let names = lock_names();
    for group in dead {
        // Looked at again: it may have been one that was just being made.
        if group.is_alive() {
            alive.push(group);
        } else if names.is_ok() && is_left_over(&group.path)? {
            group.remove_files();
        }
    }
    Ok(alive)
}

/// Held while group files are made and removed: from its creation until its launcher has the lease
/// a group looks like one that has ended, and what has one name now may have been another a moment
/// ago.
fn lock_names() -> Result<File, Failure> {
    let path = runtime_dir()?.join("groups.lock");
    let failure = |e| Failure::new(format!("{}: {e}", path.display()));
    let mut options = File::options();
    let options = options.write(true).create(true).truncate(false).mode(0o600);
    let file = options.open(&path).map_err(failure)?;
    file.lock().map_err(failure)?;
    Ok(file)
}

/// The group of that name, or the only one.
pub(crate) fn find(name: Option<&str>) -> Result<OpenGroup, Failure> {
    let mut groups = running()?;
    let at = match name {
        Some(name) => groups.iter().position(|g| g.name == name),
        None if groups.len() > 1 => {
            let names: Vec<&str> = groups.iter().map(|g| g.name.as_str()).collect();
            return Err(Failure::new(format!(
                "several groups are running, name one: {}",
                names.join(", ")
            )));
        }
        None => (!groups.is_empty()).then_some(0),
    };
    match (at, name) {
        (Some(at), _) => Ok(groups.swap_remove(at)),
        (None, Some(name)) if of_other_versions()?.iter().any(|other| other == name) => Err(Failure::new(format!(
            "group '{name}' is run by another version of uzswap: use that one's `uzswap`"
        ))),
        (None, Some(name)) => Err(Failure::new(format!(
            "no group named '{name}' is running in {}; `uzswap list` shows those that are, TMPDIR says where",
            runtime_dir()?.display()
        ))),
        (None, None) => Err(Failure::new(format!(
            "no group is running that has its file in {}: TMPDIR says where",
            runtime_dir()?.display()
        ))),
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_file_is_mapped_once_however_often_it_is_looked_at() {
        let path = std::env::temp_dir().join(format!("uzswap-group-{}{SUFFIX}", std::process::id()));
        let make = |limit| {
            let words = SharedWords::create(&c_path(&path).unwrap(), WORDS).unwrap();
            Group::create(words.words()).set(uzswap_ctl::Limit::MemoryMax, limit);
        };
        let limit = || OpenGroup::open(&path).unwrap().group.get(uzswap_ctl::Limit::MemoryMax);
        make(1);
        assert!((0..5).all(|_| limit() == 1));
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let mapped = maps.lines().filter(|line| line.ends_with(path.to_str().unwrap()));
        // The other is that of who made it.
        assert_eq!(mapped.count(), 2);
        // A later group of that name is another.
        std::fs::remove_file(&path).unwrap();
        make(2);
        assert_eq!(limit(), 2);
        std::fs::remove_file(&path).unwrap();
        assert!(OpenGroup::open(&path).is_none());
    }

    #[test]
    fn a_group_whose_name_another_has_got_removes_nothing() {
        let path = std::env::temp_dir().join(format!("uzswap-names-{}{SUFFIX}", std::process::id()));
        let make = || {
            let words = SharedWords::create(&c_path(&path).unwrap(), WORDS).unwrap();
            Group::create(words.words());
            OpenGroup::open(&path).unwrap()
        };
        let first = make();
        std::fs::remove_file(&path).unwrap();
        let second = make();
        first.remove_files();
        assert!(path.exists());
        second.remove_files();
        assert!(!path.exists());
    }
}
