//! No two answers contradict each other. Random sites are lived (the lives of the simulator's own
//! test), and at random moments a real server over the log of such a life is asked by every reading
//! endpoint, by an administrator and by a tenant. What they say is compared with a fold of the log
//! that shares no code with the engine, and with what the others say at the same moment. A server
//! that was stopped must leave nothing in memory.
//!
//! `MUSTER_TRUTH_SEED=N` looks at one life, `MUSTER_TRUTH_MINUTES=N` at fresh ones for so long (what
//! `cargo xtask soak truth` does). A contradiction prints the seed, the record up to which the log
//! was looked at, and both answers. Each family of comparisons is a file here.

mod asker;
mod documents;
mod endpoints;
mod events;
mod fold;
mod health;
mod indicators;
mod jobs;
mod lists;
mod map;
mod metrics;
pub(crate) mod moment;
mod nodes;
mod quotas;
mod rest;
mod slo;
mod system;
mod tenant;

use fold::Fold;
use moment::MomentAnswers;
use muster_model::event::Record;
use muster_model::units::Span;
use muster_server::brain::clock;
use muster_simnode::Random;
use serde_json::Value;
use std::fmt::Display;
use std::time::{Duration, Instant};

/// Moments of each life at which everything is asked.
const MOMENTS: u64 = 2;

/// Lives in which answers once contradicted each other.
const WRONG_ONCE: [u64; 9] = [
    // `explain` named who may be stopped later where the job itself says why it waits.
    72_004,
    // `explain` said that a job can never start, the list that it waits for room,
    730_000_004,
    740_000_002,
    750_000_039,
    760_000_017,
    // or for what its owner may not have.
    710_000_023,
    // A gang that is resized runs on until it has a checkpoint; its next nodes are kept.
    720_000_007,
    // A start was reserved on a node that became a lemon later, and stayed reserved.
    1_083_000_020,
    // A job that can never start for the power budgets kept its reserved start.
    1_120_283,
];

/// Contradictions of one moment.
#[derive(Default)]
struct Contradictions(Vec<String>);

impl Contradictions {
    /// Both say the same about `what`: who says it, and what they say.
    fn same(&mut self, what: impl Display, one: (&str, Value), other: (&str, Value)) {
        if one.1 != other.1 {
            let (who, says) = one;
            let (whom, too) = other;
            self.0.push(format!("{what}\n    {who} says: {says}\n    {whom} says: {too}"));
        }
    }

    /// What must hold of one answer does.
    fn holds(&mut self, ok: bool, what: impl Display, who: &str, says: &Value) {
        if !ok {
            self.0.push(format!("{what}\n    {who} says: {says}"));
        }
    }
}

/// Every family of comparisons.
fn compare(log: &Fold, said: &MomentAnswers, wrong: &mut Contradictions) {
    jobs::list_and_log(log, said, wrong);
    jobs::list_and_description(said, wrong);
    jobs::parts_of_the_list(said, wrong);
    jobs::state_and_parts(said, wrong);
    jobs::explanation(said, wrong);
    jobs::reserved_starts(said, wrong);
    jobs::never_is_not_for_want_of_room(said, wrong);
    jobs::reports_of_jobs(said, wrong);
    jobs::reports_of_jobs_and_fleet(log, said, wrong);
    nodes::list_and_log(log, said, wrong);
    nodes::list_and_description(log, said, wrong);
    nodes::allocated_gpus(log, said, wrong);
    map::layout_and_nodes(said, wrong);
    map::cells_and_log(log, said, wrong);
    map::live_and_past(said, wrong);
    health::counts(log, said, wrong);
    health::lists_and_log(log, said, wrong);
    health::automation(log, said, wrong);
    health::not_well_while_it_pages(said, wrong);
    health::failure_modes(log, said, wrong);
    health::records_of_incidents(said, wrong);
    slo::alerts_and_log(log, said, wrong);
    slo::objectives_and_alerts(said, wrong);
    slo::lists_and_descriptions(said, wrong);
    slo::affected_jobs(log, said, wrong);
    indicators::counts(log, said, wrong);
    metrics::metrics_and_log(log, said, wrong);
    metrics::metrics_and_lists(log, said, wrong);
    metrics::fleet_report(log, said, wrong);
    metrics::server(log, said, wrong);
    rest::remediations(log, said, wrong);
    rest::breakers(said, wrong);
    rest::periods(log, said, wrong);
    rest::search(said, wrong);
    quotas::tree_and_report(said, wrong);
    quotas::accounts(log, said, wrong);
    quotas::sums(said, wrong);
    documents::as_set(log, said, wrong);
    documents::places(log, said, wrong);
    documents::objectives(said, wrong);
    documents::reservations(log, said, wrong);
    documents::effects_of_reservations(said, wrong);
    documents::defrag(said, wrong);
    events::pages(log, said, wrong);
    events::timelines(log, said, wrong);
    lists::parts_of_lists(said, wrong);
    lists::alone(said, wrong);
    lists::power(said, wrong);
    lists::projects_and_end(log, said, wrong);
    lists::readiness(said, wrong);
    tenant::view(log, said, wrong);
    endpoints::at_every_moment(said, wrong);
}

