//! A look at a file that is to be executed: what is it, and does a loader put libraries into it?

use core::ffi::{CStr, c_char};

use linux_raw_sys::general as raw;
use rustix::fd::{AsRawFd, FromRawFd, OwnedFd};
use rustix::fs::{self, AtFlags, FileType, Mode, OFlags};
use rustix::io::{Errno, Result};

use crate::thread::syscall;

/// Scripts lead to their interpreter, as deep as the kernel follows them.
const DEPTH: u32 = 4;
/// The first bytes of a file: the kernel looks at no more of a script.
const FIRST: usize = 256;
/// Offsets in the header of a 64-bit ELF file, and what stands there.
const TYPE: usize = 16;
const EXECUTABLE: u16 = 2;
const SHARED: u16 = 3;
const MACHINE: usize = 18;
const X86_64: u16 = 62;
const HEADERS: usize = 32;
const HEADER_COUNT: usize = 56;
/// Those of a program header, and its length.
const HEADER: usize = 56;
const OFFSET: usize = 8;
const LEN: usize = 32;
const DYNAMIC: u32 = 2;
const INTERPRETER: u32 = 3;
/// An entry of the dynamic section, and the one that gives a library its name.
const ENTRY: usize = 16;
const SONAME: u64 = 14;

/// What a file is, by its contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// No ELF file, as a script.
    Other,
    /// One that is no program of 64-bit x86.
    Foreign,
    /// Others load it by a name; or it is a loader, which loads what it is told.
    Library,
    /// glibc's loader puts libraries into it.
    Loads,
    /// It is all that there is, or musl's loader, whose constructors are told nothing, does so.
    LoadsNothing,
}

/// What a file is that `read` reads, from an offset, as pread(2) does. Nothing is allocated.
///
/// # Errors
/// ENOEXEC: it is damaged. What `read` answers.
pub fn kind(read: impl Fn(u64, &mut [u8]) -> Result<usize>) -> Result<Kind> {
    let mut first = [0; FIRST];
    let len = read(0, &mut first)?;
    let first = &first[..len.min(FIRST)];
    if !first.starts_with(b"\x7fELF") {
        return Ok(Kind::Other);
    }
    let is_program = matches!(half(first, TYPE), Some(EXECUTABLE | SHARED));
    if !first.starts_with(b"\x7fELF\x02\x01") || half(first, MACHINE) != Some(X86_64) || !is_program {
        return Ok(Kind::Foreign);
    }
    if let Some(header) = header_of(&read, first, INTERPRETER)? {
        let mut name = [0; FIRST];
        let len = read(long(&header, OFFSET).unwrap_or(0), &mut name)?;
        let name = &name[..len.min(FIRST).min(long(&header, LEN).unwrap_or(0) as usize)];
        return Ok(match name.windows(4).any(|word| word == b"musl") {
            true => Kind::LoadsNothing,
            false => Kind::Loads,
        });
    }
    Ok(match is_library(&read, first)? {
        true => Kind::Library,
        false => Kind::LoadsNothing,
    })
}

fn open(dir: usize, path: *const c_char) -> Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let args = [dir, path.addr(), flags.bits() as usize, 0, 0, 0];
    // SAFETY: the kernel reads the path, or says that there is none.
    let fd = unsafe { syscall(raw::__NR_openat as usize, args)? };
    // SAFETY: the kernel just made it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// What execveat(2) with these arguments would make, if that has its maker's rights: else it is
/// [`Kind::Other`]. An error is none that the call would have to answer. Nothing is allocated.
///
/// # Errors
/// It cannot be told.
pub fn kind_of(dir: usize, path: *const c_char, flags: usize) -> Result<Kind> {
    let empty = AtFlags::EMPTY_PATH.bits() as usize;
    let file = open(dir, path);
    let file = match file {
        // Then it is the descriptor itself.
        Err(Errno::NOENT) if flags & empty != 0 => {
            let link = link_of(dir);
            open(raw::AT_FDCWD as usize, link.as_c_str().as_ptr())?
        }
        file => file?,
    };
    look(file, 0)
}

fn look(file: OwnedFd, depth: u32) -> Result<Kind> {
    let stat = fs::fstat(&file)?;
    let changes_rights = Mode::SUID | Mode::SGID;
    let mode = Mode::from_raw_mode(stat.st_mode);
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile
        || mode.intersects(changes_rights)
        // execve would fail: whoever traced us would wait for nothing.
        || !may_execute(&file)
        || has_capabilities(&file)
    {
        return Ok(Kind::Other);
    }
    let mut first = [0; FIRST];
    let len = rustix::io::pread(&file, &mut first, 0)?;
    let first = &first[..len];
    if let Some(line) = first.strip_prefix(b"#!") {
        return match interpreter_of(line) {
            Some((path, len)) if depth < DEPTH => {
                let mut name = [0; FIRST];
                name[..len].copy_from_slice(&line[path..path + len]);
                look(open(raw::AT_FDCWD as usize, name.as_ptr().cast())?, depth + 1)
            }
            _ => Ok(Kind::Other),
        };
    }
    kind(|at, bytes| rustix::io::pread(&file, bytes, at))
}

