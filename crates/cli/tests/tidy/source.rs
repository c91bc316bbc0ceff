//! The files of the repository.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// A file of text, and its path from the root of the repository.
#[derive(Clone)]
pub struct Source {
    pub path: String,
    pub text: String,
}

/// What is built, and what git keeps.
const SKIPPED: [&str; 2] = ["target", ".git"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap()
}

fn walk(root: &Path, folder: &Path, paths: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let path = entry.path();
        if SKIPPED.iter().any(|name| entry.file_name() == *name) {
            continue;
        }
        let is_folder = entry.file_type().unwrap().is_dir();
        let name = path.strip_prefix(root).unwrap().to_str().unwrap();
        paths.push(format!("{name}{}", if is_folder { "/" } else { "" }));
        if is_folder {
            walk(root, &path, paths);
        }
    }
}

/// The paths of all files and folders, a folder's with a slash at its end.
pub fn tree() -> Vec<String> {
    let mut paths = Vec::new();
    walk(&root(), &root(), &mut paths);
    paths.sort();
    paths
}

/// All files that are text, read once.
pub fn all() -> &'static [Source] {
    static ALL: OnceLock<Vec<Source>> = OnceLock::new();
    ALL.get_or_init(read_all)
}

fn read_all() -> Vec<Source> {
    let text = |path: String| {
        let text = fs::read_to_string(root().join(&path)).ok()?;
        Some(Source { path, text })
    };
    tree()
        .into_iter()
        .filter(|path| !path.ends_with('/'))
        .filter_map(text)
        .collect()
}

/// The file at `path`.
pub fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}
