//! A program in a few numbers: what of its memory it touches, and what that costs once it is out.

use super::*;

const MIB: u64 = 1 << 20;
const STEP: Duration = Duration::from_millis(250);
const BUDGET: f64 = 0.01;
/// Of a page that comes back.
const FAULT: f64 = 10e-6;
const PAGE: f64 = 4096.0;

struct World {
    controller: Controller,
    seen: Snapshot,
    /// Bytes that are out, of those that nobody wants, and of those that are wanted all the time.
    cold_out: f64,
    hot_out: f64,
    cold: f64,
    hot: f64,
    /// Parts of a core.
    active: f64,
    asked: u64,
}

impl World {
    fn new(hot: u64, cold: u64) -> Self {
        Self {
            controller: Controller::default(),
            seen: Snapshot::default(),
            cold_out: 0.0,
            hot_out: 0.0,
            cold: cold as f64,
            hot: hot as f64,
            active: 1.0,
            asked: 0,
        }
    }

    fn size(&self) -> f64 {
        self.cold + self.hot - self.cold_out - self.hot_out
    }

    /// Memory is taken as it comes. What is hot comes back before the next look.
    fn step(&mut self) {
        let back = std::mem::take(&mut self.hot_out);
        self.seen.restored += back as u64;
        self.seen.stalled += Duration::from_secs_f64(back / PAGE * FAULT);
        self.seen.now += STEP;
        self.seen.ran += STEP.mul_f64(self.active);
        self.seen.size = self.size() as u64;
        self.asked = self.controller.ask(BUDGET, self.seen);
        let taken = (self.asked as f64).min(self.size());
        let hot = taken * self.hot / self.size().max(1.0);
        self.seen.taken += taken as u64;
        self.hot_out += hot;
        self.cold_out += taken - hot;
    }

    fn run(&mut self, seconds: u64) -> &mut Self {
        (0..seconds * 4).for_each(|_| self.step());
        self
    }

    /// All that is out is wanted at once, and hot from now on.
    fn touch_all(&mut self) {
        self.seen.stalled += Duration::from_secs_f64(self.cold_out / PAGE * FAULT);
        self.hot += std::mem::take(&mut self.cold_out);
        self.cold = 0.0;
    }

    fn stalled_since(&self, then: Snapshot) -> f64 {
        let passed = self.seen.now - then.now;
        (self.seen.stalled - then.stalled).as_secs_f64() / passed.as_secs_f64()
    }

    /// Bytes taken in so many seconds.
    fn taken_in(&mut self, seconds: u64) -> u64 {
        let before = self.seen.taken;
        self.run(seconds).seen.taken - before
    }
}

#[test]
fn cold_memory_is_given_back_within_the_budget() {
    let mut world = World::new(50 * MIB, 200 * MIB);
    let before = world.seen;
    world.run(60);
    assert!(world.cold_out > 0.7 * world.cold, "{}", world.cold_out / world.cold);
    assert!(world.stalled_since(before) <= BUDGET, "{}", world.stalled_since(before));
    // In small steps: not all of it at once.
    assert!(World::new(50 * MIB, 200 * MIB).taken_in(2) < 10 * MIB);
}

#[test]
fn nothing_is_taken_from_a_hot_program_but_now_and_then_a_little() {
    let mut world = World::new(250 * MIB, 0);
    let before = world.seen;
    world.run(60);
    assert!(
        world.stalled_since(before) < BUDGET / 4.0,
        "{}",
        world.stalled_since(before)
    );
    let later = world.seen;
    world.run(600);
    assert!(
        world.stalled_since(later) < BUDGET / 10.0,
        "{}",
        world.stalled_since(later)
    );
    assert_eq!(world.controller.rest, REST_MOST);
}

#[test]
fn growth_is_answered_at_once() {
    let mut world = World::new(20 * MIB, 400 * MIB);
    world.run(20);
    assert!(world.asked > 0);
    for _ in 0..20 {
        world.hot += 20.0 * MIB as f64;
        world.step();
        assert_eq!(world.asked, 0);
    }
    assert!(world.taken_in(5) > 0);
}

#[test]
fn little_is_taken_from_an_idle_program() {
    let mut world = World::new(20 * MIB, 400 * MIB);
    world.run(20);
    let busy = world.taken_in(2);
    world.active = 0.0;
    world.step();
    let idle = world.taken_in(2);
    assert!(idle > 0 && idle * 8 < busy, "{idle} {busy}");
    // One that waits for its clients most of the time is not idle.
    world.active = 0.1;
    world.step();
    assert!(world.taken_in(2) > idle * 8);
}

#[test]
fn a_program_that_wants_it_back_is_left_alone_for_as_long_as_that_has_cost() {
    let pause_after = |cold: u64| {
        let mut world = World::new(20 * MIB, cold);
        world.run(90);
        let cost = world.cold_out / PAGE * FAULT / BUDGET;
        world.touch_all();
        let mut pause = 0.0;
        while world.taken_in(1) == 0 {
            pause += 1.0;
        }
        (pause, cost)
    };
    for cold in [100, 200] {
        let (pause, cost) = pause_after(cold * MIB);
        assert!(cost > 20.0 && pause > cost - 2.0 * CREDIT_MOST, "{pause} {cost}");
    }
    // However much it was.
    let (pause, cost) = pause_after(2000 * MIB);
    let rest = REST_MOST.as_secs_f64();
    assert!(cost > 2.0 * DEBT_MOST && pause < DEBT_MOST + rest, "{pause} {cost}");
}

#[test]
fn pages_that_are_wanted_now_and_then_come_to_rest_at_the_budget() {
    // Each page that is out comes back once in 40 seconds.
    let mut world = World::new(20 * MIB, 400 * MIB);
    let mut run = |seconds: u64| {
        for _ in 0..seconds * 4 {
            let back = world.cold_out * STEP.as_secs_f64() / 40.0;
            world.cold_out -= back;
            world.seen.stalled += Duration::from_secs_f64(back / PAGE * FAULT);
            world.step();
        }
        world.seen
    };
    run(60);
    let then = run(0);
    let now = run(60);
    let stalled = (now.stalled - then.stalled).as_secs_f64() / 60.0;
    assert!((0.6 * BUDGET..1.05 * BUDGET).contains(&stalled), "{stalled}");
}

#[test]
fn where_nothing_is_left_nobody_is_asked_again_and_again() {
    let mut world = World::new(0, 100 * MIB);
    // As if all that could leave had left.
    let mut asks = 0;
    for _ in 0..400 {
        world.seen.now += STEP;
        world.seen.ran += STEP;
        world.seen.size = 50 * MIB;
        asks += u32::from(world.controller.ask(BUDGET, world.seen) > 0);
    }
    assert!(asks < 60, "{asks}");
}

#[test]
fn small_programs_and_the_first_look_are_left_alone() {
    let mut world = World::new(0, 12 * MIB);
    assert_eq!(world.taken_in(60), 0);
    let mut world = World::new(0, 400 * MIB);
    world.step();
    assert_eq!(world.asked, 0);
}

#[test]
fn clocks_that_stand_still_or_jump_do_no_harm() {
    let mut controller = Controller::default();
    let seen = |seconds| Snapshot {
        now: Duration::from_secs(seconds),
        size: 100 * MIB,
        ..Snapshot::default()
    };
    for now in [5, 5, 5, 3, 1_000_000, 1_000_001] {
        let ask = controller.ask(BUDGET, seen(now));
        assert!(ask <= BYTES_MOST as u64, "{ask}");
        assert!(controller.credit.is_finite() && controller.stalling.is_finite());
    }
}
