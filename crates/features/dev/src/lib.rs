//! The features of dependencies that only tests of pure crates need: see `Cargo.toml`. No code.
