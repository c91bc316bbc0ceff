//! The memory that a system call reaches.

use linux_raw_sys::ioctl as known;

use crate::row::{Len, Row, Way, What};

/// Bytes of a page.
const PAGE: usize = 4096;
/// A `struct iovec`: an address and a length.
const VECTOR: usize = 16;
/// Buffers of one call at most (UIO_MAXIOV).
const VECTORS_MAX: usize = 1024;
/// A `struct msghdr`, and what `struct mmsghdr` has behind it.
const MESSAGE: usize = 56;
const MESSAGE_AND_LEN: usize = 64;
/// Bytes at most of what says itself how long it is.
const MOST: usize = 1 << 20;
/// Texts of an `execve` at most: the kernel takes 6 MiB of them, each with a word that names it.
const TEXTS_MAX: usize = (6 << 20) / 9;
/// Options of sockets that are filters: SO_ATTACH_FILTER, SO_ATTACH_REUSEPORT_CBPF.
const FILTERS: [usize; 2] = [26, 51];
const SOL_SOCKET: usize = 1;
/// A `struct sock_filter`.
const INSTRUCTION: usize = 8;
/// PTRACE_GETREGSET, PTRACE_SETREGSET.
const REGISTER_SETS: [usize; 2] = [0x4204, 0x4205];
/// `_IOWR('f', 11, struct fiemap)`
const FS_IOC_FIEMAP: u32 = 0xc020_660b;
/// `_IOWR('f', 16, struct pm_scan_arg)`, `_IOWR('f', 17, struct procmap_query)`
const PAGEMAP_SCAN: u32 = 0xc060_6610;
const PROCMAP_QUERY: u32 = 0xc068_6611;
/// `_IOWR(0xaa, 3, struct uffdio_copy)`, `_IOWR(0xaa, 5, struct uffdio_move)`
const UFFDIO_COPY: u32 = 0xc028_aa03;
const UFFDIO_MOVE: u32 = 0xc028_aa05;
/// Its argument is a `struct ifreq`.
const SIOCETHTOOL: u32 = 0x8946;
/// Of NVIDIA's open kernel modules: `_IOWR('F', 42, NVOS54_PARAMETERS)`, and `'F', 43` with
/// NVOS21_PARAMETERS and NVOS64_PARAMETERS.
const NV_ESC_RM_CONTROL: u32 = 0xc020_462a;
const NV_ESC_RM_ALLOC: u32 = 0xc020_462b;
const NV_ESC_RM_ALLOC_WITH_RIGHTS: u32 = 0xc030_462b;
/// Bytes of an extended attribute at most.
const XATTR_SIZE_MAX: usize = 64 << 10;
/// The lower half of the address space.
const ADDRESSES: usize = 1 << 47;

/// A part of the program's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Its first byte.
    pub start: usize,
    /// Bytes.
    pub len: usize,
    /// The kernel writes to it.
    pub is_written: bool,
}

/// Who sees to the program's memory.
pub trait Memory {
    /// This is what the call reaches.
    fn reach(&mut self, extent: Extent);
    /// Read what was said to be reached. False: it cannot be read, so the kernel will not either.
    fn read(&mut self, addr: usize, bytes: &mut [u8]) -> bool;
    /// Whether the process of this number is the program's own.
    fn is_own(&self, process: usize) -> bool;
    /// Whether the kernel has answered EFAULT.
    fn is_again(&self) -> bool;
}

/// Say what the call of `row` with these arguments reaches.
pub fn reach(row: &Row, args: &[usize; 6], memory: &mut impl Memory) {
    let mut call = Call { args, memory };
    for (arg, what) in row.reaches {
        call.what(args[*arg], *what);
    }
}

struct Call<'a, M> {
    args: &'a [usize; 6],
    memory: &'a mut M,
}

