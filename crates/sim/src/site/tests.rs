//! Small sites, made with the engine itself.

use super::*;
use crate::scenario::Scenario;
use muster_engine::{Engine, Policy};
use muster_model::command::{Actor, Command, Observed, Request};
use muster_model::ids::JobId;
use muster_model::job::SlotEnd;
use muster_model::names::NodeName;
use muster_model::spec::{JobSpec, Priority, Simulate};
use muster_model::tenant::{Role, TokenUse};
use muster_simnode::{SimConfig, SimNode, Sku};
use std::sync::Arc;

/// A site with a clock in the hand.
struct TestSite {
    engine: Engine,
    now: Time,
    log: Vec<Record>,
}

fn node(i: usize) -> NodeName {
    format!("n{i:02}").parse().unwrap()
}

impl TestSite {
    fn new(nodes: usize) -> TestSite {
        let engine = Engine::new(State::default(), Policy::default());
        let mut w = TestSite { engine, now: Time(1_000_000_000), log: Vec::new() };
        w.ok("system", Command::CreateSite { site: "test".into() });
        w.ok(
            "system",
            Command::CreateToken {
                id: "t".into(),
                name: "join".parse().unwrap(),
                hash: String::new(),
                usage: TokenUse::Join { uses_left: None },
                ttl: None,
            },
        );
        let project = |name: &str| Command::CreateProject {
            name: name.parse().unwrap(),
            description: String::new(),
        };
        w.ok("system", project("default"));
        w.ok("system", project("nlp"));
        for i in 0..nodes {
            let sim = SimNode::new(1, SimConfig::of(Sku::H100Sxm, 8), node(i).as_str(), w.now);
            let token = "t".into();
            w.ok(
                "system",
                Command::Enroll { node: node(i), machine: format!("m{i}"), token, key: None },
            );
            w.ok(
                "system",
                Command::NodeConnected {
                    node: node(i),
                    machine: format!("m{i}"),
                    boot: "b".into(),
                    address: format!("10.0.0.{i}"),
                    host: format!("h{i}"),
                    inventory: Box::new(sim.inventory()),
                    observed: Vec::new(),
                    ended_ago: Vec::new(),
                    place: String::new(),
                    ahead: false,
                    silent_for: None,
                },
            );
        }
        w
    }

    fn ok(&mut self, who: &str, command: Command) {
        let role = if who.starts_with("user:") { Role::User } else { Role::Admin };
        let actor = Actor { name: who.into(), role, project: None };
        let at = self.now;
        let req = Request { actor, at, key: None, if_version: None, command };
        self.engine.handle(&req).unwrap();
        self.pass(Span(0));
    }

    fn pass(&mut self, span: Span) {
        self.now = self.now + span;
        while self.engine.tick(self.now) {}
        self.log.extend(self.engine.take());
    }

    fn submit(&mut self, user: &str, spec: JobSpec) -> JobId {
        self.ok(&format!("user:{user}"), Command::Submit { spec: Arc::new(spec) });
        *self.engine.state().jobs.last_key_value().unwrap().0
    }

    fn report(&mut self, id: JobId, observed: &Observed) {
        let job = self.engine.state().jobs[&id].clone();
        let key = job.attempt_key().unwrap();
        for s in &job.attempt.as_ref().unwrap().placement.slots {
            let observed = observed.clone();
            self.ok(
                "system",
                Command::SlotReport { node: s.node.clone(), key, observed, ago: None },
            );
        }
    }

    fn site(&self) -> Site {
        Site::from_records(self.log.iter().cloned()).unwrap().at(self.now)
    }
}

fn gang(nodes: u32) -> JobSpec {
    let mut spec = JobSpec::default();
    spec.gang.nodes = Some(nodes);
    spec.gang.gpus_per_node = Some(8);
    spec
}

fn simulated(nodes: u32, run: Span) -> JobSpec {
    JobSpec { simulate: Some(Simulate { run, ..Simulate::default() }), ..gang(nodes) }
}

