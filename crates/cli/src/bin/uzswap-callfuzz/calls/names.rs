//! Files by name: in a directory that stays, and in those where names come and go.

use linux_raw_sys::general as nr;

use super::Call;
use crate::arena::Twin;
use crate::play::{Answer, Play, w};
use crate::things::Things;

const STAT: usize = 144;
const STATX: usize = 256;
const STATFS: usize = 120;
/// Where `struct stat` and `struct statx` have the time of the last access: reading changes it.
const ATIME: std::ops::Range<usize> = 72..88;
const ATIMEX: std::ops::Range<usize> = 64..80;
const AT_FDCWD: usize = usize::MAX - 99;
const PATH_MAX: usize = 4096;

pub(super) const CALLS: &[Call] = &[
    ("stat", 6, |p| {
        let (path, stat) = (staying(p), p.output_but(STAT, &[ATIME]));
        p.call(nr::__NR_stat, &[path, stat]);
    }),
    ("lstat", 4, |p| {
        let (path, stat) = (staying(p), p.output_but(STAT, &[ATIME]));
        p.call(nr::__NR_lstat, &[path, stat]);
    }),
    ("newfstatat", 6, |p| {
        let (at, path, stat) = (dir(p), staying(p), p.output_but(STAT, &[ATIME]));
        let flags = p.pick(&[0, 0x100, 0x1000]);
        p.call(nr::__NR_newfstatat, &[at, path, stat, w(flags)]);
        p.before(Things::stay);
    }),
    ("statx", 6, |p| {
        let (at, path, stat) = (dir(p), staying(p), p.output_but(STATX, &[ATIMEX]));
        let flags = p.pick(&[0, 0x100, 0x1000, 0x2000]);
        p.call(nr::__NR_statx, &[at, path, w(flags), w(0x7ff), stat]);
        p.before(Things::stay);
    }),
    ("statfs", 3, |p| {
        let (path, stat) = (staying(p), p.loose(STATFS));
        p.call(nr::__NR_statfs, &[path, stat]);
    }),
    ("access", 4, |p| {
        let path = staying(p);
        p.call(nr::__NR_access, &[path, w(4)]);
    }),
    ("faccessat", 3, |p| {
        let (at, path) = (dir(p), staying(p));
        p.call(nr::__NR_faccessat, &[at, path, w(4)]);
        p.before(Things::stay);
    }),
    ("faccessat2", 3, |p| {
        let (at, path) = (dir(p), staying(p));
        p.call(nr::__NR_faccessat2, &[at, path, w(4), w(0x200)]);
        p.before(Things::stay);
    }),
    ("readlink", 4, |p| {
        let (path, len) = (staying(p), p.below(200));
        let link = p.output(len);
        p.call(nr::__NR_readlink, &[path, link, w(len)]);
    }),
    ("readlinkat", 4, |p| {
        let (at, path, len) = (dir(p), staying(p), p.below(9000));
        let link = p.output(len);
        p.call(nr::__NR_readlinkat, &[at, path, link, w(len)]);
        p.before(Things::stay);
    }),
    ("getcwd", 4, |p| {
        let len = p.pick(&[0, 1, 10, 200, 4096, 9000]);
        let path = p.output(len);
        p.call(nr::__NR_getcwd, &[path, w(len)]);
        p.before(Things::stay);
    }),
    ("chdir", 2, |p| {
        let path = staying(p);
        p.call(nr::__NR_chdir, &[path]);
    }),
    ("open", 8, |p| {
        let (path, flags) = (coming(p), flags(p));
        p.call(nr::__NR_open, &[path, flags, w(0o600)]);
        p.before(Things::enter);
        p.answers(Answer::Descriptor);
    }),
    ("openat", 8, |p| {
        let (path, flags) = (coming(p), flags(p));
        p.call(nr::__NR_openat, &[p.things.places, path, flags, w(0o600)]);
        p.answers(Answer::Descriptor);
    }),
    ("openat2", 6, |p| {
        const HOW: usize = 24;
        let (path, [flags, _], size) = (coming(p), flags(p), p.pick(&[HOW, HOW, HOW, 8, HOW + 40, 5000]));
        let mut how = flags.to_le_bytes().to_vec();
        how.extend(
            (if flags & nr::O_CREAT as usize == 0 {
                0usize
            } else {
                0o600
            })
            .to_le_bytes(),
        );
        how.resize(size.max(HOW), 0);
        let how = p.input(&how);
        p.call(nr::__NR_openat2, &[p.things.places, path, how, w(size)]);
        p.answers(Answer::Descriptor);
    }),
    ("creat", 2, |p| {
        let path = coming(p);
        p.call(nr::__NR_creat, &[path, w(0o600)]);
        p.before(Things::enter);
        p.answers(Answer::Descriptor);
    }),
    ("mkdir", 3, |p| entered(p, nr::__NR_mkdir, w(0o700))),
    ("rmdir", 3, |p| entered(p, nr::__NR_rmdir, w(0))),
    ("unlink", 3, |p| entered(p, nr::__NR_unlink, w(0))),
    ("chmod", 3, |p| entered(p, nr::__NR_chmod, w(0o640))),
    ("truncate", 3, |p| entered(p, nr::__NR_truncate, w(1000))),
    ("mknod", 2, |p| {
        entered(p, nr::__NR_mknod, w(nr::S_IFSOCK as usize | 0o600))
    }),
    ("chown", 2, |p| entered(p, nr::__NR_chown, w(usize::MAX))),
    ("lchown", 2, |p| entered(p, nr::__NR_lchown, w(usize::MAX))),
    ("mkdirat", 3, |p| placed(p, nr::__NR_mkdirat, w(0o700))),
    ("unlinkat", 3, |p| {
        let flags = p.pick(&[0, 0x200]);
        placed(p, nr::__NR_unlinkat, w(flags));
    }),
    ("mknodat", 2, |p| {
        placed(p, nr::__NR_mknodat, w(nr::S_IFSOCK as usize | 0o600))
    }),
    ("fchmodat", 2, |p| placed(p, nr::__NR_fchmodat, w(0o640))),
    ("fchmodat2", 2, |p| placed(p, nr::__NR_fchmodat2, w(0o640))),
    ("fchownat", 2, |p| placed(p, nr::__NR_fchownat, w(usize::MAX))),
    ("rename", 3, |p| entered_twice(p, nr::__NR_rename)),
    ("link", 3, |p| entered_twice(p, nr::__NR_link)),
    ("symlink", 3, |p| entered_twice(p, nr::__NR_symlink)),
    ("renameat", 2, |p| placed_twice(p, nr::__NR_renameat)),
    ("renameat2", 2, |p| placed_twice(p, nr::__NR_renameat2)),
    ("linkat", 2, |p| placed_twice(p, nr::__NR_linkat)),
    ("symlinkat", 2, |p| {
        let (to, path) = (coming(p), coming(p));
        p.call(nr::__NR_symlinkat, &[to, p.things.places, path]);
    }),
    ("utime", 2, |p| timed(p, nr::__NR_utime, 16)),
    ("utimes", 2, |p| timed(p, nr::__NR_utimes, 32)),
    ("futimesat", 2, |p| timed_at(p, nr::__NR_futimesat)),
    ("utimensat", 3, |p| timed_at(p, nr::__NR_utimensat)),
    ("memfd_create", 2, |p| {
        let name = p.text("cold");
        p.call(nr::__NR_memfd_create, &[name, w(1)]);
        p.answers(Answer::Descriptor);
    }),
    ("inotify_add_watch", 2, |p| {
        let path = p.text(".");
        // IN_MODIFY, IN_CREATE, IN_DELETE.
        p.call(nr::__NR_inotify_add_watch, &[p.things.watches, path, w(0x302)]);
        p.before(Things::enter);
    }),
    ("name_to_handle_at", 3, |p| {
        let (path, room) = (staying(p), p.pick(&[0, 4, 16, 128]));
        let mut handle = (room as u32).to_le_bytes().to_vec();
        handle.resize(8 + room, 0);
        let (handle, mount) = (p.input(&handle), p.output(8));
        let flags = p.pick(&[0, 0x400, 0x1]);
        p.call(
            nr::__NR_name_to_handle_at,
            &[w(AT_FDCWD), path, handle, mount, w(flags)],
        );
        p.before(Things::stay);
    }),
];