impl<M: Memory> Call<'_, M> {
    fn what(&mut self, at: usize, what: What) {
        if at == 0 {
            return;
        }
        match what {
            What::Plain(way, len) => {
                let len = self.len(len);
                self.plain(at, len, way);
            }
            What::Vectors(way, count) => {
                let count = self.len(count);
                self.vectors(at, count, way);
            }
            What::Others(way, count) if self.memory.is_own(self.args[0]) => {
                let count = self.len(count);
                self.vectors(at, count, way);
            }
            What::Others(_, count) => {
                let count = self.len(count).min(VECTORS_MAX);
                self.plain(at, count * VECTOR, Way::In);
            }
            What::Message(way) => self.message(at, way),
            What::Messages(way, count) => {
                let count = self.len(count).min(VECTORS_MAX);
                self.plain(at, count * MESSAGE_AND_LEN, Way::Out);
                (0..count).for_each(|n| self.message(at + n * MESSAGE_AND_LEN, way));
            }
            What::Texts => self.texts(at),
            What::Ioctl => self.ioctl(at),
            What::Words(count) => self.waited(at, count),
            What::Described(way) => {
                self.plain(at, 16, Way::In);
                if let Some([start, len]) = self.words(at) {
                    // The kernel takes no more, and gives no more.
                    self.plain(start, (len as u32 as usize).min(XATTR_SIZE_MAX), way);
                }
            }
            What::SocketOption(len) => {
                let len = self.len(len);
                self.plain(at, len, Way::In);
                let [_, level, option, ..] = *self.args;
                if level == SOL_SOCKET && FILTERS.contains(&option) {
                    self.filter(at);
                }
            }
            What::SocketAnswer(len) => {
                let len = self.len(len);
                let [_, level, option, ..] = *self.args;
                let is_filter = level == SOL_SOCKET && FILTERS.contains(&option);
                self.plain(at, if is_filter { len * INSTRUCTION } else { len }, Way::Out);
            }
            What::Registers if REGISTER_SETS.contains(&self.args[0]) => self.vectors(at, 1, Way::Out),
            What::Registers => {}
            What::Filter(what) if self.args[0] == what => self.filter(at),
            What::Filter(_) => {}
            What::Mask => {
                self.plain(at, 16, Way::In);
                if let Some([mask, len]) = self.words(at) {
                    self.plain(mask, len.min(PAGE), Way::In);
                }
            }
        }
    }

    fn len(&mut self, len: Len) -> usize {
        let arg = |n: usize| self.args[n];
        match len {
            Len::Bytes(bytes) => bytes,
            Len::Arg(n) => arg(n),
            // One below 0 is refused.
            Len::Int(n) => (arg(n) as u32 as i32).max(0) as usize,
            Len::ArgAnd(n, bytes) => arg(n).saturating_add(bytes),
            // Such counts are 32 bits long, or would be refused.
            Len::Times(n, bytes) => (arg(n) as u32 as usize).saturating_mul(bytes),
            Len::Bits(n) => (arg(n) as u32 as usize).div_ceil(64) * 8,
            Len::Pages(n) => arg(n).div_ceil(PAGE),
            Len::At(n) => {
                let at = arg(n);
                let found = if at == 0 { None } else { self.number(at) };
                found.unwrap_or(0).min(MOST)
            }
            Len::Text => PAGE,
        }
    }

    fn plain(&mut self, start: usize, len: usize, way: Way) {
        if start != 0 && len != 0 && start < ADDRESSES && len <= ADDRESSES - start {
            self.memory.reach(Extent {
                start,
                len,
                is_written: way == Way::Out,
            });
        }
    }

    /// A word of 32 bits of memory that was reached.
    fn number(&mut self, at: usize) -> Option<usize> {
        let mut word = [0; 4];
        let is_read = self.memory.read(at, &mut word);
        is_read.then_some(u32::from_le_bytes(word) as usize)
    }

    /// Two words of memory that was reached.
    fn words(&mut self, at: usize) -> Option<[usize; 2]> {
        let mut bytes = [0; 16];
        if !self.memory.read(at, &mut bytes) {
            return None;
        }
        let (low, high) = bytes.split_at(8);
        let word = |bytes: &[u8]| bytes.try_into().map(usize::from_le_bytes).unwrap_or(0);
        Some([word(low), word(high)])
    }

    fn vectors(&mut self, at: usize, count: usize, way: Way) {
        if at == 0 || count > VECTORS_MAX {
            return;
        }
        self.plain(at, count * VECTOR, Way::In);
        for n in 0..count {
            let Some([start, len]) = self.words(at + n * VECTOR) else {
                return;
            };
            self.plain(start, len, way);
        }
    }

    /// A filter of a socket or of system calls: how many instructions, and where they are.
    fn filter(&mut self, at: usize) {
        self.plain(at, 16, Way::In);
        if let Some([count, start]) = self.words(at) {
            self.plain(start, count as u16 as usize * INSTRUCTION, Way::In);
        }
    }

    /// Words that a thread waits for, of which each says where it is.
    fn waited(&mut self, at: usize, count: Len) {
        const WAITED: usize = 24;
        const MOST: usize = 128;
        let count = self.len(count) as u32 as usize;
        if count > MOST {
            return;
        }
        self.plain(at, count * WAITED, Way::In);
        for n in 0..count {
            let Some([_, word]) = self.words(at + n * WAITED) else {
                return;
            };
            self.plain(word, 8, Way::Out);
        }
    }

    fn message(&mut self, at: usize, way: Way) {
        self.plain(at, MESSAGE, Way::Out);
        let words = [0, 16, 32].map(|offset| self.words(at + offset));
        let [
            Some([name, name_len]),
            Some([vectors, count]),
            Some([control, control_len]),
        ] = words
        else {
            return;
        };
        // The length of the name has 32 bits.
        self.plain(name, (name_len as u32 as usize).min(PAGE), way);
        self.vectors(vectors, count, way);
        self.plain(control, control_len.min(MOST), way);
    }

    fn texts(&mut self, at: usize) {
        for n in 0..TEXTS_MAX {
            let place = at + n * 8;
            self.plain(place, 8, Way::In);
            let mut word = [0; 8];
            if !self.memory.read(place, &mut word) || word == [0; 8] {
                return;
            }
            self.text(usize::from_le_bytes(word));
        }
    }

    /// A text of an `execve`, whose pages may be many (MAX_ARG_STRLEN).
    fn text(&mut self, start: usize) {
        const PAGES: usize = 33;
        let mut at = start;
        for _ in 0..PAGES {
            let end = (at / PAGE + 1) * PAGE;
            self.plain(at, end - at, Way::In);
            while at < end {
                let mut bytes = [0; 128];
                let bytes = &mut bytes[..(end - at).min(128)];
                if !self.memory.read(at, bytes) || bytes.contains(&0) {
                    return;
                }
                at += bytes.len();
            }
        }
    }

    /// The request says how long its argument is, and which way it goes (`_IOC`). Those from before
    /// that are few: the longest of them is what a disk says of itself (HDIO_GET_IDENTITY).
    fn ioctl(&mut self, at: usize) {
        const OLD: usize = 512;
        const EXTENT: usize = 56;
        const BEHIND: usize = 64 << 10;
        let request = self.args[1] as u32;
        let (direction, size) = (request >> 30, (request >> 16 & 0x3fff) as usize);
        let is_old = direction == 0 || size == 0;
        match request {
            // Lists of interfaces: a length and an address.
            known::SIOCGIFCONF => {
                self.plain(at, 16, Way::Out);
                if let Some([len, list]) = self.words(at) {
                    self.plain(list, (len as u32 as usize).min(MOST), Way::Out);
                }
            }
            // Where the parts of a file are: behind it, as many as it has room for.
            FS_IOC_FIEMAP => {
                const COUNT: usize = 24;
                self.plain(at, size, Way::Out);
                if let Some(count) = self.number(at + COUNT) {
                    self.plain(at + size, (count * EXTENT).min(MOST), Way::Out);
                }
            }
            // A driver of the network has its command where the request says: texts are many.
            SIOCETHTOOL => {
                const REQUEST: usize = 40;
                const COMMAND: usize = 64 << 10;
                self.plain(at, REQUEST, Way::Out);
                if let Some([data, _]) = self.words(at + 16) {
                    self.plain(data, COMMAND, Way::Out);
                }
            }
            PROCMAP_QUERY => {
                self.plain(at, size, Way::Out);
                let lens = [80, 84].map(|offset| self.number(at + offset));
                if let ([Some(name), Some(id)], Some([name_at, id_at])) = (lens, self.words(at + 88)) {
                    self.plain(name_at, name.min(MOST), Way::Out);
                    self.plain(id_at, id.min(MOST), Way::Out);
                }
            }
            PAGEMAP_SCAN => {
                const REGION: usize = 24;
                self.plain(at, size, Way::Out);
                if let Some([regions, count]) = self.words(at + 40) {
                    self.plain(regions, count.saturating_mul(REGION), Way::Out);
                }
            }
            UFFDIO_COPY => {
                self.plain(at, size, Way::Out);
                if let Some([from, len]) = self.words(at + 8) {
                    self.plain(from, len, Way::In);
                }
            }
            // A page that is out would be no page, or not be moved.
            UFFDIO_MOVE => {
                self.plain(at, size, Way::Out);
                if let Some([from, len]) = self.words(at + 8) {
                    self.plain(from, len, Way::Out);
                }
            }
            // Parameters, and how many bytes they are.
            NV_ESC_RM_CONTROL | NV_ESC_RM_ALLOC | NV_ESC_RM_ALLOC_WITH_RIGHTS => {
                let len_at = if request == NV_ESC_RM_ALLOC_WITH_RIGHTS { 32 } else { 24 };
                self.plain(at, size, Way::Out);
                if let (Some([parameters, _]), Some(len)) = (self.words(at + 16), self.number(at + len_at)) {
                    // Some do not say how many.
                    self.plain(parameters, if len == 0 { PAGE } else { len.min(MOST) }, Way::Out);
                }
            }
            // An array may be behind it, as long as it says itself.
            _ if self.memory.is_again() => self.plain(at, BEHIND, Way::Out),
            _ => self.plain(at, if is_old { OLD } else { size }, Way::Out),
        }
    }
}

