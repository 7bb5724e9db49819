//! `up`, `server` and `agent`: the parts that stay.
//!
//! `up` runs the server in this process. A child process, `muster __fleet`, hosts the simulated
//! nodes and this machine's own agent; it gets its orders in one line of JSON on its stdin
//! and ends with its parent. When it ends alone, `up` starts it again. Ranks survive both.

use crate::assemble;
use crate::options::{AgentOptions, FleetConfig, ServerOptions, StartedServer};
use crate::restarts::{ProcessEnd, QUICK_ERRORS_MAX, Restarts};
use muster_agent::isolation::{Abilities, Accounts, Isolation, Separation};
use muster_model::NodeName;
use muster_model::topology::Topology;
use muster_terminal::config;
use muster_terminal::fail::Fail;
use muster_terminal::output;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tokio::io::AsyncWriteExt;
use tokio_util::sync::CancellationToken;

/// What `muster up` was asked for.
#[derive(Debug, Clone)]
pub(crate) struct UpOptions {
    pub(crate) nodes: u32,
    pub(crate) gpus_per_node: u32,
    /// So many of them, the last ones, in MIG mode.
    pub(crate) mig_gpus: u32,
    pub(crate) sku: String,
    /// Makes everything repeatable; 1 when absent.
    pub(crate) seed: Option<u64>,
    /// With a week behind it.
    pub(crate) demo: bool,
    pub(crate) speed: f64,
    /// The user's settings, where a context is written into them.
    pub(crate) context: Option<PathBuf>,
    /// Make this machine a node.
    pub(crate) local_node: bool,
    /// Where Prometheus finds this machine's figures.
    pub(crate) exporter: Option<SocketAddr>,
    /// The server itself.
    pub(crate) server: ServerOptions,
}

/// How long `up` waits for its nodes before it says that it is ready; a large fleet goes on
/// joining after that.
const NODES_JOIN: Duration = Duration::from_secs(3);

