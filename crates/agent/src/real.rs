//! The devices of a real machine, with those who test, watch and measure them.

use crate::cgroup::Cgroups;
use crate::clock::wall;
use crate::devices::{ActResult, Devices, Injected, SimulatedAbsence, Start, no_act_of_agents};
use crate::hooks::{Actor, Hooks};
use crate::inventory::{self, GpuSource, PatientSource};
use crate::process;
use crate::runner::RunnerTools;
use crate::tester::Tester;
use muster_link::messages::{FromAgent, RunDetail, Telemetry};
use muster_model::fault::ObservedFault;
use muster_model::ids::AttemptKey;
use muster_model::inject::Inject;
use muster_model::node::Inventory;
use muster_model::placement::AllocatedPart;
use muster_model::qualification::Level;
use muster_model::remediation::Act;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use tokio::sync::Notify;

pub(crate) struct RealDevices {
    gpus: PatientSource,
    hooks: Hooks,
    tester: Option<Tester>,
    /// Notified when a hook has something to report.
    news: Arc<Notify>,
    /// How acts that were carried out on other threads ended.
    ended: Arc<Mutex<Vec<ActResult>>>,
    /// Held while an act is carried out: they are done one after another.
    acting: Arc<Mutex<()>>,
}

impl RealDevices {
    pub(crate) fn new(gpus: Arc<dyn GpuSource>, hooks: Hooks) -> RealDevices {
        let news = hooks.faults.as_ref().map_or_else(Arc::default, |source| source.waker());
        let tester = hooks.qualifier.clone().map(|q| Tester::new(q, news.clone()));
        let gpus = PatientSource::new(gpus);
        RealDevices { gpus, hooks, tester, news, ended: Arc::default(), acting: Arc::default() }
    }

    /// Carries an act out on a thread of its own; none for an end that only a new boot shows.
    fn with_actor(
        &self,
        id: u64,
        what: &str,
        f: impl FnOnce(&dyn Actor) -> Result<Option<String>, String> + Send + 'static,
    ) -> Result<(), String> {
        let actor = self.hooks.actor.clone().filter(|a| a.can().contains(what));
        let Some(actor) = actor else {
            return Err(format!("this agent may not do that; start it with --allow-{what}"));
        };
        let (ended, wake, turn) = (self.ended.clone(), self.news.clone(), self.acting.clone());
        let body = move || {
            let _turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| f(&*actor)));
            let end = match done {
                Ok(Ok(None)) => return,
                Ok(Ok(Some(message))) => Ok(message),
                Ok(Err(why)) => Err(why),
                Err(_) => Err("it broke off".into()),
            };
            ended.lock().unwrap_or_else(PoisonError::into_inner).push((id, end));
            wake.notify_one();
        };
        let spawned = std::thread::Builder::new().name("act".into()).spawn(body);
        spawned.map(|_| ()).map_err(|e| format!("no thread for it: {e}"))
    }
}

impl Devices for RealDevices {
    fn boot(&self) -> String {
        process::boot_id()
    }

    fn news(&self) -> Arc<Notify> {
        self.news.clone()
    }

    fn runner_tools(&self) -> RunnerTools {
        self.hooks.runner_tools.clone()
    }

    fn inventory(&self, cgroups: &Cgroups) -> Inventory {
        let mut all = inventory::collect(&self.gpus.known(), cgroups);
        all.isolation = self.hooks.runner_tools.separation().in_inventory(cgroups.isolation());
        if self.tester.is_some() && !all.gpus.is_empty() {
            all.can.insert("qualify".into());
        }
        all.can.extend(self.hooks.actor.iter().flat_map(|a| a.can()));
        all.pool.clone_from(&self.hooks.pool);
        all
    }

    fn testing(&self) -> Option<u64> {
        self.tester.as_ref().and_then(Tester::id)
    }

    fn qualify(&mut self, id: u64, level: Level, _now: Instant) {
        if let Some(tester) = &mut self.tester {
            tester.begin(id, level);
        }
    }

    fn qualify_over(&mut self, id: u64) {
        if let Some(tester) = &mut self.tester {
            tester.over(id);
        }
    }

    fn take_faults(&mut self) -> Vec<ObservedFault> {
        self.hooks.faults.as_ref().map_or_else(Vec::new, |s| s.take())
    }

    fn act(
        &mut self,
        id: u64,
        act: &Act,
        _now: Instant,
    ) -> Result<Option<SimulatedAbsence>, String> {
        match act {
            Act::ResetGpu { gpu, .. } => {
                let gpu = *gpu;
                self.with_actor(id, "reset", move |a| a.reset_gpu(gpu).map(Some))?;
            }
            Act::Reboot { .. } => self.with_actor(id, "reboot", |a| a.reboot().map(|()| None))?,
            other => return Err(no_act_of_agents(other)),
        }
        Ok(None)
    }

    fn acts_over(&mut self, _now: Instant) -> Vec<ActResult> {
        std::mem::take(&mut *self.ended.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn inject(&mut self, _fault: &Inject, _now: Instant) -> Injected {
        let outcome = Err("this is a real node; faults are for simulated ones".into());
        Injected { outcome, ..Injected::default() }
    }

    fn telemetry(&mut self, _now: Instant) -> Option<Telemetry> {
        let mut host = inventory::host_metrics();
        let (gpus, columns) = match &self.hooks.telemetry {
            Some(source) => {
                host.extend(source.host());
                (source.rows(), source.columns())
            }
            None => (Vec::new(), Vec::new()),
        };
        Some(Telemetry { at: wall(), columns, gpus, host })
    }

    fn start(&mut self, _key: AttemptKey, detail: &RunDetail, _now: Instant) -> Start {
        let sliced = matches!(detail.slot.part, Some(AllocatedPart::Mig { .. }));
        if detail.simulate.is_some() {
            let reason = "`simulate` runs on simulated nodes only, and this is a real one: \
                          leave it out, or ask for a simulated node";
            Start::Refused(reason.into())
        } else if sliced && self.hooks.runner_tools.slices.is_none() {
            let reason = "this agent knows nothing of MIG slices; ask for whole GPUs or a \
                          share in thousandths, or for another node";
            Start::Refused(reason.into())
        } else {
            Start::Run
        }
    }

    fn turn(&mut self, _now: Instant, connected: bool, out: &mut Vec<FromAgent>) {
        if connected && let Some(tester) = &mut self.tester {
            tester.turn(out);
        }
    }

    fn rewind(&mut self) {
        if let Some(tester) = &mut self.tester {
            tester.rewind();
        }
    }
}
