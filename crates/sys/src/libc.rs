//! libc's own functions, whoever else defines their names.
//!
//! `dlsym` gives what comes first: a program's `mmap`, or that of a sanitizer. It is looked up here
//! in libc's image itself, which the dynamic linker's list of images leads to. Nothing is called on
//! the way.

use core::ffi::{CStr, c_char, c_void};

use crate::maps::Maps;
use crate::thread;

const PT_DYNAMIC: u32 = 2;
const PT_LOAD: u32 = 1;

const DT_STRTAB: usize = 5;
const DT_SYMTAB: usize = 6;
const DT_SONAME: usize = 14;
const DT_DEBUG: usize = 21;
const DT_GNU_HASH: usize = 0x6fff_fef5;
const DT_VERSYM: usize = 0x6fff_fff0;

/// `st_info` of functions; an indirect one is not what it seems.
const STT_OBJECT: u8 = 1;
const STT_FUNC: u8 = 2;
/// Of `DT_VERSYM`: not the version that a name without one means.
const HIDDEN: u16 = 0x8000;

/// What glibc calls itself.
const SONAME: &CStr = c"libc.so.6";

/// Bytes of `Elf64_Ehdr`.
const HEAD: usize = 64;

/// Images that are looked through at most: a list that is longer goes round in a circle.
const IMAGES_MAX: usize = 1 << 16;

/// `Elf64_Phdr`.
#[repr(C)]
struct Segment {
    kind: u32,
    flags: u32,
    offset: usize,
    address: usize,
    physical: usize,
    bytes_in_file: usize,
    bytes: usize,
    align: usize,
}

/// `Elf64_Sym`.
#[repr(C)]
struct Symbol {
    name: u32,
    info: u8,
    other: u8,
    section: u16,
    value: usize,
    size: usize,
}

/// `struct r_debug`, as debuggers read it.
#[repr(C)]
struct Debug {
    version: i32,
    images: *const LinkMap,
}

/// `Elf64_Ehdr`, as far as it is needed.
#[repr(C)]
struct Head {
    magic: u32,
    _kind: [u8; 28],
    segments: usize,
    _sections: usize,
    _flags: u32,
    _size: u16,
    _segment_size: u16,
    count: u16,
}

/// # Safety
/// So many bytes from there on are readable, and stay as they are.
unsafe fn bytes(at: usize, len: usize) -> &'static [u8] {
    // SAFETY: the caller's promise.
    unsafe { core::slice::from_raw_parts(core::ptr::with_exposed_provenance(at), len) }
}

/// The public part of `struct link_map`.
#[repr(C)]
struct LinkMap {
    base: usize,
    name: *const c_char,
    dynamic: *const [usize; 2],
    next: *const LinkMap,
}

/// The program's headers, as the kernel tells them: `AT_PHDR` and `AT_PHNUM`.
#[derive(Clone, Copy)]
pub struct Headers {
    first: *const Segment,
    count: usize,
}

/// Whether the code at `addr`, which the calling thread runs, is [of Go](Headers::is_of_go). Reads
/// all mappings.
pub fn is_code_of_go(addr: usize) -> bool {
    let Ok(maps) = Maps::open(true) else { return false };
    // Mappings of files that touch, up to the one that holds it: the nearest that begins as an
    // image is its.
    let mut touching: [Option<usize>; 8] = [None; 8];
    let mut end = 0;
    let listed = maps.for_each(|vma| {
        if vma.start > addr {
            return;
        }
        if vma.start != end || !vma.is_file() {
            touching = [None; 8];
        }
        touching.rotate_right(1);
        touching[0] = (vma.is_file() && vma.access()[0]).then_some(vma.start);
        end = vma.end;
    });
    if listed.is_err() || end <= addr {
        return false;
    }
    // SAFETY: mappings of files that may be read. Who runs in an image keeps it there.
    let at = |start| unsafe { Headers::at(start) };
    let image = touching.into_iter().flatten().find_map(at);
    image.is_some_and(|image| image.is_of_go())
}

impl Headers {
    /// # Safety
    /// `first` and `count` are what the kernel passed, and the image is mapped for good.
    pub unsafe fn new(first: usize, count: usize) -> Option<Self> {
        let first: *const Segment = core::ptr::with_exposed_provenance(first);
        (!first.is_null()).then_some(Self { first, count })
    }

