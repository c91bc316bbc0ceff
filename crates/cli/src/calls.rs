//! Noting where libc and the loader make system calls, for all processes whose calls are guarded:
//! to look takes longer than to start a small program (`uzswap_guard::notes`).

use std::fs;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use object::Endianness;
use object::elf::{self, FileHeader64};
use object::read::elf::{FileHeader, ProgramHeader};
use uzswap_guard::frames::Frames;
use uzswap_guard::{notes, site};

/// What is looked at, by the end of its name: this process has them as most do.
const IMAGES: [&str; 2] = ["/libc.so.6", "/ld-linux-x86-64.so.2"];
/// Bytes that a file's headers and its build id are in.
const HEAD: u64 = 4096;

/// Note what is not noted yet beside the file of `group`. What cannot be noted is looked for by
/// each process.
pub(crate) fn note(group: &Path) {
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let mut paths: Vec<_> = maps.lines().filter_map(|line| Some(&line[line.find('/')?..])).collect();
    paths.dedup();
    for path in paths
        .iter()
        .filter(|path| IMAGES.iter().any(|name| path.ends_with(name)))
    {
        let _ = note_image(Path::new(path), group);
    }
}

fn note_image(path: &Path, group: &Path) -> Option<()> {
    let mut file = fs::File::open(path).ok()?;
    let mut head = Vec::new();
    Read::by_ref(&mut file).take(HEAD).read_to_end(&mut head).ok()?;
    let id = build_id(&head)?;
    let place = PathBuf::from(std::ffi::OsString::from_vec(uzswap_ctl::notes_path(
        group.as_os_str().as_bytes(),
        &id,
    )));
    // One of another version, or half of one, is made anew.
    if fs::read(&place).is_ok_and(|note| notes::is_whole(&note)) {
        return Some(());
    }
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(0)).ok()?;
    file.read_to_end(&mut bytes).ok()?;
    write(&place, &note_of(&bytes)?)
}

fn build_id(head: &[u8]) -> Option<Vec<u8>> {
    let header = FileHeader64::<Endianness>::parse(head).ok()?;
    let endian = header.endian().ok()?;
    let segments = header.program_headers(endian, head).ok()?;
    let mut notes = segments
        .iter()
        .filter_map(|segment| segment.notes(endian, head).ok().flatten());
    notes.find_map(|mut notes| {
        while let Ok(Some(note)) = notes.next() {
            if note.name() == elf::ELF_NOTE_GNU && note.n_type(endian) == elf::NT_GNU_BUILD_ID {
                return Some(note.desc().to_vec());
            }
        }
        None
    })
}

/// What there is to note of an image in a file.
fn note_of(bytes: &[u8]) -> Option<Vec<u8>> {
    let header = FileHeader64::<Endianness>::parse(bytes).ok()?;
    let endian = header.endian().ok()?;
    let segments = header.program_headers(endian, bytes).ok()?;
    let is_code = |segment: &&elf::ProgramHeader64<Endianness>| {
        segment.p_type(endian) == elf::PT_LOAD && segment.p_flags(endian) & elf::PF_X == elf::PF_X
    };
    let mut code = segments.iter().filter(is_code);
    let (text, None) = (code.next()?, code.next()) else {
        return None;
    };
    let table = segments
        .iter()
        .find(|segment| segment.p_type(endian) == elf::PT_GNU_EH_FRAME)?;
    let at = text.p_vaddr(endian) as usize;
    let text = text.data(endian, bytes).ok()?;
    let frames = Frames::new(table.data(endian, bytes).ok()?, table.p_vaddr(endian) as usize)?;
    let function_of = |offset: usize| {
        let found = frames.function(at + offset)?;
        Some(found.start.checked_sub(at)?..found.end - at)
    };
    notes::write(text, &site::find(text, function_of).found, function_of)
}

/// Others may be at it, too.
fn write(place: &Path, note: &[u8]) -> Option<()> {
    let temporary = place.with_extension(format!("new-{}", std::process::id()));
    let _ = fs::remove_file(&temporary);
    let mut options = fs::OpenOptions::new();
    let written = options
        .write(true)
        .create_new(true)
        .mode(0o644)
        .open(&temporary)
        .and_then(|mut file| file.write_all(note))
        .and_then(|()| fs::rename(&temporary, place));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written.ok()
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn our_own_libc_is_noted() {
        let dir = std::env::temp_dir().join(format!("uzswap-calls-{}", std::process::id()));
        fs::create_dir(&dir).unwrap();
        let names = || {
            let mut names: Vec<_> = fs::read_dir(&dir)
                .unwrap()
                .map(|entry| entry.unwrap().file_name())
                .collect();
            names.sort();
            names
        };
        note(&dir.join("1.group"));
        let noted = names();
        assert_eq!(noted.len(), IMAGES.len(), "{noted:?}");
        note(&dir.join("2.group"));
        assert_eq!(names(), noted);
        fs::remove_dir_all(dir).unwrap();
    }
}
