//! Two servers on one store, and a third one on what was saved of it.

use super::{is, items, job, refuses, says};
use crate::Running;
use crate::minutes::cluster::{Cluster, processes, until};
use crate::stores;
use muster_store::StoreUrl;
use serde_json::Value;
use std::process::Command;

/// `muster agent` of this machine joins the first server and knows the second one's address too.
fn join(first: &Cluster, second: &Cluster) -> Running {
    let token = first.muster(&["token", "create", "racks", "--join", "--uses", "1"]);
    token.code(0);
    let log = std::fs::File::create(first.path("agent.log")).expect("a log file");
    let mut command = first.command();
    command
        .args(["agent", "--link", &format!("{},{}", first.link(), second.link())])
        .args(["--join", token.stdout.trim(), "--name", "n1"])
        .args(["--exporter", "off", "--isolation", "off", "--data-dir"])
        .arg(first.path("agent"))
        .stdout(log.try_clone().expect("a second handle"))
        .stderr(log);
    let agent = Running(command.spawn().expect("the muster binary starts"));
    until("the node is ready", || first.nodes_in("ready") == 1);
    agent
}

/// What two servers of a site must share, beside the store.
pub(crate) fn share_keys(from: &Cluster, to: &Cluster) {
    std::fs::create_dir(to.data()).expect("a directory");
    let kept = ["pki", "secrets.key", "cursor.key", "admin.token"];
    let files = kept.map(|f| format!("{}/{f}", from.data()));
    muster_testkit::succeeds(Command::new("cp").arg("-a").args(files).arg(to.data()));
}

/// The jobs as a list shows them, without what moves with the clock.
fn jobs(c: &Cluster) -> Vec<(Value, Value, Value)> {
    let list = c.json(&["ps", "-a"]);
    let of = |j: &Value| (j["id"].clone(), j["name"].clone(), j["state"].clone());
    items(&list).iter().map(of).collect()
}

#[test]
fn a_standby_takes_over_from_a_killed_leader_and_a_backup_serves_the_same_jobs() {
    let site = stores::Site::postgres().unwrap_or_else(stores::Site::sqlite);
    let store = match &site.url {
        StoreUrl::Sqlite(path) => format!("sqlite:{}", path.display()),
        // Shown without its password, so not by its own Display.
        StoreUrl::Postgres(url) => url.clone(),
    };
    let mut leader = Cluster::server(&["--store", &store]);
    leader.restart();
    let mut standby = Cluster::server(&["--store", &store]);
    share_keys(&leader, &standby);
    standby.launch();
    until("the second one stands by", || standby.log().contains("standing by: server-"));
    let _agent = join(&leader, &standby);

    let ended = leader.submit(&["--name", "ended", "--", "sh", "-c", "exit 7"]);
    leader.muster(&["wait", &ended]).code(7);
    let go = leader.path("go");
    let script = format!("while [ ! -e {} ]; do sleep 0.1; done; echo through", go.display());
    let runs = leader.submit(&["--name", "runs", "--", "sh", "-c", &script]);
    let after = format!("{runs}:ok");
    let waits = leader.submit(&["--name", "waits", "--after", &after, "--", "echo", "at last"]);
    until("the job runs", || is(&leader, &runs, "running"));

    let file = leader.path("site.backup").display().to_string();
    let backup = leader.json(&["store", "backup", &file, "--store", &store]);
    assert!(backup["entries"].as_u64() > Some(0) && backup["first_seq"] == 1, "{backup:#}");
    refuses(&leader.muster(&["store", "backup", &file, "--store", &store]), 5, &["site.backup"]);
    let before = jobs(&leader);

    leader.kill();
    // What follows needs no server, or one of its own, while the dead leader's lease runs out.
    refuses(&leader.muster(&["ps"]), 6, &["is it running?"]);
    let out = leader.muster(&["store", "check", "--store", &store]);
    says(&out, &["entries verified (1 to ", "no problem found"]);

    let mut restored = Cluster::server(&[]);
    share_keys(&leader, &restored);
    let data = restored.data();
    let restore = ["store", "restore", &file, "--data-dir", &data];
    let out = restored.muster(&restore);
    says(&out, &[&format!("restored {} entries", backup["entries"])]);
    assert!(out.stderr.contains("muster node reconcile NODE"), "{out:?}");
    restored.muster(&restore).code(5);
    let nosuch = restored.muster(&["store", "restore", "nosuch", "--data-dir", &data]);
    refuses(&nosuch, 2, &["cannot read nosuch"]);
    restored.restart();
    assert_eq!(jobs(&restored), before, "the same jobs");
    let kept = job(&restored, &ended);
    assert_eq!((&kept["state"], &kept["exit_code"]), (&"failed".into(), &7.into()), "{kept:#}");
    restored.kill();
    let check = restored.json(&["store", "check", "--data-dir", &data]);
    assert_eq!(check["ok"], true, "{check:#}");
    let missing = restored.path("nowhere").display().to_string();
    refuses(
        &restored.muster(&["store", "check", "--data-dir", &missing]),
        3,
        &["there is no store"],
    );

    standby.ready();
    until("the node is back", || standby.nodes_in("ready") == 1);
    let job = job(&standby, &runs);
    assert_eq!((&job["state"], &job["attempts"]), (&"running".into(), &1.into()), "{job:#}");
    assert_eq!(jobs(&standby), before, "nothing that was reported is forgotten");
    std::fs::write(&go, "").expect("the test's own directory");
    standby.muster(&["wait", &runs, &waits]).code(0);
    says(&standby.muster(&["logs", &runs]), &["through\n"]);
    let events = standby.json(&["events"]);
    let leaders: Vec<&Value> = items(&events)
        .iter()
        .filter(|e| e["kind"] == "leader_changed")
        .map(|e| &e["data"]["server"])
        .collect();
    assert!(leaders.len() == 2 && leaders[0] != leaders[1], "{leaders:?}");
    standby.kill();
    let out = standby.muster(&["store", "check", "--store", &store]);
    says(&out, &["no problem found"]);
}

