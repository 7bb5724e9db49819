//! A stranger's first minutes with the real binary: a cluster in one command, work on it, what
//! goes wrong and how it is said, and a `kill -9` that loses nothing.

use crate::minutes::cluster::{Cluster, processes, until};
use muster_api::Timestamp;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::process::{Child, Stdio};

#[test]
fn a_gang_runs_and_every_rank_is_heard() {
    let c = Cluster::start(16);
    let out = c.muster(&[
        "run",
        "--gpus",
        "8",
        "--nodes",
        "2",
        "--",
        "sh",
        "-c",
        "echo $RANK of $WORLD_SIZE",
    ]);
    out.code(0);
    for rank in 0..16 {
        let line = format!("{rank} of 16");
        let ending = |l: &&str| *l == line || l.ends_with(&format!(" {line}"));
        assert_eq!(out.stdout.lines().filter(ending).count(), 1, "rank {rank}: {out:?}");
    }
    assert_eq!(out.stdout.lines().count(), 16, "{out:?}");
}

/// A program that fails by itself is no alert, and nothing of the site is wrong.
#[track_caller]
fn nothing_is_wrong(c: &Cluster) {
    let alerts = c.json(&["alerts"]);
    assert!(items(&alerts).is_empty(), "{alerts:#}");
    let out = c.muster(&["health"]);
    out.code(0);
    let first = out.stdout.lines().next().unwrap_or_default();
    assert_eq!(first.split_whitespace().collect::<Vec<_>>(), ["Site:", "healthy"], "{out:?}");
}

#[test]
fn exit_codes_come_back_and_refusals_say_why() {
    let c = Cluster::start_known(16, "site/config.toml");
    // Whoever named the file for `up` names it for the next command, and is known.
    let known = c
        .command()
        .env_remove("MUSTER_SERVER")
        .env_remove("MUSTER_TOKEN")
        .env("MUSTER_CONFIG", "site/config.toml")
        .arg("whoami")
        .output()
        .expect("the muster binary starts");
    assert!(known.status.success(), "{known:?}");
    assert!(!c.path(".config/muster/config.toml").exists(), "nobody named that one");
    // How fast the API answers is up to the machine: a slow one must not raise alerts here.
    c.muster(&["slo", "delete", "admission", "api-latency"]).code(0);
    c.muster(&["run", "--", "sh", "-c", "exit 7"]).code(7);
    nothing_is_wrong(&c);
    let one_fails = "if [ $RANK = 3 ]; then exit 9; fi; sleep 30";
    c.muster(&["run", "--nodes", "2", "--gpus", "2", "--", "sh", "-c", one_fails]).code(9);
    nothing_is_wrong(&c);

    let out = c.muster(&["run", "--nodes", "99", "--gpus", "8", "--", "true"]);
    out.code(5);
    assert!(out.stderr.contains("99") && out.stderr.contains("16"), "the exact reason: {out:?}");
    assert_eq!(out.stdout, "");

    let out = c.muster(&["get", "job", "4242"]);
    out.code(3);
    assert!(out.stderr.contains("4242"), "{out:?}");
    c.muster(&["cancel", "4242"]).code(3);
    c.muster(&["logs", "4242"]).code(3);

    let (rest, last) = c.token.split_at(c.token.len() - 1);
    let wrong = format!("{rest}{}", if last == "x" { "y" } else { "x" });
    c.muster(&["--token", &wrong, "ps"]).code(4);
    let out = c.muster(&["--server", "http://127.0.0.1:1", "--token", &c.token, "ps"]);
    out.code(6);
    assert!(out.stderr.contains("127.0.0.1:1"), "{out:?}");
    c.muster(&["run", "--gpuz", "8", "--", "true"]).code(2);
}

