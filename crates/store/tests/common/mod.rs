//! Stores to test with: a SQLite file, and a database on a real PostgreSQL server.

#![allow(dead_code, unreachable_pub)]

use muster_model::{Epoch, JobId, Seq, Span, Time};
use muster_store::{Batch, Entry, LeaseAnswer, SecretWrite, Store, StoreUrl, open, open_with_head};
use std::net::{TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, Weak};
use std::time::{Duration, Instant};

/// A busy machine takes longer to answer than a server would wait.
pub const PATIENT: &str = "connect_timeout=60";

/// A place for one test's stores; everything goes away with it.
pub struct Site {
    pub url: StoreUrl,
    pub dir: tempfile::TempDir,
    server: Option<std::sync::Arc<Server>>,
}

impl Site {
    pub fn sqlite() -> Site {
        let dir = tempfile::tempdir().unwrap();
        let url = StoreUrl::Sqlite(dir.path().join("muster.db"));
        Site { url, dir, server: None }
    }

    /// `None` when there is no PostgreSQL to test with.
    pub fn postgres() -> Option<Site> {
        let server = Server::get()?;
        let dir = tempfile::tempdir().unwrap();
        Some(Site { url: server.fresh_database(), dir, server: Some(server) })
    }

    /// Another empty store of the same kind.
    pub fn another(&self) -> StoreUrl {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        match &self.server {
            Some(server) => server.fresh_database(),
            None => {
                let n = COUNT.fetch_add(1, Ordering::Relaxed);
                StoreUrl::Sqlite(self.dir.path().join(format!("another-{n}.db")))
            }
        }
    }

    pub fn open(&self) -> Box<dyn Store> {
        open(&self.url).unwrap()
    }

    /// As a server opens it: the head is also kept outside the database.
    pub fn open_as_server(&self) -> Box<dyn Store> {
        open_with_head(&self.url, &self.head_file()).unwrap()
    }

    /// Where the head is kept outside the database.
    pub fn head_file(&self) -> PathBuf {
        match &self.url {
            StoreUrl::Sqlite(path) => path.with_extension("db.head"),
            StoreUrl::Postgres(_) => self.dir.path().join(muster_store::HEAD_FILE),
        }
    }
}

/// A server of the tests' own, or the one that MUSTER_TEST_POSTGRES names.
pub struct Server {
    /// An address without its database, and what follows the database.
    base: (String, String),
    data: Option<(tempfile::TempDir, PathBuf)>,
    /// Keeps its port.
    held: Option<UdpSocket>,
}

/// A port that nobody uses, and what keeps other tests from it until this one ends.
///
/// Below the range of ephemeral ports, so that no outgoing connection takes it. Whoever has the
/// port of the same number for datagrams has it, across processes: that nobody listens may only
/// mean that another test's server has not come up yet.
fn free_port() -> (u16, UdpSocket) {
    let first = std::process::id() % 10_000;
    let ports = (0..10_000).map(|step| 10_000 + (first + step * 7) % 10_000);
    let mut ports = ports.map(|p| u16::try_from(p).unwrap());
    let free = ports.find_map(|port| {
        let held = UdpSocket::bind(("127.0.0.1", port)).ok()?;
        TcpListener::bind(("127.0.0.1", port)).is_ok().then_some((port, held))
    });
    free.expect("a free port")
}

static SERVER: Mutex<Weak<Server>> = Mutex::new(Weak::new());

impl Server {
    pub fn get() -> Option<std::sync::Arc<Server>> {
        let mut slot = SERVER.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(server) = slot.upgrade() {
            return Some(server);
        }
        let server = std::sync::Arc::new(Server::find()?);
        *slot = std::sync::Arc::downgrade(&server);
        Some(server)
    }