    fn iter(&self) -> impl Iterator<Item = &'static Segment> + use<> {
        let Self { first, count } = *self;
        // SAFETY: inside the headers, by the promise of `new`.
        (0..count).map(move |i| unsafe { &*first.add(i) })
    }

    /// Bytes of the image that are not in its file (.bss): memory that the program has without
    /// mapping any.
    pub fn zero_bytes(&self) -> usize {
        self.iter()
            .filter(|segment| segment.kind == PT_LOAD)
            .map(|segment| segment.bytes.saturating_sub(segment.bytes_in_file))
            .sum()
    }

    /// How far from where its headers say that it is.
    fn base(&self) -> Option<usize> {
        const PT_PHDR: u32 = 6;
        let first = self.first as usize;
        let headers = self.iter().find(|segment| segment.kind == PT_PHDR);
        if let Some(headers) = headers {
            return Some(first.wrapping_sub(headers.address));
        }
        // They are behind the file's head, as linkers put them.
        let begins = |segment: &&Segment| segment.kind == PT_LOAD && segment.offset == 0;
        let address = self.iter().find(begins)?.address + HEAD;
        Some(first.wrapping_sub(address))
    }

    /// The program's code: what is mapped to be executed.
    pub fn code(&self) -> impl Iterator<Item = &'static [u8]> {
        const PF_X: u32 = 1;
        let is_code = |segment: &&Segment| segment.kind == PT_LOAD && segment.flags & PF_X != 0;
        let base = self.base();
        self.iter().filter(is_code).filter_map(move |segment| {
            // SAFETY: mapped for good, as programs are, and readable.
            Some(unsafe { bytes(base?.wrapping_add(segment.address), segment.bytes_in_file) })
        })
    }

    /// What its linker has told it by from all others.
    pub fn build_id(&self) -> Option<&'static [u8]> {
        const PT_NOTE: u32 = 4;
        /// Three words, then the name, `GNU` and a zero, then the id.
        const HEAD: usize = 16;
        const KIND: u32 = 3;
        let mut notes = self.iter().filter(|segment| segment.kind == PT_NOTE);
        let base = self.base()?;
        notes.find_map(|segment| {
            // SAFETY: as above.
            let mut rest = unsafe { bytes(base.wrapping_add(segment.address), segment.bytes_in_file) };
            loop {
                let word = |at: usize| Some(u32::from_le_bytes(rest.get(at..at + 4)?.try_into().ok()?));
                let (name, len, kind) = (word(0)? as usize, word(4)? as usize, word(8)?);
                let start = 12 + name.next_multiple_of(4);
                if kind == KIND && rest.get(12..HEAD)? == b"GNU\0" {
                    return rest.get(start..start + len);
                }
                rest = rest.get(start + len.next_multiple_of(4)..)?;
            }
        })
    }

    /// Whether it is of Go, whose stacks are small: its linker notes that.
    pub fn is_of_go(&self) -> bool {
        const PT_NOTE: u32 = 4;
        /// Of a note: three words, and the name.
        const NAME: core::ops::Range<usize> = 12..16;
        let notes = self.iter().filter(|segment| segment.kind == PT_NOTE);
        notes.into_iter().any(|segment| {
            let Some(base) = self.base() else { return false };
            // SAFETY: as above.
            let notes = unsafe { bytes(base.wrapping_add(segment.address), segment.bytes_in_file) };
            notes
                .windows(NAME.end)
                .step_by(4)
                .any(|note| note[..4] == [4, 0, 0, 0] && &note[NAME] == b"Go\0\0")
        })
    }

    /// Those of the image that is loaded from `base` on. `None`: none is.
    ///
    /// # Safety
    /// What the dynamic linker has mapped, or another part of a file: a page at least.
    unsafe fn at(base: usize) -> Option<Self> {
        const MAGIC: u32 = u32::from_le_bytes(*b"\x7fELF");
        let head: *const Head = core::ptr::with_exposed_provenance(base);
        // SAFETY: the caller's promise.
        let head = unsafe { head.as_ref()? };
        // SAFETY: what the dynamic linker has mapped by.
        (head.magic == MAGIC).then(|| unsafe { Self::new(base + head.segments, head.count.into()) })?
    }

    /// Its table for unwinders, and where that is.
    pub fn unwind_table(&self) -> Option<&'static [u8]> {
        const PT_GNU_EH_FRAME: u32 = 0x6474_e550;
        let table = self.iter().find(|segment| segment.kind == PT_GNU_EH_FRAME)?;
        // SAFETY: as above.
        Some(unsafe { bytes(self.base()?.wrapping_add(table.address), table.bytes_in_file) })
    }

    /// The program's dynamic section: as far from its headers as they say.
    fn dynamic(&self) -> Option<*const [usize; 2]> {
        let dynamic = self.iter().find(|segment| segment.kind == PT_DYNAMIC)?;
        Some(core::ptr::with_exposed_provenance(
            self.base()?.wrapping_add(dynamic.address),
        ))
    }
}

