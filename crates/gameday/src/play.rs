//! Plays a drill with faults of simulated nodes: sets the scene, strikes, and watches what
//! follows.

use super::result::{DrillObservation, Outcome};
use super::scene::{
    Actor, Drill, Expect, ExpectedJobOutcome, ExpectedRemediation, Scene, SceneEvent,
    ScheduledEvent, Setting, Work,
};
use muster_api::{
    Finding, FindingsQuery, IncidentsQuery, Inject, Job, MarkRequest, Node, QualifyRequest,
    Remediation, RemediationsQuery,
};
use muster_client::{Client, JobAction, RemediationDecision};
use muster_model::job::JobState;
use muster_model::node::NodeRole;
use muster_model::remediation::RemediationStep;
use muster_model::spec::{CheckpointSpec, GangSpec, JobSpec, OnPartition, Retries, Simulate};
use muster_model::units::{Span, Time};
use muster_terminal::ctx::now;
use muster_terminal::fail::Fail;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// How often one looks.
const EVERY: Duration = Duration::from_millis(100);
/// A drill that shows nothing by then has failed.
const PATIENCE: Duration = Duration::from_secs(240);
/// The same where clocks run as they do: detectors want minutes.
const PATIENCE_LIVE: Duration = Duration::from_secs(15 * 60);
/// So long after all that must happen one still looks for what must not.
const AFTERWARDS: Duration = Duration::from_millis(2500);

/// Plays it on a cluster, which is left as it is.
pub(crate) async fn faults(
    client: &Client,
    drill: &Drill,
    inject: fn(&Scene) -> Vec<ScheduledEvent>,
    expect: &Expect,
    live: bool,
) -> Result<(Outcome, Scene), Fail> {
    let scene = set(client, &drill.set, live).await?;
    tokio::time::sleep(if live { drill.set.warm * 20 } else { drill.set.warm }).await;
    let scene = refresh(client, scene).await?;
    if drill.set.saved {
        saved(client, &scene, if live { PATIENCE_LIVE } else { PATIENCE }).await?;
    }
    let before: BTreeSet<String> = findings(client).await?.into_iter().map(|f| f.id).collect();
    let blows = inject(&scene);
    let began = now();
    let mut watch = Watch {
        client,
        expect,
        scene: &scene,
        struck: blows.iter().map(|b| b.node.clone()).collect(),
        about: (expect.about)(&scene),
        before,
        began,
        sight: DrillObservation::default(),
    };
    let started = Instant::now();
    for b in &blows {
        let until = Instant::now() + b.wait;
        while Instant::now() < until {
            tokio::time::sleep(EVERY.min(until.saturating_duration_since(Instant::now()))).await;
            watch.check_progress().await?;
        }
        let node = strike(client, b, &scene, &watch.struck).await?;
        watch.struck.insert(node);
    }
    let patience = if live { PATIENCE_LIVE } else { PATIENCE };
    while !watch.check_progress().await? && started.elapsed() < patience {
        tokio::time::sleep(EVERY).await;
    }
    let until = Instant::now() + AFTERWARDS;
    while Instant::now() < until {
        watch.check_progress().await?;
        tokio::time::sleep(EVERY).await;
    }
    let outcome = watch.sight.outcome(drill.name, expect);
    Ok((outcome, scene))
}

