//! What a ticket carries: everything that whoever repairs the node, or takes a part back, asks for.
//! Jobs are named by number only: a ticket may leave the house.

use muster_engine::{State, StoredFault};
use muster_health::modes;
use muster_model::finding::{Finding, Incident};
use muster_model::ids::AttemptKey;
use muster_model::node::{Gpu, Node};
use muster_model::qualification::Qualified;
use muster_model::remediation::{Act, AskedAct, Remediation};
use muster_model::topology::Location;
use muster_model::units::Time;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;

/// Faults that are reported.
const FAULTS: usize = 32;
/// Findings beside the one that the ticket is about.
const OTHERS: usize = 16;
/// Jobs that are named.
const JOBS: usize = 64;

/// A machine as a repair shop wants to know it.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Machine {
    pub(super) name: String,
    machine: String,
    address: String,
    pool: String,
    sku: String,
    location: Option<Location>,
    kernel: String,
    versions: BTreeMap<String, String>,
    stage: String,
    generation: u32,
    gpus: Vec<GpuIdentity>,
}

/// A GPU with what is printed on it.
#[derive(Debug, Clone, Serialize)]
struct GpuIdentity {
    index: u32,
    sku: String,
    uuid: String,
    serial: Option<String>,
    part: Option<String>,
    vbios: Option<String>,
    pci: Option<String>,
    /// It is the one that is meant.
    suspect: bool,
    /// The node does not report it any more.
    gone: bool,
}

/// An attempt that was hit.
#[derive(Debug, Clone, Serialize)]
struct AffectedAttempt {
    job: u64,
    attempt: u32,
}

/// Something that happened.
#[derive(Debug, Clone, Serialize)]
struct Moment {
    at: Time,
    what: String,
}

/// The whole of it.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Bundle {
    /// Number of the act: unique in the site.
    pub(super) act: u64,
    pub(super) site: String,
    title: String,
    at: Time,
    /// What people do about such a thing.
    runbook: Option<&'static str>,
    pub(super) node: Machine,
    remediation: Option<Arc<Remediation>>,
    finding: Option<Arc<Finding>>,
    incident: Option<Arc<Incident>>,
    other_findings: Vec<Arc<Finding>>,
    faults: Vec<Arc<StoredFault>>,
    qualification: Option<Arc<Qualified>>,
    jobs_hit: Vec<AffectedAttempt>,
    timeline: Vec<Moment>,
    /// Of the remediation, which may be forgotten.
    #[serde(skip)]
    part_of: u64,
    /// The life of the log in which it was asked for.
    #[serde(skip)]
    life: u64,
}

/// Gathers it; none when the act is no ticket.
pub(super) fn of(s: &State, asked: &AskedAct) -> Option<Bundle> {
    let Act::Ticket { node, title, remediation: part_of } = &asked.act else { return None };
    let remediation = s.health.remediations.get(part_of).cloned();
    let finding = remediation.as_ref().and_then(|r| s.health.findings.get(&r.finding)).cloned();
    let incident = finding.as_ref().and_then(|f| s.health.incidents.get(&f.incident?)).cloned();
    let about = finding.as_ref().map(|f| f.id);
    let others = s.health.open_on(node).filter(|f| Some(f.id) != about);
    let other_findings: Vec<_> = others.take(OTHERS).cloned().collect();
    let mut faults: Vec<_> = s.faults_of(node).cloned().collect();
    faults.reverse();
    faults.truncate(FAULTS);
    let n = s.nodes.get(node);
    let gpu = remediation.as_ref().and_then(|r| r.gpu);
    let mut out = Bundle {
        act: asked.id,
        site: s.site.clone().unwrap_or_default().to_string(),
        title: title.clone(),
        at: asked.at,
        runbook: remediation.as_ref().and_then(|r| modes::mode(&r.kind)).map(|m| m.runbook),
        node: machine(node.as_str(), n.map(AsRef::as_ref), gpu),
        finding,
        incident,
        other_findings,
        faults,
        qualification: n.and_then(|n| n.qualified.clone()),
        jobs_hit: Vec::new(),
        timeline: Vec::new(),
        remediation,
        part_of: *part_of,
        life: super::life(s, asked.id),
    };
    let held = s.attempts_on(node).filter_map(|j| j.attempt_key());
    out.jobs_hit = out.hit(held);
    out.timeline = out.moments(n.map(AsRef::as_ref));
    Some(out)
}

