//! What nodes report all the time: heartbeats and rows of telemetry, from the bytes of a connection
//! to the watch over the fleet's health.

use crate::{WriteCounts, measured};
use muster_health::watch::{Signals, Watch, WatchConfig};
use muster_link::frame::{Frame, FrameReader, FrameWriter, MAX_FROM_AGENT};
use muster_link::messages::{FromAgent, FromServer, Telemetry};
use muster_model::ids::Seq;
use muster_model::names::NodeName;
use muster_model::units::{Span, Time};
use muster_simnode::{COLUMNS, SimConfig, SimNode};
use tokio::runtime::{Builder, Runtime};

const START: Time = Time(1_767_225_600_000);

/// Five heartbeats of each of 200 nodes: read, heard, answered. Where it is `slow`, every tenth
/// is read and heard twice, and nothing else is different.
pub(crate) fn heartbeats(slow: bool) -> WriteCounts {
    const NODES: usize = 200;
    const EACH: u64 = 5;
    let runtime = runtime();
    let mut watch = Watch::new(WatchConfig::default());
    let names: Vec<NodeName> = (0..NODES).map(name).collect();
    let beats: Vec<Vec<u8>> = (0..EACH)
        .map(|beat| frame(&FromAgent::Heartbeat { at: START + Span::secs(10 * beat) }))
        .collect();
    let mut out = FrameWriter::new(Vec::<u8>::new());
    measured(|| {
        for bytes in &beats {
            for (i, node) in names.iter().enumerate() {
                let times = if slow && i % 10 == 0 { 2 } else { 1 };
                for _ in 0..times {
                    let FromAgent::Heartbeat { at } = read(&runtime, bytes) else {
                        panic!("another message than was written");
                    };
                    watch.note_contact(node, at);
                }
                let ack = FromServer::Ack { seq: Seq(1_000_000), uncertain: false };
                out.queue(&ack).expect("it is small");
            }
        }
    });
    WriteCounts { records: 0, bytes: out.waiting() as u64 }
}

/// Ten rows of each of 50 nodes with 8 GPUs: read and watched.
pub(crate) fn telemetry_rows() -> WriteCounts {
    const NODES: usize = 50;
    const EACH: u64 = 10;
    let runtime = runtime();
    let columns: Vec<String> = COLUMNS.iter().map(|c| (*c).to_owned()).collect();
    let mut nodes: Vec<(NodeName, SimNode)> = (0..NODES)
        .map(|i| (name(i), SimNode::new(1, SimConfig::default(), name(i).as_str(), START)))
        .collect();
    let mut rows = Vec::new();
    for row in 0..EACH {
        let at = START + Span::secs(10 * row);
        for (node, device) in &mut nodes {
            let _ = device.advance(at);
            // Names are sent once, as agents do.
            let columns = if row == 0 { columns.clone() } else { Vec::new() };
            let (gpus, host) = (device.telemetry(), device.host_metrics());
            let row = Telemetry { at, columns, gpus, host };
            rows.push((node.clone(), frame(&FromAgent::Telemetry(Box::new(row)))));
        }
    }
    let mut watch = Watch::new(WatchConfig::default());
    let mut bytes = 0;
    measured(|| {
        for (node, row) in &rows {
            bytes += row.len() as u64;
            let FromAgent::Telemetry(t) = read(&runtime, row) else {
                panic!("another message than was written");
            };
            let gpus: Vec<f32> = t.gpus.iter().flatten().map(|v| v.unwrap_or(f32::NAN)).collect();
            let host_columns: Vec<String> = t.host.keys().cloned().collect();
            let host: Vec<f32> = t.host.values().map(|v| *v as f32).collect();
            watch.signals(&Signals {
                node,
                at: t.at,
                columns: &columns,
                gpus: &gpus,
                host_columns: &host_columns,
                host: &host,
            });
        }
    });
    WriteCounts { records: 0, bytes }
}

/// Nothing here waits: it only turns the crank of what is written for connections.
fn runtime() -> Runtime {
    Builder::new_current_thread().build().expect("a runtime without threads")
}

fn read(runtime: &Runtime, bytes: &[u8]) -> FromAgent {
    let mut reader = FrameReader::new(bytes, MAX_FROM_AGENT);
    match runtime.block_on(reader.next::<FromAgent>()) {
        Ok(Some(Frame::Message(message))) => message,
        other => panic!("no message: {other:?}"),
    }
}

/// A message as it is on the way: length, kind, JSON.
fn frame(message: &FromAgent) -> Vec<u8> {
    let json = serde_json::to_vec(message).expect("it can be written");
    let length = u32::try_from(json.len()).expect("it is small");
    let mut out = Vec::with_capacity(json.len() + 5);
    out.extend(length.to_be_bytes());
    out.push(0);
    out.extend(json);
    out
}

fn name(i: usize) -> NodeName {
    format!("n{i:05}").parse().expect("made of letters and digits")
}
