//! The test itself: load, kills, and what must hold after each of them.

use super::api::{Answer, Api};
use super::auditor::{self, Submitted};
use super::clock::{self, DAY, HOUR};
use super::load::{self, Board, Cancel, Load};
use super::rng::Rng;
use super::site::{Process, Site};
use super::sleepers::Sleepers;
use super::work::{Kind, STEPS};
use super::{audit, log, ranks, stops, work};
use muster_store::StoreUrl;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Where a server may be asked to die, and how many passes it may take until then.
const FAILPOINTS: [(&str, u64); 9] = [
    ("store.append.before_commit", 25),
    ("store.append.after_commit", 25),
    ("brain.before_ack", 25),
    ("brain.before_dispatch", 25),
    ("brain.after_dispatch", 25),
    ("brain.before_snapshot", 2),
    ("store.snapshot.before_commit", 2),
    ("store.snapshot.after_commit", 2),
    ("brain.after_snapshot", 2),
];

/// Where the server's clock is set to, in turn, ahead of the machine's or behind.
const CLOCKS: [i64; 4] = [HOUR, -DAY, DAY, 0];

/// How long a server may take to come by its failpoint before it is killed anyway.
const LONGEST_WAIT: Duration = Duration::from_secs(4);

/// How often what is done.
#[derive(Debug, Clone, Copy)]
struct KillPlan {
    /// Kills of the server.
    kills: u64,
    /// Kills of the agents.
    agent_kills: u64,
    /// Agents that are stopped or killed for longer than the lease of their ranks.
    agent_stops: u64,
}

impl KillPlan {
    /// As asked for. With every change the server is killed with its clock set, without, and at a
    /// failpoint; the agents are killed on the one store and stopped on the other.
    fn of(kind: &str) -> KillPlan {
        let given = |name: &str| {
            let given = std::env::var(name).ok();
            given.map(|n| n.parse::<u64>().unwrap_or_else(|_| panic!("{name} is a number")))
        };
        let asked = given("MUSTER_CRASH_KILLS");
        let (agent_kills, agent_stops) = match asked {
            Some(kills) => ((kills / 10).max(2), (kills / 30).max(1)),
            None if kind == "sqlite" => (0, 1),
            // With two, one takes the server with it.
            None => (2, 0),
        };
        KillPlan {
            kills: asked.unwrap_or(3),
            agent_kills: given("MUSTER_CRASH_AGENT_KILLS").unwrap_or(agent_kills),
            agent_stops: given("MUSTER_CRASH_STOPS").unwrap_or(agent_stops),
        }
    }
}

fn seed() -> u64 {
    match std::env::var("MUSTER_CRASH_SEED").as_deref() {
        Err(_) => 1,
        Ok("fresh") => {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            now.map_or(0, |d| d.as_secs() * 1_000_000 + u64::from(d.subsec_micros()))
        }
        Ok(n) => n.parse().expect("MUSTER_CRASH_SEED is a number or `fresh`"),
    }
}

/// Runs the whole test on one store, and panics with everything one needs to repeat it.
pub(crate) fn run(kind: &str, store: Option<StoreUrl>) {
    let (seed, dose) = (seed(), KillPlan::of(kind));
    println!("crash test on {kind}: {} kills, MUSTER_CRASH_SEED={seed}", dose.kills);
    let mut rng = Rng::new(seed);
    let others = usize::try_from(dose.agent_stops).unwrap_or(usize::MAX).min(stops::HOSTS);
    let mut test = Test {
        site: Site::new(store, others, &mut rng),
        dose,
        rng,
        board: Arc::new(Board::default()),
        join: String::new(),
        seed,
        turn: u64::from(kind != "sqlite"),
        doing: "the first start".into(),
        at_failpoints: 0,
    };
    // The fleet ends with the thread that starts it, so that all of it runs on this one.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let reported = runtime.block_on(test.live());
    let result = reported.and_then(|reported| {
        test.doing = "the reading of the log at rest".into();
        let records = log::check(&test.site.store, &reported)?;
        test.doing = "the audit of the log at rest".into();
        let (head, rows) = match &test.site.store {
            StoreUrl::Sqlite(path) => auditor::read_sqlite(path)?,
            StoreUrl::Postgres(url) => auditor::read_postgres(url)?,
        };
        auditor::check(head, &rows, &test.submitted())?;
        test.site.check_store()?;
        Ok(records)
    });
    match result {
        Ok(records) => println!(
            "{kind}: {} kills at failpoints, {} agents stopped, {} steps of the clock, {} jobs, \
             {} submissions repeated, {records} records",
            test.at_failpoints,
            dose.agent_stops,
            test.site.clock.as_ref().map_or(0, |c| c.steps),
            test.board.acked().len(),
            test.board.repeated.load(Ordering::Relaxed)
        ),
        Err(what) => panic!(
            "crash test on {kind} with MUSTER_CRASH_SEED={seed}, during {}:\n{what}\n{}",
            test.doing,
            test.site.last_words()
        ),
    }
}

