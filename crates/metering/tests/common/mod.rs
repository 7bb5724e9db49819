//! Jobs and records for tests.

use muster_metering::JobHistories;
use muster_model::event::{Event, Record, SCHEMA};
use muster_model::ids::{AttemptKey, JobId, Seq};
use muster_model::job::{Job, JobState};
use muster_model::placement::{Fabric, GpuSet, Placement, Slot};
use muster_model::spec::{Group, JobSpec};
use muster_model::topology::Level;
use muster_model::units::{Bytes, Time};

pub(crate) const START: Time = Time(1_700_000_000_000);

/// Something that happened.
pub(crate) type TimedEvent = (Time, Event);

pub(crate) fn lives(all: &[TimedEvent]) -> JobHistories {
    let mut lives = JobHistories::default();
    for (n, (at, event)) in all.iter().enumerate() {
        lives.apply(&Record {
            seq: Seq(n as u64 + 1),
            at: *at,
            v: SCHEMA,
            org: "default".into(),
            project: None,
            actor: "test".into(),
            key: None,
            event: event.clone(),
        });
    }
    lives
}

pub(crate) fn placed(key: AttemptKey, gpus: u32) -> Event {
    let slot = Slot {
        node: "n1".parse().unwrap(),
        group: 0,
        node_rank: 0,
        first_rank: 0,
        ranks: 1,
        gpus: GpuSet::first(gpus),
        cpus: 1,
        memory: Bytes(0),
        part: None,
    };
    let placement = Placement {
        slots: vec![slot],
        port: 1,
        domain: "cluster".into(),
        level: Level::Cluster,
        fabric: Fabric::Nvlink,
        cap_watts: None,
        checkpoint_every: None,
    };
    Event::JobPlaced { key, placement: placement.into() }
}

/// A job that waits for a node with so many GPUs.
pub(crate) fn job(id: JobId, gpus: u32) -> Job {
    let group = Group {
        name: "main".into(),
        nodes: 1,
        gpus,
        ranks: 1,
        cpus: 1,
        memory: Bytes(0),
        sku: None,
        part: None,
    };
    Job {
        id,
        name: "train".parse().unwrap(),
        project: "default".parse().unwrap(),
        user: "ann".into(),
        spec: JobSpec::default().into(),
        groups: vec![group].into(),
        payload: id,
        payload_bytes: 0,
        array: None,
        depends: Vec::new().into(),
        state: JobState::Queued,
        held: None,
        submitted_at: START,
        not_before: Time(0),
        started_at: None,
        ended_at: None,
        reason: None,
        exit_code: None,
        attempt: None,
        past: Vec::new(),
        attempts: 0,
        infrastructure_failures: 0,
        application_failures: 0,
        checkpoint: None,
        checkpoint_asked: None,
        reserved_start: None,
        start_withdrawn: None,
        size: None,
        preemptions: 0,
        idle_warned: None,
        recovery: None,
        unhealthy_nodes: Vec::new(),
        recovered: None,
        unreported: std::collections::BTreeSet::new(),
        version: Seq(1),
    }
}
