//! mremap(2): what the kernel takes for several mappings moves and grows as the one that it is for
//! the program.

use core::ffi::c_int;
use core::sync::atomic::{AtomicUsize, Ordering};

use uzswap_mm::page::PAGE_SIZE;
use uzswap_sys::maps::Maps;
use uzswap_sys::thread::{page_align, syscall_of_program};
use uzswap_sys::{Errno, vdso};

use super::mmap::{munmap, reserve};
use super::order::InOrder;
use super::stacks::StackChange;
use super::{closed, mapped};
use crate::memcg::deferral;
use crate::{guard, pager};

pub(crate) const SYS_MREMAP: usize = 25;
pub(crate) const MREMAP_MAYMOVE: c_int = 1;
pub(crate) const MREMAP_FIXED: c_int = 2;
pub(crate) const MREMAP_DONTUNMAP: c_int = 4;

/// The address that is moved from by an mremap which leaves its mapping behind; 0: none is under
/// way.
static KEEPING: AtomicUsize = AtomicUsize::new(0);

/// Until the call is over.
struct Keeping(bool);

impl Drop for Keeping {
    fn drop(&mut self) {
        if self.0 {
            KEEPING.store(0, Ordering::SeqCst);
        }
    }
}

/// Whether what is moved from `addr` at this moment leaves its mapping behind.
pub(crate) fn is_keeping(addr: usize) -> bool {
    addr != 0 && KEEPING.load(Ordering::SeqCst) == addr
}

/// Pieces of one mapping at most that are moved one by one.
const PIECES: usize = 64;
/// How often what is one mapping and then several is looked at again.
const LOOKS: usize = 8;

/// Where each of the mappings ends that a range is for the kernel. They touch, and may be used in
/// the same way: one mapping for the program. The kernel does not join what was registered, or
/// copied by a fork, at another time.
struct Pieces {
    ends: [usize; PIECES],
    count: usize,
}

impl Pieces {
    /// Those of the `len` bytes from `start`, as they are now.
    ///
    /// # Errors
    /// EFAULT: it is one mapping, or not one for the program, or cannot be told (no /proc, no
    /// descriptor left).
    fn of(start: usize, len: usize) -> Result<Self, Errno> {
        let end = start.checked_add(len).ok_or(Errno::FAULT)?;
        let maps = Maps::of_program().map_err(|_| Errno::FAULT)?;
        let (mut ends, mut count, mut at) = ([0; PIECES], 0, start);
        let mut first = None;
        while at < end {
            let vma = maps
                .at_or_after(at)
                .ok()
                .flatten()
                .filter(|vma| vma.start <= at)
                .ok_or(Errno::FAULT)?;
            let is_alike = vma.is_private_anonymous() && first.get_or_insert(vma).is_used_as(&vma);
            if !is_alike || count == PIECES {
                return Err(Errno::FAULT);
            }
            at = vma.end.min(end);
            ends[count] = at;
            count += 1;
        }
        if count < 2 {
            return Err(Errno::FAULT);
        }
        Ok(Self { ends, count })
    }

    fn ends(&self) -> &[usize] {
        &self.ends[..self.count]
    }
}

/// Whether `[start, end)` is several mappings for the kernel, if that can be told.
fn is_several(start: usize, end: usize) -> bool {
    let vma = Maps::of_program()
        .ok()
        .and_then(|maps| maps.at_or_after(start).ok().flatten());
    vma.is_some_and(|vma| vma.start <= start && vma.end < end)
}

/// One call.
#[derive(Clone, Copy)]
struct Remap {
    addr: usize,
    old_len: usize,
    new_len: usize,
    flags: c_int,
    /// Whatever the register held if none was passed.
    new_addr: usize,
}

impl Remap {
    fn is_fixed(&self) -> bool {
        self.flags & MREMAP_FIXED != 0
    }

    fn keeps(&self) -> bool {
        self.flags & MREMAP_DONTUNMAP != 0
    }

    fn is_aligned(&self) -> bool {
        (self.addr | self.new_addr | self.old_len | self.new_len).is_multiple_of(PAGE_SIZE)
    }

    /// As it is, in turn.
    fn make(&self) -> Result<usize, Errno> {
        let _turn = InOrder::begin();
        self.make_in_turn()
    }

