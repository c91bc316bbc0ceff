//! `memcpy`, `memmove`, `memset`, `memcmp` and `strlen` of our own.
//!
//! Compilers call these by name, and a name that a library leaves open belongs to whoever defines
//! it first: the program. Its `memcpy` may take a lock that a thread holds which waits for kswapd,
//! or lie in memory that kswapd has taken out. So the agent defines the names itself, hidden, as
//! jumps to what is here; the C code that it links is bound to them as well.
//!
//! In assembly, since a compiler is free to turn a loop that copies into a call of `memcpy`.

// Naked functions take no attribute of their own.
#![expect(clippy::too_many_lines, reason = "they are assembly")]

use core::arch::naked_asm;
use core::arch::x86_64::{__cpuid, __cpuid_count};
use core::ffi::{c_char, c_int, c_void};
use core::sync::atomic::{AtomicBool, Ordering};

/// Whether the processor has vectors of 32 bytes, and the kernel keeps them.
pub(crate) static HAS_AVX2: AtomicBool = AtomicBool::new(false);

/// Bytes from which on they are used: a step of the loop, which is done at least once.
const AVX_LEAST: usize = 128;

/// Look at what the processor can do. Until then, and where it has nothing better, SSE2 does all.
/// (`rep movsb` is not used: on AMD it is ten times slower where the destination lies less than 64
/// bytes behind the source, modulo a page.)
pub fn choose() {
    let has_avx = __cpuid(1).ecx & (OSXSAVE | AVX) == OSXSAVE | AVX;
    let has_avx2 = __cpuid(0).eax >= 7 && __cpuid_count(7, 0).ebx & AVX2 != 0;
    // SAFETY: OSXSAVE says that the instruction exists.
    let is_kept = has_avx && unsafe { enabled_state() } & YMM_STATE == YMM_STATE;
    HAS_AVX2.store(has_avx2 && is_kept, Ordering::Relaxed);
}

/// Leaf 1 of CPUID, ECX.
const OSXSAVE: u32 = 1 << 27;
const AVX: u32 = 1 << 28;
/// Leaf 7, EBX.
const AVX2: u32 = 1 << 5;
/// XCR0: the kernel keeps the lower and the upper halves of vectors.
const YMM_STATE: u64 = 0b110;

/// XCR0.
///
/// # Safety
/// The processor has XGETBV, and the kernel allows it (CPUID's OSXSAVE).
#[unsafe(naked)]
unsafe extern "C" fn enabled_state() -> u64 {
    naked_asm!("xor ecx, ecx", "xgetbv", "shl rdx, 32", "or rax, rdx", "ret")
}

