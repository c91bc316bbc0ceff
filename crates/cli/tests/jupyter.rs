//! `uzswap jupyter`: the kernelspecs that it writes, without a Jupyter.

mod common;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use common::{UZSWAP, can_manage, temp};
use serde_json::{Value, json};

const KERNELS: &str = "share/jupyter/kernels";

/// A home, and an environment of Python with a kernel `python3`.
struct Home(PathBuf);

impl Home {
    fn new(name: &str) -> Self {
        let home = Self(temp(name));
        home.write(
            "env/share/jupyter/kernels/python3/kernel.json",
            &json!({
                "argv": ["python", "-m", "ipykernel_launcher", "-f", "{connection_file}", "{resource_dir}/x"],
                "display_name": "Python 3",
                "language": "python",
                "metadata": { "debugger": true },
            })
            .to_string(),
        );
        home.write("env/share/jupyter/kernels/python3/logo.svg", "a logo");
        home.write("env/bin/python", "");
        home
    }

    fn path(&self, below: &str) -> PathBuf {
        self.0.join(below)
    }

    fn write(&self, below: &str, text: &str) -> PathBuf {
        let path = self.path(below);
        std::fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        std::fs::write(&path, text).expect("a file");
        path
    }

    fn jupyter(&self, args: &[&str]) -> Output {
        Command::new(UZSWAP)
            .arg("jupyter")
            .args(args)
            .env_clear()
            .env("HOME", &self.0)
            .env("PATH", "/nowhere")
            .env("VIRTUAL_ENV", self.path("env"))
            .output()
            .expect("uzswap jupyter")
    }

