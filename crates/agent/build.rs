//! Link settings of the preloaded library.

fn main() {
    // Fork handlers and replaced functions point into this library for the life of the process.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,now");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libuzswap_agent.so");
    // No function of libc is bound, so nobody else asks for it; but it has to be ready before we are.
    println!("cargo:rustc-cdylib-link-arg=-Wl,--no-as-needed");
    println!("cargo:rustc-cdylib-link-arg=-lc");
    println!("cargo:rustc-cdylib-link-arg=-nostartfiles");
}
