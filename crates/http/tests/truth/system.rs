//! The lives of the simulator's own test: its world, what happens in it, and its machines.

#[path = "../../../sim/tests/system/acts.rs"]
pub(crate) mod acts;
#[path = "../../../sim/tests/system/agent.rs"]
pub(crate) mod agent;
#[path = "../../../sim/tests/system/metered.rs"]
pub(crate) mod metered;
#[path = "../../../sim/tests/system/play.rs"]
pub(crate) mod play;
#[path = "../../../sim/tests/system/spec.rs"]
pub(crate) mod spec;
#[path = "../../../sim/tests/system/test_site.rs"]
pub(crate) mod test_site;
