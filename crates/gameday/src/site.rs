//! Where drills are played: a cluster of their own, or the one that is there.

use super::processes::{free_port, pid};
use muster_client::Client;
use muster_model::units::Span;
use muster_terminal::fail::Fail;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

/// How the private cluster is started.
#[derive(Debug, Clone)]
pub(crate) struct Start {
    pub(crate) nodes: u32,
    pub(crate) speed: u32,
    pub(crate) seed: u64,
    /// A node is lost so long after its last word.
    pub(crate) lost_after: Span,
}

/// Addresses of the API and for agents; they stay over a restart.
#[derive(Debug, Clone, Copy)]
struct Ports {
    api: u16,
    link: u16,
}

/// A `muster up` in a directory of its own. Nothing of it outlives this value, except ranks: a
/// drill that starts real ones ends them.
#[derive(Debug)]
pub(crate) struct Site {
    dir: PathBuf,
    start: Start,
    ports: Ports,
    /// Its ports are nobody else's, also while its server is away.
    _held: [UdpSocket; 2],
    up: Option<Child>,
    pub(crate) client: Client,
}

/// How often nodes report their figures. With a fast clock that is often enough to see anything.
const TELEMETRY: &str = "500ms";
/// How long a cluster may take to start or to stop.
const PATIENCE: Duration = Duration::from_secs(180);

impl Site {
    pub(crate) async fn begin(start: Start) -> Result<Site, Fail> {
        let dir = scratch()?;
        let ((api, one), (link, two)) = (free_port()?, free_port()?);
        let ports = Ports { api, link };
        let (up, client) = up(&dir, &start, ports).await?;
        Ok(Site { dir, start, ports, _held: [one, two], up: Some(up), client })
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// `kill -9`.
    pub(crate) async fn kill(&mut self) -> Result<(), Fail> {
        let Some(mut up) = self.up.take() else { return Ok(()) };
        up.kill().await.map_err(|e| Fail::failed(format!("cannot kill the server: {e}")))
    }

    /// The same site again, from what its directory holds.
    pub(crate) async fn again(&mut self) -> Result<(), Fail> {
        let (up, client) = up(&self.dir, &self.start, self.ports).await?;
        (self.up, self.client) = (Some(up), client);
        Ok(())
    }

    /// Where agents connect to.
    pub(crate) fn link(&self) -> String {
        format!("127.0.0.1:{}", self.ports.link)
    }

    /// This program.
    pub(crate) fn program() -> Result<PathBuf, Fail> {
        std::env::current_exe().map_err(|e| Fail::failed(format!("cannot find myself: {e}")))
    }

    /// Stops it and removes its directory.
    pub(crate) async fn end(mut self) {
        if let Some(mut up) = self.up.take() {
            if let Some(pid) = up.id().and_then(pid) {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
            }
            if tokio::time::timeout(PATIENCE, up.wait()).await.is_err() {
                let _ = up.kill().await;
            }
        }
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        if let Some(mut up) = self.up.take() {
            let _ = up.start_kill();
        }
        // Whoever is being killed may still write.
        for _ in 0..20 {
            if std::fs::remove_dir_all(&self.dir).is_ok() || !self.dir.exists() {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// A directory that nobody else has.
fn scratch() -> Result<PathBuf, Fail> {
    use std::os::unix::fs::DirBuilderExt;
    let base = std::env::temp_dir();
    for n in 0..10_000u32 {
        let dir = base.join(format!("muster-gameday-{}-{n}", std::process::id()));
        match std::fs::DirBuilder::new().mode(0o700).create(&dir) {
            Ok(()) => return Ok(dir),
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(e) => return Err(Fail::failed(format!("cannot make {}: {e}", dir.display()))),
        }
    }
    Err(Fail::failed(format!("no free name below {}", base.display())))
}

/// Starts `muster up` and waits for its word that it serves.
async fn up(dir: &Path, start: &Start, ports: Ports) -> Result<(Child, Client), Fail> {
    let cannot = |e: std::io::Error| Fail::failed(format!("cannot start a cluster: {e}"));
    let log = std::fs::File::create(dir.join("up.log")).map_err(cannot)?;
    let mut command = Command::new(Site::program()?);
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|n| n.starts_with("MUSTER_")) {
            command.env_remove(name);
        }
    }
    let mut child = command
        .env("MUSTER_HEARTBEAT", TELEMETRY)
        .env("MUSTER_TELEMETRY", TELEMETRY)
        .env("MUSTER_LOST_AFTER", start.lost_after.to_string())
        .env(muster_terminal::ENDS_WITH_PARENT, "1")
        .args(["up", "--no-context", "--no-local-node"])
        .args(["--listen", &format!("127.0.0.1:{}", ports.api)])
        .args(["--link-listen", &format!("127.0.0.1:{}", ports.link)])
        .args(["--nodes", &start.nodes.to_string(), "--speed", &start.speed.to_string()])
        .args(["--seed", &start.seed.to_string()])
        .arg("--data-dir")
        .arg(dir.join("data"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log)
        // Ctrl-C is for whoever plays; what it started ends with it.
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(cannot)?;
    let said =
        child.stdout.take().ok_or_else(|| Fail::failed("a cluster without progress reporting"))?;
    let mut lines = BufReader::new(said).lines();
    let ready = async {
        while let Ok(Some(line)) = lines.next_line().await {
            if let Some(url) = line.strip_prefix("muster ready at ") {
                return Some(url.trim().to_owned());
            }
        }
        None
    };
    let url = tokio::time::timeout(PATIENCE, ready).await.ok().flatten().ok_or_else(|| {
        let why = std::fs::read_to_string(dir.join("up.log")).unwrap_or_default();
        let why = why.lines().last().unwrap_or("it printed nothing").to_owned();
        Fail::failed(format!("the cluster did not start: {why}"))
    })?;
    // It goes on to talk, and must not stop at a full pipe.
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    let token = std::fs::read_to_string(dir.join("data/admin.token")).map_err(cannot)?;
    let client = Client::builder(&url, Some(token.trim())).build()?;
    Ok((child, client))
}
