//! Many nodes that signal at random: what the server makes of it, it measures itself.

use crate::fleet::node::{COLUMNS, inventory};
use crate::link::{Caller, ConnectionCommand, ConnectionEvent, Opening};
use crate::rng::Rng;
use crate::settings::{RunMode, Settings};
use crate::xid;
use anyhow::{Context, Result};
use muster_link::messages::{FromAgent, FromServer, Telemetry};
use muster_link::token::JoinToken;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{Semaphore, mpsc};

struct LightNode {
    say: mpsc::UnboundedSender<ConnectionCommand>,
    up: bool,
    columns_reported: bool,
}

const PERIOD: Duration = Duration::from_secs(10);

pub(crate) async fn live(settings: Settings) -> Result<()> {
    let RunMode::Signals { rate, steady_s, burst, burst_s } = settings.life else {
        anyhow::bail!("another mode was asked for");
    };
    let mut rng = Rng::new(settings.seed);
    let token: JoinToken = settings.join.parse().context("the join token")?;
    let turns = Arc::new(Semaphore::new(64));
    let (heard, mut inbox) = mpsc::unbounded_channel();
    let mut nodes = Vec::with_capacity(settings.nodes.len());
    for (index, place) in settings.nodes.iter().enumerate() {
        let node = place.name.parse().with_context(|| place.name.clone())?;
        let (say, orders) = mpsc::unbounded_channel();
        let caller = Caller {
            index,
            node,
            link: settings.link.clone(),
            token: token.clone(),
            inventory: inventory(&place.name),
            turns: turns.clone(),
            world: heard.clone(),
        };
        tokio::spawn(caller.run(orders));
        let _ = say.send(open());
        nodes.push(LightNode { say, up: false, columns_reported: false });
    }
    let count = nodes.len();
    let began = Instant::now();
    let mut up = 0;
    while up < count {
        let (i, what) = inbox.recv().await.context("nobody is left")?;
        up = take(&mut nodes, i, what, up);
        if began.elapsed() > Duration::from_secs(900) {
            anyhow::bail!("{up} of {count} nodes joined within 15 minutes");
        }
    }
    eprintln!("{count} nodes joined after {:.1} s", began.elapsed().as_secs_f64());
    // Everybody speaks once in a period; the rounds are spread over it.
    let part = Duration::from_millis(20);
    let mut pace = tokio::time::interval(part);
    let parts = (PERIOD.as_secs_f64() / part.as_secs_f64()) as usize;
    let settle = PERIOD.as_secs_f64() * 2.0;
    let all = settle + steady_s + burst_s + 5.0;
    let (mut owed, mut sent) = (0.0, 0u64);
    let start = Instant::now();
    let mut last = start;
    let mut phase = "";
    for n in 0.. {
        pace.tick().await;
        while let Ok((i, what)) = inbox.try_recv() {
            up = take(&mut nodes, i, what, up);
        }
        let passed = start.elapsed().as_secs_f64();
        if passed > all {
            break;
        }
        for i in (n % parts..count).step_by(parts) {
            send(&nodes[i], FromAgent::Heartbeat { at: crate::wall() });
            let row = row(&mut nodes[i], &mut rng);
            send(&nodes[i], FromAgent::Telemetry(Box::new(row)));
        }
        let (per_s, name) = match passed - settle {
            t if t < 0.0 => (0.0, "settling"),
            t if t < steady_s => (rate * count as f64, "steady"),
            t if t < steady_s + burst_s => (burst, "burst"),
            _ => (0.0, "over"),
        };
        if name != phase {
            phase = name;
            eprintln!("phase {phase} after {sent} signals");
        }
        owed += per_s * last.elapsed().as_secs_f64();
        last = Instant::now();
        while owed >= 1.0 {
            owed -= 1.0;
            sent += 1;
            let i = rng.below(count);
            signal(&nodes[i], &mut rng);
        }
    }
    eprintln!("{sent} signals sent, {up} nodes connected");
    Ok(())
}

fn open() -> ConnectionCommand {
    ConnectionCommand::Open(Box::new(Opening { boot: "boot-1".into(), observed: Vec::new() }))
}

fn take(nodes: &mut [LightNode], i: usize, what: ConnectionEvent, up: usize) -> usize {
    match what {
        ConnectionEvent::Up => {
            nodes[i].up = true;
            nodes[i].columns_reported = false;
            up + 1
        }
        ConnectionEvent::Down => {
            let was = std::mem::replace(&mut nodes[i].up, false);
            let _ = nodes[i].say.send(open());
            up - usize::from(was)
        }
        ConnectionEvent::Said(m) => {
            match *m {
                FromServer::Act { id, .. } => {
                    send(&nodes[i], FromAgent::Acted { id, ok: true, message: "done".into() });
                }
                FromServer::Qualify { .. } | FromServer::Desired { .. } => {}
                _ => {}
            }
            up
        }
    }
}

fn send(node: &LightNode, message: FromAgent) {
    if node.up {
        let _ = node.say.send(ConnectionCommand::Send(Box::new(message)));
    }
}

/// Mostly what programs do, now and then what would ask for a node; never the same twice soon.
fn signal(node: &LightNode, rng: &mut Rng) {
    let line = match rng.below(100) {
        0 => xid::REMAP_PENDING,
        1 => xid::ECC[2],
        n => xid::APP[n % 2],
    };
    let gpu = rng.below(8) as u32;
    let at = crate::wall();
    let faults = vec![xid::fault_line(line, at, 1, Some(gpu), None)];
    send(node, FromAgent::Faults { faults });
}

fn row(node: &mut LightNode, rng: &mut Rng) -> Telemetry {
    let columns = if std::mem::replace(&mut node.columns_reported, true) {
        Vec::new()
    } else {
        COLUMNS.map(String::from).to_vec()
    };
    let gpu = |rng: &mut Rng| {
        let busy = rng.range(0.95, 1.0);
        let values = [
            100.0 * busy,
            7.1e10,
            1830.0 * busy,
            2619.0,
            60.0 + 3.0 * busy,
            70.0,
            650.0 * busy,
            1e9,
            3e9,
            2e9,
            1.2e11,
            1.2e11,
            3.0,
            0.0,
            0.0,
            2.0,
            0.0,
            0.8 * busy,
            0.5,
            0.4,
            0.0,
            0.0,
            1.0,
            24.0,
            16.0,
            5.0,
            700.0,
        ];
        values.iter().map(|v| Some(*v as f32)).collect()
    };
    let gpus = (0..8).map(|_| gpu(rng)).collect();
    let mut host = BTreeMap::new();
    for p in 0..4 {
        host.insert(format!("port.mlx5_{p}.up"), 1.0);
        host.insert(format!("port.mlx5_{p}.symbol_errors"), 10.0);
    }
    host.insert("fs./data.read_ms".into(), rng.range(2.0, 3.0));
    host.insert("dstate".into(), 0.0);
    Telemetry { at: crate::wall(), columns, gpus, host }
}
