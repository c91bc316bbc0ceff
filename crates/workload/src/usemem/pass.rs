//! What `usemem` does to its memory, once over.

use crate::heap::{PAGE_SIZE, Rng};

/// Which pages come when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Every page is filled, in order.
    Write,
    /// From the first to the last.
    Seq,
    /// From the last to the first.
    Reverse,
    /// Every sixteenth, from the first on; then every sixteenth from the second on, and so on.
    Stride,
    /// Drawn at random, `--rand-touches` in all.
    Rand,
}

/// An order, and how its pages are touched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pass {
    /// As it was asked for.
    pub(crate) name: String,
    pub(crate) order: Order,
    /// Of 100 units touched, how many are written to.
    pub(crate) write_percent: u64,
    /// Pages touched at a time, which lie together.
    pub(crate) unit_pages: usize,
    /// Threads, if not as many as `--threads`.
    pub(crate) threads: Option<usize>,
}

/// Units between two that [`Order::Stride`] touches one after the other.
const STRIDE: usize = 16;

impl Pass {
    /// `None`: it is not a pass.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(':');
        let mut pass = Self {
            name: text.to_owned(),
            order: order(parts.next()?)?,
            write_percent: 0,
            unit_pages: 1,
            threads: None,
        };
        for part in parts {
            match part.split_at_checked(1)? {
                ("w", percent) => pass.write_percent = percent.parse().ok().filter(|n| *n <= 100)?,
                ("u", size) => pass.unit_pages = unit_pages(size)?,
                ("t", count) => pass.threads = Some(count.parse().ok().filter(|n| *n > 0)?),
                _ => return None,
            }
        }
        let is_plain = pass.write_percent == 0 && pass.unit_pages == 1;
        (pass.order != Order::Write || is_plain).then_some(pass)
    }

    /// Units of a share of `pages` pages in the order of the pass; `touches` pages of them if it is
    /// at random.
    pub(crate) fn units(&self, pages: usize, touches: u64, seed: u64) -> Box<dyn Iterator<Item = usize>> {
        let units = pages.div_ceil(self.unit_pages);
        match self.order {
            Order::Write | Order::Seq => Box::new(0..units),
            Order::Reverse => Box::new((0..units).rev()),
            Order::Stride => Box::new((0..STRIDE).flat_map(move |first| (first..units).step_by(STRIDE))),
            Order::Rand => {
                let mut rng = Rng::new(seed);
                let draws = touches / self.unit_pages as u64;
                Box::new((0..draws).map(move |_| rng.below(units as u64) as usize))
            }
        }
    }
}

fn order(name: &str) -> Option<Order> {
    Some(match name {
        "write" => Order::Write,
        "seq" => Order::Seq,
        "reverse" => Order::Reverse,
        "stride" => Order::Stride,
        "rand" => Order::Rand,
        _ => return None,
    })
}

/// A power of two from 4K to 2M, in pages.
fn unit_pages(size: &str) -> Option<usize> {
    let bytes = match size.split_at_checked(size.len().checked_sub(1)?)? {
        (number, "K") => number.parse::<usize>().ok()?.checked_mul(1 << 10)?,
        (number, "M") => number.parse::<usize>().ok()?.checked_mul(1 << 20)?,
        _ => return None,
    };
    let is_valid = bytes.is_power_of_two() && (PAGE_SIZE..=2 << 20).contains(&bytes);
    is_valid.then_some(bytes / PAGE_SIZE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_says_how_it_touches() {
        let pass = Pass::parse("rand:w70:u64K:t2").unwrap();
        assert_eq!((pass.order, pass.write_percent), (Order::Rand, 70));
        assert_eq!((pass.unit_pages, pass.threads), (16, Some(2)));
        assert_eq!(Pass::parse("seq").unwrap().unit_pages, 1);
    }

    #[test]
    fn what_is_no_pass_is_refused() {
        for text in [
            "",
            "all",
            "rand:",
            "rand:w101",
            "rand:u5K",
            "seq:u4M",
            "seq:t0",
            "write:w5",
            "rand:x1",
            "seq:ü",
        ] {
            assert_eq!(Pass::parse(text), None, "{text}");
        }
    }

    #[test]
    fn every_order_but_random_meets_each_unit_once() {
        for name in ["write", "seq", "reverse", "stride", "seq:u64K", "stride:u8K"] {
            let pass = Pass::parse(name).unwrap();
            let mut units: Vec<usize> = pass.units(1000, 7, 1).collect();
            units.sort_unstable();
            assert!(units.into_iter().eq(0..1000usize.div_ceil(pass.unit_pages)), "{name}");
        }
        assert_eq!(Pass::parse("rand:u8K").unwrap().units(1000, 100, 1).count(), 50);
    }
}
