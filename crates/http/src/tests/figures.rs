//! The page of figures, and what remote write sends.

use super::site;
use crate::{Registry, write_figures};
use std::collections::{BTreeMap, BTreeSet};

#[tokio::test(flavor = "multi_thread")]
async fn every_figure_is_declared_once_and_is_sent_as_it_is_shown() {
    let s = site().await;
    s.held_job(&s.user).await;
    let app = s.app.clone();
    let made = tokio::task::spawn_blocking(move || {
        let page = Registry::page(|out| write_figures(&app, true, out));
        (page, Registry::samples(|out| write_figures(&app, true, out)))
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
