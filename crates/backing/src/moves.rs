//! What fills and moves of userfaultfd mean to the engine.

use uzswap_mm::machine::{Done, Stop};
use uzswap_mm::page::PAGE_SIZE;
use uzswap_sys::Errno;
use uzswap_sys::procfs::ProcSelf;
use uzswap_sys::uffd::Filled;

/// What an errno of a fill or move means.
pub fn stop(errno: Errno) -> Stop {
    match errno {
        Errno::EXIST => Stop::Present,
        Errno::AGAIN => Stop::Again,
        Errno::BUSY => Stop::Busy,
        Errno::NOENT => Stop::Missing,
        Errno::NOMEM => Stop::NoMemory,
        _ => Stop::Unmovable,
    }
}

/// How far it came; `stop` says what stopped it.
pub fn done(filled: Filled, stop: impl Fn(Errno) -> Stop) -> Done {
    Done {
        pages: (filled.bytes / PAGE_SIZE) as u32,
        stop: filled.stop.map(stop),
    }
}

/// Of the program's side of a fill: no such range there means that nothing can be mapped.
pub fn filled_in(done: Done) -> Done {
    match done.stop {
        Some(Stop::Missing) => Done {
            stop: Some(Stop::Unmovable),
            ..done
        },
        _ => done,
    }
}

/// What a move of `len` bytes came to that may have done more than the kernel says
/// (`Uffd::move_pages`). `ours`: our end of it, in the staging or the trash range, whose pages only
/// we move, so what is there is certain; `arrived`: whether a page that was moved is there now, or
/// is no longer.
pub fn in_truth(proc: &ProcSelf, filled: Filled, len: usize, ours: usize, arrived: bool) -> Filled {
    let is_certain = filled.bytes == len || !matches!(filled.stop, None | Some(Errno::EXIST | Errno::NOENT));
    if is_certain {
        return filled;
    }
    let (at, rest) = (ours + filled.bytes, len - filled.bytes);
    match proc.leading_run(at, rest) {
        Ok((more, populated)) if populated == arrived => {
            let bytes = filled.bytes + more;
            Filled { bytes, stop: None }
        }
        Ok(_) => filled,
        Err(errno) => panic!("reading /proc/self/pagemap: {errno}"),
    }
}
