//! The page of figures, and what remote write sends.

use super::{held, patient, site, site_with};
use crate::jobs::{SCANNED_AT_ONCE, each};
use crate::{Registry, write_metrics};
use flate2::read::GzDecoder;
use muster_model::ids::JobId;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::time::Duration;

#[tokio::test(flavor = "multi_thread")]
async fn every_figure_is_declared_once_and_is_sent_as_it_is_shown() {
    let s = site().await;
    s.held_job(&s.user).await;
    let app = s.app.clone();
    let made = tokio::task::spawn_blocking(move || {
        let page = Registry::page(|out| write_metrics(&app, true, out));
        (page, Registry::samples(|out| write_metrics(&app, true, out)))
    });
    let (page, samples) = made.await.unwrap();
    let (mut declared, mut shown) = (BTreeMap::new(), BTreeSet::new());
    for line in page.lines() {
        if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|l| l.split_once(' ')) {
            assert_eq!(declared.insert(name, kind), None, "{name} is declared twice");
            assert_eq!(name.ends_with("_total"), kind == "counter", "{name} is a {kind}");
        } else if !line.starts_with('#') {
            let name = line.split(['{', ' ']).next().unwrap();
            let ends = ["_bucket", "_sum", "_count"];
            let whole = ends.iter().find_map(|end| name.strip_suffix(*end));
            let of = whole.filter(|of| declared.get(of) == Some(&"histogram")).unwrap_or(name);
            assert!(declared.contains_key(of), "{line} is not declared");
            shown.insert(name);
        }
    }
    let sent: BTreeSet<&str> = samples.iter().map(|s| s.labels["__name__"].as_str()).collect();
    assert_eq!(sent, shown);
}

#[tokio::test(flavor = "multi_thread")]
async fn both_metrics_of_recovery_say_whether_what_muster_ended_is_counted() {
    let s = site().await;
    let page = s.get(&s.admin, "/metrics").await;
    let page = String::from_utf8_lossy(&page.body).into_owned();
    for (name, is) in [
        ("muster_recovery_seconds", "What Muster ended itself is not counted."),
        ("muster_recovery_mean_seconds_1d", "What Muster ended itself is counted, too."),
    ] {
        let start = format!("# HELP {name} ");
        let help = page.lines().find(|l| l.starts_with(&start));
        assert!(help.is_some_and(|h| h.ends_with(is)), "{name}: {help:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_job_is_looked_at_once_however_many_there_are() {
    let s = site().await;
    let first = s.held_job(&s.user).await;
    let mut many = held("many");
    // More than are looked at in one turn, also without the first.
    many["array"] = format!("0-{SCANNED_AT_ONCE}").into();
    let got = s.post(&s.user, "/v1/jobs", &many).await;
    assert_eq!(got.status, 201, "{:?}", got.body);
    let (app, brain) = (s.app.clone(), s.brain.clone());
    let looked = tokio::task::spawn_blocking(move || {
        let mut seen = Vec::new();
        each(&brain, |job| seen.push(job.id));
        (seen, Registry::page(|out| write_metrics(&app, true, out)))
    });
    let (seen, page) = looked.await.unwrap();
    let all: Vec<JobId> = s.brain.read(|state| state.jobs.keys().copied().collect());
    assert_eq!(seen, all);
    let count = SCANNED_AT_ONCE + 2;
    assert_eq!(all.len(), count);
    for line in [
        format!("muster_jobs{{state=\"queued\"}} {count}\n"),
        format!("muster_queue_jobs{{priority=\"normal\",held=\"true\"}} {count}\n"),
    ] {
        assert!(page.contains(&line), "{line}{page}");
    }
    // A list begins with the newest: this one is found in its second turn.
    let found = s.get(&s.user, "/v1/jobs?name=a").await.json();
    assert_eq!(found["items"][0]["id"], first["id"], "{found}");
    assert_eq!(found["items"].as_array().map(Vec::len), Some(1), "{found}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_ended_last_is_chosen_by_its_end_and_not_by_its_number() {
    let s = site_with(patient()).await;
    let mut ids = Vec::new();
    for _ in 0..4 {
        ids.push(s.held_job(&s.user).await["id"].as_str().unwrap().to_owned());
    }
    // The oldest ends last, the newest not at all.
    for id in [&ids[2], &ids[1], &ids[0]] {
        let path = format!("/v1/jobs/{id}/cancel");
        assert_eq!(s.post(&s.user, &path, &Value::Null).await.status, 200);
        // Of those that end in one millisecond the newest comes first.
        let ended = s.brain.now();
        while s.brain.now() <= ended {
            tokio::task::yield_now().await;
        }
    }
    let got = s.get(&s.user, "/v1/jobs?last_ended=true&limit=2").await.json();
    let found: Vec<&str> =
        got["items"].as_array().unwrap().iter().filter_map(|j| j["id"].as_str()).collect();
    assert_eq!(found, [ids[0].as_str(), ids[1].as_str()]);
    assert_eq!(got["cursor"], Value::Null, "one page");
    let page = s.get(&s.user, "/v1/jobs?limit=1").await.json();
    let cursor = page["cursor"].as_str().unwrap();
    let more = s.get(&s.user, &format!("/v1/jobs?last_ended=true&cursor={cursor}")).await;
    assert_eq!((more.status.as_u16(), &more.json()["error"]["field"]), (400, &json!("cursor")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_is_asked_for_packed_is_the_same_page() {
    let mut config = patient();
    // Made once, however long this takes.
    config.metrics_every = Duration::from_secs(3600);
    let s = site_with(config).await;
    let gzip = [("accept-encoding", "gzip")];
    let packed = s.call(&s.admin, "GET", "/metrics", &Value::Null, &gzip).await;
    assert_eq!((packed.status.as_u16(), packed.header("content-encoding")), (200, "gzip"));
    assert_eq!(packed.header("vary"), "accept-encoding");
    assert_eq!(packed.header("content-type"), "text/plain; version=0.0.4; charset=utf-8");
    let plain = s.get(&s.admin, "/metrics").await;
    assert_eq!((plain.status.as_u16(), plain.header("content-encoding")), (200, ""));
    let mut unpacked = Vec::new();
    GzDecoder::new(packed.body.as_ref()).read_to_end(&mut unpacked).unwrap();
    assert_eq!(unpacked, plain.body, "the same page");
}
