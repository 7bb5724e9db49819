//! Each thread and task of a real server is made to panic. What the lead needs ends the lead, and a
//! standby takes it with everything that was acknowledged; everything else is started again.

use crate::export::get;
use crate::minutes::cluster::{Cluster, until};
use crate::stores;
use crate::verbs::standby::share_keys;
use muster_store::StoreUrl;
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

/// The parts that are started again, as the server names them, and what is done once for each who
/// connects.
const TASKS: [&str; 30] = [
    "acts",
    "agents-accept",
    "agents-acts",
    "agents-greet",
    "agents-idle",
    "agents-lost",
    "agents-orders",
    "agents-session",
    "alerts-own",
    "alerts-send",
    "api-accept",
    "console-frames",
    "console-stream",
    "event-stream",
    "fabric-preflight",
    "health-findings",
    "health-follow",
    "health-steps",
    "history",
    "http-feed",
    "log-keeper",
    "log-stream",
    "metering-fleet",
    "metering-jobs",
    "muster-watch",
    "output-index",
    "runbooks",
    "runtime-delay",
    "slo-count",
    "token-use",
];

/// The reader of the log, which has a point of its own, and parts that take settings which the site
/// of this test does not have.
const ELSEWHERE: [&str; 4] = ["fabric-test", "fabric-tests", "muster-reader", "remote-write"];

/// Begins to read a stream of the API, and leaves it. Says whether it answered.
fn reads(site: &Cluster, path: &str) -> bool {
    let Ok(mut stream) = TcpStream::connect(site.listen()) else { return false };
    let _ = stream.set_read_timeout(Some(Duration::from_secs(30)));
    let token = &site.token;
    let text = format!(
        "GET {path} HTTP/1.0\r\nHost: x\r\nAccept: text/event-stream, */*\r\n\
         Authorization: Bearer {token}\r\n\r\n"
    );
    stream.write_all(text.as_bytes()).is_ok() && stream.read(&mut [0; 64]).is_ok_and(|n| n > 0)
}

/// The leader panics there after so many passes; the standby must have all that was acknowledged.
fn a_panic_ends_the_lead(point: &str, site: &stores::Site) {
    let store = match &site.url {
        StoreUrl::Sqlite(path) => format!("sqlite:{}", path.display()),
        StoreUrl::Postgres(url) => url.clone(),
    };
    let mut leader = Cluster::server(&["--store", &store]);
    // Once without: the keys of the site are made.
    leader.restart();
    let mut standby = Cluster::server(&["--store", &store]);
    share_keys(&leader, &standby);
    leader.kill();
    leader.fail_at(&format!("{point}:panic"));
    leader.restart();
    // At once: some of these points are passed by the clock alone.
    let first = leader.muster(&["submit", "--", "true"]);
    let mut acknowledged: Vec<u64> = first.stdout.trim().parse::<u64>().into_iter().collect();
    standby.launch();
    // Where it comes late, it may lead at once.
    until("the second one stands by", || {
        standby.log().contains("standing by: server-") || leader.ended()
    });
    // Several at a look: what panics counts them.
    until("the panic ends the process", || {
        (0..4).any(|_| {
            let out = leader.muster(&["submit", "--", "true"]);
            acknowledged.extend(out.stdout.trim().parse::<u64>());
            leader.ended()
        })
    });
    let said = leader.log();
    assert!(said.contains("this server no longer leads: its thread muster-"), "{point}: {said}");
    assert!(!acknowledged.is_empty(), "{point}: nothing was acknowledged before: {said}");
    standby.ready();
    let jobs = standby.json(&["ps", "-a", "--limit", "1000"]);
    let all: Vec<_> = jobs["items"].as_array().into_iter().flatten().collect();
    for id in acknowledged.iter().map(u64::to_string) {
        assert!(all.iter().any(|j| j["id"] == id.as_str()), "{point}: job {id} is gone: {jobs:#}");
    }
    standby.submit(&["--", "true"]);
}

fn on_sqlite(point: &str) {
    a_panic_ends_the_lead(point, &stores::Site::sqlite());
}