/// Brings a cluster that others use back to what it was.
pub(crate) async fn clean(client: &Client, scene: &Scene) -> Result<(), Fail> {
    for j in &scene.jobs {
        let _ = client.act(&j.id, JobAction::Cancel).await;
    }
    let automation = client.automation().await?;
    if automation.state == "stopped" && !automation.by_operator {
        client.resume_automation().await?;
    }
    let names: BTreeSet<&str> = scene.nodes.iter().map(|n| n.name.as_str()).collect();
    for name in &names {
        let _ = client.inject(name, &Inject::Repair).await;
    }
    let started = Instant::now();
    loop {
        let all = client.all_nodes(None).await?;
        let away: Vec<&Node> =
            all.iter().filter(|n| names.contains(n.name.as_str()) && n.state != "ready").collect();
        if away.is_empty() {
            // A node that a spare stood in for may be the spare by now.
            for n in &scene.nodes {
                let role = Some(n.role);
                if all.iter().any(|a| a.name == n.name && Some(a.role) != role) {
                    client.mark(&n.name, &MarkRequest { role, hazard: None }).await?;
                }
            }
            return Ok(());
        }
        for n in &away {
            let _ = client.return_node(&n.name, "the drill is over").await;
        }
        if started.elapsed() > PATIENCE_LIVE {
            let names: Vec<&str> = away.iter().map(|n| n.name.as_str()).collect();
            return Err(Fail::failed(format!("not ready again: {}", names.join(", ")))
                .hint("`muster describe node` says why"));
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// Strikes, and says whom.
async fn strike(
    client: &Client,
    b: &ScheduledEvent,
    scene: &Scene,
    struck: &BTreeSet<String>,
) -> Result<String, Fail> {
    match &b.what {
        SceneEvent::Qualify => {
            client.qualify(&b.node, &QualifyRequest::default()).await?;
            Ok(b.node.clone())
        }
        SceneEvent::Fault(fault) => {
            let struck = inject_into(client, &b.node, fault).await?;
            if let Inject::Version { component, version } = fault {
                says(client, &b.node, component, version).await?;
            }
            Ok(struck)
        }
        SceneEvent::CrashUnderJob => {
            let id = scene.jobs.first().map_or("", |j| j.id.as_str());
            let started = Instant::now();
            loop {
                let job = client.job(id).await?;
                if job.held.is_some() {
                    return Ok(String::new());
                }
                // Until it is missed, a node that was struck is still said to work.
                let slots = job.attempt.iter().flat_map(|a| &a.slots);
                let sound = slots.clone().all(|s| !struck.contains(&s.node));
                if let Some(slot) = slots.into_iter().next()
                    && sound
                    && job.state == JobState::Running
                {
                    let crash = Inject::Crash { down: Span::hours(10) };
                    return inject_into(client, &slot.node, &crash).await;
                }
                if started.elapsed() > PATIENCE {
                    return Err(Fail::failed(format!("job {id} did not run again")));
                }
                tokio::time::sleep(EVERY).await;
            }
        }
    }
}

async fn inject_into(client: &Client, node: &str, fault: &Inject) -> Result<String, Fail> {
    let done = client.inject(node, fault).await?;
    if !done.ok {
        return Err(Fail::failed(format!("node {node}: {}", done.message)));
    }
    Ok(node.to_owned())
}

/// Waits until a node says that it has this version.
async fn says(client: &Client, node: &str, component: &str, version: &str) -> Result<(), Fail> {
    let started = Instant::now();
    while client.node(node).await?.inventory.versions.get(component).is_none_or(|v| v != version) {
        if started.elapsed() > PATIENCE {
            return Err(Fail::failed(format!("node {node} does not report {component} {version}")));
        }
        tokio::time::sleep(EVERY).await;
    }
    Ok(())
}

async fn findings(client: &Client) -> Result<Vec<Finding>, Fail> {
    let query = FindingsQuery { limit: Some(1000), ..FindingsQuery::default() };
    Ok(client.findings(&query).await?.items)
}

/// What pretends to work.
fn spec(work: &Work, lost_after: Span) -> JobSpec {
    let run = if work.fails.is_some() { Span::secs(20) } else { Span::hours(10_000) };
    JobSpec {
        name: "drill".parse().ok(),
        gang: GangSpec { nodes: Some(work.nodes), gpus_per_node: Some(8), ..GangSpec::default() },
        simulate: Some(Simulate {
            run,
            step: Some(Span::secs(1)),
            checkpoint: Some(Span::secs(60)),
            exit_code: work.fails.unwrap_or(0),
            idle: false,
            startup: Span::secs(2),
            checkpoint_cost: Span(200),
        }),
        checkpoint: Some(CheckpointSpec {
            dir: "/data/drill".into(),
            grace: Some(Span::secs(5)),
            ..CheckpointSpec::default()
        }),
        // Minutes by default: nobody wants to wait for them here. Where no node is to be missed,
        // no rank gives up because the machine is busy either.
        on_partition: Some(OnPartition::StopAfter(lost_after)),
        retries: Retries { infrastructure: 20, application: work.retries },
        ..JobSpec::default()
    }
}

/// Marks spares, submits the jobs and waits until they step.
async fn set(client: &Client, set: &Setting, live: bool) -> Result<Scene, Fail> {
    let ready = |n: &Node| n.state == "ready" && n.inventory.simulated;
    let started = Instant::now();
    let nodes = loop {
        let mut nodes = client.all_nodes(None).await?;
        let all = nodes.len();
        nodes.retain(ready);
        let enough = nodes.len() >= set.nodes as usize && (live || nodes.len() == all);
        if enough {
            break nodes;
        }
        if live || started.elapsed() > PATIENCE {
            return Err(Fail::failed(format!(
                "{} simulated nodes are ready; the drill needs {}",
                nodes.len(),
                set.nodes
            )));
        }
        tokio::time::sleep(EVERY).await;
    };
    let spares: Vec<String> =
        nodes.iter().rev().take(set.spares as usize).map(|n| n.name.clone()).collect();
    for name in &spares {
        client.mark(name, &MarkRequest { role: Some(NodeRole::Spare), hazard: None }).await?;
    }
    let mut scene = Scene { nodes, spares, jobs: Vec::new() };
    for work in &set.jobs {
        let id = client.submit(&spec(work, set.lost_after)).await?.id().to_owned();
        let started = Instant::now();
        loop {
            let job = client.job(&id).await?;
            // One that ends soon need not be seen at work.
            let stepped = job.progress.is_some() || work.fails.is_some();
            if stepped && let Ok(actor) = Actor::of(&job) {
                scene.jobs.push(actor);
                break;
            }
            if started.elapsed() > PATIENCE {
                let why = job.waiting.unwrap_or_else(|| format!("{:?}", job.state));
                return Err(Fail::failed(format!("job {id} does not start: {why}")));
            }
            tokio::time::sleep(EVERY).await;
        }
    }
    Ok(scene)
}

/// Waits until the first job has written a checkpoint.
async fn saved(client: &Client, scene: &Scene, patience: Duration) -> Result<(), Fail> {
    let id = scene.jobs.first().map_or("", |j| j.id.as_str());
    let started = Instant::now();
    while client.job(id).await?.checkpoint.is_none() {
        if started.elapsed() > patience {
            return Err(Fail::failed(format!("job {id} writes no checkpoint")));
        }
        tokio::time::sleep(EVERY).await;
    }
    Ok(())
}

/// Where the jobs are by now.
async fn refresh(client: &Client, mut scene: Scene) -> Result<Scene, Fail> {
    for j in &mut scene.jobs {
        if let Ok(actor) = Actor::of(&client.job(&j.id).await?) {
            *j = actor;
        }
    }
    Ok(scene)
}

/// Looks at what follows.
struct Watch<'a> {
    client: &'a Client,
    expect: &'a Expect,
    scene: &'a Scene,
    struck: BTreeSet<String>,
    about: String,
    before: BTreeSet<String>,
    began: Time,
    sight: DrillObservation,
}

impl Watch<'_> {
    fn since(&self, at: Time) -> u64 {
        at.since(self.began).0
    }

    /// One look; says whether all that must happen has happened.
    async fn check_progress(&mut self) -> Result<bool, Fail> {
        self.found().await?;
        self.nodes().await?;
        self.remediations().await?;
        self.job().await?;
        Ok(self.sight.complete(self.expect))
    }

    async fn found(&mut self) -> Result<(), Fail> {
        let Some(kind) = self.expect.kind else { return Ok(()) };
        if self.sight.detected_ms.is_none() {
            let all = findings(self.client).await?;
            let own = |f: &&Finding| f.kind == kind && !self.before.contains(&f.id);
            let hit = all.iter().filter(own).find(|f| f.entity.to_string() == self.about);
            if let Some(f) = hit {
                self.sight.detected_ms = Some(self.since(f.opened_at.0));
                self.sight.attributed_to = Some(f.entity.word().to_owned());
            } else if let Some(f) = all.iter().find(own) {
                self.sight.elsewhere = Some(f.entity.to_string());
            }
        }
        if self.sight.detected_ms.is_none() {
            let query = IncidentsQuery { limit: Some(100), ..IncidentsQuery::default() };
            let all = self.client.incidents(&query).await?.items;
            let hit = all.iter().filter(|i| i.opened_at.0 >= self.began && i.kind == kind);
            for i in hit {
                if i.cause.to_string() == self.about {
                    self.sight.detected_ms = Some(self.since(i.opened_at.0));
                    self.sight.attributed_to = Some(i.cause.word().to_owned());
                } else {
                    self.sight.elsewhere = Some(i.cause.to_string());
                }
            }
        }
        Ok(())
    }

    /// Healthy nodes that are taken out of service.
    async fn nodes(&mut self) -> Result<(), Fail> {
        let spared = matches!(
            self.expect.remediation,
            ExpectedRemediation::Untouched | ExpectedRemediation::Stopped
        );
        let taken = ["cordoned", "draining", "drained", "suspect", "quarantined", "repairing"];
        let nodes = self.client.all_nodes(None).await?;
        for n in &nodes {
            // Until automation sees that it is fooled, more nodes get no new work than it may take: they do
            // again with the stop.
            let early = self.expect.remediation == ExpectedRemediation::Stopped
                && !self.sight.stopped
                && n.state == "suspect";
            let out = taken.contains(&n.state.as_str()) && !early;
            if out && (spared || !self.struck.contains(&n.name)) {
                self.sight.drained.insert(n.name.clone());
            }
        }
        if self.expect.remediation == ExpectedRemediation::Stopped {
            let a = self.client.automation().await?;
            self.sight.stopped |= a.state == "stopped" && !a.by_operator;
        }
        Ok(())
    }

    async fn remediations(&mut self) -> Result<(), Fail> {
        let query = RemediationsQuery { limit: Some(200), ..RemediationsQuery::default() };
        let all = self.client.remediations(&query).await?.items;
        let new: Vec<Remediation> = all.into_iter().filter(|r| r.at.0 >= self.began).collect();
        let acts = |r: &&Remediation| {
            r.action.takes_node() && r.taken.iter().any(|t| t.step > RemediationStep::Proposed)
        };
        if let Some(r) = new.iter().rev().find(acts) {
            self.sight.acted = Some(describe_remediation(r));
            self.sight.acted_for = format!("{} on {}", r.kind, r.node);
        }
        let wanted = match self.expect.remediation {
            ExpectedRemediation::Reaches(a, _)
            | ExpectedRemediation::Approved(a)
            | ExpectedRemediation::Repaired(a) => a,
            _ => return Ok(()),
        };
        // A job that is restarted is not the node's business.
        let here = |r: &Remediation| !wanted.takes_node() || self.struck.contains(&r.node);
        let mine = |r: &&Remediation| r.action == wanted && here(r);
        let for_it = |r: &&Remediation| Some(r.kind.as_str()) == self.expect.kind;
        let Some(r) = new.iter().filter(mine).find(for_it).or_else(|| new.iter().find(mine)) else {
            return Ok(());
        };
        self.sight.remediation = Some(describe_remediation(r));
        let reached = |s: RemediationStep| r.step == s || r.taken.iter().any(|t| t.step == s);
        let waits = r.step == RemediationStep::Approval;
        match self.expect.remediation {
            ExpectedRemediation::Reaches(_, s) => self.sight.remediated |= reached(s),
            ExpectedRemediation::Approved(_) => {
                if waits {
                    self.client
                        .decide_remediation(&r.id, RemediationDecision::Approve, "a drill")
                        .await?;
                }
                self.sight.remediated |= reached(RemediationStep::Probation);
            }
            ExpectedRemediation::Repaired(_) => {
                if waits || r.step == RemediationStep::Repairing {
                    inject_into(self.client, &r.node, &Inject::Repair).await?;
                    self.client.repaired(&r.node, "a drill: new part").await?;
                }
                self.sight.remediated |= reached(RemediationStep::Probation);
            }
            ExpectedRemediation::Untouched
            | ExpectedRemediation::Watched
            | ExpectedRemediation::Stopped => {}
        }
        Ok(())
    }

    async fn job(&mut self) -> Result<(), Fail> {
        let Some(actor) = self.scene.jobs.first() else { return Ok(()) };
        let job = self.client.job(&actor.id).await?;
        let s = &mut self.sight;
        if let Some(p) = job.past.iter().find(|p| p.no == actor.key.attempt) {
            s.verdict = Some(format!("{:?}", p.verdict).to_lowercase());
        }
        if let Some(c) = job.checkpoint.as_ref().filter(|c| c.attempt == actor.key.attempt) {
            s.saved_at = Some(c.at.0);
            s.saved_step = c.step.or(s.saved_step);
        }
        s.ended = job.ended_at.is_some();
        s.held = job.held.is_some();
        s.same = job.attempt.as_ref().is_some_and(|a| a.no == actor.key.attempt);
        if s.recovered_ms.is_none()
            && let Some(at) = works_again(&job, actor.key.attempt)
        {
            s.recovered_ms = Some(at.since(self.began).0);
            let from = s.saved_at.map_or(self.began, |t| t.min(at));
            s.lost_gpu_ms = at.since(from).0.saturating_mul(u64::from(actor.gpus));
            let slots = job.attempt.iter().flat_map(|a| &a.slots);
            // Whoever goes on from a checkpoint makes no step that it holds.
            let step = job.progress.as_ref().map(|p| p.step);
            s.anew = s.saved_step.zip(step).is_some_and(|(saved, step)| step < saved);
            s.on_spare = slots.into_iter().any(|slot| self.scene.spares.contains(&slot.node));
        }
        Ok(())
    }
}

/// When a later attempt made a step.
fn works_again(job: &Job, hit: u32) -> Option<Time> {
    let a = job.attempt.as_ref().filter(|a| a.no > hit && job.state == JobState::Running)?;
    let reported = job.recovery.as_ref().filter(|r| r.attempt >= hit).and_then(|r| r.working_at);
    let stepped =
        job.progress.as_ref().map(|p| p.at.0).filter(|t| a.started_at.is_some_and(|s| *t > s.0));
    reported.map(|t| t.0).or(stepped)
}

/// `reboot: pending approval`.
fn describe_remediation(r: &Remediation) -> String {
    format!("{}: {}", r.action.word(), r.step.words())
}

impl ExpectedJobOutcome {
    /// Is the job as it should be?
    pub(crate) fn is_so(self, s: &DrillObservation) -> bool {
        match self {
            ExpectedJobOutcome::Any => true,
            ExpectedJobOutcome::GoesOn => s.same && !s.ended,
            ExpectedJobOutcome::Again => s.recovered_ms.is_some(),
            ExpectedJobOutcome::OnSpare => s.recovered_ms.is_some() && s.on_spare,
            ExpectedJobOutcome::Held => s.held,
        }
    }
}
