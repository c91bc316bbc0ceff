//! Link settings of the shared library.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // Its threads run its code for the life of the process, also after a dlclose.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libuzswap.so.0");
}
