//! Whether the containers of a slot begin in time: a runtime that hangs while it starts them would
//! keep the attempt up for ever, with nothing in it.

use super::{Order, Ranks};
use crate::container::{self, Kind};
use crate::process::{self, ProcessId};
use crate::signals::SignalTargets;
use rustix::process::Signal;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

/// Between two looks.
const LOOK: Duration = Duration::from_millis(250);

/// Why the ranks were ended, where nothing began in time.
#[derive(Debug, Clone, Default)]
pub(super) struct Late(Arc<OnceLock<String>>);

impl Late {
    pub(super) fn why(&self) -> Option<&str> {
        self.0.get().map(String::as_str)
    }
}

/// Watches the runtime's clients, which are the ranks, until something runs in a container of the slot.
/// Where nothing does in time, it kills them and says why.
pub(super) fn watch(order: &Order, ranks: &Ranks) -> Late {
    let late = Late::default();
    let Some(c) = &order.container else { return late };
    // What containerd starts is below nobody here: it is found by its control group alone.
    if order.group.is_none() && c.runtime.kind == Kind::Containerd {
        return late;
    }
    let Ok(me) = ProcessId::me() else { return late };
    let pids: Vec<i32> = ranks.keys().copied().collect();
    let clients: Vec<ProcessId> =
        pids.iter().filter_map(|p| ProcessId::of(*p).ok().flatten()).collect();
    let (group, limit) = (order.group.clone(), c.runtime.limits.start);
    let program = c.runtime.words.first().cloned().unwrap_or_default();
    let said = late.0.clone();
    let work = move || {
        let slot =
            SignalTargets { group: group.as_ref(), shim: Some(&me), ranks: &pids, contained: true };
        let has_begun = || slot.all_pids().iter().any(|p| container::has_begun(*p));
        let from = Instant::now();
        loop {
            if clients.iter().all(ProcessId::gone) || has_begun() {
                return;
            }
            let left = limit.saturating_sub(from.elapsed());
            if left.is_zero() {
                break;
            }
            thread::sleep(left.min(LOOK));
        }
        let limit = limit.as_secs_f32();
        let _ = said.set(format!(
            "the container runtime hangs: `{program} … run` started no container within {limit} s"
        ));
        for client in clients.iter().filter(|c| c.alive()) {
            process::signal_group(client.pid, Signal::KILL);
        }
    };
    if let Err(e) = thread::Builder::new().name("begun".into()).spawn(work) {
        eprintln!("{}: nobody watches whether containers begin: {e}", order.dir.display());
    }
    late
}