fn machine(name: &str, n: Option<&Node>, gpu: Option<u32>) -> Machine {
    let board = |g: &Gpu, gone: bool| GpuIdentity {
        index: g.index,
        sku: g.sku.clone(),
        uuid: g.uuid.clone(),
        serial: g.serial.clone(),
        part: g.facts.as_ref().and_then(|f| f.part.clone()),
        vbios: g.facts.as_ref().and_then(|f| f.vbios.clone()),
        pci: g.pci.clone(),
        suspect: gpu == Some(g.index),
        gone,
    };
    let boards = |n: &Node| {
        let here = n.inventory.gpus.iter().map(|g| board(g, false));
        let mut all: Vec<GpuIdentity> =
            here.chain(n.missing_gpus.iter().map(|g| board(g, true))).collect();
        all.sort_by_key(|b| b.index);
        all
    };
    let text = |f: fn(&Node) -> &str| n.map_or_else(String::new, |n| f(n).to_owned());
    Machine {
        name: name.to_owned(),
        machine: text(|n| &n.machine),
        address: text(|n| &n.address),
        pool: text(Node::pool),
        sku: text(Node::sku),
        location: n.map(|n| n.location.clone()),
        kernel: text(|n| &n.inventory.kernel),
        versions: n.map(|n| n.inventory.versions.clone()).unwrap_or_default(),
        stage: n.map_or_else(String::new, |n| n.stage_why.clone()),
        generation: n.map_or(0, |n| n.generation),
        gpus: n.map(boards).unwrap_or_default(),
    }
}

impl Bundle {
    /// The life of the log in which it was asked for.
    pub(super) fn life(&self) -> u64 {
        self.life
    }

    /// Number of the remediation it is part of.
    pub(super) fn remediation_id(&self) -> u64 {
        self.part_of
    }

    fn findings(&self) -> impl Iterator<Item = &Arc<Finding>> {
        self.finding.iter().chain(&self.other_findings)
    }

    fn hit(&self, held: impl Iterator<Item = AttemptKey>) -> Vec<AffectedAttempt> {
        let found = self.findings().filter_map(|f| f.seen.attempt);
        let reported = self.faults.iter().filter_map(|f| f.fault.attempt);
        let all: BTreeSet<AttemptKey> = found.chain(reported).chain(held).collect();
        all.into_iter()
            .take(JOBS)
            .map(|k| AffectedAttempt { job: k.job.0, attempt: k.attempt })
            .collect()
    }

    fn moments(&self, n: Option<&Node>) -> Vec<Moment> {
        let mut out = Vec::new();
        let mut add = |at: Time, what: String| out.push(Moment { at, what });
        for f in &self.faults {
            let gpu = f.fault.gpu.map(|g| format!(" on GPU {g}")).unwrap_or_default();
            let times = if f.fault.count > 1 {
                format!(", {} times", f.fault.count)
            } else {
                String::new()
            };
            add(f.at, format!("fault {}{gpu}{times}", f.fault.code));
        }
        for f in self.findings() {
            let (id, kind, entity) = (f.id, &f.seen.kind, &f.seen.entity);
            add(f.opened_at, format!("finding {id}: {kind} at {entity}"));
            if let Some(c) = &f.closed {
                add(c.at, format!("finding {id} closed: {}", c.why));
            }
        }
        if let Some(r) = &self.remediation {
            for (at, step) in &r.taken {
                add(*at, format!("remediation {} ({}): {}", r.id, r.action.word(), step.words()));
            }
        }
        if let Some(n) = n {
            add(n.stage_since, format!("the node's stage: {}", n.stage_why));
        }
        if let Some(q) = &self.qualification {
            add(q.ended_at, format!("test {} ended: {:?}", q.id, q.report.outcome));
        }
        out.sort_by_key(|m| m.at);
        out
    }

