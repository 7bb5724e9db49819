//! A real server over a log, and what every reading endpoint says at one moment of it.

use super::asker::{Asker, id, part};
use super::documents::DocumentAnswers;
use super::events::EventAnswers;
use super::jobs;
use super::lists::ListAnswers;
use bytes::Bytes;
use muster_api::Timestamp;
use muster_health::modes::MODES;
use muster_http::{App, HttpConfig, router};
use muster_link::pki::Authority;
use muster_link::token::{self, ApiToken};
use muster_model::command::Command;
use muster_model::entity::Entity;
use muster_model::event::Record;
use muster_model::finding::ObservedFinding;
use muster_model::ids::Seq;
use muster_model::names::{NodeName, ProjectName};
use muster_model::tenant::{Role, TokenUse};
use muster_model::units::{Span, Time};
use muster_server::agents::{self, Agents, AgentsConfig};
use muster_server::brain::{Brain, BrainConfig};
use muster_server::logs::{LogConfig, LogKeeper};
use muster_simnode::Random;
use muster_store::{Batch, Entry, LeaseAnswer, StoreUrl};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// How long something may take that must come.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);
/// The server decides on while it is asked: then everything is asked again, so often.
const TRIES: u32 = 50;
/// Of jobs that are over, one in so many is asked for alone where there are many.
const ONE_IN: u64 = 4;
/// Open incidents whose records are asked for: each reads a part of the log.
const RECORDS: usize = 2;

/// What was said at one moment.
#[derive(Default)]
pub(super) struct MomentAnswers {
    /// The record that every answer follows from.
    pub(super) seq: u64,
    /// How many answers these are.
    pub(super) answers: u64,
    pub(super) jobs: Vec<Value>,
    /// Of single jobs, by the id that the list has.
    pub(super) described: BTreeMap<String, Value>,
    pub(super) explained: BTreeMap<String, Value>,
    pub(super) reported: BTreeMap<String, Value>,
    /// Jobs in one state only, by the word that was asked for.
    pub(super) jobs_in: BTreeMap<String, Vec<Value>>,
    /// Arrays in short, by their number.
    pub(super) arrays: BTreeMap<String, Value>,
    pub(super) nodes: Vec<Value>,
    pub(super) node: BTreeMap<String, Value>,
    pub(super) health: Value,
    pub(super) findings: Vec<Value>,
    pub(super) incidents: Vec<Value>,
    pub(super) automation: Value,
    pub(super) slos: Vec<Value>,
    pub(super) slo: BTreeMap<String, Value>,
    pub(super) alerts: Vec<Value>,
    pub(super) alert: BTreeMap<String, Value>,
    pub(super) causes: Vec<Value>,
    pub(super) fleet: Value,
    pub(super) server: Value,
    pub(super) metrics: String,
    pub(super) layout: Value,
    /// The first picture of the live map.
    pub(super) live: Bytes,
    /// The picture of this moment, as one that has passed.
    pub(super) past: Bytes,
    pub(super) remediations: Vec<Value>,
    pub(super) breakers: Vec<Value>,
    pub(super) quotas: Value,
    /// This week and this month, each with the report of the fleet over the same time.
    pub(super) periods: Vec<(Value, Value)>,
    pub(super) lists: ListAnswers,
    pub(super) documents: DocumentAnswers,
    pub(super) events: EventAnswers,
    /// Failure modes, and the runbooks that serve them.
    pub(super) modes: Vec<Value>,
    pub(super) runbooks: Vec<Value>,
    /// Of open incidents, by their ids.
    pub(super) records: BTreeMap<String, Value>,
    /// What was asked for, without what comes behind `?`.
    pub(super) paths: BTreeSet<String>,
    /// What was searched for, and what was found.
    pub(super) found: BTreeMap<String, Vec<Value>>,
    /// What one of the projects sees: its name, and the answers that a tenant gets.
    pub(super) tenant: Option<(String, Box<MomentAnswers>)>,
}

/// A server that was stopped.
pub(super) struct Stopped(watch::Receiver<Seq>);

impl Stopped {
    /// Waits until its memory is free again; false when something of it still runs.
    pub(super) fn freed(mut self) -> bool {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        runtime.expect("a runtime").block_on(async move {
            // The other end is a part of what every thread and task of a server holds.
            let freed = async { while self.0.changed().await.is_ok() {} };
            tokio::time::timeout(PATIENCE, freed).await.is_ok()
        })
    }
}

