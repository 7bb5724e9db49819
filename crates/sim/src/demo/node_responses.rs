//! How the world answers: nodes that are tested, reset and restarted, ranks that die, kernels
//! that write lines. Everything goes through what a real agent would use.

use super::people::{FLEET, HANDS};
use super::script::DemoEvent;
use crate::simulation::Simulation;
use muster_health::faults::{Catalogue, Code, Context, Reader};
use muster_model::command::{Actor, Command, Observed};
use muster_model::event::{Event, Record};
use muster_model::fault::{FaultClass, ObservedFault};
use muster_model::ids::AttemptKey;
use muster_model::job::{Exit, SlotEnd};
use muster_model::remediation::Act;
use muster_model::slo::{Cause, IndicatorCount, Scope, Sli};
use muster_model::tenant::Role;
use muster_model::units::Span;
use muster_simnode::{BOOT_TAKES, Effect, Fault, RESET_TAKES};
use std::sync::Arc;

/// A server declares a node lost after this.
const LOST_AFTER: Span = Span::secs(30);
/// Ranks die so long after the driver's error.
const DIES_AFTER: Span = Span::secs(2);
/// How often the site's own counts are reported.
const COUNTS_EVERY: Span = Span::mins(5);

impl Simulation<'_> {
    /// A beat of the story.
    pub(crate) fn beat(&mut self, i: usize) {
        let Some(beat) = self.script.as_mut().and_then(|s| s.beats.get_mut(i)?.take()) else {
            return;
        };
        match beat {
            DemoEvent::Breaks(kind) => self.breaks(kind),
            DemoEvent::Fault(node, fault) => self.apply_node_fault(node, &fault),
            DemoEvent::Dies(key, node, note) => self.dies(key, node, note),
            DemoEvent::Says(who, command) => self.submit_as(who, command),
            DemoEvent::Submits(who, spec) => {
                let actor = Actor { name: format!("user:{who}"), role: Role::User, project: None };
                if let Err(r) = self.ask(actor, Command::Submit { spec: Arc::new(*spec) }) {
                    self.note_refusal(&r);
                }
            }
            DemoEvent::Found(mut seen) => {
                seen.last_seen = self.now;
                self.submit_command(Command::FindingsSeen { findings: vec![seen] });
            }
            DemoEvent::Tested { node, id, level, began } => {
                let tests = self.script.as_mut().map_or(0, |s| {
                    s.tests += 1;
                    s.tests
                });
                let report = Box::new(self.nodes[node as usize].test(level, tests, began));
                let node = self.name(node).clone();
                self.submit_command(Command::QualificationDone { node, id, report });
            }
            DemoEvent::Reset { id, node, gpu } => {
                let done = self.nodes[node as usize].reset_gpu(gpu, self.now);
                let (ok, message) = match done {
                    Ok(()) => (true, format!("GPU {gpu} was reset")),
                    Err(why) => (false, why),
                };
                self.submit_command(Command::ActDone { id, ok, message });
            }
            DemoEvent::Lost(node, last_seen) => {
                let node = self.name(node).clone();
                self.submit_command(Command::NodeLost { node, last_seen });
            }
            DemoEvent::Back(node) => self.connect_agent(node),
            DemoEvent::Done(id, message) => {
                self.submit_command(Command::ActDone { id, ok: true, message });
            }
            DemoEvent::Repaired(node) => self.repaired(node),
            DemoEvent::FirstStep(key) => {
                if self.gangs.by_key.get(&key).is_some_and(|g| !g.leaving) {
                    self.submit_command(Command::FirstStep { key });
                }
            }
            DemoEvent::Counts => self.counts(),
            DemoEvent::Wave(wave) => self.begin_wave(wave),
            DemoEvent::Update(node) => self.update(node),
            DemoEvent::Regression => self.regression(),
            DemoEvent::OffTheBus => self.off_the_bus(),
        }
    }

    pub(super) fn submit_as(&mut self, who: &str, command: Command) {
        let role = if who == super::people::ON_CALL { Role::Operator } else { Role::Admin };
        let actor = Actor { name: format!("user:{who}"), role, project: None };
        // A word that comes too late is refused, as it is in life.
        let _ = self.ask(actor, command);
    }

    pub(crate) fn first_step_after(&mut self, key: AttemptKey, startup: Span) {
        self.plan(self.now + startup + Span::secs(5), DemoEvent::FirstStep(key));
    }

    /// What the world does about a record, beyond what it does in every scenario.
    pub(crate) fn apply_record(&mut self, r: &Record) {
        let now = self.now;
        let index = |t: &Self, name| t.fleet.by_name.get(name).copied();
        match &r.event {
            Event::QualificationAsked { node, id, level, .. } => {
                let Some(node) = index(self, node) else { return };
                let (id, level) = (*id, *level);
                let took = self.nodes[node as usize].test_length(level);
                self.plan(now + took, DemoEvent::Tested { node, id, level, began: now });
            }
            Event::QualificationEnded { node, report, .. } => {
                let mine = self.script.as_mut().is_some_and(|s| s.updating.remove(node));
                if mine && report.outcome <= muster_model::qualification::Outcome::Passed {
                    let back = Command::Undrain { node: node.clone() };
                    self.plan(now + Span::mins(1), DemoEvent::Says(FLEET, back));
                }
            }
            Event::NodeDrained { node } => {
                let updating = self.script.as_ref().is_some_and(|s| s.updating.contains(node));
                if let Some(ix) = index(self, node).filter(|_| updating) {
                    self.plan(now + Span::mins(2), DemoEvent::Update(ix));
                }
            }
            Event::ActAsked { act } => self.act(act.id, &act.act),
            Event::RemediationStepped { id, step, .. } => self.remediation_stepped(*id, *step),
            Event::AlertOpened { alert } => self.alerted(alert),
            Event::IncidentOpened { incident } => self.incident_opened(incident),
            Event::RunbookStarted { run } => self.follows(run),
            Event::JobHeld { job, decided: true, .. } => self.job_held(*job),
            _ => {}
        }
    }

    fn act(&mut self, id: u64, act: &Act) {
        let now = self.now;
        let node = act.node().and_then(|n| self.fleet.by_name.get(n)).copied();
        match (act, node) {
            (Act::ResetGpu { gpu, .. }, Some(node)) => {
                self.plan(now + RESET_TAKES, DemoEvent::Reset { id, node, gpu: *gpu });
            }
            (Act::Reboot { .. } | Act::PowerCycle { .. }, Some(node)) => {
                self.nodes[node as usize].reboot(now);
                self.plan(now + BOOT_TAKES, DemoEvent::Back(node));
            }
            (Act::Ticket { .. }, _) => {
                let no = self.script.as_mut().map_or(0, |s| {
                    s.tickets += 1;
                    4100 + s.tickets
                });
                self.plan(now + Span::secs(3), DemoEvent::Done(id, format!("DC-{no}")));
            }
            (Act::Page { .. }, _) => {
                self.plan(now + Span::secs(2), DemoEvent::Done(id, "notification queued".into()));
            }
            _ => {}
        }
    }

    /// A node has a fault: its kernel writes lines, its agent reads them, ranks die.
    pub(super) fn apply_node_fault(&mut self, node: u32, fault: &Fault) {
        let now = self.now;
        let effects = self.nodes[node as usize].apply(fault, now);
        for effect in effects {
            match effect {
                Effect::Xid { gpu, code } => {
                    let line = xid_line(&self.nodes[node as usize].pci(gpu), code);
                    self.write_kernel_line(node, &line);
                }
                Effect::Line(line) => self.write_kernel_line(node, &line),
                Effect::Inventory => self.connect_agent(node),
                Effect::Down { until } => {
                    self.plan(now + LOST_AFTER, DemoEvent::Lost(node, now));
                    self.plan(until.max(now + LOST_AFTER + Span::secs(5)), DemoEvent::Back(node));
                }
                _ => {}
            }
        }
    }

    fn write_kernel_line(&mut self, node: u32, line: &str) {
        let now = self.now;
        let sku = self.nodes[node as usize].sku();
        let Some(script) = &mut self.script else { return };
        let catalogue = script.catalogue.clone();
        let reader = script.readers.entry(node).or_insert_with(|| {
            Reader::new(catalogue, Context { driver_major: Some(580), sku, pool: String::new() })
        });
        reader.line(now, line.as_bytes());
        let seen = reader.take(now + Span(1));
        let mut faults = Vec::new();
        for s in seen {
            let bus = s.pci.map(|p| u32::from(p.bus));
            let gpu = bus.and_then(|b| self.nodes[node as usize].gpu_on_bus(b));
            let hit = gpu.and_then(|g| self.holder(node, g));
            let fault = s.into_fault(gpu, hit.map(|h| h.0), hit.map(|h| h.1));
            if fault.class != FaultClass::Notice
                && let Some((key, _)) = hit
                && ends_work(&fault)
            {
                self.plan(now + DIES_AFTER, DemoEvent::Dies(key, node, why(&fault)));
            }
            faults.push(fault);
        }
        if !faults.is_empty() {
            let node = self.name(node).clone();
            self.submit_command(Command::FaultsSeen { node, faults });
        }
    }

    /// Who works on a GPU, and the first rank there.
    fn holder(&self, node: u32, gpu: u32) -> Option<(AttemptKey, u32)> {
        let name = self.name(node);
        self.gangs_on(node, 1).into_iter().find_map(|k| {
            let g = self.gangs.by_key.get(&k)?;
            let slot = g.placement.slots.iter().find(|s| s.node == *name)?;
            slot.gpus.iter().any(|h| h == gpu).then_some((k, slot.first_rank))
        })
    }

    fn dies(&mut self, key: AttemptKey, node: u32, note: String) {
        let name = self.name(node);
        let Some(g) = self.gangs.by_key.get(&key).filter(|g| g.up.is_some() && !g.leaving) else {
            return;
        };
        let slot = g.placement.slots.iter().find(|s| s.node == *name);
        let rank = slot.map_or(0, |s| s.first_rank);
        let exit = Exit { rank, code: Some(1), signal: None, note };
        self.fail_slot(key, node, SlotEnd::Failed { exit });
    }

    /// The agent of a node connects and says everything it sees.
    fn connect_agent(&mut self, node: u32) {
        let seen = self.gangs_on(node, 1);
        let lives = |k: &AttemptKey| {
            let lead = self.gangs.by_key.get(k).map(|g| g.nodes[0]);
            // After a restart nothing is left of what ran there.
            lead.is_some_and(|l| l != node || self.nodes[node as usize].works_on(*k))
        };
        let observed = seen.into_iter().filter(lives).map(|k| (k, Observed::Running)).collect();
        let hello = self.connected(node, observed);
        self.submit_command(hello);
    }

    fn repaired(&mut self, node: u32) {
        let newer = self.nodes[node as usize].inventory().versions.get("driver").cloned();
        self.nodes[node as usize].apply(&Fault::Repair, self.now);
        if newer.as_deref() == Some(super::NEW_DRIVER) {
            self.new_driver(node);
        }
        self.connect_agent(node);
        let note = "part replaced, cables reseated".to_owned();
        let node = self.name(node).clone();
        self.submit_as(HANDS, Command::Repaired { node, note });
    }

    fn begin_wave(&mut self, wave: usize) {
        for node in self.wave(wave) {
            let name = self.name(node).clone();
            if let Some(s) = &mut self.script {
                s.updating.insert(name.clone());
            }
            let reason = format!("driver {}, rack {} of 4", super::NEW_DRIVER, wave + 1);
            self.submit_as(FLEET, Command::Drain { node: name, reason, stop: true });
        }
    }

    /// A drained node is restarted with the new driver, and tested.
    fn update(&mut self, node: u32) {
        self.nodes[node as usize].reboot(self.now);
        self.new_driver(node);
        self.plan(self.now + BOOT_TAKES, DemoEvent::Back(node));
        let level = muster_model::qualification::Level::Quick;
        let qualify = Command::Qualify { node: self.name(node).clone(), level };
        self.plan(self.now + BOOT_TAKES + Span::mins(1), DemoEvent::Says(FLEET, qualify));
    }

    /// What the server counted about itself in the last minutes.
    fn counts(&mut self) {
        let at = self.now.since(self.start);
        let day = crate::arrivals::daytime(at.0 as f64);
        let rough = |mean: f64| (mean * (1.0 + 0.4 * day)) as u64;
        let calls = rough(2_600.0);
        let bad = self.below(40) as u64;
        let nodes = self.engine.state().nodes.len() as u64 * 5;
        let stale = u64::from(self.below(6) == 0);
        let one = |sli, total: u64, bad: u64, cause| IndicatorCount {
            sli,
            scope: Scope::default(),
            good: total.saturating_sub(bad),
            total,
            cause: Some(cause),
            at: None,
        };
        let counts = vec![
            one(Sli::ApiAvailability, calls, u64::from(bad == 0), Cause::Platform),
            one(Sli::ApiLatency { under: Span::secs(1) }, calls, bad / 8, Cause::Slow),
            one(Sli::Admission { under: Span::secs(1) }, rough(9.0), 0, Cause::Slow),
            one(Sli::TelemetryFreshness { under: Span::mins(1) }, nodes, stale, Cause::Slow),
        ];
        self.submit_command(Command::ReportCounts { counts });
        self.plan(self.now + COUNTS_EVERY, DemoEvent::Counts);
    }
}

