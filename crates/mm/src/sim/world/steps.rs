//! What may happen to a [`World`], one step at a time.

use lock_api::RawMutex;
use uzswap_acomp::Compressor;

use super::{BASE, PAGES, World, algorithm};
use crate::machine::{Clock, Mapper};
use crate::page::{PageRange, Vpn};
use crate::zpool::{PoolKind, ZpoolType};
use crate::{Effort, Idle, SwapOut};

/// What [`World::step`] can do.
pub const OPS: u8 = 31;

impl<R: RawMutex> World<R> {
    /// One thing that a program, its pager or its machine may do.
    #[expect(clippy::too_many_lines, reason = "an arm for each step")]
    pub fn step(&mut self, op: u8, page: u64, len: u64, seed: u64) {
        let vpn = Vpn::new(BASE + page);
        let half = PAGES / 2;
        let len = len.min(PAGES - page);
        match op {
            0..=3 => self.write(vpn, seed),
            4 | 5 => self.check(vpn),
            6 => self.go_over(vpn, seed),
            7 => self.remove(PageRange::new(vpn, len)),
            8 => drop(self.mm.shrink(
                &mut self.worker,
                16,
                [Effort::Background, Effort::Requested, Effort::Urgent][seed as usize % 3],
            )),
            9 => drop(self.mm.writeback(&mut self.worker, 8)),
            10 => self.remap(
                PageRange::new(Vpn::new(BASE + page % half), len.min(half - page % half)),
                Vpn::new(BASE + half),
            ),
            11 => {
                self.mm.machine().disk_fails.set(seed.is_multiple_of(2));
                self.mm.tick();
            }
            12 => {
                self.mm.machine().pinned.borrow_mut().insert(vpn);
            }
            13 => {
                self.mm.machine().pinned.borrow_mut().clear();
                self.mm.machine().boundary.set(seed.is_multiple_of(2).then_some(vpn));
            }
            14 => {
                if self.mm.is_frozen() {
                    self.thaw();
                } else {
                    let pin = self.mm.freeze();
                    self.mm.unpin(pin);
                }
            }
            15 if seed.is_multiple_of(3) => self.mm.set_pool_limit(u64::MAX, u64::MAX),
            15 => self.mm.set_pool_limit(seed % 12, seed % 10),
            16 => drop(self.mm.compact(seed % 4, || false)),
            17 => self.mm.set_writeback(seed.is_multiple_of(2)),
            18 if seed.is_multiple_of(2) => drop(self.mm.isolate_range(PageRange::new(vpn, len))),
            18 => {
                self.mm.isolate_by_copy(&(), PageRange::new(vpn, len));
            }
            19 => self.mm.set_swap_out(SwapOut::from_word(seed % 3)),
            20 => self.mm.set_enabled(!seed.is_multiple_of(5)),
            21 => self.mm.discard_swap(),
            22 => self.recompress(),
            23 => {
                self.mm.set_shrinker(seed.is_multiple_of(2));
                let dense = Compressor::from(algorithm(seed / 8));
                self.mm.set_dense((!seed.is_multiple_of(4)).then_some(dense));
            }
            24 => self.mm.set_swap_cache(!seed.is_multiple_of(4)),
            25 => {
                if seed.is_multiple_of(2) {
                    self.mm.forked();
                } else {
                    self.mm.end_sharing();
                }
                self.mm.settle_sharing();
                self.mm.fit_portions(seed % 2048);
                for range in self.mm.take_shared(seed.is_multiple_of(3)) {
                    self.mm.isolate_range(range);
                }
            }
            26 => self.cross(len.min(PAGES / 3), seed.is_multiple_of(2)),
            27 => {
                let vpn = self.near_the_last(seed >> 8, vpn);
                self.serve(seed as usize % self.servers.len(), vpn);
            }
            // As in a forked child.
            28 if seed.is_multiple_of(2) => self.mm.machine().protected.borrow_mut().clear(),
            28 if !self.mm.machine().copies() => {
                if self.mm.protect_mapped(Vpn::new(0), || !seed.is_multiple_of(7)).is_err() {
                    self.mm.unprotect_mapped();
                }
            }
            // Late, or nobody's.
            29 => {
                self.mm.write_fault(vpn, seed.is_multiple_of(2));
            }
            _ => drop(self.mm.set_pool(PoolKind {
                zpool: ZpoolType::from_word(seed % 3),
                compressor: Compressor {
                    algorithm: algorithm(seed / 3),
                    is_parallel: seed.is_multiple_of(2),
                },
            })),
        }
        self.mm.assert_valid();
    }

    /// Read everything from `vpn` on, in sequence, and write to one page in eight, with little of
    /// it resident: blocks are kept.
    fn go_over(&mut self, vpn: Vpn, seed: u64) {
        for vpn in PageRange::new(vpn, BASE + PAGES - vpn.number()).iter() {
            self.check(vpn);
            if (vpn.number() + seed).is_multiple_of(8) {
                self.write(vpn, seed);
            }
            if vpn.number().is_multiple_of(8) {
                self.mm.shrink(&mut self.worker, 32, Effort::Requested);
            }
        }
    }

    /// Compress everything that is stored again.
    fn recompress(&mut self) {
        self.mm.tick();
        let idle = Idle {
            algorithm: algorithm(1),
            since_ns: self.mm.machine().now_ns(),
        };
        while self.mm.recompress(&mut self.worker, idle) > 0 {}
    }
}
