//! What CONTRIBUTING.md asks of sources and documents, as far as a program can see it.
//!
//! Each check is a function from text to complaints, with a test of its own that shows it complain;
//! here they read the repository. A complaint names the place and the rule. It is mended at its
//! cause; where a check has a list of exceptions, each one has a reason beside it.

mod comments;
mod constants;
mod documents;
mod imports;
mod site;
mod sizes;
mod source;
mod statics;
mod tokens;
mod unsafe_code;

use source::{Source, all, read};

/// Crates whose statics live in the agent's process.
const IN_AGENT: [&str; 6] = ["agent", "backing", "sys", "acomp", "ctl", "mm"];
const TUNABLES: &str = "crates/mm/src/policy/tunables.rs";
const EXPERIMENTS: &str = "docs/experiments.md";

fn rust() -> Vec<Source> {
    all()
        .iter()
        .filter(|file| file.path.ends_with(".rs"))
        .cloned()
        .collect()
}

fn documents() -> Vec<Source> {
    all()
        .iter()
        .filter(|file| file.path.ends_with(".md"))
        .cloned()
        .collect()
}

/// The map and the pages that it leads to.
fn design() -> Vec<Source> {
    let is_design = |path: &str| path == "ARCHITECTURE.md" || path.starts_with("docs/design/");
    documents().into_iter().filter(|file| is_design(&file.path)).collect()
}

/// The files of the engine by their paths in it, without its tests.
fn engine() -> Vec<Source> {
    let of_engine = |file: Source| {
        let path = file.path.strip_prefix("crates/mm/src/")?.to_owned();
        Some(Source { path, ..file })
    };
    let is_code = |file: &Source| !file.path.starts_with("sim/") && !file.path.ends_with("test.rs");
    rust().into_iter().filter_map(of_engine).filter(is_code).collect()
}

#[track_caller]
fn none(complaints: impl IntoIterator<Item = String>) {
    let complaints: Vec<_> = complaints.into_iter().collect();
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

#[test]
fn comments_wrap() {
    none(
        rust()
            .iter()
            .flat_map(|file| comments::too_long(&file.path, &file.text)),
    );
}

#[test]
fn lines_of_documents_wrap() {
    none(
        documents()
            .iter()
            .flat_map(|file| documents::long_lines(&file.path, &file.text)),
    );
}

#[test]
fn tunables_are_in_one_place() {
    let elsewhere = engine().into_iter().filter(|file| !TUNABLES.ends_with(&file.path));
    none(constants::stray(elsewhere.map(|file| (file.path, file.text))));
}

#[test]
fn tunables_name_experiments() {
    let known = documents::experiments(&read(EXPERIMENTS));
    none(constants::without_experiment(&read(TUNABLES), &known));
}

#[test]
fn policy_imports_pages_and_itself() {
    let policy = engine().into_iter().filter(|file| file.path.starts_with("policy/"));
    none(policy.flat_map(|file| imports::beyond(&["page", "policy"], &file.path, &file.text)));
}

#[test]
fn the_engine_has_no_circle() {
    let files: Vec<_> = engine().into_iter().map(|file| (file.path, file.text)).collect();
    none(imports::circles(&imports::between_modules(&files)));
}

#[test]
fn crates_have_no_circle() {
    let manifests = all().iter().filter(|file| file.path.ends_with("/Cargo.toml"));
    let edges = manifests.flat_map(|file| imports::between_crates(&file.path, &file.text));
    none(imports::circles(&edges.collect()));
}

#[test]
fn statics_are_listed() {
    let list = read("crates/agent/src/statics.rs");
    let found = rust().into_iter().filter_map(|file| {
        let of = IN_AGENT
            .iter()
            .find(|of| file.path.starts_with(&format!("crates/{of}/src/")))?;
        Some(statics::found(of, &file.path, &file.text))
    });
    none(statics::differences(&list, found.flatten().collect()));
}

#[test]
fn unsafe_code_is_at_the_edge() {
    let files = rust().into_iter().map(|file| (file.path, file.text));
    none(unsafe_code::misplaced(files));
}

#[test]
fn files_are_short() {
    none(sizes::too_long(
        rust().into_iter().map(|file| (file.path, file.text.lines().count())),
    ));
}

#[test]
fn pages_are_short() {
    none(
        design()
            .iter()
            .flat_map(|file| documents::too_long(&file.path, &file.text)),
    );
}

#[test]
fn pages_are_linked() {
    let pages = design().into_iter().map(|file| file.path);
    none(documents::unlinked(&read("ARCHITECTURE.md"), pages));
}

#[test]
fn paths_in_documents_exist() {
    let tree = source::tree();
    none(
        documents()
            .iter()
            .flat_map(|file| documents::dead_paths(&file.path, &file.text, &tree)),
    );
}

#[test]
fn links_lead_to_headings() {
    none(site::dead_headings(&documents()));
}

#[test]
fn the_site_has_every_document() {
    none(site::not_once(&documents()));
}

#[test]
fn sentences_are_short() {
    none(
        design()
            .iter()
            .flat_map(|file| documents::long_sentences(&file.path, &file.text)),
    );
}

#[test]
fn experiments_exist_once() {
    let text = read(EXPERIMENTS);
    let known = documents::experiments(&text);
    let is_read = |file: &Source| {
        ["rs", "md", "sh", "py", "c"]
            .iter()
            .any(|ext| file.path.ends_with(&format!(".{ext}")))
    };
    // The examples of these very checks.
    let is_example = |file: &Source| file.path.starts_with("crates/cli/tests/tidy/");
    let cited = all().iter().filter(|file| is_read(file) && !is_example(file));
    let unknown = cited.flat_map(|file| documents::unknown_experiments(&file.path, &file.text, &known));
    none(documents::twice(&text).into_iter().chain(unknown));
}
