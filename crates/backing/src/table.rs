//! The memory of the swap table.

use uzswap_mm::swap_table::TableMemory;
use uzswap_sys::Errno;
use uzswap_sys::words::{discard_words, words};

/// The swap table's range: of 120 GiB of memory or a million pages that lie alone at least, of 16
/// times as much at most.
const TABLE_MIN: usize = 256 << 20;
const TABLE_MAX: usize = 4 << 30;

/// A swap table's, beside pools of `pool_bytes`, or as much as the address space holds.
///
/// # Errors
/// ENOMEM: it holds next to nothing.
pub fn table_memory(pool_bytes: usize) -> Result<TableMemory, Errno> {
    let bytes = (pool_bytes / 8).clamp(TABLE_MIN, TABLE_MAX).next_power_of_two();
    let sizes = (0..8).map(|i| bytes >> i);
    let words = sizes.into_iter().find_map(|len| words(len).ok());
    Ok(TableMemory {
        words: words.ok_or(Errno::NOMEM)?,
        release: discard_words,
    })
}
