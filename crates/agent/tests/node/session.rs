//! Agents against a scripted server.

use crate::server::{Conn, Server, run};
use crate::support::{LONG, key, shim};
use muster_agent::cgroup::Cgroups;
use muster_agent::inventory::NoGpus;
use muster_agent::testing::detail;
use muster_agent::{AgentError, FleetConfig, NodeConfig, run_node, run_sim_fleet};
use muster_link::messages::{
    Action, FromAgent, FromServer, LogMark, ProgressReport, RunOrder, Stream,
};
use muster_model::command::Observed;
use muster_model::ids::{Epoch, Seq, SiteId};
use muster_model::inject::Inject;
use muster_model::job::SlotEnd;
use muster_model::placement::{AllocatedPart, GpuSet};
use muster_model::spec::{OnPartition, Simulate};
use muster_model::units::Span;
use muster_simnode::{SimConfig, Sku};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

pub(crate) fn all() -> Vec<crate::Test> {
    crate::tests![session:
        a_node_joins_runs_and_ships_output_before_the_end,
        a_restarted_agent_reports_what_still_runs,
        an_agent_with_the_key_in_another_directory_says_so,
        an_old_leader_is_refused,
        a_silent_server_makes_an_attempt_stop_itself,
        a_server_of_another_site_is_refused,
        a_refusal_for_good_ends_the_agent_with_its_reason,
        a_second_agent_on_one_directory_is_refused,
        a_node_without_identity_and_token_says_what_to_do,
        what_is_not_named_is_stopped_and_what_is_unknown_is_reported,
        an_end_that_was_not_taken_in_is_reported_again_when_the_server_decides_anew,
        a_node_that_was_reconciled_keeps_to_the_new_end_of_the_log,
        a_certificate_is_renewed_before_it_ends,
        simulated_work_runs_on_the_nodes_clock,
        a_simulated_node_crashes_and_comes_back_with_a_new_boot,
        a_light_fleet_rejoins_without_a_token,
        a_real_node_does_not_pretend,
        only_a_simulated_node_runs_on_a_mig_slice,
        a_node_goes_on_to_the_next_server_that_answers,
        a_checkpoint_reaches_the_next_connection_before_the_end,
    ]
}

pub(crate) fn block(test: impl Future<Output = ()>) {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async { timeout(LONG * 2, test).await.expect("took too long") });
}

pub(crate) struct Agent {
    stop: CancellationToken,
    task: JoinHandle<Result<(), AgentError>>,
}

impl Agent {
    async fn ended(self) -> Result<(), AgentError> {
        timeout(LONG, self.task).await.unwrap().unwrap()
    }

    pub(crate) async fn stop(self) {
        self.stop.cancel();
        self.ended().await.unwrap();
    }
}

fn node(server: &Server, state: &Path, joined: bool) -> Agent {
    node_of(server, &server.addr, state, joined)
}

fn node_of(server: &Server, addresses: &str, state: &Path, joined: bool) -> Agent {
    let config = NodeConfig {
        server: addresses.to_owned(),
        token: (!joined).then(|| server.token.clone()),
        node: "node-1".parse().unwrap(),
        state: state.to_path_buf(),
        address: None,
        shim: shim(),
        gpus: Arc::new(NoGpus),
        cgroups: Some(Arc::new(Cgroups::none())),
        end_ranks: false,
    };
    let stop = CancellationToken::new();
    Agent { task: tokio::spawn(run_node(config, stop.clone())), stop }
}

pub(crate) fn fleet(server: &Server, state: &Path, nodes: u32, speed: f64, joined: bool) -> Agent {
    let name = |i| (format!("sim-{i}").parse().unwrap(), SimConfig::of(Sku::H100Sxm, 8));
    let config = FleetConfig {
        server: server.addr.clone(),
        token: (!joined).then(|| server.token.clone()),
        state: state.to_path_buf(),
        nodes: (0..nodes).map(name).collect(),
        speed,
        seed: 1,
        shim: shim(),
        most_ranks: None,
        past: std::collections::BTreeMap::new(),
        light: true,
        end_ranks: true,
        cgroups: Some(Arc::new(Cgroups::none())),
    };
    let stop = CancellationToken::new();
    Agent { task: tokio::spawn(run_sim_fleet(config, stop.clone())), stop }
}

pub(crate) const TTL: Span = Span::mins(600);

