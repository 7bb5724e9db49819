//! The simulated node as the devices of a body.

use super::{SIM_CAN, Simulated, SimulatedAttempt, Test};
use crate::cgroup::Cgroups;
use crate::clock::wall;
use crate::devices::{ActResult, Devices, Injected, SimulatedAbsence, Start, no_act_of_agents};
use crate::runner::RunnerTools;
use muster_link::messages::{FromAgent, RunDetail, Telemetry};
use muster_model::command::Observed;
use muster_model::fault::ObservedFault;
use muster_model::ids::AttemptKey;
use muster_model::inject::Inject;
use muster_model::job::SlotEnd;
use muster_model::node::Inventory;
use muster_model::qualification::Level;
use muster_model::remediation::Act;
use muster_model::spec::OnPartition;
use muster_model::units::Span;
use muster_simnode::{COLUMNS, RESET_TAKES};
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::Notify;

impl Devices for Simulated {
    fn boot(&self) -> String {
        self.node.boot()
    }

    /// Never notified: all that it has to report is due by its clock.
    fn news(&self) -> Arc<Notify> {
        Arc::default()
    }

    fn runner_tools(&self) -> RunnerTools {
        RunnerTools::simulated()
    }

    fn inventory(&self, cgroups: &Cgroups) -> Inventory {
        let isolation = self.runner_tools().separation().in_inventory(cgroups.isolation());
        let can = SIM_CAN.map(str::to_owned).into();
        Inventory { isolation, can, ..self.node.inventory() }
    }

    fn testing(&self) -> Option<u64> {
        self.test.as_ref().map(|t| t.id)
    }

    fn qualify(&mut self, id: u64, level: Level, now: Instant) {
        if let Some(t) = self.test.as_mut().filter(|t| t.id == id) {
            t.reported = false;
            return;
        }
        self.tests += 1;
        let began = self.clock.at(now);
        self.test =
            Some(Test { id, level, began, report: None, reported: false, progress_reported: None });
    }

    fn qualify_over(&mut self, id: u64) {
        self.test.take_if(|t| t.id == id);
    }

    fn take_faults(&mut self) -> Vec<ObservedFault> {
        self.log.take()
    }

    fn act(
        &mut self,
        id: u64,
        act: &Act,
        now: Instant,
    ) -> Result<Option<SimulatedAbsence>, String> {
        match act {
            Act::ResetGpu { gpu, .. } => {
                self.resets.push((id, *gpu, self.clock.at(now) + RESET_TAKES));
                Ok(None)
            }
            Act::Reboot { .. } | Act::PowerCycle { .. } => Ok(self.reboot(now).away),
            other => Err(no_act_of_agents(other)),
        }
    }

    fn acts_over(&mut self, now: Instant) -> Vec<ActResult> {
        let at = self.clock.at(now);
        let due: Vec<_> = self.resets.extract_if(.., |(_, _, end)| *end <= at).collect();
        let mut over = Vec::new();
        for (id, gpu, _) in due {
            let done = self.node.reset_gpu(gpu, at);
            over.push((id, done.map(|()| format!("GPU {gpu} was reset"))));
        }
        if !over.is_empty() {
            self.gangs_seen = None;
            self.keep();
        }
        over
    }

    fn inject(&mut self, fault: &Inject, now: Instant) -> Injected {
        self.suffer(fault, now)
    }

    /// By the node's own clock.
    fn telemetry(&mut self, now: Instant) -> Option<Telemetry> {
        let at = self.clock.at(now);
        if !self.node.reports(at) {
            return None;
        }
        self.show_load(at);
        let columns = COLUMNS.iter().map(|c| (*c).to_owned()).collect();
        let (gpus, host) = (self.node.telemetry(), self.node.host_metrics());
        Some(Telemetry { at, columns, gpus, host })
    }

    fn start(&mut self, key: AttemptKey, detail: &RunDetail, now: Instant) -> Start {
        let Some(simulate) = &detail.simulate else {
            self.loads.insert(key, detail.slot.gpus.0);
            self.show_load(self.clock.at(now));
            return Start::Run;
        };
        if self.work.contains_key(&key) {
            return Start::Simulated;
        }
        let mut simulate = simulate.clone();
        let chosen = detail.checkpoint.as_ref().and_then(|c| c.interval.as_ref()?.parse().ok());
        simulate.checkpoint = simulate.checkpoint.or(chosen);
        let saved = detail.resume_step.zip(simulate.step);
        let saved = saved.map_or(Span(0), |(step, length)| Span(length.0.saturating_mul(step)));
        self.node.resume(key, &simulate, detail.slot.gpus.0, saved, self.clock.at(now));
        self.gangs_seen = None;
        let shares = u32::try_from(detail.nodes.len()).unwrap_or(u32::MAX);
        let mut share = SimulatedAttempt::new(detail.slot.first_rank, detail.slot.gpus.0, shares);
        share.checkpoints = detail.checkpoint.as_ref().map(|c| c.dir.clone());
        share.on_partition = detail.on_partition;
        self.work.insert(key, share);
        Start::Simulated
    }

