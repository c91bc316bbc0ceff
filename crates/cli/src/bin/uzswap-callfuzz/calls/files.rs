//! Files that are open, and what is kept beside their bytes.

use linux_raw_sys::general as nr;

use super::Call;
use super::bytes::{file, source};
use super::names::{changed, staying};
use crate::arena::Twin;
use crate::play::{Play, w};
use crate::things::Things;

/// Of `struct flock`, `fiemap`, one of its extents, and `termios`.
const LOCK: usize = 32;
const MAP: usize = 32;
const MAP_EXTENT: usize = 56;
const TERMIOS: usize = 36;
const STAT: usize = 144;

pub(super) const CALLS: &[Call] = &[
    ("fstat", 4, |p| {
        let stat = p.output_but(STAT, std::slice::from_ref(&(72..88)));
        let on = if p.one_in(10) { w(usize::MAX) } else { w(p.things.fixed) };
        p.call(nr::__NR_fstat, &[on, stat]);
    }),
    ("fstatfs", 2, |p| {
        let stat = p.loose(120);
        p.call(nr::__NR_fstatfs, &[w(p.things.fixed), stat]);
    }),
    ("fcntl_lock", 6, |p| {
        let file = file(p);
        // F_GETLK, F_SETLK, F_OFD_GETLK, F_OFD_SETLK.
        let what = p.pick(&[5, 6, 36, 37]);
        let mut lock = vec![0; LOCK];
        lock[0] = p.below(3) as u8;
        lock[9] = p.below(200) as u8;
        lock[17] = p.below(200) as u8;
        let lock = p.input(&lock);
        p.call(nr::__NR_fcntl, &[file, w(what), lock]);
    }),
    ("fcntl_hint", 2, |p| {
        let (file, what) = (file(p), p.pick(&[1035, 1036, 16, 15]));
        let hint = p.input(&1u64.to_le_bytes());
        p.call(nr::__NR_fcntl, &[file, w(what), hint]);
    }),
    // FIONREAD, FIONBIO, TIOCGWINSZ, TCGETS, FIGETBSZ, FS_IOC_GETFLAGS.
    ("ioctl", 12, |p| {
        let on = source(p);
        match p.below(6) {
            0 | 1 => ioctl(p, on, 0x541b, 4),
            2 => ioctl(p, on, 2, 4),
            3 => ioctl(p, on, 0x8008_6601, 8),
            4 => {
                let yes = p.input(&1u32.to_le_bytes());
                p.call(nr::__NR_ioctl, &[on, w(0x5421), yes]);
            }
            _ => ioctl(p, on, 0x5413, 8),
        }
    }),
    ("ioctl_terminal", 4, |p| {
        let on = p.things.terminals();
        match p.below(4) {
            // TIOCGWINSZ, TIOCSWINSZ, TCGETS, TCGETS2.
            0 => ioctl(p, on, 0x5413, 8),
            1 => {
                let size = p.input(&[1; 8]);
                p.call(nr::__NR_ioctl, &[on, w(0x5414), size]);
            }
            2 => ioctl(p, on, 0x5401, TERMIOS),
            _ => ioctl(p, on, 0x802c_542a, 44),
        }
    }),
    // FS_IOC_FIEMAP: what is beside what the request says.
    ("ioctl_fiemap", 2, |p| {
        let count = p.below(200);
        let mut map = vec![0; MAP + count * MAP_EXTENT];
        map[8..16].fill(0x7f);
        map[24..28].copy_from_slice(&(count as u32).to_le_bytes());
        let map = p.input(&map);
        p.call(nr::__NR_ioctl, &[w(p.things.fixed_file), w(0xc020_660b), map]);
    }),
    ("cachestat", 2, |p| {
        let (range, stat) = (p.input(&[0; 16]), p.loose(40));
        p.call(nr::__NR_cachestat, &[w(p.things.fixed_file), range, stat, w(0)]);
    }),
    ("setxattr", 3, |p| set_by_name(p, nr::__NR_setxattr)),
    ("lsetxattr", 2, |p| set_by_name(p, nr::__NR_lsetxattr)),
    ("fsetxattr", 3, |p| {
        let (file, [name, value, len]) = (file(p), attribute(p));
        p.call(nr::__NR_fsetxattr, &[file, name, value, len, w(0)]);
    }),
    ("getxattr", 3, |p| get_by_name(p, nr::__NR_getxattr)),
    ("lgetxattr", 2, |p| get_by_name(p, nr::__NR_lgetxattr)),
    ("fgetxattr", 3, |p| {
        let (file, name, len) = (file(p), attribute_name(p), p.below(300));
        let value = p.output(len);
        p.call(nr::__NR_fgetxattr, &[file, name, value, w(len)]);
    }),
    ("listxattr", 3, |p| list_by_name(p, nr::__NR_listxattr)),
    ("llistxattr", 2, |p| list_by_name(p, nr::__NR_llistxattr)),
    ("flistxattr", 3, |p| {
        let (file, len) = (file(p), p.below(300));
        let names = p.output(len);
        p.call(nr::__NR_flistxattr, &[file, names, w(len)]);
    }),
    ("removexattr", 2, |p| remove_by_name(p, nr::__NR_removexattr)),
    ("lremovexattr", 2, |p| remove_by_name(p, nr::__NR_lremovexattr)),
    ("fremovexattr", 2, |p| {
        let (file, name) = (file(p), attribute_name(p));
        p.call(nr::__NR_fremovexattr, &[file, name]);
    }),
    ("setxattrat", 3, |p| {
        let (path, [name, value, len]) = (changed(p), attribute(p));
        let args = p.words(&[value, len]);
        p.call(nr::__NR_setxattrat, &[p.things.places, path, w(0), name, args, w(16)]);
    }),
    ("getxattrat", 3, |p| {
        let (path, name, len) = (changed(p), attribute_name(p), p.below(300));
        let value = p.output(len);
        let args = p.words(&[value, w(len)]);
        p.call(nr::__NR_getxattrat, &[p.things.places, path, w(0), name, args, w(16)]);
    }),
    ("listxattrat", 2, |p| {
        let (path, len) = (changed(p), p.below(300));
        let names = p.output(len);
        p.call(nr::__NR_listxattrat, &[p.things.places, path, w(0), names, w(len)]);
    }),
    ("removexattrat", 2, |p| {
        let (path, name) = (changed(p), attribute_name(p));
        p.call(nr::__NR_removexattrat, &[p.things.places, path, w(0), name]);
    }),
    ("file_getattr", 2, |p| {
        let (path, len) = (staying(p), p.pick(&[24, 24, 16, 60]));
        let attributes = p.output(len);
        p.call(
            nr::__NR_file_getattr,
            &[w(p.things.fixed), path, attributes, w(len), w(0)],
        );
    }),
    ("file_setattr", 2, |p| {
        let (path, attributes) = (changed(p), p.input(&[0; 24]));
        p.call(nr::__NR_file_setattr, &[p.things.places, path, attributes, w(24), w(0)]);
    }),
    ("statmount", 2, |p| {
        let (request, len) = (mount_request(p), p.below(2000));
        let answer = p.output(len);
        p.call(nr::__NR_statmount, &[request, answer, w(len), w(0)]);
    }),
    ("listmount", 2, |p| {
        let (request, count) = (mount_request(p), p.below(40));
        let answer = p.output(count * 8);
        p.call(nr::__NR_listmount, &[request, answer, w(count), w(0)]);
    }),
];

