//! What the kinds of heap pages look like, byte by byte.
//!
//! The layouts are those of 64-bit interpreters and caches: reference counts and type pointers in
//! front of every object, pointers whose upper bytes agree because they point into the same few
//! arenas, hashes that nothing predicts, text that repeats a small vocabulary.

use super::rng::Rng;

/// What a page holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Contents {
    /// Small objects with headers: integers, floats, sequences, strings.
    Objects,
    /// Open-addressing tables: hash, key pointer, value pointer, some slots empty.
    Tables,
    /// Short strings in size-class slots, with length headers and slack behind them.
    Strings,
    /// JSON records as a cache stores them.
    Records,
    /// Arrays of numbers: measurements, indices, timestamps.
    Numbers,
    /// Bytes that do not compress: hashes, images, already compressed data.
    Random,
    /// Memory that was never written, or cleared.
    Zero,
}

const TYPES_AT: u64 = 0x0000_55d4_1c82_a000;
const TYPES: u64 = 24;
const TYPE_SIZE: u64 = 0x1a0;
const ARENAS_AT: u64 = 0x0000_7f3a_5c00_0000;
const SLOT_ALIGN: usize = 16;

const WORDS: [&str; 48] = [
    "user", "name", "email", "status", "active", "created", "updated", "order", "price", "total", "items", "count",
    "address", "street", "city", "country", "phone", "session", "token", "value", "index", "parent", "children",
    "title", "body", "author", "comment", "rating", "category", "product", "quantity", "shipped", "delivery", "amount",
    "currency", "account", "balance", "message", "channel", "priority", "language", "region", "version", "checksum",
    "config", "default", "enabled", "timeout",
];

/// Fills `page`, which is all zeros, with `contents`.
pub(super) fn write(contents: Contents, rng: &mut Rng, page: &mut [u8]) {
    let write_item = match contents {
        Contents::Objects => object,
        Contents::Tables => table_slot,
        Contents::Strings => string_slot,
        Contents::Records => record,
        Contents::Numbers => number,
        Contents::Random => random_word,
        Contents::Zero => return,
    };
    let mut writer = PageWriter {
        page,
        at: 0,
        type_first: rng.below(TYPES),
        types: 1 + rng.below(TYPES),
    };
    while !writer.is_full() {
        write_item(rng, &mut writer);
    }
}

/// Appends to a page; what does not fit any more is cut off.
struct PageWriter<'a> {
    page: &'a mut [u8],
    at: usize,
    /// Objects of this page are of this type and the `types - 1` next ones: allocators keep like
    /// with like.
    type_first: u64,
    types: u64,
}

impl PageWriter<'_> {
    fn is_full(&self) -> bool {
        self.at >= self.page.len()
    }

    fn bytes(&mut self, bytes: &[u8]) {
        let start = self.at.min(self.page.len());
        let room = &mut self.page[start..];
        let len = bytes.len().min(room.len());
        room[..len].copy_from_slice(&bytes[..len]);
        self.at += bytes.len();
    }

    fn word(&mut self, word: u64) {
        self.bytes(&word.to_le_bytes());
    }

    fn skip_to_multiple_of(&mut self, align: usize) {
        self.at = self.at.next_multiple_of(align);
    }
}

fn object(rng: &mut Rng, writer: &mut PageWriter) {
    let object_type = (writer.type_first + rng.skewed(writer.types)) % TYPES;
    writer.word(1 + rng.skewed(4));
    writer.word(TYPES_AT + object_type * TYPE_SIZE);
    match object_type % 4 {
        0 => integer_fields(rng, writer),
        1 => sequence_fields(rng, writer),
        2 => string_fields(rng, writer),
        _ => writer.word(measurement(rng)),
    }
    writer.skip_to_multiple_of(SLOT_ALIGN);
}

fn integer_fields(rng: &mut Rng, writer: &mut PageWriter) {
    writer.word(1);
    writer.word(rng.skewed(100_000));
}

fn sequence_fields(rng: &mut Rng, writer: &mut PageWriter) {
    let len = 1 + rng.skewed(8);
    writer.word(len);
    for _ in 0..len {
        writer.word(pointer(rng));
    }
}

fn string_fields(rng: &mut Rng, writer: &mut PageWriter) {
    let text = phrase(rng);
    writer.word(text.len() as u64);
    writer.word(rng.next_u64());
    writer.word(0xe4);
    writer.bytes(text.as_bytes());
}

fn table_slot(rng: &mut Rng, writer: &mut PageWriter) {
    let used = rng.below(5) < 3;
    for field in [rng.next_u64(), pointer(rng), pointer(rng)] {
        writer.word(if used { field } else { 0 });
    }
}

fn string_slot(rng: &mut Rng, writer: &mut PageWriter) {
    let text = phrase(rng);
    writer.bytes(&[text.len() as u8, 64, 1]);
    writer.bytes(text.as_bytes());
    writer.skip_to_multiple_of(4 * SLOT_ALIGN);
}

fn record(rng: &mut Rng, writer: &mut PageWriter) {
    let text = format!(
        r#"{{"id":{},"name":"{}","active":{},"score":{}.{},"tags":["{}","{}"],"token":"{:08x}"}}"#,
        rng.below(10_000_000),
        phrase(rng),
        rng.below(2) == 0,
        rng.below(100),
        rng.below(100),
        rng.pick(&WORDS),
        rng.pick(&WORDS),
        rng.next_u64() as u32,
    );
    writer.bytes(text.as_bytes());
    writer.skip_to_multiple_of(SLOT_ALIGN);
}

fn number(rng: &mut Rng, writer: &mut PageWriter) {
    match rng.below(2) {
        0 => writer.word(rng.skewed(1_000_000)),
        _ => writer.word(measurement(rng)),
    }
}

fn random_word(rng: &mut Rng, writer: &mut PageWriter) {
    writer.word(rng.next_u64());
}

/// A float with two decimals, as most programs hold them.
fn measurement(rng: &mut Rng) -> u64 {
    (rng.skewed(100_000) as f64 / 100.0).to_bits()
}

fn pointer(rng: &mut Rng) -> u64 {
    ARENAS_AT + rng.skewed(1 << 16) * SLOT_ALIGN as u64
}

fn phrase(rng: &mut Rng) -> String {
    let words = 1 + rng.below(4);
    (0..words).map(|_| *rng.pick(&WORDS)).collect::<Vec<_>>().join("_")
}
