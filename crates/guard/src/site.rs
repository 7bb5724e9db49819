//! The engine with a fleet: records, a submission into the store, a frame of the console.

use crate::{WriteCounts, measured};
use muster_engine::{Engine, Policy, State};
use muster_model::command::{Actor, Answer, Command, Observed, Request};
use muster_model::event::Record;
use muster_model::ids::{AttemptKey, JobId};
use muster_model::job::SlotEnd;
use muster_model::names::NodeName;
use muster_model::resolve;
use muster_model::spec::JobSpec;
use muster_model::tenant::TokenUse;
use muster_model::topology::{Location, Topology};
use muster_model::units::{Span, Time};
use muster_server::console::ConsoleSnapshot;
use muster_simnode::{SimConfig, SimNode};
use muster_store::{Batch, Entry, LeaseAnswer, StoreUrl};
use std::sync::Arc;

/// When the fleet comes to be.
const START: Time = Time(1_767_225_600_000);

struct Site {
    engine: Engine,
    now: Time,
}

/// About 10,000 records: jobs of one node are submitted, placed, run and succeed, 64 at a time.
/// How many jobs is fixed, so that a record more for each is seen as well.
pub(crate) fn records() -> WriteCounts {
    const AT_ONCE: usize = 64;
    const ROUNDS: usize = 27;
    let mut site = Site::new(AT_ONCE);
    let mut written = WriteCounts::default();
    measured(|| {
        for _ in 0..ROUNDS {
            let jobs: Vec<JobId> = (0..AT_ONCE).map(|_| site.submit(whole_node())).collect();
            written.count(&site.settle());
            written.count(&site.report(&jobs, &Observed::Running));
            written.count(&site.report(&jobs, &Observed::Ended(SlotEnd::Ok)));
            site.now = site.now + Span::secs(30);
        }
    });
    written
}

/// The frame of the second in which fifty jobs ended and fifty others began, on 1,000 nodes.
pub(crate) fn console_frame() -> WriteCounts {
    let mut site = Site::new(1000);
    let before: Vec<JobId> = (0..500).map(|_| site.submit(whole_node())).collect();
    site.settle();
    site.report(&before, &Observed::Running);
    let mut picture = ConsoleSnapshot::default();
    picture.frame(site.engine.state(), site.now);
    site.now = site.now + Span::secs(1);
    site.report(&before[..50], &Observed::Ended(SlotEnd::Ok));
    let more: Vec<JobId> = (0..50).map(|_| site.submit(whole_node())).collect();
    site.settle();
    site.report(&more, &Observed::Running);
    let frame = measured(|| picture.frame(site.engine.state(), site.now));
    WriteCounts { records: 0, bytes: frame.len() as u64 }
}

/// A hundred submissions one after the other, each from the body of its request to its commit in
/// SQLite: all that a server does for it but for HTTP and for handing it from thread to thread.
pub(crate) fn submit() -> WriteCounts {
    const SUBMISSIONS: usize = 100;
    let body = br#"{"name": "train", "gang": {"gpus": 1}, "time_limit": "4h",
        "run": {"command": ["python", "train.py", "--config", "a.yaml"], "env": {"A": "1"}}}"#;
    let dir = tempfile::tempdir().expect("a temporary directory");
    let url = StoreUrl::Sqlite(dir.path().join("muster.db"));
    let mut store = muster_store::open(&url).expect("a new store");
    let Ok(LeaseAnswer::Granted(epoch)) = store.acquire_lease("guard", Span::hours(24)) else {
        panic!("nobody else holds the lease of a new store");
    };
    let mut site = Site::empty();
    let mut found = site.settle();
    found.extend(site.join(16));
    let first = Batch { epoch, entries: entries(&found), ..Batch::default() };
    store.append(&first).expect("written");
    let mut written = WriteCounts::default();
    measured(|| {
        for _ in 0..SUBMISSIONS {
            let mut spec: JobSpec = serde_json::from_slice(body).expect("a good spec");
            resolve::resolve(&spec).expect("a good spec");
            let run = std::mem::take(&mut spec.run);
            let job = site.submit(spec);
            let entries = entries(&site.settle());
            written.records += entries.len() as u64;
            written.bytes += entries.iter().map(|e| e.body.len() as u64).sum::<u64>();
            let payload = serde_json::to_vec(&run).expect("it can be written");
            let payloads = vec![(job, payload)];
            let batch =
                Batch { epoch, entries, payloads, secrets: Vec::new(), unneeded: Vec::new() };
            store.append(&batch).expect("written");
        }
    });
    written
}

