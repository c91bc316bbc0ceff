//! A process's region: the door at which it submits, and memory that the model reaches.

use core::sync::atomic::{AtomicU64, Ordering};

/// Words before the memory: some of control, and the door.
pub(super) const WORDS: usize = CONTROL + PLACES * PLACE_WORDS;
const CONTROL: usize = 512;
/// Descriptors that may wait at the door.
const PLACES: usize = 128;
const PLACE_WORDS: usize = 16;
const TRIES: u32 = 1000;
/// Of a place: whose turn it is, the opening, the work queue, and the descriptor.
const TURN: usize = 0;
const OPENING: usize = 1;
const QUEUE: usize = 2;
const DESCRIPTOR: usize = 3;

/// Control words, by their number. Those that different sides write lie in different lines.
const WANTED: usize = 0;
const OPENED: usize = 8;
/// Bits of the queues that could be opened, by 8 times the device and the queue.
const OPEN_QUEUES: usize = 9;
const OPEN_WORDS: usize = 32;
const TAIL: usize = 64;
const HEAD: usize = 72;

/// A descriptor for a work queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    /// The opening that it belongs to.
    pub opening: u64,
    /// The work queue: its device and its number there.
    pub queue: (u32, u32),
    /// The descriptor.
    pub descriptor: [u8; 64],
}

/// A region. Any thread of its process submits; only whoever runs the model takes out.
#[derive(Clone, Copy)]
pub struct Region {
    words: &'static [AtomicU64],
    address: u64,
}

/// The bit of a work queue, and its word.
fn place_of((device, queue): (u32, u32)) -> (usize, u64) {
    let bit = (device as usize * 8 + queue as usize % 8) % (64 * OPEN_WORDS);
    (OPEN_QUEUES + bit / 64, 1 << (bit % 64))
}

impl Region {
    pub(super) fn new(words: &'static [AtomicU64], address: u64) -> Self {
        Self { words, address }
    }

    /// Words that the devices reach.
    pub fn memory(&self) -> &'static [AtomicU64] {
        &self.words[WORDS..]
    }

    /// What devices call the first of these words.
    pub fn address(&self) -> u64 {
        self.address + WORDS as u64 * 8
    }

    pub(super) fn ask(&self, opening: u64) {
        self.words[WANTED].store(opening, Ordering::Release);
    }

    /// The opening that was asked for last; 0: none.
    pub fn wanted(&self) -> u64 {
        self.words[WANTED].load(Ordering::Acquire)
    }

    /// The opening that is open; those before are over. 0: none.
    pub fn opened(&self) -> u64 {
        self.words[OPENED].load(Ordering::Acquire)
    }

    /// All openings before are over, and nobody takes anything out of the door: empty it, and open
    /// `opening`. `queues` can be used.
    pub fn open(&self, opening: u64, queues: impl Iterator<Item = (u32, u32)>) {
        for word in &self.words[OPEN_QUEUES..OPEN_QUEUES + OPEN_WORDS] {
            word.store(0, Ordering::Relaxed);
        }
        for queue in queues {
            let (word, bit) = place_of(queue);
            self.words[word].fetch_or(bit, Ordering::Relaxed);
        }
        self.words[TAIL].store(0, Ordering::Relaxed);
        self.words[HEAD].store(0, Ordering::Relaxed);
        for place in 0..PLACES {
            self.place(place as u64)[TURN].store(place as u64, Ordering::Relaxed);
        }
        // Release: who sees the opening sees an empty door.
        self.words[OPENED].store(opening, Ordering::Release);
    }

    /// Whether this work queue could be opened.
    pub fn has_queue(&self, queue: (u32, u32)) -> bool {
        let (word, bit) = place_of(queue);
        self.words[word].load(Ordering::Relaxed) & bit != 0
    }

    fn place(&self, at: u64) -> &'static [AtomicU64] {
        &self.words[CONTROL + at as usize % PLACES * PLACE_WORDS..][..PLACE_WORDS]
    }

    /// Leave a job at the door. False: there is no room.
    #[must_use]
    pub fn submit(&self, job: &Job) -> bool {
        let tail = &self.words[TAIL];
        let mut at = tail.load(Ordering::Relaxed);
        // Others are faster once in a while; a door that was scribbled over is never to be had.
        let mut tries = 0..TRIES;
        let place = loop {
            if tries.next().is_none() {
                return false;
            }
            let place = self.place(at);
            // A place's turn is that of who submits next there, and one more once he has.
            match place[TURN].load(Ordering::Acquire) {
                turn if turn == at => {
                    match tail.compare_exchange_weak(at, at.wrapping_add(1), Ordering::Relaxed, Ordering::Relaxed) {
                        Ok(_) => break place,
                        Err(now) => at = now,
                    }
                }
                turn if turn < at => return false,
                _ => at = tail.load(Ordering::Relaxed),
            }
        };
        place[OPENING].store(job.opening, Ordering::Relaxed);
        let (device, queue) = job.queue;
        place[QUEUE].store(u64::from(device) << 32 | u64::from(queue), Ordering::Relaxed);
        let (words, _) = job.descriptor.as_chunks::<8>();
        for (to, word) in place[DESCRIPTOR..].iter().zip(words) {
            to.store(u64::from_le_bytes(*word), Ordering::Relaxed);
        }
        // Release: who takes it out sees the job, and all that was written before for it.
        place[TURN].store(at.wrapping_add(1), Ordering::Release);
        true
    }

    /// Whether a job is at the door.
    pub fn has_job(&self) -> bool {
        let at = self.words[HEAD].load(Ordering::Relaxed);
        self.place(at)[TURN].load(Ordering::Acquire) == at.wrapping_add(1)
    }

    /// Take the next job out.
    pub fn take(&self) -> Option<Job> {
        if !self.has_job() {
            return None;
        }
        let at = self.words[HEAD].load(Ordering::Relaxed);
        let place = self.place(at);
        let mut descriptor = [0; 64];
        for (bytes, word) in descriptor.as_chunks_mut::<8>().0.iter_mut().zip(&place[DESCRIPTOR..]) {
            *bytes = word.load(Ordering::Relaxed).to_le_bytes();
        }
        let queue = place[QUEUE].load(Ordering::Relaxed);
        let job = Job {
            opening: place[OPENING].load(Ordering::Relaxed),
            queue: ((queue >> 32) as u32, queue as u32),
            descriptor,
        };
        // Release: who submits here next does so behind what was read.
        place[TURN].store(at.wrapping_add(PLACES as u64), Ordering::Release);
        self.words[HEAD].store(at.wrapping_add(1), Ordering::Relaxed);
        Some(job)
    }
}
