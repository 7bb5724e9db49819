//! What changed for the worse between two looks at the host.

use super::{HostSample, space_of};
use crate::faults::agent_fault;
use muster_model::fault::ObservedFault;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// Remembers what was reported, so that each trouble is reported once.
#[derive(Debug, Default)]
pub(crate) struct HostWatch {
    dirs: Vec<PathBuf>,
    full: BTreeSet<PathBuf>,
    writable: BTreeSet<String>,
    active: BTreeSet<(String, u32)>,
    oom_kills: Option<u64>,
}

impl HostWatch {
    /// Watches the room in these directories.
    pub(crate) fn new(dirs: Vec<PathBuf>) -> HostWatch {
        HostWatch { dirs, ..HostWatch::default() }
    }

    /// What is wrong now and was not before. With `log`, what the kernel's log shows is left to it.
    pub(crate) fn find_faults(&mut self, host: &HostSample, log: bool) -> Vec<ObservedFault> {
        let mut faults = Vec::new();
        self.full_disks(host, &mut faults);
        self.remounts(host, log, &mut faults);
        self.ports(host, &mut faults);
        let before = std::mem::replace(&mut self.oom_kills, host.oom_kills);
        if let (false, Some(before), Some(now)) = (log, before, host.oom_kills)
            && now > before
        {
            let mut fault =
                agent_fault("oom", host.at, None, "the kernel's OOM killer killed processes");
            fault.count = now - before;
            faults.push(fault);
        }
        faults
    }

    fn full_disks(&mut self, host: &HostSample, faults: &mut Vec<ObservedFault>) {
        for dir in &self.dirs {
            let Some(space) = space_of(dir) else { continue };
            if space.is_full() {
                if self.full.insert(dir.clone()) {
                    let text = format!(
                        "no space under {}: {} of {} bytes and {} of {} files are free; the output \
                         of jobs cannot be stored",
                        dir.display(),
                        space.free,
                        space.size,
                        space.files_free,
                        space.files
                    );
                    faults.push(agent_fault("disk-full", host.at, None, text));
                }
            } else if !space.is_nearly_full() {
                self.full.remove(dir);
            }
        }
    }

    fn remounts(&mut self, host: &HostSample, log: bool, faults: &mut Vec<ObservedFault>) {
        for m in host.mounts.iter().filter(|m| !m.meant) {
            if !m.readonly {
                self.writable.insert(m.point.clone());
            } else if self.writable.remove(&m.point) && !log {
                let text = format!("{} on {} can no longer be written", m.device, m.point);
                faults.push(agent_fault("ro-remount", host.at, None, text));
            }
        }
    }

    fn ports(&mut self, host: &HostSample, faults: &mut Vec<ObservedFault>) {
        for p in &host.ib {
            let key = (p.device.clone(), p.port);
            match p.state.as_deref() {
                Some("ACTIVE") => {
                    self.active.insert(key);
                }
                Some(state) if self.active.remove(&key) => {
                    let text = format!("{} port {} is {state}; it was active", p.device, p.port);
                    faults.push(agent_fault("ib-down", host.at, None, text));
                }
                _ => {}
            }
        }
    }
}
