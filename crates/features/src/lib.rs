//! The features of dependencies that everything is compiled with: see `Cargo.toml`. No code.