    fn find() -> Option<Server> {
        if let Ok(url) = std::env::var("MUSTER_TEST_POSTGRES") {
            let (main, query) = url.split_once('?').unwrap_or((&url, ""));
            let query = if query.is_empty() { String::new() } else { format!("{query}&") };
            let (scheme, rest) = main.split_once("://").expect("MUSTER_TEST_POSTGRES is an URL");
            let authority = rest.split('/').next().unwrap_or_default();
            return Some(Server {
                base: (format!("{scheme}://{authority}"), format!("?{query}{PATIENT}")),
                data: None,
                held: None,
            });
        }
        Some(Server::start(Server::installed()?, |_| Vec::new()))
    }

    /// Where the programs of the newest PostgreSQL of this machine are.
    fn installed() -> Option<PathBuf> {
        let mut versions: Vec<PathBuf> = std::fs::read_dir("/usr/lib/postgresql")
            .map(|d| d.flatten().map(|e| e.path().join("bin")).collect())
            .unwrap_or_default();
        versions.retain(|bin| bin.join("initdb").exists());
        versions.sort();
        let found = versions.pop();
        let how = "apt-get install postgresql, or name a server in MUSTER_TEST_POSTGRES";
        let there = muster_testkit::component(found.is_some(), "PostgreSQL", how);
        found.filter(|_| there)
    }