#[test]
fn a_copy_of_a_data_directory_stands_by_and_takes_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = format!("sqlite:{}", dir.path().join("site.db").display());
    let mut leader = Cluster::server(&["--store", &store]);
    leader.restart();
    let mut copy = Cluster::server(&["--store", &store]);
    muster_testkit::succeeds(Command::new("cp").args(["-a", &leader.data(), &copy.data()]));
    copy.launch();
    until("the copy stands by", || copy.log().contains("standing by: server-"));
    // It asks for the lease twice a second; the leader renews it and notices nothing.
    leader.muster(&["project", "create", "still-here"]).code(0);
    assert!(!leader.log().contains("no longer leads"), "{}", leader.log());
    copy.kill();
    // A restart is not a copy: its own lease comes back at once.
    leader.kill();
    leader.restart();
    assert!(!leader.log().contains("standing by"), "{}", leader.log());
}

#[test]
fn a_lost_wal_is_noticed_and_after_a_restore_no_id_and_no_output_returns() {
    let mut c = Cluster::server(&[]);
    c.restart();
    let _agent = join(&c, &c);
    let data = c.data();
    let file = c.path("site.backup").display().to_string();
    c.muster(&["store", "backup", &file, "--data-dir", &data]).code(0);
    let lost = c.submit(&["--", "echo", "of the lost life"]);
    c.muster(&["wait", &lost]).code(0);
    says(&c.muster(&["logs", &lost]), &["of the lost life\n"]);

    c.kill();
    let db = |ending: &str| c.path(&format!("data/muster.db{ending}"));
    for ending in ["-wal", "-shm"] {
        std::fs::remove_file(db(ending)).expect("it was in use");
    }
    let check = c.muster(&["store", "check", "--data-dir", &data]);
    refuses_check(&check);
    c.launch();
    until("it says why it does not start", || c.log().contains("muster store accept-loss"));
    c.kill();

    let db = |ending: &str| c.path(&format!("data/muster.db{ending}"));
    for ending in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(db(ending));
    }
    c.muster(&["store", "restore", &file, "--data-dir", &data]).code(0);
    c.restart();
    until("the node is back, and protected", || c.nodes_in("protected") == 1);
    c.muster(&["node", "reconcile", "n1"]).code(0);
    until("the node is ready", || c.nodes_in("ready") == 1);
    let new = c.submit(&["--", "echo", "of the new life"]);
    assert_ne!(new, lost, "an id was given out again");
    c.muster(&["wait", &new]).code(0);
    let out = c.muster(&["logs", &new]);
    says(&out, &["of the new life\n"]);
    assert!(!out.stdout.contains("lost life"), "{out:?}");
    refuses(&c.muster(&["logs", &lost]), 3, &["job"]);
}

