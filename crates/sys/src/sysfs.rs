//! Small files of the kernel's, and the names in its directories.

use alloc::string::String;
use alloc::vec::Vec;
use core::mem::MaybeUninit;

use rustix::fs::{self, Mode, OFlags, RawDir};
use rustix::io;

/// Files longer than this are no attributes.
const LONGEST: usize = 1 << 16;

/// The text of a file, if it can be read and is one.
pub fn read(path: &str) -> Option<String> {
    let fd = fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let mut bytes = Vec::new();
    let mut piece = [0; 512];
    loop {
        match io::read(&fd, &mut piece[..]) {
            Ok(0) => return String::from_utf8(bytes).ok(),
            Ok(n) if bytes.len() + n <= LONGEST => bytes.extend_from_slice(&piece[..n]),
            Err(io::Errno::INTR) => {}
            _ => return None,
        }
    }
}

/// The names in a directory, in any order; none if it does not exist.
pub fn list(path: &str) -> Vec<String> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(fd) = fs::open(path, flags, Mode::empty()) else {
        return Vec::new();
    };
    let mut room = [MaybeUninit::uninit(); 2048];
    let mut entries = RawDir::new(fd, &mut room);
    let mut names = Vec::new();
    while let Some(Ok(entry)) = entries.next() {
        match entry.file_name().to_str() {
            Ok("." | "..") | Err(_) => {}
            Ok(name) => names.push(name.into()),
        }
    }
    names
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn files_and_directories_of_the_kernel() {
        assert!(read("/proc/self/comm").unwrap().ends_with('\n'));
        assert_eq!((read("/proc/none"), read("/proc")), (None, None));
        let names = list("/proc/self");
        assert!(names.iter().any(|name| name == "comm") && names.iter().all(|name| name != "."));
        assert!(list("/none").is_empty() && list("/proc/self/comm").is_empty());
    }
}
