//! Orders for tests.

use muster_link::messages::{Limits, RunDetail, Secrets};
use muster_model::placement::{GpuSet, Slot};
use muster_model::spec::{OnPartition, RunSpec};
use muster_model::units::Bytes;

/// A one-rank order that runs a shell script.
#[must_use]
pub fn detail(script: &str) -> RunDetail {
    let node: muster_model::names::NodeName = "node-1".parse().expect("a valid name");
    RunDetail {
        name: "test".into(),
        project: "default".parse().expect("a valid name"),
        user: "tester".into(),
        run: RunSpec { script: Some(script.into()), ..RunSpec::default() },
        slot: Slot {
            node: node.clone(),
            group: 0,
            node_rank: 0,
            first_rank: 0,
            ranks: 1,
            gpus: GpuSet::EMPTY,
            cpus: 0,
            memory: Bytes(0),
            part: None,
        },
        nodes: vec![node],
        world_size: 1,
        master_addr: "127.0.0.1".into(),
        master_port: 29500,
        array: None,
        limits: Limits::default(),
        volumes: Vec::new(),
        secrets: Secrets::default(),
        checkpoint: None,
        resume: None,
        resume_step: None,
        on_partition: OnPartition::default(),
        simulate: None,
        fabric: None,
        cap_watts: None,
        account: None,
    }
}
