//! What loads take, by where they come from.

/// Logarithms are counted in parts of a power of two.
const PARTS: u64 = 1 << 16;

/// The geometric mean of what loads of late took: one that lost its core took a thousand times as
/// long as the others, and is not what a load takes.
#[derive(Clone, Copy, Default)]
struct Mean {
    log2: u64,
    loads: u64,
}

impl Mean {
    fn note(&mut self, ns: u64, remembered: u64) {
        self.loads = (self.loads + 1).min(remembered);
        let log2 = log2(ns.max(1));
        self.log2 = (self.log2 * (self.loads - 1) + log2) / self.loads;
    }

    /// Nanoseconds. `None`: no load was seen.
    fn ns(self) -> Option<u64> {
        (self.loads > 0).then(|| exp2(self.log2))
    }
}

/// Linear from one power to the next.
fn log2(value: u64) -> u64 {
    let power = value.ilog2();
    let above = (u128::from(value - (1 << power)) * u128::from(PARTS)) >> power;
    u64::from(power) * PARTS + above as u64
}

fn exp2(log2: u64) -> u64 {
    let (power, above) = (log2 / PARTS, log2 % PARTS);
    ((u128::from(PARTS + above) << power) >> PARTS.ilog2()) as u64
}

/// What loads take.
#[derive(Default)]
pub(crate) struct Costs {
    pool: Mean,
    device: Mean,
}

impl Costs {
    /// A load took so long; so many are remembered.
    pub(crate) fn note(&mut self, is_from_device: bool, ns: u64, remembered: u64) {
        let of = if is_from_device {
            &mut self.device
        } else {
            &mut self.pool
        };
        of.note(ns, remembered);
    }

    /// As many loads from the pool one from the device costs, where a fault takes `outside_ns`
    /// besides. `None`: one of the two was not seen yet.
    pub(crate) fn of_read(&self, outside_ns: u64) -> Option<i64> {
        let [pool, device] = [self.pool.ns()?, self.device.ns()?].map(|ns| ns + outside_ns);
        Some((device / pool.max(1)) as i64)
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_read_costs_as_many_loads_as_it_takes_as_long() {
        let mut costs = Costs::default();
        let mut note = |loads: usize, is_from_device, ns| {
            (0..loads).for_each(|_| costs.note(is_from_device, ns, 64));
            costs.of_read(3_000)
        };
        assert_eq!(note(1, false, 7_001), None);
        assert_eq!(note(1, true, 198_000), Some(20));
        note(100, false, 7_001);
        // A slice that was lost.
        assert!(note(1, false, 4_000_000).is_some_and(|cost| cost >= 17));
        note(1_000, true, 57_100);
        assert_eq!(note(1_000, false, 7_001), Some(6));
    }

    #[test]
    fn logarithms_come_back() {
        for value in [1, 2, 3, 1_000, 123_456_789, u64::MAX >> 1] {
            let back = exp2(log2(value));
            assert!(value - back <= value / PARTS + 1, "{value} {back}");
        }
    }
}
