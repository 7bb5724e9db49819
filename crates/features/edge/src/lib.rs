//! The features of dependencies that everything at the edge is compiled with: see `Cargo.toml`. No code.
