//! What a region promises beside its contents.

mod common;

use std::io::{ErrorKind, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use common::{child, has_userfaultfd, succeeds, task};
use uzswap_region::{Error, Region, Settings, limit, stats};
use uzswap_sys::testing::{fork_and, lock, reap};
use uzswap_sys::thread;

const PAGE: usize = 4096;
const MIB: usize = 1 << 20;
const SIGSEGV: u8 = 11;
const NOBODY: u32 = 65534;

/// Run `body` in a process of its own, if this machine has what it takes.
#[track_caller]
fn alone(name: &str, body: impl Fn()) {
    match task() {
        Some(_) => body(),
        None if has_userfaultfd() => drop(succeeds(child(name, "alone"))),
        None => {}
    }
}

fn stat(name: &str) -> u64 {
    stats().get(name).unwrap_or_else(|| panic!("no figure {name}"))
}

/// Page `n` of a pattern: none is as another, and all compress well.
fn pattern(n: usize) -> [u8; PAGE] {
    let mut page = [(n % 251) as u8; PAGE];
    page[..256].copy_from_slice(&core::array::from_fn::<u8, 256, _>(|i| (i * (n + 1) / 7) as u8));
    page
}

fn fill(bytes: &mut [u8]) {
    let pages = bytes.chunks_exact_mut(PAGE).enumerate();
    pages.for_each(|(n, page)| page.copy_from_slice(&pattern(n)));
}

fn is_filled(bytes: &[u8]) -> bool {
    let mut pages = bytes.chunks_exact(PAGE).enumerate();
    pages.all(|(n, page)| *page == pattern(n))
}

fn is_empty(bytes: &[u8]) -> bool {
    bytes.chunks(PAGE).all(|page| page == &[0; PAGE][..page.len()])
}

/// A region most of which is cold.
fn cold(len: usize) -> Region {
    limit(4 << 20).unwrap();
    let mut region = Region::new(len).unwrap();
    fill(&mut region);
    assert!(stat("pgsteal_anon") > 0);
    region
}

#[test]
fn mistakes_are_named_with_the_rule() {
    alone("mistakes_are_named_with_the_rule", || {
        let line = |result: Result<(), Error>| result.unwrap_err().to_string();
        assert_eq!(line(limit(1)), "limit of 1 bytes: must be at least 4M");
        let nowhere = Settings::default().limit(8 << 20).swap("/nowhere/at/all");
        assert_eq!(
            line(nowhere.start()),
            "the swap file /nowhere/at/all: No such file or directory (os error 2)"
        );
        limit(8 << 20).unwrap();
        assert!(line(Settings::default().start()).starts_with("settings: they are chosen before"));
        let of = |len| Region::new(len).map(drop);
        assert_eq!(
            line(of(0)),
            format!(
                "region of 0 bytes: must be from 1 to {}",
                isize::MAX as usize / PAGE * PAGE
            )
        );
        assert!(line(of(usize::MAX)).starts_with("region of 18446744073709551615 bytes"));
        assert!(line(of(1 << 60)).starts_with("address space for a region of 1152921504606846976 bytes: "));
        let mut region = Region::new(16 * MIB).unwrap();
        let most = "must be in order, and at most 16777216";
        assert_eq!(
            line(region.pin(5..=16 * MIB).map(drop)),
            format!("bytes 5 to 16777217 of a region: {most}")
        );
        #[expect(clippy::reversed_empty_ranges, reason = "a mistake")]
        let backwards = region.discard(9..3);
        assert_eq!(line(backwards), format!("bytes 9 to 3 of a region: {most}"));
        let _pinned = region.pin(..MIB).unwrap();
        let too_much = line(region.pin(..4 * MIB).map(drop));
        assert_eq!(
            too_much,
            "4194304 bytes to be pinned: with the 1048576 that are, must be at most half of the limit of 8388608 bytes"
        );
    });
}

#[test]
fn a_lower_limit_holds_at_once() {
    alone("a_lower_limit_holds_at_once", || {
        let mut region = Region::new(32 * MIB).unwrap();
        fill(&mut region);
        assert!(stat("memory.current") >= 32 * MIB as u64 && stat("pgsteal_anon") == 0);
        limit(8 << 20).unwrap();
        while stat("memory.current") > 8 << 20 {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        assert!(is_filled(&region));
        assert!(stat("memory.current") <= 8 << 20);
    });
}

#[test]
fn what_is_dropped_leaves_nothing_behind() {
    alone("what_is_dropped_leaves_nothing_behind", || {
        let swap = std::env::temp_dir();
        Settings::default().limit(4 << 20).swap(swap).start().unwrap();
        std::thread::scope(|scope| {
            for thread in 0..3 {
                scope.spawn(move || {
                    for round in 0..5 {
                        let mut region = Region::new((1 + (thread + round) % 4) * MIB).unwrap();
                        assert!(is_empty(&region), "a new region is not empty");
                        fill(&mut region);
                        assert!(is_filled(&region));
                    }
                });
            }
        });
        // Whoever was storing pages of one that is dropped sees that when it has stored them.
        while stat("stored_pages") != 0 {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        for name in ["regions", "region_bytes", "resident", "swapped"] {
            assert_eq!(stat(name), 0, "{name}");
        }
    });
}

#[test]
fn what_is_discarded_is_zeros() {
    alone("what_is_discarded_is_zeros", || {
        let mut region = cold(8 * MIB);
        region.discard(3 * MIB + 1..7 * MIB - 1).unwrap();
        let (first, last) = (3 * MIB + 4096, 7 * MIB - 4096);
        assert!(is_empty(&region[first..last]));
        assert!(is_filled(&region[..first]));
        let behind = region[last..].chunks(PAGE).zip(last / PAGE..);
        behind.for_each(|(page, n)| assert_eq!(page, pattern(n)));
    });
}

#[test]
fn what_cannot_be_discarded_stays() {
    alone("what_cannot_be_discarded_stays", || {
        let mut region = cold(8 * MIB);
        assert_eq!(region[..PAGE], pattern(0));
        lock(&region[..PAGE]).unwrap();
        let refused = region.discard(..).unwrap_err().to_string();
        assert!(
            refused.starts_with("discarding a part of a region: Invalid argument"),
            "{refused}"
        );
        assert!(is_filled(&region));
    });
}

#[test]
fn the_settings_of_one_thread_hold() {
    alone("the_settings_of_one_thread_hold", || {
        let start = |mib: u64| {
            Settings::default()
                .limit(mib << 20)
                .start()
                .is_ok()
                .then_some(mib << 20)
        };
        let begun: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (4..8).map(|mib| scope.spawn(move || start(mib))).collect();
            let all = threads.into_iter().map(|thread| thread.join().unwrap());
            all.flatten().collect()
        });
        assert_eq!(begun, [stat("memory.max")]);
    });
}

#[test]
fn a_child_that_touches_a_region_ends() {
    alone("a_child_that_touches_a_region_ends", || {
        let region = cold(8 * MIB);
        let [hot, cold] = [8 * MIB - 1, 0].map(|at| {
            let child = fork_and(|| region[at]).unwrap();
            reap(child, true)
        });
        assert_eq!([hot, cold], [Some(128 + SIGSEGV); 2]);
        assert!(is_filled(&region));
    });
}

#[test]
fn a_child_has_nothing_else_where_its_parent_has_a_region() {
    alone("a_child_has_nothing_else_where_its_parent_has_a_region", || {
        let region = cold(8 * MIB);
        let child = fork_and(|| {
            // Left to the kernel, one of them would lie there.
            let own: Vec<_> = (1..=16).map(|mib| vec![9u8; mib * MIB]).collect();
            std::hint::black_box(&own);
            region[MIB]
        });
        assert_eq!(reap(child.unwrap(), true), Some(128 + SIGSEGV));
        assert!(is_filled(&region));
    });
}

#[test]
fn a_child_can_neither_discard_nor_pin_what_its_parent_has() {
    alone("a_child_can_neither_discard_nor_pin_what_its_parent_has", || {
        let mut region = cold(8 * MIB);
        // Pages come and go meanwhile: some child has a lock that is held.
        let is_over = AtomicBool::new(false);
        let other = cold(8 * MIB);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    assert!(is_filled(&other));
                }
            });
            for _ in 0..20 {
                let child = fork_and(|| {
                    let refused = [region.discard(..).unwrap_err(), region.pin(..MIB).unwrap_err()];
                    u8::from(
                        !refused
                            .iter()
                            .all(|error| error.to_string().contains("the one that forked it")),
                    )
                });
                assert_eq!(reap(child.unwrap(), true), Some(0));
            }
            is_over.store(true, Ordering::Relaxed);
        });
        assert!(is_filled(&region));
    });
}

