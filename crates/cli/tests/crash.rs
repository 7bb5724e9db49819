//! A real server under load is killed at random moments and at every failpoint, and started
//! again on what it left. Everything acknowledged is there, no gang runs twice, no GPU is held
//! by two, and running ranks notice nothing.
//!
//! `MUSTER_CRASH_KILLS` says how often the server is killed (12; `cargo xtask soak crash` kills it
//! a thousand times), `MUSTER_CRASH_AGENT_KILLS` how often the agents are (a tenth of that, at
//! least 3), `MUSTER_CRASH_SEED` with which seed (1; `fresh` takes one from the clock),
//! `MUSTER_CRASH_KEEP` keeps the directory.

pub(crate) mod api;
pub(crate) mod audit;
pub(crate) mod load;
pub(crate) mod log;
pub(crate) mod ranks;
pub(crate) mod rng;
pub(crate) mod run;
pub(crate) mod site;
pub(crate) mod sleepers;
pub(crate) mod work;

use crate::stores;

#[test]
fn kills_of_the_server_lose_and_repeat_nothing_on_sqlite() {
    run::run("sqlite", None);
}

#[test]
fn kills_of_the_server_lose_and_repeat_nothing_on_postgresql() {
    let Some(site) = stores::Site::postgres() else { return };
    run::run("postgresql", Some(site.url.clone()));
}
