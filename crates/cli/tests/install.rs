//! What an installation has beside the executable: manual pages and completions.

mod common;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use common::{UZSWAP, temp};

/// A directory of our own, removed with what is in it.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = temp(name);
        std::fs::create_dir_all(&path).expect("a directory");
        Self(path)
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, text).expect("a file");
        path
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn uzswap(args: &[&OsStr]) -> Output {
    Command::new(UZSWAP).args(args).output().expect("uzswap")
}

#[track_caller]
fn said(args: &[&str]) -> String {
    let output = uzswap(&args.iter().map(OsStr::new).collect::<Vec<_>>());
    assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What a program of this machine prints; `None` where there is no such program.
fn asked(program: &str, args: &[&str]) -> Option<String> {
    let output = Command::new(program).args(args).output().ok()?;
    assert!(output.status.success(), "{program}: {}", text(&output.stderr));
    Some(text(&output.stdout))
}

#[test]
fn each_command_has_a_page() {
    let pages = Directory::new("pages");
    let dir = pages.0.join("man1");
    assert!(uzswap(&["man".as_ref(), dir.as_os_str()]).status.success());
    let page = |name: &str| std::fs::read_to_string(dir.join(name)).expect("a page");
    let run = page("uzswap-run.1");
    for words in [
        "uzswap\\-run \\- ",
        "\\-\\-memory\\-max",
        ".SH LIMITS",
        ".SH NOTES",
        "redis\\-server",
    ] {
        assert!(run.contains(words), "no {words}: {run}");
    }
    let whole = page("uzswap.1");
    let listed = whole
        .lines()
        .filter_map(|line| line.strip_prefix("uzswap\\-")?.strip_suffix("(1)"));
    let listed: Vec<_> = listed.collect();
    assert!(listed.contains(&"run") && listed.contains(&"doctor"), "{whole}");
    for name in listed {
        page(&format!("uzswap-{name}.1"));
    }
    assert!(!dir.join("uzswap-workload.1").exists() && !dir.join("uzswap-help.1").exists());
}

#[test]
fn a_page_that_cannot_be_written_is_named() {
    let pages = Directory::new("no-pages");
    let file = pages.file("file", "");
    let output = uzswap(&["man".as_ref(), file.as_os_str()]);
    assert_eq!(output.status.code(), Some(125));
    let line = text(&output.stderr);
    assert!(
        line.contains(file.to_str().expect("a plain path")) && line.lines().count() == 1,
        "{line}"
    );
}

#[test]
fn bash_completes_options_and_what_is_run() {
    let scripts = Directory::new("bash");
    let script = scripts.file("uzswap", &said(&["completions", "bash"]));
    let complete = |words: &[&str]| complete_in_bash(&script, words);
    assert_eq!(complete(&["uzswap", "run", "--memory-m"]), ["--memory-max"]);
    assert_eq!(complete(&["uzswap", "run", "--guard", "a"]), ["auto"]);
    assert_eq!(complete(&["uzswap", "recl"]), ["reclaim"]);
    assert_eq!(complete(&["uzswap", "run", "--policy", "clo"]), ["clock"]);
    assert_eq!(
        complete(&["uzswap", "run", "--compressor", "zstd"]),
        ["zstd", "zstd-dict"]
    );
    assert_eq!(complete(&["uzswap", "set", "web", "memory.m"]), ["memory.max="]);
    assert!(complete(&["uzswap", "set", "web", "memory.max", "="]).is_empty());
    assert!(complete(&["uzswap", "get", "no-such-gr"]).is_empty());
    assert!(
        complete(&["uzswap", "run", "--", "mkdi"])
            .iter()
            .any(|word| word == "mkdir")
    );
    assert!(complete(&["uzswap", "workl"]).is_empty() && complete(&["uzswap", "run", "--fail"]).is_empty());
}

/// What bash offers for the last of `words`.
fn complete_in_bash(script: &Path, words: &[&str]) -> Vec<String> {
    let quoted: Vec<_> = words.iter().map(|word| format!("'{word}'")).collect();
    let last = words.len() - 1;
    let ask = format!(
        "source {}; COMP_WORDS=({}); COMP_CWORD={last}; _uzswap_or_command uzswap {} {}; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        script.display(),
        quoted.join(" "),
        quoted[last],
        quoted[last - 1],
    );
    let offered = asked("bash", &["-c", &ask]).expect("bash");
    offered
        .lines()
        .filter(|line| !line.is_empty())
        .map(str::to_owned)
        .collect()
}

#[test]
fn other_shells_load_theirs() {
    let scripts = Directory::new("shells");
    let zsh = scripts.file("_uzswap", &said(&["completions", "zsh"]));
    let load = format!(
        "autoload -Uz compinit; compinit -D -u; source {}; echo $_comps[uzswap]",
        zsh.display()
    );
    let named = asked("zsh", &["-f", "-c", &load]);
    assert!(named.is_none_or(|name| name == "_uzswap\n"));
    let fish = scripts.file("uzswap.fish", &said(&["completions", "fish"]));
    let ask = |line: &str| {
        asked(
            "fish",
            &["-N", "-c", &format!("source {}; complete -C '{line}'", fish.display())],
        )
    };
    for (line, offered) in [
        ("uzswap run --memory-m", "--memory-max\t"),
        ("uzswap recl", "reclaim\t"),
        ("uzswap run -- mkdi", "mkdir"),
    ] {
        assert!(ask(line).is_none_or(|answer| answer.starts_with(offered)), "{line}");
    }
}

#[test]
fn a_shell_that_is_not_known_is_named() {
    let output = uzswap(&["completions".as_ref(), "ksh".as_ref()]);
    assert_eq!(output.status.code(), Some(2));
    let line = text(&output.stderr);
    assert!(line.contains("'ksh'") && line.contains("bash, zsh, fish"), "{line}");
}
