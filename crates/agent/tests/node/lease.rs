//! Ranks stop when their lease runs out, whatever became of the agent. The agents here are
//! processes of their own, so that they can be ended, killed and stopped like any other.

use crate::accounts::without_namespaces;
use crate::server::{Conn, Server, run};
use crate::session::{TTL, block};
use crate::support::{Bench, LONG, alive, key, long_sleep, open_dir, shim, with_word};
use muster_agent::cgroup::Cgroups;
use muster_agent::inventory::NoGpus;
use muster_agent::isolation::Isolation;
use muster_agent::runner::RunnerTools;
use muster_agent::testing::detail;
use muster_agent::{NodeConfig, run_node};
use muster_link::messages::{Action, FromAgent, FromServer, RunDetail, RunOrder};
use muster_model::command::Observed;
use muster_model::ids::{AttemptKey, Seq};
use muster_model::job::SlotEnd;
use muster_model::spec::{CheckpointSpec, OnPartition};
use muster_model::units::Span;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

pub(crate) fn all() -> Vec<crate::Test> {
    crate::tests![lease:
        ranks_of_an_agent_that_was_ended_stop_at_the_end_of_their_lease,
        ranks_of_a_killed_agent_stop_at_the_end_of_their_lease,
        ranks_of_a_stopped_agent_stop_at_the_end_of_their_lease,
        ranks_of_a_stopped_supervisor_and_agent_are_killed_by_the_kernel,
        what_ranks_that_are_not_isolated_started_dies_with_their_supervisor,
        whoever_ignores_sigterm_or_left_its_rank_is_killed_too,
        an_agent_that_is_replaced_within_the_lease_disturbs_nobody,
        ranks_that_may_go_on_without_a_server_go_on_without_an_agent,
        an_order_that_waited_in_a_stopped_agent_starts_nothing,
        a_server_that_cannot_be_certain_that_it_leads_renews_no_lease,
    ]
}

/// First argument with which this executable is an agent.
pub(crate) const AGENT_ARG: &str = "__agent";

/// An agent: the server's address, its directory, and its token if it has not joined.
pub(crate) fn agent_main(args: &[String]) -> ! {
    let [server, state, rest @ ..] = args else { panic!("{args:?}") };
    let config = NodeConfig {
        server: server.clone(),
        token: rest.first().map(|t| t.parse().unwrap()),
        node: "node-1".parse().unwrap(),
        state: state.into(),
        address: None,
        shim: shim(),
        gpus: Arc::new(NoGpus),
        cgroups: Some(Arc::new(Cgroups::none())),
        end_ranks: false,
    };
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let ended = runtime.block_on(async {
        let stop = CancellationToken::new();
        let mut term =
            tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()).unwrap();
        let asked = stop.clone();
        tokio::spawn(async move {
            term.recv().await;
            asked.cancel();
        });
        run_node(config, stop).await
    });
    std::process::exit(i32::from(ended.is_err()))
}

/// An agent in a process of its own; killed with the test.
pub(crate) struct Agent(Child);

impl Agent {
    pub(crate) fn start(server: &Server, state: &Path, joined: bool) -> Agent {
        Agent::failing(server, state, joined, "")
    }

