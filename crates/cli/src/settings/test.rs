use super::*;
use crate::memory_max::MemoryMax;
use crate::options::{Cli, Command as Verb};
use uzswap_ctl::size::Size;

const FILE: &str = "/etc/uzswap.toml";

/// Settings of texts, the later over the earlier, and of an environment.
fn settings(texts: &[&str], variables: &[(&str, &str)]) -> Result<Settings, String> {
    let command = help::command();
    let run = run_of(&command);
    let mut settings = Settings::default();
    let line = |Failure(line)| line;
    for text in texts {
        settings.overrule(run, file::settings(run, FILE.as_ref(), text).map_err(line)?);
    }
    let find = |name: &str| Some(variables.iter().find(|(other, _)| *other == name)?.1.into());
    settings.overrule(run, environment::of(run, find).map_err(line)?);
    Ok(settings)
}

fn words(options: &[&str]) -> Vec<OsString> {
    let words = [&["uzswap", "run"], options, &["--", "cmd", "--quiet"]].concat();
    words.into_iter().map(OsString::from).collect()
}

/// The options that these and a command line come to.
fn options(texts: &[&str], variables: &[(&str, &str)], options: &[&str]) -> RunOptions {
    let words = words(options);
    let Verb::Run(given) = Cli::from_arg_matches(&help::command().get_matches_from(&words))
        .unwrap()
        .command
    else {
        panic!("not `uzswap run`")
    };
    let mut settings = settings(texts, variables).unwrap();
    settings
        .under(*given, &words)
        .unwrap_or_else(|Failure(line)| panic!("{line}"))
}

#[track_caller]
fn assert_refused(texts: &[&str], variables: &[(&str, &str)], words: &[&str]) {
    let line = settings(texts, variables).map(|_| ()).unwrap_err();
    assert_eq!(line.lines().count(), 1, "{line}");
    for word in words {
        assert!(line.contains(word), "no {word}: {line}");
    }
}

#[test]
fn each_place_overrules_those_before() {
    let machine = "[run]\nmemory-max = \"1G\"\nbatch = 16\npage-cluster = 1\nbalance = false";
    let user = "run.batch = 32\nrun.page-cluster = 2\n";
    let run = options(&[machine, user], &[("UZSWAP_PAGE_CLUSTER", "4")], &["--spin", "on"]);
    let max = |run: &RunOptions| run.memory_max.as_ref().map(|given| given.value);
    assert_eq!(
        (max(&run), run.batch, run.page_cluster),
        (Some(MemoryMax::Size(Size(1 << 30))), 32, 4)
    );
    assert!(!run.balance.is_on() && run.swap_cache.is_on());
    let run = options(
        &[machine],
        &[("UZSWAP_PAGE_CLUSTER", "4")],
        &["--page-cluster=5", "--memory-max", "2G"],
    );
    assert_eq!(
        (max(&run), run.batch, run.page_cluster),
        (Some(MemoryMax::Size(Size(2 << 30))), 16, 5)
    );
    assert_eq!(run.cmd, ["cmd", "--quiet"]);
}

#[test]
fn nothing_is_set_by_nothing() {
    assert!(
        settings(
            &["", "[run]", "# [run]\n"],
            &[("UZSWAP_BATCH", ""), ("UZSWAP_OTHER", "1")]
        )
        .unwrap()
        .list
        .is_empty()
    );
}

#[test]
fn flags_are_told_and_taken_back() {
    let quiet = "run.quiet = true";
    assert!(options(&[quiet], &[], &[]).report.quiet);
    assert!(!options(&[quiet, "run.quiet = false"], &[], &[]).report.quiet);
    assert!(!options(&[quiet], &[("UZSWAP_QUIET", "0")], &[]).report.quiet);
    assert!(options(&[], &[("UZSWAP_QUIET", "true")], &[]).report.quiet);
    // Those that exclude each other, by the later one.
    for (variables, words) in [(&[("UZSWAP_SUMMARY", "1")][..], &[][..]), (&[], &["--summary"])] {
        let run = options(&[quiet], variables, words);
        assert!(run.report.summary && !run.report.quiet);
    }
    let run = options(&["run.summary = true", quiet], &[], &[]);
    assert!(run.report.quiet && !run.report.summary);
    let run = options(&["run.summary = true"], &[], &["--quiet"]);
    assert!(run.report.quiet && !run.report.summary);
}