/// The value of an entry of a dynamic section.
///
/// # Safety
/// `dynamic` is one, and mapped.
unsafe fn entry(dynamic: *const [usize; 2], tag: usize) -> Option<usize> {
    let mut at = dynamic;
    loop {
        // SAFETY: inside the section, at most at its last entry, whose tag is 0.
        match unsafe { *at } {
            [0, _] => return None,
            [found, value] if found == tag => return Some(value),
            _ => at = at.wrapping_add(1),
        }
    }
}

/// A function of libc.
#[derive(Clone, Copy, Debug)]
pub struct Function {
    /// Where it begins.
    pub entry: *mut c_void,
    /// How long its code is.
    pub len: usize,
}

/// A loaded image: the program, or a library.
pub struct Image {
    base: usize,
    dynamic: *const [usize; 2],
    symbols: *const Symbol,
    names: *const c_char,
    versions: *const u16,
    hash: *const u32,
}

impl Image {
    /// All that is loaded, the program first. In a constructor: the dynamic linker's list is
    /// complete then, and nobody changes it.
    pub fn all(program: Headers) -> impl Iterator<Item = Self> {
        // SAFETY: the program's dynamic section (promise of Headers).
        let debug = program
            .dynamic()
            .and_then(|dynamic| unsafe { entry(dynamic, DT_DEBUG) });
        let debug: *const Debug = core::ptr::with_exposed_provenance(debug.unwrap_or(0));
        // SAFETY: where the dynamic linker tells debuggers of its list.
        let mut map = (!debug.is_null()).then(|| unsafe { (*debug).images });
        core::iter::from_fn(move || {
            // SAFETY: an entry of that list, or its end.
            let now = unsafe { map?.as_ref()? };
            map = Some(now.next);
            Some(now)
        })
        .take(IMAGES_MAX)
        // SAFETY: such an entry.
        .filter_map(|map| unsafe { Self::of(map) })
    }

    /// libc, if it is glibc.
    pub fn libc(program: Headers) -> Option<Self> {
        Self::all(program).find(Self::is_libc)
    }

    /// # Safety
    /// An entry of the dynamic linker's list.
    unsafe fn of(map: &LinkMap) -> Option<Self> {
        if map.dynamic.is_null() {
            return None;
        }
        // SAFETY: by the caller's promise a dynamic section.
        let address = |tag| unsafe { entry(map.dynamic, tag) }.map(|value| absolute(map.base, value));
        Some(Self {
            base: map.base,
            dynamic: map.dynamic,
            symbols: core::ptr::with_exposed_provenance(address(DT_SYMTAB)?),
            names: core::ptr::with_exposed_provenance(address(DT_STRTAB)?),
            versions: core::ptr::with_exposed_provenance(address(DT_VERSYM)?),
            hash: core::ptr::with_exposed_provenance(address(DT_GNU_HASH)?),
        })
    }

    /// Whether it is glibc.
    pub fn is_libc(&self) -> bool {
        self.is_named(SONAME)
    }

    /// Whether that is its name for the dynamic linker (DT_SONAME).
    pub fn is_named(&self, name: &CStr) -> bool {
        // SAFETY: a dynamic section, and a name in its table.
        unsafe { entry(self.dynamic, DT_SONAME).is_some_and(|at| CStr::from_ptr(self.names.add(at)) == name) }
    }

    /// Its headers. `None`: they are not where a linker puts them.
    pub fn headers(&self, program: Headers) -> Option<Headers> {
        if program.base() == Some(self.base) {
            return Some(program);
        }
        // SAFETY: a library begins with its file's head; others are not at their base.
        unsafe { Headers::at(self.base) }
    }

    /// Whether the image leaves this name open.
    pub fn asks_for(&self, name: &CStr) -> bool {
        // SAFETY: the tables of an image; symbols that it does not define come before those that
        // its hash table begins with.
        unsafe {
            (1..*self.hash.add(1) as usize)
                .map(|i| &*self.symbols.add(i))
                .any(|symbol| symbol.section == 0 && CStr::from_ptr(self.names.add(symbol.name as usize)) == name)
        }
    }

