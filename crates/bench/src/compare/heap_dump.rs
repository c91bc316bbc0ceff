//! Pages of a running program's anonymous memory.

use std::fs::File;
use std::os::unix::fs::FileExt;

use super::procfs::{family, read, rss_anon};
use crate::Failure;

/// What is kept together: 64 KiB.
const RUN: usize = 16 * 4096;
/// The most that is looked at.
const LOOKED_AT: usize = 512 << 20;

/// About `bytes` bytes, evenly from the whole heap of the process of the family of `pid` that has
/// most, in runs of 64 KiB that are not all zeros.
pub(crate) fn largest_of_family(pid: u32, bytes: usize) -> Result<Vec<u8>, Failure> {
    let largest = family(pid).into_iter().max_by_key(|member| rss_anon(*member));
    let pid = largest.unwrap_or(pid);
    let unreadable = |e: String| Failure::new(format!("/proc/{pid}/mem: {e}"));
    let memory = File::open(format!("/proc/{pid}/mem")).map_err(|e| unreadable(e.to_string()))?;
    let runs = used_runs(&memory, &ranges(&read(format!("/proc/{pid}/maps"))));
    if runs.is_empty() {
        return Err(unreadable("no anonymous memory in use".to_owned()));
    }
    let step = runs.len().div_ceil(bytes / RUN).max(1);
    Ok(runs.into_iter().step_by(step).flatten().collect())
}

/// Private anonymous memory that can be written to: start and end.
fn ranges(maps: &str) -> Vec<(u64, u64)> {
    let range = |line: &str| {
        let mut fields = line.split_whitespace();
        let (start, end) = fields.next()?.split_once('-')?;
        let is_private = fields.next()? == "rw-p";
        let name = fields.nth(3).unwrap_or("");
        let is_anonymous = name.is_empty() || name == "[heap]" || name.starts_with("[anon");
        let parse = |text| u64::from_str_radix(text, 16).ok();
        (is_private && is_anonymous).then_some((parse(start)?, parse(end)?))
    };
    maps.lines().filter_map(range).collect()
}

fn used_runs(memory: &File, ranges: &[(u64, u64)]) -> Vec<Vec<u8>> {
    let starts = ranges
        .iter()
        .flat_map(|(start, end)| (*start..end.saturating_sub(RUN as u64 - 1)).step_by(RUN));
    let mut runs = Vec::new();
    for start in starts.take(LOOKED_AT / RUN) {
        let mut run = vec![0; RUN];
        if memory.read_exact_at(&mut run, start).is_ok() && run.iter().any(|byte| *byte != 0) {
            runs.push(run);
        }
    }
    runs
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn files_and_stacks_are_left_out() {
        let maps = "\
7f00-8f00 rw-p 00000000 00:00 0 \n\
9000-a000 rw-p 00000000 fd:00 77 /usr/lib/libc.so.6\n\
b000-c000 r--p 00000000 00:00 0 \n\
d000-e000 rw-p 00000000 00:00 0          [heap]\n\
e000-f000 rw-p 00000000 00:00 0          [stack]\n";
        assert_eq!(ranges(maps), [(0x7f00, 0x8f00), (0xd000, 0xe000)]);
    }

    #[test]
    fn this_process_has_a_heap() {
        let filled = vec![7u8; 1 << 20];
        let dump = largest_of_family(std::process::id(), 1 << 20).unwrap();
        assert!(!dump.is_empty() && dump.len().is_multiple_of(RUN));
        drop(filled);
    }
}
