//! Asks the linker for a smaller binary: one copy of functions that are the same (generic code is
//! compiled for many types and often comes out alike; a fiftieth of the binary), and a short form of
//! the list of addresses that the loader adjusts (a twentieth).

/// The first glibc whose loader reads the short list.
const READS_PACKED: (u32, u32) = (2, 36);

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let var = |name: &str| std::env::var(name).unwrap_or_default();
    // The linker that comes with Rust for this target knows how; another one may not.
    let own = var("TARGET") == "x86_64-unknown-linux-gnu"
        && var("RUSTC_LINKER").is_empty()
        && !var("CARGO_ENCODED_RUSTFLAGS").contains("link");
    if own {
        println!("cargo::rustc-link-arg-bins=-Wl,--icf=all");
        if glibc().is_some_and(|version| version >= READS_PACKED) {
            println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
        }
    }
}

/// The version of this machine's glibc. The binary needs one as new anyway.
fn glibc() -> Option<(u32, u32)> {
    let asked = std::process::Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok()?;
    let text = String::from_utf8(asked.stdout).ok()?;
    let (major, minor) = text.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}
