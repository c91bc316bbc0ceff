//! The constructor. It runs before `main`, when libc is ready but nothing else may be assumed.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::sync::atomic::{AtomicUsize, Ordering};

use uzswap_ctl::{
    ENV_ALLOW_UNMANAGED, ENV_GIVEN_GROUP, ENV_GROUP, ENV_RECORD, Group, MEMBERSHIP, Notice, Tunable, WORDS,
};
use uzswap_sys::libc::{Function, Headers, Image, rseq_area};
use uzswap_sys::own_stack;
use uzswap_sys::robust::list_head;
use uzswap_sys::shared::SharedWords;
use uzswap_sys::thread::page_align;
use uzswap_sys::{Errno, PAGE_SIZE, creds, file, procfs, text, vdso};

use crate::fault::inline;
use crate::guest::mutexes::{self, Init};
use crate::guest::{hook, identity, mmap, mremap, unmanaged};
use crate::memcg::deferral;
use crate::pager::{self, record};
use crate::{fork, guard};

unsafe extern "C" {
    static __dso_handle: *mut c_void;
}

type Handler = Option<extern "C" fn()>;
/// `__register_atfork`: prepare, parent, child, and the library that they belong to.
type RegisterAtFork = unsafe extern "C" fn(Handler, Handler, Handler, *mut c_void) -> c_int;

/// An address on the main thread's stack: the mapping that holds it is never managed.
static MAIN_STACK: AtomicUsize = AtomicUsize::new(0);

/// An address on the main thread's stack.
pub(crate) fn main_stack() -> usize {
    MAIN_STACK.load(Ordering::Relaxed)
}

/// The pages in which the kernel keeps words of the main thread, and cannot wait for one: where its
/// list of robust futexes begins, and what it tells of the core (rseq). Their first byte and end.
static MAIN_WORDS: [[AtomicUsize; 2]; 2] = [const { [const { AtomicUsize::new(0) }; 2] }; 2];

/// Where those are.
pub(crate) fn main_words() -> [(usize, usize); 2] {
    MAIN_WORDS
        .each_ref()
        .map(|[start, end]| (start.load(Ordering::Relaxed), end.load(Ordering::Relaxed)))
}

/// They lie in libc's memory, of which nothing is managed yet.
fn note_main_words(program: Option<Headers>) {
    for ([first, limit], (start, end)) in MAIN_WORDS.iter().zip([list_head(), rseq_area(program)]) {
        first.store(start & !(PAGE_SIZE - 1), Ordering::Relaxed);
        limit.store(page_align(end), Ordering::Relaxed);
    }
}

#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn(c_int, *const *const c_char, *const *const c_char) = construct;

/// glibc passes constructors what it passes `main`.
extern "C" fn construct(_argc: c_int, argv: *const *const c_char, _envp: *const *const c_char) {
    if !hook::is_glibc() {
        // Not managed, and seen by the launcher's census. Other libcs pass constructors nothing.
        return;
    }
    // SAFETY: what the kernel put on the stack.
    unsafe { begin(argv, With::Libc) };
}

/// The library's entry, which the launcher calls in a program that loads none, before the first of
/// its instructions.
#[cfg_attr(not(uzswap_image), expect(dead_code, reason = "only the image has that entry"))]
pub(crate) extern "C" fn construct_alone(_argc: usize, argv: *const *const c_char, _envp: *const *const c_char) {
    // SAFETY: what the kernel put on the stack.
    unsafe { begin(argv, With::Nothing) };
}

/// What the program has when it begins.
#[derive(Clone, Copy, PartialEq, Eq)]
enum With {
    Libc,
    /// Only what is in its file, of which nothing has run.
    Nothing,
}

/// # Safety
/// `argv` is what the kernel put on the stack.
unsafe fn begin(argv: *const *const c_char, with: With) {
    // SAFETY: the caller's promise.
    let envp = unsafe { environment_behind(argv) };
    MAIN_STACK.store(argv as usize, Ordering::Relaxed);
    // SAFETY: envp is main's environment: valid C strings up to a null pointer.
    let [given, own, allows] =
        [ENV_GIVEN_GROUP, ENV_GROUP, ENV_ALLOW_UNMANAGED].map(|name| unsafe { find_env(envp, name) });
    if given.is_some() {
        unmanaged::note_given();
        // SAFETY: as above; `main` has not looked at it yet.
        unsafe { take_back(envp) };
    }
    let Some(path) = given.or(own) else { return };
    if allows.is_some() {
        unmanaged::allow();
    }
    // SAFETY: as above.
    if let Some(path) = unsafe { find_env(envp, ENV_RECORD) } {
        record::note_path(path);
    }
    file::note_stderr();
    // SAFETY: as above.
    if unsafe { is_of_valgrind(envp) } {
        return;
    }
    let group = match SharedWords::join(path, WORDS, MEMBERSHIP) {
        Ok(file) => Group::open(file.words()).ok_or(None),
        Err(errno) => Err(Some(errno)),
    };
    let group = match group {
        Ok(group) => group,
        Err(error) => return unmanaged::lacks_group(path, error),
    };
    if with == With::Nothing && !group.is_on(Tunable::Guard) {
        // The others of this run need no guard: it goes on where it cannot be guarded.
        unmanaged::note_given();
    }
    uzswap_sys::string::choose();
    // SAFETY: envp is what the kernel put on the stack.
    let program = unsafe { headers(envp) };
    if with == With::Libc {
        note_main_words(program);
    }
    match see_to(program, group, path, with) {
        Ok(()) => {}
        Err(errno) => return unmanaged::lacks_hooks(errno),
    }
    pager::start_idle(group, path);
    group.add(Notice::Joined, 1);
    let is_blind = !guard::sees_all() && program.is_some_and(maps_unseen);
    deferral::note_image(program.map_or(0, |program| program.zero_bytes()), is_blind);
}