#[cfg(test)]
mod test {
    use alloc::vec::Vec;

    use linux_raw_sys::general as nr;

    use super::*;
    use crate::table::BY_NUMBER;

    /// A page that begins with words, at `BASE`.
    struct Fake {
        bytes: Vec<u8>,
        reached: Vec<(usize, usize)>,
        is_again: bool,
    }

    /// The program's own process.
    const OWN: usize = 42;

    const BASE: usize = 0x5500_0000_0000;
    const THERE: usize = 0x7f00_0000_0000;

    impl Memory for Fake {
        fn reach(&mut self, extent: Extent) {
            self.reached.push((extent.start, extent.len));
        }

        fn read(&mut self, addr: usize, bytes: &mut [u8]) -> bool {
            let from = addr - BASE;
            bytes.copy_from_slice(&self.bytes[from..from + bytes.len()]);
            true
        }

        fn is_own(&self, process: usize) -> bool {
            process == OWN
        }

        fn is_again(&self) -> bool {
            self.is_again
        }
    }

    /// What a request reaches whose argument begins with these words.
    fn reached(request: u32, words: &[usize]) -> Vec<(usize, usize)> {
        let args = [3, request as usize, BASE, 0, 0, 0];
        reached_by(nr::__NR_ioctl, &args, words, false)
    }

