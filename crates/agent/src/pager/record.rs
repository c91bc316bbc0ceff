//! What the program touches, and how pages are stored, for a recorded trace
//! (docs/design/record.md).
//!
//! Only where the environment names a file for it. Whoever serves a fault, and whoever stores
//! pages, puts records into a lane of its own. kswapd empties the lanes each time that it wakes, so
//! the others write only if theirs is full. All of it is the agent's memory: writing it never
//! faults. A forked child has a recorder of its own; what its parent's lanes held is the parent's.

use alloc::boxed::Box;
use alloc::ffi::CString;
use alloc::vec::Vec;
use core::ffi::CStr;
use core::fmt::Display;
use core::sync::atomic::{AtomicBool, Ordering};

use lock_api::{Mutex, MutexGuard};
use uzswap_acomp::Algorithm;
use uzswap_ctl::record::{HEADER_BYTES, Header, Place, RECORD_BYTES, Record, What};
use uzswap_mm::machine::{Frames, StoredPage};
use uzswap_mm::page::Vpn;
use uzswap_mm::swap_table::entry::Slot;
use uzswap_mm::{Measure, SERVERS_MAX};
use uzswap_sys::cell::Leaked;
use uzswap_sys::file::File;
use uzswap_sys::futex::RawLock;
use uzswap_sys::{thread, time};

use super::Pager;
use crate::machine::AgentMachine;
use crate::pager;

/// Bytes of a lane.
const LANE_BYTES: usize = 1024 * RECORD_BYTES;
/// A lane for each server, and one for those who store, which the engine's lock keeps apart.
const LANES: usize = SERVERS_MAX + 1;
const STORES: usize = SERVERS_MAX;

/// The file that the environment named.
static PATH: Leaked<&'static CStr> = Leaked::new();

/// In the constructor: the environment names `path`.
pub(crate) fn note_path(path: &CStr) {
    // Copied: programs that set their title write over the environment.
    PATH.set(Box::leak(CString::from(path).into_boxed_c_str()));
}

/// Whether this process is recorded.
pub(crate) fn is_on() -> bool {
    PATH.get().is_some()
}

/// What is recorded of one process.
pub(crate) struct Recorder {
    file: File,
    path: &'static CStr,
    pid: u32,
    /// The file could not be written: nothing is recorded any more.
    is_over: AtomicBool,
    lanes: [Mutex<RawLock, Vec<u8>>; LANES],
    /// kswapd's: what it took out of the lanes, to write it while others fill them.
    taken: Mutex<RawLock, Vec<u8>>,
    /// Compressors that blocks are only measured with, by their numbers in the header.
    measures: Mutex<RawLock, Vec<(u8, Measure)>>,
}

/// A touch that is being served. The lane is held until it is: kswapd, which the program's end
/// waits for, then sees it.
pub(crate) struct Touch<'a> {
    recorder: &'a Recorder,
    lane: MutexGuard<'a, RawLock, Vec<u8>>,
    record: Record,
}

impl Touch<'_> {
    /// It was served.
    pub(crate) fn note(mut self) {
        self.recorder.push(&mut self.lane, &self.record);
    }
}

impl Recorder {
    /// Of this process, if the environment names a file. Where that cannot be written or is no
    /// recorded trace a line says so, and the program runs on unrecorded.
    pub(crate) fn of_environment() -> Option<Self> {
        let path = *PATH.get()?;
        let refuse = |why: &dyn Display| say("nothing is recorded", path, why);
        let file = File::open_to_append(path).map_err(|errno| refuse(&errno)).ok()?;
        let mut bytes = [0; HEADER_BYTES];
        file.read_at(&mut bytes, 0).map_err(|errno| refuse(&errno)).ok()?;
        let header = Header::from_bytes(&bytes).map_err(|damage| refuse(&damage)).ok()?;
        let names = (0..).zip(&header.compressors).skip(1);
        let measures = names.filter_map(|(number, name)| Some((number, Measure::new(Algorithm::parse(name).ok()?))));
        Some(Self {
            file,
            path,
            pid: thread::pid() as u32,
            is_over: AtomicBool::new(false),
            lanes: core::array::from_fn(|_| Mutex::new(Vec::with_capacity(LANE_BYTES))),
            taken: Mutex::new(Vec::with_capacity(LANES * LANE_BYTES)),
            measures: Mutex::new(measures.collect()),
        })
    }