    /// As [`make`](Self::make), if it is one mapping for the kernel. `None`: it would be refused,
    /// half-way perhaps.
    fn make_if_one(&self) -> Option<Result<usize, Errno>> {
        let _turn = InOrder::begin();
        // No scan registers a part of it before the call: that needs a turn as well.
        let is_several = is_several(self.addr, self.addr.saturating_add(self.old_len.min(self.new_len)));
        (!is_several).then(|| self.make_in_turn())
    }

    fn make_in_turn(&self) -> Result<usize, Errno> {
        let &Self {
            addr,
            old_len,
            new_len,
            flags,
            new_addr,
        } = self;
        let stacks = StackChange::begin();
        let moving = stacks.lift(addr, old_len);
        let covered = self.is_fixed().then(|| stacks.lift(new_addr, new_len));
        // The event is read before the call returns.
        KEEPING.store(if self.keeps() { addr } else { 0 }, Ordering::SeqCst);
        let _done = Keeping(self.keeps());
        let args = [addr, old_len, new_len, flags as usize, new_addr, 0];
        // SAFETY: exactly the call that the program makes, or a part of it. The kernel looks at
        // `new_addr` only with MREMAP_FIXED or MREMAP_DONTUNMAP, which take it.
        let make = || unsafe { syscall_of_program(SYS_MREMAP, args) };
        let result = closed::remap(args, make).unwrap_or_else(make);
        if let Ok(start) = result {
            // Whatever was recorded of a place where nothing was.
            stacks.remove(start, new_len);
            stacks.put(&moving, start, page_align(new_len));
        } else if let Some(covered) = &covered {
            stacks.restore(covered);
        }
        if self.keeps() || result.is_err() {
            stacks.restore(&moving);
        }
        result
    }

    /// Whether it moves what may be several mappings for the kernel. From Linux 6.17 on that moves
    /// the first of several before it refuses the next.
    fn may_be_several(&self) -> bool {
        let is_far = self.addr.abs_diff(self.new_addr) >= self.old_len.max(self.new_len);
        let is_move = match self.keeps() {
            true => self.flags == MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP && self.old_len == self.new_len,
            false => self.flags == MREMAP_MAYMOVE | MREMAP_FIXED,
        };
        let is_sound = is_move && self.is_aligned() && is_far && self.new_len > 0;
        is_sound && !uzswap_sys::closed::is_on() && pager::active().is_some()
    }

    /// As it is, of however many mappings.
    fn make_whole(&self) -> Result<usize, Errno> {
        let looks = if self.may_be_several() { LOOKS } else { 0 };
        let made = (0..looks).find_map(|_| match self.make_of_pieces(Some(self.new_addr)) {
            Err(Errno::FAULT) => self.make_if_one(),
            made => Some(made),
        });
        made.unwrap_or_else(|| self.make())
    }

    /// Whether it is a move that shrinks. Before Linux 6.15 its event says the length from before.
    fn shrinks(&self) -> bool {
        let is_apart = self.addr.abs_diff(self.new_addr) >= self.old_len;
        let is_shorter = 0 < self.new_len && self.new_len < self.old_len;
        self.flags == MREMAP_MAYMOVE | MREMAP_FIXED && is_shorter && self.is_aligned() && is_apart
    }

    /// What stays moves, and the rest goes.
    fn make_and_shrink(&self) -> Result<usize, Errno> {
        // No fork comes in between.
        let _turn = InOrder::begin();
        let stays = Self {
            old_len: self.new_len,
            ..*self
        };
        let start = stays.make_whole()?;
        // Refused where there are too many mappings: what is moved cannot be refused any more.
        let _ = munmap(self.addr + self.new_len, self.old_len - self.new_len);
        Ok(start)
    }

    /// Make what is several mappings for the kernel, and one for the program, longer where it is.
    ///
    /// # Errors
    /// As [`Pieces::of`]; what mremap answers. Nothing was done then.
    fn grow_pieces(&self) -> Result<usize, Errno> {
        let (old_len, new_len) = (page_align(self.old_len), page_align(self.new_len));
        let _turn = InOrder::begin();
        let pieces = Pieces::of(self.addr, old_len)?;
        let before = pieces.ends()[pieces.count - 2] - self.addr;
        let last = Self {
            addr: self.addr + before,
            old_len: old_len - before,
            new_len: new_len - before,
            flags: 0,
            new_addr: 0,
        };
        last.make().map(|_| self.addr)
    }

