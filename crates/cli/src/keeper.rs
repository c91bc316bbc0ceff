//! The launcher keeps the userfaultfds of its group's processes until they are gone
//! (`uzswap_sys::keep` says why).

use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use uzswap_sys::keep::Keeper;

use crate::group::c_path;
use crate::{Failure, describe};

/// Where the keeper of a group is.
pub(crate) fn path(group: &Path) -> PathBuf {
    std::ffi::OsString::from_vec(uzswap_ctl::keeper_path(group.as_os_str().as_bytes())).into()
}

/// A keeper for the group. It needs three descriptors for each process of it.
///
/// # Errors
/// The path is too long for a socket (108 bytes), or its filesystem has none. Everything else works
/// without.
pub(crate) fn bind(group: &Path) -> Result<Keeper, Failure> {
    let path = path(group);
    // Left by a group of that name which ended by a signal.
    let _ = std::fs::remove_file(&path);
    Keeper::bind(&c_path(&path)?).map_err(|e| Failure::new(format!("{}: {}", path.display(), describe(e))))
}