/// Two nodes; two jobs run since an hour, eight wait.
fn full() -> TestSite {
    let mut w = TestSite::new(2);
    for i in 0..10 {
        let id = w.submit("ann", simulated(1, Span::hours(3)));
        if i < 2 {
            w.report(id, &Observed::Running);
        }
    }
    w.pass(Span::hours(1));
    w
}

#[test]
fn a_log_shows_what_a_twin_needs() {
    let mut w = TestSite::new(3);
    let first = w.submit("ann", gang(2));
    w.pass(Span::secs(4));
    w.report(first, &Observed::Running);
    w.pass(Span::mins(30));
    w.report(first, &Observed::Ended(SlotEnd::Ok));
    let second = w.submit("bob", JobSpec { project: Some("nlp".parse().unwrap()), ..gang(3) });
    w.report(second, &Observed::Running);
    let third = w.submit("ann", JobSpec { time_limit: Some(Span::hours(1)), ..gang(2) });
    w.pass(Span::hours(2));
    let last_seen = w.now;
    w.ok("system", Command::NodeLost { node: node(2), last_seen });
    w.pass(Span::mins(10));

    let site = w.site();
    let came = &site.facts.jobs[&first];
    assert_eq!(came.own_run(), Some(Span::mins(30)));
    assert_eq!((came.width(), came.user.as_str()), (16, "ann"));
    assert_eq!(site.facts.jobs[&third].end, None);
    assert_eq!(site.facts.starts, [Span::secs(4), Span(0)]);
    let seen = site.facts.exposure(site.now);
    assert_eq!(seen.failures, 1);
    let minutes = 3 * 150 + 2 * 10;
    assert_eq!(seen.node_ms / 60_000, minutes, "four seconds more in all");
    // The prior weighs as much as so many failures, and one more was seen in hardly any time.
    let assumed = &site.state.policy.reliability;
    let (prior, weight) = (assumed.failures_per_million_node_days, assumed.weight);
    let want = f64::from(prior) * f64::from(weight + 1) / f64::from(weight);
    let rate = site.failure_rate().0 as f64;
    assert!((rate / want - 1.0).abs() < 0.01, "{rate} {want}");
    assert_eq!(site.arrivals_per_hour(), None, "the log is short");

    let plan = site.plan(&[], None).unwrap();
    assert_eq!(plan.size(), (2, 16), "a node that is lost takes no work");
    assert!(plan.notes.iter().any(|n| n.contains("left out: n02 (")), "{:?}", plan.notes);
    assert!(plan.notes.iter().any(|n| n.contains("too short")), "{:?}", plan.notes);
    let projects = plan.scenario.projects();
    assert_eq!(projects.into_iter().collect::<Vec<_>>(), ["default", "nlp"]);
    assert_eq!(plan.scenario.operations.decide, Span::secs(4));
}

#[test]
fn running_work_goes_on_where_it_is_and_waiting_work_keeps_its_order() {
    let w = full();
    let site = w.site();
    assert_eq!(site.counts(), (2, 8));
    let plan = site.plan(&[], None).unwrap();
    let kinds = machines::Kinds::default();
    let here = draw::Draw::new(&site, &kinds, None).present(1);
    let names: Vec<&str> = here.iter().map(|a| a.spec.name.as_ref().unwrap().as_str()).collect();
    assert_eq!(names, ["r1", "r2", "w3", "w4", "w5", "w6", "w7", "w8", "w9", "w10"]);
    let left = |i: usize| here[i].spec.simulate.as_ref().unwrap().run;
    assert_eq!((left(0), left(2)), (Span::hours(2), Span::hours(3)));
    let life = plan.live(1).unwrap();
    let totals = life.totals;
    assert_eq!((life.never.len(), totals.unstarted, totals.unfinished), (0, 0, 0));
    // Pairs of three hours after the two that are left.
    assert!((totals.queue_s / 3600.0 - 14.0).abs() < 0.2, "{}", totals.queue_s);
    assert!((totals.waits.mean / 3600.0 - 6.5).abs() < 0.2, "{:?}", totals.waits);
    assert_eq!(totals.waits.count, 8);
    // What is counted job by job adds up to what the run says of all.
    let o = &life.outcome;
    assert_eq!((totals.jobs_completed, totals.interruptions), (o.jobs_completed, o.interruptions));
    assert!((totals.goodput - o.goodput).abs() < 1e-12, "{} {}", totals.goodput, o.goodput);
}

