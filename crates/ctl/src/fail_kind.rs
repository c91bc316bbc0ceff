//! Failures that can be made to happen, by name: for tests of real processes (`uzswap run
//! --fail-kinds`).

macro_rules! kinds {
    ($($variant:ident $name:literal $doc:literal,)*) => {
        /// What can be made to fail.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(usize)]
        pub enum FailKind { $(#[doc = $doc] $variant,)* }

        impl FailKind {
            /// Every kind, in the order of its word.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The name that users see.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }
        }
    };
}

kinds! {
    MapEagain "map_eagain" "A page is not moved or copied: the mappings are changing.",
    MapEbusy "map_ebusy" "A page is not moved: it is shared or pinned.",
    MapEnomem "map_enomem" "A page is not moved or copied: no memory.",
    MapEinval "map_einval" "A page is not moved out: its mapping cannot take part.",
    WriteEnospc "write_enospc" "The swap file is not written: no space.",
    WriteEio "write_eio" "The swap file is not written: the disk failed.",
    WriteShort "write_short" "The first half is written, then the space is used up.",
    ReadEio "read_eio" "A read of the swap file fails once.",
    ArenaEnomem "arena_enomem" "No address space for another pool.",
    ReadBad "read_bad" "Slots of the swap file that can never be read: bad sectors.",
    ReadTorn "read_torn" "A part of what is read from the swap file is not what was written.",
    PoolFlip "pool_flip" "A bit of a block in the pool flips.",
    HeapEnomem "heap_enomem" "The agent's own heap is used up: the process is stopped.",
}

impl FailKind {
    /// Those after which nothing may be lost: what `--fail-per-mille` alone means.
    pub const HARMLESS: &[Self] = Self::ALL.split_at(Self::ReadBad as usize).0;

    /// The kind of that name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.name() == text)
    }

    /// Its bit in a set of kinds.
    pub const fn bit(self) -> u64 {
        1 << self as u32
    }

    /// A set of kinds as a word.
    pub fn set_of(kinds: &[Self]) -> u64 {
        kinds.iter().fold(0, |set, kind| set | kind.bit())
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_name_says_one_kind() {
        for kind in FailKind::ALL {
            assert_eq!(FailKind::parse(kind.name()), Some(*kind));
        }
        assert_eq!(FailKind::parse("none"), None);
        assert!(!FailKind::HARMLESS.contains(&FailKind::ReadTorn));
        assert_eq!(
            FailKind::set_of(FailKind::ALL).count_ones() as usize,
            FailKind::ALL.len()
        );
    }
}
