//! Settings of files: the table `[run]` of /etc/uzswap.toml and of the user's own uzswap.toml.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Read};
use std::ops::Range;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use clap::{Arg, Command};
use rustix::fs::OFlags;
use rustix::process::{getegid, geteuid, getgid, getuid};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::near::nearest;
use super::place::Place;
use super::{RUN, Setting, is_flag, name, settable};
use crate::Failure;

const MACHINE: &str = "/etc/uzswap.toml";
const USER: &str = "uzswap.toml";
/// More is no file of settings, but a device, say.
const LENGTH_MAX: u64 = 1 << 20;
const WRITABLE_BY_ANYBODY: u32 = 0o002;

/// What is found at a path.
pub(super) enum File {
    Text(PathBuf, String),
    /// It is not read: a line that says why.
    Untrusted(String),
}

/// The files that there are, the machine's first.
pub(super) fn all() -> impl Iterator<Item = Result<File, Failure>> {
    let user = user_path().and_then(|path| read_user(&path, geteuid().as_raw()).transpose());
    read_machine(Path::new(MACHINE)).transpose().into_iter().chain(user)
}

/// Where the user's own would be. Nowhere for a program with more rights than whoever called it
/// (set-uid, set-gid): the environment that says where is not to be believed then.
fn user_path() -> Option<PathBuf> {
    if getuid() != geteuid() || getgid() != getegid() {
        return None;
    }
    let directory = |name| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let config = directory("XDG_CONFIG_HOME").or_else(|| Some(directory("HOME")?.join(".config")));
    Some(config?.join(USER))
}

/// A file that the administrator made and we may not read holds limits that would be passed by.
fn read_machine(path: &Path) -> Result<Option<File>, Failure> {
    let unreadable = |e: std::io::Error| Failure::new(format!("{}: {e}; --no-config does without", path.display()));
    match open(path) {
        Ok(file) => text(file, path).map(|text| Some(File::Text(path.to_owned(), text))),
        Err(e) if is_missing(&e) => Ok(None),
        Err(e) => Err(unreadable(e)),
    }
}

/// Root with another's HOME, as `sudo` may leave it, must not do what that user wrote: to write a
/// swap file somewhere, say. Nor must anybody do what everybody may write.
fn read_user(path: &Path, user: u32) -> Result<Option<File>, Failure> {
    // With another's HOME we may not even look into it.
    let Ok(file) = open(path) else {
        return Ok(None);
    };
    // Of what was opened: a name may lead elsewhere a moment later.
    let metadata = file.metadata().map_err(|e| Failure::of(path, &e))?;
    let untrusted = |why: &str| Ok(Some(File::Untrusted(format!("{} is not read: {why}", path.display()))));
    if metadata.uid() != user && metadata.uid() != 0 {
        return untrusted(&format!("it belongs to user {}, not to user {user}", metadata.uid()));
    }
    if metadata.mode() & WRITABLE_BY_ANYBODY != 0 {
        return untrusted("anybody may write it; `chmod o-w` it");
    }
    text(file, path).map(|text| Some(File::Text(path.to_owned(), text)))
}

