//! The week behind `muster up --demo`: the production engine simulates seven days in a few seconds,
//! with tenants, faults, a rollout of a driver, and an incident that goes on when the week ends.
//! A real server then continues its log, and real agents its nodes.
//!
//! Nothing is decided here that the site decides. The script says what breaks and what people do;
//! what follows from it (findings, remediations, incidents, alerts) is the engine's.

mod live;
mod node_responses;
mod people;
mod script;

pub use live::{Live, UpcomingJob};
pub use people::ON_CALL;
pub(crate) use script::DemoScript;

use crate::arrivals::{self, FleetSize};
use crate::error::SimError;
use crate::faults::Faults;
use crate::fleet;
use crate::scenario::{self, Scenario};
use crate::simulation::{Hosted, Setting, Simulation};
use muster_model::event::Record;
use muster_model::ids::Seq;
use muster_model::names::NodeName;
use muster_model::spec::JobSpec;
use muster_model::topology::Topology;
use muster_model::units::{Span, Time};
use muster_simnode::{NodeHistory, Ongoing};
use std::collections::BTreeMap;
use std::path::Path;

/// How long the past is.
pub const LENGTH: Span = Span::hours(7 * 24);
/// How many nodes the site has.
pub const NODES: u32 = 64;
/// GPUs of a node.
pub const NODE_GPUS: u32 = 8;
/// The kind of GPU.
pub const SKU: &str = "h100-sxm";
/// The driver that is being rolled out.
pub const NEW_DRIVER: &str = "580.105.08";

/// One line of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The record's number.
    pub seq: Seq,
    /// The record's time.
    pub at: Time,
    /// The record as JSON.
    pub body: Vec<u8>,
}

/// A week that was lived.
#[derive(Debug)]
pub struct Week {
    /// All records of the week, oldest first.
    pub log: Vec<Line>,
    /// The location of nodes.
    pub topology: Topology,
    /// What each node has behind it.
    pub past: BTreeMap<NodeName, NodeHistory>,
    /// What the site refused of the story; nothing, if the story is right.
    pub refused: Vec<String>,
}

/// The scenario: who asks for what.
fn site(seed: u64) -> Result<Scenario, SimError> {
    let mut s = scenario::parse(include_str!("week.toml"), "week.toml")?;
    s.seed = seed;
    Ok(s)
}

/// Lives the week that ends at `end`. The same seed gives the same story, whenever it ends. `seen`
/// gets the time of each record as it is made.
///
/// # Errors
/// When the site cannot begin.
pub fn week(
    seed: u64,
    end: Time,
    hosted: Hosted,
    seen: &mut dyn FnMut(Time),
) -> Result<Week, SimError> {
    demo_history(LENGTH, seed, end, hosted, seen)
}

/// Lives the story in another time than a week, which ends at `end`. The roll-out and all that
/// leads to the end come as long before it as in the week; what has its day in the week comes on
/// that day, if there is one.
///
/// # Errors
/// When the site cannot begin.
pub fn demo_history(
    length: Span,
    seed: u64,
    end: Time,
    hosted: Hosted,
    seen: &mut dyn FnMut(Time),
) -> Result<Week, SimError> {
    let mut s = site(seed)?;
    s.length = length;
    let here = Path::new("");
    let fleet = fleet::build(&s, here)?;
    let nodes = u32::try_from(fleet.machines.len()).unwrap_or(u32::MAX);
    let room = FleetSize { node_gpus: NODE_GPUS, nodes: nodes - fleet.spares() };
    let sources = arrivals::sources(&s, room, here)?;
    let faults = Faults::new(&s, &fleet);
    let mut log = Vec::new();
    let mut keep = |r: &Record| {
        seen(r.at);
        if let Ok(body) = r.to_json() {
            log.push(Line { seq: r.seq, at: r.at, body });
        }
    };
    let setting = Setting {
        start: end - s.length,
        hosted,
        until_done: false,
        script: Some(Box::new(DemoScript::new(seed))),
    };
    let (past, refused) = {
        let mut twin = Simulation::new(&s, &fleet, sources, faults, setting, &mut keep, &|| true)?;
        twin.begin_script();
        twin.live();
        (twin.past(), std::mem::take(&mut twin.refused))
    };
    Ok(Week { log, topology: fleet.topology, past, refused })
}

/// What a project is for.
pub(crate) fn about(project: &str) -> &'static str {
    match project {
        "atlas" => "foundation models, most of it bought ahead",
        "birch" => "fine-tuning for customers",
        "cedar" => "sweeps on spot capacity",
        "delta" => "the chat service",
        "elm" => "research",
        _ => "",
    }
}

/// Makes a job of the scenario one that people would submit: where it saves, how often it says
/// something, how often it is tried again.
pub(crate) fn complete_demo_spec(spec: &mut JobSpec) {
    let nodes = spec.gang.nodes.unwrap_or(1);
    let project = spec.project.as_ref().map_or("default", |p| p.as_str()).to_owned();
    let name = spec.name.as_ref().map_or("job", |n| n.as_str()).to_owned();
    spec.retries.infrastructure = spec.retries.infrastructure.min(20);
    spec.retries.application = spec.retries.application.min(5);
    if let Some(c) = &mut spec.checkpoint {
        c.dir = format!("/lustre/{project}/{name}");
    }
    if let Some(w) = &mut spec.simulate {
        w.step = match (project.as_str(), nodes) {
            ("delta", _) => None,
            (_, 0..=1) => Some(Span(1500)),
            (_, 2..=7) => Some(Span(4000)),
            _ => Some(Span(9000)),
        };
    }
}

impl Simulation<'_> {
    /// What each node has behind it: another process takes its life up from here.
    fn past(&self) -> BTreeMap<NodeName, NodeHistory> {
        let life = |n: &muster_simnode::SimNode| NodeHistory {
            boots: n.boots(),
            faults: n.current_faults(),
            ..NodeHistory::default()
        };
        let names = self.fleet.machines.iter().map(|m| m.name.clone());
        let mut all: BTreeMap<NodeName, NodeHistory> =
            names.zip(self.nodes.iter().map(life)).collect();
        for (key, g) in self.gangs.by_key.iter().filter(|(_, g)| g.up.is_some()) {
            let Some(job) = self.engine.state().jobs.get(&key.job) else { continue };
            let Some(mut work) = job.spec.simulate.clone() else { continue };
            work.checkpoint = work.checkpoint.or(g.placement.checkpoint_every);
            let account = self.nodes[g.nodes[0] as usize].account(*key).unwrap_or_default();
            for slot in &g.placement.slots {
                let Some(past) = all.get_mut(&slot.node) else { continue };
                past.work.push(Ongoing {
                    key: *key,
                    work: work.clone(),
                    gpus: slot.gpus.0,
                    rank: slot.first_rank,
                    shares: u32::try_from(g.placement.slots.len()).unwrap_or(u32::MAX),
                    checkpoints: job.spec.checkpoint.as_ref().map(|c| c.dir.clone()),
                    on_partition: job.spec.partition(),
                    done: Span(account.saved.0 + account.unsaved.0),
                });
            }
        }
        all
    }
}
