//! A PostgreSQL of our own, gone afterwards.

use crate::proc::{Daemon, TempDir, account, check, free_port, is_root, which};
use anyhow::{Context, Result, bail};
use rustix::process::Signal;
use std::fs;
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// A running PostgreSQL; stopped and removed when dropped.
#[derive(Debug)]
pub struct Postgres {
    // Before the directory: fields are dropped in this order.
    _daemon: Daemon,
    dir: TempDir,
    port: u16,
}

/// Where the programs of the newest installed PostgreSQL are.
#[must_use]
pub fn programs() -> Option<PathBuf> {
    let mut versions: Vec<(u32, PathBuf)> = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|e| Some((e.file_name().to_str()?.parse().ok()?, e.path().join("bin"))))
        .filter(|(_, bin)| bin.join("initdb").is_file())
        .collect();
    versions.sort();
    versions.pop().map(|(_, bin)| bin).or_else(|| Some(which("initdb")?.parent()?.to_path_buf()))
}

impl Postgres {
    /// Starts one in the system's temporary directory. Without `durable` it does not sync: right
    /// for tests, which never cut the power, and wrong for benchmarks.
    pub fn start(durable: bool) -> Result<Postgres> {
        Postgres::start_in(&std::env::temp_dir(), durable)
    }

    /// Starts one with its data in a fresh directory in `parent`.
    pub fn start_in(parent: &Path, durable: bool) -> Result<Postgres> {
        let bin = programs().context(
            "no PostgreSQL found in /usr/lib/postgresql or on the path (apt-get install postgresql)",
        )?;
        let dir = TempDir::in_dir(parent, "postgres")?;
        // It refuses to run as root.
        let user = if is_root() {
            let ids = account("postgres").or_else(|| account("nobody"));
            Some(ids.context("no `postgres` account to run PostgreSQL as")?)
        } else {
            None
        };
        let as_user = |program: &str| {
            let mut command = Command::new(bin.join(program));
            command.current_dir(dir.path());
            if let Some((uid, gid)) = user {
                command.uid(uid).gid(gid);
            }
            command
        };
        if let Some((uid, gid)) = user {
            std::os::unix::fs::chown(dir.path(), Some(uid), Some(gid))?;
        }
        let data = dir.path().join("data");
        let mut initdb = as_user("initdb");
        initdb.args(["-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C"]);
        if !durable {
            initdb.arg("--no-sync");
        }
        check(initdb.arg("-D").arg(&data)).context("cannot prepare PostgreSQL")?;
        let port = free_port()?;
        let mut server = as_user("postgres");
        server.arg("-D").arg(&data).args(["-p", &port.to_string()]);
        let sockets = format!("unix_socket_directories={}", dir.path().display());
        for setting in ["listen_addresses=127.0.0.1", "max_connections=300", &sockets] {
            server.args(["-c", setting]);
        }
        if !durable {
            for setting in ["fsync=off", "synchronous_commit=off", "full_page_writes=off"] {
                server.args(["-c", setting]);
            }
        }
        // SIGINT is its "fast" stop: ends sessions, keeps the files whole.
        let mut daemon =
            Daemon::spawn("postgres", server, &dir.path().join("log"))?.stopped_with(Signal::INT);
        daemon.wait_ready(Duration::from_secs(180), |d| {
            (TcpStream::connect(("127.0.0.1", port)).is_ok()
                && d.output().contains("ready to accept connections"))
            .then_some(())
        })?;
        Ok(Postgres { _daemon: daemon, dir, port })
    }

    /// Where its files are.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// How to reach it.
    #[must_use]
    pub fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }
}

/// The tests' PostgreSQL: the one that `MUSTER_TEST_POSTGRES` names, or one of our own.
pub enum ForTests {
    /// Somebody else's; left alone.
    Given(String),
    /// Ours.
    Own(Postgres),
}

impl ForTests {
    /// Finds, installs or starts one.
    pub fn get() -> Result<ForTests> {
        if let Ok(url) = std::env::var("MUSTER_TEST_POSTGRES")
            && !url.is_empty()
        {
            if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
                bail!("MUSTER_TEST_POSTGRES is {url:?}; it must be a postgres://… address");
            }
            return Ok(ForTests::Given(url));
        }
        if programs().is_none() {
            crate::install::apt(&["postgresql"])?;
        }
        Ok(ForTests::Own(Postgres::start(false)?))
    }

    /// How to reach it.
    #[must_use]
    pub fn url(&self) -> String {
        match self {
            ForTests::Given(url) => url.clone(),
            ForTests::Own(postgres) => postgres.url(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_temporary_postgresql_answers_and_is_gone_afterwards() {
        let there = programs().is_some();
        if !muster_testkit::component(there, "PostgreSQL", "apt-get install postgresql") {
            return;
        }
        let postgres = Postgres::start(false).unwrap();
        let (port, dir) = (postgres.port, postgres.dir().to_path_buf());
        assert!(postgres.url().ends_with(&format!(":{port}/postgres")));
        assert!(TcpStream::connect(("127.0.0.1", port)).is_ok());
        drop(postgres);
        assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
        assert!(!dir.exists());
    }
}