fn dir(p: &mut Play) -> Twin {
    let dirs = [w(AT_FDCWD), w(p.things.fixed), w(p.things.fixed), w(usize::MAX)];
    p.pick(&dirs)
}

/// A name that is the same for both.
pub(super) fn staying(p: &mut Play) -> Twin {
    let base = p.things.path("fixed");
    let name = match p.below(12) {
        0 => String::new(),
        1 => "/".into(),
        2 => "/bin/sh".into(),
        3 => format!("{base}/none"),
        4 => format!("{base}/link/none"),
        5 => base,
        6 => format!("{base}/{}file", "./".repeat(p.below(1900))),
        7 => "x".repeat(PATH_MAX - 2 + p.below(5)),
        8..=9 => format!("{base}/link"),
        _ => format!("{base}/file"),
    };
    p.text(&name)
}

/// A name that may be there, in the directory of each.
pub(super) fn coming(p: &mut Play) -> Twin {
    let names = ["f0", "f1", "f2", "f3", "d0", "d1", "d0/f", "d1/f", "l0", "l1"];
    let name = p.pick(&names);
    let name = if p.one_in(20) {
        format!("{}{name}", "./".repeat(p.below(2040)))
    } else {
        name.to_owned()
    };
    p.text(&name)
}

fn flags(p: &mut Play) -> Twin {
    let flags = [
        nr::O_RDONLY,
        nr::O_RDWR | nr::O_CREAT,
        nr::O_CREAT | nr::O_EXCL,
        nr::O_WRONLY | nr::O_TRUNC,
    ];
    w(p.pick(&flags) as usize | nr::O_NONBLOCK as usize)
}

