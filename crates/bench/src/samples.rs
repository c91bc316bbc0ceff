//! What repeated measurements of one thing gave.

/// At least one measurement.
#[derive(Clone, Debug, Default)]
pub struct Samples(Vec<f64>);

impl Samples {
    /// One more.
    pub fn push(&mut self, value: f64) {
        let at = self.0.partition_point(|other| *other < value);
        self.0.insert(at, value);
    }

    /// The lowest.
    #[must_use]
    pub fn min(&self) -> f64 {
        self.0[0]
    }

    /// The highest.
    #[must_use]
    pub fn max(&self) -> f64 {
        self.0[self.0.len() - 1]
    }

    /// Their sum, shared out evenly.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.0.iter().sum::<f64>() / self.0.len() as f64
    }

    /// The one in the middle.
    #[must_use]
    pub fn median(&self) -> f64 {
        let n = self.0.len();
        f64::midpoint(self.0[(n - 1) / 2], self.0[n / 2])
    }

    /// The same, and 0 if nothing was measured.
    pub(crate) fn median_or_zero(&self) -> f64 {
        if self.0.is_empty() { 0.0 } else { self.median() }
    }

    /// Of the measurements themselves, not an estimate for all there could be.
    #[must_use]
    pub fn standard_deviation(&self) -> f64 {
        let mean = self.mean();
        let squares: f64 = self.0.iter().map(|value| (value - mean).powi(2)).sum();
        (squares / self.0.len() as f64).sqrt()
    }

    /// How many lie more than one and a half times the distance of the quartiles outside of these
    /// (Tukey).
    pub(crate) fn outliers(&self) -> usize {
        let quartile = |share: f64| self.0[((self.0.len() - 1) as f64 * share).round() as usize];
        let (low, high) = (quartile(0.25), quartile(0.75));
        let fence = 1.5 * (high - low);
        let is_outside = |value: &&f64| **value < low - fence || **value > high + fence;
        self.0.iter().filter(is_outside).count()
    }

    /// From the lowest to the highest, in percent of the median.
    pub(crate) fn spread_percent(&self) -> f64 {
        if self.median() == 0.0 {
            return 0.0;
        }
        (self.max() - self.min()) / self.median() * 100.0
    }
}

impl FromIterator<f64> for Samples {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Self {
        let mut samples = Self::default();
        values.into_iter().for_each(|value| samples.push(value));
        samples
    }
}

/// By how many percent `after` is more than `before`, as `+12.3%`; nothing where nothing was
/// before.
pub(crate) fn change(before: f64, after: f64) -> String {
    if before == 0.0 {
        return String::new();
    }
    format!("{:+.1}%", (after / before - 1.0) * 100.0)
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn figures_of_a_known_set() {
        let samples: Samples = [4.0, 2.0, 9.0, 5.0].into_iter().collect();
        assert_eq!((samples.min(), samples.max(), samples.mean()), (2.0, 9.0, 5.0));
        assert_eq!(samples.median(), 4.5);
        assert!((samples.standard_deviation() - 6.5f64.sqrt()).abs() < 1e-9);
        assert!((samples.spread_percent() - 700.0 / 4.5).abs() < 1e-9);
    }

    #[test]
    fn what_lies_far_outside_is_an_outlier() {
        let samples: Samples = [5.0, 5.1, 5.2, 5.3, 5.4, 9.0].into_iter().collect();
        assert_eq!(samples.outliers(), 1);
        assert_eq!([1.0, 1.0].into_iter().collect::<Samples>().outliers(), 0);
    }

    #[test]
    fn a_change_has_a_sign() {
        assert_eq!(change(200.0, 150.0), "-25.0%");
        assert_eq!(change(200.0, 300.0), "+50.0%");
        assert_eq!(change(0.0, 300.0), "");
    }
}