/// As C's `memmove` and `memcpy`.
///
/// # Safety
/// `from` is readable and `to` writable for `len` bytes.
#[unsafe(naked)]
pub unsafe extern "C" fn copy(to: *mut c_void, from: *const c_void, len: usize) -> *mut c_void {
    naked_asm!(
        "mov rax, rdi",
        "cmp rdx, 16",
        "jb 2f",
        "cmp rdx, 32",
        "ja 5f",
        "movups xmm0, [rsi]",
        "movups xmm1, [rsi + rdx - 16]",
        "movups [rdi], xmm0",
        "movups [rdi + rdx - 16], xmm1",
        "ret",
        // Fewer than 16: two words that overlap.
        "2:",
        "cmp edx, 8",
        "jb 3f",
        "mov rcx, [rsi]",
        "mov rsi, [rsi + rdx - 8]",
        "mov [rdi], rcx",
        "mov [rdi + rdx - 8], rsi",
        "ret",
        "3:",
        "cmp edx, 4",
        "jb 4f",
        "mov ecx, [rsi]",
        "mov esi, [rsi + rdx - 4]",
        "mov [rdi], ecx",
        "mov [rdi + rdx - 4], esi",
        "ret",
        // Fewer than 4: the first, the middle and the last byte.
        "4:",
        "test edx, edx",
        "je 12f",
        "mov r9, rdx",
        "shr r9, 1",
        "movzx ecx, byte ptr [rsi]",
        "movzx r8d, byte ptr [rsi + r9]",
        "movzx esi, byte ptr [rsi + rdx - 1]",
        "mov [rdi], cl",
        "mov [rdi + r9], r8b",
        "mov [rdi + rdx - 1], sil",
        "12:",
        "ret",
        "5:",
        "cmp rdx, 64",
        "ja 6f",
        "movups xmm0, [rsi]",
        "movups xmm1, [rsi + 16]",
        "movups xmm2, [rsi + rdx - 32]",
        "movups xmm3, [rsi + rdx - 16]",
        "movups [rdi], xmm0",
        "movups [rdi + 16], xmm1",
        "movups [rdi + rdx - 32], xmm2",
        "movups [rdi + rdx - 16], xmm3",
        "ret",
        // More than 64: the last (or, backwards, the first) 64 are loaded before anything is
        // stored.
        "6:",
        "mov rcx, rdi",
        "sub rcx, rsi",
        "cmp rcx, rdx",
        "jb 9f",
        "cmp rdx, {least}",
        "jae 18f",
        "7:",
        "movups xmm8, [rsi]",
        "movups xmm4, [rsi + rdx - 64]",
        "movups xmm5, [rsi + rdx - 48]",
        "movups xmm6, [rsi + rdx - 32]",
        "movups xmm7, [rsi + rdx - 16]",
        // Stores are aligned to 16; the first 16 bytes are stored apart.
        "lea r8, [rdi + 16]",
        "and r8, -16",
        "sub rsi, rdi",
        "lea r9, [rdi + rdx - 64]",
        "jmp 13f",
        ".p2align 4",
        "8:",
        "movups xmm0, [rsi + r8]",
        "movups xmm1, [rsi + r8 + 16]",
        "movups xmm2, [rsi + r8 + 32]",
        "movups xmm3, [rsi + r8 + 48]",
        "movaps [r8], xmm0",
        "movaps [r8 + 16], xmm1",
        "movaps [r8 + 32], xmm2",
        "movaps [r8 + 48], xmm3",
        "add r8, 64",
        "13:",
        "cmp r8, r9",
        "jb 8b",
        "movups [r9], xmm4",
        "movups [r9 + 16], xmm5",
        "movups [r9 + 32], xmm6",
        "movups [r9 + 48], xmm7",
        "movups [rdi], xmm8",
        "ret",
        // The destination begins inside the source.
        "9:",
        "movups xmm8, [rsi + rdx - 16]",
        "movups xmm4, [rsi]",
        "movups xmm5, [rsi + 16]",
        "movups xmm6, [rsi + 32]",
        "movups xmm7, [rsi + 48]",
        "lea r8, [rdi + rdx - 1]",
        "and r8, -16",
        "sub rsi, rdi",
        "lea r9, [rdi + 64]",
        "jmp 14f",
        ".p2align 4",
        "17:",
        "movups xmm0, [rsi + r8 - 16]",
        "movups xmm1, [rsi + r8 - 32]",
        "movups xmm2, [rsi + r8 - 48]",
        "movups xmm3, [rsi + r8 - 64]",
        "movaps [r8 - 16], xmm0",
        "movaps [r8 - 32], xmm1",
        "movaps [r8 - 48], xmm2",
        "movaps [r8 - 64], xmm3",
        "sub r8, 64",
        "14:",
        "cmp r8, r9",
        "ja 17b",
        "movups [rdi], xmm4",
        "movups [rdi + 16], xmm5",
        "movups [rdi + 32], xmm6",
        "movups [rdi + 48], xmm7",
        "movups [rdi + rdx - 16], xmm8",
        "ret",
        // The same as before 8, by 32.
        "18:",
        "cmp byte ptr [rip + {avx2}], 0",
        "je 7b",
        "vmovdqu ymm8, [rsi]",
        "vmovdqu ymm4, [rsi + rdx - 128]",
        "vmovdqu ymm5, [rsi + rdx - 96]",
        "vmovdqu ymm6, [rsi + rdx - 64]",
        "vmovdqu ymm7, [rsi + rdx - 32]",
        "lea r8, [rdi + 32]",
        "and r8, -32",
        "sub rsi, rdi",
        "lea r9, [rdi + rdx - 128]",
        "jmp 16f",
        ".p2align 4",
        "15:",
        "vmovdqu ymm0, [rsi + r8]",
        "vmovdqu ymm1, [rsi + r8 + 32]",
        "vmovdqu ymm2, [rsi + r8 + 64]",
        "vmovdqu ymm3, [rsi + r8 + 96]",
        "vmovdqa [r8], ymm0",
        "vmovdqa [r8 + 32], ymm1",
        "vmovdqa [r8 + 64], ymm2",
        "vmovdqa [r8 + 96], ymm3",
        "add r8, 128",
        "16:",
        "cmp r8, r9",
        "jb 15b",
        "vmovdqu [r9], ymm4",
        "vmovdqu [r9 + 32], ymm5",
        "vmovdqu [r9 + 64], ymm6",
        "vmovdqu [r9 + 96], ymm7",
        "vmovdqu [rdi], ymm8",
        "vzeroupper",
        "ret",
        least = const AVX_LEAST,
        avx2 = sym HAS_AVX2,
    )
}

