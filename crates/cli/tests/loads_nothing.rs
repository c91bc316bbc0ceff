//! Programs that load no library: static ones, those of Go and musl. The launcher puts the agent
//! into them, and their system calls are seen before the kernel, whoever runs them.

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use common::compile;
use common::place::{Place, Who, can_guard, is_root};

/// Programs into which the launcher has to put the agent. A compiler that is not there is left out.
#[test]
fn programs_that_load_nothing_are_managed() {
    if !can_guard() {
        return;
    }
    let place = Place::new("alone");
    let source = |name: &str| format!("{}/tests/programs/{name}", env!("CARGO_MANIFEST_DIR"));
    let builds = [
        ("cc -O2 -pthread -static", "calls.c", "24M", "40"),
        ("cc -O2 -pthread -static-pie", "calls.c", "24M", "40"),
        ("cc -O2 -pthread -static", "bus.c", "24M", ""),
        ("cc -O2", "deep_handlers.c", "16M", ""),
        ("cc -O2 -static", "deep_handlers.c", "16M", ""),
        ("cc -O2 -static", "coroutines.c", "16M", ""),
        ("cc -O2 -static -nostdlib -fno-stack-protector", "no_libc.c", "40M", ""),
        ("musl-gcc -O2 -pthread", "calls.c", "24M", "40"),
        ("musl-gcc -O2 -pthread -static", "calls.c", "24M", "40"),
        ("go build", "collects.go", "48M", ""),
    ];
    for (n, (compiler, name, limit, arg)) in builds.into_iter().enumerate() {
        let program = place.0.join(format!("alone-{n}")).to_string_lossy().into_owned();
        let mut words = compiler.split(' ');
        let mut cc = Command::new(words.next().expect("a compiler"));
        cc.args(words)
            .args(["-o", &program, &source(name)])
            .env("CGO_ENABLED", "0");
        match cc.output() {
            Ok(built) if built.status.success() => {}
            failed => {
                eprintln!("left out: {compiler}: {failed:?}");
                continue;
            }
        }
        let words = [program.as_str(), arg];
        let cmd = if arg.is_empty() { &words[..1] } else { &words[..] };
        let json = place.0.join("report.json").to_string_lossy().into_owned();
        place.is_as_unmanaged(&["--memory-max", limit, "--stat-json", &json], cmd);
        let report = fs::read_to_string(&json).expect("its report");
        let counters: serde_json::Value = serde_json::from_str(&report).expect("JSON");
        assert!(counters["zswpout"].as_u64() > Some(0), "{compiler} {name}: {report}");
    }
}

/// A descendant that loads nothing has us put into it: forked, exec'd in place, and spawned (vfork)
/// by one that loads nothing itself. Of root too, where all others go without the guard.
#[test]
fn descendants_that_load_nothing_are_managed() {
    if !can_guard() {
        return;
    }
    descendants_are_managed(Who::Nobody);
    if is_root() {
        descendants_are_managed(Who::AsWeAre);
    }
}

fn descendants_are_managed(who: Who) {
    let place = Place::new("descendants");
    let program = place.0.join("alone").to_string_lossy().into_owned();
    let source = |name: &str| format!("{}/tests/programs/{name}", env!("CARGO_MANIFEST_DIR"));
    let mut cc = Command::new("cc");
    cc.args(["-O2", "-pthread", "-static", "-o", &program, &source("calls.c")]);
    let spawner = place.0.join("spawns").to_string_lossy().into_owned();
    let mut other = Command::new("cc");
    other.args(["-O2", "-static", "-o", &spawner, &source("spawns.c")]);
    let fails = place.0.join("fails").to_string_lossy().into_owned();
    let mut third = Command::new("cc");
    third.args(["-O2", "-o", &fails, &source("fails_exec.c")]);
    for mut cc in [cc, other, third] {
        if !cc.status().is_ok_and(|status| status.success()) {
            eprintln!("left out: no static libc");
            return;
        }
    }
    let go = place.0.join("spawns-go").to_string_lossy().into_owned();
    let mut build = Command::new("go");
    build
        .args(["build", "-o", &go, &source("spawns.go")])
        .env("CGO_ENABLED", "0");
    let has_go = build.output().is_ok_and(|built| built.status.success());
    let json = place.0.join("report.json").to_string_lossy().into_owned();
    let options = ["--memory-max", "24M", "--stat-json", &json];
    place.is_as_unmanaged_for(who, &options, &[&fails, &spawner]);
    if has_go {
        place.is_as_unmanaged_for(who, &options, &[&go, &spawner, "/bin/echo", "twelve"]);
        let report = fs::read_to_string(&json).expect("its report");
        let counters: serde_json::Value = serde_json::from_str(&report).expect("JSON");
        assert_eq!(counters["unmanaged_processes"].as_u64(), Some(0), "{report}");
    }
    let script = format!(
        "{program} 28; echo $?; {spawner} {program} 28; env -i {spawner} {program} 28; env -i {spawner} /bin/env; \
         /no/such/file; exec {program} 40"
    );
    place.is_as_unmanaged_for(who, &options, &["/bin/bash", "-c", &script]);
    let report = fs::read_to_string(&json).expect("its report");
    let counters: serde_json::Value = serde_json::from_str(&report).expect("JSON");
    assert!(counters["zswpout"].as_u64() > Some(1_000), "{report}");
    assert_eq!(counters["unmanaged_processes"].as_u64(), Some(0), "{report}");
}

#[test]
fn what_loads_nothing_needs_the_guard() {
    if !can_guard() {
        return;
    }
    let place = Place::new("needs");
    let program = place.0.join("static").to_string_lossy().into_owned();
    let source = format!("{}/tests/programs/late_limit.c", env!("CARGO_MANIFEST_DIR"));
    let built = Command::new("cc").args(["-static", "-o", &program, &source]).status();
    if !built.is_ok_and(|status| status.success()) {
        return;
    }
    for option in [["--guard", "off"], ["--faults", "thread"]] {
        let refused = place.run(&[&["--memory-max", "24M"], &option[..]].concat(), &[&program]);
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(125), "{said}");
        assert!(said.contains("a static executable is managed"), "{said}");
    }
}

/// The filter is the launcher's own, so what it takes to ask that is allowed.
#[test]
fn static_children_need_none() {
    let (place, filter) = (Place::new("behind"), compile("without_userfaultfd"));
    fs::set_permissions(&filter, fs::Permissions::from_mode(0o755)).expect("ours");
    let (program, json) = (place.0.join("alone"), place.0.join("report.json"));
    let source = format!("{}/tests/programs/calls.c", env!("CARGO_MANIFEST_DIR"));
    let mut cc = Command::new("cc");
    if cc
        .args(["-O2", "-pthread", "-static", "-o"])
        .arg(&program)
        .arg(source)
        .status()
        .is_ok_and(|cc| cc.success())
    {
        let mut managed = place.unprivileged(&filter);
        managed
            .arg(place.0.join("uzswap"))
            .args(["run", "--memory-max", "24M", "--stat-json"])
            .arg(&json);
        managed.args(["--", "/bin/bash", "-c", &format!("{} 28; exit 5", program.display())]);
        let (managed, report) = (managed.output().expect("starting uzswap"), fs::read_to_string(&json));
        assert_eq!(
            managed.status.code(),
            Some(5),
            "{}",
            String::from_utf8_lossy(&managed.stderr)
        );
        assert!(
            report.expect("its report").contains("\"unmanaged_processes\": 0"),
            "{managed:?}"
        );
    }
    let _ = fs::remove_file(filter);
}
