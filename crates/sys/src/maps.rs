//! The mappings of this process, from `/proc/thread-self/maps`: asked for one by one
//! (PROCMAP_QUERY, Linux 6.11), or read as text.

use alloc::vec::Vec;

use linux_raw_sys::general as raw;
use lock_api::RawMutex;
use rustix::fd::OwnedFd;
use rustix::fs::{self, Mode, OFlags, SeekFrom};
use rustix::io::{self, Errno, Result};
use rustix::ioctl::{self, Opcode, opcode};

use crate::futex::RawLock;
use crate::lent;
use crate::procfs::ProcSelf;

const QUERY: Opcode = opcode::read_write::<raw::procmap_query>(b'f', 17);

const VMA_READABLE: u64 = 1;
const VMA_WRITABLE: u64 = 2;
const VMA_EXECUTABLE: u64 = 4;
const VMA_SHARED: u64 = 8;
const COVERING_OR_NEXT_VMA: u64 = 16;

/// A mapping of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vma {
    /// First byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
    is_readable: bool,
    is_writable: bool,
    is_executable: bool,
    is_shared: bool,
    is_file: bool,
}

impl Vma {
    /// Private anonymous memory that is not executable, whatever else its protection is: it may
    /// change later.
    pub fn is_private_anonymous_data(&self) -> bool {
        self.is_private_anonymous() && !self.is_executable
    }

    /// Whether what is written to it is the process's own.
    pub fn is_private(&self) -> bool {
        !self.is_shared
    }

    /// As that, executable or not.
    pub fn is_private_anonymous(&self) -> bool {
        !self.is_file && !self.is_shared
    }

    /// Whether another may be used in the same way, as far as is known here.
    pub fn is_used_as(&self, other: &Self) -> bool {
        let bounds = (self.start, self.end);
        *self
            == Self {
                start: bounds.0,
                end: bounds.1,
                ..*other
            }
    }

    /// Private anonymous memory that may be executed.
    pub fn is_executable_anonymous(&self) -> bool {
        self.is_private_anonymous() && self.is_executable
    }

    /// Private anonymous memory that may be executed and written, as some Lisps have for all that
    /// they hold.
    pub fn is_executable_data(&self) -> bool {
        self.is_executable_anonymous() && self.is_writable
    }

    /// Whether it is of a file.
    pub(crate) fn is_file(&self) -> bool {
        self.is_file
    }

    /// Whether the program may read it, write to it, execute it.
    pub fn access(&self) -> [bool; 3] {
        [self.is_readable, self.is_writable, self.is_executable]
    }

    /// Memory that may be written to and not executed, as most is.
    pub fn is_plain_data(&self) -> bool {
        self.is_writable && !self.is_executable
    }

    /// A line of the text: `START-END PERMISSIONS OFFSET DEVICE INODE [NAME]`.
    fn parse(line: &[u8]) -> Option<Self> {
        let mut words = line.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
        let (range, permissions) = (words.next()?, words.next()?);
        let inode = words.nth(2)?;
        let dash = range.iter().position(|byte| *byte == b'-')?;
        Some(Self {
            start: hex(&range[..dash])?,
            end: hex(&range[dash + 1..])?,
            is_readable: *permissions.first()? == b'r',
            is_writable: *permissions.get(1)? == b'w',
            is_executable: *permissions.get(2)? == b'x',
            is_shared: *permissions.get(3)? != b'p',
            is_file: inode != b"0",
        })
    }
}

fn hex(text: &[u8]) -> Option<usize> {
    usize::from_str_radix(core::str::from_utf8(text).ok()?, 16).ok()
}

/// The open file.
pub struct Maps {
    file: OwnedFd,
    queries: bool,
    /// Held while the text is read: a descriptor has one position.
    reading: RawLock,
}

impl Maps {
    /// Open it in a thread of the program, with as many descriptors as that might have.
    ///
    /// # Errors
    /// ENOENT when /proc is not mounted.
    pub fn of_program() -> Result<Self> {
        match Self::open(true) {
            Err(Errno::MFILE) => lent::with_most_descriptors(|| Self::open(true)),
            opened => opened,
        }
    }

