//! One thread's contexts: what it compresses and decompresses with, one for each algorithm that it
//! has met.

use alloc::vec::Vec;

use uzswap_acomp::{Algorithm, Batch, Context, Counts, Device, Op, Request, SCATTER_MAX};

use crate::checksum;
use crate::machine::Machine;
use crate::page::PAGE_SIZE;
use crate::policy::tunables::ACCELERATOR_DEADLINE_NS;
use crate::zpool::Block;

/// One thread's contexts.
pub(crate) struct Contexts<D>(Vec<Context<D>>);

impl<D> Default for Contexts<D> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<D: Device> Contexts<D> {
    /// The context for `algorithm`, made when it is first asked for.
    pub(crate) fn get<M: Machine<Acomp = D>>(&mut self, machine: &M, algorithm: Algorithm) -> &mut Context<D> {
        let at = self.0.iter().position(|context| context.algorithm() == algorithm);
        let at = at.unwrap_or_else(|| {
            self.0.push(Context::with_device(algorithm, machine.acomp(algorithm)));
            self.0.len() - 1
        });
        &mut self.0[at]
    }

    /// A context that reads what `algorithm` makes, whatever the level: blocks do not depend on it.
    pub(crate) fn reader<M: Machine<Acomp = D>>(&mut self, machine: &M, algorithm: Algorithm) -> &mut Context<D> {
        let reads = |a: &Algorithm| a.codec() == algorithm.codec();
        let met = self.0.iter().map(Context::algorithm).find(reads);
        self.get(machine, met.unwrap_or(algorithm))
    }

    /// Fill `page` from a stored block, by software: whoever holds a lock waits for no
    /// accelerator. False: the block is damaged. A page that lay on the device as it is has no
    /// fingerprint: there it was sealed.
    pub(crate) fn decompress<M: Machine<Acomp = D>>(&mut self, machine: &M, block: Block<'_>, page: &mut [u8]) -> bool {
        let Some(algorithm) = block.codec.algorithm() else {
            page.copy_from_slice(block.bytes);
            return block.is_page_intact();
        };
        checksum::split(block.bytes).is_some_and(|(bytes, checksum)| {
            self.reader(machine, algorithm).decompress(bytes, page) && checksum::holds(checksum, page)
        })
    }

    /// Fill `pages` from stored blocks of one codec: so many bytes each, one behind the other in
    /// `bytes`. Returns how many came out whole before the first that is damaged.
    pub(crate) fn decompress_all<M: Machine<Acomp = D>>(
        &mut self,
        machine: &M,
        algorithm: Algorithm,
        lens: impl ExactSizeIterator<Item = usize>,
        bytes: &[u8],
        pages: &mut [u8],
    ) -> usize {
        let context = self.reader(machine, algorithm);
        // The list is cleared first: a short one for few.
        match lens.len() {
            1 => request::<1, _>(context, machine, lens, bytes, pages),
            2..=8 => request::<8, _>(context, machine, lens, bytes, pages),
            _ => request::<SCATTER_MAX, _>(context, machine, lens, bytes, pages),
        }
    }

    /// Compress one page into `block`. Its length there, with the checksum.
    pub(crate) fn compress_page<M: Machine<Acomp = D>>(
        &mut self,
        machine: &M,
        algorithm: Algorithm,
        page: &[u8],
        block: &mut [u8],
    ) -> Option<usize> {
        let mut len_with_checksum = None;
        let (context, unit) = (self.get(machine, algorithm), block.len());
        let clock = || machine.now_ns();
        submit(context, Op::Compress, &[page], block, unit, &clock).wait(|_, block, len| {
            len_with_checksum = len.ok().and_then(|len| checksum::append(block, len, page));
            true
        });
        len_with_checksum
    }

    /// Go on with other accelerators: those of the parent are nobody's in a forked child, and what
    /// its threads were doing with them is undone by nobody. So they are not even dropped.
    pub(crate) fn renew_devices<M: Machine<Acomp = D>>(&mut self, machine: &M) {
        for context in &mut self.0 {
            let device = machine.acomp(context.algorithm());
            core::mem::forget(context.replace_device(device));
        }
    }

    /// What became of the pages that accelerators were given.
    pub(crate) fn counts(&self) -> Counts {
        self.0.iter().map(Context::counts).sum()
    }
}

/// Begin a request; what an accelerator has not done by the deadline software does.
pub(crate) fn submit<'c, 'a, D: Device>(
    context: &'c mut Context<D>,
    op: Op,
    src: &'a [&'a [u8]],
    dst: &'a mut [u8],
    unit: usize,
    clock: &'a dyn Fn() -> u64,
) -> Batch<'c, 'a, D> {
    context.submit(Request {
        op,
        src,
        dst,
        unit,
        deadline_ns: ACCELERATOR_DEADLINE_NS,
        clock,
    })
}

/// One request for at most `N` blocks: [`Contexts::decompress_all`].
fn request<const N: usize, M: Machine>(
    context: &mut Context<M::Acomp>,
    machine: &M,
    lens: impl Iterator<Item = usize>,
    mut bytes: &[u8],
    pages: &mut [u8],
) -> usize {
    let (mut blocks, mut checksums, mut n) = ([[].as_slice(); N], [&[0; checksum::LEN]; N], 0);
    for len in lens {
        let (block, rest) = bytes.split_at(len);
        bytes = rest;
        // A shorter one is damaged, and those behind it are not asked for.
        let Some((block, checksum)) = checksum::split(block) else {
            break;
        };
        (blocks[n], checksums[n]) = (block, checksum);
        n += 1;
    }
    let clock = || machine.now_ns();
    let mut whole = 0_u64;
    submit(context, Op::Decompress, &blocks[..n], pages, PAGE_SIZE, &clock).wait(|i, page, len| {
        let holds = len.is_ok() && checksum::holds(checksums[i], page);
        whole |= u64::from(holds) << i;
        holds
    });
    whole.trailing_ones() as usize
}
