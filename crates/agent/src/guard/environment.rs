//! Whether the environment that a program is to have names us: it lacks us where a script has put
//! another library in our place, or has none of its caller's variables left.

use uzswap_ctl::{ENV_GROUP, LIBRARY_SUFFIX};
use uzswap_guard::reach::Memory;
use uzswap_mm::page::PAGE_SIZE;

use super::bring::Reached;

/// An entry, as far as its name can be told. Bytes.
const FIRST: usize = 32;
/// Where one of these is set no program runs, or valgrind runs it itself.
const LEFT_ALONE: [&str; 2] = ["VALGRIND_LAUNCHER", "LD_TRACE_LOADED_OBJECTS"];
/// Those at most that are looked at.
const ENTRIES: usize = 4096;
/// So much of a list of libraries is looked at in one go, and so much of all. Bytes.
const PIECE: usize = 96;
const LIST: usize = 64 << 10;

/// Whether the environment at `env` names no library of ours, or no group. An address that cannot
/// be read lacks nothing: the kernel refuses the call.
///
/// What it reads is brought page by page. Nothing is allocated: the thread may be a vfork child, on
/// a stack of few pages.
pub(super) fn lacks_us(env: usize) -> bool {
    let mut program = Program(Reached::new(0, (&raw const env).addr(), false));
    program.lacks_us(env) == Some(true)
}

/// The program's memory.
struct Program(Reached);

impl Program {
    fn lacks_us(&mut self, env: usize) -> Option<bool> {
        let (mut has_group, mut has_library) = (false, false);
        // As an empty one, for the kernel.
        let entries = if env == 0 { 0 } else { ENTRIES };
        for n in 0..entries {
            let entry = self.word(env.checked_add(n * size_of::<usize>())?)?;
            if entry == 0 {
                break;
            }
            let mut first = [0; FIRST];
            let first = self.text(entry, &mut first)?;
            if LEFT_ALONE.iter().any(|name| value(first, name).is_some()) {
                return Some(false);
            }
            has_group |= value(first, ENV_GROUP).is_some();
            if let Some(start) = value(first, "LD_PRELOAD") {
                // The last is the one that counts for the loader.
                has_library = self.names_library(entry + start)?;
            }
        }
        Some(!has_group || !has_library)
    }

    fn word(&mut self, at: usize) -> Option<usize> {
        let mut word = [0; size_of::<usize>()];
        self.0.read(at, &mut word).then(|| usize::from_ne_bytes(word))
    }

    /// The text at `at`, as far as there is room for it. It may end where memory does.
    fn text<'a>(&mut self, at: usize, bytes: &'a mut [u8]) -> Option<&'a [u8]> {
        let here = bytes.len().min(PAGE_SIZE - at % PAGE_SIZE);
        let (head, tail) = bytes.split_at_mut(here);
        let is_read =
            self.0.read(at, head) && (tail.is_empty() || head.contains(&0) || self.0.read(at.checked_add(here)?, tail));
        is_read.then(|| bytes.split(|byte| *byte == 0).next().unwrap_or_default())
    }

    /// Whether one of the libraries in the list at `at` is ours.
    fn names_library(&mut self, at: usize) -> Option<bool> {
        let overlap = LIBRARY_SUFFIX.len() - 1;
        for offset in (0..LIST).step_by(PIECE - overlap) {
            let mut piece = [0; PIECE];
            let piece = self.text(at.checked_add(offset)?, &mut piece)?;
            if piece.windows(LIBRARY_SUFFIX.len()).any(|word| word == LIBRARY_SUFFIX) {
                return Some(true);
            }
            if piece.len() < PIECE {
                break;
            }
        }
        Some(false)
    }
}

/// Where the value of the variable of this name begins in an entry.
fn value(entry: &[u8], name: &str) -> Option<usize> {
    let is_named = entry.starts_with(name.as_bytes()) && entry.get(name.len()) == Some(&b'=');
    is_named.then_some(name.len() + 1)
}
