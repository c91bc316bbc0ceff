//! Where a program's code makes system calls, and the jump that takes the place of each.
//!
//! A `syscall` instruction has two bytes, a jump to anywhere near has five. So the instructions
//! before it, or those behind it, move to a *stub* along with it:
//!
//! ```text
//! mov eax, 0       ->  jmp stub         stub:  mov eax, 0
//! syscall              syscall                 mov rcx, gateway
//! cmp rax, -4095       cmp rax, -4095          jmp entry
//!                                              jmp back           to the cmp
//! ```
//!
//! All bytes behind the jump stay as they are. So whoever jumps to where the instruction was still
//! finds it there, if what moved lay before it: that call is not guarded, but it is made. Windows
//! that end at the instruction are preferred therefore. No jump may lead into what is written over.

use alloc::vec::Vec;
use core::ops::Range;

use yaxpeax_arch::{Decoder, LengthedInstruction, U8Reader};
use yaxpeax_x86::long_mode::{InstDecoder, Instruction, Opcode, Operand, RegSpec};

/// `syscall`.
pub const SYSCALL: [u8; 2] = [0x0f, 0x05];
/// Bytes of a jump to an address within two gibibytes.
pub const JUMP: usize = 5;
/// Instructions before or behind a call that may move with it.
const NEIGHBOURS: usize = 4;
/// An instruction has 15 bytes at most: so far from a call is what moves with it, or does not.
const NEAR: usize = 15 * (NEIGHBOURS + 1);
/// `jmp` to a near address, and what others with two bytes begin with.
const JUMP_NEAR: u8 = 0xe9;
const TWO_BYTES: u8 = 0x0f;

/// A system call and what moves with it, as offsets in the code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// The `syscall` instruction.
    pub call: usize,
    /// All that moves.
    pub window: Range<usize>,
    /// Bytes of its first instruction, the jump's at most.
    pub first: usize,
}

/// What a piece of code has of them.
#[derive(Default, Debug)]
pub struct Sites {
    /// Those that a jump can take the place of.
    pub found: Vec<Site>,
    /// Where those are that it cannot, as offsets.
    pub missed: Vec<usize>,
}

/// What a decoded instruction means here.
struct Step {
    at: usize,
    len: usize,
    /// It does the same elsewhere.
    moves: bool,
    is_call: bool,
}

/// Find the system calls of `code`. `function_of` says where the function that holds an offset
/// begins and ends: code can be told apart from its beginning only.
pub fn find(code: &[u8], mut function_of: impl FnMut(usize) -> Option<Range<usize>>) -> Sites {
    let mut sites = Sites::default();
    let calls = calls_of(code);
    let (mut at, mut targets) = (0, Vec::new());
    for &call in &calls {
        if call < at || is_return(&code[..call]) {
            continue;
        }
        let Some(function) =
            function_of(call).filter(|function| function.contains(&call) && function.end <= code.len())
        else {
            // Data, perhaps.
            sites.missed.push(call);
            continue;
        };
        find_in(code, function.clone(), &calls, &mut sites, &mut targets);
        at = function.end;
    }
    // What one moved the other must not write over.
    let Sites { found, missed } = &mut sites;
    let mut end = 0;
    found.retain(|site| {
        let is_apart = site.window.start >= end;
        match is_apart {
            true => end = site.window.end,
            false => missed.push(site.call),
        }
        is_apart
    });
    // Into its first instruction nobody jumps.
    let inside = |site: &Site| site.window.start + site.first..site.window.start + JUMP;
    let must_not_enter: Vec<_> = sites.found.iter().map(inside).collect();
    let entered = jumps_into(code, &must_not_enter, &targets);
    let mut is_entered = entered.iter();
    let Sites { found, missed } = &mut sites;
    found.retain(|site| {
        let stays = !is_entered.next().copied().unwrap_or(true);
        if !stays {
            missed.push(site.call);
        }
        stays
    });
    sites
}