pub(super) struct Test {
    pub(super) site: Site,
    dose: KillPlan,
    rng: Rng,
    pub(super) board: Arc<Board>,
    pub(super) join: String,
    pub(super) seed: u64,
    /// The stores begin with different failpoints and clocks: a few kills of each try more of them.
    turn: u64,
    /// For the message, should it fail.
    pub(super) doing: String,
    at_failpoints: u64,
}

impl Test {
    /// Everything that needs the processes; what the API shows of the log at the end.
    async fn live(&mut self) -> Result<Vec<serde_json::Value>, String> {
        self.site.start_server(None);
        self.up().await?;
        self.site.check_clock();
        let api = self.site.api()?;
        let join = json!({ "name": "fleet", "join": true, "ttl": "1h" });
        self.join = match api.insist("/v1/tokens", "join", Some(&join)).await {
            Answer::Done(t) => t["secret"].as_str().unwrap_or_default().to_owned(),
            other => return Err(format!("no join token: {other:?}")),
        };
        // Those who sleep do so on the host that is never stopped.
        self.site.start_host(0, &self.join);
        self.fleet_up(&api).await?;
        let file = self.site.rank_file();
        let sleepers = Sleepers::start(&api, &self.board, &file).await?;
        for host in 1..self.site.hosts.len() {
            self.site.start_host(host, &self.join);
        }
        self.fleet_up(&api).await?;

        let load = Load::start(&self.board, &api, &file, &self.rng, "server");
        let (mut round, mut killed) = (0, 0);
        while killed < self.dose.kills {
            round += 1;
            killed += self.kill_server(round, &api, &sleepers).await?;
        }
        self.doing = "the settling after the last kill of the server".into();
        self.fleet_up(&api).await?;
        load.stop().await?;
        self.settle(&api, &sleepers, true).await?;

        if self.dose.agent_kills > 0 {
            let load = Load::start(&self.board, &api, &file, &self.rng, "agent");
            for n in 1..=self.dose.agent_kills {
                self.kill_agents(n, &api, &sleepers).await?;
            }
            self.doing = "the settling after the last kill of the agents".into();
            self.fleet_up(&api).await?;
            load.stop().await?;
            self.settle(&api, &sleepers, false).await?;
        }

        self.lose_soon(&api).await?;
        for n in 1..=self.dose.agent_stops {
            self.stop_agents(n, &api, &sleepers).await?;
        }

        self.doing = "the end".into();
        self.speak(&api).await?;
        sleepers.end(&api, &self.board).await?;
        let jobs = audit::settled(&api, &self.board).await?;
        audit::none_of(&audit::outcomes(&self.board.acked(), &jobs, false))?;
        audit::witnesses(&file, &self.board.acked(), &jobs)?;
        let reported = api.all("/v1/events", "after").await?;
        let hosts = self.site.hosts.iter_mut();
        for process in hosts.chain([&mut self.site.server]) {
            if let Some(mut p) = process.take()
                && !p.stop(Duration::from_secs(120))
            {
                return Err(format!("process {} does not end when it is asked to", p.pid()));
            }
        }
        Ok(reported)
    }

    pub(super) async fn up(&mut self) -> Result<(), String> {
        if self.site.serves().await? { Ok(()) } else { Err("the server ended at its start".into()) }
    }

