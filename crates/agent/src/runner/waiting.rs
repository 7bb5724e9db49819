//! Starts that cannot begin yet: the machine has to be asked for something first, such as the slice of
//! a GPU, or other ranks of it have to end.

use super::tools::{RunnerTools, Slice, Slices};
use crate::container::Containers;
use crate::isolation::Separation;
use crate::isolation::devices::UnifiedMemory;
use muster_link::messages::RunDetail;
use muster_model::placement::AllocatedPart;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread;
use std::time::{Duration, Instant};

/// How long the answers may take: the driver's, that finds a slice or cuts it, with those that come
/// before.
const ANSWERS: Duration = Duration::from_secs(60);
/// So many starts may wait for answers: a driver that hangs keeps each thread.
const MOST: usize = 256;
static UNANSWERED: AtomicUsize = AtomicUsize::new(0);

/// A start that waits.
#[derive(Debug)]
pub(super) struct Waiting {
    detail: RunDetail,
    /// Since when it waits for what it waits for now.
    since: Instant,
    answers: Answers,
}

/// What comes of the questions: the slice, where the slot has one.
pub(super) type Answered = Receiver<Result<Option<Slice>, String>>;

#[derive(Debug)]
enum Answers {
    /// Nothing had to be asked, or all is known.
    Settled(Option<Slice>),
    Asked(Answered),
}

impl Waiting {
    pub(super) fn new(detail: &RunDetail, asked: Option<Answered>, now: Instant) -> Waiting {
        let answers = asked.map_or(Answers::Settled(None), Answers::Asked);
        Waiting { detail: detail.clone(), since: now, answers }
    }

    pub(super) fn detail(&self) -> &RunDetail {
        &self.detail
    }

    /// What it is begun with.
    pub(super) fn into_start(self) -> (RunDetail, Option<Slice>) {
        match self.answers {
            Answers::Settled(slice) => (self.detail, slice),
            Answers::Asked(_) => (self.detail, None),
        }
    }

    /// Whether it waits for free capacity alone.
    pub(super) fn is_answered(&self) -> bool {
        matches!(self.answers, Answers::Settled(_))
    }

    /// Whether it has waited for so long.
    pub(super) fn waited(&self, patience: Duration, now: Instant) -> bool {
        now.saturating_duration_since(self.since) >= patience
    }

    /// When all must be known.
    pub(super) fn due(&self) -> Option<Instant> {
        (!self.is_answered()).then(|| self.since + ANSWERS)
    }

    /// Takes the answers when they are there.
    ///
    /// # Errors
    /// Why the attempt cannot start here.
    pub(super) fn take_answers(&mut self, now: Instant) -> Result<(), String> {
        let Answers::Asked(asked) = &self.answers else { return Ok(()) };
        match asked.try_recv() {
            Ok(found) => {
                self.answers = Answers::Settled(found?);
                self.since = now;
                Ok(())
            }
            Err(TryRecvError::Empty) if !self.waited(ANSWERS, now) => Ok(()),
            Err(TryRecvError::Empty) => Err(format!(
                "the GPU driver did not answer within {} s: whether the slot's GPUs can be used is \
                 unknown",
                ANSWERS.as_secs()
            )),
            Err(TryRecvError::Disconnected) => {
                Err("getting the slot's GPUs ready broke off".into())
            }
        }
    }
}

/// What this machine has to be asked, or has to do, before an attempt can start. All of it may take
/// long, and may hang.
struct Questions {
    /// What the container runtime can do.
    containers: Option<Arc<Containers>>,
    /// The driver's node that is missing.
    memory: Option<UnifiedMemory>,
    /// The slice of a GPU.
    slice: Option<(Slices, u32, AllocatedPart)>,
}