/// Asks a server over this log for everything, and returns the log as it then was, too.
pub(super) fn at(seed: u64, log: &[Record]) -> (Vec<Arc<Record>>, MomentAnswers, Stopped) {
    let dir = tempfile::tempdir().expect("a directory");
    write(dir.path(), log);
    let mut chance = Random::new(seed, &["moment", &log.len().to_string()]);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let out = runtime.block_on(async {
        let mut whose = Random::new(seed, &["tenant", &log.len().to_string()]);
        let site = Site::open(dir.path(), &mut whose).await;
        let stopped = Stopped(site.brain.watch());
        site.trouble(&mut chance).await;
        let (records, said) = site.ask_everything(log[0].at).await;
        site.close().await;
        (records, said, stopped)
    });
    // What still reads the log has nobody left to inform.
    runtime.shutdown_timeout(Duration::from_secs(1));
    out
}

fn file(dir: &Path) -> StoreUrl {
    StoreUrl::Sqlite(dir.join("muster.db"))
}

/// Makes a store with this log.
pub(crate) fn write(dir: &Path, log: &[Record]) {
    let mut store = muster_store::open(&file(dir)).expect("a store");
    let lease = store.acquire_lease("life", Span::mins(10)).expect("a lease");
    let LeaseAnswer::Granted(epoch) = lease else { panic!("a new store is leased") };
    for part in log.chunks(1000) {
        let entry =
            |r: &Record| Entry { seq: r.seq, at: r.at, body: r.to_json().expect("a record") };
        let batch = Batch { epoch, entries: part.iter().map(entry).collect(), ..Batch::default() };
        store.append(&batch).expect("an append");
    }
    store.release_lease(epoch).expect("a lease that ends");
}

/// A server.
pub(crate) struct Site {
    brain: Brain,
    agents: Agents,
    logs: LogKeeper,
    admin: String,
    /// A project of this site, and a token that is bound to it.
    tenant: Option<(String, String)>,
}

/// A token that is in the log.
async fn new_token(brain: &Brain, name: &str, role: Role, project: Option<ProjectName>) -> String {
    let made = ApiToken::generate().expect("a token");
    let command = Command::CreateToken {
        id: made.id.clone(),
        name: name.parse().expect("a name"),
        hash: token::hash(&made.secret),
        usage: TokenUse::Api { role, project },
        ttl: None,
    };
    brain.system(command).await.expect("a token in the log");
    made.to_string()
}

impl Site {
    pub(crate) async fn open(dir: &Path, whose: &mut Random) -> Site {
        let config = BrainConfig {
            store: file(dir),
            holder: "test".into(),
            archive: dir.join("archive"),
            seal_key: dir.join("seal.key"),
            policy: muster_engine::Policy::default(),
            lease: Span::secs(10),
            snapshot_every: 1_000_000,
            retain: 1_000_000,
        };
        let lead = tokio::task::spawn_blocking(move || Brain::lead(&config, |_| {}));
        let brain = lead.await.expect("a thread").expect("a lead");
        let logs = LogKeeper::open(&dir.join("logs"), LogConfig::default(), Arc::new(|_| true))
            .expect("output of jobs");
        let authority = Arc::new(Authority::create_or_load(&dir.join("pki")).expect("keys"));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        // No agent comes: what the log says of them stays so while we ask.
        let link = AgentsConfig {
            names: vec!["127.0.0.1".into()],
            lost_after: Span::hours(1),
            ..AgentsConfig::default()
        };
        let agents =
            agents::serve(listener, brain.clone(), authority, logs.clone(), link).expect("a link");
        let admin = new_token(&brain, "root", Role::Admin, None).await;
        let projects: Vec<ProjectName> = brain.read(|s| s.projects.keys().cloned().collect());
        let tenant = match projects.len() {
            0 => None,
            n => {
                let own = usize::try_from(whose.below(n as u64)).expect("below it");
                let own = projects[own].clone();
                let name = own.to_string();
                Some((name, new_token(&brain, "tenant", Role::User, Some(own)).await))
            }
        };
        Site { brain, agents, logs, admin, tenant }
    }

    pub(crate) async fn close(self) {
        self.agents.stop();
        self.brain.stop();
        self.brain.closed().await;
    }

