//! The agent library: embedded here, written where every process of a group can load it.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::Failure;

/// The library, as built by build.rs.
const IMAGE: &[u8] = include_bytes!(env!("UZSWAP_AGENT"));

/// Of the library, by build.rs: names the file; the contents are compared as well.
const FINGERPRINT: &str = env!("UZSWAP_AGENT_FINGERPRINT");

fn uid() -> Result<u32, Failure> {
    fs::metadata("/proc/self")
        .map(|meta| meta.uid())
        .map_err(|e| Failure::new(format!("/proc/self: {e}; mount /proc")))
}

/// Our directory `/tmp/uzswap-UID`: readable by programs that change their user, writable by us alone.
pub(crate) fn runtime_dir() -> Result<PathBuf, Failure> {
    let uid = uid()?;
    let dir = std::env::temp_dir().join(format!("uzswap-{uid}"));
    let fail = |what: String| Failure::new(format!("{}: {what}", dir.display()));
    match fs::DirBuilder::new().mode(0o755).create(&dir) {
        Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => {
            return Err(fail(format!("{e}; set TMPDIR to a directory you can write")));
        }
        _ => {}
    }
    let meta = fs::symlink_metadata(&dir).map_err(|e| fail(e.to_string()))?;
    if !meta.is_dir() || meta.uid() != uid || meta.mode() & 0o022 != 0 {
        return Err(fail(
            "is not a directory that only you can write; remove it or set TMPDIR".into(),
        ));
    }
    Ok(dir)
}

/// Put the library in place, unless it is there already, and return its path.
pub(crate) fn install() -> Result<PathBuf, Failure> {
    let dir = runtime_dir()?;
    let path = dir.join(format!("agent-{FINGERPRINT}.so"));
    if is_intact(&path) {
        return Ok(path);
    }
    let temporary = dir.join(format!(".agent-{}", std::process::id()));
    write(&temporary)
        .and_then(|()| fs::rename(&temporary, &path))
        .map_err(|e| {
            let _ = fs::remove_file(&temporary);
            Failure::new(format!("writing the agent to {}: {e}", path.display()))
        })?;
    Ok(path)
}

/// In pieces: every start of a program waits for this, and fresh memory for all of it costs more than the comparison.
fn is_intact(path: &Path) -> bool {
    let holds_image = || {
        let mut file = fs::File::open(path)?;
        let (mut piece, mut rest) = ([0; 1 << 15], IMAGE);
        loop {
            match file.read(&mut piece)? {
                0 => return std::io::Result::Ok(rest.is_empty()),
                n => match rest.strip_prefix(&piece[..n]) {
                    Some(more) => rest = more,
                    None => return Ok(false),
                },
            }
        }
    };
    holds_image().is_ok_and(|is_intact| is_intact)
}

fn write(path: &Path) -> std::io::Result<()> {
    let _ = fs::remove_file(path);
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o755)
        .open(path)?;
    file.write_all(IMAGE)?;
    file.set_permissions(fs::Permissions::from_mode(0o755))
}