    /// What a call reaches, with `words` at `BASE`, when it is made again.
    fn reached_again(number: u32, args: &[usize; 6], words: &[usize]) -> Vec<(usize, usize)> {
        reached_by(number, args, words, true)
    }

    fn reached_by(number: u32, args: &[usize; 6], words: &[usize], is_again: bool) -> Vec<(usize, usize)> {
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.resize(PAGE, 0);
        let mut memory = Fake {
            bytes,
            reached: Vec::new(),
            is_again,
        };
        let row = BY_NUMBER[number as usize].expect("a row");
        reach(row, args, &mut memory);
        memory.reached
    }

    #[test]
    fn of_an_int_the_lower_half_of_a_register_counts() {
        for (said, len) in [(7 << 32 | 110, 110), (110, 110)] {
            let connect = reached_again(nr::__NR_connect, &[3, THERE, said, 0, 0, 0], &[]);
            assert_eq!(connect, [(THERE, len)]);
        }
        let below = reached_again(nr::__NR_connect, &[3, THERE, u32::MAX as usize, 0, 0, 0], &[]);
        assert_eq!(below, []);
    }

    #[test]
    fn buffers_of_the_programs_own_process_are_reached() {
        let of = |process| {
            let args = [process, 0, 0, BASE, 1, 0];
            reached_again(nr::__NR_process_vm_readv, &args, &[THERE, 64])
        };
        assert_eq!(of(OWN), [(BASE, 16), (THERE, 64)]);
        assert_eq!(of(OWN + 1), [(BASE, 16)]);
    }