    /// Waits until every node is connected to the present server.
    pub(super) async fn fleet_up(&mut self, api: &Api) -> Result<(), String> {
        let start = Instant::now();
        let wanted = self.site.nodes();
        loop {
            let nodes = api.all("/v1/nodes", "cursor").await?;
            let up = nodes.iter().filter(|n| n["agent"].is_object()).count();
            if up >= wanted {
                return Ok(());
            }
            if self.site.hosts.iter_mut().flatten().any(Process::ended) {
                return Err("a host of agents has ended".into());
            }
            if start.elapsed() > Duration::from_secs(300) {
                return Err(format!("{up} of {wanted} nodes are connected: {nodes:?}"));
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Kills the server that runs, and every other time one more at a failpoint; then another
    /// starts, and nothing is lost. Returns how many were killed.
    async fn kill_server(&mut self, n: u64, api: &Api, sleepers: &Sleepers) -> Result<u64, String> {
        let mut killed = 1;
        self.doing = format!("round {n} of kills of the server (kill -9)");
        // Half of the servers die before all agents have found them.
        if self.rng.one_in(2) {
            self.fleet_up(api).await?;
        }
        let pause = self.rng.between(50, 900);
        tokio::time::sleep(Duration::from_millis(pause)).await;
        // A server does not follow a step while it runs, and must not fall over one when it starts.
        if n % 4 == 1 {
            let turn = usize::try_from(n / 4 + self.turn).unwrap_or(0) % CLOCKS.len();
            self.doing = format!("{}, its clock {}", self.doing, clock::words(CLOCKS[turn]));
            self.site.set_clock(CLOCKS[turn]);
            let pause = self.rng.between(0, 1500);
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
        self.end_server(false)?;
        sleepers.live()?;
        if n.is_multiple_of(2) {
            // Every other one: their number is odd, so that all of them have their turn.
            let turn = usize::try_from(n - 2 + self.turn).unwrap_or(0) % FAILPOINTS.len();
            let (name, most) = FAILPOINTS[turn];
            let point = format!("{name}:{}", self.rng.between(1, most));
            self.doing = format!("round {n} of kills of the server (failpoint {point})");
            self.site.start_server(Some(&point));
            if self.failpoint().await {
                self.at_failpoints += 1;
            } else {
                eprintln!("note: {} was not come by", self.doing);
            }
            self.end_server(true)?;
            sleepers.live()?;
            killed += 1;
        }
        // Whatever they left behind, the next one must have all of it.
        self.site.start_server(None);
        self.up().await?;
        audit::acknowledged(api, &self.board, n.is_multiple_of(20)).await?;
        sleepers.known(api).await?;
        audit::none_of(&ranks::problems(&ranks::read(&self.site.rank_file())?))?;
        Ok(killed)
    }

    pub(super) fn end_server(&mut self, may_have_ended: bool) -> Result<(), String> {
        let Some(mut server) = self.site.server.take() else { return Ok(()) };
        if server.ended() && !may_have_ended {
            return Err("the server ended by itself".into());
        }
        server.kill();
        Ok(())
    }

    /// Waits for the server to come by its failpoint.
    async fn failpoint(&mut self) -> bool {
        let start = Instant::now();
        while start.elapsed() < LONGEST_WAIT {
            if self.site.server.as_mut().is_none_or(Process::ended) {
                return true;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        false
    }

    /// One kill of the agents' host, every other time together with the server.
    async fn kill_agents(&mut self, n: u64, api: &Api, sleepers: &Sleepers) -> Result<(), String> {
        let both = n.is_multiple_of(2);
        self.doing = format!("kill {n} of the agents{}", if both { " and the server" } else { "" });
        let pause = self.rng.between(300, 1500);
        tokio::time::sleep(Duration::from_millis(pause)).await;
        for host in 0..self.site.hosts.len() {
            self.site.kill_host(host);
        }
        if both && let Some(mut server) = self.site.server.take() {
            server.kill();
        }
        sleepers.live()?;
        let away = self.rng.between(100, 1000);
        tokio::time::sleep(Duration::from_millis(away)).await;
        if both {
            self.site.start_server(None);
            self.up().await?;
        }
        sleepers.live()?;
        for host in 0..self.site.hosts.len() {
            self.site.start_host(host, &self.join);
        }
        self.fleet_up(api).await?;
        audit::acknowledged(api, &self.board, true).await?;
        sleepers.known(api).await?;
        audit::none_of(&ranks::problems(&ranks::read(&self.site.rank_file())?))
    }

    /// What was acknowledged, for the auditor.
    fn submitted(&self) -> Vec<Submitted> {
        let end = |job: &load::AckedJob| match job.cancel {
            Cancel::No => Some(job.kind.expected()),
            Cancel::Asked => None,
            Cancel::Acknowledged => Some("cancelled"),
        };
        let acked = self.board.acked();
        let of =
            |a: &load::AckedJob| Submitted { number: a.number, name: a.name.clone(), end: end(a) };
        acked.iter().map(of).collect()
    }

    /// After all of that a job is still heard to its last word.
    async fn speak(&mut self, api: &Api) -> Result<(), String> {
        let spec = work::spec(Kind::Report, "last-word", &self.site.rank_file(), &mut self.rng);
        let job = load::submit(&self.board, api, "last-word", Kind::Report, &spec).await?;
        let jobs = audit::settled(api, &self.board).await?;
        let known = jobs.get(&job).map(|j| &j["checkpoint"]["step"]);
        if known.and_then(serde_json::Value::as_u64) == Some(STEPS) {
            return Ok(());
        }
        Err(format!("job {job} wrote checkpoint {STEPS}, and known is {known:?}"))
    }

    /// Cancels what only that ends, waits for quiet, and looks at everything.
    async fn settle(
        &self,
        api: &Api,
        sleepers: &Sleepers,
        one_attempt: bool,
    ) -> Result<(), String> {
        for job in self.board.acked() {
            let open = job.kind == Kind::Endless && job.cancel != Cancel::Acknowledged;
            if open && job.name != "sleeper" {
                load::cancel(&self.board, api, &job).await?;
            }
        }
        audit::acknowledged(api, &self.board, true).await?;
        let jobs = audit::settled(api, &self.board).await?;
        let acked = self.board.acked();
        audit::none_of(&audit::outcomes(&acked, &jobs, one_attempt))?;
        audit::witnesses(&self.site.rank_file(), &acked, &jobs)?;
        sleepers.known(api).await
    }
}
