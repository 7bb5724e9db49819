//! A runner in a directory of its own, and waiting for things to happen.

use muster_agent::cgroup::Cgroups;
use muster_agent::runner::{RankBudget, Runner, RunnerConfig, RunnerTools, ShimCommand};
use muster_link::messages::{LogChunk, ProgressReport, RunDetail, Stream};
use muster_model::command::Observed;
use muster_model::ids::{AttemptKey, JobId};
use muster_model::job::SlotEnd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Long enough for any machine; only ever reached when something is broken.
pub(crate) const LONG: Duration = Duration::from_secs(60);

pub(crate) fn shim() -> ShimCommand {
    ShimCommand::this_executable()
}

static NEXT: AtomicU64 = AtomicU64::new(1);

/// A key that no other test uses: groups are named by it.
pub(crate) fn key() -> AttemptKey {
    let n = NEXT.fetch_add(1, Ordering::Relaxed);
    AttemptKey { job: JobId(u64::from(std::process::id()) * 1000 + n), attempt: 1 }
}

pub(crate) struct Bench {
    pub(crate) dir: Arc<tempfile::TempDir>,
    /// What ranks and tests both see, when a job names it.
    pub(crate) files: Arc<tempfile::TempDir>,
    pub(crate) runner_tools: RunnerTools,
    pub(crate) runner: Runner,
    pub(crate) logs: Vec<LogChunk>,
    pub(crate) seen: Vec<(AttemptKey, Observed)>,
    pub(crate) progress_reports: Vec<ProgressReport>,
    pub(crate) cgroups: Arc<Cgroups>,
}

impl Bench {
    pub(crate) fn new() -> Bench {
        Bench::with(Arc::new(Cgroups::none()), RankBudget::unlimited())
    }

    pub(crate) fn with(cgroups: Arc<Cgroups>, budget: Arc<RankBudget>) -> Bench {
        Bench::open(new_dir(), Arc::new(open_dir()), cgroups, budget, RunnerTools::default())
    }

    /// Without control groups, and with tools of one's own.
    pub(crate) fn ungrouped(runner_tools: RunnerTools) -> Bench {
        let cgroups = Arc::new(Cgroups::none());
        Bench::open(new_dir(), Arc::new(open_dir()), cgroups, RankBudget::unlimited(), runner_tools)
    }

    /// With all that this machine has, and tools of one's own.
    pub(crate) fn handy(runner_tools: RunnerTools) -> Bench {
        Bench::handy_with(runner_tools, shim())
    }

    /// The same with another supervisor.
    pub(crate) fn handy_with(runner_tools: RunnerTools, shim: ShimCommand) -> Bench {
        let cgroups = Arc::new(Cgroups::detect());
        let budget = RankBudget::unlimited();
        Bench::open_with(new_dir(), Arc::new(open_dir()), cgroups, budget, runner_tools, shim)
    }

    fn open(
        dir: Arc<tempfile::TempDir>,
        files: Arc<tempfile::TempDir>,
        cgroups: Arc<Cgroups>,
        budget: Arc<RankBudget>,
        runner_tools: RunnerTools,
    ) -> Bench {
        Bench::open_with(dir, files, cgroups, budget, runner_tools, shim())
    }

    pub(crate) fn open_with(
        dir: Arc<tempfile::TempDir>,
        files: Arc<tempfile::TempDir>,
        cgroups: Arc<Cgroups>,
        budget: Arc<RankBudget>,
        runner_tools: RunnerTools,
        shim: ShimCommand,
    ) -> Bench {
        let config = RunnerConfig {
            state: dir.path().to_path_buf(),
            node: "node-1".parse().unwrap(),
            shim,
            cgroups: cgroups.clone(),
            log_cap: 256 << 20,
            budget,
        };
        let runner = Runner::open(config).unwrap().with_tools(runner_tools.clone());
        Bench {
            dir,
            files,
            runner_tools,
            runner,
            logs: vec![],
            seen: vec![],
            progress_reports: vec![],
            cgroups,
        }
    }

    /// Another agent on the same directory; the old one is simply gone.
    pub(crate) fn restarted(self) -> Bench {
        let (dir, cgroups) = (self.dir.clone(), self.cgroups.clone());
        let (files, runner_tools) = (self.files.clone(), self.runner_tools.clone());
        drop(self);
        Bench::open(dir, files, cgroups, RankBudget::unlimited(), runner_tools)
    }

