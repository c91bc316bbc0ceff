//! Numbers of which a few come up again and again, as keys of a cache do.

use crate::heap::Rng;

/// How steep: YCSB's constant, at which the most frequent of a million numbers is one draw in
/// fifteen.
const THETA: f64 = 0.99;

/// A Zipfian distribution over `0..n`, drawn as in Gray and others, "Quickly generating
/// billion-record synthetic databases" (1994). Which numbers are frequent is scattered over the
/// range.
#[derive(Debug)]
pub struct Zipf {
    n: u64,
    zeta: f64,
    alpha: f64,
    eta: f64,
}

impl Zipf {
    /// Over `0..n`, in time proportional to `n`.
    ///
    /// # Panics
    /// If `n` is 0.
    #[must_use]
    pub fn new(n: u64) -> Self {
        assert!(n > 0, "there must be a number to draw");
        let zeta_of = |n: u64| (1..=n).map(|i| (i as f64).powf(-THETA)).sum::<f64>();
        let zeta = zeta_of(n);
        Self {
            n,
            zeta,
            alpha: 1.0 / (1.0 - THETA),
            eta: (1.0 - (2.0 / n as f64).powf(1.0 - THETA)) / (1.0 - zeta_of(2.min(n)) / zeta),
        }
    }

    /// One number.
    pub fn draw(&self, rng: &mut Rng) -> u64 {
        let rank = self.rank((rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64);
        Rng::new(rank).next_u64() % self.n
    }

    /// 0 is the most frequent. `at` is even between 0 and 1.
    fn rank(&self, at: f64) -> u64 {
        let scaled = at * self.zeta;
        if scaled < 1.0 {
            return 0;
        }
        if scaled < 1.0 + 0.5f64.powf(THETA) {
            return 1.min(self.n - 1);
        }
        let rank = (self.n as f64 * (self.eta * at - self.eta + 1.0).powf(self.alpha)) as u64;
        rank.min(self.n - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_rank_comes_up_as_often_as_it_should() {
        let zipf = Zipf::new(10_000);
        let ranks = (0..100_000).map(|i| zipf.rank(f64::from(i) / 1e5));
        let first = ranks.filter(|rank| *rank == 0).count() as f64 / 1e5;
        assert!((first - 1.0 / zipf.zeta).abs() < 0.001, "{first}");
    }

    #[test]
    fn every_draw_is_below_n() {
        for n in [1, 2, 3, 1000] {
            let (zipf, mut rng) = (Zipf::new(n), Rng::new(1));
            assert!((0..1000).all(|_| zipf.draw(&mut rng) < n));
        }
    }
}
