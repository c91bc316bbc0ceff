//! Remotes by their URLs, through OpenDAL.

use std::error::Error;
use std::time::Duration;

use opendal::{ErrorKind, Operator, OperatorUri};
use percent_encoding::percent_decode_str;

use crate::store::{Place, Problem, Store};

/// A scheme, and the words that its URL may have behind the question mark.
struct Scheme {
    name: &'static str,
    form: &'static str,
    words: &'static [&'static str],
    /// Whether a machine or a bucket must be named.
    has_name: bool,
}

const SCHEMES: [Scheme; 5] = [
    Scheme {
        name: "redis",
        form: "redis://[[USER]:PASSWORD@]HOST[:PORT][/DB]",
        words: &[],
        has_name: true,
    },
    Scheme {
        name: "rediss",
        form: "rediss://[[USER]:PASSWORD@]HOST[:PORT][/DB]",
        words: &[],
        has_name: true,
    },
    Scheme {
        name: "s3",
        form: "s3://BUCKET[/PREFIX]?endpoint=URL&region=NAME",
        words: &[
            "endpoint",
            "region",
            "access_key_id",
            "secret_access_key",
            "session_token",
        ],
        has_name: true,
    },
    Scheme {
        name: "fs",
        form: "fs:///DIRECTORY",
        words: &[],
        has_name: false,
    },
    Scheme {
        name: "memory",
        form: "memory:///",
        words: &[],
        has_name: false,
    },
];

/// How long a fetch is tried.
const PATIENCE: &str = "patience";
const PATIENCE_DEFAULT: u64 = 30;
const PATIENCE_MOST: u64 = 3600;
/// What a password is shown as.
const HIDDEN: &str = "***";
/// Words whose values are shown.
const PUBLIC: [&str; 3] = ["endpoint", "region", PATIENCE];

/// A remote that OpenDAL has.
#[derive(Clone, Debug)]
pub struct Service(Operator);

/// An URL for people: without its password and its keys, whatever characters they have.
pub fn shown(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or((url, ""));
    let shown = match (scheme, rest.rsplit_once('@')) {
        ("redis" | "rediss", Some((user, place))) => {
            let user = user.split_once(':').map_or("", |(name, _)| name);
            format!("{user}:{HIDDEN}@{}", shown_words(place))
        }
        ("fs" | "memory", _) => shown_words(rest),
        (_, None) => shown_words(&shown_place(rest)),
        // Of a key perhaps: nobody can tell where it begins.
        (_, Some(_)) => HIDDEN.to_owned(),
    };
    match url.contains("://") {
        true => format!("{scheme}://{shown}"),
        false => url.to_owned(),
    }
}

/// A server or a bucket without a user: behind its name nothing is shown but a port, as it may be
/// a password whose `@` was forgotten or encoded.
fn shown_place(rest: &str) -> String {
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, tail) = rest.split_at(end);
    let name_ends = authority.find(']').unwrap_or(0);
    let port = authority[name_ends..].find(':').map(|at| name_ends + at);
    let (name, port) = authority.split_at(port.unwrap_or(authority.len()));
    let is_port = port.len() <= 6 && port.bytes().skip(1).all(|byte| byte.is_ascii_digit());
    match name {
        name if name.contains('%') => format!("{HIDDEN}{tail}"),
        name if port.is_empty() || !name.is_empty() && is_port => format!("{name}{port}{tail}"),
        name => format!("{name}:{HIDDEN}{tail}"),
    }
}

/// What is behind the scheme, with the values of such words alone as have no secret.
fn shown_words(rest: &str) -> String {
    let (place, words) = rest.split_once('?').unwrap_or((rest, ""));
    let place = match place.split_once(['#', ';']) {
        Some((place, _)) => format!("{place}{HIDDEN}"),
        None => place.to_owned(),
    };
    let word = |word: &str| {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        let value = percent_decode_str(value).decode_utf8_lossy();
        match PUBLIC.contains(&name) && !value.contains(['@', '#', ';']) {
            true => word.to_owned(),
            false => format!("{}={HIDDEN}", name.split(['#', ';']).next().unwrap_or_default()),
        }
    };
    match words {
        "" => place,
        words => format!("{place}?{}", words.split('&').map(word).collect::<Vec<_>>().join("&")),
    }
}

/// How long a fetch is tried.
fn patience(text: Option<&str>) -> Result<Duration, String> {
    let Some(text) = text else {
        return Ok(Duration::from_secs(PATIENCE_DEFAULT));
    };
    let seconds = text.parse().ok().filter(|n| (1..=PATIENCE_MOST).contains(n));
    seconds
        .map(Duration::from_secs)
        .ok_or_else(|| format!("{PATIENCE}={text} must be a number of seconds from 1 to {PATIENCE_MOST}"))
}