impl Site {
    /// A site without nodes.
    fn empty() -> Site {
        let mut site =
            Site { engine: Engine::new(State::default(), Policy::default()), now: START };
        site.send(Command::CreateSite { site: "guard".into() });
        site.send(Command::CreateToken {
            id: "t".into(),
            name: "join".parse().expect("a good name"),
            hash: String::new(),
            usage: TokenUse::Join { uses_left: None },
            ttl: None,
        });
        site.send(Command::CreateProject {
            name: "default".parse().expect("a good name"),
            description: String::new(),
        });
        site
    }

    /// A site with so many nodes of 8 GPUs.
    fn new(nodes: usize) -> Site {
        let mut site = Site::empty();
        site.join(nodes);
        site
    }

    fn join(&mut self, nodes: usize) -> Vec<Record> {
        let place = |i: usize| Location {
            region: "r".into(),
            cluster: "c".into(),
            spine: format!("s{}", i / 512),
            leaf: format!("l{}", i / 32),
            rack: format!("k{}", i / 4),
            nvlink: name(i).to_string(),
            feed: format!("f{}", i / 4 % 2),
            rails: Vec::new(),
        };
        let topology = Topology { nodes: (0..nodes).map(|i| (name(i), place(i))).collect() };
        self.send(Command::SetTopology { topology: Arc::new(topology) });
        for i in 0..nodes {
            let (node, machine) = (name(i), format!("m{i}"));
            let device = SimNode::new(1, SimConfig::default(), node.as_str(), self.now);
            let token = "t".into();
            self.send(Command::Enroll {
                node: node.clone(),
                machine: machine.clone(),
                token,
                key: None,
            });
            self.send(Command::NodeConnected {
                node,
                machine,
                boot: "boot".into(),
                address: format!("10.0.{}.{}", i / 250, i % 250),
                host: format!("h{i}"),
                inventory: Box::new(device.inventory()),
                observed: Vec::new(),
                ended_ago: Vec::new(),
                place: String::new(),
                ahead: false,
                silent_for: None,
            });
        }
        self.settle()
    }

    fn send(&mut self, command: Command) -> Answer {
        let (actor, at) = (Actor::system(), self.now);
        let request = Request { actor, at, key: None, if_version: None, command };
        self.engine.handle(&request).expect("nothing here is refused")
    }

    fn submit(&mut self, spec: JobSpec) -> JobId {
        match self.send(Command::Submit { spec: Arc::new(spec) }) {
            Answer::Submitted { first, .. } => first,
            other => panic!("a submission was answered with {other:?}"),
        }
    }

    /// The engine decides until it has nothing more to say.
    fn settle(&mut self) -> Vec<Record> {
        while self.engine.tick(self.now) {}
        self.engine.take()
    }

    /// The nodes of these jobs, one each, all say the same of them.
    fn report(&mut self, jobs: &[JobId], observed: &Observed) -> Vec<Record> {
        let state = self.engine.state();
        let placed = |id: &JobId| -> Option<(NodeName, AttemptKey)> {
            let job = state.jobs.get(id)?;
            let slot = job.attempt.as_ref()?.placement.slots.first()?;
            Some((slot.node.clone(), job.attempt_key()?))
        };
        let all: Vec<_> = jobs.iter().filter_map(placed).collect();
        assert_eq!(all.len(), jobs.len(), "every job has a place");
        for (node, key) in all {
            self.send(Command::SlotReport { node, key, observed: observed.clone(), ago: None });
        }
        self.settle()
    }
}

impl WriteCounts {
    /// As the log keeps them.
    fn count(&mut self, records: &[Record]) {
        self.records += records.len() as u64;
        self.bytes += entries(records).iter().map(|e| e.body.len() as u64).sum::<u64>();
    }
}

fn entries(records: &[Record]) -> Vec<Entry> {
    let entry = |r: &Record| {
        let body = r.to_json().expect("what the engine made can be written");
        Entry { seq: r.seq, at: r.at, body }
    };
    records.iter().map(entry).collect()
}

fn name(i: usize) -> NodeName {
    format!("n{i:05}").parse().expect("made of letters and digits")
}

fn whole_node() -> JobSpec {
    let mut spec = JobSpec::default();
    spec.gang.nodes = Some(1);
    spec.gang.gpus_per_node = Some(8);
    spec
}
