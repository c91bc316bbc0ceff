//! How the processes of a group find its files.

use alloc::vec::Vec;

/// The environment variable that names the group file.
pub const ENV_GROUP: &str = "UZSWAP_GROUP";
/// As [`ENV_GROUP`], behind the environment of a program that lacks that or the library: the
/// launcher puts it there, with an LD_PRELOAD behind it, and the library takes both out again. Such
/// a program runs on where it cannot be managed, and is charged.
pub const ENV_GIVEN_GROUP: &str = "UZSWAP_GIVEN_GROUP";
/// Set: what cannot be managed runs on ([`Tunable::AllowUnmanaged`](crate::Tunable)), also where
/// the group file cannot be read.
pub const ENV_ALLOW_UNMANAGED: &str = "UZSWAP_ALLOW_UNMANAGED";

/// Set: the file, made by whoever records ([`record`](crate::record)), that agents append to.
pub const ENV_RECORD: &str = "UZSWAP_RECORD";

/// The end of the name that programs load the library by.
///
/// AddressSanitizer wants its own library to be the first that is loaded, and goes by the name:
/// what comes before it could define functions in its place. Ours defines none. (What is mapped in
/// the end must not have the name: statically linked, it wants no such library anywhere.)
pub const LIBRARY_SUFFIX: &[u8] = b".libasan.so";

/// The end of a group file's name.
pub const GROUP_SUFFIX: &[u8] = b".group";
/// That of the launcher's socket, in its place.
pub const KEEPER_SUFFIX: &[u8] = b".keep";
/// That of the mover's socket.
pub const MOVER_SUFFIX: &[u8] = b".move";

/// Where it is noted what calls the image of this build makes, beside the group of this file (a
/// path).
pub fn notes_path(group: &[u8], build_id: &[u8]) -> Vec<u8> {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let dir = group.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
    let digits = build_id
        .iter()
        .flat_map(|byte| [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    let mut path = [&group[..dir], b"calls-"].concat();
    path.extend(digits);
    path
}

/// Where the launcher of the group of this file (a path) keeps descriptors for its processes
/// (`uzswap_sys::keep`).
pub fn keeper_path(group: &[u8]) -> Vec<u8> {
    beside(group, KEEPER_SUFFIX)
}

/// Where the mover of the group of this file (a path) is told of swap files
/// ([`remote`](crate::remote)).
pub fn mover_path(group: &[u8]) -> Vec<u8> {
    beside(group, MOVER_SUFFIX)
}

fn beside(group: &[u8], suffix: &[u8]) -> Vec<u8> {
    let stem = group.strip_suffix(GROUP_SUFFIX).unwrap_or(group);
    [stem, suffix].concat()
}