fn scheme_of(url: &str) -> Result<&'static Scheme, String> {
    let name = url.split_once("://").map_or(url, |(name, _)| name);
    let names = || SCHEMES.map(|scheme| scheme.name).join(", ");
    SCHEMES
        .iter()
        .find(|scheme| scheme.name == name)
        .ok_or_else(|| format!("unknown scheme '{name}': the schemes are {}", names()))
}

/// Characters that end a part of an URL, where they can only be of a password.
fn check_characters(scheme: &Scheme, url: &str) -> Result<(), String> {
    let (_, rest) = url.split_once("://").unwrap_or_default();
    let authority_ends = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    if scheme.name.starts_with("redis") && rest[authority_ends..].contains('@') {
        return Err("in a password `/` is written %2F, `?` %3F and `#` %23".to_owned());
    }
    match rest.contains('#') {
        true => Err("`#` is written %23".to_owned()),
        false => Ok(()),
    }
}

fn check(scheme: &Scheme, uri: &OperatorUri, shown: &str) -> Result<(), String> {
    let is_known = |word: &str| word == PATIENCE || scheme.words.contains(&word);
    if let Some(word) = uri.options().keys().find(|word| !is_known(word)) {
        let words = [&[PATIENCE], scheme.words].concat().join(", ");
        // It may be the end of a key.
        let word = if shown.contains(word) { word } else { HIDDEN };
        return Err(format!("unknown word '{word}': those for {} are {words}", scheme.name));
    }
    match scheme.has_name && uri.name().is_none() || scheme.name == "fs" && uri.root().is_none() {
        true => Err(format!("must be {}", scheme.form)),
        false => Ok(()),
    }
}

/// What OpenDAL is to be told.
fn words(scheme: &Scheme, uri: &OperatorUri) -> Vec<(String, String)> {
    let mut words: Vec<_> = uri.options().clone().into_iter().collect();
    let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
    if scheme.name.starts_with("redis") {
        let address = uri.authority().unwrap_or_default();
        words.push(("endpoint".to_owned(), format!("{}://{address}", scheme.name)));
        words.extend(uri.username().map(|name| ("username".to_owned(), decoded(name))));
        words.extend(uri.password().map(|word| ("password".to_owned(), decoded(word))));
    }
    words
}

/// The innermost reason, which says most; else what the service answered.
fn problem(error: &opendal::Error) -> Problem {
    let reasons = std::iter::successors(error.source(), |why| (*why).source());
    let said = reasons
        .last()
        .map_or_else(|| error.message().to_owned(), ToString::to_string);
    let line = said.lines().next().unwrap_or_default();
    Problem(match error.kind() {
        ErrorKind::NotFound | ErrorKind::PermissionDenied => format!("{}: {line}", error.kind()),
        _ => line.to_owned(),
    })
}

impl Service {
    /// The remote of an URL, and where a run's segments go there: under a name that no other run
    /// has. Nothing is asked of it yet.
    ///
    /// # Errors
    /// The rule that the URL does not follow.
    pub fn of_url(url: &str, run: &str) -> Result<(Self, Place), String> {
        // Once for the process; a second one is refused, and is the same.
        let _ = rustls::crypto::ring::default_provider().install_default();
        opendal_http_transport_reqwest::install_default();
        let scheme = scheme_of(url)?;
        check_characters(scheme, url)?;
        let uri = OperatorUri::new(url, []).map_err(|e| format!("{}; must be {}", problem(&e).0, scheme.form))?;
        check(scheme, &uri, &shown(url))?;
        let patience = patience(uri.option(PATIENCE))?;
        // OpenDAL has one name for both of redis, and takes the safe one from the address.
        let name = scheme.name.replace("rediss", "redis");
        let base = url.replacen(scheme.name, &name, 1);
        let uri = OperatorUri::new(&base, words(scheme, &uri)).map_err(|e| problem(&e).0)?;
        let store = Operator::from_uri(uri).map_err(|e| problem(&e).0)?;
        let place = Place {
            shown: shown(url),
            prefix: format!("uzswap-{run}"),
            patience,
        };
        Ok((Self(store), place))
    }
}

impl Store for Service {
    async fn put(&self, key: &str, bytes: &[u8]) -> Result<(), Problem> {
        let put = self.0.write(key, bytes.to_vec()).await;
        put.map(drop).map_err(|e| problem(&e))
    }

    async fn get(&self, key: &str) -> Result<Vec<u8>, Problem> {
        let got = self.0.read(key).await;
        got.map(|bytes| bytes.to_vec()).map_err(|e| problem(&e))
    }

    async fn delete(&self, key: &str) -> Result<(), Problem> {
        self.0.delete(key).await.map_err(|e| problem(&e))
    }
}

#[cfg(test)]
mod test {
    use super::*;

    fn refused(url: &str) -> String {
        Service::of_url(url, "x").expect_err(url)
    }

