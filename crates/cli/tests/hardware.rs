//! Tests of nodes and faults of GPUs, with the real binary on simulated nodes.

use crate::minutes::cluster::{Cluster, until};

/// Quick tests are over in a second or two.
fn cluster(nodes: u32) -> (Cluster, Vec<String>) {
    let c = Cluster::start_with(nodes, &["--speed", "20"]);
    let all = c.json(&["nodes"]);
    let items = all["items"].as_array().cloned().unwrap_or_default();
    let names = items.iter().filter_map(|n| n["name"].as_str().map(str::to_owned)).collect();
    (c, names)
}

fn state(c: &Cluster, node: &str) -> String {
    c.json(&["get", "node", node])["state"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn a_good_node_passes_and_a_slow_gpu_is_found() {
    let (c, names) = cluster(6);
    // The others measure what is usual for their kind.
    let mut peers = vec!["node", "qualify", "--wait"];
    peers.extend(names[1..].iter().map(String::as_str));
    let out = c.muster(&peers);
    out.code(0);
    assert_eq!(out.stdout.matches(": passed (quick").count(), 5, "{out:?}");
    assert!(out.stdout.contains("gemm-bf16"), "{out:?}");

    let unhealthy = names[0].as_str();
    c.muster(&["node", "inject", unhealthy, "slow-gpu", "--gpu", "3", "--percent", "20"]).code(0);
    let out = c.muster(&["node", "qualify", unhealthy, "--wait"]);
    out.code(1);
    assert!(out.stdout.contains("failed (quick"), "{out:?}");
    assert_eq!(state(&c, unhealthy), "quarantined");
    let out = c.muster(&["describe", "node", unhealthy]);
    out.code(0);
    let row = out.stdout.lines().find(|l| l.starts_with("  gemm-bf16") && l.contains("failed"));
    let row = row.unwrap_or_else(|| panic!("{out:?}"));
    // Expected and floor of an H100.
    assert!(row.contains(" 3 ") && row.contains(" 690 ") && row.contains(" 635 "), "{row}");
    assert!(out.stdout.contains("Cordoned:     failed qualification: gemm-bf16 of GPU 3"));
    let tested = out.stdout.lines().find(|l| l.starts_with("Qualified:")).unwrap_or_default();
    assert!(tested.contains("): gemm-bf16 of GPU 3 is "), "the check that failed: {tested}");

    // A little slow is shown, and the node stays in service.
    c.muster(&["node", "inject", unhealthy, "slow-gpu", "--gpu", "3", "--percent", "7"]).code(0);
    c.muster(&["node", "repaired", unhealthy, "--note", "cooler reseated"]).code(0);
    until("it has passed and is back", || state(&c, unhealthy) == "ready");
    let out = c.muster(&["node", "qualify", unhealthy, "--wait"]);
    out.code(0);
    assert!(out.stdout.contains("degraded (quick"), "{out:?}");
    assert!(out.stdout.contains("nodes of its kind"), "{out:?}");
    assert_eq!(state(&c, unhealthy), "ready");
}

#[test]
fn a_node_with_work_is_tested_only_when_the_work_is_made_to_leave() {
    let (c, _) = cluster(2);
    let id = c.submit(&["--gpus", "8", "--", "sleep", "600"]);
    let home = || {
        let job = c.json(&["get", "job", &id]);
        job["attempt"]["slots"][0]["node"].as_str().unwrap_or_default().to_owned()
    };
    let running = || c.json(&["get", "job", &id])["state"] == "running";
    until("the job runs", running);
    let first = home();
    let out = c.muster(&["node", "qualify", &first]);
    out.code(5);
    assert!(out.stderr.contains("drain"), "{out:?}");
    c.muster(&["node", "qualify", &first, "--force", "--wait"]).code(0);
    assert_eq!(state(&c, &first), "ready");
    until("the job runs elsewhere", || running() && home() != first);

    c.muster(&["node", "qualify", &first, "--level", "full"]).code(0);
    assert_eq!(state(&c, &first), "qualifying");
    let wide = ["submit", "--dry-run", "--nodes", "2", "--gpus", "1", "--", "true"];
    let out = c.muster(&wide);
    out.code(0);
    assert!(out.stdout.contains("1 qualifying"), "the word of `muster nodes`: {out:?}");
    c.muster(&["node", "qualify", "--cancel", &first]).code(0);
    assert_eq!(state(&c, &first), "ready");
}

#[test]
fn what_a_driver_reports_is_shown_with_the_node_and_the_job() {
    let (c, _) = cluster(2);
    let id = c.submit(&["--gpus", "8", "--", "sleep", "600"]);
    until("the job runs", || c.json(&["get", "job", &id])["state"] == "running");
    let job = c.json(&["get", "job", &id]);
    let node = job["attempt"]["slots"][0]["node"].as_str().unwrap_or_default().to_owned();
    let xid = |code: &str| {
        c.muster(&["node", "inject", &node, "xid", "--gpu", "2", "--code", code]).code(0);
    };
    let seen = || c.json(&["faults", "--node", &node])["items"].as_array().map_or(0, Vec::len);
    xid("31");
    until("it is reported", || seen() == 1);
    // A fault of the job's own ends nothing.
    assert_eq!(c.json(&["get", "job", &id])["state"], "running");
    assert_eq!(state(&c, &node), "ready");
    xid("79");
    until("both are reported", || seen() == 2);
    let out = c.muster(&["faults", "--job", &id]);
    out.code(0);
    let own = out.stdout.lines().find(|l| l.contains("xid-31")).unwrap_or_default();
    assert!(own.contains(&format!("{id}.1")) && own.contains("application"), "{out:?}");
    let out = c.muster(&["describe", "job", &id]);
    assert!(out.stdout.contains("Faults") && out.stdout.contains("xid-31"), "{out:?}");
    let out = c.muster(&["describe", "node", &node]);
    assert!(out.stdout.contains("xid-79"), "{out:?}");
    // A GPU that is gone takes its node out of service, and the work goes elsewhere.
    until("the node is out", || state(&c, &node) == "quarantined");
    let there = || c.json(&["get", "job", &id])["attempt"]["slots"][0]["node"] == node.as_str();
    until("the job runs elsewhere", || {
        c.json(&["get", "job", &id])["state"] == "running" && !there()
    });
    let inject = |gpu: &str| {
        let out = c.muster(&["node", "inject", "xid", &node, "--gpu", gpu, "--code", "79"]);
        out.code(5);
        out.stdout + &out.stderr
    };
    let nowhere = inject("9");
    assert!(nowhere.contains("no GPU 9; it has GPU 0,1,2,3,4,5,6,7"), "{nowhere}");
    let gone = inject("2");
    let repair = format!("`muster node inject repair {node}`");
    assert!(gone.contains("GPU 2 of node") && gone.contains("fell off its bus"), "{gone}");
    assert!(gone.contains(&repair), "{gone}");
    // Who returns it untested learns what is closed by that.
    let out = c.muster(&["node", "return", &node, "--reason", "looked at"]);
    out.code(0);
    assert!(out.stdout.contains("; closed "), "{out:?}");
    assert!(out.stdout.contains("gpu-off-bus of GPU 2"), "{out:?}");
    assert!(out.stderr.contains("and no test passed"), "{out:?}");
}

#[test]
fn a_job_that_ended_is_not_run_again_by_a_fault_that_comes_later() {
    let (c, _) = cluster(2);
    let out = c.muster(&["run", "--gpus", "1", "--name", "once", "--", "sh", "-c", "exit 3"]);
    out.code(3);
    let job = || c.json(&["get", "job", "once"]);
    let node = job()["past"][0]["nodes"][0].as_str().unwrap_or_default().to_owned();
    assert_eq!(job()["past"][0]["verdict"], "application");
    c.muster(&["node", "inject", "xid", &node, "--gpu", "0", "--code", "79"]).code(0);
    until("it is known whose doing it was", || job()["past"][0]["verdict"] == "infrastructure");
    until("the node is out", || state(&c, &node) == "quarantined");
    let after = job();
    assert_eq!((&after["state"], &after["attempts"]), (&"failed".into(), &1.into()));
    let out = c.muster(&["describe", "job", "once"]);
    assert!(out.stdout.contains("muster requeue"), "{out:?}");
    // Only its user's word starts it again.
    c.muster(&["requeue", "once"]).code(0);
    until("it ran again", || job()["attempts"] == 2);
}

#[test]
fn measured_power_is_added_up_beside_the_plan() {
    let (c, nodes) = cluster(2);
    let fleet = || c.json(&["power", "--by", "feed"]);
    // Telemetry comes every ten seconds; the first summary is there soon after a node joins.
    let reported = |doc: &serde_json::Value| {
        let all = doc["items"].as_array().cloned().unwrap_or_default();
        all.iter().filter_map(|p| p["gpus_measured"].as_u64()).sum::<u64>()
    };
    until("every GPU has reported what it draws", || reported(&fleet()) == 16);
    let by_node = c.json(&["power"]);
    let first = &by_node["items"][0];
    assert_eq!(first["name"], nodes[0].as_str());
    assert_eq!((&first["gpus"], &first["gpu_watts_rated"]), (&8.into(), &5600.into()));
    let watts = first["gpu_watts"].as_u64().expect("measured");
    assert!((1..5600).contains(&watts), "idle GPUs draw something, and less than all: {first}");
    let table = c.muster(&["power", "--by", "rack"]);
    table.code(0);
    assert!(table.stdout.contains("MEASURED") && table.stdout.contains("kW"), "{table:?}");
    // The budget of a rack that the policy names by its last name is the one that starts keep to.
    let place = c.json(&["power", "--by", "rack"])["items"][0]["name"].clone();
    let rack = place.as_str().and_then(|p| p.rsplit('/').next()).expect("a rack").to_owned();
    let file = c.path("power.yaml");
    std::fs::write(&file, format!("kind: Policy\npower: {{racks: {{{rack}: 41000}}}}\n"))
        .expect("a file");
    c.muster(&["policy", "apply", &file.display().to_string()]).code(0);
    let racks = c.json(&["power", "--by", "rack"]);
    let items = racks["items"].as_array().cloned().unwrap_or_default();
    let known = items.iter().find(|p| p["name"] == place).expect("the rack");
    assert_eq!(known["budget_watts"], 41000, "{racks:#}");
    let table = c.muster(&["power", "--by", "rack"]);
    assert!(table.stdout.contains("BUDGET") && table.stdout.contains("41.0 kW"), "{table:?}");
}

#[test]
fn a_test_survives_the_death_of_everything_and_ends_once() {
    let (mut c, names) = cluster(1);
    let node = names[0].as_str();
    // Some twenty seconds: long enough to die in.
    c.muster(&["node", "qualify", node, "--level", "standard"]).code(0);
    let test = c.json(&["get", "node", node])["qualifying"]["id"].clone();
    assert!(!test.is_null(), "it goes on");
    c.kill();
    c.restart();
    until("it has ended", || c.json(&["get", "node", node])["qualified"]["id"] == test);
    assert_eq!(c.json(&["get", "node", node])["qualified"]["outcome"], "passed");
    let log = c.json(&["events"]);
    let kinds = log["items"].as_array().cloned().unwrap_or_default();
    let count = |kind: &str| kinds.iter().filter(|e| e["kind"] == kind).count();
    assert_eq!((count("qualification_asked"), count("qualification_ended")), (1, 1));
    // The log still wanted it when another server had taken over.
    let last = |kind: &str| kinds.iter().rposition(|e| e["kind"] == kind);
    let (asked, led) = (last("qualification_asked"), last("leader_changed"));
    assert!(asked < led && led < last("qualification_ended"), "{log:#}");
}