#[test]
fn a_child_has_regions_of_its_own() {
    alone("a_child_has_regions_of_its_own", || {
        let (first, last) = (cold(8 * MIB), Region::new(MIB).unwrap());
        let child = fork_and(move || {
            // What the parent had there is not unmapped, as something else may be by now.
            drop(first);
            limit(5 << 20).unwrap();
            let mut own = Region::new(8 * MIB).unwrap();
            fill(&mut own);
            drop(last);
            assert_eq!(stat("regions"), 1);
            assert!(is_filled(&own));
            u8::from(stat("memory.max") != 5 << 20 || stat("pgsteal_anon") == 0)
        });
        assert_eq!(reap(child.unwrap(), true), Some(0));
        assert_eq!(stat("memory.max"), 4 << 20);
    });
}

#[test]
fn who_closes_all_descriptors_closes_none_of_ours() {
    alone("who_closes_all_descriptors_closes_none_of_ours", || {
        let mut region = cold(8 * MIB);
        let child = fork_and(|| {
            limit(4 << 20).unwrap();
            let mut region = Region::new(8 * MIB).unwrap();
            thread::close_all_descriptors();
            fill(&mut region);
            u8::from(!is_filled(&region))
        });
        assert_eq!(reap(child.unwrap(), true), Some(0));
        fill(&mut region);
        assert!(is_filled(&region));
    });
}

