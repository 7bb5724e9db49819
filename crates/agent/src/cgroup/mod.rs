//! Control groups: limits, and a fence that no process leaves by forking. Handles hosts with
//! version 2 alone, version 1 alone, and both (each controller is used where it lives).

mod bpf;
mod find;
mod group;
mod rule;

pub use find::Cgroups;
pub(crate) use find::mount_points;
pub(crate) use group::{Fence, Group};
pub(crate) use rule::Rule;