    #[test]
    fn an_url_that_follows_no_rule_is_refused_with_the_rule() {
        for (url, parts) in [
            (
                "http://host/",
                ["unknown scheme 'http'", "redis, rediss, s3, fs, memory"],
            ),
            ("redis:///0", ["must be redis://", "HOST"]),
            ("redis://host:99999/", ["port", "must be redis://"]),
            ("redis://host/?endpoint=x", ["unknown word 'endpoint'", "patience"]),
            ("s3://", ["must be s3://", "BUCKET"]),
            (
                "s3://bucket?region=a&pateince=3",
                ["unknown word 'pateince'", "endpoint, region"],
            ),
            ("fs://", ["must be fs:///", "DIRECTORY"]),
            ("memory:///?patience=0", ["patience=0", "from 1 to 3600"]),
            ("memory:///?patience=x", ["patience=x", "seconds"]),
        ] {
            let line = refused(url);
            assert!(parts.iter().all(|part| line.contains(part)), "{url}: {line}");
        }
    }

    #[test]
    fn a_refusal_has_nothing_of_a_password() {
        for (url, rule) in [
            ("redis://me:12?hush@host/0", "is written %2F"),
            ("redis://me:12/hush@host/0", "is written %2F"),
            ("redis://me:12#hush@host/0", "is written %2F"),
            ("redis://me:hush", "must be redis://"),
            ("s3://b?region=r#hush", "is written %23"),
            ("s3://b?secret_access_key=a&hush@", "unknown word '***'"),
        ] {
            let line = refused(url);
            assert!(line.contains(rule) && !line.contains("hush"), "{url}: {line}");
        }
    }

    #[test]
    fn an_url_that_follows_them_is_taken() {
        for url in [
            "redis://127.0.0.1",
            "redis://:p%40ss@host:7000/2?patience=5",
            "rediss://user:word@host/1",
            "s3://bucket/some/prefix?endpoint=http://127.0.0.1:9000&region=us-east-1",
            "memory:///",
        ] {
            let (_, place) = Service::of_url(url, "ab").unwrap_or_else(|line| panic!("{url}: {line}"));
            assert_eq!(place.prefix, "uzswap-ab");
        }
        let (_, place) = Service::of_url("memory:///?patience=5", "ab").unwrap();
        assert_eq!(place.patience, Duration::from_secs(5));
    }

    #[test]
    fn a_password_is_shown_to_nobody() {
        for (url, line) in [
            ("redis://host/0", "redis://host/0"),
            ("redis://:a@b@host/0", "redis://:***@host/0"),
            ("redis://me:word@host", "redis://me:***@host"),
            ("redis://word@host", "redis://:***@host"),
            (
                "redis://me:w?o&r=d/@host/0?patience=3",
                "redis://me:***@host/0?patience=3",
            ),
            ("redis://me:a#b@host/0", "redis://me:***@host/0"),
            (
                "redis://:word@host/0?patience=3&x=y",
                "redis://:***@host/0?patience=3&x=***",
            ),
            ("redis://:word", "redis://:***"),
            ("s3://", "s3://"),
            ("redis://me:word%40host/0", "redis://me:***/0"),
            ("redis://word%40host/0", "redis://***/0"),
            ("redis://host:6379/0", "redis://host:6379/0"),
            ("rediss://[::1]:7000", "rediss://[::1]:7000"),
            ("rediss://[::1]:word", "rediss://[::1]:***"),
            ("fs:///mnt/a@b/c", "fs:///mnt/a@b/c"),
            ("s3://b#secret_access_key=k", "s3://b***"),
            ("s3://b;secret_access_key=k", "s3://b***"),
            ("s3://b?region=r#secret_access_key=k", "s3://b?region=***"),
            ("s3://b?region=r;secret_access_key=k", "s3://b?region=***"),
            (
                "s3://b?endpoint=http%3A%2F%2Fuser%3Apw%40h&region=r",
                "s3://b?endpoint=***&region=r",
            ),
            (
                "s3://b?endpoint=http://h:9000&region=r",
                "s3://b?endpoint=http://h:9000&region=r",
            ),
            ("s3://b?secret_access_key=a@b&region=r", "s3://***"),
            ("s3://b?Secret_Access_Key=a&x", "s3://b?Secret_Access_Key=***&x=***"),
            (
                "s3://b/p?region=r&secret_access_key=k&patience=3",
                "s3://b/p?region=r&secret_access_key=***&patience=3",
            ),
        ] {
            assert_eq!(shown(url), line);
        }
    }

    #[test]
    fn a_directory_gives_back_what_it_got() {
        let dir = std::env::temp_dir().join(format!("uzswap-service-{}", std::process::id()));
        std::fs::create_dir(&dir).unwrap();
        let (store, place) = Service::of_url(&format!("fs://{}", dir.display()), "ab").unwrap();
        let probed = crate::wait_for(crate::probe(store.clone(), &place)).unwrap();
        assert_eq!(probed, Ok(()));
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
