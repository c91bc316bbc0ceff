//! Link settings of the preloaded library.

fn main() {
    // Set where the library is built to be embedded (cli/build.rs).
    println!("cargo:rerun-if-env-changed=UZSWAP_IMAGE");
    println!("cargo:rerun-if-changed=build.rs");
    if std::env::var_os("UZSWAP_IMAGE").is_none() {
        return;
    }
    println!("cargo:rustc-cfg=uzswap_image");
    // Fork handlers and replaced functions point into this library for the life of the process.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,now");
    // Before the constructors of the program's libraries, which may make threads (OpenBLAS).
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,initfirst");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libuzswap_agent.so");
    // No function of libc is bound, so nobody else asks for it; but it has to be ready before we
    // are.
    println!("cargo:rustc-cdylib-link-arg=-Wl,--no-as-needed");
    println!("cargo:rustc-cdylib-link-arg=-lc");
    println!("cargo:rustc-cdylib-link-arg=-nostartfiles");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-e,uzswap_begin");
}
