//! Can this program be managed? Looks at the file that will be executed.

use std::ffi::{CString, OsStr};
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use uzswap_sys::executable::{Kind, kind};
use uzswap_sys::{Errno, file};

/// The kernel looks no further for the name of an interpreter. Bytes.
const FIRST_LINE: usize = 256;

/// What stands in the way.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// It can be managed.
    Manageable,
    /// There is no such command: status 127.
    Missing,
    /// It cannot be executed: status 126.
    NotExecutable(String),
    /// It loads no library, or has not glibc: the agent is put into it.
    LoadsNothing,
    /// It runs, but not under our care: why, and what to do.
    Unmanageable(String),
}

/// Find `cmd` as the shell would and look at it; scripts lead to their interpreter.
pub(crate) fn inspect(cmd: &OsStr) -> Found {
    match find(cmd) {
        Some(path) => inspect_file(&path, 0),
        None => Found::Missing,
    }
}

/// Where `cmd` may be, in the order of `execvp`.
pub(crate) fn candidates(cmd: &OsStr) -> Vec<PathBuf> {
    if cmd.as_bytes().contains(&b'/') {
        return vec![PathBuf::from(cmd)];
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    std::env::split_paths(&path).map(|dir| dir.join(cmd)).collect()
}

fn find(cmd: &OsStr) -> Option<PathBuf> {
    if cmd.as_bytes().contains(&b'/') {
        let path = PathBuf::from(cmd);
        return path.exists().then_some(path);
    }
    let mut candidates = candidates(cmd);
    candidates.retain(|p| p.is_file());
    candidates
        .iter()
        .find(|p| is_executable(p))
        .or(candidates.first())
        .cloned()
}

fn is_executable(path: &Path) -> bool {
    path.metadata()
        .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

fn inspect_file(path: &Path, depth: u32) -> Found {
    let name = path.display();
    if !is_executable(path) {
        return Found::NotExecutable(format!("{name}: not an executable file"));
    }
    // Executable but not readable: nothing can be said, so the kernel decides.
    let Ok(file) = File::open(path) else {
        return Found::Manageable;
    };
    let mut first = [0; FIRST_LINE];
    let len = file.read_at(&mut first, 0).unwrap_or(0);
    if let Some(script) = first[..len].strip_prefix(b"#!") {
        let line = script.split(|b| *b == b'\n').next().unwrap_or_default();
        let interpreter = line.split(|b| b.is_ascii_whitespace()).find(|word| !word.is_empty());
        return match interpreter {
            Some(word) if depth < 4 => inspect_file(Path::new(OsStr::from_bytes(word)), depth + 1),
            _ => Found::Manageable,
        };
    }
    if path.metadata().is_ok_and(|meta| changes_user(&meta)) {
        return Found::Unmanageable(format!(
            "{name} is set-uid or set-gid, so the loader ignores LD_PRELOAD; run it as its owner"
        ));
    }
    // A module of its own, which a fuzz target is built with.
    let c_path = CString::new(path.as_os_str().as_bytes());
    if c_path.is_ok_and(|path| file::grants_capabilities(&path)) {
        return Found::Unmanageable(format!(
            "{name} has capabilities of its own (getcap), so the loader ignores LD_PRELOAD; run a copy of it without"
        ));
    }
    inspect_elf(|at, piece| file.read_at(piece, at).map_err(|_| Errno::IO), path)
}

/// Whether the program of this file runs as another user or group than we do.
fn changes_user(meta: &std::fs::Metadata) -> bool {
    let (user, group) = file::real_ids();
    (meta.mode() & 0o4000 != 0 && meta.uid() != user) || (meta.mode() & 0o2010 == 0o2010 && meta.gid() != group)
}

/// Look at a file that is no script, by what `read` finds there.
pub(crate) fn inspect_elf(read: impl Fn(u64, &mut [u8]) -> Result<usize, Errno>, path: &Path) -> Found {
    let name = path.display();
    match kind(read) {
        Ok(Kind::Foreign) => Found::Unmanageable(format!(
            "{name} is not a 64-bit x86-64 executable; only those can be managed"
        )),
        Ok(Kind::Library) => Found::Unmanageable(format!("{name} is a loader or a library: name the program itself")),
        Ok(Kind::LoadsNothing) => Found::LoadsNothing,
        // A shell script without #!, which the shell runs; or it is damaged: the kernel decides.
        Ok(Kind::Loads | Kind::Other) | Err(_) => Found::Manageable,
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn ordinary_programs_are_manageable_and_missing_ones_are_not_found() {
        assert_eq!(inspect(OsStr::new("true")), Found::Manageable);
        assert_eq!(inspect(OsStr::new("/no/such/file")), Found::Missing);
        let loader = inspect(OsStr::new("/lib64/ld-linux-x86-64.so.2"));
        assert!(matches!(loader, Found::Unmanageable(_)), "{loader:?}");
        assert_eq!(inspect(OsStr::new("no-such-command-anywhere")), Found::Missing);
        assert!(matches!(inspect(OsStr::new("/etc/passwd")), Found::NotExecutable(_)));
        assert!(matches!(inspect(OsStr::new("/tmp")), Found::NotExecutable(_)));
    }
}