#[test]
fn more_nodes_shorten_waits_and_fewer_lengthen_them() {
    let w = full();
    let site = w.site();
    let change = |text: &str| vec![text.parse::<Change>().unwrap()];
    let answer = |text: &str| {
        let changes = change(text);
        let (base, other) = (site.plan(&[], None).unwrap(), site.plan(&changes, None).unwrap());
        let live = |s| SimulatedPair::of(base.live(s).unwrap(), other.live(s).unwrap());
        let pairs: Vec<_> = (1..=4).map(live).collect();
        super::answer(&site, &base, &other, &changes, &pairs)
    };
    let more = answer("nodes=+6");
    let wait = more.metric("wait_mean_s").unwrap();
    assert!(wait.change.mean < -5.0 * 3600.0 && wait.certain, "{wait:?}");
    assert!(more.summary.starts_with("6 more nodes would "), "{}", more.summary);
    assert_eq!((more.base_size, more.changed_size), ([2, 16], [8, 64]));
    // Six of them at once, the others when the two that run are over.
    assert_eq!((more.starts_earlier, more.starts_later, more.starts_same), (8, 0, 0));
    let last = more.starts.iter().find(|s| s.job == "10").unwrap();
    assert!(last.base_s.unwrap() > 10.0 * 3600.0 && last.changed_s.unwrap() < 3.0 * 3600.0);
    let most = |s: &muster_model::whatif::WhatIfStart| s.base_s.unwrap() - s.changed_s.unwrap();
    assert!(more.starts.is_sorted_by(|a, b| most(a) >= most(b)), "{:?}", more.starts);
    assert!(more.limit_base.starts_with("GPUs"), "{}", more.limit_base);
    let fewer = answer("nodes=-1");
    assert!(fewer.metric("wait_mean_s").unwrap().change.mean > 3600.0);
    assert_eq!(fewer.changed_size, [1, 8]);
    assert_eq!(fewer.starts_earlier, 0, "{:?}", fewer.starts);
    assert!(fewer.starts_later > 0 && fewer.starts[0].changed_s > fewer.starts[0].base_s);
    let spare = answer("spares=1");
    assert!(spare.metric("queue_makespan_s").unwrap().change.mean > 3600.0);
    assert!(site.plan(&change("nodes=-2"), None).is_err(), "one must stay");
    assert!(site.plan(&change("spares=2"), None).is_err());
}

#[test]
fn a_job_that_one_side_can_never_run_is_named_first_and_counted_on_neither() {
    let mut w = full();
    let wide = w.submit("ann", simulated(2, Span::hours(3)));
    let site = w.site();
    let ask = Ask { changes: vec!["nodes=-1".parse().unwrap()], ..more_nodes(4) };
    let a = site.ask(&ask, &|| Some(0.0)).unwrap();
    let first = "With 1 fewer node, 1 job that is there now could never run: 11 (job). For all other \
                 jobs it would raise the mean wait of the present queue from ";
    assert!(a.summary.starts_with(first), "{}", a.summary);
    let named: Vec<&str> = a.never_changed.jobs.iter().map(|j| j.job.as_str()).collect();
    assert_eq!((named, a.never_changed.count, a.never_base.count), (vec!["11"], 1, 0));
    assert_eq!((a.starts_never, a.starts_earlier), (1, 0), "{:?}", a.starts);
    assert!(a.starts[0].job == wide.to_string() && a.starts[0].never, "{:?}", a.starts);
    assert!(a.notes.iter().any(|n| n.starts_with("changed: up to 1 job could never run")));
    // The same jobs on both sides: the wide one is in neither mean, and in neither count.
    let (base, other) = (site.plan(&[], None).unwrap(), site.plan(&ask.changes, None).unwrap());
    let (b, c) = (base.live(1).unwrap(), other.live(1).unwrap());
    assert_eq!((b.totals.waits.count, c.totals.waits.count), (9, 8));
    let pair = SimulatedPair::of(b, c);
    assert_eq!((pair.base.totals.waits.count, pair.changed.totals.waits.count), (8, 8));
    assert_eq!(pair.base.totals.jobs_completed, pair.changed.totals.jobs_completed);
}

