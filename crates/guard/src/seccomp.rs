//! A filter of system calls that the program is about to set: what it answers to calls of a
//! pager's. The kernel's own reading of it: classic BPF, of which a filter may use a part.

/// Instructions that a filter has at most.
const MOST: usize = 4096;
/// AUDIT_ARCH_X86_64.
const ARCH: u32 = 0xc000_003e;
/// What a filter answers to a call that is made: SECCOMP_RET_ALLOW, SECCOMP_RET_LOG.
const MADE: [u32; 2] = [0x7fff, 0x7ffc];

/// Calls of a pager's, and of threads that have one: numbers, and the arguments that filters look
/// at. One of each kind is enough: who lists what may be done leaves out the first.
const PAGERS: [(u32, [u64; 3]); 12] = [
    // userfaultfd; UFFDIO_API, UFFDIO_REGISTER, UFFDIO_COPY, UFFDIO_MOVE.
    (323, [1, 0, 0]),
    (16, [3, 0xc018_aa3f, 0]),
    (16, [3, 0xc020_aa00, 0]),
    (16, [3, 0xc028_aa03, 0]),
    (16, [3, 0xc028_aa05, 0]),
    // madvise: MADV_POPULATE_READ, MADV_DONTNEED.
    (28, [4096, 4096, 22]),
    (28, [4096, 4096, 4]),
    // prctl(PR_SET_SYSCALL_USER_DISPATCH), sigaltstack, eventfd2, ppoll, futex.
    (157, [59, 1, 4096]),
    (131, [4096, 0, 0]),
    (290, [0, 0x80000, 0]),
    (271, [4096, 1, 0]),
    (202, [4096, 0, 0]),
];

/// Whether a filter lets a pager do what it does. `instruction`: the nth of it, as a word; `None`
/// behind its end.
pub fn lets_pagers(instruction: impl Fn(usize) -> Option<u64>) -> bool {
    let is_made = |(number, args): &(u32, [u64; 3])| {
        answer(&instruction, *number, args).is_some_and(|answer| MADE.contains(&(answer >> 16)))
    };
    PAGERS.iter().all(is_made)
}

/// The word at `at` of `struct seccomp_data`.
fn word_of(number: u32, args: &[u64; 3], at: u32) -> Option<u32> {
    Some(match at {
        0 => number,
        4 => ARCH,
        // Where the call is made.
        8 | 12 => 0,
        16..64 if at.is_multiple_of(4) => {
            let arg = args.get((at as usize - 16) / 8).copied().unwrap_or(0);
            (arg >> (u64::from(at % 8) * 8)) as u32
        }
        _ => return None,
    })
}

/// What a filter answers to a call. `None`: it is none.
fn answer(instruction: &impl Fn(usize) -> Option<u64>, number: u32, args: &[u64; 3]) -> Option<u32> {
    let (mut a, mut x, mut memory, mut at) = (0_u32, 0_u32, [0_u32; 16], 0_usize);
    // It only jumps forwards, also if it is written to meanwhile.
    while at < MOST {
        let word = instruction(at)?;
        let (code, k) = (word as u16, (word >> 32) as u32);
        let jump = |is_true: bool| (word >> if is_true { 16 } else { 24 }) as u8 as usize;
        let operand = if code & 8 == 0 { k } else { x };
        at += 1;
        match code {
            0x06 => return Some(k),
            0x16 => return Some(a),
            0x20 => a = word_of(number, args, k)?,
            0x80 => a = 64,
            0x81 => x = 64,
            0x00 => a = k,
            0x01 => x = k,
            0x60 => a = *memory.get(k as usize)?,
            0x61 => x = *memory.get(k as usize)?,
            0x02 => *memory.get_mut(k as usize)? = a,
            0x03 => *memory.get_mut(k as usize)? = x,
            0x07 => x = a,
            0x87 => a = x,
            0x04 | 0x0c => a = a.wrapping_add(operand),
            0x14 | 0x1c => a = a.wrapping_sub(operand),
            0x24 | 0x2c => a = a.wrapping_mul(operand),
            0x34 | 0x3c => a = a.checked_div(operand)?,
            0x44 | 0x4c => a |= operand,
            0x54 | 0x5c => a &= operand,
            0x64 | 0x6c => a = a.wrapping_shl(operand),
            0x74 | 0x7c => a = a.wrapping_shr(operand),
            0x84 => a = a.wrapping_neg(),
            0xa4 | 0xac => a ^= operand,
            0x05 => at = at.checked_add(k as usize)?,
            0x15 | 0x1d => at += jump(a == operand),
            0x25 | 0x2d => at += jump(a > operand),
            0x35 | 0x3d => at += jump(a >= operand),
            0x45 | 0x4d => at += jump(a & operand != 0),
            _ => return None,
        }
    }
    None
}

#[cfg(test)]
mod test {
    use super::*;

    const ALLOW: u32 = 0x7fff_0000;
    const TRAP: u32 = 0x0003_0000;

    fn instruction(code: u16, jt: u8, jf: u8, k: u32) -> u64 {
        u64::from(code) | u64::from(jt) << 16 | u64::from(jf) << 24 | u64::from(k) << 32
    }

    fn of(filter: &[u64]) -> impl Fn(usize) -> Option<u64> {
        |at| filter.get(at).copied()
    }

    /// All but a prctl with this first argument.
    fn all_but_prctl(option: u32) -> [u64; 6] {
        [
            instruction(0x20, 0, 0, 0),
            instruction(0x15, 0, 3, 157),
            instruction(0x20, 0, 0, 16),
            instruction(0x15, 0, 1, option),
            instruction(0x06, 0, 0, TRAP),
            instruction(0x06, 0, 0, ALLOW),
        ]
    }

    #[test]
    fn a_filter_answers_as_in_the_kernel() {
        let filter = all_but_prctl(59);
        assert_eq!(answer(&of(&filter), 157, &[59, 1, 0]), Some(TRAP));
        assert_eq!(answer(&of(&filter), 157, &[38, 1, 0]), Some(ALLOW));
        assert_eq!(answer(&of(&filter), 16, &[59, 1, 0]), Some(ALLOW));
    }

    #[test]
    fn high_halves_of_arguments_are_words_of_their_own() {
        let filter = [instruction(0x20, 0, 0, 28), instruction(0x16, 0, 0, 0)];
        assert_eq!(answer(&of(&filter), 0, &[1, 2 << 32, 3]), Some(2));
        let filter = [instruction(0x20, 0, 0, 32), instruction(0x16, 0, 0, 0)];
        assert_eq!(answer(&of(&filter), 0, &[1, 2 << 32, 3]), Some(3));
    }

    #[test]
    fn a_pager_wants_all_of_its_calls() {
        assert!(lets_pagers(of(&[instruction(0x06, 0, 0, ALLOW)])));
        assert!(lets_pagers(of(&all_but_prctl(1))));
        assert!(!lets_pagers(of(&all_but_prctl(59))));
        assert!(!lets_pagers(of(&[instruction(0x06, 0, 0, TRAP)])));
        assert!(!lets_pagers(of(&[])));
    }

    #[test]
    fn what_is_no_filter_answers_nothing() {
        assert_eq!(answer(&of(&[]), 0, &[0; 3]), None);
        assert_eq!(answer(&of(&[instruction(0x05, 0, 0, 9)]), 0, &[0; 3]), None);
        assert_eq!(answer(&of(&[instruction(0x28, 0, 0, 0)]), 0, &[0; 3]), None);
    }
}
