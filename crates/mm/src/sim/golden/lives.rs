//! What happens in a program's life beside its touches, a scene each: a hot set that nearly fits,
//! relatives, a dictionary, a pool that empties, reads that turn into writes.

use std::format;
use std::string::String;

use uzswap_acomp::Algorithm;

use super::super::BASE;
use super::Numbers;
use super::program::{Given, Program};
use crate::page::Vpn;
use crate::{Effort, Portions, Replacement, Tunables};

const LZ4: Algorithm = Algorithm::Lz4 { acceleration: 1 };

pub(super) const LIVES: [fn(&'static Tunables) -> String; 17] = [
    nearly_fits,
    changes_its_mind,
    comes_and_goes,
    neighbours,
    relatives,
    large_relatives,
    many_relatives,
    badly_stored,
    slow_device,
    pinned,
    dictionary,
    empties,
    reads_then_writes,
    denser,
    fifo,
    clock,
    s3_fifo,
];

/// A clock that is slow to look at, as on a busy core.
fn slow_clock(program: &Program, ns: u64) {
    program.mm.machine().look_ns.set(ns);
}

/// Most touches are of a set a little larger than the memory.
fn nearly_fits(tunables: &'static Tunables) -> String {
    set_that_grows(Given::DEFAULT, tunables).line("nearly-fits")
}

fn set_that_grows(given: Given, tunables: &'static Tunables) -> Program {
    touch_more_and_more(Program::new(given, LZ4, tunables))
}

fn touch_more_and_more(mut program: Program) -> Program {
    let mut numbers = Numbers(100 << 40);
    for touch in 0..24_000_u64 {
        let [kind, at] = [(); 2].map(|()| numbers.next());
        let hot = 600 + touch / 6_000 * 60;
        let page = if kind % 100 < 96 {
            at % hot * 5 % 4096
        } else {
            at % 4096
        };
        program.touch(page, touch < 5_000 || kind.is_multiple_of(16));
    }
    program
}

/// The same, where pages leave in another order.
fn replacing(replacement: Replacement, tunables: &'static Tunables) -> String {
    let given = Given {
        replacement,
        ..Given::DEFAULT
    };
    set_that_grows(given, tunables).line(replacement.name())
}

fn fifo(tunables: &'static Tunables) -> String {
    replacing(Replacement::Fifo, tunables)
}

fn clock(tunables: &'static Tunables) -> String {
    replacing(Replacement::Clock, tunables)
}

fn s3_fifo(tunables: &'static Tunables) -> String {
    replacing(Replacement::S3Fifo, tunables)
}

/// The hot set is a loop that all but fits, beside what nobody needs; then all that is stored is
/// wanted in its order, so each load is of the oldest; then the loop again.
fn changes_its_mind(tunables: &'static Tunables) -> String {
    let given = Given {
        pool: 1_400,
        ..Given::DEFAULT
    };
    let mut program = Program::new(given, LZ4, tunables);
    (0..2_400).for_each(|page| program.touch(page, true));
    for _ in 0..3 {
        for pages in (720..960).step_by(30) {
            (0..4 * pages).for_each(|touch| program.touch(touch % pages, touch % 64 == 0));
        }
        (0..4_800).for_each(|touch| program.touch(touch % 2_400, false));
    }
    program.line("changes-its-mind")
}

/// All memory is asked for again and again (`memory.reclaim`), and a small set comes back each
/// time: much is owed when kswapd has its turn.
fn comes_and_goes(tunables: &'static Tunables) -> String {
    let given = Given {
        pool: 1_400,
        ..Given::DEFAULT
    };
    let mut program = Program::new(given, LZ4, tunables);
    (0..2_400).for_each(|page| program.touch(page, true));
    for turn in 0..12 {
        while program.shrink(Effort::Requested).reclaimed > 0 {}
        for page in 0..100 {
            program.bring(page * 7 % 100);
        }
        if turn % 6 == 5 {
            (0..60).for_each(|_| drop(program.shrink(Effort::Background)));
        }
    }
    program.line("comes-and-goes")
}

/// Touches bring their neighbours' more or less often, in several degrees, from the pool and from
/// the device.
fn neighbours(tunables: &'static Tunables) -> String {
    let [little, more] = [640, 1_800].map(|resident| neighbours_beside(resident, tunables));
    format!("{little} {more}")
}

/// The same, with so many resident pages.
fn neighbours_beside(resident: u64, tunables: &'static Tunables) -> String {
    let given = Given {
        resident,
        ..Given::DEFAULT
    };
    let mut program = Program::new(given, LZ4, tunables);
    let mut numbers = Numbers(102 << 40);
    (0..4_096).for_each(|page| program.touch(page, true));
    for degree in [10, 20, 0, 30, 40, 50, 60, 45, 35, 25, 15, 5, 55, 0] {
        let pages = if degree % 10 == 5 { 1_800 } else { 4_096 };
        for _ in 0..if degree == 0 { 5_000 } else { 1_500 } {
            let [kind, at, near] = [(); 3].map(|()| numbers.next());
            let page = at % pages;
            program.touch(page, false);
            if kind % 100 < degree {
                program.touch((page & !3) + near % 4, kind.is_multiple_of(5));
            }
            if kind / 100 % 100 < degree / 2 {
                program.touch((page & !7) + near / 4 % 8, false);
            }
        }
    }
    program.line("neighbours")
}

/// A child has what was there, for more than a minute of this clock; one thread writes behind a
/// gate.
fn relatives(tunables: &'static Tunables) -> String {
    let mut program = Program::new(Given::DEFAULT, LZ4, tunables);
    let mut numbers = Numbers(103 << 40);
    (0..1_200).for_each(|page| program.touch(page, true));
    program.mm.forked();
    let shared = |page: &u64| !page.is_multiple_of(3);
    let mut pins = program.mm.machine().pinned.borrow_mut();
    pins.extend((0..1_200).filter(shared).map(|page| Vpn::new(BASE + page)));
    drop(pins);
    let _ = program.mm.protect_mapped(Vpn::new(BASE), || true);
    for touch in 0..8_000_u64 {
        if touch % 400 == 0 {
            let machine = program.mm.machine();
            // Half of the time that pages are shared for, and a moment.
            machine.clock.set(machine.clock.get() + 2_500_000_000);
            program.mm.settle_sharing();
        }
        if touch == 4_000 {
            program.mm.unprotect_mapped();
        }
        if touch % 7 == 0 {
            part(&mut program, touch % 1_400 == 0);
            slow_clock(&program, 400_000);
        }
        let [kind, at] = [(); 2].map(|()| numbers.next());
        program.touch(at % 1_600, kind.is_multiple_of(4));
    }
    program.mm.end_sharing();
    (0..500).for_each(|_| program.touch(numbers.next() % 1_600, true));
    program.line("relatives")
}

/// Relatives have so much that it takes them a minute to part with it.
fn large_relatives(tunables: &'static Tunables) -> String {
    let given = Given {
        pages: 17_000,
        resident: 17_000,
        pool: 2_000,
        ..Given::DEFAULT
    };
    let mut program = Program::new(given, LZ4, tunables);
    (0..17_000).for_each(|page| program.touch(page, page % 64 == 0));
    program.mm.forked();
    let all = (0..17_000).map(|page| Vpn::new(BASE + page));
    program.mm.machine().pinned.borrow_mut().extend(all);
    (0..200).for_each(|_| drop(program.shrink(Effort::Background)));
    let machine = program.mm.machine();
    machine.clock.set(machine.clock.get() + 16_000_000_000);
    for _ in 0..1_000 {
        let machine = program.mm.machine();
        machine.clock.set(machine.clock.get() + 3_000_000);
        part(&mut program, false);
    }
    program.line("large-relatives")
}

/// Several relatives have all of it, and some work with it.
fn many_relatives(tunables: &'static Tunables) -> String {
    shared_by(3, 2, tunables).line("many-relatives")
}

/// One has, and the pages compress to little less than half.
fn badly_stored(tunables: &'static Tunables) -> String {
    shared_by(1, 3, tunables).line("badly-stored")
}

/// Pages with contents of this kind, which so many relatives have as well.
fn shared_by(relatives: u64, kind: u64, tunables: &'static Tunables) -> Program {
    let mut program = Program::new(Given::DEFAULT, LZ4, tunables);
    let mut numbers = Numbers(106 << 40);
    (0..600).for_each(|page| program.touch(page, false));
    (0..600).for_each(|page| {
        program.bring(page);
        program.write(page, 4 * page + kind);
        program.make_room();
    });
    program.mm.forked();
    program.mm.set_relatives(relatives);
    let pages = (0..600).map(|page| Vpn::new(BASE + page));
    program.mm.machine().pinned.borrow_mut().extend(pages);
    for touch in 0..3_000_u64 {
        let machine = program.mm.machine();
        machine.clock.set(machine.clock.get() + 20_000_000);
        if touch % 5 == 0 {
            part(&mut program, touch % 50 == 0);
        }
        let page = numbers.next() % 1_200;
        program.bring(page);
        program.write(page, 4 * page + kind);
        program.make_room();
    }
    program
}

/// The device takes a thousand times as long as the pool.
fn slow_device(tunables: &'static Tunables) -> String {
    let program = Program::new(Given::DEFAULT, LZ4, tunables);
    program.mm.machine().read_ns.set(20_000_000);
    touch_more_and_more(program).line("slow-device")
}

/// Break the sharing of those whose turn it is.
fn part(program: &mut Program, need: bool) {
    for range in program.mm.take_shared(need) {
        program
            .mm
            .machine()
            .pinned
            .borrow_mut()
            .retain(|vpn| !range.contains(*vpn));
        program.mm.isolate_range(range);
    }
}

/// Pages here and there refuse to move, as a device reads into them, or must stay.
fn pinned(tunables: &'static Tunables) -> String {
    let portions = tunables.portions(1 << 18);
    let given = Given {
        portions,
        ..Given::DEFAULT
    };
    let mut program = Program::new(given, LZ4, tunables);
    slow_clock(&program, 30_000);
    let mut numbers = Numbers(104 << 40);
    for touch in 0..6_000_u64 {
        let [kind, at] = [(); 2].map(|()| numbers.next());
        let machine = program.mm.machine();
        if touch % 1_000 == 999 {
            machine
                .pinned
                .borrow_mut()
                .extend((0..1_024).map(|page| Vpn::new(BASE + page * 2)));
        }
        if touch % 1_500 == 1_499 {
            machine
                .needed
                .borrow_mut()
                .extend((0..400).map(|page| Vpn::new(BASE + page * 3)));
            // All that can leave does, and then what must not is asked.
            for _ in 0..40 {
                program.shrink(Effort::Urgent);
            }
            program.mm.machine().needed.borrow_mut().clear();
        }
        program.touch(at % 2_048, kind.is_multiple_of(2));
        if touch == 3_000 {
            program.mm.fit_portions(1 << 18);
        }
    }
    program.line("pinned")
}

/// Dictionaries are trained on what is stored: on much, and on next to nothing.
fn dictionary(tunables: &'static Tunables) -> String {
    let given = Given {
        pages: 1 << 16,
        ..Given::DEFAULT
    };
    let mut program = Program::new(given, Algorithm::Zstd { level: 1 }, tunables);
    let mut steps = [0; 2];
    for (turn, pages) in [40, 1_500].into_iter().enumerate() {
        (0..pages).for_each(|page| program.touch(page, true));
        while program.shrink(Effort::Requested).reclaimed > 0 {}
        let mut training = program.mm.begin_dictionary(1);
        let step = || program.mm.train_dictionary(&mut program.worker, &mut training);
        steps[turn] = core::iter::repeat_with(step).take_while(Option::is_none).count();
    }
    // The verdict is about the latest dictionary of the process, so of all tests.
    format!("dictionary {steps:?}")
}

/// A pool of many entries loses more and more of them to the device, among a table of many words.
fn empties(tunables: &'static Tunables) -> String {
    let given = Given {
        pages: 1 << 16,
        resident: 1_024,
        pool: 9_000,
        device: 1 << 17,
        portions: Portions {
            folio_order: 2,
            give_up: 16,
        },
        replacement: Replacement::Workingset,
    };
    let mut program = Program::new(given, LZ4, tunables);
    program.mm.set_shrinker(true);
    let mut numbers = Numbers(106 << 40);
    (0..24_000).for_each(|page| program.touch(page, true));
    for touch in 0..14_000_u64 {
        let at = numbers.next();
        let page = if touch % 4 == 0 { at % 24_000 } else { at % 3_000 };
        program.touch(page, at.is_multiple_of(7));
    }
    program.line("empties")
}

/// Much is read in sequence, so blocks are kept; then the same pages are written to; then read
/// again. At last nothing is kept any more.
fn reads_then_writes(tunables: &'static Tunables) -> String {
    let given = Given {
        pool: 1_500,
        ..Given::DEFAULT
    };
    let mut program = Program::new(given, LZ4, tunables);
    (0..2_000).for_each(|page| program.touch(page, true));
    for turn in 0..8_u64 {
        let writes = turn == 2 || turn == 3 || turn == 6;
        for _ in 0..if writes { 1 } else { 2 } {
            (0..2_000).for_each(|page| program.touch(page, writes));
        }
    }
    program.mm.set_swap_cache(false);
    (0..2_000).for_each(|page| program.touch(page, false));
    program.line("reads-then-writes")
}

/// Memory is short, then there is enough of it, by turns: pages are stored by either compressor.
fn denser(tunables: &'static Tunables) -> String {
    let mut program = Program::new(Given::DEFAULT, LZ4, tunables);
    program.mm.set_dense(Some(Algorithm::Zstd { level: 1 }.into()));
    let mut numbers = Numbers(110 << 40);
    (0..2_400).for_each(|page| program.touch(page, true));
    for turn in 0..16_u64 {
        slow_clock(&program, 2_000 + turn % 3 * 6_000);
        for touch in 0..4_000 {
            let [kind, at] = [(); 2].map(|()| numbers.next());
            let page = match turn % 4 {
                3 => touch % 2_400,
                _ if kind % 100 < 97 => at % (640 + turn * 8),
                _ => at % 2_400,
            };
            program.touch(page, kind.is_multiple_of(5));
        }
    }
    program.line("denser")
}
