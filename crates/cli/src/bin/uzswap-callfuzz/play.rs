//! Calls are planned by the hundred, with all that they are given, and made when that is cold.

use std::fmt::Write;
use std::ops::Range;

use linux_raw_sys::errno::{EFAULT, EINTR};
use uzswap_sys::testing::{self, Access};
use uzswap_workload::heap::Rng;

use crate::arena::{Arenas, PAGE, ROUGH, SLOT_BYTES, Twin};
use crate::history::History;
use crate::things::Things;

/// Bytes around a place that are compared as well.
const MARGIN: usize = 64;
/// A place up to this long is filled again once the call is over.
const SMALL: usize = 64 << 10;
/// One place in so many is where not all may be touched; one address in so many is none.
const ROUGH_IN: u64 = 40;
const NOWHERE_IN: u64 = 300;
/// A batch ends when so many parts in four of the smooth memory are used.
const USED: usize = 2;
/// Numbers in fewer bytes may well be those that were there.
const TELLING: usize = 8;

/// What a call may reach.
struct Place {
    at: usize,
    len: usize,
    /// What may be another in each: times, numbers that the kernel gives.
    loose: Vec<Range<usize>>,
}

/// How answers are compared.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    Same,
    /// Numbers that the kernel gives: both, or the same error.
    Number,
    /// The same, and they are descriptors to be closed.
    Descriptor,
}

type After = Box<dyn FnOnce(&mut Play, [isize; 2]) -> Result<(), String>>;

/// A call that is to be made.
pub(crate) struct Plan {
    kind: usize,
    number: u32,
    args: [Twin; 6],
    places: Vec<Place>,
    differing: Vec<(usize, [u8; 2])>,
    answer: Answer,
    before: Option<fn(&mut Things, usize)>,
    after: Option<After>,
    is_in_child: bool,
}

impl Plan {
    fn new(kind: usize) -> Self {
        Self {
            kind,
            number: 0,
            args: [[0; 2]; 6],
            places: Vec::new(),
            differing: Vec::new(),
            answer: Answer::Same,
            before: None,
            after: None,
            is_in_child: false,
        }
    }

    /// What it may reach.
    pub(crate) fn ranges(&self) -> Vec<Range<usize>> {
        self.places.iter().map(|place| place.at..place.at + place.len).collect()
    }
}

/// How often a call was made, how often some of its memory was out, and how often it said EFAULT.
#[derive(Clone, Copy, Default)]
pub(crate) struct Count {
    pub(crate) made: u64,
    pub(crate) cold: u64,
    pub(crate) faults: u64,
}

pub(crate) struct Play {
    pub(crate) random: Rng,
    pub(crate) arenas: Arenas,
    pub(crate) things: Things,
    pub(crate) counts: Vec<Count>,
    plan: Plan,
    next: usize,
    next_slot: usize,
    used: usize,
    used_slots: usize,
    made: u64,
    pub(crate) history: History,
}

/// A value that both get.
pub(crate) fn w(value: usize) -> Twin {
    [value; 2]
}

impl Play {
    pub(crate) fn new(random: Rng, arenas: Arenas, things: Things, kinds: usize) -> Self {
        Self {
            random,
            arenas,
            things,
            counts: vec![Count::default(); kinds],
            plan: Plan::new(0),
            next: ROUGH,
            next_slot: 0,
            used: 0,
            used_slots: 0,
            made: 0,
            history: History::default(),
        }
    }

    /// How many calls were made.
    pub(crate) fn calls_made(&self) -> u64 {
        self.made
    }

    /// How the two memories differ from a byte on, and which calls have used its page.
    pub(crate) fn describe(&self, at: usize) -> String {
        self.arenas.describe(at) + &self.history.of_page(at)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.random.below(bound as u64) as usize
    }

    pub(crate) fn one_in(&mut self, many: u64) -> bool {
        self.random.below(many) == 0
    }

