//! Asks the linker to keep one copy of functions that are the same: generic code is compiled for
//! many types and often comes out alike. A fiftieth of the binary.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let var = |name: &str| std::env::var(name).unwrap_or_default();
    // The linker that comes with Rust for this target knows how; another one may not.
    let own = var("TARGET") == "x86_64-unknown-linux-gnu"
        && var("RUSTC_LINKER").is_empty()
        && !var("CARGO_ENCODED_RUSTFLAGS").contains("link");
    if own {
        println!("cargo::rustc-link-arg-bins=-Wl,--icf=all");
    }
}
