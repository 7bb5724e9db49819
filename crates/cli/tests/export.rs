//! Every query of the dashboards and every rule, asked of a real Prometheus that scrapes a site,
//! and the same site's figures written to it.

use crate::Running;
use crate::minutes::cluster::{Cluster, free_address, until};
use muster_export::names::{family, named};
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;

/// An answer's body. HTTP/1.0, so that nobody sends it in chunks.
pub(crate) fn get(addr: SocketAddr, path: &str, token: &str) -> Option<String> {
    let mut stream = TcpStream::connect(addr).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(30))).ok()?;
    let auth = match token {
        "" => String::new(),
        t => format!("Authorization: Bearer {t}\r\n"),
    };
    let text = format!("GET {path} HTTP/1.0\r\nHost: x\r\n{auth}\r\n");
    stream.write_all(text.as_bytes()).ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    head.split(' ').nth(1).filter(|s| *s == "200").map(|_| body.to_owned())
}

fn query(addr: SocketAddr, query: &str) -> Option<Vec<Value>> {
    let code = |b: u8| match b {
        b if b.is_ascii_alphanumeric() => char::from(b).to_string(),
        b => format!("%{b:02X}"),
    };
    let encoded: String = query.bytes().map(code).collect();
    let body = get(addr, &format!("/api/v1/query?query={encoded}"), "")?;
    let answer: Value = serde_json::from_str(&body).ok()?;
    assert_eq!(answer["status"], "success", "{query}: {answer}");
    answer["data"]["result"].as_array().cloned()
}

/// The families that a page has.
fn families(page: &str) -> BTreeSet<String> {
    let types = page.lines().filter_map(|l| l.strip_prefix("# TYPE "));
    types.filter_map(|l| l.split(' ').next()).map(str::to_owned).collect()
}

fn promtool(page: &str) {
    let mut child = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("started");
    child.stdin.take().expect("its input").write_all(page.as_bytes()).expect("written");
    let out = child.wait_with_output().expect("ended");
    assert!(out.status.success(), "{}", muster_testkit::printed(&out));
}

