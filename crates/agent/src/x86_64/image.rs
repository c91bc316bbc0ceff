//! Names that the compilers and the bundled C code call, defined here and hidden: what was left
//! open would be the program's.

// The bundled C code can call the program's malloc and core refers to the unwinder; neither happens
// here (contexts come from our heap, panics abort). Hidden traps in their place: nothing of the
// program is bound, and if one is ever reached it stops at once.
core::arch::global_asm!(
    ".irp name, malloc, calloc, free, realloc, rust_eh_personality, _Unwind_Resume",
    ".globl \\name",
    ".hidden \\name",
    "\\name:",
    ".endr",
    "ud2",
);

// zstd's hooks for tracing, which it calls where the program has them: nobody has.
core::arch::global_asm!(
    ".irp name, compress_begin, compress_end, decompress_begin, decompress_end",
    ".weak ZSTD_trace_\\name",
    ".hidden ZSTD_trace_\\name",
    ".endr",
);

// The compilers' own calls, and the C code's: to `sys::string`, whatever the program has under
// these names.
core::arch::global_asm!(
    ".macro ours name, function",
    ".globl \\name",
    ".hidden \\name",
    ".type \\name, @function",
    "\\name: jmp \\function",
    ".endm",
    "ours memcpy, {copy}",
    "ours memmove, {copy}",
    "ours memset, {fill}",
    "ours memcmp, {compare}",
    "ours bcmp, {compare}",
    "ours strlen, {length}",
    ".purgem ours",
    copy = sym uzswap_sys::string::copy,
    fill = sym uzswap_sys::string::fill,
    compare = sym uzswap_sys::string::compare,
    length = sym uzswap_sys::string::length,
);

// Where the launcher begins (`sys::inject`), in a program that loads no library.
core::arch::global_asm!(
    ".globl uzswap_begin",
    ".hidden uzswap_begin",
    ".type uzswap_begin, @function",
    "uzswap_begin: jmp {begin}",
    begin = sym crate::init::construct_alone,
);
