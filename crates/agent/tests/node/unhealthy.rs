//! Simulated nodes that are unhealthy, and acts that make them well.

use crate::server::{Conn, Server, run};
use crate::session::{TTL, block, fleet};
use crate::support::key;
use muster_agent::testing::detail;
use muster_link::messages::{FromAgent, FromServer, Hello, ProgressReport, RunDetail};
use muster_model::command::Observed;
use muster_model::fault::ObservedFault;
use muster_model::ids::AttemptKey;
use muster_model::inject::Inject as Fault;
use muster_model::job::SlotEnd;
use muster_model::placement::GpuSet;
use muster_model::remediation::Act;
use muster_model::spec::Simulate;
use muster_model::units::Span;
use std::collections::BTreeMap;

pub(crate) fn all() -> Vec<crate::Test> {
    crate::tests![unhealthy:
        a_gpu_that_falls_off_the_bus_is_reported_first_and_then_its_work_dies,
        a_line_of_the_kernels_log_is_judged_as_on_a_real_node,
        a_gang_steps_together_and_its_slow_share_shows,
        an_agent_that_hangs_still_has_a_heartbeat,
        a_reset_is_done_once_and_reported_until_it_is_over,
        a_restart_brings_a_lost_gpu_back,
        a_node_is_as_it_was_when_its_process_is_started_again,
        the_next_attempt_goes_on_from_the_checkpoint,
    ]
}

fn training(run: Span, step: Span) -> RunDetail {
    let mut d = detail("");
    d.slot.gpus = GpuSet(0xff);
    d.simulate = Some(Simulate { run, step: Some(step), ..Simulate::default() });
    d
}

async fn inject(conn: &mut Conn, fault: Fault) {
    conn.say(&FromServer::Inject { fault }).await;
    let ok = conn
        .until(|m| match m {
            FromAgent::Injected { ok, message } => Some((*ok, message.clone())),
            _ => None,
        })
        .await;
    assert!(ok.0, "{}", ok.1);
}

async fn faults(conn: &mut Conn) -> Vec<ObservedFault> {
    conn.until(|m| match m {
        FromAgent::Faults { faults } => Some(faults.clone()),
        _ => None,
    })
    .await
}

async fn one(server: &Server) -> (Conn, Hello) {
    server.join(TTL).await;
    server.welcome(1).await
}

pub(crate) fn a_gpu_that_falls_off_the_bus_is_reported_first_and_then_its_work_dies() {
    block(async {
        let (server, dir) = (Server::start().await, tempfile::tempdir().unwrap());
        // A slow clock: its work dies two seconds later, and it connects anew before that.
        let agent = fleet(&server, dir.path(), 1, 0.2, false);
        let (mut conn, hello) = one(&server).await;
        assert!(hello.inventory.can.contains("reset") && hello.inventory.can.contains("reboot"));
        let k = key();
        conn.desire(1, vec![run(k, &training(Span::hours(1), Span::secs(1)))]).await;
        conn.report(k, &Observed::Running).await;
        inject(&mut conn, Fault::Xid { gpu: 3, code: 79 }).await;
        let seen = faults(&mut conn).await;
        assert_eq!((seen[0].code.as_str(), seen[0].gpu), ("xid-79", Some(3)));
        assert_eq!((seen[0].attempt, seen[0].rank), (Some(k), Some(0)));
        // Only then does the node say that it has one GPU less.
        let (mut conn, fewer) = server.welcome(1).await;
        assert_eq!(fewer.inventory.gpus.len(), 7);
        assert_eq!(fewer.observed, vec![(k, Observed::Running)]);
        match conn.end(k).await {
            SlotEnd::Failed { exit } => {
                assert_eq!(exit.code, Some(1));
                assert!(exit.note.starts_with("XID 79 on GPU 3"), "{}", exit.note);
            }
            other => panic!("{other:?}"),
        }
        inject(&mut conn, Fault::Repair).await;
        let (_conn, whole) = server.welcome(1).await;
        assert_eq!(whole.inventory.gpus.len(), 8);
        agent.stop().await;
    });
}

pub(crate) fn a_line_of_the_kernels_log_is_judged_as_on_a_real_node() {
    block(async {
        let (server, dir) = (Server::start().await, tempfile::tempdir().unwrap());
        let agent = fleet(&server, dir.path(), 1, 1.0, false);
        let (mut conn, _) = one(&server).await;
        let text = "EDAC MC0: 1 UE memory read error on CPU_SrcID#0_MC#0_Chan#0_DIMM#0".to_owned();
        inject(&mut conn, Fault::KernelLine { text }).await;
        let seen = faults(&mut conn).await;
        assert!(seen[0].code.starts_with("edac"), "{seen:?}");
        assert_eq!(seen[0].gpu, None);
        // Both lines of an uncorrectable error are there, whoever is hurt by it.
        inject(&mut conn, Fault::EccUncorrectable { gpu: 1 }).await;
        let seen = faults(&mut conn).await;
        let codes: Vec<_> = seen.iter().map(|f| (f.code.as_str(), f.gpu)).collect();
        assert_eq!(codes, [("xid-48", Some(1)), ("xid-63", Some(1))]);
        agent.stop().await;
    });
}