#[test]
fn bad_files_are_named_with_line_key_and_rule() {
    for (text, words) in [
        (
            "[run]\nmemory-max = \"12Q\"",
            &["toml:2: memory-max:", "'12Q'", "K, M, G or T"][..],
        ),
        (
            "[run]\n\nbatch = 513",
            &["toml:3: batch:", "'513' must be a whole number from 1 to 512"],
        ),
        ("[run]\nbatch = -1", &["toml:2: batch:", "-1"]),
        (
            "[run]\nbatch = 1.5",
            &["toml:2: batch: 1.5:", "in quotes, or a whole number"],
        ),
        ("[run]\nbatch = 0x10", &["toml:2: batch: 0x10:", "a whole number"]),
        ("[run]\nbatch = [1]", &["toml:2: batch: a list:", "a whole number"]),
        ("[run]\nbatch.a = 1", &["toml:2: batch: a table:", "a whole number"]),
        ("[run]\nbatch = true", &["toml:2: batch: true:", "a whole number"]),
        ("[run]\nmemory-max = 1.5", &["toml:2: memory-max: 1.5: write a text"]),
        ("[run]\nguard = \"yes\"", &["toml:2: guard:", "'yes'", "auto, on, off"]),
        (
            "[run]\nno-writeback = \"maybe\"",
            &["toml:2: no-writeback: \"maybe\": write true or false"],
        ),
        ("[run]\nquiet = 1", &["toml:2: quiet: 1: write true or false"]),
        (
            "[run]\nquiet = \"\"\"a\nb\"\"\"",
            &["toml:2: quiet: \"\"\"a; b\"\"\": write true"],
        ),
        (
            "[run]\nmemory_max = \"1G\"",
            &["toml:2: memory_max:", "no such option", "nearest is memory-max"],
        ),
        (
            "[run]\nmemroy-max = \"1G\"",
            &["toml:2: memroy-max:", "nearest is memory-max"],
        ),
        ("[run]\nxyzzy = 1", &["toml:2: xyzzy:", "`uzswap run --help`"]),
        ("[run]\nfoo = 1", &["toml:2: foo:", "`uzswap run --help` lists them"]),
        ("[run]\n\"x=1 y\" = 1", &["toml:2: x=1 y:", "no such option"]),
        ("[run]\n\"\" = 1", &["toml:2: :", "no such option"]),
        ("[run]\nno-config = true", &["toml:2: no-config:", "no such option"]),
        (
            "[run]\nfail-per-mille = 1",
            &["toml:2: fail-per-mille:", "no such option"],
        ),
        ("[run]\nhelp = true", &["toml:2: help:", "no such option"]),
        ("[run]\nquiet = true\nsummary = true", &["toml:3: summary", "quiet"]),
        ("batch = 1", &["toml:1: batch:", "[run]"]),
        ("[top]\ninterval = 1", &["toml:1: top:", "[run]"]),
        ("run = 1", &["toml:1: run:", "[run]"]),
        ("[run]\nbatch = ", &["toml:2: "]),
        ("[run]\nbatch = 1\nbatch = 2", &["toml:3: ", "duplicate"]),
        ("[run\n", &["toml:1: "]),
    ] {
        assert_refused(&[text], &[], &[&[FILE], words].concat());
    }
}

#[test]
fn bad_variables_are_named_with_the_rule() {
    for (variable, value, word) in [
        ("UZSWAP_MEMORY_MAX", "12Q", "K, M, G or T"),
        ("UZSWAP_MEMORY_MAX", "-5", "not a size"),
        ("UZSWAP_QUIET", "yes", "true or false"),
        ("UZSWAP_SPIN", "no", "auto, on, off"),
        ("UZSWAP_BATCH", "x", "batch: 'x' must be a whole number from 1 to 512"),
    ] {
        assert_refused(&[], &[(variable, value)], &[variable, word]);
    }
}

