//! What a drill is: a setting, something that goes wrong there, and what must follow from it.

use muster_api::{Inject, Job, Node};
use muster_model::ids::AttemptKey;
use muster_model::remediation::{Action, RemediationStep};
use muster_model::units::Span;
use muster_terminal::fail::Fail;
use std::time::Duration;

/// A drill: what goes wrong, and what has to follow.
#[derive(Debug, Clone)]
pub(crate) struct Drill {
    pub(crate) name: &'static str,
    /// What goes wrong, in a few words.
    pub(crate) about: &'static str,
    pub(crate) set: Setting,
    pub(crate) play: Play,
}

/// Where it is played.
#[derive(Debug, Clone)]
pub(crate) struct Setting {
    /// Simulated nodes.
    pub(crate) nodes: u32,
    /// How fast their clock runs.
    pub(crate) speed: u32,
    /// Jobs that run when it begins.
    pub(crate) jobs: Vec<Work>,
    /// So many of the last nodes are kept as spares.
    pub(crate) spares: u32,
    /// How long detectors watch before it begins.
    pub(crate) warm: Duration,
    /// The first job has written a checkpoint before it begins.
    pub(crate) saved: bool,
    /// A node is lost so long after its last word.
    pub(crate) lost_after: Span,
}

impl Default for Setting {
    fn default() -> Setting {
        Setting {
            nodes: 16,
            speed: 20,
            jobs: Vec::new(),
            spares: 0,
            warm: Duration::from_millis(1500),
            saved: false,
            // So that nobody has to wait for it.
            lost_after: Span::secs(3),
        }
    }
}

/// The drills that need real processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RealDrill {
    ServerLoss,
    RankKilled,
    AgentStopped,
    SlowRank,
    SlowJob,
    LinkSlow,
    /// A bad kernel on a real GPU, which makes the driver log this.
    Xid(u32),
}

/// A job that only pretends to work: it steps and writes checkpoints.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Work {
    pub(crate) nodes: u32,
    /// Exit code, for one that ends by itself after a few seconds.
    pub(crate) fails: Option<u8>,
    /// Tries again after a failure of its own.
    pub(crate) retries: u32,
}

/// How it is played.
#[derive(Debug, Clone)]
pub(crate) enum Play {
    /// Faults are injected into simulated nodes.
    Faults { inject: fn(&Scene) -> Vec<ScheduledEvent>, expect: Expect },
    /// With real processes.
    Real(RealDrill),
}

/// One thing that befalls a node.
#[derive(Debug, Clone)]
pub(crate) struct ScheduledEvent {
    pub(crate) node: String,
    pub(crate) what: SceneEvent,
    /// So long after the one before.
    pub(crate) wait: Duration,
}

/// What befalls it.
#[derive(Debug, Clone)]
pub(crate) enum SceneEvent {
    Fault(Inject),
    /// An operator has it tested.
    Qualify,
    /// The node under the first job's first rank, wherever that is by then, is gone.
    CrashUnderJob,
}

/// A fault at once.
pub(crate) fn immediate_fault(node: &str, fault: Inject) -> ScheduledEvent {
    ScheduledEvent { node: node.to_owned(), what: SceneEvent::Fault(fault), wait: Duration::ZERO }
}

/// What must follow.
#[derive(Debug, Clone)]
pub(crate) struct Expect {
    /// The failure mode of the finding, or of the incident; none where nothing is to be found.
    pub(crate) kind: Option<&'static str>,
    /// What it must be about, as `kind:name`.
    pub(crate) about: fn(&Scene) -> String,
    /// The verdict on the attempt that was hit (`infrastructure`, `application`, ...), or the kind
    /// of thing that is named as the cause (`gpu`, `job`, `leaf`, ...); `none` where nothing is.
    pub(crate) verdict: &'static str,
    pub(crate) remediation: ExpectedRemediation,
    pub(crate) job: ExpectedJobOutcome,
}

/// What must be done about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExpectedRemediation {
    /// Nothing: every node stays in service.
    Untouched,
    /// Nothing is done to a node; those that were hit may be away.
    Watched,
    /// This remediation gets as far as this.
    Reaches(Action, RemediationStep),
    /// The same, and an operator approves it; the node comes back on probation.
    Approved(Action),
    /// The same, and people repair the node and say so; it comes back on probation.
    Repaired(Action),
    /// Remediations are chosen and held: automation has stopped itself.
    Stopped,
}

/// What becomes of the first job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExpectedJobOutcome {
    /// There is none, or what becomes of it does not matter.
    Any,
    /// It goes on as if nothing had happened.
    GoesOn,
    /// A new attempt works.
    Again,
    /// A new attempt works and uses a spare.
    OnSpare,
    /// It is held until somebody looks.
    Held,
}

/// The nodes and jobs that a drill plays with.
#[derive(Debug, Clone)]
pub(crate) struct Scene {
    pub(crate) nodes: Vec<Node>,
    pub(crate) spares: Vec<String>,
    pub(crate) jobs: Vec<Actor>,
}

/// A job that runs.
#[derive(Debug, Clone)]
pub(crate) struct Actor {
    pub(crate) id: String,
    pub(crate) number: u64,
    pub(crate) key: AttemptKey,
    /// Its nodes in rank order, with the first rank there.
    pub(crate) at: Vec<(String, u32)>,
    pub(crate) gpus: u32,
}

impl Actor {
    pub(crate) fn of(job: &Job) -> Result<Actor, Fail> {
        let none = || Fail::failed(format!("job {} does not run", job.id));
        let a = job.attempt.as_ref().ok_or_else(none)?;
        let key: AttemptKey = format!("{}.{}", job.number, a.no).parse().map_err(Fail::failed)?;
        Ok(Actor {
            id: job.id.clone(),
            number: job.number,
            key,
            at: a.slots.iter().map(|s| (s.node.clone(), s.first_rank)).collect(),
            gpus: a.slots.iter().map(|s| u32::try_from(s.gpus.len()).unwrap_or(0)).sum(),
        })
    }
}

impl Scene {
    /// A node of the first job, in rank order; any node where there is no job.
    pub(crate) fn of_job(&self, i: usize) -> &str {
        let at = self.jobs.first().and_then(|j| j.at.get(i)).map(|(n, _)| n.as_str());
        at.unwrap_or_else(|| self.node(i))
    }

    /// Any node.
    pub(crate) fn node(&self, i: usize) -> &str {
        self.nodes.get(i).map_or("", |n| n.name.as_str())
    }

    /// The attempt of the first job.
    pub(crate) fn key(&self) -> AttemptKey {
        let none = AttemptKey { job: muster_model::ids::JobId(0), attempt: 0 };
        self.jobs.first().map_or(none, |j| j.key)
    }

    /// All nodes of the first job.
    pub(crate) fn all_of_job(&self) -> Vec<&str> {
        self.jobs.first().map_or_else(Vec::new, |j| j.at.iter().map(|(n, _)| n.as_str()).collect())
    }

    /// Nodes for which something holds.
    pub(crate) fn nodes_where(&self, so: impl Fn(&Node) -> bool) -> Vec<&str> {
        self.nodes.iter().filter(|n| so(n)).map(|n| n.name.as_str()).collect()
    }
}
