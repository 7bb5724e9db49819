//! What is plugged into the agent of a real machine: who tests it, watches it and reads figures.

use crate::server::Server;
use crate::support::{LONG, shim};
use muster_agent::cgroup::Cgroups;
use muster_agent::hooks::{Actor, FaultSource, Hooks, Progress, Qualifier, TelemetrySource};
use muster_agent::inventory::GpuSource;
use muster_agent::{AgentError, NodeConfig, run_node_with};
use muster_link::messages::{FromAgent, FromServer};
use muster_model::fault::{FaultAction, FaultClass, FaultSource as Source, ObservedFault};
use muster_model::node::Gpu;
use muster_model::qualification::{Level, Outcome, Qualification};
use muster_model::remediation::Act;
use muster_model::units::{Bytes, Span, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

pub(crate) fn all() -> Vec<crate::Test> {
    crate::tests![hooks:
        a_real_node_is_tested_and_says_so_until_it_is_heard,
        a_fault_is_reported_at_once_and_again_when_no_heartbeat_was_answered,
        figures_of_real_gpus_are_sent,
        an_act_on_a_real_node_is_done_once_and_outlives_the_agent,
    ]
}

struct OneGpu;

impl GpuSource for OneGpu {
    fn gpus(&self) -> Vec<Gpu> {
        vec![Gpu {
            index: 0,
            sku: "h200-sxm".into(),
            uuid: "GPU-0".into(),
            memory: Bytes::gib(141),
            ..Gpu::default()
        }]
    }

    fn versions(&self) -> BTreeMap<String, String> {
        BTreeMap::new()
    }
}

/// Everything that can be plugged in.
#[derive(Default)]
struct Machine {
    finish: AtomicBool,
    faults: Mutex<Vec<ObservedFault>>,
    wake: Arc<Notify>,
    resets: AtomicU32,
    reboots: AtomicU32,
}

impl Actor for Machine {
    fn can(&self) -> BTreeSet<String> {
        ["reset", "reboot"].map(str::to_owned).into()
    }

    fn reset_gpu(&self, gpu: u32) -> Result<String, String> {
        self.resets.fetch_add(1, Ordering::SeqCst);
        if gpu == 0 { Ok("well".into()) } else { Err("in use".into()) }
    }

    fn reboot(&self) -> Result<(), String> {
        self.reboots.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}

impl Qualifier for Machine {
    fn run(&self, level: Level, say: &dyn Fn(Progress), stop: &AtomicBool) -> Qualification {
        say(Progress { done: 0, of: 1, doing: "hbm-copy".into(), eta: None });
        while !self.finish.load(Ordering::Relaxed) && !stop.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(2));
        }
        Qualification {
            level,
            started_at: Time(1),
            took: Span(1),
            outcome: Outcome::Passed,
            checks: Vec::new(),
        }
    }
}

impl FaultSource for Machine {
    fn take(&self) -> Vec<ObservedFault> {
        std::mem::take(&mut self.faults.lock().unwrap())
    }

    fn waker(&self) -> Arc<Notify> {
        self.wake.clone()
    }
}

impl TelemetrySource for Machine {
    fn columns(&self) -> Vec<String> {
        vec!["util".into(), "temp".into()]
    }

    fn rows(&self) -> Vec<Vec<Option<f32>>> {
        vec![vec![Some(97.0), None]]
    }

    fn host(&self) -> BTreeMap<String, f64> {
        [("port.eth0.up".to_owned(), 1.0)].into()
    }
}

struct Agent {
    stop: CancellationToken,
    task: JoinHandle<Result<(), AgentError>>,
}

