//! The simulator.

use crate::{WriteCounts, measured};
use muster_model::units::Span;
use muster_sim::{Options, run, scenario};
use std::path::Path;

const LLAMA3: &str = include_str!("../../../scenarios/llama3-54d.toml");

/// The first quarter of an hour of 54 days on 2,048 nodes.
pub(crate) fn quarter() -> WriteCounts {
    let mut s = scenario::read(LLAMA3, "llama3-54d.toml").expect("a scenario of the library");
    s.length = Span::mins(15);
    let mut written = WriteCounts::default();
    // It names no files.
    let lived = measured(|| {
        run(&s, Path::new("."), Options::default(), |line| {
            written.records += 1;
            written.bytes += line.len() as u64;
        })
    });
    lived.expect("it can be simulated");
    written
}