/// Read and write a region by system calls, of which some part is cold.
fn use_system_calls() {
    let mut region = cold(8 * MIB);
    let cold_part = MIB..MIB + 64 * 4096;
    let write = |region: &Region| tempfile().write_all(&region[cold_part.clone()]);
    let written = write(&region);
    match stat("serves_system_calls") {
        0 => assert_eq!(written.unwrap_err().raw_os_error(), Some(14), "EFAULT"),
        _ => written.unwrap(),
    }
    let pinned = region.pin(cold_part.clone()).unwrap();
    // All else is touched meanwhile.
    assert!(is_filled(&region));
    write(&region).unwrap();
    let mut zeros = std::fs::File::open("/dev/zero").unwrap();
    zeros.read_exact(&mut region[cold_part.clone()]).unwrap();
    drop(pinned);
    assert!(is_empty(&region[cold_part]));
    assert_eq!(stat("pinned"), 0);
}

/// A file without a name.
fn tempfile() -> std::fs::File {
    let path = std::env::temp_dir().join(format!("uzswap-region-{}", std::process::id()));
    let file = std::fs::File::create(&path).unwrap();
    std::fs::remove_file(path).unwrap();
    file
}

#[test]
fn system_calls_use_what_is_pinned() {
    alone("system_calls_use_what_is_pinned", use_system_calls);
}

/// This test's file where everybody can run it.
fn copy_for_all(name: &str) -> std::path::PathBuf {
    let copy = std::env::temp_dir().join(format!("uzswap-region-{}-{name}", std::process::id()));
    std::fs::copy(std::env::current_exe().unwrap(), &copy).unwrap();
    copy
}

#[test]
fn nobody_has_regions_too() {
    let name = "nobody_has_regions_too";
    if task().is_some() {
        return use_system_calls();
    }
    if !has_userfaultfd() {
        return;
    }
    let copy = copy_for_all(name);
    let mut command = Command::new(&copy);
    command
        .args(child(name, "nobody").get_args())
        .env("UZSWAP_REGION_TASK", "nobody");
    command.current_dir(Path::new("/")).uid(NOBODY).gid(NOBODY);
    let spawned = command.output();
    std::fs::remove_file(copy).unwrap();
    match spawned {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => eprintln!("not tested: only root may be nobody"),
        spawned => assert!(spawned.unwrap().status.success()),
    }
}

#[test]
fn under_uzswap_run_a_region_is_memory_as_any_other() {
    let name = "under_uzswap_run_a_region_is_memory_as_any_other";
    if task().is_some() {
        limit(64 << 20).unwrap();
        Settings::default().limit(64 << 20).start().unwrap();
        let mut region = Region::new(16 * MIB).unwrap();
        fill(&mut region);
        assert!(is_filled(&region));
        drop(region.pin(..).unwrap());
        region.discard(..).unwrap();
        assert!(is_empty(&region));
        assert_eq!(stats().iter().count(), 0);
        return;
    }
    let mut command = child(name, "managed");
    command.env(uzswap_ctl::ENV_GROUP, "/run/user/0/uzswap/1.group");
    let output = succeeds(command);
    let noted = String::from_utf8_lossy(&output.stderr);
    let lines = noted.lines().filter(|line| line.starts_with("uzswap: ")).count();
    assert_eq!(lines, 1, "{noted}");
}
