//! The eyes of this machine's agent: a monitor, and what the agent wants to hear from it.

use muster_agent::hooks::{FaultSource, TelemetrySource};
use muster_health::faults::Catalogue;
use muster_model::fault::{FaultClass, ObservedFault};
use muster_model::ids::AttemptKey;
use muster_monitor::Monitor;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// Faults that are remembered for whoever asks why a rank died.
const REMEMBERED: usize = 256;

/// A monitor as the agent sees it.
pub struct Watch {
    monitor: Monitor,
    wakeup: Arc<Notify>,
    kept: Mutex<BufferedFaults>,
}

#[derive(Default)]
struct BufferedFaults {
    /// Not reported to the agent yet.
    unreported: Vec<ObservedFault>,
    /// The newest ones that name a process, so that its end can be explained.
    recent: VecDeque<ObservedFault>,
}

impl Watch {
    /// Takes a monitor that notifies this one of faults.
    #[must_use]
    pub fn new(monitor: Monitor, wakeup: Arc<Notify>) -> Watch {
        Watch { monitor, wakeup, kept: Mutex::default() }
    }

    /// The monitor that watches the machine.
    #[must_use]
    pub fn monitor(&self) -> &Monitor {
        &self.monitor
    }

    /// Takes over what the monitor has; the agent and whoever explains an end both come here.
    fn collect(&self) -> MutexGuard<'_, BufferedFaults> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        for fault in self.monitor.take_faults() {
            if fault.pid.is_some() {
                kept.recent.push_back(fault.clone());
            }
            kept.unreported.push(fault);
        }
        let extra = kept.recent.len().saturating_sub(REMEMBERED);
        kept.recent.drain(..extra);
        kept
    }

    /// What is known of the death of an attempt's processes: the weightiest fault that names one
    /// of them.
    #[must_use]
    pub fn explain(&self, key: AttemptKey, pids: &[i32]) -> Option<String> {
        weightiest(&self.collect().recent, key, pids).map(describe)
    }
}

fn weightiest<'a>(
    recent: &'a VecDeque<ObservedFault>,
    key: AttemptKey,
    pids: &[i32],
) -> Option<&'a ObservedFault> {
    let mine =
        |f: &&ObservedFault| f.attempt == Some(key) || f.pid.is_some_and(|p| pids.contains(&p));
    // A breadcrumb of the teardown explains nothing when there is anything else.
    recent.iter().filter(mine).max_by_key(|f| (f.class != FaultClass::Notice, f.action))
}

fn describe(f: &ObservedFault) -> String {
    let name = match f.code.strip_prefix("xid-") {
        Some(n) => format!("XID {n}"),
        None => f.code.clone(),
    };
    let gpu = f.gpu.map(|g| format!(" on GPU {g}")).unwrap_or_default();
    let pid = f.pid.map(|p| format!(", process {p}")).unwrap_or_default();
    let catalogue = Catalogue::builtin();
    let entry = catalogue.code(&f.code).and_then(|c| catalogue.entry(c));
    let what = entry.map(|e| format!(": {}", e.text)).unwrap_or_default();
    format!("{name}{gpu}{pid}{what}")
}

impl FaultSource for Watch {
    fn take(&self) -> Vec<ObservedFault> {
        std::mem::take(&mut self.collect().unreported)
    }

    fn waker(&self) -> Arc<Notify> {
        self.wakeup.clone()
    }
}

impl TelemetrySource for Watch {
    fn columns(&self) -> Vec<String> {
        muster_simnode::COLUMNS.iter().map(|c| (*c).to_owned()).collect()
    }

    fn rows(&self) -> Vec<Vec<Option<f32>>> {
        self.monitor.table(&muster_simnode::COLUMNS)
    }

    fn host(&self) -> BTreeMap<String, f64> {
        self.monitor.row_metrics()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_model::fault::{FaultAction, FaultSource as Source};
    use muster_model::ids::JobId;
    use muster_model::units::Time;

    fn fault(code: &str, pid: i32, class: FaultClass, action: FaultAction) -> ObservedFault {
        ObservedFault {
            code: code.into(),
            at: Time(1),
            count: 1,
            source: Source::Kernel,
            class,
            action,
            gpu: Some(0),
            pid: Some(pid),
            attempt: None,
            rank: None,
            text: String::new(),
        }
    }

    #[test]
    fn the_weightiest_fault_of_a_process_explains_its_end() {
        let recent = VecDeque::from([
            fault("xid-31", 7, FaultClass::Application, FaultAction::RestartJob),
            fault("xid-45", 7, FaultClass::Notice, FaultAction::None),
            fault("xid-79", 8, FaultClass::Bus, FaultAction::Reboot),
        ]);
        let key = AttemptKey { job: JobId(1), attempt: 1 };
        let found = weightiest(&recent, key, &[7]).map(describe).unwrap_or_default();
        assert!(found.starts_with("XID 31 on GPU 0, process 7: "), "{found}");
        assert!(weightiest(&recent, key, &[9]).is_none());
    }
}
