//! Size classes: 16-byte steps, each with the zspage length that wastes least.
//!
//! # Worked example
//! Objects of 1,360 bytes: one page holds 3 and wastes 16 of 4,096 bytes (0.4 %), so eight pages
//! hold 24. Objects of 1,376: one page holds 2 and wastes 1,344; three pages hold 8 and waste 1,280
//! of 12,288; eight pages hold 23 and waste 1,120 of 32,768 (3.4 %). Neighbouring sizes with the
//! same pages and objects per zspage share the larger class, as in the kernel.

/// Bytes between neighbouring sizes.
const STEP: usize = 16;
/// Smallest object.
const MIN: usize = 32;
/// Largest object: a page stored as it is.
const MAX: usize = 4096;
/// Most pages in a zspage (CONFIG_ZSMALLOC_CHAIN_SIZE).
pub const CHAIN_MAX: usize = 8;
/// Pages of a zspage up to which a chain is repeated: what a zspage costs in metadata is shared by
/// its objects. Whole pages share none, so that each goes back to the system by itself.
const LONG_ENOUGH: usize = 8;
/// How many sizes there are before merging.
const COUNT: usize = (MAX - MIN) / STEP + 1;

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
const fn index(len: usize) -> usize {
    if len <= MIN { 0 } else { (len - MIN).div_ceil(STEP) }
}

/// The class of each size, merged: entry `i` may have a larger size than index `i` asks for.
const fn table() -> [SizeClass; COUNT] {
    let mut classes = [SizeClass {
        size: 0,
        pages: 0,
        objects: 0,
    }; COUNT];
    let mut i = COUNT;
    while i > 0 {
        i -= 1;
        let size = MIN + i * STEP;
        let mut pages = best_chain(size);
        if pages < LONG_ENOUGH && size < MAX {
            pages *= LONG_ENOUGH / pages;
        }
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

/// How many classes are left.
const DISTINCT: usize = {
    let (table, mut n, mut i) = (table(), 1, 1);
    while i < COUNT {
        n += (table[i].size != table[i - 1].size) as usize;
        i += 1;
    }
    n
};

/// Every class once, by size.
pub const CLASSES: [SizeClass; DISTINCT] = {
    let (table, mut n, mut i) = (table(), 0, 1);
    let mut classes = [table[0]; DISTINCT];
    while i < COUNT {
        n += (table[i].size != table[i - 1].size) as usize;
        classes[n] = table[i];
        i += 1;
    }
    classes
};

/// The place in [`CLASSES`] of the class of each size.
const PLACES: [u8; COUNT] = {
    let (table, mut places, mut i) = (table(), [0; COUNT], 1);
    while i < COUNT {
        places[i] = places[i - 1] + (table[i].size != table[i - 1].size) as u8;
        i += 1;
    }
    places
};

/// The place in [`CLASSES`] of the class that holds `len` bytes.
pub fn of(len: usize) -> usize {
    PLACES[index(len)].into()
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
        for len in 1..=MAX {
            let class = CLASSES[of(len)];
            assert_eq!(class, table()[index(len)]);
            assert!(usize::from(class.size) >= len);
            assert!(usize::from(class.objects) * usize::from(class.size) <= usize::from(class.pages) * 4096);
            assert!(usize::from(class.objects) <= 1024);
        }
        assert!((60..256).contains(&DISTINCT), "{DISTINCT}");
        assert_eq!(
            CLASSES[of(1360)],
            SizeClass {
                size: 1360,
                pages: 8,
                objects: 24
            }
        );
    }
}
