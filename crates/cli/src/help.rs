//! How the command line presents itself: options in groups, examples, the version.

use clap::error::{ContextKind, ContextValue};
use clap::{Arg, Command, CommandFactory, Error};

use crate::options::Cli;

/// With the commit, where it is known.
pub(crate) const VERSION: &str = env!("UZSWAP_VERSION");

const SIZES: &str = "SIZE is a number of bytes, or one with K, M, G or T behind it, which are powers of 1024: 512M, \
                     1.5G. m, MB and MiB are M as well.";
/// Where a size may be a limit.
const LIMITS: &str = "max is no limit.";
const SETTINGS: &str = "Options may be set elsewhere, under their names: below [run] in /etc/uzswap.toml and in uzswap.toml \
                        in $XDG_CONFIG_HOME or ~/.config (memory-max = \"512M\"), or in the environment \
                        (UZSWAP_MEMORY_MAX=512M). Each overrules those before, and the command line all.";
const INSTALL: &str = "`uzswap completions bash|zsh|fish` prints what completes command lines, `uzswap man DIR` writes manual \
                       pages.";
const USAGE_OF_RUN: &str = "uzswap run [OPTIONS] [--] <CMD> [ARG]...";
const RUN: &str = "Examples:
  uzswap run --memory-max 512M -- redis-server
  uzswap run --memory-max 50% --summary -- python3 job.py
  uzswap run --memory-max 1G --compressor zstd --swap /mnt -- make

The exit status is CMD's own, or 128 and the number of the signal that ended it. 125: uzswap itself failed. 126: CMD \
                   cannot be executed. 127: CMD is not found.";
const TRY: &str = "Examples:
  uzswap try -- python3 job.py
  uzswap try --at 80,60,1.5G --runs 5 --slowdown 1.2 -- make -j4
  uzswap try --input data.txt --export-markdown limits.md --swap none -- sort

A row has the share of the time in which CMD waited for pages, and what it loaded again and wrote to the swap file. \
                   Whatever CMD leaves behind is ended after each run.

The exit status is 0 if limits were tried, whatever came of it. 125: uzswap itself failed, or CMD fails without a limit. \
                   126: CMD cannot be executed. 127: CMD is not found. 128 and the number of a signal that ended it.";
const MAIN: &str = "`uzswap doctor` says what this machine allows, `uzswap demo` shows it, `uzswap COMMAND --help` \
                    says more.";

/// Options of `uzswap run` by what they are about.
const HEADINGS: [(&str, &[&str]); 5] = [
    (
        "Limits",
        &[
            "memory_max",
            "stall",
            "memory_high",
            "swap_max",
            "zswap_max",
            "max_pool_percent",
            "accept_threshold_percent",
        ],
    ),
    (
        "Compression",
        &[
            "compressor",
            "recompress",
            "zpool",
            "batch",
            "iaa_model",
            "iaa_verify",
            "iaa_sync_mode",
        ],
    ),
    ("Swap file", &["swap", "no_writeback", "swap_format", "encrypt"]),
    (
        "Reclaim and faults",
        &[
            "shrinker",
            "balance",
            "swap_cache",
            "swapout",
            "policy",
            "folio_max",
            "page_cluster",
            "isolate",
            "backend",
            "guard",
            "faults",
            "kcompressd",
            "fault_threads",
            "spin",
        ],
    ),
    (
        "Group and reports",
        &[
            "name",
            "stat_json",
            "report",
            "log",
            "summary",
            "quiet",
            "allow_unmanaged",
            "no_config",
        ],
    ),
];

/// The name of its value has the words that it takes already.
fn with_heading(arg: Arg) -> Arg {
    let takes_value = arg.get_action().takes_values();
    let arg = if takes_value {
        arg.hide_possible_values(true)
    } else {
        arg
    };
    let id = arg.get_id().as_str();
    let heading = HEADINGS.iter().find(|(_, ids)| ids.contains(&id));
    match heading {
        Some((heading, _)) => arg.help_heading(*heading),
        None => arg,
    }
}

/// The command line, for people.
pub(crate) fn command() -> Command {
    let sizes = |command: Command| command.after_help(SIZES);
    let limits = |command: Command| command.after_help(format!("{SIZES} {LIMITS}"));
    Cli::command()
        .version(VERSION)
        .after_help(MAIN)
        .after_long_help(format!("{MAIN}\n\n{INSTALL}"))
        .mut_subcommand("run", |run| {
            run.mut_args(with_heading)
                .override_usage(USAGE_OF_RUN)
                .after_help(format!("{SIZES} {LIMITS}"))
                .after_long_help(format!("{SIZES} {LIMITS}\n\n{SETTINGS}\n\n{RUN}"))
        })
        .mut_subcommand("try", |try_limits| {
            try_limits
                .mut_args(with_heading)
                .after_help(SIZES)
                .after_long_help(format!("{SIZES}\n\n{TRY}"))
        })
        .mut_subcommand("set", limits)
        .mut_subcommand("reclaim", sizes)
        .mut_subcommand("zram", sizes)
}