/// Whether this is valgrind, which runs a program in memory that may be executed and keeps books on
/// all others, or the program in it. Neither is managed, and the launcher says so.
///
/// # Safety
/// As for [`find_env`].
unsafe fn is_of_valgrind(envp: *const *const c_char) -> bool {
    // SAFETY: the caller's promise.
    let [preloaded, launcher] = ["LD_PRELOAD", "VALGRIND_LAUNCHER"].map(|name| unsafe { find_env(envp, name) });
    let own = b"/vgpreload_";
    launcher.is_some() || preloaded.is_some_and(|list| list.to_bytes().windows(own.len()).any(|part| part == own))
}

/// Have the program's changes of mappings, its forks, and with the guard all its calls come by
/// here.
fn see_to(program: Option<Headers>, group: Group, path: &CStr, with: With) -> Result<(), Errno> {
    // Before there is a pager: a part of them may be replaced when one cannot be, and those must
    // find none.
    let register = match with {
        With::Libc => {
            let _open = open_libc(program);
            Some(replace_functions(program)?)
        }
        With::Nothing => None,
    };
    // After they were replaced: what was a wrapper makes no call any more.
    let stops_threads = program.is_some_and(stops_threads);
    if group.is_on(Tunable::Closes) {
        uzswap_sys::closed::turn_on();
    }
    let goes_unguarded = || {
        let has_a_choice = with == With::Libc && group.is_on(Tunable::MayGoUnguarded) && creds::may_trace();
        // A debugger stops at each signal. What cannot be changed gets no jumps. A limit of
        // addresses may leave no room for stacks.
        has_a_choice && (stops_threads || text::is_fixed() || procfs::is_traced() || own_stack::reserve().is_err())
    };
    guard::exec::look_at_filters(group);
    if group.is_on(Tunable::Guard) && !goes_unguarded() {
        let program = program.ok_or(Errno::INVAL)?;
        let is_inline = group.is_on(Tunable::InlineFaults);
        let installed = inline::install(is_inline && !stops_threads)
            .and_then(|()| guard::install(path.to_bytes(), program, register.is_none()));
        installed.inspect_err(|_| guard::uninstall())?;
    }
    if stops_threads {
        pager::threads::note_stopping();
    }
    match register {
        Some(register) if !guard::is_on() => {
            let _open = open_libc(program);
            if !replace_fork(program) {
                // SAFETY: the three handlers are extern "C" functions of this library, which is
                // never unloaded (see build.rs).
                unsafe { register(Some(fork::prepare), Some(fork::parent), Some(fork::child), __dso_handle) };
            }
            replace_execve(program);
            replace_looks(program);
        }
        // Without the guard nobody sees such a program's forks.
        None if !guard::is_on() => return Err(Errno::OPNOTSUPP),
        _ => {}
    }
    Ok(())
}

/// Whether the program looks for leaks of memory: LeakSanitizer stops all threads of the process,
/// as a tracer, and reads all memory meanwhile.
fn stops_threads(program: Headers) -> bool {
    // Where it is linked statically, its functions have no name, but it asks whether the program
    // defines these.
    Image::all(program)
        .next()
        .is_some_and(|program| program.asks_for(c"__lsan_is_turned_off"))
        || Image::all(program).any(|image| image.function(c"__lsan_do_leak_check").is_some())
}

/// Whether the program maps memory without libc, so that no wrapper tells when it has grown:
/// whoever has such functions of his own, as sanitizers and tcmalloc.
fn maps_unseen(program: Headers) -> bool {
    const MAPPING: [&CStr; 5] = [c"mmap", c"sbrk", c"__asan_init", c"__tsan_init", c"__lsan_init"];
    let is_own = |image: Image| !image.is_libc() && MAPPING.iter().any(|name| image.function(name).is_some());
    Image::all(program).any(is_own)
}