impl StartedServer {
    async fn nodes_joined(&self, expected: usize, most: Duration) {
        let agents = self.agents.clone();
        let all = async {
            while agents.count() < expected {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        if tokio::time::timeout(most, all).await.is_err() {
            output::note(&format!("{} of {expected} nodes have joined so far", agents.count()));
        }
    }
}

/// `muster server`.
pub(crate) async fn serve(options: ServerOptions) -> Result<u8, Fail> {
    free_ports(&options)?;
    private_dir(&options.data_dir)?;
    let topology = options.topology.as_deref().map(assemble::topology_file).transpose()?;
    let started = assemble::start_server(&options, topology, false).await?;
    output::print(&format!("muster ready at {}\n", started.url))?;
    output::note(&match started.token_works {
        true => format!("log in with the token in {}", started.token_file.display()),
        false => revoked(&started.token_file),
    });
    until_end(started.stop, started.served).await
}

/// `muster agent`.
pub(crate) async fn agent(options: AgentOptions) -> Result<u8, Fail> {
    private_dir(&options.data_dir)?;
    let machine = &options.machine;
    let separation = machine.isolation.separation(&Abilities::of_this_process(&machine.accounts));
    if let Some(warning) = separation.warning() {
        output::note(&format!("note: {warning}"));
    }
    assemble::run_agent(options).await.map(|()| 0)
}

/// `muster up`.
pub(crate) async fn run(options: UpOptions) -> Result<u8, Fail> {
    if std::env::var_os(muster_terminal::ENDS_WITH_PARENT).is_some() {
        let term = Some(rustix::process::Signal::TERM);
        let _ = rustix::process::set_parent_process_death_signal(term);
    }
    options.sku.parse::<muster_simnode::Sku>().map_err(Fail::usage)?;
    let data_dir = &options.server.data_dir;
    free_ports(&options.server)?;
    private_dir(data_dir)?;
    let can = Abilities::of_this_process(&Accounts::default());
    let separation = Isolation::default().separation(&can);
    if let Some(warning) = separation.warning() {
        let keys = match separation {
            Separation::Agent(_) => {
                let dir = data_dir.display();
                format!("; jobs can read whatever you can, the keys in {dir} included")
            }
            _ => String::new(),
        };
        output::note(&format!("note: {warning}{keys}"));
    }
    let fleet_dir = data_dir.join("fleet");
    let demo = demonstration(&options, &fleet_dir).await?;
    let topology = match (&demo, &options.server.topology) {
        (Some(demo), _) => demo.topology.clone(),
        (None, Some(path)) => assemble::topology_file(path)?,
        (None, None) => generated(&options),
    };
    let seed = demo.as_ref().map_or(options.seed.unwrap_or(1), |d| d.seed);
    let names: Vec<NodeName> = topology.nodes.keys().cloned().collect();
    let expected = names.len() + usize::from(options.local_node);
    let started = assemble::start_server(&options.server, Some(topology), true).await?;
    let config = FleetConfig {
        parent: std::process::id(),
        link: started.link,
        join: started.join.clone().unwrap_or_default(),
        // Thousands of nodes mostly pretend; a directory for each would only cost.
        light: names.len() > 2000,
        names,
        gpus_per_node: options.gpus_per_node,
        mig_gpus: options.mig_gpus,
        sku: options.sku.clone(),
        seed,
        speed: options.speed,
        local_node: options.local_node,
        exporter: options.exporter,
        data_dir: fleet_dir,
        past: demo.as_ref().and_then(|d| d.past.clone()),
        server_dir: Some(data_dir.clone()),
    };
    let fleet = spawn_fleet(&config).await?;
    let mut login = if started.token_works { Login::WithFile } else { Login::Revoked };
    if let Some(path) = options.context.as_ref().filter(|_| started.token_works) {
        let name = if demo.is_some() { "demo" } else { "local" };
        match config::write_context(path, name, &started.url, &started.token_file) {
            Ok(()) => login = Login::Done,
            Err(e) => output::note(&format!("note: {}", e.message)),
        }
    }
    // Whoever types the first command should find the nodes there.
    started.nodes_joined(expected, NODES_JOIN).await;
    let tour: &[&str] = if demo.is_some() { &TOUR } else { &FIRST };
    output::print(&welcome(&called(), &started.url, &started.token_file, login, tour))?;
    if demo.is_some() {
        output::note(&format!("\n{}", crate::demo::people()));
        let (url, token_file) = (started.url.clone(), &started.token_file);
        // It ends with this process.
        tokio::spawn(crate::demo::run_demo(url, started.brain.clone(), token_file.clone(), seed));
    }
    let stop = started.stop.clone();
    let serving = until_end(started.stop, started.served);
    tokio::pin!(serving);
    tokio::select! {
        ended = &mut serving => ended,
        why = keep_fleet(&config, fleet) => {
            // The server gives its lease back, so that the next start need not wait for its end.
            stop.cancel();
            let _ = serving.await;
            Err(why)
        }
    }
}

/// The site with a week behind it, where one is asked for.
async fn demonstration(
    options: &UpOptions,
    fleet: &Path,
) -> Result<Option<crate::demo::Demo>, Fail> {
    if !options.demo {
        if crate::demo::is_demo(&options.server.data_dir) {
            let dir = options.server.data_dir.display();
            return Err(Fail::usage(format!("{dir} was made by `muster up --demo`"))
                .hint("add --demo to take it up again, or choose another with --data-dir"));
        }
        return Ok(None);
    }
    let (dir, store) = (options.server.data_dir.clone(), options.server.store.clone());
    let (fleet, seed) = (fleet.to_path_buf(), options.seed);
    let made =
        tokio::task::spawn_blocking(move || crate::demo::prepare(&dir, &store, &fleet, seed));
    match made.await {
        Ok(demo) => demo.map(Some),
        Err(e) => Err(Fail::failed(format!("the demonstration broke down: {e}"))),
    }
}

/// What to try first on a site that is empty.
const FIRST: [&str; 3] =
    ["nodes", "run --nodes 2 --gpus 8 -- sh -c 'echo rank $RANK of $WORLD_SIZE'", "topology"];
/// What to look at first on a site with a week behind it.
const TOUR: [&str; 4] = ["health", "ps", "report fleet", "slo"];

/// The usual tree for so many nodes of that kind.
fn generated(options: &UpOptions) -> Topology {
    if options.sku.eq_ignore_ascii_case("gb200") {
        let racks = options.nodes.div_ceil(18).max(1);
        let mut t = muster_specs::generate::nvl72(racks);
        t.nodes = t.nodes.into_iter().take(options.nodes as usize).collect();
        return t;
    }
    muster_specs::generate::hgx(options.nodes, options.gpus_per_node)
}

/// How this program was called, for commands that can be copied.
fn called() -> String {
    std::env::args().next().filter(|me| me.contains('/')).unwrap_or_else(|| "muster".into())
}

/// How people get at the server that was started.
#[derive(Clone, Copy)]
enum Login {
    /// The settings name it and its token.
    Done,
    /// With the token in the file.
    WithFile,
    /// Not with the token in the file.
    Revoked,
}

/// Nobody is left without a way in: a new token costs access to the data directory and a restart.
fn revoked(token_file: &Path) -> String {
    let file = token_file.display();
    format!(
        "the token in {file} was revoked and stays so: log in with another one. For a new \
         administrator's token, remove that file and start again"
    )
}

/// What is printed when everything serves.
fn welcome(me: &str, url: &str, token_file: &Path, login: Login, tour: &[&str]) -> String {
    let file = token_file.display();
    let log_in = match login {
        Login::Done => format!("you are logged in; the token is in {file}"),
        Login::WithFile => {
            format!("log in:  export MUSTER_SERVER={url} MUSTER_TOKEN=$(cat {file})")
        }
        Login::Revoked => revoked(token_file),
    };
    let tour: String = tour.iter().map(|c| format!("  {me} {c}\n")).collect();
    format!("muster ready at {url}\n{log_in}\n\ntry, in another terminal:\n{tour}")
}

/// Waits for the server's end, or for Ctrl-C or SIGTERM.
async fn until_end(
    stop: CancellationToken,
    mut served: tokio::task::JoinHandle<Result<(), Fail>>,
) -> Result<u8, Fail> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut term = signal(SignalKind::terminate())
        .map_err(|e| Fail::failed(format!("cannot listen for SIGTERM: {e}")))?;
    tokio::select! {
        ended = &mut served => return match ended {
            Ok(result) => result.map(|()| 0),
            Err(e) => Err(Fail::failed(format!("the server broke down: {e}"))),
        },
        _ = tokio::signal::ctrl_c() => {
            output::note("stopping; running jobs continue, start again to see them");
        }
        _ = term.recv() => {}
    }
    stop.cancel();
    let _ = served.await;
    Ok(0)
}

/// A start on a port that is in use makes no new data directory. Where there is one, the server that had it
/// may only just be ending.
fn free_ports(options: &ServerOptions) -> Result<(), Fail> {
    if options.data_dir.exists() {
        return Ok(());
    }
    for (addr, what) in [(options.listen, "the API"), (options.link_listen, "the agent link")] {
        std::net::TcpListener::bind(addr).map_err(|e| {
            Fail::failed(format!("cannot listen on {addr} for {what} (is it in use?): {e}"))
                .hint("`muster doctor` searches for the cause")
        })?;
    }
    Ok(())
}

/// Keys and tokens are in there.
fn private_dir(dir: &Path) -> Result<(), Fail> {
    muster_link::private::data_dir(dir).map_err(|e| {
        Fail::failed(format!("cannot use the data directory {}: {e}", dir.display()))
            .hint("choose another with --data-dir")
    })
}

/// The fleet's process, and its stdin, which stays open: when it closes, the parent is gone.
type Fleet = (tokio::process::Child, Option<tokio::process::ChildStdin>);

/// Starts the fleet again whenever it ends, and says so. Its nodes come back under their own
/// names and find their ranks again, as after any restart of an agent. Returns why it gave up.
///
/// Not for a task of its own: a fleet ends with the thread that started it, and those of the
/// runtime come and go.
async fn keep_fleet(config: &FleetConfig, first: Fleet) -> Fail {
    let mut restarts = Restarts::default();
    let mut fleet = Ok(first);
    loop {
        let began = Instant::now();
        let (end, how) = match fleet {
            Ok((mut child, _open)) => match child.wait().await {
                Ok(status) => (ProcessEnd::of(status), format!("it ended with {status}")),
                Err(e) => (ProcessEnd::ByItself, format!("it cannot be waited for: {e}")),
            },
            Err(Fail { message, .. }) => (ProcessEnd::ByItself, message),
        };
        let Some(pause) = restarts.pause(end, began.elapsed()) else {
            let times = format!("{QUICK_ERRORS_MAX} times in a row soon after its start");
            return Fail::failed(format!("the fleet ended {times}; the last time: {how}")).hint(
                "its own output above says why; running jobs continue, start again to see them",
            );
        };
        output::note(&format!(
            "the process of the nodes is gone ({how}); starting it again in {} s, running jobs continue",
            pause.as_secs()
        ));
        tokio::time::sleep(pause).await;
        fleet = spawn_fleet(config).await;
    }
}

/// Starts `muster __fleet`.
async fn spawn_fleet(config: &FleetConfig) -> Result<Fleet, Fail> {
    let cannot = |e: std::io::Error| Fail::failed(format!("cannot start the fleet: {e}"));
    let program = std::env::current_exe().map_err(cannot)?;
    let mut child = tokio::process::Command::new(program)
        .arg("__fleet")
        .stdin(std::process::Stdio::piped())
        .kill_on_drop(true)
        // Ctrl-C is for the parent to hear; the fleet follows it.
        .process_group(0)
        .spawn()
        .map_err(cannot)?;
    let mut line = serde_json::to_vec(config)
        .map_err(|e| Fail::failed(format!("cannot write the fleet's settings: {e}")))?;
    line.push(b'\n');
    // Waiting for a child closes the stdin it still has; this one must outlive the wait.
    let mut stdin = child.stdin.take();
    if let Some(pipe) = &mut stdin {
        let written = match pipe.write_all(&line).await {
            Ok(()) => pipe.flush().await,
            failed => failed,
        };
        match written {
            // It is gone already; its status says how.
            Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => stdin = None,
            written => written.map_err(cannot)?,
        }
    }
    Ok((child, stdin))
}

/// `muster __fleet`: the child's side.
pub(crate) async fn fleet() -> Result<u8, Fail> {
    // Asked for before the parent is looked at, so that its end in between is not missed.
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::TERM));
    let mut line = String::new();
    std::io::stdin()
        .read_line(&mut line)
        .map_err(|e| Fail::failed(format!("cannot read the fleet's settings: {e}")))?;
    let config: FleetConfig = serde_json::from_str(&line)
        .map_err(|e| Fail::usage(format!("`__fleet` is started by `muster up` only: {e}")))?;
    let parent = rustix::process::getppid().map(|p| p.as_raw_nonzero().get().unsigned_abs());
    if parent != Some(config.parent) {
        return Ok(0);
    }
    // A thread of its own: the runtime would wait for one of its own before this process, which has
    // failed, can end.
    let (parent_ended, orphaned) = tokio::sync::oneshot::channel();
    let watch = move || {
        let _ = std::io::stdin().read_line(&mut String::new());
        let _ = parent_ended.send(());
    };
    std::thread::Builder::new()
        .name("parent".into())
        .spawn(watch)
        .map_err(|e| Fail::failed(format!("cannot watch the parent process: {e}")))?;
    tokio::select! {
        ended = assemble::run_fleet(config) => ended.map(|()| 0),
        _ = orphaned => Ok(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_welcome_names_the_address_how_to_log_in_and_three_commands() {
        let (url, file) = ("http://127.0.0.1:7070", Path::new("/d/admin.token"));
        let text = welcome("muster", url, file, Login::WithFile, &FIRST);
        assert!(text.starts_with("muster ready at http://127.0.0.1:7070\n"), "{text}");
        assert!(text.contains("MUSTER_TOKEN=$(cat /d/admin.token)"), "{text}");
        assert_eq!(text.lines().filter(|l| l.starts_with("  muster ")).count(), 3, "{text}");
        let text = welcome("muster", url, file, Login::Revoked, &FIRST);
        assert!(text.contains("/d/admin.token was revoked") && text.contains("remove"), "{text}");
        assert!(!text.contains("MUSTER_TOKEN") && !text.contains("logged in"), "{text}");
    }

    #[test]
    fn the_data_directory_is_made_private() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().expect("a directory");
        let data = dir.path().join("a/b");
        private_dir(&data).expect("made");
        let mode = std::fs::metadata(&data).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
    }

    #[test]
    fn a_data_directory_that_others_can_prepare_is_refused_with_how_to_fix_it() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().expect("a directory");
        let data = dir.path();
        std::fs::write(data.join("admin.token"), "mst_planted").expect("planted");
        std::fs::set_permissions(data, PermissionsExt::from_mode(0o777)).expect("its own");
        let why = private_dir(data).expect_err("refused").message;
        assert!(why.contains("mode 777") && why.contains("chmod 700"), "{why}");
        // Where others get in, the token that they can read is not taken either.
        std::fs::set_permissions(data, PermissionsExt::from_mode(0o755)).expect("its own");
        let token = data.join("admin.token");
        std::fs::set_permissions(&token, PermissionsExt::from_mode(0o644)).expect("its own");
        let why = private_dir(data).expect_err("refused").message;
        assert!(why.contains("admin.token has mode 644"), "{why}");
        std::fs::set_permissions(&token, PermissionsExt::from_mode(0o600)).expect("its own");
        private_dir(data).expect("all is its owner's");
    }

    #[test]
    fn what_the_fleet_is_sent_survives_the_pipe() {
        let config = FleetConfig {
            parent: 1,
            link: "127.0.0.1:7071".parse().expect("an address"),
            join: "mjt_x".into(),
            names: vec!["hgx-01".parse().expect("a name")],
            light: false,
            gpus_per_node: 8,
            mig_gpus: 2,
            sku: "h100-sxm".into(),
            seed: 7,
            speed: 1.0,
            local_node: true,
            exporter: None,
            data_dir: "/d/fleet".into(),
            past: Some("/d/fleet/past.json".into()),
            server_dir: Some("/d".into()),
        };
        let text = serde_json::to_string(&config).expect("plain data");
        assert_eq!(serde_json::from_str::<FleetConfig>(&text).expect("plain data"), config);
    }
}
