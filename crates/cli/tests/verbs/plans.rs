//! Where nodes stand, whose they are for a while, and what would happen if.

use super::{items, names, refuses, says, write};
use crate::minutes::cluster::Cluster;
use serde_json::Value;

/// Would two whole nodes in one leaf be had now?
const PAIR: [&str; 10] =
    ["whatif", "submit", "--nodes", "2", "--gpus", "8", "--topology", "leaf", "--", "true"];

fn pair(c: &Cluster) -> Value {
    c.json(&[&["-o", "json"], &PAIR[..]].concat())
}

pub(super) fn windows_and_places(c: &Cluster, nodes: &[String; 2]) {
    let [one, two] = nodes;
    let now = pair(c);
    assert_eq!((&now["state"], &now["possible"]), (&"would start".into(), &true.into()), "{now:#}");
    assert!(now["would_go"].is_string(), "{now:#}");
    assert!(items(&c.json(&["ps", "-a"])).is_empty(), "nothing was submitted");

    let out = c.muster(&["reservation"]);
    out.code(0);
    assert!(out.stderr.contains("no reservations"), "{out:?}");
    let fans = format!(
        "kind: Reservation\nname: fans\nover: {{nodes: [{one}]}}\nstart: now\nlength: 1h\n\
         reason: replace fans\n"
    );
    let out = c.muster(&["reservation", "apply", &write(c, "fans.yaml", &fans)]);
    says(&out, &["reservation fans covers 1 node; it is active, from "]);
    let list = c.json(&["reservation", "list"]);
    let fans = &items(&list)[0];
    assert_eq!(names(&list), ["fans"]);
    assert_eq!((&fans["maintenance"], &fans["nodes"][0]), (&true.into(), &one.as_str().into()));
    says(&c.muster(&["reservation", "list"]), &["maintenance", "replace fans"]);
    let waits = pair(c);
    assert_eq!(waits["state"], "would wait", "{waits:#}");
    let why = waits["summary"].as_str().unwrap_or_default();
    assert!(why.contains("reserved for others (fans)"), "{waits:#}");
    let reserved = ["submit", "--dry-run", "--tier", "reserved", "--", "true"];
    says(&c.muster(&reserved), &["has no reservation, "]);
    let night = ["create", "night", "--gpus", "8", "--start", "+2h", "--length", "1h"];
    refuses(&c.muster(&[&["reservation"], &night[..]].concat()), 2, &["--project NAME"]);
    let out = c.muster(&["reservation", "delete", "fans"]);
    says(&out, &["reservation fans is deleted\n"]);
    refuses(&c.muster(&["reservation", "delete", "fans"]), 3, &["fans"]);
    assert_eq!(pair(c)["state"], "would start");

    let own = |more: &[&str]| {
        let start = "2999-01-01T00:00:00Z";
        let what = ["reservation", "create", "own", "--nodes", one.as_str(), "--maintenance"];
        c.muster(&[&what[..], &["--start", start, "--length", "1h"], more].concat())
    };
    says(
        &own(&["--dry-run"]),
        &["reservation own would cover 1 node; it is scheduled, from ", one],
    );
    assert!(items(&c.json(&["reservation", "list"])).is_empty(), "nothing was made");
    says(&own(&[]), &["reservation own covers 1 node; ", one]);
    says(&own(&[]), &["reservation own covers 1 node; "]);
    let refused = own(&["--reason", "fans"]);
    refuses(&refused, 5, &["another reservation own", "muster reservation apply FILE"]);
    says(&c.muster(&["reservation", "delete", "own"]), &["reservation own is deleted\n"]);

    let site = |at: &str| {
        format!(
            "region:\n  - name: eu\n    cluster:\n      - name: c1\n        leaf:\n          \
             - {{name: l1, rack: [{{name: r1, nodes: \"{one}\"}}]}}\n          \
             - {{name: l2, rack: [{{name: r2, nodes: \"{at}\"}}]}}\n"
        )
    };
    let bad = write(c, "bad.yaml", &site(one));
    refuses(&c.muster(&["topology", "apply", &bad]), 2, &["bad.yaml:7", one, "already there"]);
    let good = write(c, "site.yaml", &site(two));
    says(&c.muster(&["topology", "check", &good]), &["l2", two]);
    let out = c.muster(&["topology", "apply", &good]);
    says(&out, &["the site now has places for 2 nodes\n"]);
    let place = c.json(&["get", "node", two])["location"].clone();
    assert_eq!((&place["leaf"], &place["rack"]), (&"l2".into(), &"r2".into()), "{place:#}");
    says(&c.muster(&["topology"]), &["l1", "l2", one]);
    let apart = pair(c);
    assert_eq!(apart["state"], "can never start", "{apart:#}");
    says(&c.muster(&PAIR), &["can never start", "leaf"]);
}
