//! A node for people.

use crate::cmd::{faults, findings, node as steer, nodes, remediations};
use muster_api::{Node, TimelineEntry};
use muster_model::node::Stage;
use muster_model::qualification::first_failure;
use muster_model::units::Time;
use muster_terminal::output::facts::Facts;
use muster_terminal::output::size;
use muster_terminal::output::table::{Table, cell, number, state};
use muster_terminal::output::time::{full, relative};

pub(super) fn text(node: &Node, times: &[TimelineEntry], now: Time, on: bool) -> String {
    let mut f = Facts::new();
    f.line("Node", &node.name);
    f.line("State", nodes::state_text(node));
    f.line("Avoided", node.avoided.as_deref().unwrap_or_default());
    let ready = node.state == "ready";
    f.line("No new work", node.no_new_work.as_deref().filter(|_| ready).unwrap_or_default());
    // One that is ready and does not serve is what its state says.
    if ready || node.stage != Stage::Ready {
        f.line("Stage", format!("{:?}", node.stage).to_lowercase());
    }
    health(&mut f, node, now);
    let reachable = if node.reachable { "yes" } else { "no" };
    // One that was retired is not looked for: its own "Since" says when that was.
    match node.stage {
        Stage::Retired => f.line("Reachable", reachable),
        _ => f.line("Reachable", format!("{reachable}, since {}", full(now, node.changed_at))),
    }
    f.line(
        "Cordoned",
        node.cordon.as_deref().map(|r| if r.is_empty() { "yes" } else { r }).unwrap_or("no"),
    );
    f.line("Role", nodes::role(node));
    let testing = node.qualifying.as_ref().map(steer::qualify::progress);
    f.line("Qualifying", testing.unwrap_or_default());
    let tested = node.qualified.as_ref().map(|q| {
        let why = first_failure(&q.checks).map(|w| format!(": {w}")).unwrap_or_default();
        format!("{}{why}", steer::qualify::outcome(q, now))
    });
    f.line("Qualified", tested.unwrap_or_default());
    if node.protected {
        f.line(
            "Protected",
            "its agent has seen more of the log than this server; `muster node reconcile` decides",
        );
    }
    f.line("Pool", &node.pool);
    let l = &node.location;
    f.line(
        "Location",
        format!(
            "{}/{}/{}/{}/{} nvlink {} feed {}",
            l.region, l.cluster, l.spine, l.leaf, l.rack, l.nvlink, l.feed
        ),
    );
    f.line("Rails", l.rails.join(","));
    f.line("Address", format!("{} on host {}", node.address, node.host));
    f.line("GPUs", format!("{} {}", nodes::gpus(node), node.sku));
    let missing: Vec<String> = node.gpus_missing.iter().map(ToString::to_string).collect();
    f.line("Missing", missing.join(","));
    let excluded: Vec<String> = node.gpus_excluded.iter().map(ToString::to_string).collect();
    f.line("Excluded", excluded.join(","));
    f.line("CPUs", format!("{} of {} used", node.cpus_used, node.cpus_total));
    let memory = (size(node.memory_used), size(node.memory_total));
    f.line("Memory", format!("{} of {} used", memory.0, memory.1));
    f.line("Joined", full(now, node.enrolled_at));
    if let Some(a) = &node.agent {
        f.line(
            "Agent",
            format!(
                "{}, last heartbeat {}, clock {:+} ms",
                a.version,
                relative(now, a.last_heartbeat),
                a.skew_ms
            ),
        );
    }
    f.line("Orphans", node.orphans.join(" "));

    let i = &node.inventory;
    f.section("Machine", on);
    f.line(
        "  CPU",
        format!("{} ({} sockets, {} NUMA nodes)", i.cpu_model, i.sockets, i.numa.len()),
    );
    f.line("  System", format!("{} kernel {}", i.os, i.kernel));
    f.line("  Isolation", &i.isolation);
    f.line("  Simulated", if i.simulated { "yes" } else { "" });
    let versions: Vec<String> = i.versions.iter().map(|(k, v)| format!("{k} {v}")).collect();
    f.line("  Versions", versions.join(", "));
    if !i.gpus.is_empty() {
        f.section("GPUs", on);
        let mut t = Table::new(&["INDEX", "SKU", "MEMORY", "NUMA", "PCI", "UUID"]);
        for g in &i.gpus {
            t.row(vec![
                number(g.index),
                cell(&g.sku),
                number(size(g.memory)),
                number(g.numa.map(|n| n.to_string()).unwrap_or_default()),
                cell(g.pci.as_deref().unwrap_or_default()),
                cell(&g.uuid),
            ]);
        }
        f.table(&t, on);
    }
    if !i.nics.is_empty() {
        f.section("Networks", on);
        let mut t = Table::new(&["NAME", "KIND", "SPEED", "STATE", "RAIL"]);
        for n in &i.nics {
            t.row(vec![
                cell(&n.name),
                cell(&n.kind),
                number(n.speed_mbps.map(|s| format!("{s} Mb/s")).unwrap_or_default()),
                cell(n.state.as_deref().unwrap_or_default()),
                cell(n.rail.as_deref().unwrap_or_default()),
            ]);
        }
        f.table(&t, on);
    }
    if !node.jobs.is_empty() {
        f.section("Jobs", on);
        let mut t = Table::new(&["ID", "NAME", "PROJECT", "STATE", "GPUS"]);
        for j in &node.jobs {
            let gpus: Vec<String> = j.gpus.iter().map(ToString::to_string).collect();
            t.row(vec![
                cell(&j.id),
                cell(&j.name),
                cell(&j.project),
                state(j.state.word()),
                cell(gpus.join(",")),
            ]);
        }
        f.table(&t, on);
    }
    if let Some(q) = node.qualified.as_ref().filter(|q| !q.checks.is_empty()) {
        f.section("Qualification", on);
        f.table(&steer::qualify::checks(&q.checks), on);
    }
    if !node.findings.is_empty() {
        f.section("Findings", on);
        f.table(&findings::table(&node.findings, now, true), on);
    }
    if let Some(r) = &node.remediation_detail {
        f.section("Remediation", on);
        f.table(&remediations::table(std::slice::from_ref(r), now), on);
    }
    if !node.faults.is_empty() {
        f.section("Faults", on);
        f.table(&faults::table(&node.faults, now, false), on);
    }
    if !times.is_empty() {
        f.section("Timeline", on);
        f.table(&timeline(times, now), on);
    }
    f.0
}