#[test]
fn a_job_that_can_run_only_with_the_change_is_named_first_too() {
    let mut w = TestSite::new(3);
    let first = w.submit("ann", simulated(1, Span::hours(3)));
    w.report(first, &Observed::Running);
    w.submit("ann", simulated(3, Span::hours(3)));
    w.ok("system", Command::Cordon { node: node(2), reason: "works".into() });
    let site = w.site();
    let ask = Ask { changes: vec!["nodes=+1".parse().unwrap()], ..more_nodes(4) };
    let a = site.ask(&ask, &|| Some(0.0)).unwrap();
    let first = "With 1 more node, 1 job that is there now could run that never can as it is: 2 (job). \
                 For all other jobs it would ";
    assert!(a.summary.starts_with(first), "{}", a.summary);
    assert_eq!((a.never_changed.count, a.never_base.count), (0, 1));
    assert_eq!((a.starts_never, a.starts_earlier), (0, 1), "{:?}", a.starts);
}

/// More nodes, and time for everything.
fn more_nodes(seeds: u64) -> Ask {
    Ask {
        changes: vec!["nodes=+6".parse().unwrap()],
        seeds,
        horizon: None,
        budget_s: 1e9,
        most_nodes: 100,
    }
}

#[test]
fn a_question_is_answered_as_by_its_parts() {
    let w = full();
    let site = w.site();
    let ask = more_nodes(4);
    let (base, other) = (site.plan(&[], None).unwrap(), site.plan(&ask.changes, None).unwrap());
    let live = |s| SimulatedPair::of(base.live(s).unwrap(), other.live(s).unwrap());
    let pairs: Vec<_> = (1..=4).map(live).collect();
    let parts = super::answer(&site, &base, &other, &ask.changes, &pairs);
    assert_eq!(site.ask(&ask, &|| Some(0.0)).unwrap(), parts);
    let few = Ask { most_nodes: 7, ..more_nodes(4) };
    let e = site.ask(&few, &|| Some(0.0)).unwrap_err().to_string();
    assert!(e.contains("8 nodes") && e.contains("at most 7"), "{e}");
}

#[test]
fn a_question_that_is_stopped_has_the_pairs_that_are_complete_or_no_answer() {
    let w = full();
    let site = w.site();
    // How often the clock is looked at decides where in the work a stop falls.
    let looked = std::cell::Cell::new(0u64);
    let stops_after = |most: u64| {
        looked.set(0);
        let clock = || {
            looked.set(looked.get() + 1);
            (looked.get() <= most).then_some(0.0)
        };
        site.ask(&more_nodes(4), &clock)
    };
    assert_eq!(stops_after(u64::MAX).unwrap().seeds, 4);
    let all = looked.get();
    assert!(matches!(stops_after(0), Err(SimError::Stopped)));
    assert!(matches!(stops_after(1), Err(SimError::Stopped)), "before the first pair");
    let late = stops_after(all - 1).unwrap();
    assert_eq!(late.seeds, 3, "the last pair was not complete");
    assert!(late.notes[0].starts_with("3 of 4 pairs: more does not fit into "), "{:?}", late.notes);
    assert_eq!(looked.get(), all, "and nothing was simulated after the stop");
}