    /// One that fails at these points.
    pub(crate) fn failing(server: &Server, state: &Path, joined: bool, points: &str) -> Agent {
        let mut command = Command::new("/proc/self/exe");
        command.env("MUSTER_FAILPOINT", points);
        command.arg(AGENT_ARG).arg(&server.addr).arg(state);
        if !joined {
            command.arg(server.token.to_string());
        }
        Agent(command.stdin(Stdio::null()).spawn().unwrap())
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.0.id().cast_signed()).unwrap();
        kill_process(pid, signal).unwrap();
        // The kernel wakes one thread to stop all of them: until that one has a processor, the others
        // go on, and could still read what is sent next.
        if signal == Signal::STOP {
            let stopped = rustix::io::retry_on_intr(|| waitpid(Some(pid), WaitOptions::UNTRACED));
            assert!(stopped.unwrap().is_some_and(|(_, status)| status.stopped()));
        }
    }

    pub(crate) fn ended(&mut self) -> ExitStatus {
        self.0.wait().unwrap()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A server, an agent that has joined it, and what ranks and tests both see.
pub(crate) struct Site {
    pub(crate) server: Server,
    pub(crate) state: tempfile::TempDir,
    pub(crate) files: tempfile::TempDir,
}

impl Site {
    async fn start() -> (Site, Agent, Conn) {
        Site::failing("").await
    }

    /// With an agent that fails at these points.
    pub(crate) async fn failing(points: &str) -> (Site, Agent, Conn) {
        let server = Server::start().await;
        let (state, files) = (tempfile::tempdir().unwrap(), open_dir());
        let agent = Agent::failing(&server, state.path(), false, points);
        server.join(TTL).await;
        let (conn, _) = server.welcome(1).await;
        (Site { server, state, files }, agent, conn)
    }

    pub(crate) fn detail(&self, script: &str, lease: OnPartition) -> RunDetail {
        let mut d = detail(script);
        d.run.workdir = Some(self.files.path().display().to_string());
        d.on_partition = lease;
        d
    }

    /// Starts ranks that save checkpoints under a lease, and waits until they do.
    async fn saves(&self, conn: &mut Conn, key: AttemptKey, script: &str, ranks: u32) {
        let mut d = self.detail(script, STOPS);
        d.slot.ranks = ranks;
        d.world_size = ranks;
        d.checkpoint = Some(CheckpointSpec {
            dir: self.files.path().display().to_string(),
            // Less than ranks without a server get otherwise.
            grace: Some(Span(100)),
            ..CheckpointSpec::default()
        });
        conn.desire(1, vec![run(key, &d)]).await;
        conn.report(key, &Observed::Running).await;
        self.writes_on_with(conn).await;
    }

    /// How much the ranks have written so far.
    fn written(&self) -> usize {
        std::fs::read(self.files.path().join("saved")).map_or(0, |b| b.len())
    }

    /// Waits for writes while the server answers: the lease does not run out meanwhile.
    async fn writes_on_with(&self, conn: &mut Conn) {
        let (before, from) = (self.written(), Instant::now());
        while self.written() <= before {
            assert!(from.elapsed() < LONG, "the ranks do not write");
            conn.until(|m| matches!(m, FromAgent::Heartbeat { .. }).then_some(())).await;
        }
    }

    /// Waits for writes while nobody answers: only for ranks that need no server.
    pub(crate) async fn writes_on(&self) {
        let before = self.written();
        until("the ranks write", || self.written() > before).await;
    }

    fn record(&self, key: AttemptKey) -> String {
        let path = self.state.path().join("runs").join(key.to_string()).join("record");
        std::fs::read_to_string(path).unwrap_or_default()
    }

    /// Waits for the supervisor's last word; nobody else speaks here.
    async fn ends(&self, key: AttemptKey) -> Vec<i32> {
        until("the end of the ranks", || self.record(key).contains("{\"end\":")).await;
        self.ranks(key)
    }

    /// What the record says under a name.
    fn recorded(&self, key: AttemptKey, what: &str) -> serde_json::Value {
        let record = self.record(key);
        let mut lines =
            record.lines().map(|l| serde_json::from_str::<serde_json::Value>(l).unwrap());
        lines.find_map(|l| l.get(what).cloned()).unwrap()
    }

    fn ranks(&self, key: AttemptKey) -> Vec<i32> {
        let ranks = self.recorded(key, "ranks");
        ranks.as_array().unwrap().iter().map(number).collect()
    }
}

fn number(pid: &serde_json::Value) -> i32 {
    i32::try_from(pid.as_i64().unwrap()).unwrap()
}

async fn until(what: &str, mut done: impl FnMut() -> bool) {
    let from = Instant::now();
    while !done() {
        assert!(from.elapsed() < LONG, "never happened: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Is a process stopped with all of its threads, or gone?
fn stands_still(pid: i32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let mut stats =
        threads.map(|t| std::fs::read_to_string(t.path().join("stat")).unwrap_or_default());
    let still =
        |stat: &str| stat.rfind(')').is_none_or(|at| stat[at + 2..].starts_with(['T', 'Z', 'X']));
    stats.all(|stat| still(&stat))
}

/// What saves its work again and again, for ever.
const SAVES: &str = "while :; do echo step >> saved; sleep 0.02; done";
/// Short, and longer than a busy machine keeps a heartbeat from being answered.
const LEASE: Span = Span::secs(10);
const STOPS: OnPartition = OnPartition::StopAfter(LEASE);

fn no_server() -> SlotEnd {
    SlotEnd::no_server(LEASE)
}

/// Has ranks whose agent gets a signal, and looks whether they stop.
fn left_alone(signal: Signal) {
    block(async {
        let (site, mut agent, mut conn) = Site::start().await;
        let k = key();
        conn.desire(1, vec![run(k, &site.detail(SAVES, STOPS))]).await;
        conn.report(k, &Observed::Running).await;
        site.writes_on_with(&mut conn).await;
        agent.signal(signal);
        if signal != Signal::STOP {
            agent.ended();
        }
        let ranks = site.ends(k).await;
        assert!(ranks.iter().all(|p| !alive(*p)), "{ranks:?}");
        let last = site.written();
        // An agent that comes back, or the next one, knows why.
        if signal == Signal::STOP {
            agent.signal(Signal::CONT);
            drop(conn);
        } else {
            agent = Agent::start(&site.server, site.state.path(), true);
        }
        let (mut conn, _) = site.server.welcome(1).await;
        conn.desire(1, vec![RunOrder { key: k, action: Action::Run, detail: None }]).await;
        assert_eq!(conn.end(k).await, no_server());
        assert_eq!(site.written(), last, "nobody wrote after the end");
        drop(agent);
    });
}

pub(crate) fn ranks_of_an_agent_that_was_ended_stop_at_the_end_of_their_lease() {
    left_alone(Signal::TERM);
}

pub(crate) fn ranks_of_a_killed_agent_stop_at_the_end_of_their_lease() {
    left_alone(Signal::KILL);
}

pub(crate) fn ranks_of_a_stopped_agent_stop_at_the_end_of_their_lease() {
    left_alone(Signal::STOP);
}

/// Root can stop both: then no program is left that looks at a clock.
pub(crate) fn ranks_of_a_stopped_supervisor_and_agent_are_killed_by_the_kernel() {
    block(async {
        let (site, agent, mut conn) = Site::start().await;
        let k = key();
        let mark = format!("muster-lease-{}", k.job.0);
        // Whoever left its rank dies with the namespace, or where there is none by the guard.
        let script = format!("setsid sh -c '{SAVES}' {mark} & {SAVES}");
        site.saves(&mut conn, k, &script, 1).await;
        let supervisor = number(&site.recorded(k, "supervisor")["pid"]);
        let ranks = site.ranks(k);
        agent.signal(Signal::STOP);
        kill_process(Pid::from_raw(supervisor).unwrap(), Signal::STOP).unwrap();
        until("the supervisor stands still", || stands_still(supervisor)).await;
        assert!(!ranks.is_empty() && ranks.iter().all(|p| alive(*p)), "{ranks:?}");
        let mut all = ranks.clone();
        all.push(supervisor);
        until("they are killed", || !all.iter().any(|p| alive(*p))).await;
        until("those that left too", || with_word(&mark).is_empty()).await;
        let last = site.written();
        agent.signal(Signal::CONT);
        drop(conn);
        let (mut conn, _) = site.server.welcome(1).await;
        conn.desire(1, vec![RunOrder { key: k, action: Action::Run, detail: None }]).await;
        let end = conn.end(k).await;
        assert!(matches!(end, SlotEnd::NodeFault { .. }), "{end:?}");
        assert_eq!(site.written(), last, "nobody wrote after the end");
    });
}

/// There is no namespace that the kernel could end, and no agent that looks for them.
pub(crate) fn what_ranks_that_are_not_isolated_started_dies_with_their_supervisor() {
    let open = || RunnerTools { isolation: Isolation::Off, ..RunnerTools::default() };
    let all = [
        Bench::ungrouped(open()),
        Bench::handy(open()),
        Bench::ungrouped(without_namespaces()),
        Bench::handy(without_namespaces()),
    ];
    for mut b in all {
        let k = key();
        let word = long_sleep(k);
        let mut d = b.detail(&format!("setsid sleep {word} & sleep {word}"));
        // The supervisor has no reason to end by itself.
        d.on_partition = OnPartition::StopAfter(Span::mins(600));
        b.runner.start(k, &d, Instant::now());
        b.running(k);
        b.until("both", |_| with_word(&word).len() == 2);
        let supervisor = number(&b.recorded(k, "supervisor").unwrap()["pid"]);
        kill_process(Pid::from_raw(supervisor).unwrap(), Signal::KILL).unwrap();
        let from = Instant::now();
        while !with_word(&word).is_empty() {
            assert!(from.elapsed() < LONG, "they go on without anybody");
            std::thread::sleep(Duration::from_millis(5));
        }
        let end = b.end(k);
        assert!(
            matches!(&end, SlotEnd::NodeFault { reason, .. } if reason.contains("supervisor")),
            "{end:?}"
        );
    }
}

pub(crate) fn whoever_ignores_sigterm_or_left_its_rank_is_killed_too() {
    block(async {
        let (site, agent, mut conn) = Site::start().await;
        let k = key();
        // Two ranks; one leaves a process in a session of its own behind.
        let script = format!("trap '' TERM; [ $RANK = 0 ] && setsid sh -c '{SAVES}' & {SAVES}");
        site.saves(&mut conn, k, &script, 2).await;
        agent.signal(Signal::STOP);
        let ranks = site.ends(k).await;
        assert!(ranks.len() == 2 && ranks.iter().all(|p| !alive(*p)), "{ranks:?}");
        let last = site.written();
        agent.signal(Signal::CONT);
        drop(conn);
        let (mut conn, _) = site.server.welcome(1).await;
        conn.desire(1, vec![RunOrder { key: k, action: Action::Run, detail: None }]).await;
        assert_eq!(conn.end(k).await, no_server());
        assert_eq!(site.written(), last, "nobody wrote after the end");
    });
}

pub(crate) fn an_agent_that_is_replaced_within_the_lease_disturbs_nobody() {
    block(async {
        let (site, mut agent, mut conn) = Site::start().await;
        let k = key();
        let script = "until [ -e go ]; do echo step >> saved; sleep 0.02; done";
        // Longer than a busy machine takes to start an agent twice.
        let lease = Span::secs(20);
        let d = site.detail(script, OnPartition::StopAfter(lease));
        conn.desire(1, vec![run(k, &d)]).await;
        conn.report(k, &Observed::Running).await;
        let from = Instant::now();
        for signal in [Signal::TERM, Signal::KILL] {
            agent.signal(signal);
            agent.ended();
            agent = Agent::start(&site.server, site.state.path(), true);
            let (next, hello) = site.server.welcome(1).await;
            conn = next;
            assert_eq!(hello.observed, vec![(k, Observed::Running)]);
            conn.desire(1, vec![RunOrder { key: k, action: Action::Run, detail: None }]).await;
        }
        // Renewed by the last agent beyond what the first one had been given.
        while from.elapsed() < lease.to_std() + Duration::from_millis(500) {
            conn.until(|m| matches!(m, FromAgent::Heartbeat { .. }).then_some(())).await;
        }
        site.writes_on_with(&mut conn).await;
        assert!(!site.record(k).contains("lease"), "{}", site.record(k));
        std::fs::write(site.files.path().join("go"), "").unwrap();
        assert_eq!(conn.end(k).await, SlotEnd::Ok);
    });
}

pub(crate) fn ranks_that_may_go_on_without_a_server_go_on_without_an_agent() {
    block(async {
        let (site, mut agent, mut conn) = Site::start().await;
        let (stays, stops) = (key(), key());
        let script = "until [ -e go ]; do echo step >> saved; sleep 0.02; done";
        let stays_on = run(stays, &site.detail(script, OnPartition::Continue));
        let stops_soon = run(stops, &site.detail("exec sleep 1000", STOPS));
        conn.desire(1, vec![stays_on, stops_soon]).await;
        let mut up = std::collections::BTreeSet::new();
        while up.len() < 2 {
            up.insert(
                conn.until(|m| match m {
                    FromAgent::Report { key, observed: Observed::Running, .. } => Some(*key),
                    _ => None,
                })
                .await,
            );
        }
        agent.signal(Signal::KILL);
        agent.ended();
        // The other one shows that a lease has run out meanwhile.
        site.ends(stops).await;
        site.writes_on().await;
        agent = Agent::start(&site.server, site.state.path(), true);
        let (mut conn, _) = site.server.welcome(1).await;
        let on = |key| RunOrder { key, action: Action::Run, detail: None };
        conn.desire(1, vec![on(stays), on(stops)]).await;
        assert_eq!(conn.end(stops).await, no_server());
        std::fs::write(site.files.path().join("go"), "").unwrap();
        assert_eq!(conn.end(stays).await, SlotEnd::Ok);
        drop(agent);
    });
}

/// A message that lay in the socket while the agent was stopped says nothing about now: the
/// server may have given the attempt up since.
pub(crate) fn an_order_that_waited_in_a_stopped_agent_starts_nothing() {
    block(async {
        let (site, agent, mut conn) = Site::start().await;
        let k = key();
        conn.until(|m| matches!(m, FromAgent::Heartbeat { .. }).then_some(())).await;
        agent.signal(Signal::STOP);
        conn.desire(1, vec![run(k, &site.detail(SAVES, STOPS))]).await;
        tokio::time::sleep(LEASE.to_std() + Duration::from_millis(100)).await;
        agent.signal(Signal::CONT);
        // It asks first whether anybody is there.
        let mut beats = 0;
        while beats < 3 {
            match conn.next().await {
                FromAgent::Heartbeat { .. } => beats += 1,
                FromAgent::Report { observed, .. } => panic!("started: {observed:?}"),
                _ => {}
            }
        }
        assert_eq!(site.written(), 0, "nothing was started");
        drop(conn);
        let (mut conn, hello) = site.server.welcome(1).await;
        assert_eq!(hello.observed, vec![], "nothing was started");
        conn.desire(1, vec![run(k, &site.detail(SAVES, STOPS))]).await;
        conn.report(k, &Observed::Running).await;
        conn.desire(1, vec![]).await;
        assert_eq!(conn.end(k).await, SlotEnd::Stopped);
    });
}

/// Another server may lead and give the attempt to other nodes, however often this one answers.
pub(crate) fn a_server_that_cannot_be_certain_that_it_leads_renews_no_lease() {
    block(async {
        let (site, _agent, mut conn) = Site::start().await;
        let k = key();
        conn.desire(1, vec![run(k, &site.detail(SAVES, STOPS))]).await;
        conn.report(k, &Observed::Running).await;
        let end = async {
            loop {
                match conn.next().await {
                    FromAgent::Heartbeat { .. } => {
                        conn.say(&FromServer::Ack { seq: Seq(8), uncertain: true }).await;
                    }
                    FromAgent::Report { key, observed: Observed::Ended(end), .. } if key == k => {
                        return end;
                    }
                    _ => {}
                }
            }
        };
        let end = tokio::time::timeout(LONG, end).await.expect("its lease never ends");
        assert_eq!(end, no_server());
    });
}