#[test]
fn every_panel_and_every_rule_finds_its_figures() {
    let has = |program| muster_testkit::program(program, "prometheus");
    if !has("prometheus") || !has("promtool") {
        return;
    }
    let ((prom, _prom), (gpus, _gpus)) = (free_address(), free_address());
    let write = format!("http://{prom}/api/v1/write");
    let c = Cluster::start_with(2, &["--remote-write", &write, "--remote-write-every", "1s"]);
    let server: SocketAddr = c.listen();
    let exporter = Command::new(env!("CARGO_BIN_EXE_muster"))
        .args(["agent", "metrics", "--simulated", "h100-sxm:8", "--listen", &gpus.to_string()])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("started");
    let _exporter = Running(exporter);
    let id = c.submit(&["--gpus", "4", "--", "sleep", "600"]);
    until("it runs", || c.json(&["get", "job", &id])["state"] == "running");
    c.submit(&["--gpus", "1", "--", "true"]);

    let rules = c.path("rules.yaml");
    c.muster(&["export", "prometheus-rules", "--out", rules.to_str().expect("text")]).code(0);
    let boards = c.path("boards");
    c.muster(&["export", "grafana", "--out", boards.to_str().expect("text")]).code(0);
    let token = c.path("prom.token");
    std::fs::write(&token, &c.token).expect("written");
    let config = c.path("prometheus.yml");
    let text = format!(
        // A page may take as long as the pause between two.
        "global: {{scrape_interval: 5s, evaluation_interval: 1s}}\nrule_files: [{rules:?}]\n\
         scrape_configs:\n  - job_name: muster\n    authorization: {{credentials_file: {token:?}}}\n    \
         static_configs: [{{targets: ['{server}']}}]\n  - job_name: gpus\n    \
         static_configs: [{{targets: ['{gpus}']}}]\n"
    );
    std::fs::write(&config, text).expect("written");
    let prometheus = Command::new("prometheus")
        .arg(format!("--config.file={}", config.display()))
        .arg(format!("--storage.tsdb.path={}", c.path("tsdb").display()))
        .arg(format!("--web.listen-address={prom}"))
        .arg("--web.enable-remote-write-receiver")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("started");
    let _prometheus = Running(prometheus);
    for job in ["muster", "gpus"] {
        until("some scrapes", || {
            let n = query(prom, &format!("sum_over_time(up{{job=\"{job}\"}}[5m])"));
            let v = n.and_then(|n| n.first()?["value"][1].as_str()?.parse::<f64>().ok());
            v.is_some_and(|n| n >= 4.0)
        });
    }

    let page = get(server, "/metrics", &c.token).expect("the page");
    promtool(&page);
    assert_eq!(get(server, "/metrics", ""), None, "nobody sees it without a token");
    c.muster(&["project", "create", "other"]).code(0);
    let made = c.json(&["token", "create", "bound", "--project", "other", "--role", "viewer"]);
    let bound = made["secret"].as_str().expect("it is shown once");
    assert_eq!(get(server, "/metrics", bound), None, "they are not for a tenant");
    assert!(page.contains("muster_project_"));
    let gpu_page = get(gpus, "/metrics", "").expect("the page of GPUs");
    let known: BTreeSet<String> = families(&page).union(&families(&gpu_page)).cloned().collect();

    let (mut asked, mut silent) = (0, Vec::new());
    // What did not happen here has no figures yet; nothing else is without.
    let events = ["muster_faults_total", "muster_gpus_out_of_service", "muster_recovery_seconds"];
    for name in ["executive", "on-call", "debug", "tenant"] {
        let text = std::fs::read(boards.join(format!("muster-{name}.json"))).expect("a dashboard");
        let board: Value = serde_json::from_slice(&text).expect("JSON");
        for panel in board["panels"].as_array().expect("panels") {
            for target in panel["targets"].as_array().into_iter().flatten() {
                let expr = target["expr"].as_str().expect("an expression");
                for figure in named(expr) {
                    let there = known.contains(&figure) || known.contains(family(&figure));
                    assert!(there, "{name}: {} names {figure}", panel["title"]);
                }
                let expr = ["sku", "project", "node"]
                    .iter()
                    .fold(expr.to_owned(), |e, v| e.replace(&format!("${v}"), ".+"));
                asked += 1;
                let answers = || !query(prom, &expr).expect("an answer").is_empty();
                if events.iter().any(|e| expr.contains(e)) {
                    silent.extend((!answers()).then(|| expr.clone()));
                } else {
                    // After a scrape that failed, all its figures are gone until the next.
                    until(&format!("{name}: {}: {expr}", panel["title"]), answers);
                }
            }
        }
    }
    assert!(asked > 45, "{asked}");
    let mut recorded = BTreeSet::new();
    until("every rule was looked at", || {
        let body = get(prom, "/api/v1/rules", "").expect("rules");
        let answer: Value = serde_json::from_str(&body).expect("JSON");
        let groups = answer["data"]["groups"].as_array().cloned().unwrap_or_default();
        let rules: Vec<Value> = groups
            .iter()
            .flat_map(|g| g["rules"].as_array().cloned().unwrap_or_default())
            .collect();
        for r in &rules {
            assert_ne!(r["health"], "err", "{r:#}");
            recorded.insert(r["name"].as_str().unwrap_or_default().to_owned());
            for figure in named(r["query"].as_str().unwrap_or_default()) {
                let there = known.contains(&figure) || known.contains(family(&figure));
                assert!(there || figure.starts_with("muster:"), "{r:#}");
            }
        }
        rules.len() > 10 && rules.iter().all(|r| r["health"] == "ok")
    });
    for name in recorded.iter().filter(|n| n.starts_with("muster:") && !n.contains("gpus_out")) {
        until("what is recorded", || !query(prom, name).expect("an answer").is_empty());
    }
    // The server wrote the same figures by itself.
    until("what was written", || {
        let rows = query(prom, "muster_leader{job=\"muster\",instance=~\"server-.*\"}");
        rows.is_some_and(|r| r.len() == 1)
    });
    let sent = query(prom, "muster_remote_write_sent_total").expect("an answer");
    assert!(!sent.is_empty());
    eprintln!("{asked} queries asked, {} about what did not happen", silent.len());
}
