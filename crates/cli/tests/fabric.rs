//! Tests of the network, with real agents in network namespaces of their own: one link is made
//! slow, or loses packets, and its node is named while the others are not. With every change one of
//! them is run, `cargo xtask soak fabric` runs all.

mod net;

use net::{Net, RATE, SLOW, skip};
use std::sync::{Mutex, PoisonError};

/// One network at a time: they share the processors.
static ONE: Mutex<()> = Mutex::new(());

/// Names of the nodes that stand so after a test.
fn nodes(test: &serde_json::Value, health: &str) -> Vec<String> {
    let all = test["nodes"].as_array().cloned().unwrap_or_default();
    let so = all.iter().filter(|n| n["health"] == health);
    so.filter_map(|n| n["name"].as_str().map(str::to_owned)).collect()
}

/// Two rounds are enough.
fn in_two_rounds(test: &serde_json::Value) {
    assert_eq!(test["rounds"], 2, "{test:#}");
}

#[test]
#[ignore = "real speeds for a minute: `cargo xtask soak fabric` measures them"]
fn a_slow_link_is_named_in_two_rounds_and_cleared_when_it_is_repaired() {
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    if skip() {
        return;
    }
    let net = Net::start(6);
    // Four meet each other, which takes three rounds: all are well.
    let (code, test) = net.test(&["--rounds", "all", "--seconds", "4", "--nodes", "n[3-6]"]);
    assert_eq!(code, 0, "{test:#}");
    assert_eq!(test["pairs"].as_array().map(Vec::len), Some(6), "{test:#}");
    assert_eq!(nodes(&test, "good"), ["n3", "n4", "n5", "n6"], "{test:#}");

    net.rate("n4", SLOW);
    let (code, test) = net.test(&["--seconds", "4"]);
    assert_eq!(code, 1, "{test:#}");
    assert_eq!(nodes(&test, "slow"), ["n4"], "{test:#}");
    assert_eq!(nodes(&test, "good").len(), 5, "{test:#}");
    in_two_rounds(&test);
    let open = net.findings();
    assert_eq!(open.len(), 1, "{open:#?}");
    assert_eq!(open[0]["entity"], "node:n4", "{open:#?}");
    let table = net.muster(&["fabric", "show"]);
    assert!(table.contains("done"), "{table}");

    net.rate("n4", RATE);
    let (code, test) = net.test(&["--seconds", "4", "--nodes", "n[1-6]"]);
    assert_eq!(code, 0, "{test:#}");
    assert_eq!(nodes(&test, "good").len(), 6, "{test:#}");
    assert!(net.findings().is_empty(), "{:#?}", net.findings());
}

#[test]
#[ignore = "real speeds for a minute: `cargo xtask soak fabric` measures them"]
fn a_link_that_loses_packets_is_named_in_two_rounds() {
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    if skip() {
        return;
    }
    let net = Net::start(7);
    net.lose("n2", 35);
    // Nothing is known of these paths yet: their peers show it. An odd number: one sits out.
    let (code, test) = net.test(&["--seconds", "4"]);
    assert_eq!(code, 1, "{test:#}");
    assert_eq!(nodes(&test, "slow"), ["n2"], "{test:#}");
    assert_eq!(nodes(&test, "good"), ["n1", "n3", "n4", "n5", "n6", "n7"], "{test:#}");
    in_two_rounds(&test);
    let pairs = test["pairs"].as_array().cloned().unwrap_or_default();
    let resent = |n: &str| {
        let of = pairs.iter().filter(|p| p["a"] == n || p["b"] == n);
        of.filter_map(|p| p["resent"].as_u64()).max()
    };
    assert!(resent("n2").is_none_or(|r| r > 0), "{test:#}");
    // A node that is cut off is not there to be tested, and nobody is the cause of it.
    net.stop("n5");
    let (code, test) = net.test(&["--nodes", "n1,n3,n5", "--seconds", "4"]);
    assert_eq!(code, 0, "{test:#}");
    assert_eq!(nodes(&test, "skipped"), ["n5"], "{test:#}");
}

#[test]
#[ignore = "real speeds for a minute: `cargo xtask soak fabric` measures them"]
fn a_group_that_is_slow_is_halved_until_its_slow_node_is_left() {
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    if skip() {
        return;
    }
    let net = Net::start(6);
    net.rate("n4", SLOW);
    let (code, test) = net.test(&["--group", "--seconds", "3"]);
    assert_eq!(code, 1, "{test:#}");
    assert_eq!(nodes(&test, "slow"), ["n4"], "{test:#}");
    assert_eq!(nodes(&test, "good"), ["n1", "n2", "n3", "n5", "n6"], "{test:#}");
    assert_eq!(test["group"], true, "{test:#}");
    // All at once first: everybody sends to the next.
    let pairs = test["pairs"].as_array().cloned().unwrap_or_default();
    assert_eq!(pairs.iter().filter(|p| p["round"] == 1).count(), 6, "{test:#}");
    assert_eq!(net.findings().len(), 1, "{:#?}", net.findings());
}

#[test]
fn a_gang_with_a_slow_node_leaves_it_before_its_ranks_start() {
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    if skip() {
        return;
    }
    let net = Net::start(5);
    let policy = net.file("policy.yaml");
    let text = "kind: Policy\nfabric: {preflight_nodes: 4, within: 10m}\n";
    std::fs::write(&policy, text).expect("written");
    net.muster(&["policy", "apply", &policy.display().to_string()]);
    net.rate("n4", SLOW);
    // Only four are left for a gang of four: the slow one is among them.
    net.muster(&["node", "cordon", "n5", "--reason", "a test"]);
    net.muster(&["submit", "--name", "large", "--nodes", "4", "--", "echo", "up"]);
    let job = || -> serde_json::Value {
        serde_json::from_str(&net.muster(&["get", "job", "large", "-o", "json"])).expect("a job")
    };
    net.until("it is in preflight", || (!job()["attempt"]["preflight"].is_null()).then_some(()));
    net.muster(&["node", "uncordon", "n5"]);
    net.muster(&["wait", "large"]);
    let done = job();
    assert_eq!((&done["state"], &done["attempts"]), (&"succeeded".into(), &2.into()), "{done:#}");
    let said = |attempt: &str| net.muster(&["logs", "large", "--attempt", attempt]);
    assert_eq!(said("2").matches("up").count(), 4, "{}", said("2"));
    assert_eq!(
        said("1").matches("up").count(),
        0,
        "the first attempt never started: {}",
        said("1")
    );
    let open = net.findings();
    assert_eq!(open.len(), 1, "{open:#?}");
    assert_eq!(open[0]["entity"], "node:n4", "{open:#?}");
}