    /// A server of the tests' own that listens on a port of localhost, with TLS by a certificate
    /// and its key, or without. Whoever named a server for the tests still has these started here:
    /// what TLS a stranger's server has is not for a test to say.
    pub fn listening(tls: Option<(&str, &str)>) -> Option<(Server, u16)> {
        let bin = Server::installed()?;
        let (port, held) = free_port();
        let mut server = Server::start(bin, |dir| {
            let mut settings = vec!["listen_addresses=localhost".into(), format!("port={port}")];
            let Some((cert, key)) = tls else { return settings };
            for (name, text) in [("cert", cert), ("key", key)] {
                let path = dir.join(format!("given-{name}"));
                std::fs::write(&path, text).unwrap();
                // Its own copy: the server refuses a key that others can read.
                let mut copy = Server::command(Path::new("/bin/sh"));
                copy.args(["-c", r#"umask 077 && cat "$0" > "$1""#]);
                muster_testkit::succeeds(copy.args([&path, &dir.join(name)]));
            }
            settings.extend([
                "ssl=on".into(),
                format!("ssl_cert_file={}/cert", dir.display()),
                format!("ssl_key_file={}/key", dir.display()),
            ]);
            settings
        });
        server.held = Some(held);
        Some((server, port))
    }

    /// A command as the user the server runs as: PostgreSQL refuses to be root.
    fn command(program: &Path) -> Command {
        let root = std::fs::metadata("/proc/self").is_ok_and(|m| {
            use std::os::unix::fs::MetadataExt;
            m.uid() == 0
        });
        let mut command = if root {
            let mut c = Command::new("runuser");
            c.args(["-u", "postgres", "--"]).arg(program);
            c
        } else {
            Command::new(program)
        };
        command.stdin(Stdio::null()).current_dir("/");
        command
    }

    /// Starts a server; `more` names further settings once its directory is there.
    fn start(bin: PathBuf, more: impl FnOnce(&Path) -> Vec<String>) -> Server {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::Builder::new().prefix("muster-pg-").tempdir_in("/tmp").unwrap();
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
        let data = dir.path().join("data");
        let mut make = Server::command(&bin.join("initdb"));
        make.args(["-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync", "-D"]);
        muster_testkit::succeeds(make.arg(&data));
        let options = format!(
            "-c fsync=off -c listen_addresses= -c unix_socket_directories={} -c max_connections=200",
            dir.path().display()
        );
        let options = more(dir.path()).iter().fold(options, |all, m| format!("{all} -c {m}"));
        let started = Server::command(&bin.join("pg_ctl"))
            .args(["-w", "-t", "300", "-o", &options, "-l"])
            .arg(dir.path().join("log"))
            .arg("-D")
            .arg(&data)
            .arg("start")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .unwrap();
        let log = std::fs::read_to_string(dir.path().join("log")).unwrap_or_default();
        assert!(started.success(), "PostgreSQL did not start: {log}");
        let host = dir.path().display().to_string().replace('/', "%2F");
        let base = (format!("postgres://postgres@{host}"), format!("?{PATIENT}"));
        Server { base, data: Some((dir, bin)), held: None }
    }

    pub fn address(&self, database: &str) -> String {
        format!("{}/{database}{}", self.base.0, self.base.1)
    }

    pub fn fresh_database(&self) -> StoreUrl {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("muster_test_{}_{n}", std::process::id());
        let mut admin =
            postgres::Client::connect(&self.address("postgres"), postgres::NoTls).unwrap();
        admin.batch_execute(&format!("DROP DATABASE IF EXISTS {name}")).unwrap();
        admin.batch_execute(&format!("CREATE DATABASE {name}")).unwrap();
        StoreUrl::Postgres(self.address(&name))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some((dir, bin)) = &self.data {
            let _ = Server::command(&bin.join("pg_ctl"))
                .args(["-m", "immediate", "-w", "stop", "-D"])
                .arg(dir.path().join("data"))
                .stdout(Stdio::null())
                .status();
        }
    }
}

/// An entry with a body that looks like a record.
pub fn entry(seq: u64) -> Entry {
    let at = 1_700_000_000_000 + i64::try_from(seq).unwrap();
    let body = format!(r#"{{"seq":{seq},"at":{at},"v":1,"kind":"test","text":"é {seq}"}}"#);
    Entry { seq: Seq(seq), at: Time(at), body: body.into_bytes() }
}

pub fn batch(epoch: Epoch, seqs: impl IntoIterator<Item = u64>) -> Batch {
    Batch { epoch, entries: seqs.into_iter().map(entry).collect(), ..Batch::default() }
}

/// Takes the lease for a long time.
pub fn lead(store: &mut dyn Store, holder: &str) -> Epoch {
    match store.acquire_lease(holder, Span::secs(3600)).unwrap() {
        LeaseAnswer::Granted(epoch) => epoch,
        LeaseAnswer::Held { holder, .. } => panic!("held by {holder}"),
    }
}

/// A store with a bit of everything: 100 entries, two snapshots, payloads, secrets.
pub fn filled(store: &mut dyn Store) -> Epoch {
    let epoch = lead(store, "a");
    store.append(&batch(epoch, 1..=60)).unwrap();
    store
        .append(&Batch {
            epoch,
            entries: (61..=100).map(entry).collect(),
            payloads: vec![(JobId(7), b"#!/bin/sh\n".to_vec()), (JobId(9), vec![0, 255, 10])],
            secrets: vec![secret("p", "token", Some(b"sealed")), secret("q", "é", Some(b"\0\xff"))],
            ..Batch::default()
        })
        .unwrap();
    store.put_snapshot(epoch, &snapshot(40)).unwrap();
    store.put_snapshot(epoch, &snapshot(80)).unwrap();
    epoch
}

pub fn secret(project: &str, name: &str, value: Option<&[u8]>) -> SecretWrite {
    SecretWrite { project: project.into(), name: name.into(), value: value.map(<[u8]>::to_vec) }
}

pub fn snapshot(seq: u64) -> muster_store::Snapshot {
    let e = entry(seq);
    muster_store::Snapshot { seq: e.seq, at: e.at, format: 3, body: vec![seq as u8; 100_000] }
}

/// Everything a store holds, in order.
pub fn contents(store: &mut dyn Store) -> Vec<muster_store::DumpItem> {
    let mut items = Vec::new();
    store
        .dump(&mut |item| {
            items.push(item);
            Ok(())
        })
        .unwrap();
    items
}

/// Waits until something is so; the bound only keeps a broken test from hanging.
pub fn until(what: &str, mut so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !so() {
        assert!(start.elapsed() < Duration::from_secs(300), "never happened: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
