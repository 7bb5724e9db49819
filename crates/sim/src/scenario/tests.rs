//! The list of keys against the types, and single rules of reading.

use super::schema::{Kind, SCENARIO, Table};
use super::*;
use muster_model::policy as p;
use muster_model::quota as q;
use muster_model::remediation as m;
use muster_model::reservation as r;
use muster_model::spec::{Priority, Tier};
use muster_model::units::Time;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

fn delay() -> Delay {
    Delay { median: Span::hours(1), p95: Some(Span::hours(2)) }
}

fn policy() -> p::SitePolicy {
    let watts = || BTreeMap::from([("A".to_owned(), 100_000)]);
    p::SitePolicy {
        power: p::Power {
            feeds: watts(),
            racks: watts(),
            gpu_watts: BTreeMap::from([("gb200".to_owned(), 1200)]),
            ..p::Power::default()
        },
        limits: p::Limits {
            running_jobs_per_user: Some(1),
            gpus_per_user: Some(1),
            queued_jobs_per_user: Some(1),
            queued_jobs_per_project: Some(1),
            queued_jobs: Some(1),
            secrets_per_project: Some(1),
            stored_mib_per_project: Some(1),
            max_time: Some(Span::hours(1)),
        },
        idle: p::Idle { warn_after: Some(Span::hours(1)), end_after: Some(Span::hours(2)) },
        remediations: m::Remediations {
            modes: BTreeMap::from([(m::Action::Reboot, m::Mode::Automatic)]),
            rules: vec![m::Rule {
                kind: Some("ecc-*".into()),
                pool: Some("train".into()),
                sku: Some("gb200".into()),
                steps: vec![m::Action::IsolateGpu, m::Action::Replace],
                mode: Some(m::Mode::Approve),
                leave: Some(m::Leave::Finish),
            }],
            ..m::Remediations::default()
        },
        ..p::SitePolicy::default()
    }
}

fn quotas() -> q::Quotas {
    let limit = q::QuotaLimit {
        sku: Some("gb200".into()),
        tier: Some(Tier::Spot),
        nominal: 8,
        borrow: Some(1),
        lend: Some(1),
    };
    let node = |name: &str, parent: Option<&str>, project: &str| q::Quota {
        name: name.parse().unwrap(),
        parent: parent.map(|p| p.parse().unwrap()),
        shares: 1,
        projects: vec![project.parse().unwrap()],
        gpus: vec![limit.clone()],
        order: q::QueueOrder::Strict,
        max_priority: Some(Priority::High),
    };
    // The root has a parent here so that every key is there; nothing checks the tree.
    q::Quotas { tree: vec![node("a", Some("b"), "p")] }
}

fn reservation(over: r::ReservationTarget) -> Reservation {
    Reservation {
        name: "night".parse().unwrap(),
        projects: vec!["p".parse().unwrap()],
        reason: "because".into(),
        over,
        start: Time(1000),
        length: Span::hours(1),
        every: Some(Span::hours(24)),
        overrun: r::Overrun::Finish,
        lend: true,
    }
}

fn cause(mode: Mode) -> Cause {
    Cause {
        name: "c".into(),
        per_1000_node_days: 1.0,
        mode,
        scope: Scope::Rack,
        repair: Some(delay()),
        precursor: Some(Precursor { share: 0.5, lead: delay(), false_per_1000_node_days: 0.1 }),
    }
}

fn failures() -> Failures {
    let modes = [
        Mode::FailStop,
        Mode::FailSlow(0.5),
        Mode::Corruption,
        Mode::Flap(Span::secs(5)),
        Mode::Software,
    ];
    Failures {
        preset: Some(Preset::DeltaH100),
        scale: Some(1.0),
        causes: modes.map(cause).to_vec(),
        infant: Some(Infant { factor: 2.0, half_life: Span::hours(24) }),
        lemons: Some(Lemons { share: 0.01, factor: 20.0 }),
        jobs: Some(JobHazard { per_1000_node_days: 15.0, up_to_nodes: Some(128) }),
        incidents: vec![Incident {
            at: Span::hours(1),
            name: "i".into(),
            on: vec!["rack01".into()],
            scope: Scope::Rack,
            mode: Mode::FailStop,
            share: Some(0.5),
            repair: Some(delay()),
            rate_factor: Some(2.0),
            lasts: Some(Span::hours(1)),
        }],
        titan: Some("titan.csv".into()),
    }
}

