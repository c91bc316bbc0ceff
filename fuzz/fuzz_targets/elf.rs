//! Any bytes as the executable that is to be run: judged, whatever they are.
#![no_main]
#![allow(dead_code, reason = "a module of the launcher, of which a part is under test")]

use std::path::Path;

use elf::{Found, inspect_elf};
use libfuzzer_sys::fuzz_target;

#[path = "../../crates/cli/src/elf.rs"]
mod elf;

fuzz_target!(|bytes: &[u8]| {
    let read = |bytes: &[u8], at: u64, piece: &mut [u8]| {
        let rest = usize::try_from(at).ok().and_then(|at| bytes.get(at..)).unwrap_or_default();
        let len = piece.len().min(rest.len());
        piece[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    };
    let judge = |bytes: &[u8]| match inspect_elf(|at, piece| read(bytes, at, piece), Path::new("it")) {
        Found::Unmanageable(line) => assert!(line.starts_with("it is ")),
        Found::Manageable | Found::LoadsNothing => {}
        Found::Missing | Found::NotExecutable(_) => panic!("it is there"),
    };
    judge(bytes);
    // Most bytes are no ELF header: behind one that is, they are program headers.
    let mut file = vec![0; 64];
    file[..6].copy_from_slice(b"\x7fELF\x02\x01");
    file[18] = 62;
    file.extend_from_slice(bytes);
    let at = |i: usize| bytes.get(i).copied().unwrap_or_default();
    (file[32], file[33], file[54], file[56], file[57]) = (64 + at(0) % 64, at(1), 56, at(2), at(3) % 2);
    judge(&file);
});