    fn turn(&mut self, now: Instant, connected: bool, out: &mut Vec<FromAgent>) {
        let at = self.clock.at(now);
        if self.node.next_wake().is_some_and(|t| t <= at) {
            for event in self.node.advance(at) {
                self.take(event);
            }
        }
        self.read_kernel_log(at);
        self.meet(at);
        self.test_turn(at, now, connected, out);
        if !connected {
            return;
        }
        for (key, w) in &mut self.work {
            if !std::mem::replace(&mut w.running_reported, true) && w.end.is_none() {
                out.push(FromAgent::Report { key: *key, observed: Observed::Running, ago: None });
            }
            let say = |report| FromAgent::Progress { key: *key, rank: w.rank, report };
            let progress_reports = std::mem::take(&mut w.progress_reports);
            if let Some(done) = progress_reports.last() {
                w.done = Some(done.clone());
            }
            if w.speaks {
                out.extend(progress_reports.into_iter().map(say));
            }
            let due = w.step_reported.is_none_or(|t| now.saturating_duration_since(t) >= w.pace);
            if (due || w.end.is_some())
                && let Some(step) = w.step.take()
            {
                w.step_reported = Some(now);
                out.push(say(step));
            }
            if let Some(end) = &w.end
                && !std::mem::replace(&mut w.end_reported, true)
            {
                let observed = Observed::Ended(end.clone());
                out.push(FromAgent::Report { key: *key, observed, ago: None });
            }
        }
    }

    /// The newest checkpoint of each attempt is reported again, before its end.
    fn rewind(&mut self) {
        if let Some(t) = &mut self.test {
            t.reported = false;
        }
        for w in self.work.values_mut() {
            if let Some(done) = w.done.take().filter(|_| w.speaks) {
                if w.progress_reports.is_empty() {
                    w.progress_reports.push(done);
                }
                w.end_reported = false;
            }
        }
    }

    fn away(&self) -> Option<SimulatedAbsence> {
        let left = self.away_until.map(|t| t.since(wall())).filter(|left| left.0 > 0)?;
        Some(SimulatedAbsence { until: Instant::now().checked_add(left.to_std())? })
    }

    fn ranks_ended(&mut self, key: AttemptKey, now: Instant) {
        self.loads.remove(&key);
        self.show_load(self.clock.at(now));
    }

    fn active(&self) -> Vec<AttemptKey> {
        self.work.iter().filter(|(_, w)| w.end.is_none()).map(|(k, _)| *k).collect()
    }

    fn observed(&self) -> Vec<(AttemptKey, Observed)> {
        let seen = self.work.iter().map(|(k, w)| match &w.end {
            // What it has to say of its checkpoint comes first.
            Some(end) if w.progress_reports.is_empty() || !w.speaks => {
                (*k, Observed::Ended(end.clone()))
            }
            _ => (*k, Observed::Running),
        });
        seen.collect()
    }

    fn stop(&mut self, key: AttemptKey, now: Instant) {
        if let Some(event) = self.node.stop(key, self.clock.at(now)) {
            self.take(event);
        }
    }

    fn ask_checkpoint(&mut self, key: AttemptKey, now: Instant) {
        if let Some(event) = self.node.ask_checkpoint(key, self.clock.at(now)) {
            self.take(event);
        }
    }

    fn forget(&mut self, key: AttemptKey) {
        if self.work.get(&key).is_some_and(|w| w.end.is_some()) {
            self.work.remove(&key);
        }
    }

    fn unheard(&mut self, heard: Instant, now: Instant) {
        let silent = now.saturating_duration_since(heard);
        let at = self.clock.at(now);
        for (key, w) in self.work.iter_mut().filter(|(_, w)| w.end.is_none()) {
            if let OnPartition::StopAfter(most) = w.on_partition
                && silent >= most.to_std()
            {
                self.node.stop(*key, at);
                w.end = Some(SlotEnd::no_server(most));
                self.gangs.set_share_needs(*key, w.rank, None);
            }
        }
    }

    fn shortest_lease(&self) -> Option<Span> {
        let here = self.work.values().filter(|w| w.end.is_none());
        let leases = here.filter_map(|w| match w.on_partition {
            OnPartition::StopAfter(most) => Some(most),
            OnPartition::Continue => None,
        });
        leases.min()
    }

    fn due(&self, heard: Instant) -> Option<Instant> {
        let next = self.node.next_wake().map(|t| self.clock.real(t));
        let stops = self.work.values().filter(|w| w.end.is_none());
        let stops = stops.filter_map(|w| match w.on_partition {
            OnPartition::StopAfter(most) => heard.checked_add(most.to_std()),
            OnPartition::Continue => None,
        });
        let unreported =
            self.work.values().any(|w| !w.running_reported || (w.end.is_some() && !w.end_reported));
        let log = self.log.due().map(|t| self.clock.real(t));
        let reset = self.resets.iter().map(|(_, _, end)| self.clock.real(*end)).min();
        let now = (unreported || self.log.waits()).then(Instant::now);
        let due = [next, now, self.test_due(), log, reset].into_iter().flatten();
        stops.chain(due).min()
    }
}