#[test]
fn less_time_means_fewer_pairs_and_then_a_shorter_horizon() {
    let short = full().site();
    let long = Site::from_records(day().into_iter()).unwrap();
    let of = |site: &Site, budget_s: f64, horizon: Option<Span>| {
        let ask = Ask { budget_s, horizon, ..more_nodes(8) };
        site.plan(&[], horizon).unwrap().effort(&ask, 1.0, 1)
    };
    let week = Span::hours(7 * 24);
    assert_eq!(of(&long, 1e6, None), Effort { seeds: 8, horizon: week });
    // A day takes a second, so a week takes about ten and a half, and a pair twice that.
    assert_eq!(of(&long, 90.0, None), Effort { seeds: 4, horizon: week });
    let less = of(&long, 10.0, None);
    assert!(less.seeds == 4 && less.horizon < week && less.horizon >= Span::hours(6), "{less:?}");
    // What was asked for stays, and so does what ends by itself.
    assert_eq!(of(&long, 10.0, Some(week)), Effort { seeds: 4, horizon: week });
    assert_eq!(of(&short, 5.0, None), Effort { seeds: 4, horizon: Span::hours(90 * 24) });
    // The answer says why it is less than was asked for.
    let ask = Ask { budget_s: 10.0, ..more_nodes(8) };
    assert_eq!(
        ask.shortfall(3, week, Span::hours(6)).unwrap(),
        "3 of 8 pairs, 6h ahead instead of 1w: more does not fit into 10s; `--budget` allows more \
         time"
    );
    assert_eq!(ask.shortfall(8, week, week), None);
}

#[test]
fn the_same_seed_gives_the_same_life() {
    let mut w = full();
    w.submit("bob", gang(1));
    let site = w.site();
    let plan = site.plan(&["failure_rate=x50".parse().unwrap()], None).unwrap();
    let (a, b, c) = (plan.live(3).unwrap(), plan.live(3).unwrap(), plan.live(4).unwrap());
    assert_eq!(a.outcome, b.outcome);
    assert_ne!(a.outcome.log_digest, c.outcome.log_digest);
    assert!((plan.failures_per_1000_node_days() - 250.0).abs() < 5.0);
}

#[test]
fn other_changes_reach_the_twin() {
    let mut w = full();
    let saves = JobSpec {
        simulate: Some(Simulate {
            run: Span::hours(5),
            checkpoint: Some(Span::hours(1)),
            ..Simulate::default()
        }),
        ..gang(1)
    };
    w.submit("eve", saves);
    let mut picky = gang(1);
    picky.gang.sku = Some("h100-sxm".into());
    w.submit("eve", picky);
    let site = w.site();
    let all: Vec<Change> =
        ["sku=h200-sxm", "policy.backfill.mode=easy", "checkpoint=10m", "nodes=+5:b200-sxm"]
            .iter()
            .map(|t| t.parse().unwrap())
            .collect();
    let plan = site.plan(&all, Some(Span::hours(100))).unwrap();
    let kinds: Vec<Sku> = plan.fleet.machines.iter().map(|m| m.config.sku).collect();
    assert_eq!(kinds.iter().filter(|k| **k == Sku::B200Sxm).count(), 5);
    assert_eq!(kinds.iter().filter(|k| **k == Sku::H200Sxm).count(), 2);
    assert_eq!(plan.scenario.policy.backfill.mode, muster_model::policy::BackfillMode::Easy);
    assert_eq!(plan.horizon(), Span::hours(100));
    let mut renamed = machines::Kinds::of(["h100-sxm"].into_iter());
    renamed.all_are(Sku::H200Sxm);
    let every = Some(Span::mins(10));
    let here = draw::Draw::new(&site, &renamed, every).present(1);
    let of = |name: &str| {
        here.iter().find(|a| a.spec.name.as_ref().is_some_and(|n| n.as_str() == name)).unwrap()
    };
    assert_eq!(of("w11").spec.simulate.as_ref().unwrap().checkpoint, every);
    assert_eq!(of("w10").spec.simulate.as_ref().unwrap().checkpoint, None);
    assert_eq!(of("w12").spec.gang.sku.as_deref(), Some("h200-sxm"));
    assert!(plan.live(1).unwrap().never.is_empty());
}

#[test]
fn jobs_keep_what_they_wait_for() {
    let mut w = full();
    let after = JobSpec { after: vec!["10:ok".into()], ..simulated(1, Span::mins(1)) };
    w.submit("ann", after);
    let site = w.site();
    let kinds = machines::Kinds::default();
    let here = draw::Draw::new(&site, &kinds, None).present(1);
    let last = here.last().unwrap();
    assert_eq!(last.spec.after, ["w10:ok"]);
    let life = site.plan(&[], None).unwrap().live(1).unwrap();
    assert_eq!((life.never.len(), life.totals.unfinished), (0, 0));
}