fn on_postgresql(point: &str) {
    let Some(site) = stores::Site::postgres() else { return };
    a_panic_ends_the_lead(point, &site);
}

const ENGINE: &str = "brain.engine:60";
const WRITER: &str = "brain.writer:30";
/// Ten times a second: the first submission comes within half a minute on a busy machine, too.
const KEEPER: &str = "brain.keeper:300";
/// Ten times a second.
const SNAPSHOTS: &str = "brain.snapshots:300";

#[test]
fn a_panic_of_the_engine_ends_the_lead_on_sqlite() {
    on_sqlite(ENGINE);
}

#[test]
fn a_panic_of_the_engine_ends_the_lead_on_postgresql() {
    on_postgresql(ENGINE);
}

#[test]
fn a_panic_of_the_writer_ends_the_lead_on_sqlite() {
    on_sqlite(WRITER);
}

#[test]
fn a_panic_of_the_writer_ends_the_lead_on_postgresql() {
    on_postgresql(WRITER);
}

#[test]
fn a_panic_of_the_keeper_ends_the_lead_on_sqlite() {
    on_sqlite(KEEPER);
}

#[test]
fn a_panic_of_the_keeper_ends_the_lead_on_postgresql() {
    on_postgresql(KEEPER);
}

#[test]
fn a_panic_of_the_writer_of_snapshots_ends_the_lead_on_sqlite() {
    on_sqlite(SNAPSHOTS);
}

#[test]
fn a_panic_of_the_writer_of_snapshots_ends_the_lead_on_postgresql() {
    on_postgresql(SNAPSHOTS);
}

#[test]
fn every_other_part_that_panics_is_started_again() {
    let mut site = Cluster::start_with(1, &["--output-search", "on"]);
    site.kill();
    let points = TASKS.map(|t| format!("task.{t}:1:panic"));
    site.fail_at(&format!("{},brain.reader:1:panic", points.join(",")));
    site.restart();
    until("the node is back", || site.nodes_in("ready") == 1);
    let job = site.submit(&["--gpus", "1", "--", "sh", "-c", "echo here"]);
    site.muster(&["wait", &job]).code(0);
    until("its output is kept", || site.muster(&["logs", &job]).stdout.contains("here"));
    let panics = || {
        let page = get(site.listen(), "/metrics", &site.token).unwrap_or_default();
        let of = |t: &str| page.contains(&format!("muster_task_panics_total{{task=\"{t}\"}} 1"));
        TASKS.iter().copied().filter(|t| !of(t)).collect::<Vec<_>>()
    };
    until("every panic is counted", || {
        let streams = ["/v1/events", "/v1/console/frames"];
        streams.iter().all(|path| reads(&site, path)) && panics().is_empty()
    });
}

/// The names of parts in the sources of a crate, without its tests.
fn parts_in(dir: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(dir).expect("sources").flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        if path.is_dir() && name != "tests" {
            parts_in(&path, found);
        }
        if path.extension().is_none_or(|e| e != "rs") || name.ends_with("tests.rs") {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("a source");
        let begins =
            ["supervise::task(", "supervise::thread(", "supervise::once(", "Follower::start("];
        for begin in begins {
            let after = text.split(begin).skip(1).filter_map(|t| t.trim_start().strip_prefix('"'));
            found.extend(after.filter_map(|t| t.split('"').next()).map(str::to_owned));
        }
    }
}

#[test]
fn no_part_of_the_server_is_left_out() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    if !crates.join("server/src").is_dir() {
        // The test program was copied to another machine.
        return;
    }
    let mut found = BTreeSet::new();
    for of in ["executors", "http", "serve", "server"] {
        parts_in(&crates.join(of).join("src"), &mut found);
    }
    assert!(found.contains("acts") && found.contains("health-follow"), "{found:?}");
    let known = |part: &str| TASKS.iter().chain(&ELSEWHERE).any(|k| *k == part);
    let left: Vec<&str> = found.iter().map(String::as_str).filter(|p| !known(p)).collect();
    assert!(left.is_empty(), "no test makes these panic: {left:?}");
}