    /// Open it. `may_query`: unless the kernel is too old, mappings are asked for.
    ///
    /// # Errors
    /// ENOENT when /proc is not mounted.
    pub(crate) fn open(may_query: bool) -> Result<Self> {
        let file = fs::open(
            c"/proc/thread-self/maps",
            OFlags::RDONLY | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        let queries = may_query && query(&file, 0) != Err(Errno::NOTTY);
        Ok(Self {
            file,
            queries,
            reading: RawLock::INIT,
        })
    }

    /// The mapping that covers `addr` or else the next one above. `None`: there is none.
    ///
    /// # Errors
    /// What the system answers.
    pub fn at_or_after(&self, addr: usize) -> Result<Option<Vma>> {
        if self.queries {
            return query(&self.file, addr);
        }
        let mut found = None;
        self.read(|vma| {
            found = (vma.end > addr).then_some(vma);
            found.is_none()
        })?;
        Ok(found)
    }

    /// That of [`ProcSelf::vmas_from`].
    fn window(&self, addr: usize, most: usize) -> Result<Vec<Vma>> {
        if self.queries {
            return Ok(query(&self.file, addr)?.into_iter().collect());
        }
        let mut vmas = Vec::with_capacity(most);
        self.read(|vma| {
            if vma.end > addr {
                vmas.push(vma);
            }
            vmas.len() < most
        })?;
        Ok(vmas)
    }

    /// Call `found` with each mapping, lowest first.
    ///
    /// # Errors
    /// What the system answers.
    pub fn for_each(&self, mut found: impl FnMut(Vma)) -> Result<()> {
        if !self.queries {
            return self.read(|vma| {
                found(vma);
                true
            });
        }
        let mut at = 0;
        while let Some(vma) = query(&self.file, at)? {
            found(vma);
            at = vma.end;
        }
        Ok(())
    }

    /// Read the text, a line at a time, while `wants_more`.
    fn read(&self, wants_more: impl FnMut(Vma) -> bool) -> Result<()> {
        self.reading.lock();
        let result = self.read_lines(wants_more);
        // SAFETY: locked above, by this very thread.
        unsafe { self.reading.unlock() };
        result
    }

    fn read_lines(&self, mut wants_more: impl FnMut(Vma) -> bool) -> Result<()> {
        fs::seek(&self.file, SeekFrom::Start(0))?;
        for_each_line(&self.file, |line| Vma::parse(line).is_none_or(&mut wants_more))
    }
}

impl ProcSelf {
    /// The mapping that covers `addr` or else the next one above, and others behind it where they
    /// cost nothing more: at most `most`, lowest first. None: there is none.
    ///
    /// # Errors
    /// What the system answers.
    pub fn vmas_from(&self, addr: usize, most: usize) -> Result<Vec<Vma>> {
        self.maps.window(addr, most)
    }
}

/// Call `found` with the first 128 bytes of each line (the name of a file may be longer) as long as
/// it says true.
fn for_each_line(file: &OwnedFd, mut found: impl FnMut(&[u8]) -> bool) -> Result<()> {
    let mut line = [0u8; 128];
    let mut len = 0;
    let mut chunk = [0u8; 2048];
    loop {
        let n = match io::read(file, &mut chunk) {
            Err(Errno::INTR) => continue,
            n => n?,
        };
        if n == 0 {
            return Ok(());
        }
        for byte in &chunk[..n] {
            if *byte != b'\n' {
                if let Some(place) = line.get_mut(len) {
                    *place = *byte;
                    len += 1;
                }
                continue;
            }
            if !found(&line[..len]) {
                return Ok(());
            }
            len = 0;
        }
    }
}

/// Call `found` with each mapping that forked children get empty (MADV_WIPEONFORK), as byte
/// addresses. Walks all page tables: milliseconds for a gigabyte.
///
/// # Errors
/// What the system answers; ENOENT where /proc is not mounted.
pub fn for_each_wiped_on_fork(mut found: impl FnMut(usize, usize)) -> Result<()> {
    let file = fs::open(
        c"/proc/thread-self/smaps",
        OFlags::RDONLY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    let mut mapping: Option<Vma> = None;
    for_each_line(&file, |line| {
        match line.strip_prefix(b"VmFlags:") {
            Some(flags) if flags.split(|byte| *byte == b' ').any(|flag| flag == b"wf") => {
                if let Some(vma) = mapping.take() {
                    found(vma.start, vma.end);
                }
            }
            Some(_) => {}
            None => mapping = Vma::parse(line).or(mapping),
        }
        true
    })
}

fn query(maps: &OwnedFd, addr: usize) -> Result<Option<Vma>> {
    // SAFETY: procmap_query is plain integers, for which all zeroes is a value.
    let mut query: raw::procmap_query = unsafe { core::mem::zeroed() };
    query.size = size_of::<raw::procmap_query>() as u64;
    query.query_flags = COVERING_OR_NEXT_VMA;
    query.query_addr = addr as u64;
    // SAFETY: the opcode is paired with its argument type; no name or build-id buffers are passed.
    match unsafe { ioctl::ioctl(maps, ioctl::Updater::<QUERY, _>::new(&mut query)) } {
        Ok(()) => Ok(Some(Vma {
            start: query.vma_start as usize,
            end: query.vma_end as usize,
            is_readable: query.vma_flags & VMA_READABLE != 0,
            is_writable: query.vma_flags & VMA_WRITABLE != 0,
            is_executable: query.vma_flags & VMA_EXECUTABLE != 0,
            is_shared: query.vma_flags & VMA_SHARED != 0,
            is_file: query.inode != 0,
        })),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(errno),
    }
}

#[cfg(all(test, not(miri)))]
mod test {
    use super::*;
    use crate::mapping::Mapping;

    /// Other tests map memory for as long as they run.
    const TRIES: u32 = 10_000;

    #[test]
    fn the_text_says_what_the_queries_say() {
        let mapping = Mapping::reserve(3 * crate::PAGE_SIZE).unwrap();
        let (new, old) = (Maps::open(true).unwrap(), Maps::open(false).unwrap());
        for addr in [
            mapping.addr(),
            mapping.addr() + crate::PAGE_SIZE,
            query as *const () as usize,
            0,
        ] {
            let agree = (0..TRIES).any(|_| new.at_or_after(addr) == old.at_or_after(addr));
            assert!(agree, "{addr:#x}: {:?}", old.at_or_after(addr));
            let first = |maps: &Maps| maps.window(addr, 3).unwrap().first().copied();
            let agree = (0..TRIES).any(|_| first(&new) == first(&old) && old.window(addr, 3).unwrap().len() == 3);
            assert!(agree, "{addr:#x}");
        }
        let all = |maps: &Maps| {
            let mut all = Vec::new();
            maps.for_each(|vma| all.push(vma)).unwrap();
            // Not a mapping of the process.
            all.retain(|vma| vma.start < 1 << 47);
            all
        };
        assert!(
            (0..TRIES).any(|_| all(&new) == all(&old)),
            "{:?}\n{:?}",
            all(&new),
            all(&old)
        );
    }

    #[test]
    fn what_children_get_empty_is_found() {
        use rustix::mm::{Advice, madvise};
        let mapping = Mapping::reserve(3 * crate::PAGE_SIZE).unwrap();
        let addr = mapping.addr();
        let found = || {
            let mut found = false;
            for_each_wiped_on_fork(|start, end| found |= start <= addr && addr < end).unwrap();
            found
        };
        assert!(!found());
        let base = core::ptr::with_exposed_provenance_mut(addr);
        // SAFETY: changes nothing in this process.
        unsafe { madvise(base, mapping.len(), Advice::LinuxWipeOnFork).unwrap() };
        assert!(found());
    }

    #[test]
    fn lines_are_read_whatever_their_name() {
        let line = b"7f10a0000000-7f10a0021000 rw-p 00000000 00:00 0 ";
        let vma = Vma::parse(line).unwrap();
        assert_eq!((vma.start, vma.end), (0x7f10_a000_0000, 0x7f10_a002_1000));
        assert!(vma.is_private_anonymous_data());
        let heap = b"55d0c8a4b000-55d0c8a6c000 rw-p 00000000 00:00 0                          [heap]";
        assert!(Vma::parse(heap).unwrap().is_private_anonymous_data());
        let lisp = b"7f10a0000000-7f10a0021000 rwxp 00000000 00:00 0";
        assert!(Vma::parse(lisp).unwrap().is_executable_data());
        let code = b"7f10a0000000-7f10a0021000 r-xp 00000000 00:00 0";
        assert!(!Vma::parse(code).unwrap().is_executable_data());
        let text = b"55d0c7000000-55d0c7001000 r-xp 00001000 08:01 1234   /bin/a b";
        assert!(!Vma::parse(text).unwrap().is_private_anonymous());
        assert_eq!(Vma::parse(b""), None);
        assert_eq!(Vma::parse(b"12-zz rw-p 0 0 0"), None);
    }
}
