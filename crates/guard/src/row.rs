//! What a row of the table of calls says: how a call's arguments lead to memory.

/// When a call's memory is seen to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Care {
    /// Before the kernel is entered.
    Hold,
    /// When it has answered EFAULT.
    Retry,
}

/// Bytes, or how many of something there are.
#[derive(Clone, Copy, Debug)]
pub enum Len {
    /// So many.
    Bytes(usize),
    /// As many as the argument of this number says.
    Arg(usize),
    /// As many as the argument of this number says, which is an `int`: the upper half of its
    /// register may hold anything.
    Int(usize),
    /// As many as the argument says, and so many bytes.
    ArgAnd(usize, usize),
    /// As many times so many bytes as the argument says.
    Times(usize, usize),
    /// As many as the 32-bit word says that the argument points to.
    At(usize),
    /// A bit each of as many as the argument says, in whole words.
    Bits(usize),
    /// A byte each of the pages of as many bytes as the argument says.
    Pages(usize),
    /// Up to a zero byte, a page at most.
    Text,
}

/// What the kernel does with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Reads it.
    In,
    /// Writes it, and may read it.
    Out,
}

/// What is at an address.
#[derive(Clone, Copy, Debug)]
pub enum What {
    /// Bytes.
    Plain(Way, Len),
    /// An array of `struct iovec`, of buffers; and how many.
    Vectors(Way, Len),
    /// The same, of buffers of the process that the first argument names.
    Others(Way, Len),
    /// A `struct msghdr`.
    Message(Way),
    /// An array of `struct mmsghdr`; and how many.
    Messages(Way, Len),
    /// An array of addresses of texts, up to a null.
    Texts,
    /// What the request says that is the argument before it.
    Ioctl,
    /// An array of `struct futex_waitv`, of words; and how many.
    Words(Len),
    /// An address and a length of 32 bits, of bytes (`struct xattr_args`).
    Described(Way),
    /// An option of a socket, of so many bytes: it may be a `struct sock_fprog`.
    SocketOption(Len),
    /// What an option of a socket is: so many bytes, or as many instructions of a filter.
    SocketAnswer(Len),
    /// A `struct iovec`, if the first argument asks for a set of registers (PTRACE_GETREGSET).
    Registers,
    /// A `struct sock_fprog`, if the first argument is this number.
    Filter(usize),
    /// The address and length of a mask of signals (`pselect6`).
    Mask,
}

/// A call.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Its number.
    pub number: usize,
    /// When its memory is seen to.
    pub care: Care,
    /// What its arguments point to: which argument, and what is there.
    pub reaches: &'static [(usize, What)],
}

/// Numbers of calls are below this.
pub const NUMBERS: usize = 512;