fn workloads() -> Vec<Workload> {
    let owner = Owner {
        project: Some("p".into()),
        users: vec!["u".into()],
        priority: Priority::High,
        tier: Tier::Spot,
    };
    let stream = |name: &str, sizes| {
        Workload::Stream(Stream {
            name: name.into(),
            per_hour: 1.0,
            diurnal: 0.5,
            sizes,
            run: delay(),
            limit_factor: 2.0,
            fails: 0.1,
            data_loading: 0.1,
            saving: Saving::default(),
            owner: owner.clone(),
            from: Span::hours(1),
            until: Some(Span::hours(2)),
        })
    };
    vec![
        Workload::Train(Train {
            name: "t".into(),
            count: 1,
            nodes: 4,
            gpus_per_node: 8,
            run: Span::hours(1),
            at: Span::hours(1),
            apart: Span::hours(1),
            topology: Some("leaf".into()),
            saving: Saving::default(),
            owner: owner.clone(),
            data_loading: 0.1,
            elastic: Some([2, 4]),
        }),
        stream("s", Sizes::default()),
        stream("w", Sizes::Weights(vec![(1, 2), (8, 1)])),
        Workload::Serve(Serve {
            name: "v".into(),
            replicas: 1,
            gpus: 1,
            load: 0.5,
            diurnal: 0.1,
            startup: Span::secs(1),
            owner: owner.clone(),
        }),
        Workload::Trace(TraceLoad {
            format: "swf".into(),
            file: "a.swf".into(),
            jobs: Some(1),
            saving: Saving::default(),
            bad_rows: "stop".into(),
        }),
    ]
}

/// Scenarios in which, together, every key of every table is written.
fn full() -> Vec<Scenario> {
    let sku = || "h100-sxm".to_owned();
    let (file, gpus_per_node) = ("f.csv".to_owned(), 8);
    let target = || Spares::Target { share: 0.99 };
    let fleets = [
        FleetSpec::Hgx { sku: sku(), nodes: 4, gpus_per_node, spares: Spares::Count(1) },
        FleetSpec::Nvl72 { racks: 1, spares: target() },
        FleetSpec::Topology { file: file.clone(), sku: sku(), gpus_per_node, spares: target() },
        FleetSpec::Openb { file },
    ];
    let overs = [
        r::ReservationTarget::Nodes(vec!["n1".parse().unwrap()]),
        r::ReservationTarget::Gpus { count: 1, sku: Some("gb200".into()) },
        r::ReservationTarget::Domain {
            level: muster_model::topology::Level::Rack,
            path: "r".into(),
        },
    ];
    let of = |fleet| Scenario {
        name: "full".into(),
        about: "all of it".into(),
        length: Span::hours(24),
        seed: 7,
        fleet,
        policy: policy(),
        quotas: Some(quotas()),
        reservations: overs.clone().map(reservation).to_vec(),
        operations: Operations { remove_lemons_after: Some(3), ..Operations::default() },
        failures: failures(),
        workload: workloads(),
        expect: BTreeMap::from([("ettr".to_owned(), [0.9, 1.0])]),
    };
    fleets.map(of).to_vec()
}

/// One step from a table to what stands in it.
#[derive(Clone)]
enum Step {
    Key(&'static str),
    Index(usize),
}

fn at<'a>(mut v: &'a mut toml::Value, path: &[Step]) -> &'a mut toml::Value {
    for s in path {
        v = match s {
            Step::Key(k) => &mut v[*k],
            Step::Index(i) => &mut v[*i],
        };
    }
    v
}

/// Given what a value is, where it stands, and of which table it is a key.
type See<'a> = dyn FnMut(&'static Kind, &[Step], Option<&'static Table>) + 'a;

/// Calls `see` with every value that the schema knows.
fn visit(v: &toml::Value, kind: &'static Kind, path: &mut Vec<Step>, see: &mut See<'_>) {
    match kind {
        Kind::Table(t) => visit_table(v, t, None, path, see),
        Kind::Tagged(all) => {
            let word = v["kind"].as_str().unwrap();
            let (_, t) = all.iter().find(|(k, _)| *k == word).unwrap();
            visit_table(v, t, Some("kind"), path, see);
        }
        Kind::List(each) => {
            for (i, item) in v.as_array().unwrap().iter().enumerate() {
                path.push(Step::Index(i));
                visit(item, each, path, see);
                path.pop();
            }
        }
        Kind::Either(_, nested) if v.is_table() => visit(v, nested, path, see),
        Kind::Choice(words, t) => match v.as_str() {
            Some(word) => assert!(words.contains(&word), "{word}"),
            None => {
                let (name, inner) = v.as_table().unwrap().iter().next().unwrap();
                let key = t.keys.iter().find(|k| k.name == name).expect("a known choice");
                path.push(Step::Key(key.name));
                visit(inner, &key.kind, path, see);
                path.pop();
            }
        },
        _ => see(kind, path, None),
    }
}

