//! What became of all GPUs, over HTTP.

use super::{HttpConfig, PATIENCE, Site, patient, site, site_with};
use muster_model::command::Command;
use muster_model::names::NodeName;
use muster_model::node::NodeRole;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

fn near(a: &Value, b: f64) -> bool {
    (a.as_f64().unwrap() - b).abs() < 0.01
}

fn parts(v: &Value) -> f64 {
    v["gpu_seconds"].as_object().unwrap().values().map(|v| v.as_f64().unwrap()).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_fleet_is_reported_by_hour_and_day_and_adds_up() {
    let s = site().await;
    let spec = json!({"name": "train", "gang": {"gpus": 4}, "run": {"command": ["train"]}});
    let got = s.post(&s.user, "/v1/jobs", &spec).await;
    assert_eq!(got.status, 201, "{:?}", got.body);
    s.held_job(&s.other).await;
    for step in ["hour", "day"] {
        let got = s.get(&s.admin, &format!("/v1/reports/fleet?step={step}")).await;
        assert_eq!(got.status, 200, "{:?}", got.body);
        let r = got.json();
        assert_eq!((&r["kind"], &r["step"]), (&json!("FleetReport"), &json!(step)));
        assert_eq!((&r["complete"], &r["project"]), (&json!(true), &Value::Null));
        let rows = r["rows"].as_array().unwrap();
        assert!(!rows.is_empty() && rows.len() <= 2, "{r:#}");
        let total = &r["total"];
        let sum: f64 = rows.iter().map(parts).sum();
        assert!(near(&json!(sum), parts(total)), "{r:#}");
        let free = |v: &Value| {
            v["gpu_seconds"]["queued"].as_f64().unwrap()
                + v["gpu_seconds"]["held"].as_f64().unwrap()
                + v["restarting_waiting_gpu_seconds"].as_f64().unwrap()
        };
        assert!(near(&total["allocated_gpu_seconds"], parts(total) - free(total)), "{r:#}");
        assert_eq!(total["jobs"]["submitted"], 2);
        for rate in ["success_rate", "first_attempt_success_rate", "not_failed_by_site_rate"] {
            assert_eq!(total.get(rate), Some(&Value::Null), "no job has ended: {r:#}");
        }
        assert_eq!(
            r["inventory"],
            json!([{"sku": "h100-sxm", "gpus": 8, "in_service": 8,
            "out_of_service": {}}])
        );
        assert_eq!(r["forecast"]["demand_gpus"], Value::Null);
        assert!(r["forecast"]["summary"].as_str().unwrap().contains("not enough history"));
        let projects = r["projects"].as_array().unwrap();
        assert_eq!(projects.len(), 2, "{r:#}");
    }
    // An operator's word takes GPUs out of service.
    let got = s.post(&s.operator, "/v1/nodes/n1/cordon", &json!({"reason": "test"})).await;
    assert_eq!(got.status, 200, "{:?}", got.body);
    let r = s.get(&s.admin, "/v1/reports/fleet").await.json();
    assert_eq!(r["inventory"][0]["out_of_service"], json!({"operator": 8}));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_project_sees_only_its_own() {
    let s = site().await;
    s.held_job(&s.user).await;
    s.held_job(&s.other).await;
    let r = s.get(&s.viewer, "/v1/reports/fleet").await.json();
    assert_eq!((&r["project"], &r["total"]["jobs"]["submitted"]), (&json!("alpha"), &json!(1)));
    assert_eq!((&r["inventory"], &r["forecast"]), (&json!([]), &Value::Null));
    assert_eq!(r["total"]["in_service_gpu_seconds"], Value::Null);
    assert_eq!(r["projects"][0]["name"], "alpha");
    let r = s.get(&s.admin, "/v1/reports/fleet?project=beta").await.json();
    assert_eq!((&r["project"], &r["total"]["jobs"]["submitted"]), (&json!("beta"), &json!(1)));
    for (token, query, status) in [
        (&s.viewer, "project=beta", 403),
        (&s.admin, "project=nowhere", 404),
        (&s.admin, "project=No%20name", 400),
        (&s.admin, "step=week", 400),
        (&s.admin, "from=yesterday", 400),
        (&s.admin, "from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z", 400),
    ] {
        let got = s.get(token, &format!("/v1/reports/fleet?{query}")).await;
        assert_eq!(got.status.as_u16(), status, "{query}: {:?}", got.body);
        got.error();
    }
    // A time of which nothing is known has no rows.
    let q = "from=2001-01-01T00:00:00Z&to=2001-01-02T00:00:00Z&step=hour";
    let r = s.get(&s.admin, &format!("/v1/reports/fleet?{q}")).await.json();
    assert_eq!(r["rows"], json!([]));
}

/// A day, and so a week and a month, that does not end while a test asks about it: where little of
/// it is left, the next one is waited for.
async fn whole_day() {
    const DAY_MS: u64 = 24 * 3_600_000;
    let left = DAY_MS - muster_server::brain::clock().0.unsigned_abs() % DAY_MS;
    if left < 60_000 {
        tokio::time::sleep(std::time::Duration::from_millis(left + 1000)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_week_and_a_month_are_reported_with_their_objectives() {
    whole_day().await;
    let s = site().await;
    s.held_job(&s.user).await;
    for (query, period, over) in [
        ("period=week&back=0", "week", false),
        ("period=month&back=0", "month", false),
        ("period=month", "month", true),
        ("", "week", true),
    ] {
        let got = s.get(&s.admin, &format!("/v1/reports/period?{query}")).await;
        assert_eq!(got.status, 200, "{:?}", got.body);
        let r = got.json();
        assert_eq!((&r["kind"], &r["period"]), (&json!("PeriodReport"), &json!(period)), "{r:#}");
        assert_eq!((&r["over"], &r["complete"]), (&json!(over), &json!(true)), "{r:#}");
        // The site began just now: nothing is made up for the time before.
        assert_eq!(r["before"], Value::Null, "{r:#}");
        let submitted = if over { 0 } else { 1 };
        assert_eq!(r["fleet"]["jobs"]["submitted"], submitted, "{r:#}");
        assert!(!r["objectives"].as_array().unwrap().is_empty(), "{r:#}");
        for o in r["objectives"].as_array().unwrap() {
            assert_eq!(o["met"].is_null(), o["total"] == 0, "{o:#}");
        }
        assert_eq!(r["inventory"][0]["gpus"], 8, "{r:#}");
        assert!(r["name"].as_str().unwrap().starts_with("20"), "{r:#}");
    }
    for (token, query, status) in [
        (&s.viewer, "", 403),
        (&s.admin, "period=year", 400),
        (&s.admin, "back=61", 400),
        (&s.admin, "back=-1", 400),
    ] {
        let got = s.get(token, &format!("/v1/reports/period?{query}")).await;
        assert_eq!(got.status.as_u16(), status, "{query}: {:?}", got.body);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn gpus_of_a_lost_node_are_held_and_those_of_a_suspect_are_not_free() {
    let s = site_with(HttpConfig { metrics_every: Duration::ZERO, ..patient() }).await;
    // With a checkpoint: it is held until its ranks have certainly stopped.
    let spec = json!({"name": "train", "gang": {"gpus": 2}, "run": {"command": ["train"]},
        "checkpoint": {"dir": "/saved"}});
    let got = s.post(&s.user, "/v1/jobs", &spec).await;
    assert_eq!(got.status, 201, "{:?}", got.body);
    let mut durable = s.brain.watch();
    let placed = |s: &Site| s.brain.read(|st| st.jobs.values().any(|j| j.attempt.is_some()));
    while !placed(&s) {
        tokio::time::timeout(PATIENCE, durable.changed()).await.unwrap().unwrap();
    }
    let (node, role) = ("n1".parse().unwrap(), Some(NodeRole::Suspect));
    s.brain.system(Command::MarkNode { node, role, hazard: None }).await.unwrap();
    let lost = Command::NodeLost { node: "n1".parse().unwrap(), last_seen: s.brain.now() };
    for command in [None, Some(lost)] {
        if let Some(command) = command {
            s.brain.system(command).await.unwrap();
        }
        let page = s.get(&s.operator, "/metrics").await;
        let page = String::from_utf8_lossy(&page.body).into_owned();
        for (state, n) in [("used", 2), ("free", 0), ("out", 6)] {
            let line = format!("muster_gpus{{state=\"{state}\"}} {n}\n");
            assert!(page.contains(&line), "{line} in\n{page}");
        }
        let shown = s.get(&s.operator, "/v1/nodes/n1").await.json();
        let gpus = shown["jobs"][0]["gpus"].as_array().map(Vec::len);
        assert_eq!((&shown["gpus_used"], gpus), (&json!(2), Some(2)), "{shown}");
        // What is out of service by its role is not called ready either.
        let state = if shown["reachable"] == true { "suspect" } else { "lost" };
        assert_eq!(shown["state"], state, "{shown}");
        // When its role was set is not known; its stage is older.
        assert_eq!(shown["state_since"].is_null(), state == "suspect", "{shown}");
        let health = s.get(&s.operator, "/v1/health").await.json();
        assert_eq!((&health["nodes_out"], &health["nodes"]), (&json!(1), &json!({state: 1})));
    }
    // A spare is not free: new work does not go there.
    let node = "n1".parse().unwrap();
    let spare = Command::MarkNode { node, role: Some(NodeRole::Spare), hazard: None };
    s.brain.system(spare).await.unwrap();
    let page = s.get(&s.operator, "/metrics").await;
    let page = String::from_utf8_lossy(&page.body).into_owned();
    assert!(page.contains("muster_gpus{state=\"free\"} 0\n"), "{page}");
    assert!(page.contains("muster_gpus{state=\"spare\"} "), "{page}");
    // Its user sees by which lease, and until when.
    let id = got.json()["id"].as_str().unwrap().to_owned();
    let job = s.get(&s.user, &format!("/v1/jobs/{id}")).await.json();
    assert_eq!(job["spec"]["on_partition"], json!({"stop_after": "2m"}), "{job}");
    assert!(job["attempt"]["stop"]["fence_until"].is_string(), "{job}");
    // Cancelled, it is not over before its ranks have certainly stopped, and its node stays.
    let got = s.post(&s.user, &format!("/v1/jobs/{id}/cancel"), &Value::Null).await;
    assert_eq!(got.status, 200, "{:?}", got.body);
    let job = s.get(&s.user, &format!("/v1/jobs/{id}")).await.json();
    assert_eq!((&job["state"], &job["ended_at"]), (&json!("stopping"), &Value::Null), "{job}");
    assert!(job["attempt"]["stop"]["fence_until"].is_string(), "{job}");
    let why = s.get(&s.user, &format!("/v1/jobs/{id}/explain")).await.json();
    assert!(why["summary"].as_str().unwrap().contains("ranks on n1 may still write"), "{why}");
    let got = s.post(&s.operator, "/v1/nodes/n1/retire", &Value::Null).await;
    assert_eq!(got.status, 409, "{:?}", got.body);
    assert!(got.json()["error"].to_string().contains("may write there"), "{:?}", got.json());
}

#[tokio::test(flavor = "multi_thread")]
async fn gpus_of_a_node_in_maintenance_are_not_free() {
    let s = site_with(HttpConfig { metrics_every: Duration::ZERO, ..patient() }).await;
    // Its window is ahead at first, then open.
    for (start, free, out) in [("2998-01-01T00:00:00Z", 8, 0), ("1970-01-01T00:00:00Z", 0, 8)] {
        let window =
            json!({"over": {"nodes": ["n1"]}, "start": start, "length": "1d", "every": "1d"});
        let got = s.call(&s.operator, "PUT", "/v1/reservations/upkeep", &window, &[]).await;
        assert_eq!(got.status, 200, "{:?}", got.body);
        let page = s.get(&s.operator, "/metrics").await;
        let page = String::from_utf8_lossy(&page.body).into_owned();
        for (state, n) in [("free", free), ("out", out)] {
            for labels in ["muster_gpus{", "muster_sku_gpus{sku=\"h100-sxm\","] {
                let line = format!("{labels}state=\"{state}\"}} {n}\n");
                assert!(page.contains(&line), "{line} in\n{page}");
            }
        }
        // It is in service all the same, as for objectives and reports, and the metric says so.
        let help = page.lines().find(|l| l.starts_with("# HELP muster_gpus_in_service "));
        assert!(help.is_some_and(|h| h.contains("maintenance window")), "{help:?}");
        let r = s.get(&s.admin, "/v1/reports/fleet").await.json();
        assert_eq!(r["inventory"][0]["in_service"], 8, "{r:#}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn gpus_of_a_retired_node_are_counted_nowhere() {
    let s = site_with(HttpConfig { metrics_every: Duration::ZERO, ..patient() }).await;
    for (verb, body) in [("drain", json!({"reason": "sold"})), ("retire", Value::Null)] {
        let got = s.post(&s.operator, &format!("/v1/nodes/n1/{verb}"), &body).await;
        assert_eq!(got.status, 200, "{:?}", got.body);
    }
    let page = s.get(&s.operator, "/metrics").await;
    let page = String::from_utf8_lossy(&page.body).into_owned();
    for state in ["used", "free", "out", "spare"] {
        let line = format!("muster_gpus{{state=\"{state}\"}} 0\n");
        assert!(page.contains(&line), "{line} in\n{page}");
    }
    assert!(page.contains("muster_nodes{state=\"retired\"} 1\n"), "{page}");
    assert!(!page.contains("muster_sku_gpus{"), "{page}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_report_counts_every_agent_that_is_connected_once() {
    let s = site().await;
    let connected: BTreeMap<NodeName, String> =
        ["n1", "gone"].map(|n| (n.parse().unwrap(), "9.9.9".to_owned())).into();
    let rows = s.brain.read(|site| crate::period::versions(site, &connected));
    let agents: Vec<_> = rows.iter().filter(|r| r.what == "agent").collect();
    assert_eq!(agents.len(), 1, "{rows:?}");
    assert_eq!((agents[0].version.as_str(), agents[0].nodes), ("9.9.9", 1));
}
