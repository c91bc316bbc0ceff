//! Which page is touched when: what a policy is given.

use std::collections::HashMap;
use std::fmt::Display;
use std::io::BufRead;
use std::path::Path;

use uzswap_ctl::record::is_recorded;

use super::record::{self, Summary};
use crate::Failure;

/// Most pages of a trace: the engine and its machine keep 8 KiB for each.
const PAGES_MAX: usize = 1 << 16;
/// Bits of a page number: user addresses have 47.
const NUMBER_BITS: u32 = 35;

/// A string of touches.
pub struct Trace {
    /// What it is called in the table.
    pub(crate) name: String,
    /// The number of each page that is touched, in the order of the first touches.
    numbers: Vec<u64>,
    /// Of each touch, the index of its page in `numbers`.
    touches: Vec<u32>,
}

impl Trace {
    /// Touches of the pages with these numbers.
    pub fn new(name: impl Into<String>, numbers: impl IntoIterator<Item = u64>) -> Self {
        let (mut trace, mut indexes) = (Self::empty(name), HashMap::new());
        numbers.into_iter().for_each(|number| trace.push(&mut indexes, number));
        trace
    }

    fn empty(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            numbers: Vec::new(),
            touches: Vec::new(),
        }
    }

    fn push(&mut self, indexes: &mut HashMap<u64, u32>, number: u64) {
        let index = *indexes.entry(number).or_insert_with(|| {
            self.numbers.push(number);
            self.numbers.len() as u32 - 1
        });
        self.touches.push(index);
    }

    /// One from a file: what `--record` has made, or a number a line, hexadecimal if it begins with
    /// `0x`, else decimal. Empty lines are passed over.
    pub(crate) fn read(path: &Path) -> Result<(Self, Option<Summary>), Failure> {
        let failure = |why: &dyn Display| Failure::new(format!("--trace {}: {why}", path.display()));
        let bytes = std::fs::read(path).map_err(|e| failure(&e))?;
        let name = path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy();
        if !is_recorded(&bytes) {
            let trace = Self::parse(name, &bytes[..]).map_err(|line| failure(&line))?;
            return Ok((trace, None));
        }
        let (trace, summary) = record::parse(name, &bytes).map_err(|damage| failure(&damage))?;
        match trace.pages() > PAGES_MAX {
            true => Err(failure(&format!("more than {PAGES_MAX} pages are touched"))),
            false => Ok((trace, Some(summary))),
        }
    }

    fn parse(name: impl Into<String>, lines: impl BufRead) -> Result<Self, String> {
        let (mut trace, mut indexes) = (Self::empty(name), HashMap::new());
        for (line, text) in (1..).zip(lines.lines()) {
            let text = text.map_err(|e| format!("line {line}: {e}"))?;
            let text = text.trim();
            if text.is_empty() {
                continue;
            }
            let number = number(text).ok_or_else(|| {
                format!(
                    "line {line}: '{text}' must be a page number below 2^{NUMBER_BITS}, decimal, or hexadecimal with 0x"
                )
            })?;
            trace.push(&mut indexes, number);
            if trace.numbers.len() > PAGES_MAX {
                return Err(format!("line {line}: more than {PAGES_MAX} pages are touched"));
            }
        }
        Ok(trace)
    }

    /// How many pages are touched.
    pub fn pages(&self) -> usize {
        self.numbers.len()
    }

    /// The number of each page, in the order of the first touches.
    pub(crate) fn numbers(&self) -> &[u64] {
        &self.numbers
    }

    /// The index of the page of each touch.
    pub fn touches(&self) -> &[u32] {
        &self.touches
    }

    /// Touches but for the first of each page, which is nobody's fault.
    pub(crate) fn repeats(&self) -> usize {
        self.touches.len() - self.numbers.len()
    }
}

fn number(text: &str) -> Option<u64> {
    let number = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    number.ok().filter(|number| *number < 1 << NUMBER_BITS)
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn numbers_are_decimal_or_hexadecimal() {
        let trace = Trace::parse("", &b"16\n0x11\n\n 0x10 \n"[..]).unwrap();
        assert_eq!((trace.numbers(), trace.touches()), (&[16, 17][..], &[0, 1, 0][..]));
        assert_eq!((trace.pages(), trace.repeats()), (2, 1));
    }

    #[test]
    fn the_line_that_is_refused_is_named() {
        for (text, line) in [
            ("1\nff\n", "line 2: 'ff'"),
            ("-1", "line 1: '-1'"),
            ("0x800000000", "line 1: '0x800000000'"),
        ] {
            let refused = Trace::parse("", text.as_bytes()).err().expect("no page number");
            assert!(refused.starts_with(line), "{refused}");
        }
    }

    #[test]
    fn too_many_pages_are_refused() {
        let text: String = (0..=PAGES_MAX).map(|number| format!("{number}\n")).collect();
        let refused = Trace::parse("", text.as_bytes()).err().expect("one page too many");
        assert!(refused.starts_with("line 65537: "), "{refused}");
    }
}
