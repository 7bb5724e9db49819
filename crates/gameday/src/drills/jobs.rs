//! Drills in which the work itself is slow, stuck or broken.

use super::{NEVER_MISSED, at_work, drill, gang, gpu3, job, long_at_work, node, second, struck};
use crate::scene::{
    Drill, Expect, ExpectedJobOutcome, ExpectedRemediation, Scene, SceneEvent, ScheduledEvent,
    Setting, Work, immediate_fault,
};
use muster_api::Inject;
use muster_model::remediation::{Action, RemediationStep};
use std::time::Duration;

fn on_all(s: &Scene, fault: impl Fn() -> Inject) -> Vec<ScheduledEvent> {
    s.all_of_job().into_iter().map(|n| immediate_fault(n, fault())).collect()
}

/// It is the job: no node is touched and it goes on.
fn of_job(kind: &'static str) -> Expect {
    Expect {
        kind: Some(kind),
        about: job,
        verdict: "job",
        remediation: ExpectedRemediation::Untouched,
        job: ExpectedJobOutcome::GoesOn,
    }
}

#[expect(clippy::too_many_lines, reason = "one entry after the other")]
pub(super) fn drills() -> Vec<Drill> {
    vec![
        drill(
            "slow-rank",
            "one rank of a gang computes slowly",
            long_at_work(),
            |s| struck(s, Inject::SlowWork { key: s.key(), percent: 40 }),
            Expect {
                kind: Some("straggler"),
                about: |s| format!("gpu:{}/0", second(s)),
                verdict: "infrastructure",
                remediation: ExpectedRemediation::Reaches(Action::Drain, RemediationStep::Testing),
                job: ExpectedJobOutcome::Again,
            },
        ),
        drill(
            "slow-job",
            "all ranks of a gang become slower alike",
            // A job's own past takes longer to learn than that of its ranks.
            Setting { warm: Duration::from_secs(30), ..at_work() },
            |s| on_all(s, || Inject::SlowWork { key: s.key(), percent: 40 }),
            of_job("job-slow"),
        ),
        drill(
            "loader-starved",
            "a job waits for its data",
            long_at_work(),
            |s| on_all(s, || Inject::StarveLoader { key: s.key() }),
            of_job("loader-starved"),
        ),
        drill(
            "hang",
            "one rank stops inside a collective and all others wait",
            long_at_work(),
            |s| struck(s, Inject::HangWork { key: s.key() }),
            Expect {
                kind: Some("hang"),
                about: job,
                verdict: "unknown",
                remediation: ExpectedRemediation::Reaches(
                    Action::RestartJob,
                    RemediationStep::Moving,
                ),
                job: ExpectedJobOutcome::Again,
            },
        ),
        drill(
            "rank-killed",
            "ranks are killed and nothing says why",
            at_work(),
            |s| struck(s, Inject::KillRanks { key: s.key() }),
            Expect {
                kind: None,
                about: job,
                verdict: "unknown",
                remediation: ExpectedRemediation::Untouched,
                job: ExpectedJobOutcome::Again,
            },
        ),
        drill(
            "app-crash-spray",
            "a job crashes and leaves errors on all its nodes",
            Setting { lost_after: NEVER_MISSED, ..at_work() },
            |s| {
                let mut blows: Vec<ScheduledEvent> = Vec::new();
                for n in s.all_of_job() {
                    blows.extend(
                        (0..8).map(|gpu| immediate_fault(n, Inject::Xid { gpu, code: 31 })),
                    );
                }
                blows.push(immediate_fault(second(s), Inject::KillRanks { key: s.key() }));
                blows
            },
            Expect {
                kind: Some("app-spray"),
                about: job,
                verdict: "application",
                remediation: ExpectedRemediation::Untouched,
                job: ExpectedJobOutcome::Again,
            },
        ),
        drill(
            "xid45-flood",
            "every GPU of many nodes reports the end of somebody's program",
            at_work(),
            |s| {
                let some = s.nodes.iter().take(12);
                some.flat_map(|n| {
                    (0..8).map(|gpu| immediate_fault(&n.name, Inject::Xid { gpu, code: 45 }))
                })
                .collect()
            },
            Expect {
                kind: None,
                about: job,
                verdict: "none",
                remediation: ExpectedRemediation::Untouched,
                job: ExpectedJobOutcome::GoesOn,
            },
        ),
        drill(
            "app-fault",
            "a program touches memory of a GPU that is not its own",
            at_work(),
            |s| struck(s, Inject::Xid { gpu: 3, code: 31 }),
            Expect {
                kind: Some("app-fault"),
                about: gpu3,
                verdict: "gpu",
                remediation: ExpectedRemediation::Untouched,
                job: ExpectedJobOutcome::GoesOn,
            },
        ),
        drill(
            "oom",
            "the kernel kills a program that used too much memory",
            at_work(),
            |s| {
                let text = "Memory cgroup out of memory: Killed process 18245 (python3) total-vm:41932800kB, anon-rss:16738412kB, file-rss:71936kB, shmem-rss:12kB, UID:1001 pgtables:34012kB oom_score_adj:0";
                struck(s, Inject::KernelLine { text: text.into() })
            },
            Expect {
                kind: Some("oom"),
                about: node,
                verdict: "node",
                remediation: ExpectedRemediation::Untouched,
                job: ExpectedJobOutcome::GoesOn,
            },
        ),
        drill(
            "crash-loop",
            "a job ends with an error as often as it is started",
            Setting {
                jobs: vec![Work { nodes: 1, fails: Some(3), retries: 5 }],
                ..Setting::default()
            },
            |_| Vec::new(),
            Expect {
                kind: Some("crash-loop"),
                about: job,
                verdict: "application",
                remediation: ExpectedRemediation::Untouched,
                job: ExpectedJobOutcome::Held,
            },
        ),
        drill(
            "node-killer",
            "the nodes of one job fail one after another",
            Setting { nodes: 24, jobs: vec![gang(2)], ..Setting::default() },
            |_| {
                let after = |secs| ScheduledEvent {
                    node: String::new(),
                    what: SceneEvent::CrashUnderJob,
                    wait: Duration::from_secs(secs),
                };
                vec![after(0), after(2), after(2), after(2)]
            },
            Expect {
                kind: Some("node-killer"),
                about: job,
                verdict: "job",
                remediation: ExpectedRemediation::Watched,
                job: ExpectedJobOutcome::Held,
            },
        ),
    ]
}
