//! The agent as a guest: it defines no symbol and leaves none open that a program could define.

use object::{Object, ObjectSymbol};

/// What the agent may bind to: what is left open is the program's, if it defines such a name. No
/// function; this variable libc itself looks up in the same way.
const ALLOWED: [&str; 1] = ["__curbrk"];

#[test]
fn the_agent_exports_nothing_and_binds_no_function() {
    let bytes = std::fs::read(env!("UZSWAP_AGENT")).expect("the agent that was embedded");
    let file = object::File::parse(&*bytes).expect("an ELF file");
    for symbol in file.dynamic_symbols() {
        let name = symbol.name().expect("a name");
        assert!(symbol.is_undefined(), "the agent exports {name}");
        let is_fine = name.is_empty() || ALLOWED.contains(&name);
        assert!(is_fine, "the agent uses {name} of the program");
    }
}