#[test]
fn arrays_and_dependencies_run_in_order() {
    let c = Cluster::start(4);
    let file = c.path("order");
    let say = |what: &str| format!("echo {what} >> {}", file.display());
    let array = say("task-$SLURM_ARRAY_TASK_ID");
    let id = c.submit(&[
        "--array",
        "0-3",
        "--gpus",
        "1",
        "--",
        "sh",
        "-c",
        &format!("sleep 0.5; {array}"),
    ]);
    let after = c.submit(&["--after", &id, "--", "sh", "-c", &say("after")]);
    let never = c.submit(&["--after", &format!("{after}:fail"), "--", "sh", "-c", &say("never")]);
    c.muster(&["wait", &after]).code(0);
    let text = std::fs::read_to_string(&file).expect("the jobs wrote");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.last(), Some(&"after"), "{lines:?}");
    let mut tasks = lines[..lines.len() - 1].to_vec();
    tasks.sort_unstable();
    assert_eq!(tasks, ["task-0", "task-1", "task-2", "task-3"]);
    until("the job that waits for a failure ends", || {
        c.json(&["get", "job", &never])["state"] == "cancelled"
    });
    let tasks = c.json(&["ps", "-a", "-o", "json"]);
    let ids: Vec<&str> = items(&tasks).iter().filter_map(|j| j["id"].as_str()).collect();
    for n in 0..4 {
        assert!(ids.contains(&format!("{id}_{n}").as_str()), "{ids:?}");
    }
}

#[test]
fn a_secret_reaches_the_rank_and_nothing_else() {
    let c = Cluster::start(2);
    let value = "hunter2-swordfish-4711";
    c.muster_with_input(&["secret", "set", "db-key"], value).code(0);
    let show = "echo got $DB_KEY | tr a-z A-Z";
    let out = c.muster(&["run", "--name", "uses-it", "--secret", "db-key", "--", "sh", "-c", show]);
    out.code(0);
    assert!(out.stdout.contains("GOT HUNTER2-SWORDFISH-4711"), "{out:?}");
    for args in [
        &["get", "job", "uses-it", "-o", "json"][..],
        &["get", "secrets", "-o", "json"],
        &["describe", "job", "uses-it"],
        &["events", "-o", "json"],
    ] {
        let out = c.muster(args);
        out.code(0);
        assert!(!out.stdout.contains(value), "{args:?} shows the secret");
    }
    let holding = c.files_with(value.as_bytes());
    assert!(holding.is_empty(), "in clear on the disk: {holding:?}");
}

#[test]
fn a_tenant_reads_nothing_of_the_site_and_of_others() {
    let me = muster_agent::isolation::possible();
    if !muster_testkit::vital(me.is_ok(), format!("{me:?}")) {
        return;
    }
    let c = Cluster::start_in(std::path::Path::new("/var/lib"), 1);
    // By hand, while it runs.
    set_mode(&c, 0o755);
    let out = c.muster(&["run", "--", "ls", "-A", &c.data()]);
    out.code(0);
    assert_eq!(out.stdout, "", "{out:?}");
    tenants(c);
}

fn set_mode(c: &Cluster, mode: u32) {
    let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
    std::fs::set_permissions(c.path("data"), mode).expect("the test's own");
}

/// As root in an unprivileged container: the kernel makes no namespaces, and users can be changed.
#[test]
fn a_tenant_is_not_root_where_the_kernel_makes_no_namespaces() {
    let me = muster_agent::isolation::possible();
    if !muster_testkit::program("setpriv", "util-linux")
        || !muster_testkit::vital(me.is_ok(), format!("{me:?}"))
    {
        return;
    }
    let dir = std::path::Path::new("/var/lib");
    let c = Cluster::start_weak(dir, 1, &["setpriv", "--bounding-set", "-sys_admin"]);
    assert!(c.log().contains("ranks run as their project's user, but see"), "{}", c.log());
    let node = c.json(&["get", "nodes"])["items"][0]["name"].as_str().expect("a node").to_owned();
    let out = c.muster(&["describe", "node", &node]);
    assert!(out.stdout.contains("accounts only"), "{out:?}");
    let out = c.muster(&["doctor"]);
    assert!(out.stdout.contains("separate ranks by user ids only"), "{out:?}");
    tenants(c);
}