    /// Lives know lost nodes and failed ranks; unhealthy hardware is reported here.
    async fn trouble(&self, chance: &mut Random) {
        let nodes: Vec<(NodeName, u32)> = self.brain.read(|s| {
            let there = s.nodes.values().filter(|n| n.reachable);
            there.map(|n| (n.name.clone(), n.gpu_set().len())).collect()
        });
        let mut pick = |n: usize| usize::try_from(chance.below(n as u64)).expect("below it");
        for _ in 0..pick(4) {
            let Some((node, gpus)) = nodes.get(pick(nodes.len())) else { break };
            let mode = &MODES[pick(MODES.len())];
            let entity = match *gpus {
                0 => Entity::Node(node.clone()),
                n => Entity::Gpu(node.clone(), u32::try_from(pick(n as usize)).expect("a GPU")),
            };
            let seen = ObservedFinding::new(mode.code, entity, mode.severity, self.brain.now());
            // What the engine takes for senseless is not part of the log.
            let _ = self.brain.system(Command::FindingsSeen { findings: vec![seen] }).await;
        }
        if pick(6) == 0 {
            let reason = "somebody looks at it".into();
            let _ = self.brain.system(Command::StopAutomation { reason }).await;
        }
    }

    /// An administrator.
    fn asker(&self) -> Asker {
        let app = App::new(self.brain.clone(), self.agents.clone(), self.logs.clone(), patient());
        Asker {
            router: router(app),
            token: self.admin.clone(),
            whole: true,
            seqs: BTreeSet::new(),
            answers: 0,
            refused: Vec::new(),
            paths: BTreeSet::new(),
        }
    }

    /// What an administrator is answered.
    pub(crate) async fn get(&self, path: &str) -> Value {
        let mut asker = self.asker();
        let said = asker.json(path).await;
        assert!(asker.refused.is_empty(), "{}", asker.refused.join("\n"));
        said
    }

    /// Until all that is said follows from the same record.
    async fn ask_everything(&self, began: Time) -> (Vec<Arc<Record>>, MomentAnswers) {
        for _ in 0..TRIES {
            // A new one each time: nothing of an earlier try is left in its memory.
            let mut asker = self.asker();
            let before = self.brain.durable();
            let mut said = asker.everything(&self.brain, began).await;
            if let Some((project, token)) = &self.tenant {
                (asker.token, asker.whole) = (token.clone(), false);
                let foreign = said.jobs.iter().find(|j| j["project"] != project.as_str()).map(id);
                let theirs = asker.as_tenant(began, foreign).await;
                said.tenant = Some((project.clone(), Box::new(theirs)));
            }
            let after = self.brain.durable();
            if before != after || asker.seqs.iter().any(|s| *s != before.0) {
                continue;
            }
            let refused = asker.refused;
            assert!(refused.is_empty(), "at record {before}: {}", refused.join("\n"));
            (said.seq, said.answers, said.paths) = (before.0, asker.answers, asker.paths);
            return (self.records(before).await, said);
        }
        panic!("the log did not stand still in {TRIES} tries; it ends at {}", self.brain.durable());
    }

    async fn records(&self, end: Seq) -> Vec<Arc<Record>> {
        let mut all: Vec<Arc<Record>> = Vec::new();
        loop {
            let after = all.last().map_or(Seq(0), |r| r.seq);
            let page = self.brain.records(after, 4096).await.expect("records");
            all.extend(page.into_iter().filter(|r| r.seq <= end));
            if all.last().is_none_or(|r| r.seq <= after || r.seq == end) {
                return all;
            }
        }
    }
}

/// Nobody gives up what must come, and no page is kept.
fn patient() -> HttpConfig {
    let never = Duration::from_secs(3600);
    HttpConfig {
        body_idle: never,
        request_timeout: never,
        min_seq_wait: never,
        keep_alive: never,
        slow_reader: never,
        store_patience: never,
        metrics_every: Duration::ZERO,
        ..HttpConfig::default()
    }
}

impl Asker {
    /// The jobs that are shown, and what is said of each.
    async fn of_jobs(&mut self) -> MomentAnswers {
        let mut said = MomentAnswers {
            jobs: self.list("/v1/jobs?limit=1000").await,
            ..MomentAnswers::default()
        };
        let many = said.jobs.len() > 20;
        for job in &said.jobs {
            let over = !job["ended_at"].is_null();
            if many && over && !job["number"].as_u64().is_some_and(|n| n.is_multiple_of(ONE_IN)) {
                continue;
            }
            let name = id(job);
            let path = format!("/v1/jobs/{name}");
            let mut described = self.json(&path).await;
            let explained = self.json(&format!("{path}/explain")).await;
            // A wait that ends between the two questions is no contradiction.
            let words = |v: &Value| jobs::timeless(v.as_str().unwrap_or_default());
            let waits = !described["waiting"].is_null();
            if waits && words(&described["waiting"]) != words(&explained["summary"]) {
                described = self.json(&path).await;
            }
            said.described.insert(name.clone(), described);
            said.explained.insert(name.clone(), explained);
            said.reported.insert(name, self.json(&format!("{path}/report")).await);
        }
        said
    }