fn visit_table(
    v: &toml::Value,
    t: &'static Table,
    tag: Option<&'static str>,
    path: &mut Vec<Step>,
    see: &mut See<'_>,
) {
    let written: BTreeSet<&str> = v.as_table().unwrap().keys().map(String::as_str).collect();
    let known: BTreeSet<&str> = t.keys.iter().map(|k| k.name).chain(tag).collect();
    assert_eq!(written, known, "keys of {}", t.what);
    for k in t.keys {
        path.push(Step::Key(k.name));
        see(&k.kind, path, Some(t));
        visit(&v[k.name], &k.kind, path, see);
        path.pop();
    }
}

static ROOT: Kind = Kind::Table(&SCENARIO);

#[test]
fn every_key_of_the_types_is_known_and_no_other() {
    let mut seen = BTreeSet::new();
    for s in full() {
        let value = toml::Value::try_from(&s).unwrap();
        visit(&value, &ROOT, &mut Vec::new(), &mut |_, _, table| {
            seen.extend(table.map(|t| t.what));
        });
    }
    let mut missed = BTreeSet::new();
    unseen(&ROOT, &seen, &mut missed);
    assert!(missed.is_empty(), "{missed:?} were not compared");
}

/// Tables that nothing of `seen` is; those of a choice are compared through what they hold.
fn unseen(kind: &Kind, seen: &BTreeSet<&'static str>, missed: &mut BTreeSet<&'static str>) {
    for t in super::known::tables(kind) {
        if !matches!(kind, Kind::Choice(..)) && !seen.contains(t.what) {
            missed.insert(t.what);
        }
        t.keys.iter().for_each(|k| unseen(&k.kind, seen, missed));
    }
}

#[test]
fn what_is_needed_is_what_the_types_need() {
    for s in full() {
        let value = toml::Value::try_from(&s).unwrap();
        assert_eq!(Scenario::deserialize(value.clone()).unwrap(), s);
        visit(&value, &ROOT, &mut Vec::new(), &mut |_, path, table| {
            let (Some(table), Some((Step::Key(last), above))) = (table, path.split_last()) else {
                return;
            };
            let needed = table.keys.iter().any(|k| k.name == *last && k.needed);
            let mut without = value.clone();
            at(&mut without, above).as_table_mut().unwrap().remove(*last);
            let read = Scenario::deserialize(without);
            assert_eq!(read.is_err(), needed, "{last} in {}", table.what);
        });
    }
}

#[test]
fn words_are_those_of_the_types() {
    for s in full() {
        let value = toml::Value::try_from(&s).unwrap();
        visit(&value, &ROOT, &mut Vec::new(), &mut |kind, path, table| {
            let (Kind::Word(words), Some(table)) = (kind, table) else { return };
            let mut other = value.clone();
            *at(&mut other, path) = toml::Value::String("no-such-word".into());
            let message = Scenario::deserialize(other).unwrap_err().message().to_owned();
            // "unknown variant `no-such-word`, expected one of `a`, `b`", or "expected `a` or `b`".
            let listed: Vec<&str> = message.split('`').skip(3).step_by(2).collect();
            assert_eq!(&listed, words, "{message} in {}", table.what);
        });
    }
}

#[test]
fn a_scenario_survives_its_own_file() {
    for s in full() {
        let text = toml::to_string(&s).unwrap();
        assert_eq!(parse(&text, "full.toml"), Ok(s));
    }
}

#[test]
fn starts_are_written_as_lengths_and_figures_with_dots() {
    let text = "name = 'x'\nlength = '2d'\nfleet = { kind = 'hgx', nodes = 4 }\n\
        [[reservations]]\nname = 'n'\nover = { gpus = { count = 8 } }\nstart = '1d'\nlength = '1h'\n\
        [expect]\nwait_s.p95 = [0, 60]\n\"waterfall.lost\" = [0, 1.5]\n";
    let s = read(text, "x").unwrap();
    assert_eq!(s.reservations[0].start, Time(86_400_000));
    assert_eq!(s.expect["wait_s.p95"], [0.0, 60.0]);
    assert_eq!(s.expect["waterfall.lost"], [0.0, 1.5]);
}

#[test]
fn all_files_are_named() {
    let mut s = full().remove(2);
    for f in files(&mut s) {
        f.insert_str(0, "dir/");
    }
    let named: Vec<&mut String> = files(&mut s).collect();
    assert_eq!(named, ["dir/f.csv", "dir/titan.csv", "dir/a.swf"]);
}
