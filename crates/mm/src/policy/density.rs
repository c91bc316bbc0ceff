//! Whether pages are stored by the fast compressor or by the denser one.
//!
//! A denser pool leaves more memory to the resident pages, and costs more of the processor for each
//! page that comes and goes. The staged frames show what a frame more is worth. They are the
//! resident pages that would leave next: each fault that finds its page among them would have been
//! a load without them. So the frames that density gains are taken to spare as many loads as the
//! staged ones do, each by its number. What a page costs with either compressor is measured: by
//! what is stored, and by pages that are compressed with the other one now and then, as a probe.
//!
//! Of a scan nothing is found among the staged pages, and of touches at random little: their pages
//! are stored fast.

use crate::page::PAGE_SIZE;
use crate::policy::Policy;
use crate::policy::tunables;
use crate::policy::view::View;

/// Pages that were compressed with one of the two.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Compressed {
    pub(crate) pages: u64,
    pub(crate) bytes: u64,
    pub(crate) ns: u64,
}

/// What pages cost with one of the two.
#[derive(Clone, Copy)]
struct Cost {
    pages: u64,
    bytes: u64,
    /// Nanoseconds a page, the least that was seen: whoever compresses may have lost its core amid
    /// any of the others. Of those that are remembered, and of those before them.
    least_ns: [u64; 2],
}

impl Cost {
    const UNKNOWN: Self = Self {
        pages: 0,
        bytes: 0,
        least_ns: [u64::MAX; 2],
    };

    /// And these; what was long ago counts little.
    fn note(&mut self, more: Compressed, remembered: u64) {
        let Some(ns) = more.ns.checked_div(more.pages) else {
            return;
        };
        self.pages += more.pages;
        self.bytes += more.bytes;
        self.least_ns[0] = self.least_ns[0].min(ns);
        if self.pages >= remembered {
            self.pages /= 2;
            self.bytes /= 2;
            self.least_ns = [u64::MAX, self.least_ns[0]];
        }
    }

    /// Bytes and nanoseconds a page. `None`: too few were seen.
    fn of_page(self, watched_least: u64) -> Option<(u64, u64)> {
        let ns = self.least_ns[0].min(self.least_ns[1]);
        (self.pages >= watched_least).then(|| (self.bytes / self.pages, ns))
    }
}

/// What speaks for either.
pub(crate) struct Density {
    tunables: &'static tunables::Density,
    fast: Cost,
    dense: Cost,
    /// Pages that were stored since it was judged, and staged ones that were faulted by themselves.
    stored: u64,
    restored: u64,
    batches: u32,
    is_dense: bool,
}

impl Density {
    /// Nothing was seen yet: pages are stored fast.
    pub(crate) fn new(tunables: &'static tunables::Density) -> Self {
        Self {
            tunables,
            fast: Cost::UNKNOWN,
            dense: Cost::UNKNOWN,
            stored: 0,
            restored: 0,
            batches: 0,
            is_dense: false,
        }
    }

    pub(crate) fn note_compressed(&mut self, is_dense: bool, compressed: Compressed) {
        let of = if is_dense { &mut self.dense } else { &mut self.fast };
        of.note(compressed, self.tunables.remembered);
    }

    pub(crate) fn note_stored(&mut self, pages: u64) {
        self.stored += pages;
    }

    /// A run of them is a scan that has turned round.
    pub(crate) fn note_restored(&mut self, pages: u64) {
        self.restored += u64::from(pages == 1);
    }

    /// Weigh what was seen since the last time. That it was wrong to begin takes several times as
    /// much, since each change leaves the pool in two.
    fn judge(&mut self, view: &View) {
        let tunables = self.tunables;
        let [fast, dense] = [self.fast, self.dense].map(|cost| cost.of_page(tunables.watched_least));
        if let (Some((fast_bytes, fast_ns)), Some((dense_bytes, dense_ns))) = (fast, dense) {
            let frames = view.objects * fast_bytes.saturating_sub(dense_bytes) / PAGE_SIZE as u64;
            let spared = (self.restored * frames / view.staged.max(1)).min(self.stored / 2);
            let ns = dense_ns.saturating_sub(fast_ns);
            // It is decompressed as well.
            let costs = self.stored * (ns + ns / 2);
            let stays = if self.is_dense { tunables.stays } else { 1 };
            // Two pools have more holes than one, and without a device there is no other place.
            self.is_dense = view.drains && spared * tunables.load_ns * stays > costs;
        }
        (self.stored, self.restored) = (0, 0);
    }
}

