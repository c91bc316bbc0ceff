//! What UZSWAP_GROUP may name: any path, and any file. Opened as a group or refused; a file that is
//! too short is never mapped.
#![no_main]

use std::ffi::CString;
use std::fs;

use libfuzzer_sys::fuzz_target;
use uzswap_ctl::{Group, WORDS};
use uzswap_sys::shared::SharedWords;

fn open(path: &[u8]) -> Option<Group> {
    let path = CString::new(path).ok()?;
    let file = SharedWords::open(&path, WORDS).ok()?;
    Group::open(file.words())
}

fuzz_target!(|bytes: &[u8]| {
    // A path below an empty directory, so that nothing of this machine is opened for writing.
    let dir = std::env::temp_dir().join(format!("uzswap-fuzz-{}", std::process::id()));
    fs::create_dir_all(&dir).expect("a directory");
    let mut path = dir.as_os_str().as_encoded_bytes().to_vec();
    let escapes = bytes.windows(2).any(|pair| pair == b"..");
    path.push(b'/');
    path.extend_from_slice(bytes);
    assert!(escapes || open(&path).is_none(), "there is nothing");

    let file = dir.join("group");
    let short = bytes.first().is_some_and(|byte| byte % 2 == 0);
    fs::write(&file, bytes).expect("a file");
    let len = WORDS as u64 * 8 - u64::from(short);
    fs::File::options()
        .write(true)
        .open(&file)
        .and_then(|file| file.set_len(len))
        .expect("its length");
    let group = open(file.as_os_str().as_encoded_bytes());
    assert!(!short || group.is_none());
    if let Some(group) = group {
        group.current();
        group.pool();
    }
});
