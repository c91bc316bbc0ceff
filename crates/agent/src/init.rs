//! The constructor. It runs before `main`, when libc is ready but nothing else may be assumed.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::sync::atomic::{AtomicUsize, Ordering};

use uzswap_ctl::{ENV_ALLOW_UNMANAGED, ENV_GROUP, Group, Key, MEMBERSHIP, WORDS};
use uzswap_sys::shared::SharedWords;
use uzswap_sys::{Errno, file, text};

use crate::memcg::deferral;
use crate::{fork, hook, pager, unmanaged};

unsafe extern "C" {
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
    fn __register_atfork(
        prepare: Option<extern "C" fn()>,
        parent: Option<extern "C" fn()>,
        child: Option<extern "C" fn()>,
        dso: *mut c_void,
    ) -> c_int;
    static __dso_handle: *mut c_void;
}

/// `RTLD_NEXT`: the definition after this library, libc's own.
const RTLD_NEXT: *mut c_void = core::ptr::without_provenance_mut(usize::MAX);

/// An address on the main thread's stack: the mapping that holds it is never managed.
static MAIN_STACK: AtomicUsize = AtomicUsize::new(0);

/// An address on the main thread's stack.
pub(crate) fn main_stack() -> usize {
    MAIN_STACK.load(Ordering::Relaxed)
}

#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn(c_int, *const *const c_char, *const *const c_char) = construct;

/// glibc passes constructors what it passes `main`.
extern "C" fn construct(_argc: c_int, argv: *const *const c_char, envp: *const *const c_char) {
    MAIN_STACK.store(argv as usize, Ordering::Relaxed);
    // SAFETY: envp is main's environment: valid C strings up to a null pointer.
    let Some(path) = (unsafe { find_env(envp, ENV_GROUP) }) else {
        return;
    };
    // SAFETY: as above.
    if unsafe { find_env(envp, ENV_ALLOW_UNMANAGED) }.is_some() {
        unmanaged::allow();
    }
    file::note_stderr();
    let group = match SharedWords::join(path, WORDS, MEMBERSHIP) {
        Ok(file) => Group::open(file.words()).ok_or(None),
        Err(errno) => Err(Some(errno)),
    };
    let group = match group {
        Ok(group) => group,
        Err(error) => return unmanaged::lacks_group(path, error),
    };
    // First: a part of them may be replaced when one cannot be, and those must find no pager.
    if let Err(errno) = replace_wrappers() {
        return unmanaged::lacks_hooks(path, errno);
    }
    pager::start_idle(group, path);
    group.add(Key::Joined, 1);
    // SAFETY: the three handlers are extern "C" functions of this library, which is never unloaded (see build.rs).
    unsafe { __register_atfork(Some(fork::prepare), Some(fork::parent), Some(fork::child), __dso_handle) };
    // SAFETY: as for find_env.
    deferral::note_growth(unsafe { zero_bytes(envp) }, true);
}

const AT_PHDR: usize = 3;
const AT_PHENT: usize = 4;
const AT_PHNUM: usize = 5;
const PT_LOAD: u32 = 1;
/// Where `Elf64_Phdr` has the sizes in the file and in memory.
const P_FILESZ: usize = 32;
const P_MEMSZ: usize = 40;

/// Bytes of the program's image that are not in its file (.bss): memory that it has without mapping any.
///
/// # Safety
/// `envp` must be what the kernel put on the stack: the environment up to a null pointer, and the auxiliary vector behind it.
unsafe fn zero_bytes(envp: *const *const c_char) -> usize {
    let (mut headers, mut size, mut count) = (core::ptr::null::<u8>(), 0, 0);
    let mut at = envp;
    // SAFETY: inside the environment, at most at its final null.
    while !unsafe { *at }.is_null() {
        at = at.wrapping_add(1);
    }
    let mut aux = at.wrapping_add(1).cast::<[usize; 2]>();
    loop {
        // SAFETY: inside the auxiliary vector, at most at its final pair, whose kind is 0.
        let [kind, value] = unsafe { *aux };
        match kind {
            0 => break,
            AT_PHDR => headers = core::ptr::with_exposed_provenance(value),
            AT_PHENT => size = value,
            AT_PHNUM => count = value,
            _ => {}
        }
        aux = aux.wrapping_add(1);
    }
    if headers.is_null() {
        return 0;
    }
    (0..count)
        .map(|i| headers.wrapping_add(i * size))
        .map(|header| {
            // SAFETY: one of the program headers that the kernel mapped, `size` bytes long.
            let (kind, filesz, memsz) = unsafe {
                (
                    header.cast::<u32>().read_unaligned(),
                    header.wrapping_add(P_FILESZ).cast::<usize>().read_unaligned(),
                    header.wrapping_add(P_MEMSZ).cast::<usize>().read_unaligned(),
                )
            };
            if kind == PT_LOAD {
                memsz.saturating_sub(filesz)
            } else {
                0
            }
        })
        .sum()
}

/// # Safety
/// `envp` must be null or an array of C strings that ends with a null pointer, valid for the life of the process.
unsafe fn find_env(envp: *const *const c_char, name: &str) -> Option<&'static CStr> {
    let mut at = envp;
    while !at.is_null() {
        // SAFETY: `at` is inside the array, at most at its final null.
        let entry = unsafe { *at };
        if entry.is_null() {
            return None;
        }
        // SAFETY: a C string by the caller's promise.
        let text = unsafe { CStr::from_ptr(entry) };
        let bytes = text.to_bytes_with_nul();
        if bytes.len() > name.len() && bytes.starts_with(name.as_bytes()) && bytes[name.len()] == b'=' {
            return CStr::from_bytes_with_nul(&bytes[name.len() + 1..]).ok();
        }
        at = at.wrapping_add(1);
    }
    None
}

/// Replace the wrappers that mappings are made with.
fn replace_wrappers() -> Result<(), Errno> {
    let wrappers: [(&CStr, *const c_void); 6] = [
        (c"mmap", hook::mmap as *const c_void),
        (c"munmap", hook::munmap as *const c_void),
        (c"mremap", hook::mremap as *const c_void),
        (c"madvise", hook::madvise as *const c_void),
        (c"brk", hook::brk as *const c_void),
        (c"mlockall", hook::mlockall as *const c_void),
    ];
    for (name, replacement) in wrappers {
        // SAFETY: dlsym of a name that libc defines. Its entry is longer than the patch (checked on glibc 2.36; each
        // is a syscall with errno handling), no other thread runs yet, and the replacement does the same and more.
        unsafe { text::replace(dlsym(RTLD_NEXT, name.as_ptr()), replacement)? };
    }
    Ok(())
}