/// An error without clap's advice to put an unknown option behind `--`: it would be CMD there, or
/// the name of a group.
pub(crate) fn without_tips(mut error: Error) -> Error {
    let Some(ContextValue::StyledStrs(mut tips)) = error.remove(ContextKind::Suggested) else {
        return error;
    };
    tips.retain(|tip| !tip.to_string().starts_with("to pass "));
    if !tips.is_empty() {
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
    }
    error
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn nobody_is_told_to_make_a_command_of_an_option() {
        let error = |words: &[&str]| {
            let words = [&["uzswap"], words].concat();
            let error = command().try_get_matches_from(words).unwrap_err();
            without_tips(error).to_string()
        };
        for words in [
            &["run", "--bogus"][..],
            &["run", "--bogus", "cmd"],
            &["stat", "--bogus"],
        ] {
            let error = error(words);
            assert!(error.contains("unexpected argument '--bogus'"), "{error}");
            assert!(!error.contains("tip") && !error.contains("-- --bogus"), "{error}");
        }
        let error = error(&["run", "--memroy-max", "1G", "cmd"]);
        assert!(error.contains("a similar argument exists: '--memory-max'"), "{error}");
    }

    const WIDTH: usize = 80;

    /// The command and all below, with their names.
    fn all(command: &Command, name: &str, found: &mut Vec<(String, Command)>) {
        let name = format!("{name} {}", command.get_name());
        found.push((name.clone(), command.clone()));
        let shown = command.get_subcommands().filter(|below| !below.is_hide_set());
        shown.for_each(|below| all(below, &name, found));
    }

    fn texts() -> Vec<(String, String)> {
        let mut command = command().term_width(WIDTH);
        command.build();
        let mut found = Vec::new();
        all(&command, "", &mut found);
        let both = |(name, mut command): (String, Command)| {
            let texts = [command.render_help(), command.render_long_help()];
            texts.map(|text| (name.clone(), text.to_string()))
        };
        found.into_iter().flat_map(both).collect()
    }

    #[test]
    fn no_line_is_wider_than_a_terminal() {
        let texts = texts();
        assert!(texts.len() > 20);
        for (name, text) in texts {
            let long: Vec<_> = text.lines().filter(|line| line.chars().count() > WIDTH).collect();
            assert!(long.is_empty(), "{name}: {long:#?}");
        }
    }

    /// Each word of the help of each option is in one line.
    #[test]
    fn no_word_is_broken() {
        let mut run = command().find_subcommand("run").unwrap().clone().term_width(WIDTH);
        let text = run.render_long_help().to_string();
        let words: std::collections::HashSet<&str> = text.split_whitespace().collect();
        for arg in run.get_arguments().filter(|arg| !arg.is_hide_set()) {
            let help = arg.get_long_help().or(arg.get_help()).unwrap().to_string();
            for word in help.split_whitespace() {
                assert!(words.contains(word), "--{}: {word}", arg.get_id());
            }
        }
    }

    #[test]
    fn each_option_of_run_has_its_group() {
        let command = command();
        let run = command.find_subcommand("run").unwrap();
        let options: Vec<_> = run.get_opts().filter(|arg| !arg.is_hide_set()).collect();
        let lacks: Vec<_> = options.iter().filter(|arg| arg.get_help_heading().is_none()).collect();
        assert!(lacks.is_empty(), "{lacks:#?}");
        let listed: Vec<_> = HEADINGS.iter().flat_map(|(_, ids)| *ids).collect();
        assert_eq!(listed.len(), options.len());
    }

    #[test]
    fn each_option_has_one_line_in_the_short_help() {
        let mut run = command().find_subcommand("run").unwrap().clone().term_width(WIDTH);
        let text = run.render_help().to_string();
        let options = run.get_opts().filter(|arg| !arg.is_hide_set());
        for arg in options {
            let option = format!("      --{}", arg.get_long().unwrap());
            let line = text
                .lines()
                .find(|line| line.split(" <").next() == Some(&option) || line.starts_with(&format!("{option}  ")));
            let help = arg.get_help().unwrap().to_string();
            assert!(
                line.is_some_and(|line| line.contains(&help)),
                "{option}: {line:?} has no '{help}'"
            );
        }
        let others = text.lines().filter(|line| line.starts_with("        "));
        assert_eq!(others.count(), 0, "{text}");
    }
}
