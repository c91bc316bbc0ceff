//! The staging range, as memory.

use uzswap_mm::machine::SCATTER_MAX;
use uzswap_mm::page::PAGE_SIZE;
use uzswap_sys::mapping::Mapping;

/// Run `f` on the pages in these slots of a staging range, [`SCATTER_MAX`] at most.
pub fn with_staged<T>(staging: &Mapping, slots: &[u32], f: impl FnOnce(&[&[u8]]) -> T) -> T {
    let mut pages = [[].as_slice(); SCATTER_MAX];
    for (page, slot) in pages.iter_mut().zip(slots) {
        *page = staging.bytes(*slot as usize * PAGE_SIZE, PAGE_SIZE);
    }
    f(&pages[..slots.len()])
}