#[test]
fn a_restore_that_was_killed_is_not_taken_for_a_new_site() {
    let mut c = Cluster::server(&[]);
    c.restart();
    c.muster(&["project", "create", "still-here"]).code(0);
    let file = c.path("site.backup").display().to_string();
    c.muster(&["store", "backup", &file, "--data-dir", &c.data()]).code(0);
    // Nobody names a store: the default one is meant, which is not this server's.
    let second = c.path("second.backup").display().to_string();
    for (verb, file, done) in [("restore", &file, "restored"), ("backup", &second, "backed up")] {
        let out = c.muster(&["store", verb, file]);
        says(&out, &[&format!("/.local/share/muster/muster.db: {done} ")]);
        // A backup of this very server may be restored where nothing is yet.
        let warned = out.stderr.contains("which is not that of the server at http");
        assert_eq!(warned, verb == "backup", "{out:?}");
        assert!(!out.stderr.contains("another site"), "it is a copy of the same site: {out:?}");
    }
    let out = c.muster(&["store", "check", "--data-dir", &c.data()]);
    assert!(!out.stderr.contains("which is not that of"), "{out:?}");
    let mut other = Cluster::server(&[]);
    share_keys(&c, &other);
    c.kill();
    let data = other.data();
    let restore = ["store", "restore", &file, "--data-dir", &data];
    let mut killed = other.command();
    let killed = killed.args(restore).env("MUSTER_FAILPOINT", "store.load:1").output().unwrap();
    assert!(!killed.status.success(), "it died on the way: {}", muster_testkit::printed(&killed));
    let said = "did not come to its end";
    let check = other.muster(&["store", "check", "--data-dir", &data]);
    check.code(1);
    assert!(check.stdout.contains(said) && check.stdout.contains("site.backup"), "{check:?}");
    other.launch();
    until("it says why it does not start", || other.log().contains(said));
    other.kill();
    other.muster(&restore).code(0);
    other.restart();
    says(&other.muster(&["project", "list"]), &["still-here"]);
}

#[test]
fn a_node_that_was_reconciled_stays_so_through_restarts() {
    let mut c = Cluster::server(&[]);
    c.restart();
    let _agent = join(&c, &c);
    let data = c.data();
    let file = c.path("site.backup").display().to_string();
    c.muster(&["store", "backup", &file, "--data-dir", &data]).code(0);
    // The lost part of the log is longer than what the new life writes here.
    for i in 0..40 {
        let job = c.submit(&["--", "echo", &i.to_string()]);
        c.muster(&["wait", &job]).code(0);
    }
    c.kill();
    for ending in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(c.path(&format!("data/muster.db{ending}")));
    }
    c.muster(&["store", "restore", &file, "--data-dir", &data]).code(0);
    c.restart();
    until("the node is back, and protected", || c.nodes_in("protected") == 1);
    c.muster(&["node", "reconcile", "n1"]).code(0);
    let job = c.submit(&["--", "true"]);
    c.muster(&["wait", &job]).code(0);
    c.kill();
    c.restart();
    // It runs only where the node came back as one that takes work.
    let job = c.submit(&["--", "true"]);
    until("the node takes work", || is(&c, &job, "succeeded"));
    assert_eq!(c.nodes_in("protected"), 0);
}

#[test]
fn after_the_loss_of_the_whole_log_nodes_come_back_held_and_what_they_run_goes_on() {
    let mut c = Cluster::server(&[]);
    c.restart();
    let _agent = join(&c, &c);
    let length = (100_000 + std::process::id()).to_string();
    let runs = c.submit(&["--", "sleep", &length]);
    until("the job runs", || is(&c, &runs, "running"));
    let ranks = processes(&["sleep", &length]);
    assert_eq!(ranks.len(), 1);
    c.kill();
    for ending in ["-wal", "-shm"] {
        std::fs::remove_file(c.path(&format!("data/muster.db{ending}"))).expect("it was in use");
    }
    let accepted = c.muster(&["store", "accept-loss", "--data-dir", &c.data()]);
    accepted.code(0);
    c.restart();
    until("the node is back, and protected", || c.nodes_in("protected") == 1);
    assert_eq!(processes(&["sleep", &length]), ranks, "nobody stopped it");
    c.muster(&["node", "reconcile", "n1"]).code(0);
    until("what the log does not know is stopped", || processes(&["sleep", &length]).is_empty());
    until("the node is ready", || c.nodes_in("ready") == 1);
}

fn refuses_check(check: &crate::minutes::cluster::CommandOutput) {
    check.code(1);
    let all = format!("{}{}", check.stdout, check.stderr);
    assert!(all.contains("were committed and are missing at the end of the log"), "{all}");
    assert!(!all.contains("no problem found"), "{all}");
}