    /// A function that the image exports, in the version that new programs get.
    pub fn function(&self, name: &CStr) -> Option<Function> {
        self.symbol(name, STT_FUNC)
    }

    /// A word of its data that the image exports.
    fn word(&self, name: &CStr) -> Option<usize> {
        let data = self.symbol(name, STT_OBJECT)?;
        match data.len {
            // SAFETY: the image has such a word, for its users to read; it is the dynamic linker's,
            // which is never unloaded.
            4 => Some(unsafe { data.entry.cast::<u32>().read() } as usize),
            // SAFETY: the same.
            8 => Some(unsafe { data.entry.cast::<usize>().read() }),
            _ => None,
        }
    }

    /// What the image exports of this kind.
    fn symbol(&self, name: &CStr, kind: u8) -> Option<Function> {
        // SAFETY: tables of an image that the dynamic linker has loaded and uses in the same way.
        unsafe {
            let [buckets, first, bloom_words] = [*self.hash, *self.hash.add(1), *self.hash.add(2)];
            if buckets == 0 {
                return None;
            }
            // The filter's words have 64 bits.
            let bucket = self.hash.add(4 + 2 * bloom_words as usize);
            let chain = bucket.add(buckets as usize);
            let hash = gnu_hash(name.to_bytes());
            let mut index = *bucket.add((hash % buckets) as usize);
            if index < first {
                return None;
            }
            loop {
                let found = *chain.add((index - first) as usize);
                let symbol = &*self.symbols.add(index as usize);
                let is_default = *self.versions.add(index as usize) & HIDDEN == 0;
                if found | 1 == hash | 1
                    && is_default
                    && symbol.info & 0xf == kind
                    && symbol.section != 0
                    && CStr::from_ptr(self.names.add(symbol.name as usize)) == name
                {
                    return Some(Function {
                        entry: core::ptr::with_exposed_provenance_mut(self.base + symbol.value),
                        len: symbol.size,
                    });
                }
                if found & 1 != 0 {
                    return None;
                }
                index += 1;
            }
        }
    }
}

/// Where the kernel tells the calling thread of its core each time that it comes to one, as libc
/// has asked it to (rseq(2)): its first byte and end. Both 0: nowhere.
pub fn rseq_area(program: Option<Headers>) -> (usize, usize) {
    /// The kernel may write as much where libc says less: then it says what is of use.
    const BYTES: usize = 32;
    let word = |name| program.and_then(|program| Image::all(program).find_map(|image| image.word(name)));
    match (word(c"__rseq_offset"), word(c"__rseq_size")) {
        (Some(offset), Some(size)) if size > 0 => {
            let start = thread::pointer().wrapping_add(offset);
            (start, start + size.max(BYTES))
        }
        _ => (0, 0),
    }
}

/// glibc's dynamic linker makes these addresses absolute, others leave them as they are in the
/// file.
fn absolute(base: usize, value: usize) -> usize {
    if value < base { base + value } else { value }
}

fn gnu_hash(name: &[u8]) -> u32 {
    name.iter().fold(5381, |hash: u32, byte| {
        hash.wrapping_mul(33).wrapping_add(u32::from(*byte))
    })
}

#[cfg(all(test, not(miri)))]
mod test {
    use super::*;
    use crate::procfs::ProcSelf;

    unsafe extern "C" {
        fn getauxval(kind: usize) -> usize;
        fn mlockall(flags: i32) -> i32;
    }

    fn headers() -> Headers {
        // SAFETY: the kernel's values.
        unsafe { Headers::new(getauxval(3), getauxval(5)) }.expect("programs have headers")
    }

    #[test]
    fn finds_functions_of_libc() {
        let libc = Image::libc(headers()).expect("tests run with glibc");
        let function = libc.function(c"mlockall").expect("it has that");
        assert_eq!(function.entry.addr(), mlockall as *const () as usize);
        assert!((20..100).contains(&function.len), "{} bytes", function.len);
        assert!(libc.function(c"mlockal").is_none());
        // Which code it is depends on the processor.
        assert!(libc.function(c"memcpy").is_none());
        let program = Image::all(headers()).next().expect("the program");
        assert!(program.asks_for(c"mlockall") && !program.asks_for(c"mlockal"));
    }

    #[test]
    fn the_program_s_zeros_are_fewer_than_its_memory() {
        let size = ProcSelf::open().unwrap().sizes().unwrap().virt;
        assert!((1..size).contains(&headers().zero_bytes()));
    }
}
