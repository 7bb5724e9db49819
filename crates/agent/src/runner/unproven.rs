//! Attempts of which nothing is known but that their processes could not be ended.

use crate::cgroup::Group;
use crate::process::ProcessId;
use muster_model::job::SlotEnd;

/// What is left of one.
#[derive(Debug)]
pub(super) struct UnprovenEnd {
    processes: Vec<ProcessId>,
    group: Option<Group>,
    end: SlotEnd,
    /// The server heard that its processes are gone.
    reported: bool,
}

impl UnprovenEnd {
    pub(super) fn new(processes: Vec<ProcessId>, group: Option<Group>) -> UnprovenEnd {
        let end = SlotEnd::unproven(&describe_processes(&processes));
        UnprovenEnd { processes, group, end, reported: false }
    }

    /// What is left, in words.
    pub(super) fn describe_leftovers(&self) -> String {
        describe_processes(&self.processes)
    }

    /// How the attempt stands.
    pub(super) fn end(&self) -> &SlotEnd {
        &self.end
    }

    /// Whether its processes are gone.
    pub(super) fn gone(&self) -> bool {
        !self.end.is_unproven()
    }

    /// Whether a look finds nothing new any more.
    pub(super) fn settled(&self) -> bool {
        self.reported
    }

    /// Looks whether its processes are gone, and says so once while `connected`.
    pub(super) fn check_processes(&mut self, connected: bool) -> Option<SlotEnd> {
        if !self.gone() && !self.alive() {
            self.group.iter().for_each(Group::remove);
            self.end = SlotEnd::agent_anew();
        }
        let due = connected && self.gone() && !self.reported;
        self.reported |= due;
        due.then(|| self.end.clone())
    }

    fn alive(&self) -> bool {
        let fenced = self.group.as_ref().map_or_else(|| Ok(Vec::new()), Group::find_pids);
        // Whoever cannot be looked up may be there.
        let there = |pid: i32| match ProcessId::of(pid) {
            Ok(found) => found.is_some_and(|p| !p.gone()),
            Err(_) => true,
        };
        let fenced = match fenced {
            Ok(pids) => pids.into_iter().any(there),
            Err(_) => true,
        };
        fenced || !self.processes.iter().all(ProcessId::gone)
    }
}

fn describe_processes(processes: &[ProcessId]) -> String {
    let pids: Vec<String> = processes.iter().map(|p| p.pid.to_string()).collect();
    format!("processes that cannot be killed: {}", pids.join(", "))
}

#[cfg(test)]
mod tests {
    use super::super::{LOOK, RankBudget, Runner, RunnerConfig, ShimCommand};
    use super::*;
    use crate::cgroup::Cgroups;
    use crate::process::boot_id;
    use crate::run_dir::{MetaFile, RunDir};
    use muster_model::command::Observed;
    use muster_model::ids::{AttemptKey, JobId};
    use std::path::Path;
    use std::process::Command;
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    fn config(state: &Path) -> RunnerConfig {
        RunnerConfig {
            state: state.to_path_buf(),
            node: "node-1".parse().unwrap(),
            shim: ShimCommand::this_executable(),
            cgroups: Arc::new(Cgroups::none()),
            log_cap: 1 << 20,
            budget: RankBudget::unlimited(),
        }
    }

    #[test]
    fn an_attempt_whose_supervisor_went_with_its_agent_is_not_the_nodes_failure() {
        let tmp = tempfile::tempdir().unwrap();
        let key = |job| AttemptKey { job: JobId(job), attempt: 1 };
        let runs = Runner::open(config(tmp.path())).unwrap().runs();
        let mut child = Command::new("true").spawn().unwrap();
        let dead = ProcessId::of(i32::try_from(child.id()).unwrap()).unwrap();
        child.wait().unwrap();
        for job in [7, 8] {
            let dir = RunDir::of(&runs, key(job));
            dir.create().unwrap();
            let detail = crate::testing::detail("true");
            let meta = MetaFile { detail, group: None, boot: boot_id(), lease: false, place: None };
            dir.write("meta.json", &meta).unwrap();
        }
        // The agent was killed before the one supervisor had its order, and together with the other.
        RunDir::of(&runs, key(8)).claim(dead).unwrap();
        let mut runner = Runner::open(config(tmp.path())).unwrap();
        let (now, mut reported) = (Instant::now(), Vec::new());
        for second in 0..60 {
            reported.extend(runner.poll(now + Duration::from_secs(second), true));
        }
        reported.sort_by_key(|(key, _)| *key);
        let gone = |job| (key(job), Observed::Ended(SlotEnd::agent_anew()));
        assert_eq!(reported, vec![gone(7), gone(8)]);
    }

    #[test]
    fn ranks_that_could_not_be_killed_end_once_they_are_gone() {
        let tmp = tempfile::tempdir().unwrap();
        let mut runner = Runner::open(config(tmp.path())).unwrap();
        let key = AttemptKey { job: JobId(7), attempt: 1 };
        let dir = RunDir::of(&runner.runs(), key);
        dir.create().unwrap();
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        let process = ProcessId::of(i32::try_from(child.id()).unwrap()).unwrap().unwrap();
        runner.unproven.insert(key, UnprovenEnd::new(vec![process], None));
        let stands = |runner: &Runner| match runner.observed().as_slice() {
            [(k, Observed::Ended(end))] if *k == key => end.clone(),
            other => panic!("{other:?}"),
        };
        let now = Instant::now();
        assert_eq!(runner.poll(now, true), vec![]);
        assert!(stands(&runner).is_unproven());
        assert!(runner.due().is_some(), "it is looked at again");
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(runner.poll(now + LOOK, false), vec![], "nobody is there to hear it");
        assert_eq!(stands(&runner), SlotEnd::agent_anew());
        let reported = vec![(key, Observed::Ended(SlotEnd::agent_anew()))];
        assert_eq!(runner.poll(now + LOOK * 2, true), reported);
        assert_eq!(runner.poll(now + LOOK * 3, true), vec![]);
        assert_eq!(runner.due(), None);
        assert!(dir.0.exists());
        runner.forget(key);
        assert!(!dir.0.exists());
        assert_eq!(runner.observed(), vec![]);
    }
}