/// As C's `memset`.
///
/// # Safety
/// `to` is writable for `len` bytes.
#[unsafe(naked)]
pub unsafe extern "C" fn fill(to: *mut c_void, byte: c_int, len: usize) -> *mut c_void {
    naked_asm!(
        "mov rax, rdi",
        "cmp rdx, {least}",
        "jae 9f",
        "2:",
        "movzx esi, sil",
        "movabs rcx, 0x0101010101010101",
        "imul rcx, rsi",
        "cmp rdx, 16",
        "jb 4f",
        "movq xmm0, rcx",
        "punpcklqdq xmm0, xmm0",
        "lea r8, [rdi + rdx - 16]",
        "movups [rdi], xmm0",
        "cmp rdx, 32",
        "jbe 7f",
        // Aligned stores between the first and the last 16 bytes.
        "add rdi, 16",
        "and rdi, -16",
        "lea r9, [r8 - 48]",
        "cmp rdi, r9",
        "jae 6f",
        ".p2align 4",
        "3:",
        "movaps [rdi], xmm0",
        "movaps [rdi + 16], xmm0",
        "movaps [rdi + 32], xmm0",
        "movaps [rdi + 48], xmm0",
        "add rdi, 64",
        "cmp rdi, r9",
        "jb 3b",
        // Up to 48 bytes are left before the last 16.
        "6:",
        "cmp rdi, r8",
        "jae 7f",
        "movaps [rdi], xmm0",
        "add rdi, 16",
        "jmp 6b",
        "7:",
        "movups [r8], xmm0",
        "ret",
        "4:",
        "cmp edx, 8",
        "jb 5f",
        "mov [rdi], rcx",
        "mov [rdi + rdx - 8], rcx",
        "ret",
        "5:",
        "cmp edx, 4",
        "jb 8f",
        "mov [rdi], ecx",
        "mov [rdi + rdx - 4], ecx",
        "ret",
        "8:",
        "test edx, edx",
        "je 12f",
        "mov r9, rdx",
        "shr r9, 1",
        "mov [rdi], cl",
        "mov [rdi + r9], cl",
        "mov [rdi + rdx - 1], cl",
        "12:",
        "ret",
        "9:",
        "cmp byte ptr [rip + {avx2}], 0",
        "je 2b",
        "movd xmm0, esi",
        "vpbroadcastb ymm0, xmm0",
        "lea r9, [rdi + rdx - 128]",
        "vmovdqu [rdi], ymm0",
        "lea r8, [rdi + 32]",
        "and r8, -32",
        "jmp 18f",
        ".p2align 4",
        "17:",
        "vmovdqa [r8], ymm0",
        "vmovdqa [r8 + 32], ymm0",
        "vmovdqa [r8 + 64], ymm0",
        "vmovdqa [r8 + 96], ymm0",
        "add r8, 128",
        "18:",
        "cmp r8, r9",
        "jb 17b",
        "vmovdqu [r9], ymm0",
        "vmovdqu [r9 + 32], ymm0",
        "vmovdqu [r9 + 64], ymm0",
        "vmovdqu [r9 + 96], ymm0",
        "vzeroupper",
        "ret",
        least = const AVX_LEAST,
        avx2 = sym HAS_AVX2,
    )
}