    /// What is found under a name, at most a page of it.
    pub(super) async fn search(&mut self, said: &mut MomentAnswers, name: &str) {
        let page = self.json(&format!("/v1/search?q={}&limit=100", part(name))).await;
        let found = page["items"].as_array().cloned().unwrap_or_default();
        said.found.insert(name.to_owned(), found);
    }

    /// What is said to a token that is bound to a project. `foreign` is a job of another one.
    async fn as_tenant(&mut self, began: Time, foreign: Option<String>) -> MomentAnswers {
        let mut said = self.of_jobs().await;
        said.health = self.json("/v1/health").await;
        said.findings = self.list("/v1/findings?open=true&limit=1000").await;
        said.quotas = self.json("/v1/quotas").await;
        said.modes = self.of("/v1/failure-modes").await;
        said.documents = self.documents_of_tenant().await;
        said.events = self.events_of_tenant().await;
        said.live = self.picture().await;
        self.lists_of_tenant(&mut said).await;
        let from = Timestamp(began).to_string();
        said.fleet = self.json(&format!("/v1/reports/fleet?from={from}")).await;
        said.server = self.json("/v1/server").await;
        let own = said.jobs.first().map(id);
        for name in own.into_iter().chain(foreign) {
            self.search(&mut said, &name).await;
        }
        said
    }

    async fn everything(&mut self, brain: &Brain, began: Time) -> MomentAnswers {
        let mut said = self.of_jobs().await;
        for word in jobs::WORDS {
            let found = self.list(&format!("/v1/jobs?state={word}&limit=1000")).await;
            said.jobs_in.insert(word.to_owned(), found);
        }
        let arrays = said.jobs.iter().filter_map(|j| j["array"]["parent"].as_u64());
        for number in arrays.collect::<BTreeSet<u64>>() {
            let shown = self.json(&format!("/v1/jobs/{number}/array")).await;
            said.arrays.insert(number.to_string(), shown);
        }
        said.nodes = self.list("/v1/nodes?limit=1000").await;
        for node in &said.nodes {
            let name = id(node);
            let shown = self.json(&format!("/v1/nodes/{}", part(&name))).await;
            said.node.insert(name, shown);
        }
        said.health = self.json("/v1/health").await;
        said.findings = self.list("/v1/findings?open=true&limit=1000").await;
        said.incidents = self.list("/v1/incidents?open=true&limit=1000").await;
        said.automation = self.json("/v1/automation").await;
        said.slos = self.json("/v1/slos").await["items"].as_array().cloned().unwrap_or_default();
        for slo in &said.slos {
            let name = id(slo);
            let shown = self.json(&format!("/v1/slos/{}", part(&name))).await;
            said.slo.insert(name, shown);
        }
        said.alerts = self.list("/v1/alerts?limit=1000").await;
        for alert in said.alerts.iter().take(20) {
            let name = id(alert);
            let shown = self.json(&format!("/v1/alerts/{}", part(&name))).await;
            said.alert.insert(name, shown);
        }
        let causes = self.json("/v1/causes").await;
        said.causes = causes["items"].as_array().cloned().unwrap_or_default();
        said.modes = self.of("/v1/failure-modes").await;
        said.runbooks = self.of("/v1/runbooks").await;
        for incident in said.incidents.iter().take(RECORDS).map(id).collect::<Vec<_>>() {
            let record = self.json(&format!("/v1/incidents/{}/record", part(&incident))).await;
            said.records.insert(incident, record);
        }
        said.documents = self.documents().await;
        said.events = self.events(&said.nodes).await;
        self.of_the_site(&mut said).await;
        said.lists = self.lists(&said).await;
        let from = Timestamp(began).to_string();
        said.fleet = self.json(&format!("/v1/reports/fleet?from={from}")).await;
        said.server = self.json("/v1/server").await;
        said.metrics = String::from_utf8_lossy(&self.bytes("/metrics").await).into_owned();
        said.layout = self.json("/v1/console/layout").await;
        said.live = self.picture().await;
        let now = Timestamp(brain.now()).to_string();
        said.past = self.bytes(&format!("/v1/console/past?at={now}")).await;
        said
    }
}