    /// The page of a fault that the server of this number is about to serve. `None`: nothing is
    /// recorded any more, or it is kswapd who touches it, to break the sharing of it.
    pub(crate) fn touch(&self, pager: &Pager, server: usize, page: Vpn, is_write: bool) -> Option<Touch<'_>> {
        if pager.reclaim.unsharing.holds(page.addr()) {
            return None;
        }
        let at = match pager.mm.slot(page) {
            Slot::None => Place::Nowhere,
            Slot::Staged { .. } => Place::Staged,
            Slot::Zswap(_) | Slot::Filled { .. } => Place::Pool,
            Slot::Swap(_) => Place::Device,
            Slot::Resident { .. } | Slot::Cached(_) => Place::Mapped,
            Slot::Bad => return None,
        };
        self.touch_at(server, page, What::Touched { at, is_write })
    }

    /// As [`touch`](Self::touch), of a page that is mapped, and protected from writing.
    pub(crate) fn write(&self, pager: &Pager, server: usize, page: Vpn) -> Option<Touch<'_>> {
        if pager.reclaim.unsharing.holds(page.addr()) {
            return None;
        }
        let at = Place::Protected;
        self.touch_at(server, page, What::Touched { at, is_write: true })
    }

    fn touch_at(&self, server: usize, page: Vpn, what: What) -> Option<Touch<'_>> {
        if self.is_over.load(Ordering::Relaxed) {
            return None;
        }
        Some(Touch {
            recorder: self,
            lane: self.lanes[server % SERVERS_MAX].lock(),
            record: self.record(page, what),
        })
    }

    /// Pages were stored.
    pub(crate) fn note_stored(&self, machine: &AgentMachine, stored: impl Iterator<Item = StoredPage>) {
        if self.is_over.load(Ordering::Relaxed) {
            return;
        }
        let (mut lane, mut measures) = (self.lanes[STORES].lock(), self.measures.lock());
        for StoredPage { page, slot, bytes } in stored {
            let mut push = |compressor, bytes| {
                let bytes = bytes as u16;
                self.push(&mut lane, &self.record(page, What::Stored { compressor, bytes }));
            };
            push(0, bytes);
            for (compressor, measure) in measures.iter_mut() {
                push(
                    *compressor,
                    machine.with_staged(&[slot], |pages| measure.bytes(pages[0])),
                );
            }
        }
    }

    fn record(&self, page: Vpn, what: What) -> Record {
        Record {
            time_ns: time::now_ns(),
            pid: self.pid,
            page: page.number(),
            what,
        }
    }

    fn push(&self, lane: &mut Vec<u8>, record: &Record) {
        if lane.len() + RECORD_BYTES > LANE_BYTES {
            self.append(lane);
            lane.clear();
        }
        lane.extend_from_slice(&record.to_bytes());
    }

    /// Write what is in the lanes. Called by kswapd.
    pub(crate) fn flush(&self) {
        let mut taken = self.taken.lock();
        for lane in &self.lanes {
            let mut lane = lane.lock();
            taken.extend_from_slice(&lane);
            lane.clear();
        }
        self.append(&taken);
        taken.clear();
    }

    /// Write whole records, or be over: a full disk refuses at once.
    fn append(&self, records: &[u8]) {
        if records.is_empty() || self.is_over.load(Ordering::Relaxed) {
            return;
        }
        if let Err(errno) = self.file.append(records)
            && !self.is_over.swap(true, Ordering::Relaxed)
        {
            say("recording ends", self.path, &errno);
        }
    }
}

/// No heap: the engine may be frozen.
fn say(what: &str, path: &CStr, why: &dyn Display) {
    let (pid, path) = (thread::pid(), path.to_str().unwrap_or("its file"));
    pager::say(format_args!("uzswap: process {pid}: {what}: {path}: {why}\n"));
}
