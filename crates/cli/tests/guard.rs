//! System calls that are seen before the kernel, where the kernel cannot wait for pages: for any
//! user, with no privilege.

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use common::compile;
use common::place::{PATIENCE_S, Place, can_guard, is_root};

/// How faults are served where calls are guarded.
const WAYS: [[&str; 2]; 3] = [
    ["--faults", "inline"],
    ["--faults", "thread"],
    ["--backend", "mprotect"],
];

/// A program of ours, however its faults are served.
fn is_as_unmanaged_in_all_ways(name: &str, args: &[&str]) {
    is_as_unmanaged(name, args, WAYS);
}

fn is_as_unmanaged(name: &str, args: &[&str], ways: impl IntoIterator<Item = [&'static str; 2]>) {
    if !can_guard() {
        return;
    }
    let (place, program) = (Place::new(name), compile(name));
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("ours");
    let path = program.to_string_lossy().into_owned();
    for way in ways {
        let options = [&["--memory-max", "24M", "--guard", "on"], &way[..]].concat();
        place.is_as_unmanaged(&options, &[&[path.as_str()], args].concat());
    }
    let _ = fs::remove_file(program);
}

#[test]
fn calls_reach_cold_memory() {
    is_as_unmanaged_in_all_ways("calls", &["40"]);
}

#[test]
fn signals_are_as_without() {
    is_as_unmanaged_in_all_ways("bus", &[]);
}

#[test]
fn handlers_find_what_they_would_without() {
    // What is blocked, and who made the call that was interrupted.
    for name in ["masks", "unwinds"] {
        is_as_unmanaged_in_all_ways(name, &[]);
    }
}

#[test]
fn what_nobody_handles_interrupts_no_call() {
    // With a fault thread nobody sees whether it is handled.
    let ways = WAYS.into_iter().filter(|way| *way != ["--faults", "thread"]);
    is_as_unmanaged("undisturbed", &[], ways);
}

#[test]
fn handlers_fault_as_without() {
    for name in ["fault_in_handler", "coroutines", "frames", "let_in"] {
        // With a fault thread the kernel waits for no page of a handler's stack.
        let ways = WAYS.into_iter().filter(|way| *way != ["--faults", "thread"]);
        is_as_unmanaged(name, &[], ways);
    }
}

#[test]
fn threads_have_stacks_of_the_programs() {
    is_as_unmanaged_in_all_ways("own_stacks", &[]);
}

#[test]
fn what_may_be_accessed_grows_as_without() {
    is_as_unmanaged_in_all_ways("grows_access", &[]);
}

#[test]
fn mappings_change_as_without() {
    is_as_unmanaged_in_all_ways("edges", &[]);
}

#[test]
fn a_child_that_may_open_no_file_has_a_pager() {
    is_as_unmanaged_in_all_ways("lonely", &[]);
}

/// To look through a large image takes longer than a small program does.
#[test]
fn large_images_are_looked_through_once() {
    if !can_guard() {
        return;
    }
    let place = Place::new("noted");
    let uzswap = place.0.join("uzswap");
    let notes = || {
        let run = Command::new(&uzswap)
            .args(["run", "--quiet", "--memory-max", "64M", "--guard", "on", "--"])
            .args([&uzswap.to_string_lossy(), "--version"])
            .env("TMPDIR", &place.0)
            .output();
        assert!(run.expect("starting uzswap").status.success());
        let runtime = fs::read_dir(&place.0).expect("the place").flatten();
        let dir = runtime
            .map(|entry| entry.path())
            .find(|path| path.is_dir())
            .expect("it");
        let names = fs::read_dir(dir)
            .expect("its files")
            .flatten()
            .map(|entry| entry.file_name());
        let mut notes: Vec<_> = names.map(|name| name.to_string_lossy().into_owned()).collect();
        notes.retain(|name| name.starts_with("calls-"));
        notes.sort();
        notes
    };
    let noted = notes();
    // libc's, the loader's, and its own.
    assert_eq!(noted.len(), 3, "{noted:?}");
    assert_eq!(notes(), noted);
}

/// It has changed its user, and nobody serves its faults: its parent tells it what is out.
#[test]
fn a_child_without_a_pager_has_its_memory() {
    if !is_root() || !can_guard() {
        return;
    }
    let (place, program) = (Place::new("another-user"), compile("lonely"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let twin = Command::new(&program).output().expect("starting it");
    let guarded = WAYS.map(|way| [&["--guard", "on"], &way[..]].concat());
    for way in guarded.into_iter().chain([vec!["--guard", "off"]]) {
        let mut managed = Command::new("timeout");
        managed.args(["-s", "KILL", PATIENCE_S]).arg(place.0.join("uzswap"));
        managed.args(["run", "--quiet", "--memory-max", "24M"]);
        let managed = managed.args(&way).arg("--").arg(&program).output();
        let managed = managed.expect("starting uzswap");
        let said = text(&managed.stderr);
        assert_eq!(text(&managed.stdout), text(&twin.stdout), "{way:?}: {said}");
        assert_eq!(managed.status, twin.status, "{way:?}: {said}");
        assert_eq!(said.matches("is not managed and counts").count(), 3, "{way:?}: {said}");
    }
    let _ = fs::remove_file(program);
}

/// The kernel writes frames of its signals there, and waits for no page.
#[test]
fn a_process_with_our_memory_has_its_stack() {
    is_as_unmanaged_in_all_ways("births", &["clone-vm", "stay"]);
}

#[test]
fn corners_of_memory_are_as_without() {
    for life in ["no-vdso", "reserved", "threads"] {
        is_as_unmanaged_in_all_ways("corners", &[life]);
    }
}

#[test]
fn signals_that_are_sent_during_faults_arrive() {
    is_as_unmanaged_in_all_ways("sent", &["40"]);
}

/// Code that is made at run time, or loaded later, has calls that no jump leads to the guard from.
#[test]
fn calls_of_any_code_are_seen() {
    if !can_guard() {
        return;
    }
    let (place, program) = (Place::new("unseen"), compile("unseen"));
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("ours");
    let library = place.0.join("unseen.so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/unseen.c");
    let mut cc = Command::new("cc");
    cc.args(["-O1", "-DLIBRARY", "-shared", "-fPIC", "-o"])
        .args([&library, &source]);
    assert!(cc.status().expect("a C compiler").success());
    let words = [&program, &library].map(|path| path.to_string_lossy().into_owned());
    place.is_as_unmanaged(
        &["--memory-max", "24M", "--faults", "inline"],
        &words.each_ref().map(String::as_str),
    );
    let _ = fs::remove_file(program);
}

/// The agent begins before the constructors of other libraries.
#[test]
fn threads_of_constructors_are_seen() {
    if !can_guard() {
        return;
    }
    let place = Place::new("early");
    let source = format!("{}/tests/programs/early.c", env!("CARGO_MANIFEST_DIR"));
    let [library, program] = ["early.so", "early"].map(|name| place.0.join(name).to_string_lossy().into_owned());
    let builds: [&[&str]; 2] = [
        &["-DLIBRARY", "-shared", "-fPIC", "-o", &library, &source],
        &["-o", &program, &source, &library],
    ];
    for args in builds {
        let built = Command::new("cc").args(["-O1", "-pthread"]).args(args).status();
        assert!(built.is_ok_and(|built| built.success()), "{args:?}");
    }
    for way in WAYS {
        let options = [&["--memory-max", "24M", "--guard", "on"], &way[..]].concat();
        place.is_as_unmanaged(&options, &[&program]);
    }
}

/// Go's stacks have no room for the guard, though a linker of C made the program.
#[test]
fn calls_of_go_beside_c_are_seen() {
    if !can_guard() {
        return;
    }
    let place = Place::new("dials");
    let file = |name: &str| place.0.join(name).to_string_lossy().into_owned();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/dials.go");
    let (program, library) = (file("dials"), file("dials.so"));
    for (mode, made) in [("exe", &program), ("c-shared", &library)] {
        let mut go = Command::new("go");
        go.args(["build", "-buildmode", mode, "-o", made]).arg(&source);
        match go.env("CGO_ENABLED", "1").output() {
            Ok(built) if built.status.success() => {}
            failed => return eprintln!("left out: {failed:?}"),
        }
    }
    let loads = format!("import ctypes; kept = bytearray(b'ab' * (30 << 20)); ctypes.CDLL('{library}').dial_all()");
    for way in [["--faults", "inline"], ["--backend", "mprotect"]] {
        let options = [&["--memory-max", "48M"], &way[..]].concat();
        place.is_as_unmanaged(&options, &[&program]);
        if Path::new("/usr/bin/python3").exists() {
            place.is_as_unmanaged(&options, &["/usr/bin/python3", "-c", &loads]);
        }
    }
}

/// What has given up what fork events take is guarded, though the run is not.
#[test]
fn who_gives_up_capabilities_is_managed() {
    if !is_root() || !can_guard() {
        return;
    }
    let (place, program) = (Place::new("given-up"), compile("calls"));
    let json = place.0.join("report.json");
    let mut run = Command::new("timeout");
    run.args(["-s", "KILL", PATIENCE_S]).arg(place.0.join("uzswap"));
    run.args(["run", "--quiet", "--memory-max", "24M", "--stat-json"])
        .arg(&json)
        .arg("--");
    run.args(["setpriv", "--inh-caps=-all", "--bounding-set=-all"])
        .arg(&program)
        .arg("40");
    let run = run.output().expect("starting uzswap");
    assert!(run.status.success() && run.stderr.is_empty(), "{run:?}");
    let report = fs::read_to_string(&json).expect("its report");
    let counters: serde_json::Value = serde_json::from_str(&report).expect("JSON");
    assert!(counters["zswpout"].as_u64() > Some(0), "{report}");
    let _ = fs::remove_file(program);
}

/// As in a container with Docker's own filter of system calls.
#[test]
fn no_userfaultfd_is_needed() {
    let (place, filter) = (Place::new("filtered"), compile("without_userfaultfd"));
    fs::set_permissions(&filter, fs::Permissions::from_mode(0o755)).expect("ours");
    let program = compile("calls");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("ours");
    let json = place.0.join("report.json");
    let mut twin = place.unprivileged(&program);
    let twin = twin.arg("40").output().expect("starting it");
    let mut managed = place.unprivileged(&filter);
    managed
        .arg(place.0.join("uzswap"))
        .args(["run", "--quiet", "--memory-max", "24M", "--stat-json"]);
    managed.arg(&json).arg("--").arg(&program).arg("40");
    let managed = managed.output().expect("starting uzswap");
    let said = String::from_utf8_lossy(&managed.stderr).into_owned();
    assert_eq!(managed.stdout, twin.stdout, "{said}");
    assert_eq!((managed.status, said.as_str()), (twin.status, ""));
    let report = fs::read_to_string(&json).expect("its report");
    let counters: serde_json::Value = serde_json::from_str(&report).expect("JSON");
    assert!(counters["zswpout"].as_u64() > Some(0), "{report}");
    for file in [filter, program] {
        let _ = fs::remove_file(file);
    }
}

#[test]
fn shells_and_their_children_are_as_without() {
    if !can_guard() {
        return;
    }
    let place = Place::new("shells");
    let options = ["--memory-max", "32M"];
    let script =
        "x=$(echo hi | cat); echo $x; (exit 3); echo $?; for i in 1 2 3; do echo $i & done | sort; wait; exit 9";
    place.is_as_unmanaged(&options, &["/bin/bash", "-c", script]);
    let sorted = "seq 1 300000 | sort -r -S 40M | tail -3; printf '%s\\n' *.none; exec /bin/echo done";
    place.is_as_unmanaged(&options, &["/bin/sh", "-c", sorted]);
}

/// Memory, files and forks of an interpreter.
#[test]
fn an_interpreter_is_as_without() {
    const PYTHON: &str = "/usr/bin/python3";
    if !can_guard() || !Path::new(PYTHON).exists() {
        return;
    }
    let place = Place::new("interpreter");
    let script = "import os,hashlib,subprocess,tempfile\n\
                  b=[bytes([i%251])*997+i.to_bytes(4,'big') for i in range(50000)]\n\
                  d=lambda:hashlib.sha256(b''.join(b)).hexdigest()\n\
                  print(d())\n\
                  p=os.fork()\n\
                  if p==0: os._exit(5 if d()==d() else 1)\n\
                  print(os.waitpid(p,0)[1])\n\
                  print(subprocess.run(['/bin/echo','x'],capture_output=True).stdout)\n\
                  f=tempfile.TemporaryFile(); f.write(b''.join(b)); f.seek(0)\n\
                  print(hashlib.sha256(f.read()).hexdigest()==d())\n";
    place.is_as_unmanaged(&["--memory-max", "48M"], &[PYTHON, "-c", script]);
}

#[test]
fn what_cannot_be_guarded_says_why() {
    if !can_guard() {
        return;
    }
    let place = Place::new("unguarded");
    let refused = place.run(
        &["--memory-max", "32M", "--guard", "on", "--isolate", "copy"],
        &["/bin/true"],
    );
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(125), "{said}");
    assert!(
        said.contains("--isolate copy") && said.contains("--guard off"),
        "{said}"
    );
}

/// The short form; the long one is `uzswap-callfuzz --calls 1000000`.
#[test]
fn random_calls_are_as_on_memory_that_is_there() {
    if !can_guard() {
        return;
    }
    let place = Place::new("callfuzz");
    let program = place.0.join("uzswap-callfuzz");
    fs::copy(env!("CARGO_BIN_EXE_uzswap-callfuzz"), &program).expect("copying it");
    let name = program.to_string_lossy().into_owned();
    let run = place.run(
        &["--memory-max", "24M", "--guard", "on"],
        &[&name, "--calls", "3000", "--disturb"],
    );
    let said = String::from_utf8_lossy(&run.stdout).into_owned();
    assert!(run.status.success(), "{said}{}", String::from_utf8_lossy(&run.stderr));
    // Some of it was out, or nothing was seen.
    assert!(!said.contains(" 0 with memory that was out"), "{said}");
}

/// The kernel refuses it (EFAULT): what it takes for several mappings may be so because of us.
#[test]
fn what_are_several_mappings_is_moved() {
    if !can_guard() {
        return;
    }
    let (place, program) = (Place::new("pieces"), compile("pieces"));
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("ours");
    let run = place.run(&["--memory-max", "16M"], &[&program.to_string_lossy()]);
    let said = String::from_utf8_lossy(&run.stderr).into_owned();
    assert_eq!(String::from_utf8_lossy(&run.stdout), "moved\n", "{said}");
    assert!(run.status.success(), "{said}");
    let _ = fs::remove_file(program);
}