#[test]
fn a_job_that_was_changed_comes_as_it_is_now() {
    let mut w = full();
    let (job, priority, time_limit) = (JobId(10), Some(Priority::Low), Some(Span::hours(5)));
    w.ok("system", Command::UpdateJob { job, priority, time_limit });
    let site = w.site();
    let kinds = machines::Kinds::default();
    let here = draw::Draw::new(&site, &kinds, None).present(1);
    let mut specs = here.iter().map(|a| &a.spec);
    let spec = specs.find(|s| s.name.as_ref().is_some_and(|n| n.as_str() == "w10")).unwrap();
    assert_eq!((Some(spec.priority), spec.time_limit), (priority, time_limit));
}

/// A day of a small busy site, lived by the twin.
fn day() -> Vec<Record> {
    let text = r#"
        name = "day"
        length = "24h"
        [fleet]
        kind = "hgx"
        nodes = 4
        [failures]
        preset = "rsc1"
        [[workload]]
        kind = "stream"
        name = "mix"
        per_hour = 10
        sizes = [[1, 30], [8, 60], [16, 10]]
        run = { median = "25m", p95 = "2h" }
    "#;
    let s: Scenario = toml::from_str(text).unwrap();
    let mut lines = Vec::new();
    crate::run(&s, std::path::Path::new("."), crate::Options::default(), |l| {
        lines.extend_from_slice(l);
        lines.push(b'\n');
    })
    .unwrap();
    records("day.jsonl", &mut lines.as_slice()).unwrap()
}

#[test]
fn what_came_comes_again_at_the_same_rate() {
    let site = Site::from_records(day().into_iter()).unwrap();
    let rate = site.arrivals_per_hour().unwrap();
    assert!((8.0..12.0).contains(&rate), "{rate}");
    let kinds = machines::Kinds::default();
    let draw = draw::Draw::new(&site, &kinds, None);
    let all: usize = (0..10).map(|seed| draw.coming(seed, Span::hours(48)).len()).sum();
    let drawn = all as f64 / 480.0;
    assert!((drawn - rate).abs() < 0.15 * rate, "{drawn} for {rate}");
    let coming = draw.coming(1, Span::hours(48));
    assert!(coming.is_sorted_by_key(|a| a.at) && coming.iter().all(|a| a.at < Span::hours(48)));
    let plan = site.plan(&[], Some(Span::hours(12))).unwrap();
    let life = plan.live(1).unwrap();
    assert!(plan.goes_on() && life.never.is_empty() && life.outcome.jobs_completed > 40);
}

#[test]
fn a_log_is_lived_again() {
    let log = day();
    let came = log
        .iter()
        .filter(|r| matches!(r.event, muster_model::event::Event::JobSubmitted { .. }))
        .count();
    let (a, history) = replay(log.iter().cloned(), None, 1).unwrap();
    assert_eq!(a.jobs, came as u64);
    assert_eq!(a.jobs_completed, came as u64, "all have time to end");
    assert!(!history.samples.is_empty());
    let policy = muster_model::policy::SitePolicy {
        backfill: muster_model::policy::Backfill {
            mode: muster_model::policy::BackfillMode::Easy,
            ..muster_model::policy::Backfill::default()
        },
        ..muster_model::policy::SitePolicy::default()
    };
    let (b, _) = replay(log.into_iter(), Some(policy), 1).unwrap();
    assert_eq!(b.jobs, a.jobs);
    assert_ne!(a.log_digest, b.log_digest);
}

