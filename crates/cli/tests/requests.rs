//! ioctl(2): memory that drivers reach by addresses inside of what they are given, and that of
//! virtual machines.

mod common;

use std::path::Path;
use std::process::Command;

use common::place::Place;
use common::{can_manage, compile, run};

#[test]
fn what_a_request_names_is_there() {
    if !can_manage() {
        return;
    }
    let place = Place::new("requesting");
    let program = place.program("requests");
    for options in [
        &["--memory-max", "24M"][..],
        &["--memory-max", "24M", "--faults", "thread"],
    ] {
        place.is_as_unmanaged(options, &[&program]);
    }
    let alone = Command::new(&program).output().expect("it starts");
    for options in [&["--memory-max", "24M"][..], &["--memory-max", "24M", "--guard", "on"]] {
        let run = run("requests", options, &[&program]);
        assert_eq!(run.stdout(), String::from_utf8_lossy(&alone.stdout), "{options:?}");
        assert!(run.count("zswpout") > 1_000, "{:#}", run.counters);
    }
}

/// However pages leave: moved, copied, or where calls are guarded.
#[test]
fn what_a_driver_pins_stays() {
    if !can_manage() {
        return;
    }
    let place = Place::new("pinning");
    let program = place.program("pinned");
    place.is_as_unmanaged(&["--memory-max", "32M"], &[&program]);
    let alone = Command::new(&program).output().expect("it starts");
    for options in [&["--guard", "auto"][..], &["--guard", "on"], &["--isolate", "copy"]] {
        let options = [&["--memory-max", "32M"], options].concat();
        let run = run("pinned", &options, &[&program]);
        assert_eq!(run.stdout(), String::from_utf8_lossy(&alone.stdout), "{options:?}");
        assert!(run.count("zswpout") > 1_000, "{:#}", run.counters);
    }
}

/// Where calls are guarded nobody could serve its faults, so all of it stays.
#[test]
fn a_virtual_machine_has_its_memory() {
    if !can_manage() {
        return;
    }
    let program = compile("virtual");
    let alone = Command::new(&program).output().expect("it starts");
    if alone.status.code() == Some(77) || !Path::new("/dev/kvm").exists() {
        eprintln!("left out, there can be no virtual machine");
        return;
    }
    assert!(alone.status.success(), "{alone:?}");
    let name = program.to_str().expect("a path of ASCII");
    for options in [&["--memory-max", "24M"][..], &["--memory-max", "24M", "--guard", "on"]] {
        let run = run("virtual", options, &[name]);
        assert_eq!(run.stdout(), String::from_utf8_lossy(&alone.stdout), "{options:?}");
        assert!(run.count("zswpout") > 1_000, "{:#}", run.counters);
    }
    let _ = std::fs::remove_file(program);
}