/// Whether the call behind `code` is the return from a handler of a signal, which reaches the stack
/// alone. Unwinders know it by its bytes. Its entry in their table begins a byte early, in the
/// middle of what pads the function before it, so that it cannot be decoded from there.
fn is_return(code: &[u8]) -> bool {
    // `mov rax, 15` and `mov eax, 15`.
    code.ends_with(&[0x48, 0xc7, 0xc0, 15, 0, 0, 0]) || code.ends_with(&[0xb8, 15, 0, 0, 0])
}

fn next_call(code: &[u8], from: usize) -> Option<usize> {
    memchr::memmem::find(code.get(from..)?, &SYSCALL).map(|at| from + at)
}

/// Those of one function. `calls`: where the code may have some, in order. `targets`: where the
/// function's instructions jump to, as far as that is near a call.
///
/// A function may be megabytes: what lies between two entries of a table that has few. So no more
/// is kept of it than lies around a call.
fn find_in(code: &[u8], function: Range<usize>, calls: &[usize], sites: &mut Sites, targets: &mut Vec<usize>) {
    let is_near = |target: usize| {
        let after = calls.partition_point(|call| call + NEAR < target);
        calls.get(after).is_some_and(|call| *call < target + NEAR)
    };
    let decoder = InstDecoder::default();
    let mut reader = U8Reader::new(&code[function.clone()]);
    let mut instruction = Instruction::default();
    let (mut steps, mut at) = (Vec::new(), function.start);
    while at < function.end && decoder.decode_into(&mut instruction, &mut reader).is_ok() {
        let len = instruction.len().to_const() as usize;
        if let Some(offset) = may_branch(&code[at..]).then(|| branch(&instruction)).flatten() {
            targets.extend(Some((at + len).wrapping_add_signed(offset)).filter(|target| is_near(*target)));
        }
        if is_near(at) {
            steps.push(Step {
                at,
                len,
                moves: moves(&instruction),
                is_call: instruction.opcode() == Opcode::SYSCALL,
            });
        }
        at += len;
    }
    // What follows bytes that are no instruction is not known.
    let mut rest = at;
    while let Some(call) = next_call(&code[..function.end], rest) {
        sites.missed.push(call);
        rest = call + SYSCALL.len();
    }
    let is_call = |step: &Step| step.is_call && !is_return(&code[..step.at]);
    for (n, step) in steps.iter().enumerate().filter(|(_, step)| is_call(step)) {
        match window(&steps, n) {
            Some(window) => {
                let first = steps
                    .iter()
                    .find(|step| step.at == window.start)
                    .map_or(0, |step| step.len);
                let first = first.min(JUMP);
                sites.found.push(Site {
                    call: step.at,
                    window,
                    first,
                });
            }
            None => sites.missed.push(step.at),
        }
    }
}

/// Where `code` may have calls, in order.
fn calls_of(code: &[u8]) -> Vec<usize> {
    memchr::memmem::find_iter(code, &SYSCALL).collect()
}

/// What moves with the call that `steps` has at `n`. Those around it follow one another.
fn window(steps: &[Step], n: usize) -> Option<Range<usize>> {
    let call = &steps[n];
    let end = call.at + call.len;
    let mut before = steps[..n].iter().rev().take(NEIGHBOURS).take_while(|step| step.moves);
    if let Some(first) = before.find(|step| call.at - step.at >= JUMP) {
        return Some(first.at..end);
    }
    let start = steps[..n]
        .iter()
        .rev()
        .take(NEIGHBOURS)
        .take_while(|step| step.moves)
        .last()
        .map_or(call.at, |step| step.at);
    let behind = steps[n + 1..].iter().take(NEIGHBOURS).take_while(|step| step.moves);
    let mut ends = core::iter::once(end).chain(behind.map(|step| step.at + step.len));
    ends.find(|end| end - start >= JUMP).map(|end| start..end)
}

/// Whether an instruction jumps or calls, by its first bytes.
fn may_branch(code: &[u8]) -> bool {
    matches!(
        code,
        [0x70..=0x7f | 0xe0..=0xe3 | 0xe8 | JUMP_NEAR | 0xeb, ..] | [TWO_BYTES, 0x80..=0x8f, ..] | [0xf2 | 0x2e | 0x3e, ..]
    )
}

