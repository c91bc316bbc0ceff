//! Other processes: children that are waited for, children that are not, their children, and those
//! that share memory.

use std::os::unix::process::CommandExt;
use std::process::Command;

use uzswap_sys::testing::{self, Kind, Lodger, Memory};
use uzswap_workload::heap::Rng;

use crate::contents::{PAGE, SECTOR, SECTORS, contents};
use crate::ledger;
use crate::moves::Move;
use crate::region::Region;
use crate::round::{Round, scratch_file};

/// Exit status of a process that found a difference.
pub(crate) const DIFFERENT: u8 = 42;
/// Steps of a child, and how deep generations go.
const STEPS: usize = 200;
const DEPTH: usize = 4;
/// Brothers that outlive their parent together.
const BROTHERS: usize = 3;
/// Largest region that is given to a process that shares it.
const LODGED_PAGES: usize = 256;
/// Memory of a process that is outlived: enough to have a pager.
const OUTLIVED_PAGES: usize = 2 << 8;

/// The life of a forked process.
#[derive(Clone, Copy)]
struct Life {
    /// Steps before its own children are born, and after.
    before: u64,
    after: u64,
    /// Children that outlive it, as likely as not, and how many generations there are to come.
    heirs: usize,
    depth: usize,
}

impl Round {
    fn life(&mut self, one: Move) -> Life {
        let (steps, few, depth) = (
            self.below(STEPS) as u64,
            self.below(STEPS / 8) as u64,
            self.below(DEPTH - 1),
        );
        let (before, heirs, depth) = match one {
            Move::Orphan => (0, 1, 1),
            Move::Generations => (few, 1, 2 + depth),
            Move::Storm => (0, BROTHERS, 1),
            _ => (steps, 0, 0),
        };
        // Half of the middle ones end as soon as their heirs are born.
        let after = if heirs > 0 && steps.is_multiple_of(2) { few } else { 0 };
        Life {
            before,
            after,
            heirs,
            depth,
        }
    }

    /// Fork; both sides go on, each with its own copy of everything. What is drawn does not depend
    /// on who lives, so that a round can be played again.
    pub(crate) fn fork(&mut self, one: Move, seed: u64) -> Result<(), String> {
        let life = self.life(one);
        self.reap(false)?;
        let is_awaited = matches!(one, Move::Fork);
        if is_awaited && self.child.is_some() {
            return Ok(());
        }
        let child = self.bear(seed, life, is_awaited);
        if is_awaited {
            self.child = child;
        } else {
            child.into_iter().for_each(ledger::forget);
        }
        Ok(())
    }

    /// A child, if there may be one more process.
    fn bear(&mut self, seed: u64, life: Life, is_awaited: bool) -> Option<i32> {
        if !ledger::begin_process(self.scale.processes) {
            return None;
        }
        let child = testing::fork_and(|| {
            self.be_child(seed);
            let ended = self.live(life);
            if let Err(line) = &ended {
                ledger::fail(&format!("DIFFERENCE in {}, step {}: {line}", self.name, self.step));
            }
            ledger::end_process();
            let is_spoilt = self.scale.spoils && !is_awaited && life.heirs == 0;
            if ended.is_ok() && !is_spoilt { 0 } else { DIFFERENT }
        });
        if child.is_ok() {
            ledger::count_fork();
        } else {
            ledger::end_process();
        }
        child.ok()
    }

    /// In a forked child: what is another process's is not ours.
    fn be_child(&mut self, seed: u64) {
        self.random = Rng::new(seed);
        self.name = format!("a forked child {seed:#x} of step {} of {}", self.step, self.name);
        self.step = 0;
        self.child = None;
        self.lodger.take().into_iter().for_each(Lodger::forget);
        let regions = std::mem::take(&mut self.regions);
        self.regions = regions.into_iter().filter_map(Region::inherited).collect();
        self.file = scratch_file();
    }

