//! Objects to show in tests, as a server would answer them.

#![allow(clippy::expect_used)]

use crate::{
    AdviceLine, Attempt, AttemptReport, Breaker, Efficiency, Finding, GpuParts, Incident, Job,
    JobReport, Kind, Remediation, RemediationStepEntry, Slot, StageReport, StepsReport, TimeParts,
};
use muster_model::breaker::BreakerState;
use muster_model::finding::Severity;
use muster_model::job::{JobState, Verdict};
use muster_model::placement::Fabric;
use muster_model::remediation::{Action, Leave, Mode, RemediationStep};
use muster_model::spec::{Group, JobSpec};
use muster_model::topology::Level;
use muster_model::units::{Bytes, Span, Time};

/// A job of two nodes with eight GPUs each.
#[must_use]
pub fn job(number: u64, state: JobState) -> Job {
    Job {
        id: number.to_string(),
        number,
        kind: Kind::Job,
        name: "train".into(),
        state,
        version: 9,
        project: "default".into(),
        user: "user:alice".into(),
        spec: JobSpec::default().into(),
        groups: vec![Group {
            name: String::new(),
            nodes: 2,
            gpus: 8,
            ranks: 8,
            cpus: 8,
            memory: Bytes(0),
            sku: None,
            part: None,
        }]
        .into(),
        array: None,
        depends: Vec::new().into(),
        submitted_at: Time(0).into(),
        started_at: None,
        ended_at: None,
        reason: None,
        exit_code: None,
        held: None,
        not_before: None,
        attempts: 0,
        infrastructure_failures: 0,
        application_failures: 0,
        attempt: None,
        past: Vec::new(),
        checkpoint: None,
        checkpoint_asked: None,
        reserved_start: None,
        size: None,
        preemptions: 0,
        idle_warned: None,
        progress: None,
        waiting: None,
        recovery: None,
        unhealthy_nodes: Vec::new(),
        has_warnings: false,
    }
}

fn slot(node: &str) -> Slot {
    Slot {
        node: node.into(),
        group: 0,
        node_rank: 0,
        first_rank: 0,
        ranks: 8,
        gpus: (0..8).collect(),
        cpus: 8,
        memory: Bytes(0),
        part: None,
        state: "running".into(),
        end: None,
    }
}

/// The same, running.
#[must_use]
pub fn running(number: u64) -> Job {
    let mut running = job(number, JobState::Running);
    running.attempt = Some(Attempt {
        no: 1,
        state: JobState::Running,
        placed_at: Time(50_000).into(),
        started_at: Some(Time(60_000).into()),
        deadline: None,
        freed_at: None,
        stopped_at: None,
        domain: "leaf-1".into(),
        level: Level::Leaf,
        fabric: Fabric::Rail,
        fabric_text: Fabric::Rail.words().into(),
        cap_watts: None,
        port: 29500,
        slots: vec![slot("hgx-01"), slot("hgx-02")],
        stop: None,
        notice: None,
        preflight: None,
    });
    running
}

/// A GPU off the bus under job 42.
#[must_use]
pub fn finding(id: u64) -> Finding {
    Finding {
        id: id.to_string(),
        kind: "gpu-off-bus".into(),
        title: "A GPU fell off the bus".into(),
        state: "open".into(),
        entity: "gpu:hgx-01/3".parse().expect("an entity"),
        node: Some("hgx-01".into()),
        gpu: Some(3),
        job: Some(42),
        attempt: Some("42.1".into()),
        rank: Some(3),
        severity: Severity::Critical,
        confidence: 980,
        first_seen: Time(58_000).into(),
        last_seen: Time(60_000).into(),
        count: 2,
        evidence: vec!["xid-79: GPU has fallen off the bus\u{7}".into(), "rank 3 ended".into()],
        opened_at: Time(60_000).into(),
        incident: None,
        remediation: Some("31".into()),
        closed_at: None,
        closed_why: None,
    }
}

/// A leaf whose nodes are lost.
#[must_use]
pub fn incident() -> Incident {
    Incident {
        id: "40".into(),
        kind: "leaf-loss".into(),
        title: "Many nodes of one leaf fail at once".into(),
        state: "open".into(),
        cause: "leaf:eu/c1/s1/l2".parse().expect("an entity"),
        severity: Severity::Critical,
        summary: "6 of 8 nodes of leaf eu/c1/s1/l2 are lost within 40 s".into(),
        began_at: Time(60_000).into(),
        opened_at: Time(90_000).into(),
        count: 6,
        finding_ids: vec!["12".into()],
        findings: Vec::new(),
        changes: Vec::new(),
        owner: None,
        owned_at: None,
        notes: Vec::new(),
        closed_at: None,
        closed_why: None,
    }
}

