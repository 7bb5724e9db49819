//! A temporary site: `muster up` in its own data directory, gone afterwards.

use crate::proc::{Daemon, TempDir, free_port};
use anyhow::{Context, Result, bail};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// A running site.
#[derive(Debug)]
pub struct Site {
    daemon: Option<Daemon>,
    dir: TempDir,
    binary: PathBuf,
    args: Vec<String>,
    envs: Vec<(String, String)>,
    port: u16,
    link_port: u16,
    token: String,
}

impl Site {
    /// Starts `binary ARGS --data-dir … --listen … --link-listen …` with its data in a fresh directory in
    /// `parent`, and waits until it serves.
    pub fn start(
        binary: &Path,
        parent: &Path,
        args: &[&str],
        envs: &[(&str, &str)],
    ) -> Result<Site> {
        let mut site = Site::prepared(binary, parent, args, envs)?;
        site.start_again()?;
        Ok(site)
    }

    /// The same without a start: its data directory can be filled first. [`Site::start_again`] starts it.
    pub fn prepared(
        binary: &Path,
        parent: &Path,
        args: &[&str],
        envs: &[(&str, &str)],
    ) -> Result<Site> {
        if !binary.is_file() {
            bail!("{} is not there: build it first", binary.display());
        }
        Ok(Site {
            daemon: None,
            dir: TempDir::in_dir(parent, "site")?,
            binary: binary.into(),
            args: args.iter().map(ToString::to_string).collect(),
            envs: envs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect(),
            port: free_port()?,
            link_port: free_port()?,
            token: String::new(),
        })
    }

    /// Starts the server on the same data and the same port, and waits until it serves.
    pub fn start_again(&mut self) -> Result<()> {
        self.daemon = None;
        let mut command = Command::new(&self.binary);
        command
            .args(&self.args)
            .arg("--data-dir")
            .arg(self.data_dir())
            .args(["--listen", &format!("127.0.0.1:{}", self.port)])
            .args(["--link-listen", &format!("127.0.0.1:{}", self.link_port)])
            .current_dir(self.dir.path());
        forget_settings(&mut command);
        command.envs(self.envs.iter().map(|(k, v)| (k, v)));
        // One log per start, so that an old "ready" is not taken for a new one.
        let log = (0..)
            .map(|n| self.dir.path().join(format!("server.{n}.log")))
            .find(|p| !p.exists())
            .context("no free name for a log")?;
        let mut daemon = Daemon::spawn("muster", command, &log)?;
        let (port, token_file) = (self.port, self.data_dir().join("admin.token"));
        // A demonstration has to live through its week first.
        self.token = daemon.wait_ready(Duration::from_secs(180), |d| {
            if !d.output().contains("muster ready at") || !answers(port, "/readyz") {
                return None;
            }
            let token = fs::read_to_string(&token_file).ok()?;
            Some(token.trim().to_string()).filter(|t| !t.is_empty())
        })?;
        self.daemon = Some(daemon);
        Ok(())
    }

    /// Kills the server with SIGKILL.
    pub fn kill_9(&mut self) -> Result<()> {
        self.daemon.as_mut().context("the server is not running")?.kill_9()
    }

    /// Fails with its last words when the server has ended.
    pub fn must_be_running(&mut self) -> Result<()> {
        self.daemon.as_mut().context("the server is not running")?.must_be_running()
    }

    /// The server's process id.
    #[must_use]
    pub fn pid(&self) -> Option<i32> {
        self.daemon.as_ref().map(|d| d.pid().as_raw_nonzero().get())
    }

    /// Where its data is.
    #[must_use]
    pub fn data_dir(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// A place for files that go with the site.
    #[must_use]
    pub fn scratch(&self) -> &Path {
        self.dir.path()
    }

    /// The port of its API.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The port that agents connect to.
    #[must_use]
    pub fn link_port(&self) -> u16 {
        self.link_port
    }

    /// The address of its API.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The administrator's token.
    #[must_use]
    pub fn token(&self) -> &str {
        &self.token
    }

    /// A `muster` command that talks to it as its administrator.
    #[must_use]
    pub fn cli(&self) -> Command {
        let mut command = Command::new(&self.binary);
        forget_settings(&mut command);
        command
            .env("MUSTER_SERVER", self.url())
            .env("MUSTER_TOKEN", &self.token)
            .current_dir(self.dir.path());
        command
    }
}

/// What the caller's own environment says about a site is not about this one.
fn forget_settings(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("MUSTER_") {
            command.env_remove(name);
        }
    }
}

/// Whether `GET path` answers 200.
fn answers(port: u16, path: &str) -> bool {
    let ask = || -> std::io::Result<bool> {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(Duration::from_secs(2)))?;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
        let mut head = [0; 12];
        stream.read_exact(&mut head)?;
        Ok(head.ends_with(b" 200"))
    };
    ask().unwrap_or(false)
}