    #[test]
    fn a_filter_is_counted_in_instructions_and_registers_in_a_vector() {
        let got = reached_again(nr::__NR_getsockopt, &[3, 1, 26, THERE, BASE, 0], &[100]);
        assert_eq!(got, [(BASE, 4), (THERE, 800)]);
        let asked = |request| reached_again(nr::__NR_ptrace, &[request, 7, 1, BASE, 0, 0], &[THERE, 216]);
        assert_eq!(asked(0x4204)[2..], [(BASE, 16), (THERE, 216)]);
        assert_eq!(asked(12).len(), 2);
    }

    #[test]
    fn what_the_argument_of_a_request_leads_to_is_reached() {
        let ethtool = reached(SIOCETHTOOL, &[0, 0, THERE, 0, 0]);
        assert_eq!(ethtool, [(BASE, 40), (THERE, 64 << 10)]);
        let scan = reached(PAGEMAP_SCAN, &[96, 0, 1, 2, 0, THERE, 3, 0, 0, 0, 0, 0]);
        assert_eq!(scan, [(BASE, 96), (THERE, 3 * 24)]);
        let name = reached(PROCMAP_QUERY, &[104, 0, 1, 0, 0, 0, 0, 0, 0, 0, 200, THERE, 0]);
        assert_eq!(name, [(BASE, 104), (THERE, 200)]);
        let copy = reached(UFFDIO_COPY, &[1 << 20, THERE, 0x2000, 0, 0]);
        assert_eq!(copy, [(BASE, 40), (THERE, 0x2000)]);
        let moved = reached(UFFDIO_MOVE, &[1 << 20, THERE, 0x2000, 0, 0]);
        assert_eq!(moved, [(BASE, 40), (THERE, 0x2000)]);
        let control = reached(NV_ESC_RM_CONTROL, &[1, 2, THERE, 48]);
        assert_eq!(control, [(BASE, 32), (THERE, 48)]);
        // One that does not say how many bytes.
        let made = reached(NV_ESC_RM_ALLOC_WITH_RIGHTS, &[1, 2, THERE, 0, 0, 0]);
        assert_eq!(made, [(BASE, 48), (THERE, PAGE)]);
        // Of others the argument alone, and what may be behind it when that did not do.
        assert_eq!(reached(0xc010_4601, &[THERE, 4096]), [(BASE, 16)]);
        let again = reached_again(nr::__NR_ioctl, &[3, 0xc010_4601, BASE, 0, 0, 0], &[THERE, 4096]);
        assert_eq!(again, [(BASE, 64 << 10)]);
    }
}