/// A server, and a node that has joined it, with where that keeps its things.
async fn joined() -> (Server, tempfile::TempDir, Agent) {
    let (server, dir) = (Server::start().await, tempfile::tempdir().unwrap());
    let agent = node(&server, dir.path(), false);
    server.join(TTL).await;
    (server, dir, agent)
}

pub(crate) fn a_node_joins_runs_and_ships_output_before_the_end() {
    block(async {
        let (server, dir, agent) = joined().await;
        let (mut conn, hello) = server.welcome(3).await;
        assert_eq!((hello.node.as_str(), hello.site.as_ref()), ("node-1", Some(&server.site)));
        assert!(hello.inventory.cpus > 0 && hello.observed.is_empty());
        assert_eq!(hello.address, "127.0.0.1");
        let k = key();
        let d = detail("i=0; while [ $i -lt 500 ]; do echo line $i; i=$((i+1)); done; exit 4");
        conn.desire(3, vec![run(k, &d)]).await;
        match conn.end(k).await {
            SlotEnd::Failed { exit } => assert_eq!(exit.code, Some(4)),
            other => panic!("{other:?}"),
        }
        let text = conn.text();
        assert!(text.ends_with("line 499\n"), "every byte came before the end");
        // The order stays; the attempt is reported again and not run again.
        conn.desire(3, vec![run(k, &d)]).await;
        conn.end(k).await;
        let offset = text.len() as u64;
        let mark = LogMark { key: k, rank: 0, stream: Stream::Stdout, offset };
        conn.say(&FromServer::LogKept { kept: vec![mark] }).await;
        conn.say(&FromServer::Forget { keys: vec![k] }).await;
        let trace = dir.path().join("runs").join(k.to_string());
        while trace.exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        agent.stop().await;
    });
}

pub(crate) fn a_restarted_agent_reports_what_still_runs() {
    block(async {
        let (server, dir, agent) = joined().await;
        let (mut conn, _) = server.welcome(1).await;
        // Ranks have a /tmp of their own; they see what they are asked to work in.
        let files = crate::support::open_dir();
        let (k, go) = (key(), files.path().join("go"));
        let script = format!("echo a; until [ -e {} ]; do sleep 0.02; done; echo b", go.display());
        let mut d = detail(&script);
        d.run.workdir = Some(files.path().display().to_string());
        conn.desire(1, vec![run(k, &d)]).await;
        conn.report(k, &Observed::Running).await;
        agent.stop().await;
        let agent = node(&server, dir.path(), true);
        let (mut conn, hello) = server.welcome(2).await;
        assert_eq!(hello.observed, vec![(k, Observed::Running)]);
        assert_eq!(hello.epoch, Epoch(1));
        assert!(hello.seq >= Seq(7));
        conn.desire(2, vec![RunOrder { key: k, action: Action::Run, detail: None }]).await;
        std::fs::write(go, "").unwrap();
        assert_eq!(conn.end(k).await, SlotEnd::Ok);
        assert_eq!(conn.text(), "a\nb\n");
        agent.stop().await;
    });
}

pub(crate) fn an_agent_with_the_key_in_another_directory_says_so() {
    block(async {
        let (server, dir, agent) = joined().await;
        let (mut conn, first) = server.welcome(1).await;
        let files = crate::support::open_dir();
        let (k, go) = (key(), files.path().join("go"));
        let mut d = detail(&format!("until [ -e {} ]; do sleep 0.02; done", go.display()));
        d.run.workdir = Some(files.path().display().to_string());
        conn.desire(1, vec![run(k, &d)]).await;
        conn.report(k, &Observed::Running).await;
        agent.stop().await;
        // Everything but the records of what runs, so that it knows nothing of it.
        let copy = tempfile::tempdir().unwrap();
        for entry in std::fs::read_dir(dir.path()).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_file() {
                std::fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
            }
        }
        let agent = node(&server, copy.path(), true);
        let (_conn, other) = server.welcome(2).await;
        assert_eq!((&other.machine, &other.boot), (&first.machine, &first.boot));
        assert_eq!(other.observed, vec![]);
        assert_ne!(other.place, first.place, "its ranks run, and it cannot know");
        agent.stop().await;
        let agent = node(&server, dir.path(), true);
        let (mut conn, again) = server.welcome(3).await;
        assert_eq!(again.place, first.place);
        assert_eq!(again.observed, vec![(k, Observed::Running)]);
        conn.desire(3, vec![RunOrder { key: k, action: Action::Run, detail: None }]).await;
        std::fs::write(go, "").unwrap();
        assert_eq!(conn.end(k).await, SlotEnd::Ok);
        agent.stop().await;
    });
}