/// As root without the right to change users: nothing runs, and it is shown why.
#[test]
fn nothing_runs_as_root_where_users_cannot_be_changed() {
    let me = muster_agent::isolation::possible();
    if !muster_testkit::program("setpriv", "util-linux")
        || !muster_testkit::vital(me.is_ok(), format!("{me:?}"))
    {
        return;
    }
    let dir = std::path::Path::new("/var/lib");
    let c = Cluster::start_weak(dir, 1, &["setpriv", "--bounding-set", "-setuid"]);
    assert!(c.log().contains("no rank starts here"), "{}", c.log());
    let id = c.submit(&["--", "sh", "-c", &format!("id -u > {}", c.path("who").display())]);
    until("it is reported why", || {
        let job = c.muster(&["describe", "job", &id, "-o", "json"]);
        job.stdout.contains("the agent lacks CAP_SETUID")
    });
    assert!(!c.path("who").exists(), "it ran");
    let out = c.muster(&["doctor"]);
    assert!(out.stdout.contains("nodes start no ranks"), "{out:?}");
}

/// Two projects on one node: neither reads the site's keys, nor what the other wrote.
fn tenants(mut c: Cluster) {
    for project in ["alpha", "beta"] {
        c.muster(&["project", "create", project]).code(0);
    }
    c.muster(&["run", "--project", "beta", "--", "echo", "of-beta-alone"]).code(0);
    let made = c.json(&["token", "create", "ann", "--role", "user", "--project", "alpha"]);
    let (admin, site) = (c.token.clone(), c.data());
    c.token = made["secret"].as_str().expect("it is shown once").to_owned();
    for file in ["admin.token", "secrets.key", "pki/ca.key", "muster.db"] {
        let path = format!("{site}/{file}");
        assert!(std::path::Path::new(&path).exists(), "{path}");
        let out = c.muster(&["run", "--", "cat", &path]);
        assert!(!out.stdout.contains(&admin) && out.stdout.is_empty(), "{file}: {out:?}");
        out.code(1);
    }
    let out = c.muster(&["run", "--", "sh", "-c", &format!("grep -r of-beta-alone {site}; id -u")]);
    out.code(0);
    let uid: u32 = out.stdout.trim().parse().expect("a user id and nothing else");
    assert!((200_000..=265_535).contains(&uid), "{out:?}");
}

#[test]
fn waiting_work_is_explained_and_output_for_programs_is_one_document() {
    let c = Cluster::start(2);
    let all = c.submit(&[
        "--name",
        "all",
        "--nodes",
        "2",
        "--gpus",
        "8",
        "--ranks-per-node",
        "1",
        "--",
        "sleep",
        "600",
    ]);
    let waits = c.submit(&["--name", "waits", "--gpus", "1", "--", "true"]);
    until("the first job runs", || c.json(&["get", "job", &all])["state"] == "running");
    let out = c.muster(&["explain", &waits]);
    out.code(0);
    assert!(out.stdout.to_lowercase().contains("gpu"), "{out:?}");
    for args in [
        &["ps"][..],
        &["nodes"],
        &["topology"],
        &["whoami"],
        &["get", "jobs"],
        &["get", "nodes"],
        &["get", "job", "all"],
        &["describe", "job", "all"],
        &["explain", &waits],
        &["events"],
        &["get", "projects"],
        &["token", "list"],
        &["secret", "list"],
    ] {
        let mut args = args.to_vec();
        args.extend(["-o", "json"]);
        let value = c.json(&args);
        assert!(value.is_object(), "{args:?}: {value}");
    }
    let job = c.json(&["get", "job", &all, "-o", "json"]);
    for field in ["id", "kind", "name", "state", "version"] {
        assert!(!job[field].is_null(), "{field} of {job}");
    }
    assert!(items(&c.json(&["get", "jobs", "-o", "json"])).len() == 2);
    c.muster(&["cancel", &all]).code(0);
    c.muster(&["wait", &waits]).code(0);
    assert_eq!(c.json(&["get", "job", &all])["state"], "cancelled");
}

