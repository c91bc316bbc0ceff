//! What others have found in images: the launcher in those that most programs have, each process in
//! those that take long to look through (`uzswap_guard::notes`).

use alloc::ffi::CString;
use alloc::format;
use alloc::vec::Vec;
use core::ops::Range;

use uzswap_guard::notes;
use uzswap_guard::site::Sites;
use uzswap_sys::libc::Headers;
use uzswap_sys::{small_file, text, thread};

use super::exec;

/// Where the calls are that `code` of an image makes, if that was noted. `group`: the path of the
/// group's file, which the notes lie beside.
pub(super) fn sites(group: &[u8], image: Headers, code: &[u8]) -> Option<Sites> {
    let path = CString::new(uzswap_ctl::notes_path(group, image.build_id()?)).ok()?;
    let note: Vec<u8> = small_file::read(&path, MOST).ok()?;
    notes::read(&note, code, text::is_replaced)
}

/// Note what `code` has, for the next process with this image, where to look took long: a
/// compiler's sixty mebibytes take longer than it does for a small file. Whatever fails, that one
/// looks again.
pub(super) fn keep(
    group: &[u8],
    image: Headers,
    code: &[u8],
    sites: &Sites,
    function_of: impl FnMut(usize) -> Option<Range<usize>>,
) {
    if code.len() < LONG || exec::is_filtered() {
        return;
    }
    let note = || {
        let path = uzswap_ctl::notes_path(group, image.build_id()?);
        let temporary = [&path, format!(".new-{}", thread::pid()).as_bytes()].concat();
        let note = notes::write(code, &sites.found, function_of)?;
        let [path, temporary] = [CString::new(path).ok()?, CString::new(temporary).ok()?];
        small_file::replace(&path, &temporary, &note).ok()
    };
    let _ = note();
}

/// Bytes of code that take long.
const LONG: usize = 1 << 20;

/// Bytes of a note at most: of some forty thousand calls.
const MOST: usize = 1 << 20;
