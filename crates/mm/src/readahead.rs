//! How many pages a fault is worth: one, or more and more while faults come in sequence.
//!
//! A few streams are remembered, each by the page that would continue it. A fault that continues a stream doubles
//! its window up to a maximum; any other fault starts a stream with a window of one page. A window is always
//! clipped to a naturally aligned folio, so sequential access settles on whole folios.

use crate::page::Vpn;

const STREAMS: usize = 8;

#[derive(Clone, Copy)]
struct Stream {
    next: Vpn,
    order: u32,
}

/// The recent streams.
#[derive(Default)]
pub struct Streams {
    streams: [Option<Stream>; STREAMS],
    hand: usize,
}

impl Streams {
    /// The order that a fault on `vpn` is worth, at most `max`; the caller reports what it did with
    /// [`advance`](Self::advance).
    pub fn window(&mut self, vpn: Vpn, max: u32) -> u32 {
        self.order(vpn, max).min(vpn.alignment())
    }

    /// As [`window`](Self::window), for windows that may begin before `vpn`.
    pub fn order(&mut self, vpn: Vpn, max: u32) -> u32 {
        self.find(vpn).map_or(0, |stream| stream.order + 1).min(max)
    }

    /// The next fault on `vpn` is worth one page.
    pub fn narrow(&mut self, vpn: Vpn) {
        for stream in &mut self.streams {
            stream.take_if(|stream| stream.next == vpn);
        }
    }

    /// A fault on `vpn` mapped `pages` pages: the stream continues behind them.
    pub fn advance(&mut self, vpn: Vpn, pages: u64, max: u32) {
        let next = vpn.add(pages);
        match self.find(vpn) {
            Some(stream) => {
                *stream = Stream {
                    next,
                    order: (stream.order + 1).min(max),
                }
            }
            None => {
                self.streams[self.hand] = Some(Stream { next, order: 0 });
                self.hand = (self.hand + 1) % STREAMS;
            }
        }
    }

    fn find(&mut self, vpn: Vpn) -> Option<&mut Stream> {
        self.streams.iter_mut().flatten().find(|stream| stream.next == vpn)
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn sequential_faults_get_whole_folios() {
        let mut streams = Streams::default();
        let (mut vpn, mut orders) = (Vpn::new(0x1000), alloc::vec::Vec::new());
        for _ in 0..12 {
            let order = streams.window(vpn, 4);
            streams.advance(vpn, 1 << order, 4);
            orders.push(order);
            vpn = vpn.add(1 << order);
        }
        assert_eq!(orders, [0, 0, 1, 2, 3, 4, 4, 4, 4, 4, 4, 4]);
        assert_eq!(streams.window(Vpn::new(0x9000), 4), 0);
    }
}