fn is_missing(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

/// Nobody is waited for, should it be a pipe.
fn open(path: &Path) -> std::io::Result<std::fs::File> {
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    OpenOptions::new().read(true).custom_flags(flags).open(path)
}

fn text(file: std::fs::File, path: &Path) -> Result<String, Failure> {
    let rule = |rule: &str| Failure::new(format!("{}: {rule}", path.display()));
    let is_file = file.metadata().map_err(|e| Failure::of(path, &e))?.is_file();
    if !is_file {
        return Err(rule("it is not a file"));
    }
    let mut bytes = Vec::new();
    file.take(LENGTH_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(|e| Failure::of(path, &e))?;
    if bytes.len() as u64 > LENGTH_MAX {
        return Err(rule("a file of settings has at most 1 MiB"));
    }
    String::from_utf8(bytes).map_err(|_| rule("it is not UTF-8, as TOML has to be"))
}

/// The settings of a text.
///
/// # Errors
/// It is no TOML, or something else than settings in a table `[run]`: a line that names file, line
/// and rule.
pub(super) fn settings(run: &Command, path: &Path, text: &str) -> Result<Vec<Setting>, Failure> {
    let place = |span: Range<usize>| Place::Line(path.to_owned(), line(text, span.start));
    let at = |span: Range<usize>, rule: String| Failure::new(format!("{}: {rule}", place(span)));
    let parsed = DeTable::parse(text);
    let tables = parsed.map_err(|e| at(e.span().unwrap_or_default(), one_line(e.message())))?;
    let mut settings = Vec::new();
    for (name, value) in tables.get_ref() {
        let table = value.get_ref().as_table().filter(|_| name.get_ref() == RUN);
        let stray = || {
            at(
                name.span(),
                format!("{}: settings stand in the table [run]", name.get_ref()),
            )
        };
        for (key, value) in table.ok_or_else(stray)? {
            let setting = setting(run, key.get_ref(), (value, text), place(key.span()))?;
            refuse_both(run, &settings, &setting)?;
            settings.push(setting);
        }
    }
    Ok(settings)
}

/// `text` is the whole file.
fn setting(
    run: &Command,
    key: &str,
    (value, text): (&Spanned<DeValue<'_>>, &str),
    place: Place,
) -> Result<Setting, Failure> {
    let found = option(run, key).and_then(|arg| Ok((arg, word(arg, value, text)?)));
    let (arg, value) = found.map_err(|rule| Failure::new(format!("{place}: {rule}")))?;
    Setting::new(run, arg, value, place)
}

/// One file cannot want two things of which one excludes the other.
fn refuse_both(run: &Command, settings: &[Setting], new: &Setting) -> Result<(), Failure> {
    let excludes = |old: &&Setting| new.excludes(run, &old.arg) && old.excludes(run, &new.arg);
    match settings.iter().find(excludes) {
        Some(old) => Err(Failure::new(format!(
            "{}: {} does not go with {}",
            new.place,
            name(&new.arg),
            name(&old.arg)
        ))),
        None => Ok(()),
    }
}

fn line(text: &str, offset: usize) -> usize {
    1 + text.bytes().take(offset).filter(|byte| *byte == b'\n').count()
}

fn one_line(message: &str) -> String {
    message.lines().map(str::trim).collect::<Vec<_>>().join("; ")
}

/// The option of that name.
fn option<'run>(run: &'run Command, key: &str) -> Result<&'run Arg, String> {
    let found = settable(run).find(|arg| arg.get_long() == Some(key));
    let names = settable(run).map(name);
    found.ok_or_else(|| match nearest(key, names) {
        Some(other) => format!("{key}: `uzswap run` has no such option that can be set here; the nearest is {other}"),
        None => format!("{key}: `uzswap run` has no such option that can be set here; `uzswap run --help` lists them"),
    })
}

/// A value as the command line would have it; `text` is the whole file.
fn word(arg: &Arg, value: &Spanned<DeValue<'_>>, text: &str) -> Result<OsString, String> {
    let takes = |word| arg.get_possible_values().iter().any(|value| value.get_name() == word);
    let rule = |rule: &str| Err(format!("{}: {}: {rule}", name(arg), written(value, text)));
    match value.get_ref() {
        DeValue::Boolean(is_so) if is_flag(arg) => Ok(is_so.to_string().into()),
        _ if is_flag(arg) => rule("write true or false"),
        DeValue::String(text) => Ok(text.as_ref().into()),
        DeValue::Integer(number) if number.radix() == 10 => Ok(number.as_str().into()),
        DeValue::Boolean(true) if takes("on") => Ok("on".into()),
        DeValue::Boolean(false) if takes("off") => Ok("off".into()),
        _ => rule("write a text in quotes, or a whole number"),
    }
}

/// A value as it stands in the file.
fn written(value: &Spanned<DeValue<'_>>, text: &str) -> String {
    match value.get_ref() {
        DeValue::Array(_) => "a list".to_owned(),
        DeValue::Table(_) => "a table".to_owned(),
        _ => one_line(text.get(value.span()).unwrap_or_default()),
    }
}

#[cfg(test)]
mod test {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// What is read of a user's file: its text, or a line.
    fn read(path: &Path, user: u32) -> Result<String, String> {
        match read_user(path, user) {
            Ok(Some(File::Text(_, text))) => Ok(text),
            Ok(Some(File::Untrusted(line))) | Err(Failure(line)) => Err(line),
            Ok(None) => Err("nothing".into()),
        }
    }

    #[test]
    fn a_file_that_others_have_a_say_in_is_not_read() {
        let path = std::env::temp_dir().join(format!("uzswap-settings-{}", std::process::id()));
        std::fs::write(&path, "[run]").unwrap();
        let user = geteuid().as_raw();
        let mode = |mode| std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        mode(0o664);
        assert_eq!(read(&path, user).as_deref(), Ok("[run]"));
        // Root's own are anybody's, so root looks at another's.
        let is_other = user != 0 || std::os::unix::fs::chown(&path, Some(user + 1), None).is_ok();
        if is_other {
            let line = read(&path, if user == 0 { 0 } else { user + 1 }).unwrap_err();
            assert!(line.contains("is not read: it belongs to user"), "{line}");
        }
        let _ = std::os::unix::fs::chown(&path, Some(user), None);
        mode(0o666);
        let line = read(&path, user).unwrap_err();
        assert!(line.contains("is not read: anybody may write it"), "{line}");
        mode(0o600);
        for (bytes, rule) in [(vec![0xff], "not UTF-8"), (vec![b'#'; 2 << 20], "at most 1 MiB")] {
            std::fs::write(&path, bytes).unwrap();
            let line = read(&path, user).unwrap_err();
            assert!(line.contains(path.to_str().unwrap()) && line.contains(rule), "{line}");
        }
        std::fs::remove_file(&path).unwrap();
        assert_eq!(read(&path, user).unwrap_err(), "nothing");
        assert_eq!(read(&path.join("below"), user).unwrap_err(), "nothing");
        assert!(read(Path::new("/"), user).unwrap_err().contains("not a file"));
    }

    #[test]
    fn a_file_of_the_machine_is_there_or_not() {
        assert!(matches!(read_machine(Path::new("/no/such/file")), Ok(None)));
        assert!(read_machine(Path::new("/etc")).is_err());
    }
}
