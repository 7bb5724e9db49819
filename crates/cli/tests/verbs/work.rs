//! What is done with jobs that wait, run and have ended; and who may have how much.

use super::{is, items, job, lasting, refuses, says, write};
use crate::export::get;
use crate::minutes::cluster::{Cluster, until};

/// Two nodes with half of their GPUs free, and who holds the other halves.
fn halves(c: &Cluster) -> (String, String) {
    let one = lasting(c, "one", 4, &[]);
    until("the first half runs", || is(c, &one, "running"));
    let node = job(c, &one)["attempt"]["slots"][0]["node"].as_str().expect("placed").to_owned();
    let cordoned = format!("node {node} is cordoned");
    let reason = ["node", "cordon", &node, "--reason", "fan"];
    says(&c.muster(&reason), &[&format!("{cordoned} (fan)\n")]);
    says(&c.muster(&reason[..3]), &[&format!("{cordoned} already (fan)\n")]);
    let two = lasting(c, "two", 4, &[]);
    until("the other half runs", || is(c, &two, "running"));
    let uncordon = ["node", "uncordon", &node];
    says(&c.muster(&uncordon), &[&format!("node {node} is ready\n")]);
    says(&c.muster(&uncordon), &[&format!("node {node} is ready already\n")]);
    (one, two)
}