type Stages = BTreeMap<String, f64>;

async fn step(conn: &mut Conn, key: AttemptKey, fits: impl Fn(f64, &Stages) -> bool) -> Stages {
    conn.until(|m| match m {
        FromAgent::Progress {
            key: k,
            report: ProgressReport::Step { t: Some(t), stages, .. },
            ..
        } if *k == key && fits(*t, stages) => Some(stages.clone()),
        _ => None,
    })
    .await
}

pub(crate) fn a_gang_steps_together_and_its_slow_share_shows() {
    block(async {
        let (server, dir) = (Server::start().await, tempfile::tempdir().unwrap());
        let agent = fleet(&server, dir.path(), 2, 10.0, false);
        let mut up = server.welcome_all(2, TTL).await;
        let (k, mut share) = (key(), training(Span::hours(100), Span::secs(1)));
        share.nodes = vec!["sim-0".parse().unwrap(), "sim-1".parse().unwrap()];
        share.world_size = 2;
        for (rank, conn) in (0..).zip(&mut up) {
            share.slot.first_rank = rank;
            conn.desire(1, vec![run(k, &share)]).await;
            conn.report(k, &Observed::Running).await;
        }
        for conn in &mut up {
            let sound = step(conn, k, |_, _| true).await;
            assert_eq!(sound.keys().collect::<Vec<_>>(), ["comm", "compute", "h2d", "read"]);
            assert!(sound["compute"] > 4.0 * sound["comm"], "{sound:?}");
        }
        inject(&mut up[1], Fault::SlowWork { key: k, percent: 100 }).await;
        let slow = step(&mut up[1], k, |t, _| t > 1.6).await;
        assert!(slow["compute"] > 1.4 && slow["comm"] < 0.3, "{slow:?}");
        let waits = step(&mut up[0], k, |t, _| t > 1.6).await;
        assert!(waits["compute"] < 1.0 && waits["comm"] > 0.6, "{waits:?}");
        inject(&mut up[1], Fault::Repair).await;
        step(&mut up[0], k, |t, s| t < 1.1 && s["comm"] < 0.3).await;
        agent.stop().await;
    });
}

pub(crate) fn an_agent_that_hangs_still_has_a_heartbeat() {
    block(async {
        let (server, dir) = (Server::start().await, tempfile::tempdir().unwrap());
        let agent = fleet(&server, dir.path(), 1, 1.0, false);
        let (mut conn, _) = one(&server).await;
        let reported = |m: &FromAgent| match m {
            FromAgent::Telemetry(t) => Some(t.clone()),
            _ => None,
        };
        let row = conn.until(reported).await;
        assert_eq!(row.host["port.mlx5_0.up"].to_bits(), 1.0_f64.to_bits());
        assert!(row.host.contains_key("fs./data.read_ms") && row.host.contains_key("dstate"));
        inject(&mut conn, Fault::AgentHang { length: Span::hours(1) }).await;
        let mut beats = 0;
        conn.until(|m| {
            assert!(!matches!(m, FromAgent::Telemetry(_)), "it says nothing of itself");
            beats += u32::from(matches!(m, FromAgent::Heartbeat { .. }));
            (beats == 5).then_some(())
        })
        .await;
        inject(&mut conn, Fault::Repair).await;
        conn.until(reported).await;
        agent.stop().await;
    });
}

async fn acted(conn: &mut Conn, wanted: u64) -> (bool, String) {
    conn.until(|m| match m {
        FromAgent::Acted { id, ok, message } if *id == wanted => Some((*ok, message.clone())),
        _ => None,
    })
    .await
}

fn flag(row: &FromAgent, gpu: usize, name: &str) -> Option<bool> {
    let FromAgent::Telemetry(t) = row else { return None };
    let column = muster_simnode::COLUMNS.iter().position(|c| *c == name)?;
    t.gpus[gpu][column].map(|v| v > 0.5)
}

pub(crate) fn a_reset_is_done_once_and_reported_until_it_is_over() {
    block(async {
        let (server, dir) = (Server::start().await, tempfile::tempdir().unwrap());
        let agent = fleet(&server, dir.path(), 1, 100.0, false);
        let (mut conn, hello) = one(&server).await;
        let act = Act::ResetGpu { node: hello.node.clone(), gpu: 2 };
        inject(&mut conn, Fault::Remap { gpu: 2, pending: true, failed: false }).await;
        conn.until(|m| flag(m, 2, "remap_pending").filter(|on| *on)).await;
        // Whoever works there is left alone.
        let k = key();
        conn.desire(1, vec![run(k, &training(Span::hours(10), Span::secs(1)))]).await;
        conn.report(k, &Observed::Running).await;
        conn.say(&FromServer::Act { id: 1, act: act.clone() }).await;
        let (ok, why) = acted(&mut conn, 1).await;
        assert!(!ok && why.contains("works on GPU 2"), "{why}");
        conn.say(&FromServer::ActOver { id: 1 }).await;
        conn.desire(1, vec![]).await;
        conn.end(k).await;
        conn.say(&FromServer::Act { id: 2, act: act.clone() }).await;
        conn.say(&FromServer::Act { id: 2, act: act.clone() }).await;
        assert!(acted(&mut conn, 2).await.0);
        conn.until(|m| flag(m, 2, "remap_pending").filter(|on| !*on).map(drop)).await;
        // It is reported on the next connection, and not done again.
        inject(&mut conn, Fault::Remap { gpu: 2, pending: true, failed: false }).await;
        drop(conn);
        let (mut conn, _) = server.welcome(1).await;
        assert!(acted(&mut conn, 2).await.0);
        conn.say(&FromServer::Act { id: 2, act }).await;
        assert!(acted(&mut conn, 2).await.0);
        assert!(conn.until(|m| flag(m, 2, "remap_pending")).await, "it still waits");
        agent.stop().await;
    });
}