/// A call with a name, made in the directory.
fn entered(p: &mut Play, number: u32, last: Twin) {
    let path = changed(p);
    p.call(number, &[path, last, last]);
    p.before(Things::enter);
}

/// The same, of which the directory is the first argument.
fn placed(p: &mut Play, number: u32, last: Twin) {
    let path = changed(p);
    let most = if last == w(usize::MAX) { last } else { w(0) };
    p.call(number, &[p.things.places, path, last, most]);
}

/// The name of what may be changed.
pub(super) fn changed(p: &mut Play) -> Twin {
    let name = p.pick(&["f0", "f1", "f2", "f3", "d0", "d1", "d0/f", "d1/f", "l0", "l1", "none"]);
    p.text(name)
}

fn entered_twice(p: &mut Play, number: u32) {
    let (a, b) = (changed(p), changed(p));
    p.call(number, &[a, b]);
    p.before(Things::enter);
}

fn placed_twice(p: &mut Play, number: u32) {
    let (a, b) = (changed(p), changed(p));
    p.call(number, &[p.things.places, a, p.things.places, b, w(0)]);
}

fn times(p: &mut Play, len: usize) -> Twin {
    if p.one_in(4) { w(0) } else { p.input(&vec![1; len]) }
}

fn timed(p: &mut Play, number: u32, len: usize) {
    let (path, times) = (changed(p), times(p, len));
    p.call(number, &[path, times]);
    p.before(Things::enter);
}

fn timed_at(p: &mut Play, number: u32) {
    let (path, times) = (changed(p), times(p, 32));
    p.call(number, &[p.things.places, path, times, w(0)]);
}