pub(crate) fn an_old_leader_is_refused() {
    block(async {
        let (server, _dir, agent) = joined().await;
        let (mut conn, _) = server.welcome(5).await;
        let k = key();
        conn.desire(4, vec![run(k, &detail("touch started"))]).await;
        while conn.try_next().await.is_some() {}
        let (mut conn, hello) = server.welcome(4).await;
        assert_eq!((hello.epoch, hello.observed.len()), (Epoch(5), 0), "nothing was started");
        while conn.try_next().await.is_some() {}
        let (_conn, _) = server.welcome(6).await;
        agent.stop().await;
    });
}

pub(crate) fn a_silent_server_makes_an_attempt_stop_itself() {
    block(async {
        let (server, dir, agent) = joined().await;
        let (mut conn, _) = server.welcome(1).await;
        // Longer than a busy machine keeps a server that still answers from being heard.
        let (k, lease) = (key(), Span::secs(8));
        let mut d = detail("exec sleep 1000");
        d.on_partition = OnPartition::StopAfter(lease);
        conn.desire(1, vec![run(k, &d)]).await;
        conn.report(k, &Observed::Running).await;
        // Reads everything, answers nothing.
        loop {
            if let FromAgent::Report { observed: Observed::Ended(end), .. } = conn.next().await {
                assert_eq!(end, SlotEnd::no_server(lease));
                break;
            }
        }
        // The same without any connection, reported when it is back.
        drop(conn);
        let (mut conn, _) = server.welcome(1).await;
        let again = key();
        conn.desire(1, vec![run(again, &d)]).await;
        conn.report(again, &Observed::Running).await;
        drop(conn);
        let record = dir.path().join("runs").join(again.to_string()).join("record");
        while !std::fs::read_to_string(&record).unwrap().contains("\"end\"") {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let (mut conn, _) = server.welcome(1).await;
        conn.desire(1, vec![RunOrder { key: again, action: Action::Run, detail: None }]).await;
        assert!(matches!(conn.end(again).await, SlotEnd::NodeFault { .. }));
        agent.stop().await;
    });
}

pub(crate) fn a_server_of_another_site_is_refused() {
    block(async {
        let (mut server, _dir, agent) = joined().await;
        server.site = SiteId("site-2".into());
        let _conn = server.welcome(1).await;
        let e = agent.ended().await.unwrap_err();
        assert!(
            matches!(&e, AgentError::WrongSite { own, found } if own == "site-1" && found == "site-2")
        );
    });
}

pub(crate) fn a_refusal_for_good_ends_the_agent_with_its_reason() {
    block(async {
        let (server, dir) = (Server::start().await, tempfile::tempdir().unwrap());
        let agent = node(&server, dir.path(), false);
        let mut conn = server.accept().await;
        let refusal = |retry, message: &str| FromServer::Refused {
            code: "token".into(),
            message: message.into(),
            retry,
        };
        assert!(matches!(conn.next().await, FromAgent::Join { .. }));
        conn.say(&refusal(true, "busy")).await;
        let mut conn = server.accept().await;
        assert!(matches!(conn.next().await, FromAgent::Join { .. }));
        conn.say(&refusal(false, "the token has expired; make a new one")).await;
        let e = agent.ended().await.unwrap_err().to_string();
        assert!(e.contains("expired; make a new one"), "{e}");
    });
}

pub(crate) fn a_second_agent_on_one_directory_is_refused() {
    block(async {
        let (server, dir, agent) = joined().await;
        let second = node(&server, dir.path(), false).ended().await;
        assert!(matches!(second, Err(AgentError::InUse { .. })), "{second:?}");
        agent.stop().await;
    });
}

pub(crate) fn a_node_without_identity_and_token_says_what_to_do() {
    block(async {
        let (server, dir) = (Server::start().await, tempfile::tempdir().unwrap());
        let e = node(&server, dir.path(), true).ended().await.unwrap_err().to_string();
        assert!(e.contains("muster token create"), "{e}");
    });
}

pub(crate) fn what_is_not_named_is_stopped_and_what_is_unknown_is_reported() {
    block(async {
        let (server, _dir, agent) = joined().await;
        let (mut conn, _) = server.welcome(1).await;
        let (one, two, three) = (key(), key(), key());
        conn.desire(1, vec![run(one, &detail("exec sleep 1000"))]).await;
        conn.report(one, &Observed::Running).await;
        let stop = Action::Stop { grace: Span::secs(1) };
        conn.desire(
            1,
            vec![
                RunOrder { key: two, action: stop, detail: None },
                RunOrder { key: three, action: Action::Run, detail: None },
            ],
        )
        .await;
        let mut ends = std::collections::BTreeMap::new();
        while ends.len() < 3 {
            if let FromAgent::Report { key, observed: Observed::Ended(end), .. } = conn.next().await
            {
                ends.insert(key, end);
            }
        }
        assert_eq!((&ends[&one], &ends[&two]), (&SlotEnd::Stopped, &SlotEnd::Stopped));
        assert!(matches!(ends[&three], SlotEnd::NodeFault { .. }));
        agent.stop().await;
    });
}

pub(crate) fn an_end_that_was_not_taken_in_is_reported_again_when_the_server_decides_anew() {
    block(async {
        let (server, _dir, agent) = joined().await;
        let (mut conn, _) = server.welcome(1).await;
        let k = key();
        conn.desire(1, vec![run(k, &detail("exit 0"))]).await;
        assert_eq!(conn.end(k).await, SlotEnd::Ok);
        // As after `muster node reconcile`: welcomed on the same line, and nothing is wanted.
        server.greet(&mut conn, 1).await;
        conn.desire(1, Vec::new()).await;
        assert_eq!(conn.end(k).await, SlotEnd::Ok);
        agent.stop().await;
    });
}

pub(crate) fn a_node_that_was_reconciled_keeps_to_the_new_end_of_the_log() {
    /// Everything that was said before is taken in: a real node refuses to break.
    async fn settle(conn: &mut Conn) {
        let fault = Inject::Crash { down: Span::secs(1) };
        conn.say(&FromServer::Inject { fault }).await;
        while !matches!(conn.next().await, FromAgent::Injected { .. }) {}
    }
    block(async {
        let (server, dir, agent) = joined().await;
        let (conn, _) = server.welcome(1).await;
        agent.stop().await;
        drop(conn);
        let path = dir.path().join("site.json");
        let mut site: serde_json::Value =
            serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        assert!(site["seq"].is_number(), "{site}");
        site["seq"] = 907.into();
        std::fs::write(&path, site.to_string()).unwrap();
        let restored = |protected| FromServer::Welcome {
            site: server.site.clone(),
            epoch: Epoch(5_000_000),
            seq: Seq(584),
            heartbeat: Span(100),
            telemetry: Span(100),
            protected,
            output_age: false,
        };
        let agent = node(&server, dir.path(), true);
        let mut conn = server.accept().await;
        assert_eq!(conn.hello().await.seq, Seq(907));
        conn.say(&restored(true)).await;
        settle(&mut conn).await;
        agent.stop().await;
        drop(conn);
        let agent = node(&server, dir.path(), true);
        let mut conn = server.accept().await;
        assert_eq!(conn.hello().await.seq, Seq(907), "nobody has decided yet");
        conn.say(&restored(true)).await;
        // As after `muster node reconcile`: welcomed on the same line.
        conn.say(&restored(false)).await;
        conn.desire(5_000_000, Vec::new()).await;
        settle(&mut conn).await;
        agent.stop().await;
        drop(conn);
        let agent = node(&server, dir.path(), true);
        let mut conn = server.accept().await;
        let hello = conn.hello().await;
        assert_eq!((hello.seq, hello.epoch), (Seq(584), Epoch(5_000_000)));
        agent.stop().await;
    });
}

pub(crate) fn a_certificate_is_renewed_before_it_ends() {
    block(async {
        let (server, dir, agent) = joined().await;
        let (conn, _) = server.welcome(1).await;
        agent.stop().await;
        drop(conn);
        // It was given so long ago that less than a third of its life is left: nobody has to wait
        // for that, nor to be quick before it ends.
        let path = dir.path().join("site.json");
        let mut site: serde_json::Value =
            serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        assert!(site["certified"].is_number(), "{site}");
        site["certified"] = 0.into();
        std::fs::write(&path, site.to_string()).unwrap();
        let before = std::fs::read_to_string(dir.path().join("node.pem")).unwrap();
        let key = std::fs::read(dir.path().join("node.key")).unwrap();
        let agent = node(&server, dir.path(), true);
        let (mut conn, _) = server.welcome(1).await;
        let csr = conn
            .until(|m| match m {
                FromAgent::Renew { csr } => Some(csr.clone()),
                _ => None,
            })
            .await;
        let cert = server.certify(&csr, "node-1");
        conn.say(&FromServer::Renewed { cert: cert.clone() }).await;
        while std::fs::read_to_string(dir.path().join("node.pem")).unwrap() != cert {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_ne!(before, cert);
        let kept = std::fs::read(dir.path().join("node.key")).unwrap();
        assert_eq!(kept, key, "the enrolment is bound to the key");
        drop(conn);
        let (_conn, hello) = server.welcome(1).await;
        assert_eq!(hello.node.as_str(), "node-1");
        agent.stop().await;
    });
}

pub(crate) fn simulated_work_runs_on_the_nodes_clock() {
    block(async {
        let (server, dir) = (Server::start().await, tempfile::tempdir().unwrap());
        let agent = fleet(&server, dir.path(), 1, 1000.0, false);
        server.join(TTL).await;
        let (mut conn, hello) = server.welcome(1).await;
        assert!(hello.inventory.simulated);
        assert_eq!(hello.inventory.gpus.len(), 8);
        let (k, real) = (key(), key());
        let mut d = detail("");
        d.simulate = Some(Simulate {
            run: Span::mins(20),
            step: Some(Span::secs(2)),
            checkpoint: None,
            exit_code: 0,
            idle: false,
            ..Simulate::default()
        });
        conn.desire(1, vec![run(k, &d)]).await;
        // It takes little more than a second: on a busy machine all of this may come at once.
        let (mut spoke, mut columns) = (false, None);
        let reported = |m: &FromAgent| match m {
            FromAgent::Telemetry(t) => Some((t.gpus.len(), t.gpus[0].len())),
            _ => None,
        };
        let end = conn.until(|m| {
            spoke |= matches!(m, FromAgent::Progress { rank: 0, .. });
            columns = columns.or(reported(m));
            match m {
                FromAgent::Report { key, observed: Observed::Ended(end), .. } if *key == k => {
                    Some(end.clone())
                }
                _ => None,
            }
        });
        assert_eq!(end.await, SlotEnd::Ok);
        assert!(spoke, "its steps were reported before its end");
        if columns.is_none() {
            columns = Some(conn.until(reported).await);
        }
        assert_eq!(columns, Some((8, muster_simnode::COLUMNS.len())));
        // A command on a simulated node really runs.
        conn.desire(1, vec![run(real, &detail("echo hello from $MUSTER_JOB_ID"))]).await;
        assert_eq!(conn.end(real).await, SlotEnd::Ok);
        assert_eq!(conn.text(), format!("hello from {}\n", real.job));
        agent.stop().await;
    });
}

pub(crate) fn a_simulated_node_crashes_and_comes_back_with_a_new_boot() {
    block(async {
        let (server, dir) = (Server::start().await, tempfile::tempdir().unwrap());
        let agent = fleet(&server, dir.path(), 1, 1.0, false);
        server.join(TTL).await;
        let (mut conn, hello) = server.welcome(1).await;
        let k = key();
        conn.desire(1, vec![run(k, &detail("exec sleep 1000"))]).await;
        conn.report(k, &Observed::Running).await;
        conn.say(&FromServer::Inject { fault: Inject::LoseGpu { gpu: 2 } }).await;
        let (mut conn, fewer) = server.welcome(1).await;
        assert_eq!((fewer.inventory.gpus.len(), fewer.observed.len()), (7, 1));
        conn.say(&FromServer::Inject { fault: Inject::Crash { down: Span(200) } }).await;
        let (_conn, back) = server.welcome(1).await;
        assert_ne!(back.boot, hello.boot);
        assert!(back.observed.is_empty());
        agent.stop().await;
    });
}

pub(crate) fn a_light_fleet_rejoins_without_a_token() {
    block(async {
        let (server, dir) = (Server::start().await, tempfile::tempdir().unwrap());
        let agent = fleet(&server, dir.path(), 3, 1.0, false);
        // Joins and welcomes come in any order; answer each as it wants.
        let mut up = Vec::new();
        while up.len() < 3 {
            up.extend(server.meet(TTL).await);
        }
        agent.stop().await;
        let mut names: Vec<String> = up.iter().map(|(_, h)| h.node.to_string()).collect();
        names.sort();
        assert_eq!(names, ["sim-0", "sim-1", "sim-2"]);
        let agent = fleet(&server, dir.path(), 3, 1.0, true);
        for _ in 0..3 {
            let (_conn, hello) = server.welcome(1).await;
            assert_eq!(hello.site, Some(server.site.clone()));
        }
        let entries = std::fs::read_dir(dir.path()).unwrap().count();
        assert!(entries <= 4, "one file for all nodes");
        agent.stop().await;
    });
}

pub(crate) fn a_real_node_does_not_pretend() {
    block(async {
        let (server, _dir, agent) = joined().await;
        let (mut conn, _) = server.welcome(1).await;
        let k = key();
        let mut d = detail("echo no");
        d.simulate = Some(Simulate {
            run: Span::secs(1),
            step: None,
            checkpoint: None,
            exit_code: 0,
            idle: false,
            ..Simulate::default()
        });
        conn.desire(1, vec![run(k, &d)]).await;
        assert!(matches!(conn.end(k).await, SlotEnd::Unstartable { .. }));
        agent.stop().await;
    });
}

pub(crate) fn only_a_simulated_node_runs_on_a_mig_slice() {
    block(async {
        let (server, dir) = (Server::start().await, tempfile::tempdir().unwrap());
        let mut d = detail("echo $MUSTER_GPU_MIG");
        d.slot.gpus = GpuSet(1);
        d.slot.part = Some(AllocatedPart::Mig { profile: "3g.40gb".into(), start: 4, size: 4 });
        let agent = node(&server, &dir.path().join("real"), false);
        server.join(TTL).await;
        let (mut conn, _) = server.welcome(1).await;
        let k = key();
        conn.desire(1, vec![run(k, &d)]).await;
        let end = conn.end(k).await;
        assert!(
            matches!(&end, SlotEnd::Unstartable { reason } if reason.contains("MIG")),
            "{end:?}"
        );
        agent.stop().await;
        drop(conn);

        let agent = fleet(&server, &dir.path().join("sim"), 1, 1.0, false);
        server.join(TTL).await;
        let (mut conn, _) = server.welcome(1).await;
        let k = key();
        conn.desire(1, vec![run(k, &d)]).await;
        assert_eq!(conn.end(k).await, SlotEnd::Ok);
        assert_eq!(conn.text(), "3g.40gb@4\n");
        agent.stop().await;
    });
}

pub(crate) fn a_node_goes_on_to_the_next_server_that_answers() {
    block(async {
        let (server, dir) = (Server::start().await, tempfile::tempdir().unwrap());
        // Nobody listens at the first one, nor can anybody else begin to.
        let nobody = tokio::net::TcpSocket::new_v4().unwrap();
        nobody.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let gone = nobody.local_addr().unwrap();
        let agent = node_of(&server, &format!("{gone},{}", server.addr), dir.path(), false);
        server.join(TTL).await;
        let (conn, _) = server.welcome(1).await;
        drop(conn);
        let (conn, _) = server.welcome(1).await;
        agent.stop().await;
        drop(conn);
        let e = node_of(&server, "a:1,,b:2", dir.path(), true).ended().await.unwrap_err();
        assert!(e.to_string().contains("an entry is empty"), "{e}");
    });
}

pub(crate) fn a_checkpoint_reaches_the_next_connection_before_the_end() {
    block(async {
        let (server, _dir, agent) = joined().await;
        let (mut conn, _) = server.welcome(1).await;
        let k = key();
        let line = r#"{"checkpoint":{"state":"done","step":4,"path":"/c/4"}}"#;
        let d = detail(&format!("echo '{line}' >> $MUSTER_REPORT"));
        conn.desire(1, vec![run(k, &d)]).await;
        assert_eq!(conn.end(k).await, SlotEnd::Ok);
        // This server dies before it has written anything down.
        drop(conn);
        let (mut conn, hello) = server.welcome(1).await;
        assert_eq!(hello.observed, vec![(k, Observed::Running)], "its end is yet to come");
        conn.until(|m| match m {
            FromAgent::Progress {
                key,
                report: ProgressReport::Checkpoint { step: Some(4), .. },
                ..
            } => (*key == k).then_some(()),
            FromAgent::Report { observed: Observed::Ended(_), .. } => panic!("the end came first"),
            _ => None,
        })
        .await;
        assert_eq!(conn.end(k).await, SlotEnd::Ok);
        agent.stop().await;
    });
}