/// How far beyond its own end an instruction may jump to.
fn branch(instruction: &Instruction) -> Option<isize> {
    let is_immediate = match instruction.operand(0) {
        Operand::ImmediateI8 { imm } => isize::from(imm),
        Operand::ImmediateI32 { imm } => imm as isize,
        _ => return None,
    };
    // Others have an immediate that is no distance: one target too many does no harm.
    Some(is_immediate)
}

/// Whether an instruction does the same wherever it lies.
fn moves(instruction: &Instruction) -> bool {
    const PLAIN: [Opcode; 22] = [
        Opcode::MOV,
        Opcode::MOVZX,
        Opcode::MOVSX,
        Opcode::MOVSXD,
        Opcode::XOR,
        Opcode::LEA,
        Opcode::ADD,
        Opcode::SUB,
        Opcode::AND,
        Opcode::OR,
        Opcode::CMP,
        Opcode::TEST,
        Opcode::NEG,
        Opcode::NOT,
        Opcode::SHL,
        Opcode::SHR,
        Opcode::SAR,
        Opcode::PUSH,
        Opcode::POP,
        Opcode::NOP,
        Opcode::CDQE,
        Opcode::CMOVZ,
    ];
    let is_relative = |n: u8| match instruction.operand(n) {
        Operand::MemDeref { base } | Operand::Disp { base, .. } => base == RegSpec::rip() || base == RegSpec::eip(),
        _ => false,
    };
    PLAIN.contains(&instruction.opcode()) && !(0..instruction.operand_count()).any(is_relative)
}

/// Bytes of a piece of code.
const PIECE: usize = 256;

