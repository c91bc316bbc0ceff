//! What a remote can do, and trying it again.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::{sleep, timeout};
use uzswap_ctl::remote::SEGMENT_BYTES;
use xxhash_rust::xxh3::xxh3_64;

/// Between two tries: at first, and at most.
const PAUSE_FIRST: Duration = Duration::from_millis(50);
const PAUSE_MOST: Duration = Duration::from_secs(2);
/// How long one try may take.
const ANSWERED_WITHIN: Duration = Duration::from_secs(10);

/// Why a remote did not do what was asked: in a few words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem(pub String);

/// Objects by their keys.
pub trait Store: Clone + Send + Sync + 'static {
    /// Have an object.
    fn put(&self, key: &str, bytes: &[u8]) -> impl Future<Output = Result<(), Problem>> + Send;
    /// Give it back, whole.
    fn get(&self, key: &str) -> impl Future<Output = Result<Vec<u8>, Problem>> + Send;
    /// Have it no more; there may be none.
    fn delete(&self, key: &str) -> impl Future<Output = Result<(), Problem>> + Send;
}

/// Where segments go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// For people: without a password.
    pub shown: String,
    /// What all keys of a run begin with.
    pub prefix: String,
    /// How long a fetch is tried.
    pub patience: Duration,
}

/// An object, as whoever sent it remembers it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Object {
    pub(crate) key: Arc<str>,
    pub(crate) checksum: u64,
    pub(crate) len: usize,
}

impl Object {
    pub(crate) fn of(key: String, bytes: &[u8]) -> Self {
        Self {
            key: key.into(),
            checksum: xxh3_64(bytes),
            len: bytes.len(),
        }
    }

    /// Why these bytes are not it.
    fn mistake(&self, bytes: &[u8]) -> Option<Problem> {
        let is_it = bytes.len() == self.len && xxh3_64(bytes) == self.checksum;
        (!is_it).then(|| Problem("it brought other bytes than it was given".to_owned()))
    }
}

/// One try, bounded.
async fn bounded<T>(time: Duration, what: impl Future<Output = Result<T, Problem>>) -> Result<T, Problem> {
    let most = time.min(ANSWERED_WITHIN);
    timeout(most, what)
        .await
        .unwrap_or_else(|_| Err(Problem(format!("no answer within {most:.1?}"))))
}

fn next_pause(pause: Duration) -> Duration {
    (pause * 2).min(PAUSE_MOST)
}

/// What came of sending an object.
pub(crate) struct Sent {
    /// The try that was acknowledged.
    pub(crate) result: Result<Object, Problem>,
    /// Tries that failed, and may have come or come yet.
    pub(crate) strays: Vec<Object>,
}

/// Send an object; so many tries. Each has a key of its own: one that was given up may yet come,
/// and must not write over the one that was acknowledged.
pub(crate) async fn send<S: Store>(store: S, key: String, bytes: Vec<u8>, tries: u32) -> Sent {
    let mut pause = PAUSE_FIRST;
    let mut strays = Vec::new();
    let mut number = 1;
    loop {
        let object = Object::of(format!("{key}-{number}"), &bytes);
        let put = bounded(ANSWERED_WITHIN, store.put(&object.key, &bytes)).await;
        let Err(problem) = put else {
            let result = Ok(object);
            return Sent { result, strays };
        };
        strays.push(object);
        if number == tries {
            let result = Err(problem);
            return Sent { result, strays };
        }
        sleep(pause).await;
        pause = next_pause(pause);
        number += 1;
    }
}

/// Bring an object back, as it was; for so long.
pub(crate) async fn fetch<S: Store>(store: S, object: Object, patience: Duration) -> Result<Vec<u8>, Problem> {
    let until = Instant::now() + patience;
    let mut pause = PAUSE_FIRST;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let got = bounded(left, store.get(&object.key)).await;
        let problem = match got.map(|bytes| (object.mistake(&bytes), bytes)) {
            Ok((None, bytes)) => return Ok(bytes),
            Ok((Some(problem), _)) | Err(problem) => problem,
        };
        if Instant::now() + pause >= until {
            return Err(problem);
        }
        sleep(pause).await;
        pause = next_pause(pause);
    }
}

/// Delete an object. False: not now, after a pause.
pub(crate) async fn forget<S: Store>(store: S, object: &Object) -> bool {
    let is_gone = bounded(ANSWERED_WITHIN, store.delete(&object.key)).await.is_ok();
    if !is_gone {
        sleep(PAUSE_MOST).await;
    }
    is_gone
}

/// What a probe sends.
pub(crate) fn probe_object(place: &Place) -> (Object, Vec<u8>) {
    let bytes: Vec<u8> = place.prefix.bytes().cycle().take(SEGMENT_BYTES).collect();
    (Object::of(format!("{}/probe", place.prefix), &bytes), bytes)
}

fn step(name: &str, Problem(why): Problem) -> Problem {
    Problem(format!("{name}: {why}"))
}

/// Whether a remote takes an object of a segment's size, gives it back and deletes it.
///
/// # Errors
/// The step that failed, and why.
pub async fn probe<S: Store>(store: S, place: &Place) -> Result<(), Problem> {
    let (object, bytes) = probe_object(place);
    let is_kept = write_and_read(&store, &object, &bytes).await;
    // What failed may have come all the same. Nobody waits long for a remote that is not there.
    let time = if is_kept.is_ok() { ANSWERED_WITHIN } else { PAUSE_MOST };
    let deleted = bounded(time, store.delete(&object.key)).await;
    is_kept.and(deleted.map_err(|problem| step("deleting", problem)))
}

async fn write_and_read<S: Store>(store: &S, object: &Object, bytes: &[u8]) -> Result<(), Problem> {
    let put = bounded(ANSWERED_WITHIN, store.put(&object.key, bytes)).await;
    put.map_err(|problem| step("writing", problem))?;
    let got = bounded(ANSWERED_WITHIN, store.get(&object.key)).await;
    let mistake = got.map(|bytes| object.mistake(&bytes));
    mistake
        .and_then(|mistake| mistake.map_or(Ok(()), Err))
        .map_err(|problem| step("reading", problem))
}

/// Have nothing left of a place whose objects are gone: some stores have a directory of its name.
pub async fn leave<S: Store>(store: &S, place: &Place) {
    let _ = bounded(PAUSE_MOST, store.delete(&format!("{}/", place.prefix))).await;
}
