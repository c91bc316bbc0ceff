//! `uzswap sim`: names, refusals, files. What it says is tested in `crates/sim`.

mod common;

use std::process::{Command, Output};

use common::UZSWAP;

fn sim(args: &[&str]) -> Output {
    Command::new(UZSWAP).arg("sim").args(args).output().expect("uzswap sim")
}

#[test]
fn tables_are_listed_by_name() {
    let output = sim(&["--list"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success());
    for name in ["v9-64k", "v12-2m", "whole-2m", "batch", "kcompressd"] {
        assert!(
            text.lines().any(|line| line.split(' ').next() == Some(name)),
            "{name}: {text}"
        );
    }
}

/// The page of an earlier run is not made empty for a name that is none.
#[test]
fn an_unknown_name_leaves_files_alone() {
    let page = common::temp("sim-page");
    std::fs::write(&page, "kept").expect("a file");
    let output = sim(&["--only", "v13", "--html", page.to_str().expect("a plain path")]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(std::fs::read(&page).expect("it is still there"), b"kept");
    let _ = std::fs::remove_file(page);
}

#[test]
fn bad_values_are_refused_by_name_and_rule() {
    for (args, error) in [
        (
            &["--only", "v13"][..],
            "uzswap: --only `v13`: the tables are v9-64k, v9-2m, v12-64k,",
        ),
        (&["--seed", "x"], "error: invalid value 'x' for '--seed <N>'"),
        (
            &["--html", "/no/such/page"],
            "uzswap: --html /no/such/page: No such file or directory",
        ),
        (&["--json", "/"], "uzswap: --json /: Is a directory"),
        (
            &["--csv", "/no/such/csv"],
            "uzswap: --csv /no/such/csv: No such file or directory",
        ),
        (
            &["--json", "/dev/null", "--csv", "/dev/null"],
            "uzswap: --csv /dev/null: --json writes this file; name another",
        ),
        (
            &["--list", "--csv", "/dev/null"],
            "error: the argument '--list' cannot be used with '--csv <FILE>'",
        ),
    ] {
        let output = sim(args);
        let text = String::from_utf8_lossy(&output.stderr);
        let is_misuse = error.starts_with("error:") || args[0] == "--only";
        let status = if is_misuse { 2 } else { 125 };
        assert_eq!(output.status.code(), Some(status), "{text}");
        assert!(text.starts_with(error) && output.stdout.is_empty(), "{text}");
    }
}