/// A command that stays, with what it prints in a file.
fn attend(c: &Cluster, file: &str, args: &[&str]) -> Child {
    let out = std::fs::File::create(c.path(file)).expect("the test's own directory");
    let mut command = c.command();
    command.args(args).stdout(out).stderr(Stdio::null());
    command.spawn().expect("the muster binary starts")
}

fn output(c: &Cluster, file: &str) -> String {
    std::fs::read_to_string(c.path(file)).unwrap_or_default()
}

fn ended(child: &mut Child) -> bool {
    !matches!(child.try_wait(), Ok(None))
}

#[test]
fn a_killed_cluster_comes_back_and_its_ranks_never_noticed() {
    let mut c = Cluster::start(4);
    // A rank's own number means nothing outside its namespace; an odd nap is found from here.
    let nap = format!("604.{}", std::process::id());
    let script = format!("exec sleep {nap}");
    let id = c.submit(&[
        "--name",
        "sleeper",
        "--gpus",
        "4",
        "--ranks-per-node",
        "1",
        "--",
        "sh",
        "-c",
        &script,
    ]);
    let done = c.submit(&["--name", "done", "--", "echo", "kept words"]);
    c.muster(&["wait", &done]).code(0);
    until("the sleeper runs", || c.json(&["get", "job", &id])["state"] == "running");
    let naps = || processes(&["sleep", &nap]);
    let before = naps();
    assert_eq!(before.len(), 1, "one process: {before:?}");
    // Whoever runs a job or follows its output waits for the server too.
    let long = format!("606.{}", std::process::id());
    let script = format!("echo begun; sleep {long}; echo through; exit 5");
    let mut run = attend(&c, "run.out", &["run", "--name", "seen", "--", "sh", "-c", &script]);
    until("the job runs", || output(&c, "run.out") == "begun\n");
    let mut logs = attend(&c, "logs.out", &["logs", "-f", "seen"]);
    until("its output is followed", || output(&c, "logs.out") == "begun\n");
    for _ in 0..2 {
        c.kill();
        assert_eq!(naps(), before, "the rank outlives the server and the agents");
        c.restart();
        until("every node is back", || c.nodes_in("ready") == 4);
        let job = c.json(&["get", "job", &id]);
        assert_eq!((&job["state"], &job["attempts"]), (&"running".into(), &1.into()), "{job}");
        assert_eq!(naps(), before, "the same process");
    }
    for pid in processes(&["sleep", &long]) {
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).expect("a process");
        kill_process(pid, Signal::KILL).expect("the test's own");
    }
    until("both have ended", || [&mut run, &mut logs].into_iter().all(ended));
    for file in ["run.out", "logs.out"] {
        assert_eq!(output(&c, file), "begun\nthrough\n", "{file}");
    }
    assert_eq!(run.wait().expect("it ended").code(), Some(5), "the job's own code");
    assert_eq!(logs.wait().expect("it ended").code(), Some(0));
    assert_eq!(c.json(&["get", "job", &done])["state"], "succeeded");
    assert!(c.muster(&["logs", &done]).stdout.contains("kept words"));
    output_has_times(&c);
    c.muster(&["cancel", &id]).code(0);
    until("the sleeper is gone", || naps().is_empty());
    until("the job is cancelled", || c.json(&["get", "job", &id])["state"] == "cancelled");
}

