//! liblz4's block format with caller-provided state: no allocation, no thread-local storage.
//!
//! `lz4-sys` bundles and links the library but declares only the allocating entry points, so the
//! three that are needed here are declared by hand.

use core::ffi::{c_char, c_int, c_void};
// Linked for its native library only.
extern crate lz4_sys as _;

unsafe extern "C" {
    fn LZ4_initStream(buffer: *mut c_void, size: usize) -> *mut c_void;
    fn LZ4_compress_fast_extState_fastReset(
        state: *mut c_void,
        src: *const c_char,
        dst: *mut c_char,
        src_len: c_int,
        dst_cap: c_int,
        acceleration: c_int,
    ) -> c_int;
    fn LZ4_decompress_safe(src: *const c_char, dst: *mut c_char, src_len: c_int, dst_cap: c_int) -> c_int;
}

/// `sizeof(LZ4_stream_t)` of liblz4 1.10 (`LZ4_STREAM_MINSIZE`, a public constant of its ABI).
const STREAM_SIZE: usize = 16_416;

/// A compression state, reused from call to call. (That saves its initialisation; its 16 KiB table
/// liblz4 clears all the same for inputs of a page and more.)
///
/// # Invariants
/// `0` was initialised by `LZ4_initStream` and is only ever used with independent blocks, which is
/// what `_fastReset` requires of a state that it continues from.
#[repr(C, align(8))]
pub struct State([u8; STREAM_SIZE]);

impl State {
    /// A fresh state on the heap.
    pub fn new() -> alloc::boxed::Box<Self> {
        let mut state = alloc::boxed::Box::new(Self([0; STREAM_SIZE]));
        // SAFETY: the buffer is STREAM_SIZE bytes, aligned to 8 by repr(align), and exclusively
        // borrowed.
        let p = unsafe { LZ4_initStream(state.0.as_mut_ptr().cast(), STREAM_SIZE) };
        assert!(!p.is_null(), "liblz4 refuses a state of LZ4_STREAM_MINSIZE bytes");
        state
    }

    /// Compress `src` into `dst`. `None`: the result does not fit in `dst`.
    pub fn compress(&mut self, src: &[u8], dst: &mut [u8], acceleration: i32) -> Option<usize> {
        let (n, cap) = (c_int::try_from(src.len()).ok()?, c_int::try_from(dst.len()).ok()?);
        // SAFETY: both pointers are valid for the lengths passed; the state is initialised (type
        // invariant).
        let len = unsafe {
            LZ4_compress_fast_extState_fastReset(
                self.0.as_mut_ptr().cast(),
                src.as_ptr().cast(),
                dst.as_mut_ptr().cast(),
                n,
                cap,
                acceleration,
            )
        };
        usize::try_from(len).ok().filter(|&len| len > 0)
    }
}

/// Decompress a block. `None`: the input is malformed or longer than `dst`.
pub fn decompress(src: &[u8], dst: &mut [u8]) -> Option<usize> {
    let (n, cap) = (c_int::try_from(src.len()).ok()?, c_int::try_from(dst.len()).ok()?);
    // SAFETY: both pointers are valid for the lengths passed; liblz4 bounds-checks against both.
    let len = unsafe { LZ4_decompress_safe(src.as_ptr().cast(), dst.as_mut_ptr().cast(), n, cap) };
    usize::try_from(len).ok()
}
