//! Which machine and which commit a figure belongs to.

pub(crate) use xtask::machine::{commit, describe, field_kib};
