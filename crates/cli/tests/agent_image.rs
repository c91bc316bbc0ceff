//! The agent as a guest: it defines no symbol and leaves none open that a program could define. And
//! as a member of the workspace.

use std::path::Path;
use std::process::Command;

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

/// As a part of the workspace (`cargo check --workspace`, an editor) it is checked with the
/// features that others ask for, such as rustix's std: what it defines as a program without std is
/// there twice then (E0152), but in the image.
#[test]
fn the_agent_is_checked_with_others_features() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let output = Command::new(env!("CARGO"))
        .args(["check", "--locked", "--lib"])
        .args(["--package", "uzswap-agent", "--package", "uzswap-zram"])
        .current_dir(&root)
        .arg("--target-dir")
        .arg(root.join("target/check"))
        .output()
        .expect("cargo");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