    /// Move what is several mappings for the kernel, and one for the program; `None`: to wherever
    /// there is room.
    ///
    /// # Errors
    /// As [`Pieces::of`], and nothing was done. What mmap and mremap answer; all is where it was
    /// then, unless there are almost too many mappings (vm.max_map_count).
    fn make_of_pieces(&self, to: Option<usize>) -> Result<usize, Errno> {
        let (addr, old_len, new_len) = (self.addr, page_align(self.old_len), page_align(self.new_len));
        // One turn for all: a fork's child finds none or all of it moved. Nothing waits for kswapd
        // meanwhile, which needs a turn to look at mappings.
        let _turn = InOrder::begin();
        let pieces = Pieces::of(addr, old_len.min(new_len))?;
        let ends = pieces.ends();
        // Before anything goes.
        let place = match to {
            Some(to) => to,
            None => reserve(new_len)?,
        };
        if new_len < old_len {
            munmap(addr + new_len, old_len - new_len)?;
        }
        let fixed = MREMAP_MAYMOVE | MREMAP_FIXED;
        let piece = |n: usize, flags| {
            let start = if n == 0 { addr } else { ends[n - 1] };
            let is_last = n + 1 == ends.len();
            Self {
                addr: start,
                old_len: ends[n] - start,
                new_len: if is_last { addr + new_len } else { ends[n] } - start,
                flags,
                new_addr: place + (start - addr),
            }
        };
        let flags = if self.keeps() { fixed | MREMAP_DONTUNMAP } else { fixed };
        for (n, end) in ends.iter().enumerate() {
            if let Err(errno) = piece(n, flags).make() {
                for back in (0..n).map(|n| piece(n, fixed)) {
                    let _ = Self {
                        addr: back.new_addr,
                        new_addr: back.addr,
                        ..back
                    }
                    .make();
                }
                // Where the one that was refused was to go may be somebody else's by now.
                let tried = end - addr;
                if to.is_none() && tried < new_len {
                    let _ = munmap(place + tried, new_len - tried);
                }
                return Err(errno);
            }
        }
        Ok(place)
    }
}

/// mremap(2). `new_addr` is whatever the register held if none was passed.
pub(crate) fn mremap(
    addr: usize,
    old_len: usize,
    new_len: usize,
    flags: c_int,
    new_addr: usize,
) -> Result<usize, Errno> {
    let call = Remap {
        addr,
        old_len,
        new_len,
        flags,
        new_addr,
    };
    vdso::note_unmapped(addr, old_len);
    if call.is_fixed() {
        vdso::note_unmapped(new_addr, new_len);
    }
    let pager = pager::active();
    if let Some(pager) = pager.filter(|_| call.is_fixed() && deferral::has_unseen()) {
        // What is two mappings only because a part is not registered yet would be refused, perhaps
        // after the target was unmapped.
        pager.request_scan();
    }
    let mut result = match pager.is_some() && call.shrinks() {
        true => call.make_and_shrink(),
        false => call.make_whole(),
    };
    if let (Err(Errno::FAULT), Some(pager)) = (result, pager) {
        if !call.is_fixed() {
            // The same; but nothing was unmapped, so it may be tried again.
            mapped::miss();
            pager.request_scan();
            result = call.make();
        }
        // What the kernel keeps apart all the same, as it was touched meanwhile.
        let grows = flags & !MREMAP_MAYMOVE == 0 && new_len > old_len;
        if result == Err(Errno::FAULT) && grows {
            result = call.grow_pieces();
        }
        let goes_anywhere = flags == MREMAP_MAYMOVE || call.keeps() && !call.is_fixed() && old_len == new_len;
        if result.is_err() && goes_anywhere {
            result = call.make_of_pieces(None);
        }
    }
    let start = result?;
    guard::note_grown(start, start + page_align(new_len));
    if new_len > old_len {
        deferral::note_growth(start + old_len, new_len - old_len, true);
    }
    Ok(start)
}