impl Agent {
    fn start(server: &Server, state: &Path, machine: &Arc<Machine>, joined: bool) -> Agent {
        let config = NodeConfig {
            server: server.addr.clone(),
            token: (!joined).then(|| server.token.clone()),
            node: "node-1".parse().unwrap(),
            state: state.to_path_buf(),
            address: None,
            shim: shim(),
            gpus: Arc::new(OneGpu),
            cgroups: Some(Arc::new(Cgroups::none())),
            end_ranks: false,
        };
        let hooks = Hooks {
            qualifier: Some(machine.clone()),
            faults: Some(machine.clone()),
            telemetry: Some(machine.clone()),
            actor: Some(machine.clone()),
            pool: "train".into(),
            ..Hooks::default()
        };
        let stop = CancellationToken::new();
        Agent { task: tokio::spawn(run_node_with(config, hooks, stop.clone())), stop }
    }

    async fn stop(self) {
        self.stop.cancel();
        timeout(LONG, self.task).await.unwrap().unwrap().unwrap();
    }
}

fn block(test: impl Future<Output = ()>) {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async { timeout(LONG * 2, test).await.expect("took too long") });
}

const TTL: Span = Span::mins(600);

/// A server, and a machine that has joined it, with where that keeps its things.
async fn joined() -> (Server, tempfile::TempDir, Arc<Machine>, Agent) {
    let (server, dir) = (Server::start().await, tempfile::tempdir().unwrap());
    let machine = Arc::new(Machine::default());
    let agent = Agent::start(&server, dir.path(), &machine, false);
    server.join(TTL).await;
    (server, dir, machine, agent)
}

pub(crate) fn a_real_node_is_tested_and_says_so_until_it_is_heard() {
    block(async {
        let (server, _dir, machine, agent) = joined().await;
        let (mut conn, hello) = server.welcome(1).await;
        assert!(hello.inventory.can.contains("qualify"), "{:?}", hello.inventory.can);
        assert!(hello.inventory.can.contains("reset") && hello.inventory.pool == "train");
        assert_eq!(hello.qualifying, None);
        conn.say(&FromServer::Qualify { id: 7, level: Level::Quick }).await;
        conn.until(|m| matches!(m, FromAgent::Qualifying { id: 7, .. }).then_some(())).await;
        // The line is lost; the test goes on, and is reported.
        drop(conn);
        let (mut conn, hello) = server.welcome(1).await;
        assert_eq!(hello.qualifying, Some(7));
        machine.finish.store(true, Ordering::Relaxed);
        let done = |m: &FromAgent| matches!(m, FromAgent::Qualified { id: 7, .. }).then_some(());
        conn.until(done).await;
        drop(conn);
        let (mut conn, hello) = server.welcome(1).await;
        assert_eq!(hello.qualifying, Some(7), "nobody said that it was taken in");
        conn.until(done).await;
        conn.say(&FromServer::QualifyOver { id: 7 }).await;
        drop(conn);
        let (_conn, hello) = server.welcome(1).await;
        assert!(hello.qualifying.is_none_or(|id| id == 7), "it may have been lost with the line");
        agent.stop().await;
    });
}

fn fault(code: &str) -> ObservedFault {
    ObservedFault {
        code: code.into(),
        at: Time(1),
        count: 1,
        source: Source::Kernel,
        class: FaultClass::Bus,
        action: FaultAction::Reboot,
        gpu: Some(0),
        pid: None,
        attempt: None,
        rank: None,
        text: String::new(),
    }
}

fn codes(m: &FromAgent) -> Option<Vec<String>> {
    match m {
        FromAgent::Faults { faults } => Some(faults.iter().map(|f| f.code.clone()).collect()),
        _ => None,
    }
}