    /// A one-rank order that works in the directory of files.
    pub(crate) fn detail(&self, script: &str) -> RunDetail {
        let mut d = muster_agent::testing::detail(script);
        d.run.workdir = Some(self.files.path().display().to_string());
        d
    }

    /// A line of the supervisor's record.
    pub(crate) fn recorded(&self, key: AttemptKey, what: &str) -> Option<serde_json::Value> {
        let text = std::fs::read_to_string(self.run_dir(key).join("record")).ok()?;
        let lines = text.lines().filter_map(|l| serde_json::from_str(l).ok());
        lines.into_iter().find_map(|l: serde_json::Value| l.get(what).cloned())
    }

    /// The process of the first rank, by the number that the node knows.
    pub(crate) fn rank_pid(&self, key: AttemptKey) -> i32 {
        let ranks = self.recorded(key, "ranks").expect("ranks that are up");
        i32::try_from(ranks[0].as_i64().expect("a number")).expect("a process number")
    }

    pub(crate) fn turn(&mut self) {
        let now = Instant::now();
        let early = self.runner.poll(now, false);
        self.seen.extend(early);
        self.logs.extend(self.runner.logs(1 << 20));
        self.progress_reports.extend(self.runner.progress_reports(now).into_iter().map(|v| v.2));
        self.seen.extend(self.runner.poll(now, true));
        std::thread::sleep(Duration::from_millis(3));
    }

    pub(crate) fn until(&mut self, what: &str, mut done: impl FnMut(&mut Bench) -> bool) {
        let from = Instant::now();
        while !done(self) {
            assert!(from.elapsed() < LONG, "never happened: {what}; seen {:?}", self.seen);
            self.turn();
        }
    }

    pub(crate) fn end(&mut self, key: AttemptKey) -> SlotEnd {
        let of = |b: &Bench| {
            b.seen.iter().find_map(|(k, o)| match o {
                Observed::Ended(end) if *k == key => Some(end.clone()),
                _ => None,
            })
        };
        self.until("the end", |b| of(b).is_some());
        of(self).unwrap()
    }

    pub(crate) fn running(&mut self, key: AttemptKey) {
        self.until("running", |b| b.seen.contains(&(key, Observed::Running)));
    }

    pub(crate) fn text(&self, key: AttemptKey, rank: u32, stream: Stream) -> String {
        let mut out = Vec::new();
        for c in self.logs.iter().filter(|c| (c.key, c.rank, c.stream) == (key, rank, stream)) {
            assert_eq!(c.offset, out.len() as u64, "no gap and no repeat");
            out.extend_from_slice(&c.data);
        }
        String::from_utf8_lossy(&out).into_owned()
    }

    pub(crate) fn out(&self, key: AttemptKey) -> String {
        self.text(key, 0, Stream::Stdout)
    }

    pub(crate) fn run_dir(&self, key: AttemptKey) -> std::path::PathBuf {
        self.dir.path().join("runs").join(key.to_string())
    }
}

/// A directory that ranks may use, whoever they are.
pub(crate) fn open_dir() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(dir.path(), mode).unwrap();
    dir
}

fn new_dir() -> Arc<tempfile::TempDir> {
    // As an agent makes its own.
    let own = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    Arc::new(tempfile::Builder::new().permissions(own).tempdir().unwrap())
}

impl Drop for Bench {
    fn drop(&mut self) {
        // A test that failed must not leave its ranks behind.
        if std::thread::panicking() {
            self.runner.crash();
        }
    }
}

/// Whether a process runs (a zombie does not).
pub(crate) fn alive(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rfind(')').is_some_and(|at| !stat[at + 2..].starts_with(['Z', 'X']))
}

/// Processes of the node that have a word among their arguments.
pub(crate) fn with_word(word: &str) -> Vec<i32> {
    let has = |pid: &i32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|b| *b == 0).any(|w| w == word.as_bytes())
    };
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|e| e.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|p| alive(*p) && has(p)).collect()
}

/// Seconds to sleep that no other test sleeps.
pub(crate) fn long_sleep(key: AttemptKey) -> String {
    format!("1000.{}", key.job.0)
}