/// For each of `ranges`, which are in order: whether a jump of `code` may lead into it. `targets`:
/// those of decoded instructions. Others are looked for at every byte: parts of a function that are
/// seldom run lie elsewhere, and jump back.
fn jumps_into(code: &[u8], ranges: &[Range<usize>], targets: &[usize]) -> Vec<bool> {
    let mut entered = alloc::vec![false; ranges.len()];
    // Which pieces of the code have such a range: of a large program's jumps few lead to one.
    let mut pieces = alloc::vec![false; code.len() / PIECE + 1];
    for range in ranges.iter().filter(|range| !range.is_empty()) {
        pieces[range.start / PIECE..=(range.end - 1) / PIECE].fill(true);
    }
    let mut note = |target: usize| {
        if pieces.get(target / PIECE) != Some(&true) {
            return;
        }
        let after = ranges.partition_point(|range| range.start <= target);
        if let Some(n) = after.checked_sub(1).filter(|n| ranges[*n].contains(&target)) {
            entered[n] = true;
        }
    };
    targets.iter().for_each(|target| note(*target));
    let mut far = |at: usize| {
        if let Some(&[a, b, c, d]) = code.get(at..at + 4) {
            note((at + 4).wrapping_add_signed(i32::from_le_bytes([a, b, c, d]) as isize));
        }
    };
    if ranges.iter().all(Range::is_empty) {
        return entered;
    }
    for at in memchr::memchr2_iter(JUMP_NEAR, TWO_BYTES, code) {
        match (code[at], code.get(at + 1)) {
            (JUMP_NEAR, _) => far(at + 1),
            (_, Some(0x80..=0x8f)) => far(at + 2),
            _ => {}
        }
    }
    entered
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::frames::Frames;
    use crate::stub::Stubs;
    use std::eprintln;

    /// glibc's madvise: `mov eax, 28; syscall; cmp rax, -4095; jae; ret; ...`
    const MADVISE: [u8; 33] = [
        0xb8, 0x1c, 0, 0, 0, 0x0f, 0x05, 0x48, 0x3d, 0x01, 0xf0, 0xff, 0xff, 0x73, 0x01, 0xc3, 0x48, 0x8b, 0x0d, 0xc9,
        0x12, 0x0d, 0, 0xf7, 0xd8, 0x64, 0x89, 0x01, 0x48, 0x83, 0xc8, 0xff, 0xc3,
    ];

    fn whole(code: &[u8]) -> Sites {
        find(code, |_| Some(0..code.len()))
    }

    #[test]
    fn what_lies_before_the_call_moves_first() {
        let sites = whole(&MADVISE);
        assert_eq!(
            sites.found,
            [Site {
                call: 5,
                window: 0..7,
                first: 5
            }]
        );
        // `xor eax, eax; syscall; cmp rax, -4095; ja`: of read.
        let read = [
            0x31, 0xc0, 0x0f, 0x05, 0x48, 0x3d, 0x00, 0xf0, 0xff, 0xff, 0x77, 0x01, 0xc3, 0xc3,
        ];
        assert_eq!(
            whole(&read).found,
            [Site {
                call: 2,
                window: 0..10,
                first: 2
            }]
        );
        // `mov edx, esi; xor eax, eax; syscall` is four bytes of room: not enough by one.
        let short = [0x89, 0xf2, 0x31, 0xc0, 0x0f, 0x05, 0xc3, 0xc3, 0xc3];
        assert_eq!(
            whole(&short).found,
            [Site {
                call: 4,
                window: 0..6,
                first: 2
            }]
        );
    }

    #[test]
    fn a_jump_into_what_is_written_over_forbids_it() {
        // `xor eax, eax; syscall; jmp` back to the syscall.
        let loops = [
            0x31, 0xc0, 0x0f, 0x05, 0x48, 0x3d, 0x00, 0xf0, 0xff, 0xff, 0xeb, 0xf6, 0xc3,
        ];
        let sites = whole(&loops);
        assert_eq!((sites.found.len(), sites.missed.len()), (0, 1));
        // The same from far away: the code that does it is not of the function.
        let mut far = loops.to_vec();
        far[10..12].copy_from_slice(&[0x90, 0x90]);
        far.extend([0xe9, 2u8.wrapping_sub(18), 0xff, 0xff, 0xff]);
        let sites = find(&far, |_| Some(0..13));
        assert_eq!((sites.found.len(), sites.missed.len()), (0, 1));
        // To where the jump ends it is fine: those bytes stay.
        let mut fine = MADVISE;
        fine[31..].copy_from_slice(&[0xeb, 5u8.wrapping_sub(33)]);
        assert_eq!(whole(&fine).found.len(), 1);
    }

    #[test]
    fn returns_from_handlers_are_left_alone() {
        // Decoded from a byte early, it is two other instructions and a call.
        let code = [0x00, 0x48, 0xc7, 0xc0, 15, 0, 0, 0, 0x0f, 0x05, 0x90, 0x90, 0x90, 0x90];
        let sites = whole(&code);
        assert_eq!((sites.found.len(), sites.missed.len()), (0, 0));
    }

    #[test]
    fn calls_too_close_to_each_other_are_not_both_guarded() {
        // `xor eax, eax; syscall; mov eax, 39; syscall; ret`.
        let code = [0x31, 0xc0, 0x0f, 0x05, 0xb8, 39, 0, 0, 0, 0x0f, 0x05, 0xc3, 0xc3, 0xc3];
        let sites = whole(&code);
        assert_eq!((sites.found.len(), sites.missed.len()), (1, 1));
    }

    #[test]
    fn bytes_inside_of_other_instructions_are_no_calls() {
        // `mov eax, 0x050f` has both bytes.
        let sites = whole(&[0xb8, 0x0f, 0x05, 0, 0, 0xc3, 0xc3]);
        assert_eq!((sites.found.len(), sites.missed.len()), (0, 0));
    }

    #[test]
    fn what_knows_its_own_address_stays() {
        // `lea rdi, [rip + 16]; syscall; ret`.
        let code = [
            0x48, 0x8d, 0x3d, 0x10, 0, 0, 0, 0x0f, 0x05, 0xc3, 0xc3, 0xc3, 0xc3, 0xc3,
        ];
        let sites = whole(&code);
        assert_eq!((sites.found.len(), sites.missed.len()), (0, 1));
    }

    #[test]
    fn a_stub_does_what_the_code_did() {
        let sites = whole(&MADVISE);
        let (code_at, stubs_at) = (0x40_0000, 0x50_0000);
        let mut stubs = Stubs::new(0x1234_5678);
        let site = &sites.found[0];
        let jump = stubs
            .add(site, &MADVISE, code_at, stubs_at, 0x1234_5678_9abc)
            .expect("they are near");
        assert_eq!(jump.bytes[0], 0xe9);
        let distance = i32::from_le_bytes(jump.bytes[1..].try_into().unwrap());
        let there = (code_at + JUMP).wrapping_add_signed(distance as isize);
        let stub = &stubs.bytes()[there - stubs_at..];
        assert_eq!(stub[..5], MADVISE[..5], "what moved");
        assert_eq!(stub[5..15], [0x48, 0xb9, 0xbc, 0x9a, 0x78, 0x56, 0x34, 0x12, 0, 0]);
        assert_eq!(stub[15..17], [0xff, 0x25]);
        let distance = i32::from_le_bytes(stub[17..21].try_into().unwrap());
        let word = (there + 21).wrapping_add_signed(distance as isize);
        assert_eq!(word, stubs_at, "in front of all stubs");
        let goes_on = jump.goes_on - there;
        let back = i32::from_le_bytes(stub[goes_on + 1..goes_on + 5].try_into().unwrap());
        assert_eq!((there + goes_on + 5).wrapping_add_signed(back as isize), code_at + 7);
        assert!(Stubs::new(0).add(site, &MADVISE, 0, 1 << 40, 0).is_none(), "too far");
        assert!(Stubs::bytes_for(&sites.found) >= stubs.bytes().len());
    }

    /// A segment of an image in a file: its bytes, and its address.
    fn segment(file: &[u8], wanted: impl Fn(u32, u32) -> bool) -> Option<(&[u8], usize)> {
        let word = |at: usize, len: usize| {
            let mut bytes = [0; 8];
            bytes[..len].copy_from_slice(&file[at..at + len]);
            usize::from_le_bytes(bytes)
        };
        let (first, size, count) = (word(32, 8), word(54, 2), word(56, 2));
        let headers = (0..count).map(|n| first + n * size);
        let found = headers
            .filter(|at| wanted(word(*at, 4) as u32, word(at + 4, 4) as u32))
            .map(|at| (&file[word(at + 8, 8)..][..word(at + 32, 8)], word(at + 16, 8)));
        found.max_by_key(|(bytes, _)| bytes.len())
    }

    /// Every call of the libc that this test runs with can be guarded, and of its dynamic linker.
    #[test]
    #[cfg_attr(miri, ignore = "reads files")]
    fn all_of_libc_can_be_guarded() {
        for path in ["/lib/x86_64-linux-gnu/libc.so.6", "/lib64/ld-linux-x86-64.so.2"] {
            let Ok(file) = std::fs::read(path) else { continue };
            let (text, at) = segment(&file, |kind, flags| kind == 1 && flags & 1 != 0).expect("it has code");
            let (table, table_at) = segment(&file, |kind, _| kind == 0x6474_e550).expect("it can be unwound");
            let frames = Frames::new(table, table_at).expect("as linkers write it");
            let function_of = |offset: usize| {
                let found = frames.function(at + offset)?;
                Some(found.start - at..found.end - at)
            };
            let begun = std::time::Instant::now();
            let sites = find(text, function_of);
            let missed: Vec<_> = sites.missed.iter().map(|offset| at + offset).collect();
            eprintln!(
                "{path}: {} found, missed {missed:x?}, {:?}",
                sites.found.len(),
                begun.elapsed()
            );
            assert!(sites.found.len() > 30);
            // The loop that ends a thread, which reaches no memory.
            assert!(missed.len() <= 1, "{missed:x?}");
        }
    }
}