impl Questions {
    /// None when nothing has to be asked.
    fn of(tools: &RunnerTools, detail: &RunDetail) -> Option<Questions> {
        let slot = &detail.slot;
        let slice = match (&slot.part, &tools.slices, slot.gpus.iter().next()) {
            (Some(part @ AllocatedPart::Mig { .. }), Some(slices), Some(gpu)) => {
                Some((slices.clone(), gpu, part.clone()))
            }
            _ => None,
        };
        let in_container = detail.run.image.is_some();
        let given = || matches!(tools.separation(), Separation::Full | Separation::Account(_));
        let has_gpus = || slot.gpus.iter().any(|i| !(tools.device_nodes)(i).is_empty());
        let memory = tools.unified_memory.is_missing() && !in_container && given() && has_gpus();
        let with_account = || tools.isolation.contained(&tools.abilities) == Ok(true);
        let containers = in_container && tools.containers.must_be_asked() && with_account();
        let questions = Questions {
            containers: containers.then(|| tools.containers.clone()),
            memory: memory.then(|| tools.unified_memory.clone()),
            slice,
        };
        (containers || memory || questions.slice.is_some()).then_some(questions)
    }

    fn ask(self) -> Result<Option<Slice>, String> {
        if let Some(containers) = self.containers {
            containers.knows_users()?;
        }
        if let Some(memory) = self.memory {
            memory.make()?;
        }
        self.slice.map(|(slices, gpu, part)| slices(gpu, &part)).transpose()
    }
}

/// Asks what has to be known of this machine before the attempt can start, on a thread of its own: the
/// agent's goes on, and its heartbeats. None when there is nothing to ask. `wake` is called when there
/// is an answer.
pub(super) fn ask_machine(
    tools: &RunnerTools,
    detail: &RunDetail,
    wake: impl FnOnce() + Send + 'static,
) -> Option<Answered> {
    let questions = Questions::of(tools, detail)?;
    let (sender, receiver) = channel();
    let early = sender.clone();
    if UNANSWERED.fetch_add(1, Ordering::Relaxed) >= MOST {
        UNANSWERED.fetch_sub(1, Ordering::Relaxed);
        let _ = early.send(Err("the GPU driver does not answer: it hangs".into()));
        return Some(receiver);
    }
    let work = move || {
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| questions.ask()));
        UNANSWERED.fetch_sub(1, Ordering::Relaxed);
        let found = done.unwrap_or_else(|panic| {
            let said = muster_supervise::words(&*panic);
            Err(format!("getting the slot's GPUs ready broke off: {said}"))
        });
        let _ = sender.send(found);
        wake();
    };
    if let Err(e) = thread::Builder::new().name("before-slot".into()).spawn(work) {
        UNANSWERED.fetch_sub(1, Ordering::Relaxed);
        let _ = early.send(Err(format!("no thread to ask the GPU driver: {e}")));
    }
    Some(receiver)
}

#[cfg(test)]
mod tests {
    use super::super::{RankBudget, Runner, RunnerConfig, ShimCommand};
    use super::*;
    use crate::cgroup::Cgroups;
    use crate::isolation::Abilities;
    use muster_model::command::Observed;
    use muster_model::ids::{AttemptKey, JobId};
    use muster_model::job::SlotEnd;
    use muster_model::placement::GpuSet;
    use std::path::Path;
    use std::sync::{Mutex, PoisonError};

    const KEY: AttemptKey = AttemptKey { job: JobId(7), attempt: 1 };

    fn runner(state: &Path, tools: RunnerTools) -> Runner {
        let config = RunnerConfig {
            state: state.to_path_buf(),
            node: "node-1".parse().unwrap(),
            shim: ShimCommand::this_executable(),
            cgroups: Arc::new(Cgroups::none()),
            log_cap: 1 << 20,
            budget: RankBudget::unlimited(),
        };
        Runner::open(config).unwrap().with_tools(tools)
    }

    /// A node whose driver has no node for unified memory until this script has made it.
    fn without_memory(dir: &Path, script: &str, most: Duration) -> RunnerTools {
        let unified_memory = UnifiedMemory {
            driver: "/dev/null".into(),
            node: dir.join("nvidia-uvm"),
            command: ["/bin/sh", "-c", script].map(str::to_owned).into(),
            most,
        };
        let abilities = Abilities { root: false, namespaces: Ok(()), accounts: Ok(()) };
        RunnerTools {
            abilities,
            unified_memory,
            device_nodes: Arc::new(|_| vec!["/dev/null".into()]),
            ..RunnerTools::default()
        }
    }