    #[track_caller]
    fn said(&self, args: &[&str]) -> String {
        let output = self.jupyter(args);
        assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    /// The one line of an error.
    #[track_caller]
    fn refused(&self, args: &[&str]) -> String {
        let output = self.jupyter(args);
        let line = text(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{args:?}: {line}");
        assert_eq!(line.lines().count(), 1, "{line}");
        line
    }

    /// A kernel of the user's.
    fn kernel(&self, name: &str) -> PathBuf {
        self.path(".local").join(KERNELS).join(name)
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn spec(directory: &Path) -> Value {
    let text = std::fs::read_to_string(directory.join("kernel.json")).expect("a kernelspec");
    serde_json::from_str(&text).expect("JSON")
}

fn shown(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

#[test]
fn a_kernel_is_run_under_a_limit() {
    let home = Home::new("jupyter");
    let ours = home.kernel("uzswap-python3");
    let line = home.said(&["install", "--memory-max", "50%"]);
    assert_eq!(line, format!("uzswap-python3: {}/kernel.json\n", ours.display()));
    let spec = spec(&ours);
    let (python, old) = (
        home.path("env/bin/python"),
        home.path("env").join(KERNELS).join("python3"),
    );
    let resource = format!("{}/x", old.display());
    let kernel = [
        shown(&python),
        "-m",
        "ipykernel_launcher",
        "-f",
        "{connection_file}",
        &resource,
    ];
    let argv = [&[UZSWAP, "run", "--memory-max", "50%", "--"][..], &kernel].concat();
    assert_eq!(spec["argv"], json!(argv));
    assert_eq!(spec["display_name"], "Python 3 (uzswap 50%)");
    assert_eq!(spec["interrupt_mode"], "message");
    assert_eq!(spec["language"], "python");
    assert_eq!(
        spec["metadata"],
        json!({ "debugger": true, "uzswap": { "from": shown(&old) } })
    );
    let logo = std::fs::read_to_string(ours.join("logo.svg"));
    assert_eq!(logo.expect("a copy"), "a logo");
    // Without a limit, over the old one.
    home.said(&["install", "--user"]);
    assert_eq!(self::spec(&ours)["argv"][3], "auto");
    home.said(&["remove"]);
    assert!(!ours.exists() && old.exists());
}

#[test]
fn a_kernel_is_found_by_its_directory_and_written_below_a_prefix() {
    let home = Home::new("jupyter-prefix");
    let file = home.write(
        "mine/R/kernel.json",
        r#"{ "argv": ["R", "{connection_file}"], "interrupt_mode": "signal" }"#,
    );
    let prefix = home.path("other");
    let from = shown(file.parent().expect("its directory"));
    home.said(&["install", "--from", from, "--prefix", shown(&prefix)]);
    let ours = prefix.join(KERNELS).join("uzswap-r");
    assert_eq!(
        spec(&ours)["argv"],
        json!([UZSWAP, "run", "--memory-max", "auto", "--", "R", "{connection_file}"])
    );
    assert_eq!(spec(&ours)["display_name"], "R (uzswap auto)");
    assert_eq!(spec(&ours)["interrupt_mode"], "signal");
    home.said(&["remove", "uzswap-r", "--prefix", shown(&prefix)]);
    assert!(!ours.exists());
}

#[test]
fn its_command_starts() {
    if !can_manage() {
        return;
    }
    let home = Home::new("jupyter-runs");
    let script = "printf '%s %s' \"$UZSWAP_GROUP\" $1";
    let kernel = json!({ "argv": ["/bin/sh", "-c", script, "sh", "{connection_file}"] });
    home.write("env/share/jupyter/kernels/sh/kernel.json", &kernel.to_string());
    home.said(&["install", "--from", "sh", "--memory-max", "64M"]);
    let argv = spec(&home.kernel("uzswap-sh"))["argv"].clone();
    let words: Vec<_> = argv
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let output = Command::new(words[0]).args(&words[1..]).output().expect("the kernel");
    let said = text(&output.stdout);
    assert!(
        output.status.success() && said.ends_with(" {connection_file}"),
        "{said} {}",
        text(&output.stderr)
    );
    assert!(said.starts_with('/'), "no group: {said}");
}

#[test]
fn what_cannot_be_wrapped_is_told() {
    let home = Home::new("jupyter-bad");
    let line = home.refused(&["install", "--from", "ir"]);
    assert!(
        line.contains("--from ir") && line.contains("there are python3"),
        "{line}"
    );
    let broken = home.write("env/share/jupyter/kernels/broken/kernel.json", "{ \"argv\": [");
    let line = home.refused(&["install", "--from", "broken"]);
    assert!(
        line.contains(shown(&broken)) && line.contains("not a JSON object"),
        "{line}"
    );
    for argv in [json!([]), json!("python"), json!([1]), Value::Null] {
        home.write(
            "env/share/jupyter/kernels/broken/kernel.json",
            &json!({ "argv": argv }).to_string(),
        );
        let line = home.refused(&["install", "--from", "broken"]);
        assert!(line.contains("argv must be a list of words"), "{line}");
    }
    home.said(&["install"]);
    let line = home.refused(&["install", "--from", "uzswap-python3"]);
    assert!(line.contains("under uzswap already"), "{line}");
}

#[test]
fn where_nothing_can_be_written_is_told() {
    let home = Home::new("jupyter-where");
    let file = home.write("file", "");
    let line = home.refused(&["install", "--prefix", shown(&file)]);
    assert!(
        line.contains(shown(&file)) && line.contains("Not a directory"),
        "{line}"
    );
    // The kernels of others stay.
    let prefix = home.path("env");
    let line = home.refused(&["install", "--name", "python3", "--prefix", shown(&prefix)]);
    assert!(line.contains("did not write it"), "{line}");
    let line = home.refused(&["remove", "python3", "--prefix", shown(&prefix)]);
    assert!(line.contains("did not write it"), "{line}");
    assert!(prefix.join(KERNELS).join("python3/kernel.json").exists());
    let line = home.refused(&["remove"]);
    assert!(
        line.contains("uzswap-python3: no such kernel in ") && line.contains("there is none; --prefix"),
        "{line}"
    );
}

#[test]
fn words_that_are_no_names_or_sizes_are_told() {
    let home = Home::new("jupyter-words");
    for (args, words) in [
        (&["install", "--name", "../x"][..], ["'../x'", "small letters"]),
        (&["remove", ".x"], ["'.x'", "not '.' first"]),
        (&["install", "--memory-max", "12Q"], ["12Q", "K, M, G"]),
        (&["install", "--user", "--prefix", "x"], ["--user", "--prefix"]),
        (&[], ["install", "remove"]),
    ] {
        let output = home.jupyter(args);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {error}");
        assert!(words.iter().all(|word| error.contains(word)), "{args:?}: {error}");
    }
}
