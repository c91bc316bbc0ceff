//! Which calls have used which places, since all memory was compared last.

use std::fmt::Write;
use std::ops::Range;

use crate::arena::PAGE;
use crate::calls;

struct Used {
    call: u64,
    kind: usize,
    results: [isize; 2],
    bytes: Range<usize>,
}

#[derive(Default)]
pub(crate) struct History(Vec<Used>);

impl History {
    /// A call has used these.
    pub(crate) fn note(&mut self, call: u64, kind: usize, results: [isize; 2], places: Vec<Range<usize>>) {
        self.0.extend(places.into_iter().map(|bytes| Used {
            call,
            kind,
            results,
            bytes,
        }));
    }

    /// All memory was compared: what is found from now on was done from now on.
    pub(crate) fn forget(&mut self) {
        self.0.clear();
    }

    /// Those that have used the page of a byte, a line each.
    pub(crate) fn of_page(&self, at: usize) -> String {
        let page = at / PAGE * PAGE..(at / PAGE + 1) * PAGE;
        let meets = |used: &&Used| used.bytes.start < page.end && page.start < used.bytes.end;
        let mut told = String::new();
        for used in self.0.iter().filter(meets) {
            let (name, ..) = calls::all()[used.kind];
            let Used {
                call, results, bytes, ..
            } = used;
            let _ = write!(told, "\n  used by call {call}, {name} = {results:?}: {bytes:#x?}");
        }
        told
    }
}