/// Have libc's wrappers lead here; libc's way to register handlers of forks. INVAL: libc is not
/// glibc. NOSYS: a wrapper is more than that.
fn replace_functions(program: Option<Headers>) -> Result<RegisterAtFork, Errno> {
    let libc = program.and_then(Image::libc).ok_or(Errno::INVAL)?;
    let function = |name: &CStr| libc.function(name).ok_or(Errno::INVAL);
    let register = function(c"__register_atfork")?;
    hook::find_errno(&function(c"__errno_location")?);
    replace_wrappers(function)?;
    // SAFETY: no other thread runs yet.
    unsafe { identity::divert(function) };
    // SAFETY: no other thread runs yet.
    unsafe { replace_mutex_init(program)? };
    // SAFETY: libc's function of this name has this type.
    Ok(unsafe { core::mem::transmute::<*mut c_void, RegisterAtFork>(register.entry) })
}

/// Open libc's text, for several changes together.
fn open_libc(program: Option<Headers>) -> Option<text::Open> {
    let program = program?;
    let code = Image::libc(program)?.headers(program)?.code().next()?;
    // SAFETY: 1. libc's, which is never unloaded; 2. no other thread runs yet, and the guard does
    // not begin before this is closed again.
    unsafe { text::Open::begin(code) }
}

/// Replace `_Fork`, which forks of libc come to. False: it cannot be, and handlers of forks do what
/// they can.
fn replace_fork(program: Option<Headers>) -> bool {
    let function = program.and_then(Image::libc).and_then(|libc| libc.function(c"_Fork"));
    // SAFETY: libc's function; no other thread runs yet.
    function.is_some_and(|function| unsafe { hook::divert_fork(&function) })
}

/// Replace `execve`, which all functions of libc come to that make another program of a process
/// (`fexecve` excepted). Where it cannot be, programs that lack us are charged.
fn replace_execve(program: Option<Headers>) {
    if let Some(execve) = program.and_then(Image::libc).and_then(|libc| libc.function(c"execve")) {
        // SAFETY: libc's function, no other thread runs yet, and the replacement does the same and
        // more.
        let _ = unsafe { text::replace(&execve, guard::exec::SYS_EXECVE as u8, hook::execve as *const c_void) };
    }
}

/// Replace `fstatat` and `statx`, `unshare` and `setns`, `prctl`. Where they cannot be, the
/// program, or the kernel, finds our threads among its own, and its filter finds calls of ours.
fn replace_looks(program: Option<Headers>) {
    let functions: [(&CStr, *const c_void); 5] = [
        (c"prctl", hook::prctl as *const c_void),
        (c"unshare", hook::unshare as *const c_void),
        (c"setns", hook::setns as *const c_void),
        (c"fstatat", hook::fstatat as *const c_void),
        (c"statx", hook::statx as *const c_void),
    ];
    for (name, replacement) in functions {
        if let Some(function) = program.and_then(Image::libc).and_then(|libc| libc.function(name)) {
            // SAFETY: libc's function, no other thread runs yet, and the replacement does the same
            // and more.
            let _ = unsafe { text::replace_any(&function, replacement) };
        }
    }
}

/// Replace `pthread_mutex_init`, whoever of libc has it. NOSYS: it makes other mutexes than we
/// know.
///
/// # Safety
/// No other thread runs.
unsafe fn replace_mutex_init(program: Option<Headers>) -> Result<(), Errno> {
    mutexes::prepare()?;
    // Before glibc 2.34 it is in a library beside libc, if the program is linked with that.
    let beside = |program| Image::all(program).find(|image| image.is_named(c"libpthread.so.0"));
    let of = |image: Image| image.function(c"pthread_mutex_init");
    let in_libc = || program.and_then(Image::libc).and_then(of);
    let Some(function) = program.and_then(beside).and_then(of).or_else(in_libc) else {
        return Ok(());
    };
    // SAFETY: libc's function of this name.
    match unsafe { Init::of(function.entry) } {
        Init::Forwards => Ok(()),
        Init::Other => Err(Errno::NOSYS),
        // SAFETY: the caller's promise, and the replacement does the same and more.
        Init::Same => unsafe { text::replace_any(&function, mutexes::init as *const c_void) },
    }
}

const AT_PHDR: usize = 3;
const AT_PHNUM: usize = 5;

const AT_SYSINFO_EHDR: usize = 33;