/// Why it is in its state. A state that is not a stage has a reason of its own.
fn why(node: &Node) -> &str {
    match node.state.as_str() {
        "lost" => "heartbeat lost",
        "qualifying" => "a test was requested",
        "cordoned" => node.cordon.as_deref().unwrap_or_default(),
        _ => node.stage_why.as_deref().unwrap_or_default(),
    }
}

/// Since when and why it stands where it does, and what keeps work away from it.
fn health(f: &mut Facts, node: &Node, now: Time) {
    let since = node.state_since.map(|t| format!("{}, {}", relative(now, t), why(node)));
    f.line("Since", since.unwrap_or_default().trim_end_matches([',', ' ']));
    // When the stage is reported as taking too long. Nothing returns the node then.
    if let Some(until) = node.stage_until {
        let late = if until.0 < now { ": overdue" } else { "" };
        f.line("Time limit", format!("{} for this stage{late}", full(now, until)));
    }
    // Nothing is under way that returns it: what was to be done was denied.
    let left = matches!(node.stage, Stage::Suspect | Stage::Quarantined);
    if left && node.remediation_detail.is_none() {
        let n = &node.name;
        let test = format!("when it passes `muster node qualify {n}`");
        f.line("Returns", format!("{test}, or by `muster node return {n} --reason WHY`"));
    }
    f.line("Probation", node.probation.map(|t| full(now, t)).unwrap_or_default());
    f.line("Breaker", node.breaker.as_ref().map(|b| format!("{b} is open")).unwrap_or_default());
    if node.generation > 1 {
        let times = match node.state.as_str() {
            "ready" => format!("for the {} time", nth(node.generation)),
            _ => format!("not now; {} times so far", node.generation),
        };
        f.line("In service", times);
    }
}

fn nth(n: u32) -> String {
    match (n % 10, n % 100) {
        (1, x) if x != 11 => format!("{n}st"),
        (2, x) if x != 12 => format!("{n}nd"),
        (3, x) if x != 13 => format!("{n}rd"),
        _ => format!("{n}th"),
    }
}