#[test]
fn waiting_work_is_steered_and_every_way_to_start_it_is_reported() {
    let c = Cluster::start(2);
    let file = write(&c, "policy.yaml", "kind: Policy\npreemption: {min_run: 0s}\n");
    let min_run = || c.json(&["policy"])["policy"]["preemption"]["min_run"].clone();
    let change = "change preemption.min_run: 5m -> 0s\n";
    let out = c.muster(&["policy", "apply", &file, "--dry-run"]);
    says(&out, &[&format!("would {change}")]);
    assert_eq!(min_run(), "5m", "nothing was done");
    says(&c.muster(&["policy", "apply", &file]), &["changed preemption.min_run: 5m -> 0s\n"]);
    assert_eq!(min_run(), "0s");
    let out = c.muster(&["policy", "show"]);
    let shown = out.stdout.lines().find(|l| l.starts_with("preemption.min_run "));
    let words: Vec<&str> = shown.unwrap_or_default().split_whitespace().collect();
    assert_eq!(words, ["preemption.min_run", "0s", "5m"], "{out:?}");
    let bad = write(&c, "bad.yaml", "kind: Policy\npreemption: {min_runs: 0s}\n");
    refuses(&c.muster(&["policy", "apply", &bad]), 2, &["bad.yaml:2", "min_run"]);
    let rule = "remediations: {rules: [{kind: ecc-uncorectable, steps: [watch]}]}";
    let typo = write(&c, "typo.yaml", &format!("kind: Policy\n{rule}\n"));
    let meant = ["no failure mode `ecc-uncorectable`", "did you mean `ecc-uncorrectable`?"];
    refuses(&c.muster(&["policy", "apply", &typo]), 2, &meant);
    let rule = "remediations: {rules: [{sku: h999, steps: [watch]}]}";
    let absent = write(&c, "absent.yaml", &format!("kind: Policy\n{rule}\n"));
    let out = c.muster(&["policy", "apply", &absent, "--dry-run"]);
    out.code(0);
    assert!(out.stderr.contains("`h999` matches nothing of this site today"), "{out:?}");

    let (one, two) = halves(&c);
    let gang = c.submit(&[
        "--name",
        "gang",
        "--gpus",
        "8",
        "--ranks-per-node",
        "1",
        "--",
        "sh",
        "-c",
        "exit 7",
    ]);
    until("it is known why it waits", || !job(&c, &gang)["waiting"].is_null());

    let plan = c.json(&["defrag"]);
    let best = &plan["proposals"][0];
    assert_eq!(
        (&plan["enabled"], &best["gang"]),
        (&false.into(), &gang.as_str().into()),
        "{plan:#}"
    );
    assert_eq!(best["moves"].as_array().map(Vec::len), Some(1), "{plan:#}");
    assert!([&one, &two].iter().any(|id| best["moves"][0]["job"] == id.as_str()), "{plan:#}");
    let out = c.muster(&["defrag"]);
    says(&out, &[&format!("job {gang} (gang) could start now"), "  move job "]);
    assert!(out.stderr.contains("moving is off"), "{out:?}");

    let live = ["whatif", "--from", "live", "--change", "nodes=+2", "--seeds", "1", "--horizon"];
    let answer = c.json(&[&live[..], &["1h"]].concat());
    assert_eq!(answer["base_size"], serde_json::json!([2, 16]), "{answer:#}");
    assert_eq!(answer["changed_size"], serde_json::json!([4, 32]), "{answer:#}");
    assert_eq!((&answer["running"], &answer["waiting"]), (&2.into(), &1.into()), "{answer:#}");
    let server = ["whatif", "--from", "server", "--change", "nodes=+2", "--seeds", "1"];
    let same = c.json(&[&server[..], &["--horizon", "1h"]].concat());
    for what in ["base_size", "changed_size", "running", "waiting", "changes", "seeds"] {
        assert_eq!(same[what], answer[what], "{what}: {same:#}");
    }
    says(&c.muster(&server), &["METRIC", "What binds as it is", "Of the jobs that wait, "]);
    let page = c.muster(&[&server[..], &["--report", "whatif.html"]].concat());
    refuses(&page, 2, &["--report", "--from live"]);
    let bad = ["whatif", "--from", "server", "--change", "policy.backfill.mod=easy"];
    refuses(&c.muster(&bad), 2, &["policy.backfill.mod"]);

    refuses(&c.muster(&["hold", &one]), 5, &["only a waiting job can be held", "muster requeue"]);
    says(&c.muster(&["hold", "gang"]), &[&format!("job {gang} is held\n")]);
    says(&c.muster(&["explain", &gang]), &["is held by", &format!("muster release {gang}")]);
    let update = ["update", &gang, "--priority", "low", "--time", "2h"];
    says(&c.muster(&update), &[&format!("job {gang} is changed\n")]);
    let spec = job(&c, &gang)["spec"].clone();
    assert_eq!((&spec["priority"], &spec["time_limit"]), (&"low".into(), &"2h".into()), "{spec:#}");
    refuses(&c.muster(&["update", &one, "--priority", "low"]), 5, &["only a waiting job"]);
    says(&c.muster(&["update", &one, "--time", "4h"]), &[&format!("job {one} is changed\n")]);
    assert_eq!(job(&c, &one)["spec"]["time_limit"], "4h");

    says(&c.muster(&["cancel", &one]), &[&format!("job {one} is being cancelled\n")]);
    until("its room is free", || is(&c, &one, "cancelled"));
    // Whoever asks for half a node passes it: there is room, and only the hold keeps it.
    let passes =
        c.submit(&["--name", "passes", "--gpus", "4", "--ranks-per-node", "1", "--", "true"]);
    c.muster(&["wait", &passes]).code(0);
    let held = job(&c, &gang);
    assert_eq!((&held["state"], &held["attempts"]), (&"queued".into(), &0.into()), "{held:#}");
    says(&c.muster(&["release", &gang]), &[&format!("job {gang} may start\n")]);
    let out = c.muster(&["wait", &passes, &gang]);
    refuses(&out, 7, &[&format!("job {gang} (gang) failed")]);
    assert_eq!(items(&c.json(&["ps", "-a"])).len(), 4);
    let sorted = c.json(&["ps", "-a", "--sort=-name"]);
    let names: Vec<&str> = items(&sorted).iter().filter_map(|j| j["name"].as_str()).collect();
    assert!(names.len() == 4 && names.is_sorted_by(|a, b| a >= b), "{names:?}");
    refuses(&c.muster(&["ps", "--sort", "colour"]), 2, &["colour", "duration"]);

    // One that runs, and one that has ended.
    let out = c.muster(&["requeue", &two, &gang]);
    says(&out, &[&format!("job {two} goes back to the queue\n"), &format!("job {gang} goes")]);
    c.muster(&["wait", &gang]).code(7);
    assert_eq!(job(&c, &gang)["attempts"], 2);
    until("the other runs again", || is(&c, &two, "running") && job(&c, &two)["attempts"] == 2);
    let out = c.muster(&["cancel", "4242", &two]);
    refuses(&out, 3, &["4242"]);
    assert!(is(&c, &two, "running"), "nothing is changed when one of them is wrong");
    c.muster(&["cancel", &two]).code(0);
    until("it is cancelled", || is(&c, &two, "cancelled"));
    refuses(&c.muster(&["requeue", "no-such-name"]), 3, &["no-such-name"]);
    let over = format!("job {gang} ended (failed) at ");
    refuses(&c.muster(&["cancel", &gang]), 5, &[&over, "nothing to cancel"]);

    let waits = c.submit(&["--name", "waits", "--array", "0-1", "--hold", "--", "true"]);
    says(&c.muster(&["describe", "job", &waits]), &["2: 2 held"]);
    c.muster(&["cancel", &waits]).code(0);

    // The plain id of an array means its tasks; what succeeded is not done again unasked.
    let array = c.submit(&["--name", "sweep", "--array", "3-4", "--", "true"]);
    c.muster(&["wait", &array]).code(0);
    says(&c.muster(&["describe", "job", &array]), &["2: 2 succeeded", &format!("{array}_4")]);
    says(&c.muster(&["explain", &array]), &["2 tasks: 2 succeeded"]);
    let named = c.muster(&["describe", "job", "sweep_4"]);
    refuses(&named, 3, &[&format!("task 4 of array `sweep` is {array}_4")]);
    let none = c.muster(&["describe", "job", "sweep_9"]);
    refuses(&none, 3, &["there is no job called `sweep_9`"]);
    assert!(!none.stderr.contains(&format!("{array}_9")), "{none:?}");
    refuses(&c.muster(&["requeue", &array]), 5, &["muster requeue --all"]);
    says(
        &c.muster(&["requeue", "--all", &array]),
        &[&format!("array {array}: all of its tasks go back")],
    );
    c.muster(&["wait", &array]).code(0);
    assert_eq!(job(&c, &format!("{array}_4"))["attempts"], 2);

    // Whoever watches a job that is held reads so, and what ends it.
    let said = c.path("run.err");
    let file = std::fs::File::create(&said).expect("the test's own directory");
    let mut run = c.command();
    let run = run.args(["run", "--name", "later", "--hold", "--", "true"]).stderr(file).spawn();
    let mut run = run.expect("the muster binary starts");
    until("it says that the job is held", || {
        let text = std::fs::read_to_string(&said).unwrap_or_default();
        text.contains("is held by user:") && text.contains("muster release")
    });
    c.muster(&["release", "later"]).code(0);
    let how = run.wait().expect("ended");
    let text = std::fs::read_to_string(&said).unwrap_or_default();
    assert!(how.success(), "{how}: {text}");

    c.muster(&["project", "create", "team"]).code(0);
    let tree = "kind: Quotas\ntree:\n  - {name: team, projects: [team], gpus: [{nominal: 4}]}\n";
    let file = write(&c, "quotas.yaml", tree);
    says(&c.muster(&["quota", "check", &file]), &["1 quota, no problem found"]);
    assert!(c.muster(&["quota"]).stderr.contains("no quotas are set"));
    let lonely = tree.replace("nominal: 4", "nominal: 4, borrow: 4");
    let lonely = write(&c, "lonely.yaml", &lonely);
    let nobody =
        "warning: quota team: `borrow: 4` has no effect: a root of the tree borrows from nobody";
    let checked = c.muster(&["quota", "check", &lonely]);
    says(&checked, &["1 quota, 1 warning"]);
    assert!(checked.stderr.contains(nobody), "{checked:?}");
    let would = c.muster(&["quota", "apply", &lonely, "--dry-run"]);
    says(&would, &["the site would have 1 quota"]);
    assert!(would.stderr.contains(nobody), "{would:?}");
    says(&c.muster(&["quota", "apply", &file, "--dry-run"]), &["the site would have 1 quota"]);
    assert!(c.muster(&["quota"]).stderr.contains("no quotas are set"), "nothing was set");
    let out = c.muster(&["quota", "apply", &file]);
    says(&out, &["the site now has 1 quota over 1 project\n"]);
    // Others' quotas are not shown to a project without one, and are not said to be none.
    let eve = c.muster(&["token", "create", "eve", "--role", "user", "--project", "default"]);
    eve.code(0);
    let seen = c.muster(&["quota", "--token", eve.stdout.trim()]);
    assert!(seen.stderr.contains("no quota applies to project default"), "{seen:?}");
    let in_team = ["--project", "team"];
    let first = lasting(&c, "first", 4, &in_team);
    until("what is within the quota runs", || is(&c, &first, "running"));
    let second = lasting(&c, "second", 2, &in_team);
    says(&c.muster(&["explain", &second]), &["quota team leaves 0 of the 2 GPUs it asks for"]);
    let why = c.json(&["explain", &second]);
    let binds = why["constraints"].as_array().into_iter().flatten().find(|c| c["binding"] == true);
    assert_eq!(binds.map(|c| &c["name"]), Some(&"quota".into()), "{why:#}");
    let never = ["whatif", "submit", "--project", "team", "--gpus", "8", "--", "true"];
    says(&c.muster(&never), &["quota team leaves 0 of the 8 GPUs it asks for, and never will"]);
    // It would wait, as submitting it does.
    let dry = c.muster(&["submit", "--dry-run", "--project", "team", "--gpus", "8", "--", "true"]);
    dry.code(0);
    says(&dry, &["would wait", "and never will as the quotas are set"]);
    let beyond = c.muster(&["submit", "--project", "team", "--gpus", "8", "--hold", "--", "true"]);
    beyond.code(0);
    let note = "note: quota team leaves 0 of the 8 GPUs it asks for, and never will";
    assert!(beyond.stderr.contains(note), "{beyond:?}");
    c.muster(&["cancel", beyond.stdout.trim()]).code(0);
    // What overrules a script is named by where it came from.
    let script = write(&c, "old.sbatch", "#!/bin/sh\n#SBATCH --account=default\ntrue\n");
    let flag = c.muster(&["submit", &script, "--hold", "--project", "team"]);
    let words = "`--account` is overruled by ";
    assert!(flag.stderr.contains(&format!("{words}`--project` of the command line")), "{flag:?}");
    let mut command = c.command();
    let set =
        command.env("MUSTER_PROJECT", "team").args(["submit", script.as_str(), "--hold"]).output();
    let said = String::from_utf8(set.expect("it ran").stderr).expect("text");
    assert!(said.contains(&format!("{words}`MUSTER_PROJECT` of the environment")), "{said}");
    let row = c.json(&["quota"])["report"]["quotas"][0].clone();
    assert_eq!((&row["name"], &row["used_milli"]), (&"team".into(), &4000.into()), "{row:#}");
    says(&c.muster(&["quota"]), &["team", "NOMINAL"]);
    c.muster(&["cancel", &first]).code(0);
    until("the quota lets the second one start", || is(&c, &second, "running"));
}