#[test]
fn a_bad_log_is_refused_with_its_line() {
    let log = TestSite::new(2).log;
    let lines: Vec<String> = log.iter().map(|r| serde_json::to_string(r).unwrap()).collect();
    let why = |lines: &[String]| {
        records("x.jsonl", &mut lines.join("\n").as_bytes())
            .map(|r| r.len())
            .map_err(|e| e.to_string())
    };
    assert_eq!(why(&lines), Ok(lines.len()));
    let mut cut = lines.clone();
    let half = cut[3].len() / 2;
    cut[3].truncate(half);
    let e = why(&cut[..4]).unwrap_err();
    assert!(e.starts_with("x.jsonl, line 4:") && e.contains("truncated"), "{e}");
    let mut gap = lines.clone();
    gap.remove(2);
    let e = why(&gap).unwrap_err();
    assert!(e.contains("line 3: record 4 follows record 2"), "{e}");
    let e = why(&lines[1..]).unwrap_err();
    assert!(e.contains("line 1: the log begins with record 2"), "{e}");
    let mut new = lines.clone();
    new[1] = new[1].replace("token_created", "token_blessed");
    let e = why(&new).unwrap_err();
    assert!(e.contains("line 2") && e.contains("`token_blessed`"), "{e}");
    let mut shape = lines.clone();
    let v = format!("\"v\":{}", muster_model::event::SCHEMA);
    shape[2] = shape[2].replace(&v, "\"v\":99");
    let e = why(&shape).unwrap_err();
    assert!(e.contains("line 3") && e.contains("shape 99"), "{e}");
    let mut other = lines;
    other[4] = "hello".into();
    assert!(why(&other).unwrap_err().contains("line 5: this is no record"));
    assert!(why(&[]).unwrap_err().contains("no record in it"));
}

