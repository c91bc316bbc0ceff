//! SplitMix64: a small seeded generator, the same on every machine.

const GOLDEN_GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// A hash of two words, each bit of it depending on all bits of both.
pub(super) fn mix(seed: u64, index: u64) -> u64 {
    finish(finish(seed.wrapping_add(GOLDEN_GAMMA)) ^ index.wrapping_mul(GOLDEN_GAMMA))
}

/// The generator: a counter that [`Rng::next_u64`] hashes.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// A generator whose sequence follows from `seed` alone.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN_GAMMA);
        finish(self.0)
    }

    /// A number below `bound`, even enough for small bounds.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// A number below `bound`, small ones far more often.
    pub fn skewed(&mut self, bound: u64) -> u64 {
        let widest = self.below(bound) + 1;
        self.below(widest)
    }

    /// One of `items`.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len() as u64) as usize]
    }
}

fn finish(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follows_the_published_sequence() {
        let mut rng = Rng::new(1_234_567);
        assert_eq!(
            [rng.next_u64(), rng.next_u64()],
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]
        );
    }

    #[test]
    fn stays_below_the_bound() {
        let mut rng = Rng::new(9);
        assert!((0..1000).all(|_| rng.below(7) < 7 && rng.skewed(7) < 7));
    }
}