    fn with_a_gpu() -> RunDetail {
        let mut detail = crate::testing::detail("true");
        detail.slot.gpus = GpuSet::first(1);
        detail
    }

    /// Longer than any machine takes.
    const LONG: Duration = Duration::from_secs(60);

    fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
        let from = Instant::now();
        loop {
            if let Some(seen) = look() {
                return seen;
            }
            assert!(from.elapsed() < LONG, "never happened: {what}");
            thread::sleep(Duration::from_millis(3));
        }
    }

    #[test]
    fn a_helper_of_the_driver_that_hangs_delays_nobody_else() {
        let tmp = tempfile::tempdir().unwrap();
        let [begun, go, over] = ["begun", "go", "over"].map(|name| tmp.path().join(name));
        let dir = tmp.path().display();
        let script = format!(
            "cd {dir}; touch begun; while [ -e begun ] && [ ! -e go ]; do sleep 0.01; done; touch over"
        );
        let tools = without_memory(tmp.path(), &script, LONG * 10);
        let mut runner = runner(tmp.path(), tools);
        runner.start(KEY, &with_a_gpu(), Instant::now());
        until("the helper", || begun.exists().then_some(()));
        assert_eq!(runner.poll(Instant::now(), true), vec![], "it waits, and nobody for it");
        assert_eq!(runner.observed(), vec![(KEY, Observed::Running)]);
        runner.stop(KEY, super::super::GRACE, Instant::now());
        let ended = [(KEY, Observed::Ended(SlotEnd::Stopped))];
        assert_eq!(runner.poll(Instant::now(), true), ended);
        std::fs::write(&go, "").unwrap();
        until("the end of the helper", || over.exists().then_some(()));
    }

    #[test]
    fn a_start_fails_when_the_helper_of_the_driver_does_not_end() {
        let tmp = tempfile::tempdir().unwrap();
        let tools = without_memory(tmp.path(), "exec sleep 100000", Duration::from_millis(1));
        let mut runner = runner(tmp.path(), tools);
        runner.start(KEY, &with_a_gpu(), Instant::now());
        let end = until("the end", || runner.poll(Instant::now(), true).pop());
        let (KEY, Observed::Ended(end @ SlotEnd::NodeFault { .. })) = &end else {
            panic!("{end:?}")
        };
        let said = format!("{end:?}");
        assert!(said.contains("`/bin/sh -c exec sleep 100000` hangs"), "{said}");
        assert!(said.contains("did not end within"), "{said}");
    }

    #[test]
    fn a_driver_that_hangs_while_it_cuts_a_gpu_keeps_only_that_attempt_waiting() {
        let tmp = tempfile::tempdir().unwrap();
        let (_open, never) = channel::<()>();
        let never = Mutex::new(never);
        let hangs = move |_: u32, _: &AllocatedPart| -> Result<Slice, String> {
            let _ = never.lock().unwrap_or_else(PoisonError::into_inner).recv();
            Err("it answers too late".into())
        };
        let tools = RunnerTools { slices: Some(Arc::new(hangs)), ..RunnerTools::simulated() };
        let mut runner = runner(tmp.path(), tools);
        let key = KEY;
        let mut detail = with_a_gpu();
        detail.slot.part =
            Some(AllocatedPart::Mig { profile: "1g.18gb".into(), start: 0, size: 1 });
        let now = Instant::now();
        runner.start(key, &detail, now);
        assert_eq!(runner.poll(now, true), vec![], "everything else continues");
        assert_eq!(runner.observed(), vec![(key, Observed::Running)]);
        assert_eq!(runner.due(), Some(now + ANSWERS));
        match runner.poll(now + ANSWERS, true).as_slice() {
            [(k, Observed::Ended(end @ SlotEnd::NodeFault { .. }))] if *k == key => {
                assert!(format!("{end:?}").contains("is unknown"), "{end:?}");
            }
            other => panic!("{other:?}"),
        }
    }
}