#[test]
fn whoever_saves_where_another_job_does_is_informed_at_once() {
    let c = Cluster::start(1);
    let dir = c.path("ckpt").display().to_string();
    let saves = ["submit", "--hold", "--checkpoint-dir", dir.as_str(), "--", "true"];
    let first = c.muster(&saves);
    first.code(0);
    assert!(!first.stderr.contains("note: "), "nobody else saves there: {first:?}");
    let mut page = String::new();
    until("the submission is counted", || {
        page = get(c.listen(), "/metrics", &c.token).unwrap_or_default();
        page.contains("{method=\"POST\",route=\"/v1/jobs\",status=\"201\"} 1\n")
    });
    assert!(!page.contains("/explain\""), "one request was enough:\n{page}");
    let warning =
        format!("note: job {}, which is queued, saves to `{dir}` too", first.stdout.trim());
    let second = c.muster(&saves);
    second.code(0);
    assert!(second.stderr.contains(&warning), "{warning}: {second:?}");
    let reserved = c.muster(&["submit", "--hold", "--tier", "reserved", "--", "true"]);
    reserved.code(0);
    let none = "note: project default has no reservation, ";
    assert!(reserved.stderr.contains(none), "{reserved:?}");

    // While the job runs, not before its output is looked at and not after it.
    let (said, go) = (c.path("run.err"), c.path("go"));
    let file = std::fs::File::create(&said).expect("the test's own directory");
    let wait = format!("while [ ! -e {} ]; do sleep 0.1; done", go.display());
    let line = ["run", "--checkpoint-dir", dir.as_str(), "--", "sh", "-c", wait.as_str()];
    let mut run = c.command();
    let run = run.args(line).stderr(file).spawn();
    let mut run = run.expect("the muster binary starts");
    until("it is reported", || {
        std::fs::read_to_string(&said).unwrap_or_default().contains(&warning)
    });
    std::fs::write(&go, "").expect("the test's own directory");
    let how = run.wait().expect("ended");
    let text = std::fs::read_to_string(&said).unwrap_or_default();
    assert!(how.success(), "{how}: {text}");
}