/// An XID as the driver writes it.
fn xid_line(pci: &str, code: u32) -> String {
    let entry = Code::xid(code).and_then(|c| Catalogue::builtin().entry(c));
    let says = match code {
        79 => "GPU has fallen off the bus.",
        _ => entry.map_or("unknown", |e| e.name),
    };
    format!("NVRM: Xid (PCI:{pci}): {code}, pid='<unknown>', name=<unknown>, {says}")
}

/// What a fault says to whoever asks why a rank died.
fn why(f: &ObservedFault) -> String {
    let name = f.code.strip_prefix("xid-").map_or(f.code.clone(), |n| format!("XID {n}"));
    let gpu = f.gpu.map(|g| format!(" on GPU {g}")).unwrap_or_default();
    let catalogue = Catalogue::builtin();
    let entry = catalogue.code(&f.code).and_then(|c| catalogue.entry(c));
    let what = entry.map(|e| format!(": {}", e.text)).unwrap_or_default();
    format!("{name}{gpu}{what}")
}

/// Whether ranks on its GPU die of it.
fn ends_work(f: &ObservedFault) -> bool {
    matches!(
        f.code.as_str(),
        "xid-31" | "xid-43" | "xid-48" | "xid-74" | "xid-79" | "xid-94" | "xid-95" | "xid-119"
    )
}
