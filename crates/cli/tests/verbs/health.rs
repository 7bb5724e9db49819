//! Operators at work on one site, while somebody follows the log.

use super::{items, names, refuses, says};
use super::{plans, slo};
use crate::Running;
use crate::minutes::cluster::{Cluster, until};
use serde_json::Value;
use std::path::Path;

/// `muster events -f` with its output in a file.
fn follow(c: &Cluster, file: &str, more: &[&str]) -> Running {
    let out = std::fs::File::create(c.path(file)).expect("the test's own directory");
    let mut command = c.command();
    command.args(["events", "-f"]).args(more).stdout(out);
    Running(command.spawn().expect("the muster binary starts"))
}

/// The whole lines of a file.
fn lines(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().map(str::to_owned).collect()
}

fn breakers(c: &Cluster, node: &str) {
    let out = c.muster(&["breakers"]);
    out.code(0);
    assert!(out.stderr.contains("no breaker was ever open"), "{out:?}");
    let (entity, submit) = (format!("node:{node}"), ["whatif", "submit", "--nodes", "2"]);
    let force = ["breakers", "force", &entity, "open", "--reason", "switch works"];
    says(&c.muster(&force), &[&format!("breaker {entity} is forced open\n")]);
    let list = c.json(&["breakers"]);
    let b = &items(&list)[0];
    assert_eq!((&b["entity"], &b["state"]), (&entity.as_str().into(), &"open".into()), "{b:#}");
    assert_eq!((&b["nodes"], &b["reason"]), (&1.into(), &"switch works".into()), "{b:#}");
    says(&c.muster(&["breakers"]), &[&entity, "forced: "]);
    let out = c.muster(&[&submit[..], &["--gpus", "1", "--", "true"]].concat());
    says(&out, &["would wait", "1 blocked by an open breaker"]);
    refuses(&c.muster(&["breakers", "force", "node:nobody", "open"]), 3, &["nobody"]);
    let gpu = format!("gpu:{node}/0");
    refuses(&c.muster(&["breakers", "force", &gpu, "open"]), 5, &["there is no breaker for"]);
    let out = c.muster(&["breakers", "force", &entity, "closed"]);
    says(&out, &[&format!("breaker {entity} is forced closed\n")]);
    let out = c.muster(&["breakers", "release", &entity]);
    says(&out, &[&format!("breaker {entity} follows its own rules and is closed\n")]);
    refuses(&c.muster(&["breakers", "release", &entity]), 5, &["is not forced"]);
    let out = c.muster(&[&submit[..], &["--gpus", "1", "--", "true"]].concat());
    says(&out, &["would start"]);
}

fn runbooks(c: &Cluster, node: &str) {
    let all = c.json(&["runbook", "list"]);
    assert!(names(&all).contains(&"no-spares") && names(&all).len() > 20, "{all:#}");
    let some = c.json(&["runbook", "list", "--for", "no-spares"]);
    assert_eq!(names(&some), ["no-spares"]);
    says(&c.muster(&["runbook", "show", "no-spares"]), &["No spare nodes are left", "1. check: "]);
    refuses(&c.muster(&["runbook", "show", "no-such-book"]), 3, &["no-such-book"]);
    let out = c.muster(&["runbook", "run", "no-spares", "--dry-run"]);
    says(&out, &["Nothing was done. A run would:", "fleet.spares"]);
    assert!(items(&c.json(&["runbook", "runs", "--all"])).is_empty(), "a rehearsal is no run");
    refuses(&c.muster(&["runbook", "runs"]), 0, &["no run is active; --all shows"]);
    refuses(&c.muster(&["runbook", "runs", "--all"]), 0, &["there was no run"]);
    refuses(&c.muster(&["runbook", "run", "node-lost"]), 2, &["needs `node`", "--node"]);

    assert_eq!(slo::ready(c, "spares"), "missing");
    let run = c.json(&["runbook", "run", "no-spares"]);
    let id = run["id"].as_str().expect("a number").to_owned();
    assert_eq!((&run["state"], &run["step"]), (&"running".into(), &1.into()), "{run:#}");
    let answer = |step: &str, more: &[&str]| {
        c.muster(&[&["runbook", "answer", &id, "--step", step], more].concat())
    };
    refuses(&answer("3", &["go"]), 5, &["is at step 1, not 3"]);
    says(&answer("1", &["go"]), &["fleet.spares is 0", "2. check: "]);
    says(&answer("2", &["go"]), &["4. ask: Take spares from elsewhere", "--choose 'WORDS'"]);
    refuses(&answer("4", &["--choose", "perhaps"]), 2, &["perhaps"]);
    // What the book asks for, by hand.
    c.muster(&["node", "mark", node, "--role", "spare"]).code(0);
    let said = ["--choose", "yes", "--note", "one is enough"];
    says(&answer("4", &said), &["5. check: There is a spare again"]);
    says(&answer("5", &["go"]), &["resolved", "fleet.spares is 1", "one is enough"]);
    assert_eq!(slo::ready(c, "spares"), "ok");
    refuses(&answer("5", &["go"]), 5, &["is over"]);
    let run = c.json(&["runbook", "describe", &id]);
    assert_eq!((&run["state"], &run["now"]), (&"resolved".into(), &Value::Null), "{run:#}");
    let stays = c.json(&["runbook", "run", "node-lost", "--node", node]);
    let stays = stays["id"].as_str().expect("a number");
    says(&c.muster(&["runbook", "runs"]), &[stays, "node-lost"]);
    let out = c.muster(&["runbook", "stop", stays, "--reason", "it came back"]);
    says(&out, &["stopped", "it came back"]);
    assert_eq!(items(&c.json(&["runbook", "runs", "--all"])).len(), 2);
}

