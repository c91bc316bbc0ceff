//! The agent as a guest: it defines no symbol and uses next to nothing of the program's libc.

use object::{Object, ObjectSymbol};

/// What the agent may bind to. Above all not malloc and its relatives.
const ALLOWED: [&str; 10] = [
    "__curbrk",
    "__errno_location",
    "__register_atfork",
    "bcmp",
    "dlsym",
    "memcmp",
    "memcpy",
    "memmove",
    "memset",
    "strlen",
];

#[test]
fn the_agent_exports_nothing_and_imports_little() {
    let bytes = std::fs::read(env!("UZSWAP_AGENT")).expect("the agent that was embedded");
    let file = object::File::parse(&*bytes).expect("an ELF file");
    for symbol in file.dynamic_symbols() {
        let name = symbol.name().expect("a name");
        assert!(symbol.is_undefined(), "the agent exports {name}");
        // zstd's weak tracing hooks are resolved only if the program has them, to be called never.
        let is_fine = name.is_empty() || symbol.is_weak() || ALLOWED.contains(&name);
        assert!(is_fine, "the agent uses {name} of the program");
    }
}
