//! `uzswap.h`: regions for C.
//!
//! Each function is a few lines around one of [`uzswap_region`], whose documentation holds. What a
//! caller has to see to is what the header says.

use core::ffi::{CStr, c_char, c_int, c_void};
use std::cell::RefCell;
use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;

use uzswap_region::{Error, Pinned, Region, Settings};

thread_local! {
    static ERROR: RefCell<CString> = RefCell::default();
}

const OK: c_int = 0;
const FAILED: c_int = -1;

fn note(line: &str) {
    let line = CString::new(line.replace('\0', "")).unwrap_or_default();
    // In a destructor of the thread's that runs later than ours there is no place for it any more.
    let _ = ERROR.try_with(|error| *error.borrow_mut() = line);
}

fn status(result: Result<(), Error>) -> c_int {
    match result {
        Ok(()) => OK,
        Err(error) => {
            note(&error.to_string());
            FAILED
        }
    }
}

fn boxed<T>(result: Result<T, Error>) -> *mut T {
    match result {
        Ok(value) => Box::into_raw(Box::new(value)),
        Err(error) => {
            note(&error.to_string());
            core::ptr::null_mut()
        }
    }
}

/// As the header says. Zeros and nulls: what holds otherwise.
#[repr(C)]
pub struct RawSettings {
    limit: u64,
    swap: *const c_char,
    swap_max: u64,
    compressor: *const c_char,
}

/// # Safety
/// Null, or text that ends in a zero.
unsafe fn text<'a>(text: *const c_char) -> Option<&'a CStr> {
    // SAFETY: as the caller promises.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) })
}

/// [`uzswap_region::limit`].
#[unsafe(no_mangle)]
pub extern "C" fn uzswap_limit(bytes: u64) -> c_int {
    status(uzswap_region::limit(bytes))
}

/// [`Settings::start`].
///
/// # Safety
/// `settings` points to settings whose texts end in zeros.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uzswap_start(settings: *const RawSettings) -> c_int {
    // SAFETY: as the caller promises, of the texts as well.
    let (raw, swap, compressor) = unsafe {
        let raw = &*settings;
        (raw, text(raw.swap), text(raw.compressor))
    };
    let mut settings = Settings::default();
    if raw.limit > 0 {
        settings = settings.limit(raw.limit);
    }
    if let Some(path) = swap {
        settings = settings.swap(OsStr::from_bytes(path.to_bytes()));
    }
    if raw.swap_max > 0 {
        settings = settings.swap_max(raw.swap_max);
    }
    if let Some(name) = compressor {
        settings = settings.compressor(name.to_string_lossy());
    }
    status(settings.start())
}

/// [`Region::new`].
#[unsafe(no_mangle)]
pub extern "C" fn uzswap_region_new(len: usize) -> *mut Region {
    boxed(Region::new(len))
}

/// [`Region::as_ptr`].
///
/// # Safety
/// `region` is of [`uzswap_region_new`], and not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uzswap_region_data(region: *const Region) -> *mut c_void {
    // SAFETY: as the caller promises.
    unsafe { &*region }.as_ptr().cast()
}

/// Its length.
///
/// # Safety
/// As for [`uzswap_region_data`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uzswap_region_len(region: *const Region) -> usize {
    // SAFETY: as the caller promises. No bytes are looked at.
    unsafe { &*region }.len()
}

/// Drop it.
///
/// # Safety
/// As for [`uzswap_region_data`], or null; nobody uses it or its memory any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uzswap_region_free(region: *mut Region) {
    if !region.is_null() {
        // SAFETY: of Box::into_raw in `boxed`, and not freed, as the caller promises.
        drop(unsafe { Box::from_raw(region) });
    }
}

/// [`Region::discard`].
///
/// # Safety
/// As for [`uzswap_region_data`]; nobody else uses that part meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uzswap_region_discard(region: *mut Region, offset: usize, len: usize) -> c_int {
    // SAFETY: as the caller promises.
    let region = unsafe { &mut *region };
    status(region.discard(offset..offset.saturating_add(len)))
}

/// [`Region::pin`].
///
/// # Safety
/// As for [`uzswap_region_data`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uzswap_region_pin(region: *const Region, offset: usize, len: usize) -> *mut Pinned {
    // SAFETY: as the caller promises.
    let region = unsafe { &*region };
    boxed(region.pin(offset..offset.saturating_add(len)))
}

/// Drop what was pinned.
///
/// # Safety
/// `pinned` is of [`uzswap_region_pin`], and not unpinned; or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uzswap_unpin(pinned: *mut Pinned) {
    if !pinned.is_null() {
        // SAFETY: of Box::into_raw in `boxed`, and not freed, as the caller promises.
        drop(unsafe { Box::from_raw(pinned) });
    }
}

/// [`uzswap_region::stats`].
///
/// # Safety
/// `name` ends in a zero; `value` can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uzswap_stat(name: *const c_char, value: *mut u64) -> c_int {
    // SAFETY: as the caller promises.
    let name = unsafe { text(name) }.unwrap_or_default().to_string_lossy();
    let Some(figure) = uzswap_region::stats().get(&name) else {
        note(&format!(
            "figure '{name}': there is none of that name, or no region and no limit yet"
        ));
        return FAILED;
    };
    // SAFETY: as the caller promises.
    unsafe { value.write(figure) };
    OK
}

/// The line of the last error.
#[unsafe(no_mangle)]
pub extern "C" fn uzswap_error() -> *const c_char {
    ERROR.try_with(|error| error.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}
