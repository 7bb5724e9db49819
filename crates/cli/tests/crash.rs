//! A real server under load is killed at random moments and at every failpoint, and started
//! again on what it left, now and then with its clock set hours ahead or behind. Then agents are
//! killed, and then some are stopped for longer than the lease of their ranks, while jobs with
//! checkpoint directories run. Everything acknowledged is there, no gang runs twice, no GPU is held
//! by two, no two attempts write to one directory, and running ranks notice nothing. At the end
//! the log is read twice: with the server's code (`log`), and with none of it (`auditor`).
//!
//! `MUSTER_CRASH_KILLS` says how often the server is killed (`cargo xtask soak crash` kills it a
//! thousand times), `MUSTER_CRASH_AGENT_KILLS` how often the agents are (a tenth of that, at least
//! 2), `MUSTER_CRASH_STOPS` how often some are stopped (a thirtieth, at least 1). Without them it is
//! what every change is tried with: 3 kills of the server on each store, agents that are killed
//! twice on PostgreSQL, and agents that are stopped once on SQLite.
//!
//! `MUSTER_CRASH_SEED` says with which seed (1; `fresh` takes one from the clock),
//! `MUSTER_CRASH_KEEP` keeps the directory, `MUSTER_CRASH_CLOCK` names the library that sets the
//! server's clock where there is no C compiler to build it.
//!
//! To run it on another machine, copy this test program and the binary there:
//! `MUSTER_BIN=./muster MUSTER_CRASH_KILLS=300 ./it crash:: --nocapture --test-threads=1`.

pub(crate) mod api;
pub(crate) mod audit;
pub(crate) mod auditor;
pub(crate) mod clock;
pub(crate) mod load;
pub(crate) mod log;
pub(crate) mod ranks;
pub(crate) mod rng;
pub(crate) mod run;
pub(crate) mod site;
pub(crate) mod sleepers;
pub(crate) mod stops;
pub(crate) mod work;
pub(crate) mod writers;

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