pub(crate) fn a_restart_brings_a_lost_gpu_back() {
    block(async {
        let (server, dir) = (Server::start().await, tempfile::tempdir().unwrap());
        let agent = fleet(&server, dir.path(), 1, 100.0, false);
        let (mut conn, hello) = one(&server).await;
        conn.say(&FromServer::Inject { fault: Fault::LoseGpu { gpu: 0 } }).await;
        let (mut conn, fewer) = server.welcome(1).await;
        assert_eq!(fewer.inventory.gpus.len(), 7);
        let act = Act::Reboot { node: hello.node.clone(), boot: fewer.boot.clone() };
        conn.say(&FromServer::Act { id: 9, act: act.clone() }).await;
        let (mut conn, back) = server.welcome(1).await;
        assert_ne!(back.boot, fewer.boot);
        assert_eq!(back.inventory.gpus.len(), 8);
        assert!(acted(&mut conn, 9).await.0);
        // Asked again, under this number or another, it stays up: it has restarted since.
        for id in [9, 10] {
            conn.say(&FromServer::Act { id, act: act.clone() }).await;
            assert!(acted(&mut conn, id).await.0);
        }
        agent.stop().await;
    });
}

pub(crate) fn a_node_is_as_it_was_when_its_process_is_started_again() {
    block(async {
        let (server, dir) = (Server::start().await, tempfile::tempdir().unwrap());
        let agent = fleet(&server, dir.path(), 1, 1.0, false);
        let (mut conn, _) = one(&server).await;
        let driver = Fault::Version { component: "driver".into(), version: "999.1".into() };
        conn.say(&FromServer::Inject { fault: driver }).await;
        let (mut conn, _) = server.welcome(1).await;
        conn.say(&FromServer::Inject { fault: Fault::LoseGpu { gpu: 0 } }).await;
        let (_conn, was) = server.welcome(1).await;
        assert_eq!(was.inventory.gpus.len(), 7);
        agent.stop().await;

        let agent = fleet(&server, dir.path(), 1, 1.0, true);
        let (mut conn, is) = server.welcome(1).await;
        assert_eq!((is.inventory, is.boot), (was.inventory, was.boot));
        // What was made well stays well.
        conn.say(&FromServer::Inject { fault: Fault::Repair }).await;
        let (_conn, sound) = server.welcome(1).await;
        agent.stop().await;
        let agent = fleet(&server, dir.path(), 1, 1.0, true);
        let (_conn, is) = server.welcome(1).await;
        assert_eq!((is.inventory.gpus.len(), is.inventory), (8, sound.inventory));
        agent.stop().await;
    });
}

pub(crate) fn the_next_attempt_goes_on_from_the_checkpoint() {
    block(async {
        let (server, dir) = (Server::start().await, tempfile::tempdir().unwrap());
        let agent = fleet(&server, dir.path(), 1, 20.0, false);
        let (mut conn, _) = one(&server).await;
        let (first, mut share) = (key(), training(Span::hours(100), Span::secs(1)));
        if let Some(s) = &mut share.simulate {
            s.checkpoint = Some(Span::secs(40));
        }
        conn.desire(1, vec![run(first, &share)]).await;
        let saved = conn
            .until(|m| match m {
                FromAgent::Progress { report: ProgressReport::Checkpoint { step, .. }, .. } => {
                    *step
                }
                _ => None,
            })
            .await;
        assert!(saved >= 40, "{saved}");
        inject(&mut conn, Fault::Xid { gpu: 3, code: 79 }).await;
        let (mut conn, _) = server.welcome(1).await;
        assert!(matches!(conn.end(first).await, SlotEnd::Failed { .. }));
        // The server says where the newest checkpoint stands; there are three GPUs for it.
        let again = AttemptKey { attempt: first.attempt + 1, ..first };
        share.resume_step = Some(saved);
        share.slot.gpus = GpuSet(0b111);
        conn.desire(1, vec![run(again, &share)]).await;
        let step = conn
            .until(|m| match m {
                FromAgent::Progress { key, report: ProgressReport::Step { step, .. }, .. }
                    if *key == again =>
                {
                    Some(*step)
                }
                _ => None,
            })
            .await;
        assert!(step > saved, "{step} after a checkpoint of {saved}");
        agent.stop().await;
    });
}
