//! What the launcher has found in images that most programs have (`uzswap_guard::notes`).

use alloc::ffi::CString;
use alloc::vec::Vec;

use uzswap_guard::notes;
use uzswap_guard::site::Sites;
use uzswap_sys::libc::Headers;
use uzswap_sys::small_file;
use uzswap_sys::text;

/// Where the calls are that `code` of an image makes, if that was noted. `group`: the path of the
/// group's file, which the notes lie beside.
pub(super) fn sites(group: &[u8], image: Headers, code: &[u8]) -> Option<Sites> {
    let path = CString::new(uzswap_ctl::notes_path(group, image.build_id()?)).ok()?;
    let note: Vec<u8> = small_file::read(&path, MOST).ok()?;
    notes::read(&note, code, text::is_replaced)
}

/// Bytes of a note at most: of some forty thousand calls.
const MOST: usize = 1 << 20;