/// Whether it has a name that others load it by.
fn is_library(read: impl Fn(u64, &mut [u8]) -> Result<usize>, first: &[u8]) -> Result<bool> {
    let Some(header) = header_of(&read, first, DYNAMIC)? else {
        return Ok(false);
    };
    let (start, len) = (long(&header, OFFSET).unwrap_or(0), long(&header, LEN).unwrap_or(0));
    for at in (0..len).step_by(ENTRY) {
        let mut entry = [0; ENTRY];
        if read(start.saturating_add(at), &mut entry)? < ENTRY || entry[..8] == [0; 8] {
            break;
        }
        if entry[..8] == SONAME.to_le_bytes() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether this process may run it, as its effective user.
fn may_execute(file: &OwnedFd) -> bool {
    let link = link_of(file.as_raw_fd() as usize);
    fs::accessat(fs::CWD, link.as_c_str(), fs::Access::EXEC_OK, AtFlags::EACCESS).is_ok()
}

/// The name of a descriptor.
struct Link([u8; 40]);

impl Link {
    fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.0).unwrap_or_default()
    }
}

/// Nothing is allocated: this may be a vfork child.
fn link_of(fd: usize) -> Link {
    let mut link = [0; 40];
    let prefix = b"/proc/self/fd/";
    link[..prefix.len()].copy_from_slice(prefix);
    let (mut digits, mut rest) = (1, fd / 10);
    while rest > 0 {
        (digits, rest) = (digits + 1, rest / 10);
    }
    let mut rest = fd;
    for at in (prefix.len()..prefix.len() + digits).rev() {
        (link[at], rest) = (b'0' + (rest % 10) as u8, rest / 10);
    }
    Link(link)
}

/// Whether whoever runs this program may get capabilities of the file.
fn has_capabilities(file: &OwnedFd) -> bool {
    let mut value = [0u8; 64];
    fs::fgetxattr(file, c"security.capability", &mut value[..]).is_ok()
}

/// Where the name of a script's interpreter begins, and how long it is.
fn interpreter_of(line: &[u8]) -> Option<(usize, usize)> {
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let start = line.iter().position(|byte| !is_blank(byte))?;
    let len = line[start..].iter().position(|byte| is_blank(byte) || *byte == b'\n')?;
    (len > 0).then_some((start, len))
}

/// The first program header of a kind.
fn header_of(read: impl Fn(u64, &mut [u8]) -> Result<usize>, first: &[u8], kind: u32) -> Result<Option<[u8; HEADER]>> {
    let (Some(at), Some(count)) = (long(first, HEADERS), half(first, HEADER_COUNT)) else {
        return Err(Errno::NOEXEC);
    };
    for n in 0..u64::from(count) {
        let mut header = [0; HEADER];
        if read(at.saturating_add(n * HEADER as u64), &mut header)? < HEADER {
            return Err(Errno::NOEXEC);
        }
        if header[..4] == kind.to_le_bytes() {
            return Ok(Some(header));
        }
    }
    Ok(None)
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2)?.try_into().ok().map(u16::from_le_bytes)
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes)
}

#[cfg(all(test, not(miri)))]
mod test {
    use super::*;

    fn at(path: &CStr) -> Result<Kind> {
        kind_of(raw::AT_FDCWD as usize, path.as_ptr(), 0)
    }

    #[test]
    fn what_a_program_is_is_told_from_its_file() {
        assert_eq!(at(c"/proc/self/exe"), Ok(Kind::Loads));
        assert_eq!(at(c"/bin/sh"), Ok(Kind::Loads));
        assert_eq!(at(c"/no/such/file"), Err(Errno::NOENT));
        // Nobody may execute them.
        assert_eq!(at(c"/etc/passwd"), Ok(Kind::Other));
        assert_eq!(at(c"/tmp"), Ok(Kind::Other));
        // It asks for no loader, being one.
        assert_eq!(at(c"/lib64/ld-linux-x86-64.so.2"), Ok(Kind::Library));
    }

    #[test]
    fn descriptors_have_names() {
        for fd in [0, 7, 10, 99, 1023, usize::MAX] {
            let name = alloc::format!("/proc/self/fd/{fd}");
            assert_eq!(link_of(fd).as_c_str().to_bytes(), name.as_bytes());
        }
    }

    #[test]
    fn scripts_lead_to_their_interpreter() {
        assert_eq!(interpreter_of(b" /bin/sh -e\nls\n"), Some((1, 7)));
        assert_eq!(interpreter_of(b"/bin/sh\n"), Some((0, 7)));
        assert_eq!(interpreter_of(b"\n"), None);
        assert_eq!(interpreter_of(b"/bin/cut off"), Some((0, 8)));
        assert_eq!(interpreter_of(b"/cut/off"), None);
    }
}