    fn live(&mut self, life: Life) -> Result<(), String> {
        if life.heirs == 0 {
            // What was inherited is compared at once, or is changed first.
            if self.below(4) > 0 {
                self.check_all()?;
            }
            self.play_steps(life.before)?;
            return self.finish();
        }
        self.play_steps(life.before)?;
        for _ in 0..life.heirs {
            let (seed, steps) = (self.id(), self.below(STEPS) as u64);
            let heir = if life.depth > 1 {
                Life {
                    depth: life.depth - 1,
                    ..life
                }
            } else {
                Life {
                    before: steps,
                    after: 0,
                    heirs: 0,
                    depth: 0,
                }
            };
            self.bear(seed, heir, false).into_iter().for_each(ledger::forget);
        }
        self.play_steps(life.after)?;
        // Who shares our memory would be left without it by a raw end, and is told by libc's.
        self.part(true)?;
        self.reap(true)
    }

    /// Look after the child that is waited for.
    pub(crate) fn reap(&mut self, block: bool) -> Result<(), String> {
        let Some(pid) = self.child else { return Ok(()) };
        match testing::reap(pid, block) {
            None => Ok(()),
            Some(0) => {
                self.child = None;
                Ok(())
            }
            Some(status) => Err(format!("forked child {pid} ended with status {status}")),
        }
    }

    /// Give a region to a process that shares all memory, which changes it while we go on, or while
    /// we wait as for vfork.
    pub(crate) fn lodge(&mut self, is_vfork: bool, at: usize) -> Result<(), String> {
        self.part(true)?;
        let region = &self.regions[at];
        if self.scale.processes == 0 || !region.is_plain() || region.pages() > LODGED_PAGES {
            return Ok(());
        }
        let Region { memory, ids, .. } = self.regions.swap_remove(at);
        self.lodger = Lodger::move_in(memory, ids, contents, is_vfork, false).ok();
        if is_vfork {
            self.part(true)?;
        }
        Ok(())
    }

    /// What the process that shares memory has left, once it has ended.
    pub(crate) fn part(&mut self, block: bool) -> Result<(), String> {
        let Some(left) = self.lodger.as_mut().and_then(|lodger| lodger.move_out(block)) else {
            return Ok(());
        };
        self.lodger = None;
        let (memory, ids) =
            left.map_err(|status| format!("a process that shares memory ended with status {status}"))?;
        let region = Region::of(memory, ids);
        region.check(region.all())?;
        self.regions.push(region);
        Ok(())
    }

    /// A program that is outlived by a process which shares its memory.
    pub(crate) fn outlive(&mut self, seed: u64) -> Result<(), String> {
        if !ledger::begin_process(self.scale.processes) {
            return Ok(());
        }
        let maker = testing::fork_and(|| {
            // The file may have been replaced.
            let program = "/proc/self/exe";
            let error = Command::new(program).arg("--outlived").arg(seed.to_string()).exec();
            println!("no exec: {error}");
            1
        });
        let status = maker.ok().and_then(|pid| testing::reap(pid, true));
        ledger::end_process();
        match status {
            None | Some(0) => Ok(()),
            Some(status) => Err(format!("a program that is outlived ended with status {status}")),
        }
    }
}

/// The program that [`Round::outlive`] starts: fill memory, make a process that shares it, and end
/// first.
pub(crate) fn be_outlived(seed: u64) -> Option<()> {
    let mut random = Rng::new(seed);
    let ids: Vec<u64> = (0..OUTLIVED_PAGES * SECTORS)
        .map(|_| {
            if random.below(4) == 0 {
                0
            } else {
                random.next_u64() >> 8
            }
        })
        .collect();
    let mut memory = Memory::map(OUTLIVED_PAGES * PAGE, Kind::Heap).ok()?;
    // Some memory beside it, so that there is something to take out.
    let mut more = Memory::map(2 * OUTLIVED_PAGES * PAGE, Kind::Heap).ok()?;
    for (sector, id) in ids.iter().enumerate() {
        memory
            .bytes_mut(sector * SECTOR, SECTOR)
            .copy_from_slice(&contents(*id));
    }
    for (page, id) in ids.iter().enumerate().take(2 * OUTLIVED_PAGES) {
        more.bytes_mut(page * PAGE, SECTOR).copy_from_slice(&contents(*id));
    }
    let lodger = Lodger::move_in(memory, ids, contents, false, true).ok()?;
    std::thread::sleep(std::time::Duration::from_millis(random.below(20)));
    // All that is left is brought back at the end, whatever the limit.
    drop(more);
    lodger.outlive();
    Some(())
}
