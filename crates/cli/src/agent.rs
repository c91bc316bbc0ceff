//! The agent library: embedded here, and put where every process of a group can load it.

use std::ffi::CString;
use std::fs;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use object::Endianness;
use object::elf::{self, FileHeader64};
use object::read::elf::{Dyn, FileHeader, ProgramHeader};
use uzswap_ctl::LIBRARY_SUFFIX;
use uzswap_sys::inject::{self, Load};
use uzswap_sys::{Errno, OwnedFd, file};

use crate::group::c_path;
use crate::{Failure, describe};

/// The library, as built by build.rs.
const IMAGE: &[u8] = include_bytes!(env!("UZSWAP_AGENT"));

/// What is in the name of the library wherever it is mapped from.
pub(crate) const NAME: &str = "agent-";

/// Of the library, by build.rs: names the file; the contents are compared as well.
const FINGERPRINT: &str = env!("UZSWAP_AGENT_FINGERPRINT");

/// Where our directory may be: where the user says, or else where most systems have one that can be
/// written.
fn places() -> Vec<PathBuf> {
    let mut places = vec![std::env::temp_dir()];
    for place in ["/tmp", "/var/tmp", "/dev/shm"].map(PathBuf::from) {
        if !places.contains(&place) {
            places.push(place);
        }
    }
    places
}

/// Our directory `uzswap-UID` in the first place that can have it: readable by programs that change
/// their user, writable by us alone.
pub(crate) fn runtime_dir() -> Result<PathBuf, Failure> {
    let mut first = None;
    for place in places() {
        match directory_in(&place) {
            Ok(dir) => return Ok(dir),
            Err(failure) => drop(first.get_or_insert(failure)),
        }
    }
    Err(first.unwrap_or_else(|| Failure::new("no directory for temporary files")))
}

/// Our directory, as long as it is open: systemd-tmpfiles does not look for what is old in a
/// directory that somebody has locked (flock). `None`: somebody else has it to himself.
pub(crate) fn lock_runtime_dir() -> Option<fs::File> {
    let directory = fs::File::open(runtime_dir().ok()?).ok()?;
    directory.try_lock_shared().is_ok().then_some(directory)
}

fn directory_in(place: &Path) -> Result<PathBuf, Failure> {
    let uid = uzswap_sys::thread::effective_user();
    // Programs of the group look for it from their own directories.
    let dir = std::path::absolute(place)
        .map_err(|e| Failure::new(format!("{}: {e}", place.display())))?
        .join(format!("uzswap-{uid}"));
    let fail = |what: String| Failure::new(format!("{}: {what}", dir.display()));
    if dir
        .as_os_str()
        .as_bytes()
        .iter()
        .any(|b| b.is_ascii_whitespace() || *b == b':')
    {
        return Err(fail(
            "LD_PRELOAD takes no path with a space or a colon; set TMPDIR to another directory".into(),
        ));
    }
    match fs::DirBuilder::new().mode(0o755).create(&dir) {
        Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => {
            return Err(fail(format!("{e}; set TMPDIR to a directory you can write")));
        }
        _ => {}
    }
    let meta = fs::symlink_metadata(&dir).map_err(|e| fail(e.to_string()))?;
    if !meta.is_dir() || meta.uid() != uid || meta.mode() & 0o022 != 0 {
        return Err(fail(
            "is not a directory that only you can write; remove it or set TMPDIR".into(),
        ));
    }
    // A mask may have forbidden others to look. What root's programs become when they give up root
    // loads the agent from here.
    if uid == 0 && meta.mode() & 0o055 != 0o055 {
        let readable = fs::Permissions::from_mode(0o755);
        fs::set_permissions(&dir, readable).map_err(|e| fail(e.to_string()))?;
    }
    // It may have been made while the file system could be written.
    file::may_write(&c_path(&dir)?)
        .map_err(|e| fail(format!("{}; set TMPDIR to a directory you can write", describe(e))))?;
    Ok(dir)
}

/// The library, where programs can load it.
pub(crate) enum Library {
    /// A link to a file.
    File(PathBuf),
    /// A file in memory, as no directory that we may write holds what may be executed. It goes by
    /// the name of a link to this process's descriptor.
    Memory { memory: OwnedFd, link: PathBuf },
}

impl Library {
    /// What programs load it by.
    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::File(path) | Self::Memory { link: path, .. } => path,
        }
    }

    /// The descriptor that has to stay open as long as programs are started.
    pub(crate) fn memory(&self) -> Option<&OwnedFd> {
        match self {
            Self::File(_) => None,
            Self::Memory { memory, .. } => Some(memory),
        }
    }

    /// Put the library where programs of `group` can load it.
    pub(crate) fn install(group: &Path) -> Result<Self, Failure> {
        let dir = runtime_dir()?;
        let path = dir.join(format!("agent-{FINGERPRINT}.so"));
        put(&dir, &path)?;
        if file::may_execute(&c_path(&path)?) {
            let link = path.with_extension(link_extension());
            point(&link, &path)?;
            return Ok(Self::File(link));
        }
        let fail = |e| {
            Failure::new(format!(
                "{} may not be executed there, and a file in memory cannot be had: {}; mount {} without noexec, or set TMPDIR",
                path.display(),
                describe(e),
                dir.display()
            ))
        };
        let library = Self::Memory {
            memory: file::sealed(c"uzswap-agent-memory", IMAGE).map_err(fail)?,
            link: link_path(group),
        };
        library.link()?;
        if !file::may_execute(&c_path(library.path())?) {
            return Err(fail(Errno::ACCESS));
        }
        Ok(library)
    }

    /// Have the link point to the descriptor of this process, which may be a copy of the one that
    /// made it.
    pub(crate) fn link(&self) -> Result<(), Failure> {
        let Self::Memory { memory, link } = self else {
            return Ok(());
        };
        let target = format!("/proc/{}/fd/{}", std::process::id(), memory.as_raw_fd());
        point(link, Path::new(&target))
    }
}

