//! What an installation has beside the executable: manual pages, and completions for shells. Both
//! are made of the declarations that parse the command line, so that nothing is told twice.

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Arg, Command};
use clap_complete::Shell as Generator;
use clap_mangen::Man;
use uzswap_mm::zpool::ZpoolType;
use uzswap_mm::{Replacement, SwapOut};

use crate::choices::Shell;
use crate::options::{CompletionsOptions, ManOptions};
use crate::{Failure, help, output, setting};

const NAME: &str = "uzswap";
const MANUAL: &str = "User Commands";
/// No day is told, so that the same sources make the same pages. Without any the rest would move
/// up.
const NO_DATE: &str = " ";
/// Of its own, clap has only zsh complete CMD.
const COMMANDS_BASH: &str = include_str!("install/commands.bash");
const COMMANDS_FISH: &str = include_str!("install/commands.fish");
/// Where a script of these has the keys of `uzswap set`.
const KEYS: &str = "@KEYS@";
/// Without levels and -parallel. The last two are for programs alone.
const COMPRESSORS: [&str; 6] = ["words", "lz4", "zstd", "deflate", "zstd-dict", "deflate-iaa"];
const OF_DEVICES: usize = 4;

/// Print what completes this command line.
pub(crate) fn completions(options: &CompletionsOptions) -> Result<u8, Failure> {
    let (generator, more) = match options.shell {
        Shell::Bash => (Generator::Bash, COMMANDS_BASH),
        Shell::Zsh => (Generator::Zsh, ""),
        Shell::Fish => (Generator::Fish, COMMANDS_FISH),
    };
    let mut script = Vec::new();
    clap_complete::generate(generator, &mut shown(&help::command()), NAME, &mut script);
    let more = more.replace(KEYS, setting::help().trim_start_matches("KEY=VALUE: "));
    output::print(&format!("{}{more}", String::from_utf8_lossy(&script))).map(|()| 0)
}

/// Words that an option takes, the parser of which does not say them.
fn words(command: &str, option: &str) -> Option<Vec<&'static str>> {
    Some(match (command, option) {
        ("zram", "compressor") => COMPRESSORS[..OF_DEVICES].to_vec(),
        ("run" | "try", "compressor") => COMPRESSORS.to_vec(),
        ("run" | "try", "recompress") => [&["none"], &COMPRESSORS[..]].concat(),
        ("run" | "try", "policy") => Replacement::ALL.map(Replacement::name).to_vec(),
        ("run" | "try", "swapout") => SwapOut::ALL.map(SwapOut::name).to_vec(),
        ("run" | "try" | "zram", "zpool") => ZpoolType::ALL.map(ZpoolType::name).to_vec(),
        _ => return None,
    })
}

fn with_words(command: &Command, arg: &Arg) -> Arg {
    match words(command.get_name(), arg.get_id().as_str()) {
        // The default has a level behind it.
        Some(words) => {
            let parser = PossibleValuesParser::new(words);
            arg.clone().default_value(None::<&str>).value_parser(parser)
        }
        None => arg.clone(),
    }
}

/// The command without what its help does not show: completions would offer that.
fn shown(command: &Command) -> Command {
    let args = command.get_arguments().filter(|arg| !arg.is_hide_set());
    let args = args.map(|arg| with_words(command, arg));
    let below = command.get_subcommands().filter(|below| !below.is_hide_set());
    let copy = Command::new(command.get_name().to_owned())
        .disable_help_subcommand(true)
        .args(args)
        .subcommands(below.map(shown));
    let copy = match command.get_version() {
        Some(version) => copy.version(version.to_owned()),
        None => copy,
    };
    match command.get_about() {
        Some(about) => copy.about(about.clone()),
        None => copy,
    }
}

/// Write a page for each command that is shown.
pub(crate) fn man(options: &ManOptions) -> Result<u8, Failure> {
    let dir = &options.dir;
    std::fs::create_dir_all(dir).map_err(|e| Failure::of(dir, &e))?;
    let mut command = help::command().disable_help_subcommand(true);
    command.build();
    pages(&command).into_iter().try_for_each(|(name, page)| {
        let path = dir.join(name);
        std::fs::write(&path, page).map_err(|e| Failure::of(&path, &e))
    })?;
    Ok(0)
}

/// The pages of a command and all below, with the names of their files.
fn pages(command: &Command) -> Vec<(PathBuf, String)> {
    let below = command.get_subcommands().filter(|below| !below.is_hide_set());
    let below = below.flat_map(pages);
    std::iter::once(page(command)).chain(below).collect()
}

fn page(command: &Command) -> (PathBuf, String) {
    let source = concat!("uzswap ", env!("CARGO_PKG_VERSION"));
    let man = Man::new(command.clone()).date(NO_DATE).source(source).manual(MANUAL);
    let mut page = Vec::new();
    man.render(&mut page).expect("memory takes all");
    // Only examples and notes stand there.
    let page = String::from_utf8_lossy(&page).replace("\n.SH EXTRA\n", "\n.SH NOTES\n");
    (man.get_filename().into(), page)
}

#[cfg(test)]
mod test {
    use super::*;

    /// All of them, and nothing else.
    #[test]
    fn words_that_are_offered_are_taken() {
        let (whole, shown) = (help::command(), shown(&help::command()));
        for (name, more) in [
            ("run", &["cmd"][..]),
            ("try", &["cmd"]),
            ("zram", &["--size=1M", "--socket=x"]),
        ] {
            let below = whole.find_subcommand(name).unwrap();
            let offered = shown.find_subcommand(name).unwrap().get_arguments();
            let mut options = 0;
            for arg in offered.filter(|arg| words(name, arg.get_id().as_str()).is_some()) {
                options += 1;
                for word in arg.get_possible_values() {
                    let option = format!("--{}={}", arg.get_id(), word.get_name());
                    let words = [&[name, &option], more].concat();
                    below.clone().try_get_matches_from(words).unwrap();
                }
            }
            assert_eq!(options, if name == "zram" { 2 } else { 5 });
        }
    }

    #[test]
    fn what_is_hidden_is_not_completed() {
        let whole = shown(&help::command());
        let names: Vec<_> = whole.get_subcommands().map(Command::get_name).collect();
        assert!(names.contains(&"run") && !names.contains(&"workload"), "{names:?}");
        let run = whole.find_subcommand("run").unwrap();
        let has = |name| run.get_arguments().any(|arg| arg.get_long() == Some(name));
        assert!(has("memory-max") && !has("fail-per-mille"));
    }
}
