//! A server, and an agent that says exactly what a test wants.

use crate::agents::{Agents, AgentsConfig, serve, sweep};
use crate::brain::{Attach, Brain, BrainConfig};
use crate::logs::{LogConfig, LogKeeper};
use muster_link::LinkError;
use muster_link::frame::{Frame, FrameReader, FrameWriter, MAX_FROM_SERVER};
use muster_link::messages::{FromAgent, FromServer, Hello, LogChunk, PROTOCOL, RunOrder};
use muster_link::pki::{Authority, Identity, new_request};
use muster_link::tls::{Trust, client_config, connect};
use muster_link::token::{self, JoinToken};
use muster_model::command::{Actor, Answer, Command, Observed, Request};
use muster_model::ids::{AttemptKey, Epoch, JobId, Seq, SiteId};
use muster_model::job::{Job, JobState};
use muster_model::names::NodeName;
use muster_model::node::{Gpu, Inventory};
use muster_model::spec::{GangSpec, JobSpec, RunSpec};
use muster_model::tenant::TokenUse;
use muster_model::units::{Bytes, Span};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{ReadHalf, WriteHalf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

pub(super) struct Site {
    pub(super) brain: Brain,
    pub(super) agents: Agents,
    pub(super) keeper: LogKeeper,
    pub(super) authority: Arc<Authority>,
    pub(super) addr: String,
    dir: tempfile::TempDir,
}

impl Drop for Site {
    fn drop(&mut self) {
        self.agents.stop();
        self.brain.stop();
    }
}

pub(super) fn node(name: &str) -> NodeName {
    name.parse().unwrap()
}

/// Agents here say nothing by themselves: no test lasts so long that one is lost for that.
const LOST_AFTER: Span = Span::mins(60);
/// How long something may take that must come.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// A brain over the log in this directory.
async fn lead(dir: &Path) -> Brain {
    let config = BrainConfig {
        store: muster_store::StoreUrl::Sqlite(dir.join("log.db")),
        holder: "test".into(),
        archive: dir.join("archive"),
        seal_key: dir.join("seal.key"),
        policy: muster_engine::Policy::default(),
        // The same holder takes it again at once; no test lasts so long that it ends.
        lease: Span::hours(1),
        snapshot_every: 10_000,
        retain: 10_000,
    };
    let lead = move || Brain::lead(&config, |_| {});
    tokio::task::spawn_blocking(lead).await.unwrap().unwrap()
}

/// Lets agents in; where they find it.
async fn listen(
    brain: &Brain,
    authority: &Arc<Authority>,
    keeper: &LogKeeper,
    newcomers: usize,
) -> (Agents, String) {
    // Rows come here as fast as a test sends them.
    let telemetry_burst = 1_000_000;
    let lost_after = LOST_AFTER;
    let config = AgentsConfig { lost_after, newcomers, telemetry_burst, ..AgentsConfig::default() };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap().to_string();
    let agents = serve(listener, brain.clone(), authority.clone(), keeper.clone(), config).unwrap();
    (agents, addr)
}

pub(super) async fn site() -> Site {
    site_with(AgentsConfig::default().newcomers).await
}

/// A site with places for so many newcomers.
pub(super) async fn site_with(newcomers: usize) -> Site {
    let dir = tempfile::tempdir().unwrap();
    let brain = lead(dir.path()).await;
    brain.system(Command::CreateSite { site: "site-1".into() }).await.unwrap();
    let project =
        Command::CreateProject { name: "default".parse().unwrap(), description: String::new() };
    brain.system(project).await.unwrap();
    let authority = Arc::new(Authority::create_or_load(&dir.path().join("pki")).unwrap());
    let keeper =
        LogKeeper::open(&dir.path().join("logs"), LogConfig::default(), Arc::new(|_| true))
            .unwrap();
    let (agents, addr) = listen(&brain, &authority, &keeper, newcomers).await;
    Site { brain, agents, keeper, authority, addr, dir }
}

impl Site {
    /// The server ends, and another one takes the lead over what is in the store.
    pub(super) async fn restart(&mut self) {
        self.agents.stop();
        self.brain.stop();
        self.brain.closed().await;
        self.brain = lead(self.dir.path()).await;
        let newcomers = AgentsConfig::default().newcomers;
        (self.agents, self.addr) =
            listen(&self.brain, &self.authority, &self.keeper, newcomers).await;
    }

    pub(super) async fn token(&self, uses: Option<u32>, ttl: Option<Span>) -> JoinToken {
        let t = JoinToken::generate(self.authority.pin()).unwrap();
        let command = Command::CreateToken {
            id: t.id.clone(),
            name: "agents".parse().unwrap(),
            hash: token::hash(&t.secret),
            usage: TokenUse::Join { uses_left: uses },
            ttl,
        };
        self.brain.system(command).await.unwrap();
        t
    }

    /// Joins; the answer, and the key that was asked to be certified.
    pub(super) async fn join(
        &self,
        t: &JoinToken,
        name: &str,
        machine: &str,
    ) -> (FromServer, String) {
        let (key, csr) = new_request(&node(name)).unwrap();
        (self.join_with(t, name, machine, csr).await, key)
    }

    /// Joins with a certificate request of one's own.
    pub(super) async fn join_with(
        &self,
        t: &JoinToken,
        name: &str,
        machine: &str,
        csr: String,
    ) -> FromServer {
        let config = client_config(None, &Trust::Pin(t.pin.clone())).unwrap();
        let mut line = Line::open(&self.addr, config).await.unwrap();
        let join = FromAgent::Join {
            protocol: PROTOCOL,
            token: t.presented(),
            node: node(name),
            machine: machine.into(),
            csr,
        };
        line.say(join).await;
        line.hear().await
    }

    pub(super) async fn enrolled(&self, name: &str) -> Agent {
        let t = self.token(None, None).await;
        match self.join(&t, name, &format!("machine-{name}")).await {
            (FromServer::Joined { cert, ca, .. }, key_pem) => {
                let id = Identity { cert_pem: cert, key_pem };
                let config = client_config(Some(&id), &Trust::Ca(ca)).unwrap();
                Agent { hello: hello(name), config, addr: self.addr.clone() }
            }
            other => panic!("{other:?}"),
        }
    }

    /// An agent that is connected and knows that there is nothing to do.
    pub(super) async fn idle(&self, name: &str) -> (Agent, Line) {
        let agent = self.enrolled(name).await;
        let (line, welcome) = agent.greet().await;
        let mut line = line;
        assert!(matches!(welcome, FromServer::Welcome { protected: false, .. }), "{welcome:?}");
        assert!(matches!(line.hear().await, FromServer::Desired { runs, .. } if runs.is_empty()));
        (agent, line)
    }

    pub(super) async fn submit(&self, spec: JobSpec, run: RunSpec) -> JobId {
        let request = Request {
            actor: Actor::system(),
            at: self.brain.now(),
            key: None,
            if_version: None,
            command: Command::Submit { spec: Arc::new(spec) },
        };
        let attach = Attach { payload: Some(run), ..Attach::default() };
        match self.brain.call(request, attach).await.unwrap().answer {
            Answer::Submitted { first, .. } => first,
            other => panic!("{other:?}"),
        }
    }

    /// A job is submitted and placed by a commit that got into the store, though the server never
    /// heard so.
    pub(super) async fn commit_unheard(&self, spec: JobSpec, run: RunSpec) -> JobId {
        let url = muster_store::StoreUrl::Sqlite(self.dir.path().join("log.db"));
        let mut store = muster_store::open(&url).unwrap();
        loop {
            let state = self.brain.read(muster_engine::State::clone);
            let mut engine = muster_engine::Engine::new(state, muster_engine::Policy::default());
            let request = Request {
                actor: Actor::system(),
                at: self.brain.now(),
                key: None,
                if_version: None,
                command: Command::Submit { spec: Arc::new(spec.clone()) },
            };
            let job = match engine.handle(&request).unwrap() {
                Answer::Submitted { first, .. } => first,
                other => panic!("{other:?}"),
            };
            while engine.tick(self.brain.now()) {}
            let entry = |r: &muster_model::event::Record| muster_store::Entry {
                seq: r.seq,
                at: r.at,
                body: r.to_json().unwrap(),
            };
            let batch = muster_store::Batch {
                epoch: self.brain.epoch(),
                entries: engine.take().iter().map(entry).collect(),
                payloads: vec![(job, serde_json::to_vec(&run).unwrap())],
                ..muster_store::Batch::default()
            };
            match store.append(&batch) {
                Ok(()) => return job,
                // The server wrote something meanwhile.
                Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        }
    }

    pub(super) fn job(&self, id: JobId) -> Arc<Job> {
        self.brain.read(|s| s.jobs[&id].clone())
    }

    /// Waits until it is so. The log has what made it so then.
    pub(super) async fn until(&self, mut what: impl FnMut(&muster_engine::State) -> bool) {
        let wait = async {
            while !self.brain.read(&mut what) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(PATIENCE, wait).await.expect("it never came to be");
    }

    /// A job is ordered on this line, and runs.
    pub(super) async fn runs(&self, job: JobId, line: &mut Line) -> AttemptKey {
        let key = ordered(line).await.key;
        line.say(FromAgent::Report { key, observed: Observed::Running, ago: None }).await;
        self.until(|st| st.jobs[&job].state == JobState::Running).await;
        key
    }

    /// Looks for silent nodes by a clock on which all have been silent for too long, until this
    /// one is lost: a node whose report is under way is passed over.
    pub(super) async fn lose(&self, name: &str) {
        let (inner, name) = (&self.agents.inner, node(name));
        let later = || inner.clock() + LOST_AFTER;
        let wait = async {
            while self.brain.read(|st| st.nodes[&name].reachable) {
                sweep::sweep_nodes(inner, &later).await;
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(PATIENCE, wait).await.expect("it is never lost");
    }

    /// Tidies until this node has no entry any more: its session may be about to end.
    pub(super) async fn until_no_seat(&self, name: &str) {
        let (inner, name) = (&self.agents.inner, node(name));
        let wait = async {
            while inner.node_entry(&name).is_some() {
                sweep::sweep_nodes(inner, &|| inner.clock()).await;
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(PATIENCE, wait).await.expect("its entry stays");
    }
}

pub(super) fn hello(name: &str) -> Hello {
    let gpu = |index| Gpu {
        index,
        sku: "h100-sxm".into(),
        uuid: format!("GPU-{name}-{index}"),
        memory: Bytes::gib(80),
        ..Gpu::default()
    };
    Hello {
        qualifying: None,
        protocol: PROTOCOL,
        version: "0.1.0".into(),
        node: node(name),
        machine: format!("machine-{name}"),
        instance: "first".into(),
        boot: "boot-1".into(),
        address: "127.0.0.1".into(),
        host: format!("host-{name}"),
        inventory: Inventory {
            cpus: 64,
            memory: Bytes::gib(512),
            gpus: (0..8).map(gpu).collect(),
            ..Inventory::default()
        },
        site: Some(SiteId("site-1".into())),
        seq: Seq(0),
        epoch: Epoch(0),
        observed: Vec::new(),
        ended_ago: Vec::new(),
        place: String::new(),
        at: crate::brain::clock(),
    }
}

pub(super) struct Agent {
    pub(super) hello: Hello,
    pub(super) config: Arc<rustls::ClientConfig>,
    pub(super) addr: String,
}

impl Agent {
    /// Connects and says hello; the first answer.
    pub(super) async fn greet(&self) -> (Line, FromServer) {
        let mut line = Line::open(&self.addr, self.config.clone()).await.unwrap();
        line.say(FromAgent::Hello(Box::new(self.hello.clone()))).await;
        let first = line.hear().await;
        (line, first)
    }
}

pub(super) struct Line {
    r: FrameReader<ReadHalf<TlsStream<TcpStream>>>,
    w: FrameWriter<WriteHalf<TlsStream<TcpStream>>>,
}

impl Line {
    pub(super) async fn open(
        addr: &str,
        config: Arc<rustls::ClientConfig>,
    ) -> Result<Line, LinkError> {
        let (r, w) = tokio::io::split(connect(addr, config).await?);
        Ok(Line { r: FrameReader::new(r, MAX_FROM_SERVER), w: FrameWriter::new(w) })
    }

    pub(super) async fn say(&mut self, m: FromAgent) {
        self.w.send(&m).await.unwrap();
        self.w.flush().await.unwrap();
    }

    /// Whatever it is, as a message.
    pub(super) async fn say_anything(&mut self, m: &serde_json::Value) {
        self.w.send(m).await.unwrap();
        self.w.flush().await.unwrap();
    }

    pub(super) async fn log(&mut self, c: &LogChunk) {
        self.w.send_log(c).await.unwrap();
        self.w.flush().await.unwrap();
    }

    /// The next message; `None` when the server closed.
    pub(super) async fn next(&mut self) -> Option<FromServer> {
        let next = tokio::time::timeout(PATIENCE, self.r.next());
        match next.await.expect("the server says nothing") {
            Ok(Some(Frame::Message(m))) => Some(m),
            Ok(None) | Err(_) => None,
            Ok(other) => panic!("{other:?}"),
        }
    }

    pub(super) async fn hear(&mut self) -> FromServer {
        self.next().await.expect("the server closed")
    }

    /// The next message that `pick` picks; others are passed over.
    pub(super) async fn hear_of<T>(&mut self, mut pick: impl FnMut(FromServer) -> Option<T>) -> T {
        loop {
            if let Some(t) = pick(self.hear().await) {
                return t;
            }
        }
    }

    pub(super) async fn is_closed(&mut self) {
        while self.next().await.is_some() {}
    }
}

pub(super) fn spec(nodes: u32) -> JobSpec {
    let gang = GangSpec { nodes: Some(nodes), gpus_per_node: Some(4), ..GangSpec::default() };
    JobSpec { gang, ..JobSpec::default() }
}

pub(super) fn script(text: &str) -> RunSpec {
    RunSpec { script: Some(text.into()), ..RunSpec::default() }
}

pub(super) async fn orders(line: &mut Line) -> Vec<RunOrder> {
    line.hear_of(|m| match m {
        FromServer::Desired { runs, .. } => Some(runs),
        _ => None,
    })
    .await
}

/// The first list that names something.
pub(super) async fn ordered(line: &mut Line) -> RunOrder {
    loop {
        if let Some(first) = orders(line).await.pop() {
            return first;
        }
    }
}
