//! Unsafe code stands in `sys`, where the agent meets the program, and where C calls the library.

use crate::tokens::tokens;

/// Files of the agent's C edge, with what is unsafe there.
const EDGE: &[(&str, &str)] = &[
    ("guest/closed.rs", "makes calls of the program's"),
    ("fork/child.rs", "opens locks that threads of the parent held"),
    ("fork/handover.rs", "renews words that two processes see"),
    ("fork/parent.rs", "opens the lock that `prepare` took"),
    ("guard/deliver.rs", "ends the process by a signal"),
    ("guard/mod.rs", "puts jumps into code, and makes the program's calls"),
    ("guard/memory.rs", "makes them as others"),
    ("guard/pieces.rs", "makes them in pieces"),
    ("guard/signals.rs", "has handlers called as the program asked"),
    ("x86_64/mod.rs", "a function of instructions"),
    ("guest/hook.rs", "calls in place of libc, with what the program passed"),
    ("guest/identity.rs", "the same"),
    ("init.rs", "reads what the kernel and glibc passed"),
    ("cpu/io_poll.rs", "opens a lock that a thread of the parent held"),
    ("pager/mod.rs", "opens locks that threads of the parent held"),
    ("guest/mmap.rs", "makes calls of the program's"),
    ("guest/mremap.rs", "makes calls of the program's"),
    (
        "guest/mutexes.rs",
        "reads the attributes of the program's mutexes, and makes them",
    ),
    ("fault/servers.rs", "opens locks that threads of the parent held"),
    ("guest/vma.rs", "takes the bounds of the agent's own image"),
];
/// What C calls: it is told where memory is.
const CALLED_BY_C: &str = "crates/c/src/lib.rs";
/// Roots of crates without any: the compiler sees to all below.
const SAFE: [&str; 20] = [
    "crates/page/src/lib.rs",
    "crates/sim/src/lib.rs",
    "crates/acomp-iaa/src/lib.rs",
    "crates/region/src/lib.rs",
    "crates/backing/src/lib.rs",
    "crates/guard/src/lib.rs",
    "crates/mm/src/lib.rs",
    "crates/acomp/src/lib.rs",
    "crates/iaa/src/lib.rs",
    "crates/iaa-model/src/lib.rs",
    "crates/ctl/src/lib.rs",
    "crates/remote/src/lib.rs",
    "crates/workload/src/lib.rs",
    "crates/workload/src/main.rs",
    "crates/bench/src/lib.rs",
    "crates/bench/src/main.rs",
    "crates/zram/src/lib.rs",
    "crates/cli/src/main.rs",
    "crates/cli/src/bin/uzswap-torture/main.rs",
    "crates/cli/src/bin/uzswap-callfuzz/main.rs",
];

/// Unsafe code that is elsewhere, files of the list that have none, and crates that do not forbid
/// it.
pub fn misplaced(files: impl Iterator<Item = (String, String)>) -> Vec<String> {
    let mut complaints = Vec::new();
    for (path, text) in files {
        let found = tokens(&text)
            .iter()
            .find(|token| token.text == "unsafe")
            .map(|token| token.line);
        let of_agent = path.strip_prefix("crates/agent/src/");
        let is_edge = EDGE.iter().any(|(edge, _)| of_agent == Some(*edge));
        match found {
            Some(line) if !is_edge && path != CALLED_BY_C && !path.starts_with("crates/sys/src/") => complaints.push(
                format!("{path}:{line}: unsafe code: it belongs into crates/sys, or the file into EDGE"),
            ),
            None if path == CALLED_BY_C => {
                complaints.push(format!("{path} has no unsafe code: have it forbidden there"))
            }
            None if is_edge => complaints.push(format!("{path} has no unsafe code: take it off EDGE")),
            _ => {}
        }
        if SAFE.contains(&path.as_str()) && !text.contains("#![forbid(unsafe_code)]") {
            complaints.push(format!("{path} does not say #![forbid(unsafe_code)]"));
        }
    }
    complaints
}

#[test]
fn unsafe_code_elsewhere_is_complained_of() {
    let files = [
        ("crates/sys/src/uffd.rs", "unsafe {}"),
        ("crates/agent/src/guest/hook.rs", "fn f() {}"),
        ("crates/agent/src/kswapd/mod.rs", "// unsafe\n\"unsafe\"; unsafe {}"),
        ("crates/mm/src/lib.rs", "#![deny(unsafe_code)]"),
    ];
    let found = misplaced(files.into_iter().map(|(path, text)| (path.into(), text.into())));
    assert_eq!(found.len(), 3, "{found:?}");
    assert!(found[0].starts_with("crates/agent/src/guest/hook.rs has no"));
    assert!(found[1].starts_with("crates/agent/src/kswapd/mod.rs:2:"));
    assert!(found[2].starts_with("crates/mm/src/lib.rs does not"));
}