#[test]
fn killed_nodes_are_started_again_however_often() {
    let mut c = Cluster::start(2);
    let nap = format!("605.{}", std::process::id());
    let script = format!("exec sleep {nap}");
    let id = c.submit(&["--gpus", "4", "--ranks-per-node", "1", "--", "sh", "-c", &script]);
    until("the job runs", || c.json(&["get", "job", &id])["state"] == "running");
    let naps = || processes(&["sleep", &nap]);
    let rank = naps();
    assert_eq!(rank.len(), 1, "one process: {rank:?}");

    for times in 1..=4 {
        let before = c.fleet();
        assert_eq!(before.len(), 1, "one process hosts the nodes: {before:?}");
        c.kill_fleet();
        let another = || c.fleet().iter().any(|p| !before.contains(p));
        until("another process hosts the nodes", another);
        until("every node is back", || c.nodes_in("ready") == 2);
        let said = c.log();
        assert_eq!(said.matches("SIGKILL)); starting it again in ").count(), times, "{said}");
    }
    assert!(!c.ended(), "{}", c.log());
    c.muster(&["run", "--gpus", "1", "--", "true"]).code(0);
    let job = c.json(&["get", "job", &id]);
    assert_eq!((&job["state"], &job["attempts"]), (&"running".into(), &1.into()), "{job}");
    assert_eq!(naps(), rank, "the same process");
    c.muster(&["cancel", &id]).code(0);
    until("the rank is gone", || naps().is_empty());
}

#[test]
fn nodes_that_cannot_start_are_given_up_after_three_quick_ends() {
    let mut c = Cluster::start(1);
    // What its nodes store can be neither found nor made.
    let (fleet, away) = (c.path("data/fleet"), c.path("data/fleet.away"));
    std::fs::rename(&fleet, &away).expect("the test's own");
    std::fs::write(&fleet, "").expect("the test's own");
    c.kill_fleet();
    until("it gives up", || c.ended());
    let said = c.log();
    assert!(said.contains("the fleet ended 3 times in a row"), "{said}");
    std::fs::remove_file(&fleet).expect("the test's own");
    std::fs::rename(&away, &fleet).expect("the test's own");
    // A start closes what was opened, and says so.
    set_mode(&c, 0o755);
    c.restart();
    until("every node is back", || c.nodes_in("ready") == 1);
    let about = std::fs::metadata(c.path("data")).expect("the test's own");
    let mode = std::os::unix::fs::MetadataExt::mode(&about) & 0o7777;
    assert_eq!(mode, 0o700, "{}", c.log());
    assert!(c.log().contains("had mode 755"), "{}", c.log());
}

/// Each line of the job `seen` has the time at which it came, until that is lost; without `-t` its output
/// is byte for byte what it printed.
fn output_has_times(c: &Cluster) {
    let shown = c.muster(&["logs", "-t", "seen"]).stdout;
    let lines: Vec<(&str, &str)> = shown.lines().filter_map(|l| l.split_once(' ')).collect();
    let times: Vec<_> = lines.iter().filter_map(|l| l.0.parse::<Timestamp>().ok()).collect();
    assert_eq!(lines.iter().map(|l| l.1).collect::<Vec<_>>(), ["begun", "through"], "{shown}");
    assert!(times.len() == 2 && times.is_sorted(), "{shown}");
    let since = |time: &str| c.muster(&["logs", "seen", "--since", time]).stdout;
    assert_eq!(since("1h"), "begun\nthrough\n");
    assert_eq!(since("2200-01-01T00:00:00Z"), "");
    // Of what an older server stored nobody knows when it came.
    for attempt in std::fs::read_dir(c.path("data/logs/0")).expect("stored output").flatten() {
        for file in std::fs::read_dir(attempt.path()).expect("an attempt").flatten() {
            if file.path().extension().is_some_and(|e| e == "at") {
                std::fs::remove_file(file.path()).expect("a file of times");
            }
        }
    }
    let shown = c.muster(&["logs", "--timestamps", "seen"]).stdout;
    assert_eq!(shown, "no-time begun\nno-time through\n");
    let late = c.muster(&["logs", "seen", "--since", "1h"]);
    assert!(late.stdout.is_empty() && late.stderr.contains("its time is not known"), "{late:?}");
    assert_eq!(c.muster(&["logs", "seen"]).stdout, "begun\nthrough\n");
}

