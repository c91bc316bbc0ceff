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
    match rest.rsplit_once('@') {
        Some((user, place)) if scheme.starts_with("redis") => {
            let user = user.split_once(':').map_or("", |(name, _)| name);
            format!("{scheme}://{user}:{HIDDEN}@{place}")
        }
        // Of a key perhaps: nobody can tell where it begins.
        Some(_) => format!("{scheme}://{HIDDEN}"),
        None => shown_words(url),
    }
}

fn shown_words(url: &str) -> String {
    let Some((head, words)) = url.split_once('?') else {
        return url.to_owned();
    };
    let word = |word: &str| {
        let name = word.split('=').next().unwrap_or_default();
        match PUBLIC.contains(&name) {
            true => word.to_owned(),
            false => format!("{name}={HIDDEN}"),
        }
    };
    format!("{head}?{}", words.split('&').map(word).collect::<Vec<_>>().join("&"))
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

fn check(scheme: &Scheme, uri: &OperatorUri) -> Result<(), String> {
    let is_known = |word: &str| word == PATIENCE || scheme.words.contains(&word);
    if let Some(word) = uri.options().keys().find(|word| !is_known(word)) {
        let words = [&[PATIENCE], scheme.words].concat().join(", ");
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
        let uri = OperatorUri::new(url, []).map_err(|e| format!("{}; must be {}", problem(&e).0, scheme.form))?;
        check(scheme, &uri)?;
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
