//! Where Jupyter looks for kernelspecs.

use std::env;
use std::path::{Path, PathBuf};

use super::options::PlaceOptions;
use crate::{Failure, elf};

/// The file that describes a kernel, in a directory of its own.
pub(super) const SPEC: &str = "kernel.json";
const KERNELS: &str = "kernels";
/// Below a prefix.
const SHARE: &str = "share/jupyter";
const SYSTEM: [&str; 2] = ["/usr/local", "/usr"];

/// An absolute path that the environment has.
fn directory(name: &str) -> Option<PathBuf> {
    env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute())
}

/// The kernels of this user.
fn of_user() -> Option<PathBuf> {
    let data = directory("JUPYTER_DATA_DIR")
        .or_else(|| Some(directory("XDG_DATA_HOME")?.join("jupyter")))
        .or_else(|| Some(directory("HOME")?.join(".local").join(SHARE)))?;
    Some(data.join(KERNELS))
}

fn of_prefix(prefix: &Path) -> PathBuf {
    prefix.join(SHARE).join(KERNELS)
}

/// The environment that a command of this name would be found in.
fn prefix_of(command: &str) -> Option<PathBuf> {
    let paths = elf::candidates(command.as_ref());
    let path = paths.into_iter().find(|path| path.is_file())?;
    Some(path.parent()?.parent()?.to_owned())
}

/// Where the kernels are that are written.
///
/// # Errors
/// Nothing says where this user's are.
pub(super) fn target(options: &PlaceOptions) -> Result<PathBuf, Failure> {
    match &options.prefix {
        Some(prefix) => std::path::absolute(of_prefix(prefix)).map_err(|e| Failure::of(prefix, &e)),
        None => of_user().ok_or_else(|| Failure::new("HOME is not set: name a directory with --prefix")),
    }
}

/// Where kernels are looked for, in this order; `first` before those of the environment.
pub(super) fn all(first: &Path) -> Vec<PathBuf> {
    let paths = env::var_os("JUPYTER_PATH").unwrap_or_default();
    let paths: Vec<_> = env::split_paths(&paths).map(|path| path.join(KERNELS)).collect();
    let prefixes = ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().filter_map(directory);
    let commands = ["jupyter", "python3"].into_iter().filter_map(prefix_of);
    let prefixes = prefixes.chain(commands).chain(SYSTEM.map(PathBuf::from));
    let places = [first.to_owned()]
        .into_iter()
        .chain(paths)
        .chain(of_user())
        .chain(prefixes.map(|prefix| of_prefix(&prefix)));
    let mut found = Vec::new();
    for place in places.filter(|place| place.is_absolute()) {
        if !found.contains(&place) {
            found.push(place);
        }
    }
    found
}

/// The directory of a kernel: one that is named, or the first of that name in `places`.
///
/// # Errors
/// There is none: a line that says which there are.
pub(super) fn find(kernel: &str, places: &[PathBuf]) -> Result<PathBuf, Failure> {
    if kernel.contains('/') {
        let path = Path::new(kernel);
        return std::path::absolute(path).map_err(|e| Failure::of(path, &e));
    }
    let mut all = places.iter().map(|place| place.join(kernel));
    all.find(|path| path.join(SPEC).is_file()).ok_or_else(|| {
        let known = known(places, "Jupyter has none here: install ipykernel");
        Failure::new(format!(
            "--from {kernel}: no such kernel; {known}, or name the directory of its {SPEC}"
        ))
    })
}

/// What is to be said of the kernels there are; `none` where there are none.
pub(super) fn known(places: &[PathBuf], none: &str) -> String {
    let names = names(places);
    match names.is_empty() {
        true => none.to_owned(),
        false => format!("there are {}", names.join(", ")),
    }
}

/// All kernels there are.
fn names(places: &[PathBuf]) -> Vec<String> {
    let entries = places.iter().filter_map(|place| place.read_dir().ok()).flatten();
    let kernels = entries.flatten().filter(|entry| entry.path().join(SPEC).is_file());
    let mut names: Vec<_> = kernels
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names.dedup();
    names
}

/// The environment that the kernel of this directory belongs to.
pub(super) fn prefix(kernel: &Path) -> Option<&Path> {
    let kernels = kernel.parent()?;
    let prefix = kernels.ancestors().nth(3)?;
    (of_prefix(prefix) == kernels).then_some(prefix)
}