/// The log of a life, later than everything that this process has seen: the server's clock does not
/// stand before its log, and never goes back.
fn lived(seed: u64) -> Vec<Record> {
    let mut world = system::test_site::TestSite::begun(
        system::acts::SiteScript::of(seed),
        clock() + Span::hours(1),
    );
    if let Some(why) = world.run() {
        panic!("history {seed} itself ends badly: {why}\nlook at it with MUSTER_SIM_SEED={seed}");
    }
    world.log
}

/// Looks at a life at some moments. Returns how many answers were compared.
fn check(seed: u64) -> u64 {
    let log = lived(seed);
    let chance = &mut Random::new(seed, &["truth"]);
    // What is decided at once is written at once: no server begins in the middle of that.
    let may_end = |n: usize| n == log.len() || log[n].at != log[n - 1].at;
    let mut ends: Vec<usize> = (0..MOMENTS)
        .map(|_| 1 + usize::try_from(chance.below(log.len() as u64)).expect("a place in the log"))
        .map(|n| (n..=log.len()).find(|n| may_end(*n)).unwrap_or(log.len()))
        .collect();
    // The clock only goes forwards.
    ends.sort_unstable();
    ends.dedup();
    let (mut asked, mut stopped) = (0, Vec::new());
    for end in ends {
        let (records, said, server) = moment::at(seed, &log[..end]);
        stopped.push(server);
        let mut wrong = Contradictions::default();
        compare(&Fold::of(&records), &said, &mut wrong);
        asked += said.answers;
        let many = wrong.0.len();
        assert!(
            wrong.0.is_empty(),
            "MUSTER_TRUTH_SEED={seed} cargo test -p muster-http --test it truth::\n\
             life {seed}, its first {end} of {} records and what the server added, up to record {}: \
             {many} contradictions\n\n{}",
            log.len(),
            said.seq,
            wrong.0.join("\n\n")
        );
    }
    // The last is not waited for: the others had time to end while it was asked.
    stopped.pop();
    for server in stopped {
        assert!(server.freed(), "history {seed}: a server was stopped and stays in memory");
    }
    asked
}

fn asked(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|v| v.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

#[test]
fn no_answer_contradicts_another_or_the_log() {
    if asked("MUSTER_TRUTH_MINUTES").is_some() {
        return;
    }
    // One after the other: the clock is the process's, and each life takes it further.
    let some = || (0..3).chain(WRONG_ONCE).collect::<Vec<u64>>();
    let seeds = asked("MUSTER_TRUTH_SEED").map_or_else(some, |seed| vec![seed]);
    for seed in seeds {
        check(seed);
    }
}

#[test]
fn fresh_histories_until_time_is_over() {
    let Some(minutes) = asked("MUSTER_TRUTH_MINUTES") else { return };
    let first = asked("MUSTER_TRUTH_SEED").unwrap_or(1_000_000);
    let until = Instant::now() + Duration::from_secs(minutes * 60);
    let (mut lives, mut answers) = (0, 0);
    while Instant::now() < until {
        answers += check(first + lives);
        lives += 1;
    }
    println!("{lives} histories, seeds from {first}: {answers} answers, none contradicts another");
}
