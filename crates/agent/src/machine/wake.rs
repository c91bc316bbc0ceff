//! Pages are mapped, and whoever waits for them is woken: by the vigil, if it is there.

use uzswap_mm::machine::{Done, Stop};
use uzswap_mm::page::{PAGE_SIZE, PageRange, Vpn};
use uzswap_sys::uffd::{Filled, Uffd};

use super::{AgentMachine, filled_in};
use crate::cpu::vigil::VIGIL;

impl AgentMachine {
    /// Wake whoever waits for pages of `run`. What is protected stays so.
    pub(crate) fn wake_run(&self, run: PageRange) {
        let pages = run.pages() as usize;
        self.managed().wake(run.start.addr(), pages * PAGE_SIZE);
    }

    /// Wake whoever waits for pages that were filled, by the vigil if it has a `beat`.
    pub(crate) fn wake_filled(&self, beat: Option<u64>, vpn: Vpn, pages: u32) {
        let (run, wake) = (PageRange::new(vpn, pages.into()), |run| self.wake_run(run));
        match beat {
            _ if pages == 0 => {}
            Some(beat) => VIGIL.wake(beat, run, wake),
            None => wake(run),
        }
    }

    /// Map pages at `vpn` with `copy`, which is told whether it is to wake who waits for them.
    pub(crate) fn fill(&self, vpn: Vpn, wake: bool, copy: impl FnOnce(&Uffd, bool) -> Filled) -> Done {
        if let Some(done) = self.fail.stop(&[Stop::Again, Stop::NoMemory]) {
            return done;
        }
        let beat = if wake { VIGIL.beat() } else { None };
        let done = filled_in(copy(self.managed(), wake && beat.is_none()));
        match beat {
            Some(_) => self.wake_filled(beat, vpn, done.pages),
            None => self.settle_errand(),
        }
        done
    }

    /// Before what takes long, or when nothing is left to the vigil: nobody is left waiting for it.
    pub(crate) fn settle_errand(&self) {
        VIGIL.settle(|run| self.wake_run(run));
    }
}
