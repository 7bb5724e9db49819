//! What is read from the log of a site agrees with what the world knows of it: the twin counts
//! useful time where it is made, `metering` sees only the records.

use muster_engine::State;
use muster_metering::{JobHistories, Part, Parts, goodput};
use muster_model::event::Event;
use muster_model::ids::JobId;
use muster_model::units::{Span, Time};
use muster_sim::{Options, run, scenario};
use std::collections::BTreeMap;

/// Figures of all jobs together, read from the log alone.
#[derive(Default)]
struct Read {
    state: State,
    lives: JobHistories,
    gpu: Parts,
    held: u128,
    up: u64,
    interruptions: u32,
    jobs: u64,
}

impl Read {
    fn take(&mut self, line: &[u8]) {
        let r = muster_records::read(line).expect("a record");
        if let Event::JobsForgotten { jobs } = &r.event {
            jobs.iter().for_each(|id| self.count(*id, r.at));
        }
        self.lives.apply(&r);
        self.state.apply(&r).expect("it follows");
    }

    fn count(&mut self, id: JobId, now: Time) {
        let Some(job) = self.state.jobs.get(&id).cloned() else { return };
        let g = goodput(&job, self.lives.get(id), &BTreeMap::new(), now);
        assert_eq!(g.time.total(), u128::from(g.wall.0), "job {id}");
        assert!(g.complete, "job {id}");
        self.gpu.add_all(&g.gpu);
        self.held += g.allocated_gpu;
        self.up += g.up.0;
        // The world counts every failure, whatever it is attributed to.
        let own = g.verdicts.get("application").copied().unwrap_or(0);
        self.interruptions += g.interruptions + own;
        self.jobs += 1;
    }

    fn end(&mut self, now: Time) {
        let left: Vec<JobId> = self.state.jobs.keys().copied().collect();
        left.into_iter().for_each(|id| self.count(id, now));
    }
}

#[allow(clippy::cast_precision_loss, reason = "a share")]
fn share(of: u128, all: u128) -> f64 {
    of as f64 / all as f64
}

/// One gang that trains for ten days and is interrupted now and then. Loading takes no time: the twin
/// reports no steps, and without them a log does not show when the first one was made. Every
/// checkpoint is in the log when it is done: so much is written where nothing else is asked for.
const SCENARIO: &str = r#"
name = "goodput"
about = "A gang that is interrupted now and then."
length = "10d"
seed = 7

[fleet]
kind = "hgx"
sku = "h100-sxm"
nodes = 32
gpus_per_node = 8
spares = 2

[operations]
response = "swap"
detect = "20s"
decide = "1s"

[failures]
preset = "llama3"
scale = 40.0

[[workload]]
kind = "train"
name = "big"
nodes = 24
gpus_per_node = 8

[workload.saving]
every = "20m"
cost = "10s"
startup = "0s"
"#;

#[test]
fn the_log_shows_what_the_world_knows() {
    let s = scenario::read(SCENARIO, "goodput").unwrap_or_else(|e| panic!("{e:?}"));
    let mut read = Read::default();
    let (outcome, _) =
        run(&s, std::path::Path::new("."), Options::default(), |line| read.take(line))
            .expect("it can be simulated");
    read.end(muster_sim::START + Span::hours(10 * 24));
    assert_eq!(read.jobs, outcome.jobs);
    let productive = read.gpu.get(Part::Productive);
    let (good, ettr) = (share(productive, read.held), share(productive, read.gpu.total()));
    let near = |name: &str, mine: f64, theirs: f64, part: f64| {
        let off = (mine - theirs).abs();
        assert!(off <= theirs.abs() * part, "{name}: {mine} from the log, {theirs} in the world");
    };
    assert!(outcome.interruptions >= 5, "something must have happened");
    assert_eq!(u64::from(read.interruptions), outcome.interruptions);
    near("goodput", good, outcome.goodput, 1e-4);
    near("ettr", ettr, outcome.ettr, 1e-4);
    let seconds = |p: Part| share(read.gpu.get(p), 1_000_000);
    near("checkpoints", seconds(Part::Checkpointing), outcome.waterfall.checkpoint, 1e-4);
    let mtbi = share(read.up.into(), 1000) / f64::from(read.interruptions);
    near("mtbi", mtbi, outcome.mtbi_s.expect("there were some"), 1e-3);
    // The world knows when a gang began to stand still; the log, when that was found. What lies
    // between is lost in the log and part of the restart in the world.
    let unseen = f64::from(read.interruptions) * 20.0 * 24.0 * 8.0;
    let lost = seconds(Part::Lost);
    let (least, most) = (outcome.lost_gpu_seconds - 1.0, outcome.lost_gpu_seconds + unseen + 1.0);
    assert!((least..=most).contains(&lost), "{lost} is not within {least} and {most}");
}

/// Short jobs that all fail by themselves, one after the other.
const FAILING: &str = r#"
name = "failing"
about = "Short jobs that fail by themselves."
length = "2h"
seed = 7

[fleet]
kind = "hgx"
sku = "h100-sxm"
nodes = 1
gpus_per_node = 8

[[workload]]
kind = "stream"
name = "short"
per_hour = 120.0
sizes = [[8, 1]]
run = { median = "30s", p95 = "60s" }
fails = 1.0
"#;

#[test]
fn a_failed_job_holds_nothing_while_its_cause_is_looked_for() {
    let s = scenario::read(FAILING, "failing").unwrap_or_else(|e| panic!("{e:?}"));
    let mut read = Read::default();
    let (outcome, _) =
        run(&s, std::path::Path::new("."), Options::default(), |line| read.take(line))
            .expect("it can be simulated");
    read.end(muster_sim::START + Span::hours(2));
    let whole = 8_000 * u128::from(Span::hours(2).0);
    let (mine, theirs) = (share(read.held, whole), outcome.gpu_allocation_ratio);
    assert!(read.jobs > 10 && theirs <= 1.0, "{} jobs, {theirs} allocated", read.jobs);
    assert!((mine - theirs).abs() < 1e-3, "{mine} from the log, {theirs} in the world");
}
