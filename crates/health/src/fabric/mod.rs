//! Tests of the network between nodes: who is paired with whom, who is the cause of a slow pair,
//! and what is slow.
//!
//! - [`pairs`]: rounds of disjoint pairs, so that tests of one round do not disturb each other.
//! - [`isolate`]: nodes of slow pairs are paired again with nodes that are known to be good.
//! - [`bisect`]: a group that fails as a whole is halved until its bad nodes are left.
//! - [`preflight`]: which gangs and nodes are tested before work starts.
//! - [`path_history`]: what each path could do in the past, and what that makes of a new number.
//! - [`verdict`]: what follows for the nodes, as findings.

pub mod bisect;
pub mod isolate;
pub mod pairs;
pub mod path_history;
pub mod preflight;
pub mod verdict;