fn strays(names: &[&str]) -> Vec<String> {
    let command = help::command();
    environment::strays(run_of(&command), names.iter().map(OsString::from))
}

/// Part of a small machine, perhaps, which the command line overrules.
#[test]
fn a_limit_too_small_to_start_with_is_no_mistake_of_a_file() {
    assert!(settings(&["run.memory-max = \"3M\""], &[]).is_ok());
}

#[test]
fn a_variable_that_sets_nothing_is_named_with_the_nearest() {
    let lines = strays(&["UZSWAP_MEMMAX", "UZSWAP_FOO", "UZSWAP_MEMORY_MAX"]);
    assert_eq!(
        lines,
        [
            "UZSWAP_MEMMAX of the environment sets no option of `uzswap run`; the nearest is UZSWAP_MEMORY_MAX",
            "UZSWAP_FOO of the environment sets nothing: no option of `uzswap run` that a variable can set has that name",
        ]
    );
    let others = [
        "UZSWAP",
        "HOME",
        "XUZSWAP_FOO",
        "UZSWAP_PORT",
        "UZSWAP_PORT_80_TCP",
        "UZSWAP_ENV_VERSION",
        "UZSWAP_SERVICE_HOST",
        "UZSWAP_METRICS_SERVICE_PORT",
    ];
    assert_eq!(strays(&others), [""; 0]);
}

/// Whatever the sources name is known: nothing is said of what uzswap itself sets.
#[test]
fn variables_of_our_own_are_no_strays() {
    let mut names = std::collections::BTreeSet::new();
    let mut directories = vec![std::path::PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))];
    while let Some(directory) = directories.pop() {
        for entry in directory.read_dir().unwrap().flatten() {
            let (path, kind) = (entry.path(), entry.file_type().unwrap());
            if kind.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") && !path.ends_with("settings/test.rs") {
                names.extend(variables_of(&std::fs::read_to_string(path).unwrap()));
            }
        }
    }
    assert!(names.contains(uzswap_ctl::ENV_GROUP), "{names:?}");
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    assert_eq!(strays(&names), [""; 0]);
}

/// Names in quotes.
fn variables_of(text: &str) -> Vec<String> {
    let names = text.split("\"UZSWAP_").skip(1).filter_map(|rest| rest.split_once('"'));
    let is_name = |name: &&str| !name.is_empty() && name.chars().all(|c| c.is_ascii_uppercase() || c == '_');
    let names = names.map(|(name, _)| name).filter(is_name);
    names.map(|name| format!("UZSWAP_{name}")).collect()
}

#[test]
fn whoever_set_an_option_is_named_with_its_failure() {
    let settings = settings(&["run.memory-max = \"64M\""], &[("UZSWAP_MEMORY_HIGH", "1G")]).unwrap();
    let said = |line: &str| settings.explain(Failure::new(line)).0;
    assert_eq!(
        said("--memory-max 64M: too little"),
        "--memory-max 64M: too little (--memory-max is set by /etc/uzswap.toml:1)"
    );
    assert_eq!(
        said("--memory-high: no"),
        "--memory-high: no (--memory-high is set by UZSWAP_MEMORY_HIGH of the environment)"
    );
    assert_eq!(said("--memory-maximum"), "--memory-maximum");
    assert_eq!(said("memory-max"), "memory-max");
}

/// All that can be set in a file has a variable of its own, which is none that means something
/// else.
#[test]
fn no_variable_is_taken() {
    let command = help::command();
    let names: Vec<_> = settable(run_of(&command)).map(environment::variable).collect();
    assert!(names.contains(&"UZSWAP_MEMORY_MAX".to_owned()) && names.contains(&"UZSWAP_IAA_MODEL".to_owned()));
    for taken in [uzswap_ctl::ENV_GROUP, uzswap_ctl::ENV_RECORD] {
        assert!(!names.contains(&taken.to_owned()));
    }
}
