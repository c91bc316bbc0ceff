//! What can happen in a step, and how often it does.

/// One kind of step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Move {
    Write,
    Check,
    Copy,
    ThroughTheKernel,
    Discard,
    Free,
    Advise,
    Populate,
    Lock,
    Guard,
    Replace,
    ReplaceByStack,
    ReadOnly,
    NoAccess,
    Open,
    Resize,
    Relocate,
    BreakOff,
    Implant,
    Tear,
    Unmap,
    Map,
    MapStack,
    Bequeath,
    Islands,
    Fork,
    ForkAndForget,
    Orphan,
    Generations,
    Storm,
    Vfork,
    Lodger,
    Outlive,
}

/// Each move, its weight and its name.
pub(crate) const MOVES: [(Move, u64, &str); 33] = [
    (Move::Write, 600, "write"),
    (Move::Check, 600, "check"),
    (Move::Copy, 140, "copy"),
    (Move::ThroughTheKernel, 80, "through-kernel"),
    (Move::Discard, 60, "discard"),
    (Move::Free, 30, "free"),
    (Move::Advise, 80, "advise"),
    (Move::Populate, 30, "populate"),
    (Move::Lock, 10, "lock"),
    (Move::Guard, 20, "guard"),
    (Move::Replace, 40, "replace"),
    (Move::ReplaceByStack, 10, "replace-by-stack"),
    (Move::ReadOnly, 50, "read-only"),
    (Move::NoAccess, 20, "no-access"),
    (Move::Open, 20, "open"),
    (Move::Resize, 60, "resize"),
    (Move::Relocate, 60, "relocate"),
    (Move::BreakOff, 20, "break-off"),
    (Move::Implant, 20, "implant"),
    (Move::Tear, 10, "tear"),
    (Move::Unmap, 40, "unmap"),
    (Move::Map, 60, "map"),
    (Move::MapStack, 6, "map-stack"),
    (Move::Bequeath, 6, "bequeath"),
    (Move::Islands, 8, "islands"),
    (Move::Fork, 6, "fork"),
    (Move::ForkAndForget, 2, "fork-and-forget"),
    (Move::Orphan, 2, "orphan"),
    (Move::Generations, 2, "generations"),
    (Move::Storm, 2, "storm"),
    (Move::Vfork, 4, "vfork"),
    (Move::Lodger, 6, "lodger"),
    (Move::Outlive, 2, "outlive"),
];

/// Sum of all weights.
pub(crate) const WEIGHTS: u64 = {
    let (mut sum, mut i) = (0, 0);
    while i < MOVES.len() {
        sum += MOVES[i].1;
        i += 1;
    }
    sum
};

/// The move that a number below [`WEIGHTS`] stands for, and its place in [`MOVES`].
pub(crate) fn pick(mut number: u64) -> (Move, usize) {
    for (place, (one, weight, _)) in MOVES.iter().enumerate() {
        if number < *weight {
            return (*one, place);
        }
        number -= weight;
    }
    (Move::Write, 0)
}

/// The place of a move in [`MOVES`], by its name.
pub(crate) fn place(name: &str) -> Result<usize, String> {
    let known = || MOVES.iter().map(|(_, _, name)| *name).collect::<Vec<_>>().join(", ");
    MOVES
        .iter()
        .position(|(_, _, one)| *one == name)
        .ok_or_else(|| format!("the moves are {}", known()))
}