    /// The same for people.
    pub(super) fn markdown(&self) -> String {
        let mut o = String::new();
        let n = &self.node;
        let _ = writeln!(o, "# {}\n", line(&self.title));
        let _ = writeln!(o, "- Site: {}\n- Ticket: {}-{}", self.site, self.part_of, self.act);
        let _ = writeln!(o, "- Opened: {}\n- Node: {} ({})", when(self.at), n.name, n.sku);
        if let Some(l) = &n.location {
            let _ = writeln!(
                o,
                "- Place: {}/{}, rack {}, feed {}",
                l.region, l.cluster, l.rack, l.feed
            );
        }
        let _ = writeln!(o, "- Machine: {}", n.machine);
        if let Some(text) = self.runbook {
            let _ = writeln!(o, "\n## What to do\n\n{text}");
        }
        if let Some(f) = &self.finding {
            let (s, kind) = (&f.seen, &f.seen.kind);
            let _ = writeln!(
                o,
                "\n## Finding {}\n\n{kind} at {}, {}, seen {} times since {}, confidence {}.{} %\n",
                f.id,
                s.entity,
                s.severity.word(),
                s.count,
                when(s.first_seen),
                s.confidence / 10,
                s.confidence % 10,
            );
            for l in &s.evidence {
                let _ = writeln!(o, "- {}", line(l));
            }
        }
        if let Some(i) = &self.incident {
            let _ = writeln!(o, "\nPart of incident {}: {}", i.id, line(&i.summary));
        }
        let _ = writeln!(
            o,
            "\n## GPUs\n\n| GPU | Serial | Part | UUID | PCI | |\n|---|---|---|---|---|---|"
        );
        for g in &n.gpus {
            let or = |t: &Option<String>| t.as_deref().map_or_else(|| "-".into(), cell);
            let _ = writeln!(
                o,
                "| {} | {} | {} | {} | {} | {} |",
                g.index,
                or(&g.serial),
                or(&g.part),
                cell(&g.uuid),
                or(&g.pci),
                match (g.suspect, g.gone) {
                    (true, true) => "this one; it does not answer",
                    (true, false) => "this one",
                    (false, true) => "does not answer",
                    (false, false) => "",
                }
            );
        }
        self.rest(&mut o);
        o
    }

    fn rest(&self, o: &mut String) {
        if let Some(q) = &self.qualification {
            let r = &q.report;
            let why = r.first_failure().map(|w| format!(": {}", line(&w))).unwrap_or_default();
            let (word, at) = (r.outcome.word(), when(q.ended_at));
            let _ = writeln!(o, "\n## Last test\n\n{word} at {at}{why}\n");
            for c in r.checks.iter().filter(|c| !c.note.is_empty()) {
                let gpu = c.gpu.map(|g| format!(" of GPU {g}")).unwrap_or_default();
                let _ = writeln!(o, "- {}{gpu}: {:?}, {}", line(&c.name), c.outcome, line(&c.note));
            }
        }
        if !self.faults.is_empty() {
            let _ = writeln!(o, "\n## Last faults\n");
            for f in &self.faults {
                let _ = writeln!(o, "- {} {}: {}", when(f.at), f.fault.code, line(&f.fault.text));
            }
        }
        if !self.jobs_hit.is_empty() {
            let jobs: Vec<_> = self
                .jobs_hit
                .iter()
                .map(|h| format!("{} (attempt {})", h.job, h.attempt))
                .collect();
            let _ = writeln!(o, "\n## Jobs affected\n\n{}", jobs.join(", "));
        }
        let _ = writeln!(o, "\n## What happened\n");
        for m in &self.timeline {
            let _ = writeln!(o, "- {} {}", when(m.at), line(&m.what));
        }
    }
}

fn when(t: Time) -> String {
    jiff::Timestamp::from_millisecond(t.0).map_or_else(|_| t.0.to_string(), |t| t.to_string())
}

/// One line without anything that Markdown or a terminal takes for more than text.
fn line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// A cell of a table.
fn cell(text: &str) -> String {
    line(text).replace('|', "/")
}