/// Have `link` point to `target`.
fn point(link: &Path, target: &Path) -> Result<(), Failure> {
    if fs::read_link(link).is_ok_and(|old| old == target) {
        return Ok(());
    }
    let new = link.with_extension(format!("new-{}", std::process::id()));
    let _ = fs::remove_file(&new);
    std::os::unix::fs::symlink(target, &new)
        .and_then(|()| fs::rename(&new, link))
        .map_err(|e| Failure::new(format!("{}: {e}", link.display())))
}

/// Where a group has the link to its library, if it needs one.
pub(crate) fn link_path(group: &Path) -> PathBuf {
    group.with_extension(format!("agent.{}", link_extension()))
}

/// The end of the link's name that is ours, behind its dot.
fn link_extension() -> &'static str {
    std::str::from_utf8(&LIBRARY_SUFFIX[1..]).expect("letters")
}

/// Put the library in place, unless it is there already.
fn put(dir: &Path, path: &Path) -> Result<(), Failure> {
    if is_intact(path) {
        return Ok(());
    }
    let temporary = dir.join(format!(".agent-{}", std::process::id()));
    write(&temporary)
        .and_then(|()| fs::rename(&temporary, path))
        .map_err(|e| {
            let _ = fs::remove_file(&temporary);
            Failure::new(format!(
                "writing the agent to {}: {e}; set TMPDIR to a directory with room for it",
                path.display()
            ))
        })
}

/// In pieces: every start of a program waits for this, and fresh memory for all of it costs more
/// than the comparison.
fn is_intact(path: &Path) -> bool {
    let holds_image = || {
        let mut file = fs::File::open(path)?;
        let (mut piece, mut rest) = ([0; 1 << 15], IMAGE);
        loop {
            match file.read(&mut piece)? {
                0 => return std::io::Result::Ok(rest.is_empty()),
                n => match rest.strip_prefix(&piece[..n]) {
                    Some(more) => rest = more,
                    None => return Ok(false),
                },
            }
        }
    };
    holds_image().is_ok_and(|is_intact| is_intact)
}

fn write(path: &Path) -> std::io::Result<()> {
    let _ = fs::remove_file(path);
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o755)
        .open(path)?;
    file.write_all(IMAGE)?;
    file.set_permissions(fs::Permissions::from_mode(0o755))
}

/// The library as it is put into a program that loads none, from the file at `path`.
pub(crate) fn library(path: &Path) -> Result<inject::Library, Failure> {
    let parsed = parse().ok_or_else(|| Failure::new("the agent in this uzswap is damaged: build it anew"))?;
    Ok(inject::Library {
        path: c_path(path)?,
        ..parsed
    })
}

fn parse() -> Option<inject::Library> {
    let header = FileHeader64::<Endianness>::parse(IMAGE).ok()?;
    let endian = header.endian().ok()?;
    let segments = header.program_headers(endian, IMAGE).ok()?;
    let load = |segment: &elf::ProgramHeader64<Endianness>| Load {
        addr: segment.p_vaddr(endian) as usize,
        len: segment.p_memsz(endian) as usize,
        offset: segment.p_offset(endian) as usize,
        file_len: segment.p_filesz(endian) as usize,
        is_written: segment.p_flags(endian) & elf::PF_W == elf::PF_W,
        is_executed: segment.p_flags(endian) & elf::PF_X == elf::PF_X,
    };
    let is_load = |segment: &&elf::ProgramHeader64<Endianness>| segment.p_type(endian) == elf::PT_LOAD;
    let loads = segments.iter().filter(is_load).map(load).collect();
    let dynamic = segments
        .iter()
        .find_map(|segment| segment.dynamic(endian, IMAGE).ok().flatten())?;
    let entry = |tag: elf::DynamicTag| {
        let found = dynamic.iter().find(|entry| entry.d_tag(endian) == tag)?;
        Some(found.d_val(endian) as usize)
    };
    // In the first part, which is mapped from the file's beginning on.
    let table = IMAGE.get(entry(elf::DT_RELA)?..)?.get(..entry(elf::DT_RELASZ)?)?;
    let table = object::slice_from_all_bytes::<elf::Rela64<Endianness>>(table).ok()?;
    // The others are of names that such a program has not.
    let relative = table
        .iter()
        .filter(|rela| rela.r_type(endian, false) == elf::R_X86_64_RELATIVE);
    let words = relative.map(|rela| (rela.r_offset.get(endian) as usize, rela.r_addend.get(endian) as usize));
    Some(inject::Library {
        path: CString::default(),
        loads,
        relocations: words.collect(),
        entry: header.e_entry(endian) as usize,
    })
}