/// A reboot that is not approved yet.
#[must_use]
pub fn remediation(id: u64) -> Remediation {
    Remediation {
        id: id.to_string(),
        kind: "gpu-off-bus".into(),
        state: "pending approval".into(),
        finding: "12".into(),
        node: "hgx-01".into(),
        gpu: Some(3),
        action: Action::Reboot,
        action_text: "reboot the node".into(),
        step_index: 0,
        mode: Mode::Approve,
        leave: Leave::Now,
        step: RemediationStep::Approval,
        why: "nothing runs there; an operator has to approve the reboot".into(),
        at: Time(61_000).into(),
        since: Time(90_000).into(),
        until: None,
        approved: None,
        act: None,
        taken: vec![
            RemediationStepEntry { at: Time(61_000).into(), step: RemediationStep::Moving },
            RemediationStepEntry { at: Time(90_000).into(), step: RemediationStep::Approval },
        ],
        outcome: None,
        delayed: false,
        returnable: true,
    }
}

/// An open breaker of a leaf.
#[must_use]
pub fn breaker() -> Breaker {
    Breaker {
        entity: "leaf:eu/c1/s1/l2".parse().expect("an entity"),
        state: BreakerState::Open,
        since: Time(60_000).into(),
        reason: "incident 40: 6 of 8 nodes of the leaf are lost".into(),
        probe_at: Some(Time(300_000).into()),
        back_off: Span::mins(10),
        trips: 1,
        pinned: None,
        because_of: Some("40".into()),
        probe: None,
        project: None,
        nodes: 8,
    }
}

fn attempt(no: u32, time_ms: TimeParts, verdict: Option<Verdict>) -> AttemptReport {
    AttemptReport {
        no,
        from: Time(0).into(),
        until: Time(1000).into(),
        gpus: 16.0,
        time_ms,
        gpu_seconds: GpuParts::default(),
        goodput: None,
        verdict,
        attributed_to: verdict.map(|v| v.word().to_owned()),
        reason: verdict.map(|_| "node hgx-0003 was lost while it was very busy indeed".into()),
        checkpoints: 2,
        lost_estimated: false,
    }
}

/// A report of a job that was interrupted once.
#[must_use]
pub fn report() -> JobReport {
    let time_ms = TimeParts {
        queued: 60_000,
        held: 0,
        starting: 9_420,
        productive: 5_400_000,
        checkpointing: 24_000,
        restarting: 192_000,
        lost: 812_000,
        idle: 0,
    };
    let wall_ms = time_ms.parts().iter().map(|(_, ms)| ms).sum();
    let stage = |name: &str, ms, share| StageReport {
        name: name.into(),
        ms,
        share,
        advice: "do less of it".into(),
    };
    JobReport {
        id: "42".into(),
        number: 42,
        kind: Kind::JobReport,
        name: "train".into(),
        state: JobState::Running,
        version: 9,
        project: "default".into(),
        user: "user:alice".into(),
        gpus: 16.0,
        attempts_made: 2,
        since: Time(0).into(),
        until: Time(7_000_000).into(),
        complete: true,
        watched_since: None,
        wall_ms,
        time_ms,
        gpu_seconds: GpuParts { productive: 86_400.0, ..GpuParts::default() },
        allocated_gpu_seconds: 100_000.0,
        up_ms: 6_236_000,
        unsaved_ms: 250_000,
        ettr: Some(0.831),
        goodput: Some(0.864),
        interruptions: 1,
        mtbi_ms: Some(6_236_000),
        recover_ms: Some(192_000),
        ended_by: [("infrastructure".to_string(), 1)].into(),
        lost_estimated: false,
        attempts: vec![
            attempt(1, time_ms, Some(Verdict::Infrastructure)),
            attempt(2, TimeParts { productive: 250_000, ..TimeParts::default() }, None),
        ],
        efficiency: Some(Efficiency {
            attempt: 2,
            since: Time(0).into(),
            until: Time(250_000).into(),
            whole: false,
            gpus: 16,
            gpus_unused: 2,
            rows: 400,
            shared: false,
            utilisation: Some(0.813),
            utilisation_peak: Some(0.99),
            sm_active: Some(0.62),
            sm_active_peak: None,
            tensor_active: None,
            memory_active: Some(0.411),
            memory_peak_mib: Some(62_669),
            memory_mib: Some(81_920),
            power_watts: Some(512.3),
            energy_joules: Some(2_048_000),
        }),
        steps: Some(StepsReport {
            attempt: 2,
            since: Time(0).into(),
            whole: true,
            step: 1200,
            reports: 812,
            step_ms: Some(412.0),
            stages: vec![
                stage("compute", 321.4, 0.78),
                stage("comm", 61.8, 0.15),
                stage("read", 12.4, 0.03),
            ],
            ranks: 16,
            slowest_rank: Some(11),
            slowest_rank_ms: Some(360.0),
            median_rank_ms: Some(350.0),
        }),
        advice: vec![AdviceLine {
            about: "fewer_gpus".into(),
            text: "14 GPUs would do instead of 16".into(),
            because: "nothing ever ran on 2 of them, in 4m10s, and this is a long reason \
                      that needs more than one line to be read in full"
                .into(),
        }],
    }
}
