//! Size classes: 16-byte steps, each with the zspage length that wastes least.
//!
//! # Worked example
//! Objects of 1,360 bytes: one page holds 3 and wastes 16 of 4,096 bytes (0.4 %). Objects of 1,376: one page holds 2
//! and wastes 1,344; three pages hold 8 and waste 1,280 of 12,288; eight pages hold 23 and waste 1,120 of 32,768
//! (3.4 %). Neighbouring sizes with the same pages and objects per zspage share the larger class, as in the kernel.

/// Bytes between neighbouring sizes.
pub const STEP: usize = 16;
/// Smallest object.
pub const MIN: usize = 32;
/// Largest object: a page stored as it is.
pub const MAX: usize = 4096;
/// Most pages in a zspage (CONFIG_ZSMALLOC_CHAIN_SIZE).
pub const CHAIN_MAX: usize = 8;
/// How many sizes there are before merging.
pub const COUNT: usize = (MAX - MIN) / STEP + 1;

/// Geometry of one class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeClass {
    /// Bytes of each object.
    pub size: u16,
    /// Pages of each zspage.
    pub pages: u8,
    /// Objects in each zspage.
    pub objects: u16,
}

/// Index of the smallest size that holds `len` bytes.
pub const fn index(len: usize) -> usize {
    if len <= MIN { 0 } else { (len - MIN).div_ceil(STEP) }
}

/// The class of each size, merged: entry `i` may have a larger size than index `i` asks for.
pub const fn table() -> [SizeClass; COUNT] {
    let mut classes = [SizeClass {
        size: 0,
        pages: 0,
        objects: 0,
    }; COUNT];
    let mut i = COUNT;
    while i > 0 {
        i -= 1;
        let size = MIN + i * STEP;
        let pages = best_chain(size);
        let objects = pages * 4096 / size;
        let same_as_next =
            i + 1 < COUNT && classes[i + 1].pages as usize == pages && classes[i + 1].objects as usize == objects;
        classes[i] = if same_as_next {
            classes[i + 1]
        } else {
            SizeClass {
                size: size as u16,
                pages: pages as u8,
                objects: objects as u16,
            }
        };
    }
    classes
}

/// Pages per zspage with the smallest share of waste.
const fn best_chain(size: usize) -> usize {
    let (mut best, mut best_waste) = (1, 4096 % size);
    let mut pages = 2;
    while pages <= CHAIN_MAX {
        let waste = (pages * 4096) % size;
        // waste / pages < best_waste / best, without division
        if waste * best < best_waste * pages {
            (best, best_waste) = (pages, waste);
        }
        pages += 1;
    }
    best
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn every_length_has_a_class_that_holds_it_closely() {
        let table = table();
        for len in 1..=MAX {
            let class = table[index(len)];
            assert!(usize::from(class.size) >= len);
            assert!(usize::from(class.objects) * usize::from(class.size) <= usize::from(class.pages) * 4096);
            assert!(usize::from(class.objects) <= 1024);
        }
        let distinct = table.windows(2).filter(|w| w[0] != w[1]).count() + 1;
        assert!((60..256).contains(&distinct), "{distinct}");
        assert_eq!(
            table[index(1360)],
            SizeClass {
                size: 1360,
                pages: 1,
                objects: 3
            }
        );
    }
}