#[test]
fn a_job_that_is_being_stopped_says_why_it_is_as_it_is_now() {
    let c = Cluster::start(1);
    // Ranks that do not end when they are asked to, and have long to save.
    let deaf = "trap '' TERM; echo up; while :; do sleep 1; done";
    let spec = serde_json::json!({
        "name": "deaf",
        "gang": {"nodes": 1, "gpus_per_node": 1},
        "checkpoint": {"dir": c.path("checkpoints"), "grace": "1h"},
        "run": {"command": ["sh", "-c", deaf]},
    });
    let id = c.submit(&[&write(&c, "deaf.json", &spec.to_string())]);
    until("its rank is deaf", || c.muster(&["logs", &id]).stdout == "up\n");
    let shown = |begins: &str| {
        let said = c.muster(&["describe", "job", &id]);
        said.code(0);
        let line = said.stdout.lines().find(|l| l.starts_with(begins)).map(str::to_owned);
        line.unwrap_or_else(|| panic!("`{begins}` in {said:#?}"))
    };
    let row = || {
        let said = c.muster(&["ps"]);
        let line = said.stdout.lines().find(|l| l.contains(" deaf ")).map(str::to_owned);
        line.unwrap_or_else(|| panic!("the job in {said:#?}"))
    };
    for (verb, reason) in [("requeue", "requeued by user:"), ("cancel", "cancelled by user:")] {
        c.muster(&[verb, &id]).code(0);
        assert!(shown("State:").contains("stopping"), "{verb}");
        let now = shown("Reason:");
        assert!(now.contains(reason), "{verb}: {now}");
        assert!(row().contains(reason), "{verb}: {}", row());
        says(&c.muster(&["explain", &id]), &["is stopping", reason]);
    }
    assert!(!shown("Reason:").contains("requeued") && !row().contains("requeued"), "{}", row());
    let said = c.muster(&["describe", "job", &id]);
    assert!(!said.stdout.contains("starts again"), "it ends: {said:#?}");
}
