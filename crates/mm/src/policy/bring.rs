//! What comes with a page that is faulted.

use crate::page::{PageRange, Vpn};
use crate::policy::Policy;
use crate::policy::locality::Span;
use crate::policy::readahead::{Ahead, Window};
use crate::policy::view::View;

/// A stored page is faulted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FaultFacts {
    pub(crate) vpn: Vpn,
    pub(crate) is_on_device: bool,
    /// log2 of the pages that a fault in sequence brings at most, and one out of it.
    pub(crate) order_max: u32,
    pub(crate) cluster: u32,
}

/// Where another page is, for one that is faulted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whereabouts {
    /// It is mapped, or another thread brings it.
    Here,
    /// Where the faulted page is: in the pool, or on the device.
    Alike,
    Elsewhere,
}

/// What is to be done with the pages of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// All are mapped.
    Map,
    /// The faulted page comes alone, and the others are [watched](Policy::watch).
    Probe,
}

/// What is fetched.
#[derive(Clone, Copy)]
pub(crate) struct Fetch {
    pub(crate) window: Window,
    pub(crate) way: Way,
    ahead: Ahead,
}

impl Fetch {
    /// The pages that are mapped, if all of them are there.
    pub(crate) fn mapped(&self, vpn: Vpn) -> Window {
        match self.way {
            Way::Map => self.window,
            Way::Probe => Window::around(vpn, 0),
        }
    }
}

impl Policy {
    /// What comes with a stored page. The caller has to say [`fetched`](Self::fetched).
    pub(crate) fn bring(&mut self, fault: FaultFacts, view: &View, place: impl Fn(Vpn) -> Whereabouts) -> Fetch {
        if self.locality.note_load(fault.vpn) {
            let span = self.span(view);
            self.locality.judge(span);
        }
        let ahead = self.follow(fault.vpn, fault.order_max, &place);
        let (window, way) = match ahead.is_expected() {
            true => (ahead.window(fault.vpn), Way::Map),
            false => self.neighbours(fault, place),
        };
        Fetch { window, way, ahead }
    }

    /// How far a fault goes on with others, each of at most 2^`order_max` pages.
    pub(crate) fn follow(&mut self, vpn: Vpn, order_max: u32, place: impl Fn(Vpn) -> Whereabouts) -> Ahead {
        self.streams
            .follow(vpn, order_max, |page| place(page) == Whereabouts::Here)
    }

    /// So much was mapped for a fault.
    pub(crate) fn went_on(&mut self, ahead: Ahead, window: Window) {
        self.streams.advance(ahead, window);
    }

    /// What was fetched for a page is on its way.
    pub(crate) fn fetched(&mut self, vpn: Vpn, fetch: Fetch) {
        self.streams.advance(fetch.ahead, fetch.mapped(vpn));
    }

    /// Of the window around a page that comes alone, `pages` would have come with it.
    pub(crate) fn watch(&mut self, vpn: Vpn, pages: &[Vpn], view: &View) {
        let span = self.span(view);
        self.locality.watch(vpn, pages, span);
    }

    /// What is worth bringing with a page that follows no pattern: at most what adjoins it, since
    /// what is in between is there because it is of another kind.
    fn neighbours(&self, fault: FaultFacts, place: impl Fn(Vpn) -> Whereabouts) -> (Window, Way) {
        let vpn = fault.vpn;
        let window = Window::around(vpn, fault.cluster);
        let adjoins = |page: &Vpn| place(*page) == Whereabouts::Alike;
        let start = window.below(vpn).take_while(adjoins).last().unwrap_or(vpn);
        let last = window.above(vpn).take_while(adjoins).last().unwrap_or(vpn);
        let adjoining = PageRange {
            start,
            end: last.add(1),
        };
        if adjoining.pages() > 1 && self.locality.is_probe() {
            return (Window::of(adjoining), Way::Probe);
        }
        let reach = self.locality.reach(fault.is_on_device);
        let near = self.tunables.neighbours.near_order;
        (Window::of(reach.narrow(near, adjoining, vpn)), Way::Map)
    }

    /// What is stored, and what leaves before a page that is mapped now.
    fn span(&self, view: &View) -> Span {
        let working = view.working;
        Span::new(
            &self.tunables.neighbours,
            self.stored(view),
            working.pages - working.active - working.unevictable,
        )
    }

    /// Stored pages but those of one word; those on the device are a guess.
    pub(crate) fn stored(&self, view: &View) -> u64 {
        view.objects + view.on_device * self.tunables.balance.pages_per_slot
    }
}