/// Where the kernel says that the program's headers are. Notes where its own library is.
///
/// # Safety
/// `envp` must be what the kernel put on the stack: the environment up to a null pointer, and the
/// auxiliary vector behind it.
unsafe fn headers(envp: *const *const c_char) -> Option<Headers> {
    let (mut first, mut count) = (0, 0);
    let mut at = envp;
    // SAFETY: inside the environment, at most at its final null.
    while !unsafe { *at }.is_null() {
        at = at.wrapping_add(1);
    }
    // What was unset leaves more than one null; no kind of the vector's first pairs is 0.
    // SAFETY: between the environment and the vector, whose first pair is no null.
    while unsafe { *at }.is_null() {
        at = at.wrapping_add(1);
    }
    let mut aux = at.cast::<[usize; 2]>();
    loop {
        // SAFETY: inside the auxiliary vector, at most at its final pair, whose kind is 0.
        match unsafe { *aux } {
            [0, _] => break,
            [AT_PHDR, value] => first = value,
            [AT_PHNUM, value] => count = value,
            [AT_SYSINFO_EHDR, value] => vdso::note(value),
            _ => {}
        }
        aux = aux.wrapping_add(1);
    }
    // SAFETY: the kernel's values; a program's image stays.
    unsafe { Headers::new(first, count) }
}

/// The environment as the kernel has put it behind the arguments. libc's may lie elsewhere by now.
///
/// # Safety
/// `argv` is what the kernel put on the stack.
unsafe fn environment_behind(argv: *const *const c_char) -> *mut *const c_char {
    let mut at = argv;
    // SAFETY: inside the arguments, at most at their final null.
    while !unsafe { *at }.is_null() {
        at = at.wrapping_add(1);
    }
    at.wrapping_add(1).cast_mut()
}

/// Take out what the launcher has put behind the program's environment: the group and, behind it,
/// the libraries. In their place the auxiliary vector begins, with pairs that are to be ignored:
/// whoever looks for it goes by the environment's end.
///
/// Constructors of other libraries may have run, where one is to be the first as we are: what they
/// unset is missing, and all behind it has moved down, which leaves more than one null.
///
/// # Safety
/// `envp` must be what the kernel put on the stack, with what the launcher did behind that; nobody
/// else uses it now.
unsafe fn take_back(envp: *mut *const c_char) {
    const AT_IGNORE: usize = 1;
    // SAFETY: inside the environment, or what lies between it and the auxiliary vector.
    let word = |at: usize| unsafe { *envp.wrapping_add(at) };
    let is_named = |at: usize, name: &str| {
        // SAFETY: an entry of the environment: a C string.
        let entry = unsafe { CStr::from_ptr(word(at)) }.to_bytes();
        entry
            .strip_prefix(name.as_bytes())
            .is_some_and(|rest| rest.first() == Some(&b'='))
    };
    let (mut end, mut given) = (0, None);
    while !word(end).is_null() {
        given = given.or_else(|| is_named(end, ENV_GIVEN_GROUP).then_some(end));
        end += 1;
    }
    let Some(given) = given else { return };
    let libraries = (given + 1 < end && is_named(given + 1, "LD_PRELOAD")).then_some(given + 1);
    if libraries.unwrap_or(given) + 1 != end {
        // Somebody has put more behind it.
        return;
    }
    let mut vector = end;
    while word(vector).is_null() {
        vector += 1;
    }
    for at in given..vector {
        let begins_pair = at > given && (vector - at) % 2 == 0;
        // SAFETY: as above.
        unsafe {
            envp.wrapping_add(at)
                .cast::<usize>()
                .write(if begins_pair { AT_IGNORE } else { 0 })
        };
    }
}

/// # Safety
/// `envp` must be null or an array of C strings that ends with a null pointer, valid for the life
/// of the process.
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
fn replace_wrappers(function: impl Fn(&CStr) -> Result<Function, Errno>) -> Result<(), Errno> {
    let wrappers: [(&CStr, usize, *const c_void); 6] = [
        (c"mmap", mmap::SYS_MMAP, hook::mmap as *const c_void),
        (c"munmap", mmap::SYS_MUNMAP, hook::munmap as *const c_void),
        (c"mremap", mremap::SYS_MREMAP, hook::mremap as *const c_void),
        (c"madvise", mmap::SYS_MADVISE, hook::madvise as *const c_void),
        (c"brk", hook::SYS_BRK, hook::brk as *const c_void),
        (
            c"mlockall",
            uzswap_sys::mlock::SYS_MLOCKALL,
            hook::mlockall as *const c_void,
        ),
    ];
    for (name, number, replacement) in wrappers {
        // SAFETY: libc's function, no other thread runs yet, and the replacement does the same and
        // more.
        unsafe { text::replace(&function(name)?, number as u8, replacement)? };
    }
    // Without it a userfaultfd of the program's own is refused memory that is managed.
    if let Ok(ioctl) = function(c"ioctl") {
        // SAFETY: as above.
        let _ = unsafe { text::replace(&ioctl, hook::SYS_IOCTL as u8, hook::ioctl as *const c_void) };
    }
    Ok(())
}
