//! Which leaf a page's word is in: a tree of nodes with 16 links each, without those that would
//! have one child alone.
//!
//! ```text
//! link    | key:32 @32 | unit + 1:28 @4 | level:4 @0 |     0: nothing there. Level 0: a leaf
//! ```
//!
//! A key is a page's number without its lowest four bits, eight digits of four bits. Below a node
//! of level L, keys differ in digit L - 1 and agree in all above it: the digits that they agree in
//! are skipped. A link says the whole key of its leaf, or of some leaf below its node, so whoever
//! follows it sees where another key would have parted. Every node has two children at least: a
//! page that lies alone costs a leaf and, at the very most, one node.
//!
//! Whoever changes the tree holds its lock. [`super`] says why whoever walks it needs none.

use super::TableMemory;
use super::atomic::{AtomicU64, Ordering};
use super::lock::{Guard, Lock};
use super::units::{UNIT_ORDER, Units};

const LEVEL_BITS: u32 = 4;
/// Bits of a unit's number.
pub(super) const UNIT_BITS: u32 = 28;
const KEY_SHIFT: u32 = LEVEL_BITS + UNIT_BITS;
/// More than any level.
const TOP: u32 = (1 << LEVEL_BITS) - 1;
/// Bits of a digit.
const DIGIT: u32 = UNIT_ORDER;

/// Which leaf, and in what order along the address space.
pub(super) type Key = u32;

/// Where a leaf or a node is.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Link(u64);

impl Link {
    fn new(key: Key, unit: usize, level: u32) -> Self {
        Self(u64::from(key) << KEY_SHIFT | (unit as u64 + 1) << LEVEL_BITS | u64::from(level))
    }

    fn level(self) -> u32 {
        self.0 as u32 & TOP
    }

    /// Of nothing: one that there is not.
    fn unit(self) -> usize {
        ((self.0 >> LEVEL_BITS) as usize & ((1 << UNIT_BITS) - 1)).wrapping_sub(1)
    }

    /// What of `key` is not what all keys below have. 0: it belongs below.
    fn difference(self, key: Key) -> Key {
        // Shifted as u64: at the top level no digit is left.
        let shared = u64::MAX << (DIGIT * self.level());
        (u64::from((self.0 >> KEY_SHIFT) as Key ^ key) & shared) as Key
    }

    fn key(self) -> Key {
        (self.0 >> KEY_SHIFT) as Key
    }
}

/// Which link of a node of this level leads to a key.
fn digit(key: Key, level: u32) -> usize {
    (u64::from(key) >> (DIGIT * (level - 1))) as usize & ((1 << DIGIT) - 1)
}

/// The tree.
pub(super) struct Tree {
    units: Units,
    root: AtomicU64,
    /// How often something was taken off the tree.
    generation: AtomicU64,
    lock: Lock,
}

impl Tree {
    pub(super) fn new(memory: TableMemory) -> Self {
        Self {
            units: Units::new(memory),
            root: AtomicU64::new(0),
            generation: AtomicU64::new(0),
            lock: Lock::new(),
        }
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> u64 {
        self.units.bytes()
    }

    /// What `read` says of the leaf with this key; it takes no lock. `Err`: there is none, nor any
    /// other that agrees with the key in all but so many digits.
    pub(super) fn read<T>(&self, key: Key, read: impl Fn(&'static [AtomicU64]) -> T) -> Result<T, u32> {
        loop {
            let before = self.generation.load(Ordering::Acquire);
            let seen = self.walk(key).map(&read);
            // Relaxed: after whatever was read with Acquire on the way.
            if self.generation.load(Ordering::Relaxed) == before {
                return seen;
            }
        }
    }

    /// Means nothing if anything was taken off the tree meanwhile; then it may have followed words
    /// that are no links.
    fn walk(&self, key: Key) -> Result<&'static [AtomicU64], u32> {
        let mut link = Link(self.root.load(Ordering::Acquire));
        let mut above = TOP;
        loop {
            if link.0 == 0 || link.level() >= above {
                return Err(above - 1);
            }
            match link.difference(key) {
                0 => {}
                difference => return Err(difference.ilog2() / DIGIT),
            }
            let words = self.units.words(link.unit());
            above = link.level();
            if above == 0 {
                return Ok(words);
            }
            let next = words.get(digit(key, above));
            link = Link(next.map_or(0, |next| next.load(Ordering::Acquire)));
        }
    }

    /// Take the tree's lock, to change it.
    pub(super) fn change(&self) -> Changing<'_> {
        Changing {
            tree: self,
            _guard: self.lock.lock(),
        }
    }
}

/// The tree, for whoever holds its lock.
pub(super) struct Changing<'a> {
    tree: &'a Tree,
    _guard: Guard<'a>,
}

impl Changing<'_> {
    fn child(&self, link: Link, key: Key) -> &AtomicU64 {
        &self.tree.units.words(link.unit())[digit(key, link.level())]
    }

    /// Have a leaf for a key that has none.
    pub(super) fn insert(&self, key: Key) -> &'static [AtomicU64] {
        let units = &self.tree.units;
        let unit = units.take();
        let leaf = Link::new(key, unit, 0);
        let mut at = &self.tree.root;
        loop {
            let link = Link(at.load(Ordering::Relaxed));
            if link.0 == 0 {
                at.store(leaf.0, Ordering::Release);
                return units.words(unit);
            }
            let difference = link.difference(key);
            if difference == 0 {
                at = self.child(link, key);
                continue;
            }
            let fork = Link::new(key, units.take(), difference.ilog2() / DIGIT + 1);
            self.child(fork, link.key()).store(link.0, Ordering::Release);
            self.child(fork, key).store(leaf.0, Ordering::Release);
            at.store(fork.0, Ordering::Release);
            return units.words(unit);
        }
    }

    /// Give up the leaf of a key, whose words are all zeros, and its node if that has but one child
    /// then.
    pub(super) fn remove(&self, key: Key) {
        let (units, mut at) = (&self.tree.units, &self.tree.root);
        let mut node = None;
        let leaf = loop {
            let link = Link(at.load(Ordering::Relaxed));
            if link.level() == 0 {
                break link;
            }
            node = Some((at, link));
            at = self.child(link, key);
        };
        at.store(0, Ordering::Release);
        let lone = node.and_then(|(above, node)| {
            let links = units.words(node.unit()).iter();
            let mut children = links.filter(|child| child.load(Ordering::Relaxed) != 0);
            let (child, others) = (children.next()?, children.next());
            others.is_none().then_some((above, node, child))
        });
        if let Some((above, _, child)) = lone {
            above.store(child.load(Ordering::Relaxed), Ordering::Release);
        }
        // Release: before anything that nobody can reach now becomes anything else. Whoever sees
        // that sees this.
        self.tree.generation.fetch_add(1, Ordering::Release);
        units.give(leaf.unit());
        if let Some((_, node, child)) = lone {
            child.store(0, Ordering::Release);
            units.give(node.unit());
        }
    }
}