    pub(crate) fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        *self.random.pick(items)
    }

    pub(crate) fn begin_batch(&mut self) {
        (self.used, self.used_slots) = (0, 0);
        let smooth = (self.arenas.len() - ROUGH) / PAGE;
        self.next = ROUGH + self.below(smooth) * PAGE;
    }

    pub(crate) fn is_full(&self) -> bool {
        self.used > (self.arenas.len() - ROUGH) / 4 * USED || self.used_slots * SLOT_BYTES > ROUGH / 4
    }

    /// Plan one call of a kind.
    pub(crate) fn plan(&mut self, kind: usize, step: fn(&mut Self)) -> Plan {
        self.plan = Plan::new(kind);
        step(self);
        std::mem::replace(&mut self.plan, Plan::new(0))
    }

    /// A place in the smooth memory: often at the end of a page, seldom on the page of another.
    fn smooth(&mut self, len: usize) -> usize {
        let end = self.arenas.len() - PAGE;
        let page = self.next.next_multiple_of(PAGE) + self.below(2) * PAGE;
        let at = match self.below(4) {
            0 => page + PAGE - 1 - self.below(len.clamp(1, PAGE - 1)),
            1 => page + self.below(PAGE),
            2 => page,
            _ => (self.next + 2 * MARGIN) & !7,
        };
        let (at, from) = if at + len + MARGIN > end {
            // What is left at the end stays unused.
            self.used += end - self.next.min(end);
            (ROUGH + 2 * MARGIN + self.below(PAGE), ROUGH)
        } else {
            (at, self.next)
        };
        self.used += at + len - from;
        self.next = at + len + 2 * MARGIN;
        at
    }

    /// A place in slots that nothing else of the batch uses.
    fn rough(&mut self, len: usize) -> Option<usize> {
        let slots = len.div_ceil(SLOT_BYTES) + 1;
        if slots * SLOT_BYTES > ROUGH / 4 {
            return None;
        }
        if self.next_slot + slots > ROUGH / SLOT_BYTES {
            self.next_slot = 0;
        }
        let start = self.next_slot * SLOT_BYTES;
        self.next_slot += slots;
        self.used_slots += slots;
        let before = len.min(PAGE);
        // Near the end of a page: the next ones may be of any kind.
        let page = start + PAGE + self.below(2) * PAGE;
        let at = page - self.below(before.max(1));
        Some(at)
    }

    /// Choose where `len` bytes are. `None`: nowhere.
    fn choose(&mut self, len: usize) -> Result<usize, Twin> {
        if self.one_in(NOWHERE_IN) {
            let nowhere = [0, 8, PAGE + 4, (1 << 47) - 10, 1 << 47, 1 << 63, !0, !7];
            return Err(w(self.pick(&nowhere)));
        }
        let rough = self.one_in(ROUGH_IN).then(|| self.rough(len)).flatten();
        Ok(rough.unwrap_or_else(|| self.smooth(len)))
    }

    fn reached(&mut self, at: usize, len: usize, loose: &[Range<usize>]) -> Twin {
        let loose = loose.iter().map(|part| at + part.start..at + part.end).collect();
        self.plan.places.push(Place { at, len, loose });
        self.arenas.addresses(at)
    }

    /// Memory for an answer of `len` bytes.
    pub(crate) fn output(&mut self, len: usize) -> Twin {
        self.output_but(len, &[])
    }

    /// The same, with parts that may be another in each.
    pub(crate) fn output_but(&mut self, len: usize, loose: &[Range<usize>]) -> Twin {
        match self.choose(len) {
            Ok(at) => self.reached(at, len, loose),
            Err(nowhere) => nowhere,
        }
    }

    /// Memory for an answer that is another in each.
    pub(crate) fn loose(&mut self, len: usize) -> Twin {
        self.loose_at(len).0
    }

    /// The same, and where it is, for who looks at it afterwards.
    pub(crate) fn loose_at(&mut self, len: usize) -> (Twin, Option<usize>) {
        match self.choose(len) {
            Ok(at) => (self.reached(at, len, std::slice::from_ref(&(0..len))), Some(at)),
            Err(nowhere) => (nowhere, None),
        }
    }

    /// What an answer is, in each, if all of it can be read.
    pub(crate) fn answered(&self, at: usize, len: usize) -> Option<[Vec<u8>; 2]> {
        let readable: usize = self.arenas.readable(at, len).iter().map(Range::len).sum();
        (readable == len).then(|| [0, 1].map(|n: usize| self.arenas.memories[n].bytes(at, len).to_vec()))
    }

    fn input_at(&mut self, bytes: [&[u8]; 2], loose: &[Range<usize>]) -> Twin {
        match self.choose(bytes[0].len()) {
            Ok(at) => {
                // An address of which one half cannot be written would lead somewhere.
                let at = if at < ROUGH { at & !7 } else { at };
                let differing = self.arenas.write(at, bytes);
                self.plan.differing.extend(differing);
                self.reached(at, bytes[0].len(), loose)
            }
            Err(nowhere) => nowhere,
        }
    }

    /// Bytes that the call is given, and may change.
    pub(crate) fn input(&mut self, bytes: &[u8]) -> Twin {
        self.input_at([bytes; 2], &[])
    }

    /// The same, and all of it is there: with half of it a call would wait.
    pub(crate) fn whole_input(&mut self, bytes: &[u8]) -> Twin {
        let at = self.smooth(bytes.len());
        self.arenas.write(at, [bytes; 2]);
        self.reached(at, bytes.len(), &[])
    }

    pub(crate) fn input_but(&mut self, bytes: &[u8], loose: &[Range<usize>]) -> Twin {
        self.input_at([bytes; 2], loose)
    }

    /// The same, of which each has its own.
    pub(crate) fn twin_input(&mut self, a: &[u8], b: &[u8]) -> Twin {
        self.input_at([a, b], &[])
    }

    /// Words, of which those that are addresses differ.
    pub(crate) fn words(&mut self, words: &[Twin]) -> Twin {
        let of = |which: usize| {
            words
                .iter()
                .flat_map(|twin| twin[which].to_le_bytes())
                .collect::<Vec<_>>()
        };
        self.input_at([&of(0), &of(1)], &[])
    }

    /// A time, which is somewhere: without one a call waits for ever, and with half of one long.
    pub(crate) fn time(&mut self, seconds: usize, nanoseconds: usize) -> Twin {
        let mut bytes = seconds.to_le_bytes().to_vec();
        bytes.extend(nanoseconds.to_le_bytes());
        let at = match self.one_in(ROUGH_IN).then(|| self.rough(0)).flatten() {
            Some(at) => at,
            None => self.smooth(bytes.len()),
        };
        self.arenas.write(at, [&bytes; 2]);
        self.reached(at, bytes.len(), std::slice::from_ref(&(0..16)))
    }

    /// A text, with its zero.
    pub(crate) fn text(&mut self, text: &str) -> Twin {
        let mut bytes = text.as_bytes().to_vec();
        bytes.push(0);
        self.input(&bytes)
    }

    /// A length of much, little or nothing: places of a batch have room beside each other.
    pub(crate) fn length(&mut self) -> usize {
        let room = ((self.arenas.len() - ROUGH) / 4).saturating_sub(self.used / 4);
        match self.below(200) {
            0 => self.below((6 << 20).min(room.max(PAGE))),
            1..10 => 0,
            10..20 => self.below(200 << 10),
            20..80 => self.below(3 * PAGE),
            _ => self.below(256),
        }
    }

    /// Bytes of all places of the plan.
    pub(crate) fn planned(&self) -> usize {
        self.plan.places.iter().map(|place| place.len).sum()
    }

    /// The call itself.
    pub(crate) fn call(&mut self, number: u32, args: &[Twin]) {
        self.plan.number = number;
        self.plan.args[..args.len()].copy_from_slice(args);
    }

    pub(crate) fn answers(&mut self, answer: Answer) {
        self.plan.answer = answer;
    }

    /// To be done before each of the two is made.
    pub(crate) fn before(&mut self, before: fn(&mut Things, usize)) {
        self.plan.before = Some(before);
    }

    pub(crate) fn after(&mut self, after: impl FnOnce(&mut Self, [isize; 2]) -> Result<(), String> + 'static) {
        self.plan.after = Some(Box::new(after));
    }

    /// It is made in a child of its own: the answer is how that ends.
    pub(crate) fn in_child(&mut self) {
        self.plan.is_in_child = true;
    }

    fn is_cold(&self, plan: &Plan) -> bool {
        plan.places.iter().any(|place| {
            let len = place.len.max(1);
            let pages = (place.at + len - 1) / PAGE - place.at / PAGE + 1;
            testing::resident_pages(&self.arenas.memories[0], place.at, len) < pages
        })
    }

    /// Make a call with both memories, and compare.
    pub(crate) fn make(&mut self, mut plan: Plan) -> Result<(), String> {
        if plan.number == 0 && plan.args == [[0; 2]; 6] {
            return Ok(());
        }
        let is_cold = self.is_cold(&plan);
        let loose: Vec<Range<usize>> = plan
            .places
            .iter()
            .flat_map(|place| place.loose.iter())
            .flat_map(|part| self.arenas.readable(part.start, part.len()))
            .collect();
        let were: Vec<Vec<u8>> = loose
            .iter()
            .map(|part| self.arenas.memories[1].bytes(part.start, part.len()).to_vec())
            .collect();
        let first = self.below(2);
        let mut results = [0; 2];
        for which in [first, 1 - first] {
            if let Some(before) = plan.before {
                before(&mut self.things, which);
            }
            let args = plan.args.map(|arg| arg[which]);
            results[which] = self.made(&plan, args);
        }
        self.history.note(self.made, plan.kind, results, plan.ranges());
        self.made += 1;
        let count = &mut self.counts[plan.kind];
        count.made += 1;
        count.cold += u64::from(is_cold);
        count.faults += u64::from(results[1] == -(EFAULT as isize));
        let after = plan.after.take();
        let looked = after.map_or(Ok(()), |after| after(self, results));
        let compared = self.compare(&plan, results, &loose, &were).and(looked);
        compared.map_err(|what| self.tell(&plan, results, is_cold, first, &what))?;
        for place in &plan.places {
            let is_changed = !place.loose.is_empty() || place.len <= SMALL;
            if is_changed {
                self.arenas.refill(place.at, place.len);
            }
        }
        Ok(())
    }

    fn made(&mut self, plan: &Plan, args: [usize; 6]) -> isize {
        if plan.is_in_child {
            let memories = &mut self.arenas.memories;
            let child = testing::fork_and(|| testing::call(plan.number, args, memories) as u8);
            let ended = child.ok().and_then(|child| testing::reap(child, true));
            return ended.map_or(-1, isize::from);
        }
        loop {
            let result = testing::call(plan.number, args, &mut self.arenas.memories);
            if result != -(EINTR as isize) {
                return result;
            }
        }
    }

    fn compare(
        &mut self,
        plan: &Plan,
        results: [isize; 2],
        loose: &[Range<usize>],
        were: &[Vec<u8>],
    ) -> Result<(), String> {
        let are_numbers = results.iter().all(|result| *result >= 0) && plan.answer != Answer::Same;
        if plan.answer == Answer::Descriptor {
            results.into_iter().for_each(crate::things::close);
        }
        if results[0] != results[1] && !are_numbers {
            return Err("the results differ".into());
        }
        for (at, bytes) in &plan.differing {
            let now = [self.arenas.byte(0, *at), self.arenas.byte(1, *at)];
            if now != *bytes {
                return Err(format!("{at:#x}: {bytes:x?} was given, and is {now:x?}"));
            }
            self.arenas.refill(*at, 1);
        }
        for (part, were) in loose.iter().zip(were) {
            let [a, b] =
                [0, 1].map(|n: usize| self.arenas.memories[n].bytes(part.start, part.len()) != were.as_slice());
            // What was zeros may have been written as such: the first number of a kind.
            if a != b && part.len() >= TELLING && were.iter().any(|byte| *byte != 0) {
                return Err(format!("{part:#x?}: written: {a}, {b}"));
            }
            self.arenas.refill(part.start, part.len());
        }
        for place in &plan.places {
            let from = place.at.saturating_sub(MARGIN);
            if let Some(at) = self.arenas.difference(from, place.len + place.at - from + MARGIN) {
                return Err(format!(
                    "{}, in a place of {:#x} bytes at {:#x}",
                    self.describe(at),
                    place.len,
                    place.at
                ));
            }
        }
        Ok(())
    }

    fn tell(&self, plan: &Plan, results: [isize; 2], is_cold: bool, first: usize, what: &str) -> String {
        let mut told = format!(
            "{what}\n  call {}, made with {first} first, cold: {is_cold}\n",
            plan.number
        );
        for (n, name) in ["managed", "not managed"].into_iter().enumerate() {
            let args: Vec<String> = plan.args.iter().map(|arg| format!("{:#x}", arg[n])).collect();
            let _ = writeln!(told, "  {name}: ({}) = {}", args.join(", "), results[n]);
        }
        for place in &plan.places {
            let letter = |part: usize| match self.arenas.access(part) {
                Access::Write => 'w',
                Access::Read => 'r',
                Access::None => '-',
            };
            let pages = place.at / PAGE..(place.at + place.len).div_ceil(PAGE).max(place.at / PAGE + 1);
            let access: String = pages.take(16).map(|page| letter(page * PAGE)).collect();
            let _ = writeln!(
                told,
                "  {:#x} bytes at {:#x}, {access}",
                place.len,
                self.arenas.addresses(place.at)[0]
            );
        }
        told
    }
}