impl Policy {
    /// Whether pages are stored by the denser compressor now, where that can be.
    pub(crate) fn stores_densely(&self) -> bool {
        self.density.is_dense
    }

    /// A batch is stored: whether densely, where that can be, and whether some of its pages are to
    /// be compressed with the other compressor as well, to see what that would be.
    pub(crate) fn density(&mut self, view: &View) -> (bool, bool) {
        let density = &mut self.density;
        if density.stored >= density.tunables.judge_every {
            density.judge(view);
        }
        density.batches = density.batches.wrapping_add(1);
        let is_probe = density.batches.is_multiple_of(density.tunables.probe_every);
        (density.is_dense, is_probe)
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::policy::Event;
    use crate::policy::replacement::Replacement;
    use crate::policy::tunables::Tunables;

    const VIEW: View = View {
        objects: 8192,
        staged: 512,
        drains: true,
        ..NONE
    };
    const NONE: View = View {
        working: crate::policy::view::Working {
            pages: 0,
            active: 0,
            cached: 0,
            unevictable: 0,
        },
        resident: 0,
        staged: 0,
        objects: 0,
        pool: 0,
        on_device: 0,
        drains: false,
        shares_pool: false,
    };

    fn is_dense(policy: &mut Policy, restored: u64) -> bool {
        let judge_every = policy.tunables.density.judge_every;
        (0..restored).for_each(|_| {
            policy.note(Event::Restored {
                pages: 1,
                may_give_way: false,
            });
        });
        policy.note(Event::Stored(judge_every));
        policy.density(&VIEW).0
    }

    fn compressed(policy: &mut Policy, is_dense: bool, bytes: u64, ns: u64) {
        let compressed = Compressed {
            pages: 256,
            bytes: 256 * bytes,
            ns: 256 * ns,
        };
        policy.note(Event::Compressed { is_dense, compressed });
    }

    #[test]
    fn pages_are_dense_where_frames_are_worth_it() {
        let mut policy = Policy::new(&Tunables::DEFAULT, Replacement::default(), false);
        let judge_every = policy.tunables.density.judge_every;
        assert!(!is_dense(&mut policy, judge_every));
        // 1024 frames more, twice as many as are staged, for 9 us a page.
        compressed(&mut policy, false, 1536, 2_000);
        compressed(&mut policy, true, 1024, 8_000);
        assert!(!is_dense(&mut policy, judge_every / 10));
        assert!(is_dense(&mut policy, judge_every / 5));
        assert!(is_dense(&mut policy, judge_every / 20));
        assert!(!is_dense(&mut policy, judge_every / 50));
        assert!(!is_dense(&mut policy, 0));
        policy.note(Event::Stored(judge_every));
        (0..judge_every).for_each(|_| {
            policy.note(Event::Restored {
                pages: 1,
                may_give_way: false,
            });
        });
        let no_device = View { drains: false, ..VIEW };
        assert!(!policy.density(&no_device).0);
    }

    #[test]
    fn what_is_no_denser_or_unknown_is_stored_fast() {
        let mut policy = Policy::new(&Tunables::DEFAULT, Replacement::default(), false);
        let judge_every = policy.tunables.density.judge_every;
        compressed(&mut policy, false, 1024, 2_000);
        assert!(!is_dense(&mut policy, judge_every));
        compressed(&mut policy, true, 1100, 2_500);
        assert!(!is_dense(&mut policy, judge_every));
    }

    #[test]
    fn some_batches_are_probes() {
        let mut policy = Policy::new(&Tunables::DEFAULT, Replacement::default(), false);
        let every = policy.tunables.density.probe_every as usize;
        assert_eq!((0..10 * every).filter(|_| policy.density(&VIEW).1).count(), 10);
    }
}