/// Simulated work that writes checkpoints, on one GPU; without a server it goes on for an hour.
fn saving(c: &Cluster) -> String {
    let spec = serde_json::json!({
        "name": "saves",
        "gang": {"nodes": 1, "gpus_per_node": 1},
        "checkpoint": {"dir": c.path("checkpoints")},
        "on_partition": {"stop_after": "1h"},
        "simulate": {"run": "1h"},
    });
    let file = c.path("saves.json");
    std::fs::write(&file, spec.to_string()).expect("the test's own directory");
    c.submit(&[file.display().to_string().as_str()])
}

#[test]
fn a_crashed_node_costs_its_job_one_attempt() {
    let c = Cluster::start_to_crash(2);
    let nodes = c.json(&["get", "nodes"]);
    let name = |n: usize| items(&nodes)[n]["name"].as_str().expect("a name").to_owned();
    let (node, other) = (name(0), name(1));
    c.muster(&["node", "cordon", &other]).code(0);
    let script =
        "if [ $MUSTER_ATTEMPT = 1 ]; then sleep 600; fi; echo second attempt on $MUSTER_NODE";
    let id = c.submit(&["--gpus", "7", "--ranks-per-node", "1", "--", "sh", "-c", script]);
    let saves = saving(&c);
    for job in [&id, &saves] {
        until("the job runs", || c.json(&["get", "job", job])["state"] == "running");
    }
    c.muster(&["node", "uncordon", &other]).code(0);
    let delay = "starts again 1h00m after the lost node's last heartbeat at the earliest";
    let said = c.muster(&["describe", "job", &saves]);
    assert!(said.stdout.contains(&format!("After a loss: {delay}")), "{said:?}");
    let said = c.muster(&["describe", "job", &id]);
    assert!(!said.stdout.contains("After a loss"), "it saves nothing: {said:?}");
    // It does not come back while this test lasts.
    c.muster(&["node", "inject", &node, "crash", "--down", "1h"]).code(0);
    c.muster(&["wait", &id]).code(0);
    let job = c.json(&["get", "job", &id]);
    assert_eq!(job["attempts"], 2, "{job}");
    let out = c.muster(&["logs", &id]);
    assert!(out.stdout.contains("second attempt on "), "{out:?}");
    assert!(!out.stdout.contains(&node), "elsewhere than on {node}: {out:?}");
    waits_for_the_lost_node(&c, &saves, &node);
}

/// Whose ranks on a lost node may still write says when it starts again.
fn waits_for_the_lost_node(c: &Cluster, id: &str, node: &str) {
    until("it is being stopped", || c.json(&["get", "job", id])["state"] == "stopping");
    let (list, all) = (c.muster(&["ps"]), c.muster(&["describe", "job", id]));
    let row = list.stdout.lines().find(|l| l.contains(" saves ")).unwrap_or_default();
    let lost = format!("node {node} was lost");
    assert!(row.contains(&lost), "{list:?}");
    assert!(row.contains("; next attempt in ") && row.contains(" at the earliest"), "{list:?}");
    let next = |l: &str| l.starts_with("Next attempt: ") && l.contains(node);
    assert!(all.stdout.lines().any(next), "{all:?}");
}

#[test]
fn two_clusters_on_one_machine_leave_each_other_alone() {
    let (a, b) = (Cluster::start(1), Cluster::start(1));
    // The same node name, job number and attempt in both.
    let id = a.submit(&["--gpus", "1", "--", "sh", "-c", "sleep 600"]);
    until("the job runs", || a.json(&["get", "job", &id])["state"] == "running");
    b.muster(&["run", "--gpus", "1", "--", "true"]).code(0);
    b.muster(&["run", "--gpus", "1", "--", "sh", "-c", "sleep 600 & exit 5"]).code(5);
    let job = a.json(&["get", "job", &id]);
    assert_eq!(job["state"], "running", "{job}");
    a.muster(&["cancel", &id]).code(0);
    until("the job is cancelled", || a.json(&["get", "job", &id])["state"] == "cancelled");
}

fn items(list: &Value) -> &[Value] {
    list["items"].as_array().map(Vec::as_slice).unwrap_or_default()
}