/// A server that dies does not end whoever follows, and nothing is reported twice or not at all.
fn follows(c: &mut Cluster, shown: &mut Running) {
    let plain = follow(c, "plain", &["--after", "1"]);
    until("both hear the server", || {
        ["followed", "plain"].iter().all(|f| !lines(&c.path(f)).is_empty())
    });
    c.kill();
    c.restart();
    c.muster(&["project", "create", "made-at-last"]).code(0);
    for file in ["followed", "plain"] {
        until("what came after the restart is reported", || {
            lines(&c.path(file)).iter().any(|l| l.contains("made-at-last"))
        });
    }
    drop(plain);
    assert!(matches!(shown.0.try_wait(), Ok(None)), "it follows on");
    let shown: Vec<Value> = lines(&c.path("followed"))
        .iter()
        .map(|l| serde_json::from_str(l).expect("one object a line"))
        .collect();
    let log = c.json(&["events", "--limit", "100000"]);
    assert_eq!(shown, items(&log)[..shown.len()], "all of the log, in its order");
    let plain = lines(&c.path("plain"));
    let seqs = plain.iter().filter_map(|l| l.split_whitespace().next()?.parse::<u64>().ok());
    assert!(seqs.eq(2..2 + plain.len() as u64), "{plain:#?}");
    assert!(shown.iter().filter(|e| e["kind"] == "leader_changed").count() >= 2);
}

/// Nothing is called healthy while somebody is paged. A tenant sees that, and not what it is.
fn pages(c: &Cluster, node: &str) {
    let made = c.muster(&["token", "create", "eve", "--role", "user", "--project", "made-at-last"]);
    made.code(0);
    let tenant = || {
        let said = c.muster(&["health", "--token", made.stdout.trim()]);
        said.code(0);
        for secret in ["Automation", "gpu-off-bus", node] {
            assert!(!said.stdout.contains(secret), "{secret} in {said:?}");
        }
        said.stdout
    };
    until("no page is open", || tenant().contains("nothing is known to be wrong with your jobs"));
    until("the node is back", || c.json(&["get", "node", node])["agent"].is_object());
    says(&c.muster(&["health"]), &["nodes out by automation, at most "]);
    c.muster(&["automation", "stop", "--reason", "cooling works"]).code(0);
    c.muster(&["node", "inject", "xid", node, "--gpu", "0", "--code", "79"]).code(0);
    let paged = || {
        let list = c.json(&["alerts"]);
        let page = |a: &&Value| a["urgency"] == "page" && a["kind"] == "gpu-off-bus";
        let page = items(&list).iter().find(page);
        page.and_then(|a| a["id"].as_str().map(str::to_owned))
    };
    until("somebody is paged", || paged().is_some());
    let out = c.muster(&["health"]);
    says(&out, &["something needs an operator", "not acknowledged", "gpu-off-bus"]);
    assert!(!out.stdout.contains("healthy"), "{out:?}");
    let shown = tenant();
    assert!(
        shown.contains("something is wrong") && shown.contains("operators have to act"),
        "{shown}"
    );
    assert!(!shown.contains("reached nobody"), "whom a page reaches is for operators: {shown}");
    assert!(!shown.contains("no page is open") && !shown.contains("healthy"), "{shown}");
    c.muster(&["alerts", "ack", &paged().expect("it is open")]).code(0);
    let out = c.muster(&["health"]);
    says(&out, &["acknowledged"]);
    assert!(!out.stdout.contains("healthy"), "{out:?}");
}

/// What was denied is denied for what was known: the GPU's next critical fault is proposed anew.
fn denials(c: &Cluster, node: &str) {
    until("the node is back", || c.json(&["get", "node", node])["agent"].is_object());
    let proposed = || {
        let list = c.json(&["remediations", "--node", node]);
        let one = items(&list).iter().find(|r| r["kind"] == "ecc-uncorrectable");
        one.map(|r| (r["id"].clone(), r["finding"].clone()))
    };
    let inject = |code: &str| {
        c.muster(&["node", "inject", "xid", node, "--gpu", "1", "--code", code]).code(0);
    };
    inject("48");
    until("a remediation is proposed", || proposed().is_some());
    let (denied, finding) = proposed().expect("it goes on");
    let id = denied.as_str().expect("a number").to_owned();
    says(&c.muster(&["remediations", "deny", &id, "--reason", "vendor is coming"]), &["denied"]);
    assert_eq!(proposed(), None, "the same evidence proposes nothing");
    inject("95");
    until("it is proposed anew", || proposed().is_some());
    let (again, of) = proposed().expect("it goes on");
    assert!(again != denied && of == finding, "{again} of {of}, after {denied} of {finding}");
}

#[test]
fn a_site_is_looked_after_while_somebody_follows_the_log() {
    let mut c = Cluster::start(2);
    let mut shown = follow(&c, "followed", &["-o", "json"]);
    let list = c.json(&["nodes"]);
    let [one, two] = names(&list)[..] else { panic!("two nodes: {list:#}") };
    let nodes = [one.to_owned(), two.to_owned()];
    plans::windows_and_places(&c, &nodes);
    slo::readiness(&c);
    slo::objectives(&c);
    slo::alerts(&c);
    breakers(&c, two);
    runbooks(&c, two);
    follows(&mut c, &mut shown);
    pages(&c, &nodes[0]);
    denials(&c, &nodes[1]);
}