fn ioctl(p: &mut Play, on: Twin, request: usize, len: usize) {
    let answer = p.output(len);
    p.call(nr::__NR_ioctl, &[on, w(request), answer]);
}

/// A `struct mnt_id_req` of the root: LSMT_ROOT lists all.
fn mount_request(p: &mut Play) -> Twin {
    let (size, of) = (p.pick(&[24u32, 24, 32]), p.pick(&[usize::MAX, 1, 30]));
    let mut request = size.to_le_bytes().to_vec();
    request.extend([0; 4]);
    request.extend(of.to_le_bytes());
    // STATMOUNT_SB_BASIC, MNT_BASIC, FS_TYPE; or where a list begins.
    request.extend(p.pick(&[0u64, 0x23]).to_le_bytes());
    request.extend([0; 8]);
    p.input(&request)
}

fn attribute_name(p: &mut Play) -> Twin {
    let name = p.pick(&["user.a", "user.b", "user.c", "system.none", "user.", ""]);
    if p.one_in(20) {
        let name = format!("user.{}", "x".repeat(240 + p.below(20)));
        p.text(&name)
    } else {
        p.text(name)
    }
}

/// A name, a value and its length.
fn attribute(p: &mut Play) -> [Twin; 3] {
    let (name, len) = (attribute_name(p), p.below(200));
    [name, p.output(len), w(len)]
}

fn set_by_name(p: &mut Play, number: u32) {
    let (path, [name, value, len]) = (changed(p), attribute(p));
    p.call(number, &[path, name, value, len, w(0)]);
    p.before(Things::enter);
}

fn get_by_name(p: &mut Play, number: u32) {
    let (path, name, len) = (changed(p), attribute_name(p), p.below(300));
    let value = p.output(len);
    p.call(number, &[path, name, value, w(len)]);
    p.before(Things::enter);
}

fn list_by_name(p: &mut Play, number: u32) {
    let (path, len) = (changed(p), p.below(300));
    let names = p.output(len);
    p.call(number, &[path, names, w(len)]);
    p.before(Things::enter);
}

fn remove_by_name(p: &mut Play, number: u32) {
    let (path, name) = (changed(p), attribute_name(p));
    p.call(number, &[path, name]);
    p.before(Things::enter);
}