pub(crate) fn a_fault_is_reported_at_once_and_again_when_no_heartbeat_was_answered() {
    block(async {
        let (server, _dir, machine, agent) = joined().await;
        let (mut conn, _) = server.welcome(1).await;
        // No heartbeat is answered on this connection.
        machine.faults.lock().unwrap().push(fault("xid-79"));
        machine.wake.notify_one();
        while codes(&conn.next().await).is_none() {}
        drop(conn);
        let (mut conn, _) = server.welcome(1).await;
        assert_eq!(conn.until(codes).await, ["xid-79"], "it may not have arrived");
        // On this one they are: what was said before is not said again.
        for _ in 0..3 {
            conn.until(|m| matches!(m, FromAgent::Heartbeat { .. }).then_some(())).await;
        }
        // What it does afterwards shows that it has read the answers: they would be lost with the
        // line otherwise.
        let act = Act::ResetGpu { node: "node-1".parse().unwrap(), gpu: 0 };
        conn.say(&FromServer::Act { id: 1, act }).await;
        conn.until(acted(1)).await;
        drop(conn);
        let (mut conn, _) = server.welcome(1).await;
        machine.faults.lock().unwrap().push(fault("xid-31"));
        machine.wake.notify_one();
        assert_eq!(conn.until(codes).await, ["xid-31"]);
        agent.stop().await;
    });
}

pub(crate) fn figures_of_real_gpus_are_sent() {
    block(async {
        let (server, _dir, _machine, agent) = joined().await;
        let (mut conn, _) = server.welcome(1).await;
        let sent = conn.until(|m| match m {
            FromAgent::Telemetry(t) => Some(t.clone()),
            _ => None,
        });
        let sent = sent.await;
        assert_eq!(sent.columns, ["util", "temp"]);
        assert_eq!(sent.gpus, [[Some(97.0), None]]);
        assert!(sent.host.contains_key("port.eth0.up") && sent.host.contains_key("load1"));
        agent.stop().await;
    });
}

fn acted(wanted: u64) -> impl Fn(&FromAgent) -> Option<(bool, String)> {
    move |m| match m {
        FromAgent::Acted { id, ok, message } if *id == wanted => Some((*ok, message.clone())),
        _ => None,
    }
}

pub(crate) fn an_act_on_a_real_node_is_done_once_and_outlives_the_agent() {
    block(async {
        let (server, dir, machine, agent) = joined().await;
        let (mut conn, hello) = server.welcome(1).await;
        let reset = |gpu| Act::ResetGpu { node: hello.node.clone(), gpu };
        for _ in 0..3 {
            conn.say(&FromServer::Act { id: 1, act: reset(0) }).await;
        }
        assert_eq!(conn.until(acted(1)).await, (true, "well".into()));
        conn.say(&FromServer::Act { id: 2, act: reset(5) }).await;
        assert_eq!(conn.until(acted(2)).await, (false, "in use".into()));
        assert_eq!(machine.resets.load(Ordering::SeqCst), 2);
        // A restart of another boot than this one is over already.
        let past = Act::Reboot { node: hello.node.clone(), boot: "before".into() };
        conn.say(&FromServer::Act { id: 3, act: past }).await;
        assert!(conn.until(acted(3)).await.0);
        assert_eq!(machine.reboots.load(Ordering::SeqCst), 0);
        let now = Act::Reboot { node: hello.node.clone(), boot: hello.boot.clone() };
        conn.say(&FromServer::Act { id: 4, act: now }).await;
        while machine.reboots.load(Ordering::SeqCst) == 0 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        // What only the server can do is refused.
        let power = Act::PowerCycle { node: hello.node.clone(), boot: hello.boot.clone() };
        conn.say(&FromServer::Act { id: 5, act: power }).await;
        assert!(!conn.until(acted(5)).await.0);
        agent.stop().await;
        drop(conn);
        let agent = Agent::start(&server, dir.path(), &machine, true);
        let (mut conn, _) = server.welcome(1).await;
        assert!(conn.until(acted(1)).await.0, "another agent knows it too");
        conn.say(&FromServer::Act { id: 1, act: reset(0) }).await;
        assert!(conn.until(acted(1)).await.0);
        assert_eq!(machine.resets.load(Ordering::SeqCst), 2);
        agent.stop().await;
    });
}