/// As C's `memcmp` and `bcmp`.
///
/// # Safety
/// `a` and `b` are readable for `len` bytes.
#[unsafe(naked)]
pub unsafe extern "C" fn compare(a: *const c_void, b: *const c_void, len: usize) -> c_int {
    naked_asm!(
        "xor ecx, ecx",
        "cmp rdx, {least}",
        "jae 7f",
        "19:",
        "cmp rdx, 64",
        "jb 3f",
        "lea r8, [rdx - 64]",
        ".p2align 4",
        "2:",
        "movups xmm0, [rdi + rcx]",
        "movups xmm1, [rdi + rcx + 16]",
        "movups xmm2, [rdi + rcx + 32]",
        "movups xmm3, [rdi + rcx + 48]",
        "movups xmm4, [rsi + rcx]",
        "movups xmm5, [rsi + rcx + 16]",
        "movups xmm6, [rsi + rcx + 32]",
        "movups xmm7, [rsi + rcx + 48]",
        "pcmpeqb xmm0, xmm4",
        "pcmpeqb xmm1, xmm5",
        "pcmpeqb xmm2, xmm6",
        "pcmpeqb xmm3, xmm7",
        "pand xmm0, xmm1",
        "pand xmm2, xmm3",
        "pand xmm0, xmm2",
        "pmovmskb eax, xmm0",
        "cmp eax, 0xffff",
        "jne 3f",
        "add rcx, 64",
        "cmp rcx, r8",
        "jbe 2b",
        // By 16 what is left, or where a difference is.
        "3:",
        "lea r8, [rcx + 16]",
        "cmp r8, rdx",
        "ja 4f",
        "movups xmm0, [rdi + rcx]",
        "movups xmm4, [rsi + rcx]",
        "pcmpeqb xmm0, xmm4",
        "pmovmskb eax, xmm0",
        "xor eax, 0xffff",
        "jne 6f",
        "mov rcx, r8",
        "jmp 3b",
        "4:",
        "cmp rcx, rdx",
        "jae 5f",
        "movzx eax, byte ptr [rdi + rcx]",
        "movzx r8d, byte ptr [rsi + rcx]",
        "inc rcx",
        "sub eax, r8d",
        "je 4b",
        "ret",
        "5:",
        "xor eax, eax",
        "ret",
        "6:",
        "bsf eax, eax",
        "add rcx, rax",
        "movzx eax, byte ptr [rdi + rcx]",
        "movzx r8d, byte ptr [rsi + rcx]",
        "sub eax, r8d",
        "ret",
        "7:",
        "cmp byte ptr [rip + {avx2}], 0",
        "je 19b",
        "lea r8, [rdx - 128]",
        ".p2align 4",
        "8:",
        "vmovdqu ymm0, [rdi + rcx]",
        "vmovdqu ymm1, [rdi + rcx + 32]",
        "vmovdqu ymm2, [rdi + rcx + 64]",
        "vmovdqu ymm3, [rdi + rcx + 96]",
        "vpcmpeqb ymm0, ymm0, [rsi + rcx]",
        "vpcmpeqb ymm1, ymm1, [rsi + rcx + 32]",
        "vpcmpeqb ymm2, ymm2, [rsi + rcx + 64]",
        "vpcmpeqb ymm3, ymm3, [rsi + rcx + 96]",
        "vpand ymm0, ymm0, ymm1",
        "vpand ymm2, ymm2, ymm3",
        "vpand ymm0, ymm0, ymm2",
        "vpmovmskb eax, ymm0",
        "inc eax",
        "jne 9f",
        "sub rcx, -128",
        "cmp rcx, r8",
        "jbe 8b",
        "9:",
        "vzeroupper",
        "jmp 3b",
        least = const AVX_LEAST,
        avx2 = sym HAS_AVX2,
    )
}

/// As C's `strlen`.
///
/// # Safety
/// `text` ends with a zero.
#[unsafe(naked)]
pub unsafe extern "C" fn length(text: *const c_char) -> usize {
    naked_asm!(
        "xor eax, eax",
        "2:",
        "cmp byte ptr [rdi + rax], 0",
        "je 3f",
        "inc rax",
        "jmp 2b",
        "3:",
        "ret",
    )
}

// Miri has no assembly.
#[cfg(all(test, not(miri)))]
mod test;