/// What happened to it, newest first.
fn timeline(times: &[TimelineEntry], now: Time) -> Table {
    let mut t = Table::new(&["WHEN", "WHAT", "ID", "GPU", "TEXT"]);
    for e in times {
        t.row(vec![
            cell(relative(now, e.at)),
            cell(e.what.word()),
            number(e.id.as_deref().unwrap_or_default()),
            number(e.gpu.map(|g| g.to_string()).unwrap_or_default()),
            cell(&e.text),
        ]);
    }
    t
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_api::TimelineKind;
    use muster_model::finding::Severity;

    #[test]
    fn a_node_is_described_with_its_separate_axes() {
        let mut node = nodes::tests::node("hgx-01");
        node.cordon = Some("fan".into());
        node.role = muster_model::node::NodeRole::Spare;
        node.faults = vec![faults::tests::fault("xid-79")];
        node.qualified = Some(muster_api::Qualified {
            id: "7".into(),
            level: muster_model::qualification::Level::Quick,
            outcome: muster_model::qualification::Outcome::Failed,
            started_at: Time(0).into(),
            ended_at: Time(0).into(),
            took: muster_model::units::Span::secs(30),
            checks: vec![steer::qualify::tests::check(3, 512_000)],
        });
        let text = text(&node, &[], Time(0), false);
        for part in [
            "Reachable:    yes, since 1970-01-01T00:00:00Z",
            "Cordoned:     fan",
            "Role:         spare",
            "████░░░░ 4/8 h100-sxm",
            "42  train",
            "Qualified:    failed (quick, just now, took 30s): gemm-bf16 of GPU 3 is 512 TFLOP/s",
            "gemm-bf16  3      512       690    635  TFLOP/s  failed",
            "xid-79",
        ] {
            assert!(text.contains(part), "{part:?} in\n{text}");
        }
    }

    #[test]
    fn a_cordoned_node_is_not_called_ready() {
        let mut node = nodes::tests::node("hgx-01");
        node.generation = 2;
        let serves = text(&node, &[], Time(0), false);
        assert!(serves.contains("Stage:        ready\n"), "{serves}");
        assert!(serves.contains("In service:   for the 2nd time\n"), "{serves}");
        (node.state, node.cordon) = ("cordoned".into(), Some("fan".into()));
        let cordoned = text(&node, &[], Time(0), false);
        assert!(!cordoned.contains("Stage:"), "{cordoned}");
        assert!(!cordoned.contains("for the 2nd time"), "{cordoned}");
    }

    #[test]
    fn a_node_says_since_when_it_is_in_its_state_and_why() {
        let mut node = nodes::tests::node("hgx-01");
        (node.stage_since, node.stage_why) = (Some(Time(0).into()), Some("its test passed".into()));
        // What somebody wrote is no fact: the first of these texts names a cordon that there was not.
        let entry = |at: i64, text: &str| TimelineEntry {
            at: Time(at).into(),
            what: TimelineKind::Stage,
            id: None,
            gpu: None,
            severity: None,
            text: text.into(),
        };
        let times = [entry(7_100_000, "cordoned: words"), entry(1000, "cordoned: fan")];
        let line = |node: &Node| {
            let text = text(node, &times, Time(7_200_000), false);
            text.lines().find(|l| l.starts_with("Since:")).unwrap_or_default().to_owned()
        };
        assert_eq!(line(&node), "", "what is not known is not shown");
        node.state_since = node.stage_since;
        assert_eq!(line(&node), "Since:        2h ago, its test passed");
        (node.state, node.cordon) = ("cordoned".into(), Some("new fan".into()));
        node.state_since = Some(Time(7_020_000).into());
        assert_eq!(line(&node), "Since:        3m ago, new fan");
        node.cordon = Some(String::new());
        assert_eq!(line(&node), "Since:        3m ago");
        (node.state, node.state_since) = ("lost".into(), Some(Time(6_600_000).into()));
        assert_eq!(line(&node), "Since:        10m ago, heartbeat lost");
    }

    #[test]
    fn an_unhealthy_node_says_why_what_is_done_and_what_happened() {
        let mut node = nodes::tests::node("hgx-01");
        (node.stage, node.state) = (Stage::Quarantined, "quarantined".into());
        node.state_since = Some(Time(60_000).into());
        node.stage_why = Some("gpu-off-bus (finding 12)".into());
        node.stage_until = Some(Time(100_000).into());
        node.breaker = Some("leaf:a/b/c/d".parse().expect("an entity"));
        node.generation = 2;
        node.findings = vec![muster_api::samples::finding(12)];
        node.remediation_detail = Some(muster_api::samples::remediation(31));
        let times = [TimelineEntry {
            at: Time(60_000).into(),
            what: TimelineKind::Finding,
            id: Some("12".into()),
            gpu: Some(3),
            severity: Some(Severity::Critical),
            text: "gpu-off-bus (A GPU fell off the bus)".into(),
        }];
        let text = text(&node, &times, Time(120_000), false);
        for part in [
            "Since:        1m ago, gpu-off-bus (finding 12)",
            "Time limit:   ",
            " for this stage: overdue\n",
            "Breaker:      leaf:a/b/c/d is open",
            "In service:   not now; 2 times so far",
            "pending approval",
            "1m ago  finding  12    3  gpu-off-bus (A GPU fell off the bus)",
        ] {
            assert!(text.contains(part), "{part:?} in\n{text}");
        }
        assert!(!text.contains("Returns:"), "{text}");
        node.remediation_detail = None;
        let denied = super::text(&node, &times, Time(120_000), false);
        let how = "Returns:      when it passes `muster node qualify hgx-01`, or by `muster \
                   node return hgx-01 --reason WHY`";
        assert!(denied.contains(how), "{denied}");
        assert!(!denied.contains("Until:"), "one line says when it returns: {denied}");
        let narrow = timeline(&times, Time(120_000)).render_for(Some(78), false);
        assert!(narrow.lines().all(|l| l.chars().count() <= 78), "{narrow}");
        assert_eq!((nth(1), nth(11), nth(23)), ("1st".into(), "11th".into(), "23rd".into()));
    }
}