#[test]
fn an_export_is_read_and_its_end_is_missed() {
    let log = TestSite::new(1).log;
    let mut text = String::from(r#"{"header":{"format":"muster-export-1","first":1,"last":9}}"#);
    text.push('\n');
    for r in &log {
        let body = serde_json::to_string(r).unwrap();
        text += &format!("{{\"entry\":{{\"seq\":{},\"at\":0,\"body\":{body}}}}}\n", r.seq);
    }
    text += "{\"payload\":{\"job\":1,\"base64\":\"\"}}\n";
    let digest = blake3::hash(text.as_bytes()).to_hex();
    let whole = format!("{text}{{\"footer\":{{\"lines\":9,\"digest\":\"{digest}\"}}}}\n");
    let read = |t: &str| records("site.jsonl", &mut t.as_bytes()).map_err(|e| e.to_string());
    assert_eq!(read(&whole).unwrap(), log);
    assert!(read(&text).unwrap_err().contains("truncated"));
    assert!(read(&whole.replace("\"job\":1", "\"job\":2")).unwrap_err().contains("digest"));
    let archived = whole.replace("\"first\":1", "\"first\":70");
    assert!(read(&archived).unwrap_err().contains("archived"));
}

#[test]
fn what_is_not_over_at_the_end_is_a_lower_bound() {
    let site = full().site();
    let ask = Ask { horizon: Some(Span::hours(2)), ..more_nodes(3) };
    let a = site.ask(&ask, &|| Some(0.0)).unwrap();
    let f = a.metric("queue_makespan_s").unwrap();
    assert!(f.base.at_least && f.base.interval.is_none() && !f.certain, "{f:?}");
    assert!(f.change.interval.is_none(), "{f:?}");
    let [base, _, change, interval] = cells(f);
    assert!(base.starts_with("> ") && change == "?" && interval == "?", "{base} {change}");
    assert!(a.summary.contains("not over within 2 h"), "{}", a.summary);
    let whole = site.ask(&more_nodes(3), &|| Some(0.0)).unwrap();
    assert!(whole.metrics.iter().all(|f| !f.certain), "three pairs are too few");
    assert!(
        whole.notes.iter().any(|n| n.starts_with("3 pairs: no difference")),
        "{:?}",
        whole.notes
    );
    assert!(!whole.metric("queue_makespan_s").unwrap().base.at_least, "{}", whole.summary);
}

#[test]
fn nothing_binds_where_nothing_waits() {
    let mut w = TestSite::new(2);
    let id = w.submit("ann", simulated(1, Span::hours(3)));
    w.report(id, &Observed::Running);
    w.pass(Span::hours(1));
    let site = w.site();
    let ask = Ask { horizon: Some(Span::mins(1)), ..more_nodes(2) };
    let a = site.ask(&ask, &|| Some(0.0)).unwrap();
    assert!(a.metric("wait_mean_s").unwrap().base.mean < 0.5);
    assert!(a.limit_base.starts_with("nothing"), "{}", a.limit_base);
}

#[test]
fn jobs_that_are_held_are_left_out_until_they_have_ended() {
    let mut w = full();
    let notes = |w: &TestSite| w.site().ask(&more_nodes(1), &|| Some(0.0)).unwrap().notes;
    let names_one = |notes: &[String]| notes.iter().any(|n| n == "1 held job is left out");
    let job = w.submit("ann", JobSpec { hold: true, ..gang(1) });
    assert!(names_one(&notes(&w)));
    w.ok("user:ann", Command::Cancel { job });
    assert!(!names_one(&notes(&w)));
}

#[test]
fn nodes_under_an_open_breaker_are_left_out_and_named() {
    let mut w = TestSite::new(3);
    let entity = muster_model::entity::Entity::Node(node(1));
    let state = Some(muster_model::breaker::BreakerState::Open);
    w.ok("system", Command::ForceBreaker { entity, state, reason: "works".into() });
    w.ok("system", Command::Cordon { node: node(2), reason: "works".into() });
    let site = w.site();
    let plan = site.plan(&[], None).unwrap();
    assert_eq!(plan.size(), (1, 8));
    let reported = plan.notes.iter().find(|n| n.contains("left out")).unwrap();
    assert!(
        reported.starts_with("2 nodes take no work now and are left out: n01 (breaker "),
        "{reported}"
    );
    assert!(reported.contains("n02 ("), "{reported}");
}

/// A window on a rack of which no node takes work keeps nothing from others, and no answer back.
#[test]
fn a_reservation_of_a_rack_without_a_node_that_takes_work_is_left_out() {
    let mut w = TestSite::new(3);
    let place = |i: usize| muster_model::topology::Location {
        spine: "s".into(),
        leaf: "l".into(),
        rack: if i == 2 { "r2" } else { "r1" }.into(),
        ..muster_model::topology::Location::unplaced(&node(i))
    };
    let topology =
        muster_model::topology::Topology { nodes: (0..3).map(|i| (node(i), place(i))).collect() };
    w.ok("system", Command::SetTopology { topology: Arc::new(topology) });
    let window = serde_json::json!({"name": "fan", "over": {"domain": {"level": "rack", "path": "r2"}},
        "start": w.now, "length": "1h"});
    let window = serde_json::from_value(window).unwrap();
    w.ok("system", Command::SetReservation { reservation: Arc::new(window) });
    assert_eq!(w.site().plan(&[], None).unwrap().scenario.reservations.len(), 1);
    w.ok("system", Command::Cordon { node: node(2), reason: "works".into() });
    let site = w.site();
    let plan = site.plan(&[], None).unwrap();
    assert_eq!(plan.scenario.reservations, []);
    let (s, options) = (&plan.scenario, crate::Options { until_done: true });
    let done = crate::run::run_with(s, &plan.fleet, Vec::new(), options, &|| true, |_, _| ());
    assert!(done.is_ok(), "{:?}", done.err());
}

#[test]
fn a_stop_ends_the_making_of_the_fleet_too() {
    let site = full().site();
    let plan = site.plan(&["nodes=+50".parse().unwrap()], None).unwrap();
    let (looks, made) = (std::cell::Cell::new(0), std::cell::Cell::new(0));
    let goes_on = || {
        looks.set(looks.get() + 1);
        looks.get() <= 10
    };
    let count = |r: &Record, _: &[u8]| {
        let node = matches!(r.event, muster_model::event::Event::NodeEnrolled { .. });
        made.set(made.get() + u32::from(node));
    };
    let (s, fleet, options) = (&plan.scenario, &plan.fleet, crate::Options { until_done: true });
    let done = crate::run::run_with(s, fleet, Vec::new(), options, &goes_on, count);
    assert!(matches!(done, Err(SimError::Stopped)));
    assert_eq!(made.get(), 10, "nodes were made after the stop");
}
