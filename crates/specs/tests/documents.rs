//! Policies, quotas and reservations in files, good and bad.

use muster_model::Span;
use muster_model::reservation::{Overrun, ReservationTarget};
use muster_specs::{FileError, document};

fn error_text<T: std::fmt::Debug>(read: Result<T, FileError>) -> String {
    match read {
        Ok(v) => panic!("should be refused: {v:?}"),
        Err(e) => e.to_string(),
    }
}

const QUOTAS: &str = "kind: Quotas
tree:
  - {name: lab, gpus: [{nominal: 64}]}
  - name: nlp
    parent: lab
    shares: 2
    projects: [nlp, speech]
    gpus: [{sku: h100-sxm, nominal: 32, borrow: 16}]
";

#[test]
fn quotas_are_read_as_written_and_as_printed() {
    let q = document::quotas(QUOTAS, "q.yaml").unwrap();
    assert_eq!((q.tree.len(), q.tree[1].shares, q.tree[1].gpus[0].borrow), (2, 2, Some(16)));
    let printed = format!(
        "{{\"kind\": \"Quotas\", \"version\": 7, \"quotas\": {}, \"report\": {{\"quotas\": []}}, \
          \"warnings\": [\"w\"]}}",
        serde_json::to_string(&q).unwrap()
    );
    assert_eq!(document::quotas(&printed, "q.json").unwrap(), q);
    assert!(document::quotas("kind: Quotas\ntree: []\n", "q.yaml").unwrap().tree.is_empty());
}

#[test]
fn mistakes_in_quotas_are_pointed_at() {
    for (text, want) in [
        (
            QUOTAS.replace("parent: lab", "parent: lub"),
            "q.yaml:5:5: tree[1].parent: there is no node `lub`",
        ),
        (QUOTAS.replace("shares: 2", "shares: 0"), "q.yaml:6:5: tree[1].shares: 0 is not a weight"),
        (QUOTAS.replace("shares: 2", "shares: some"), "q.yaml:6:"),
        (
            QUOTAS.replace("shares: 2", "share: 2"),
            "q.yaml:6:5: tree[1].share: unknown field `share`",
        ),
        (QUOTAS.replace("nominal: 32", "nominl: 32"), "did you mean `nominal`?"),
        (
            QUOTAS.replace("speech", "nlp"),
            "q.yaml:7:5: tree[1].projects: project nlp hangs on two nodes",
        ),
        (
            QUOTAS.replace("kind: Quotas", "kind: Policy"),
            "q.yaml:1:7: the file is of kind `Policy`, not `Quotas`\n  hint: `muster policy apply` takes it",
        ),
        (QUOTAS.replace("kind: Quotas\n", ""), "q.yaml:1:1: `kind` is missing here"),
        ("kind: Quotas\n".into(), "`tree` is missing here"),
        (String::new(), "q.yaml: the file is empty"),
        ("- a\n".into(), "q.yaml:1:1: the file is a list, not a table"),
        (format!("{QUOTAS}---\n{QUOTAS}"), "the file has several documents"),
        (QUOTAS.replace("shares: 2", "shares: 2\n    shares: 3"), "`shares` is given twice"),
    ] {
        let e = error_text(document::quotas(&text, "q.yaml"));
        assert!(e.contains(want), "{e:?} should contain {want:?}");
    }
}

#[test]
fn a_policy_gets_its_defaults_and_its_mistakes_are_pointed_at() {
    let p = document::policy("kind: Policy\ndefrag: {enabled: true}\n", "p.yaml").unwrap();
    assert!(p.defrag.enabled && p.preemption.enabled);
    assert_eq!(p.backfill.reserved_starts, 128);
    let printed = format!(
        "{{\"kind\": \"Policy\", \"version\": 1, \"policy\": {}}}",
        serde_json::to_string(&p).unwrap()
    );
    assert_eq!(document::policy(&printed, "p.json").unwrap(), p);
    for (text, want) in [
        (
            "kind: Policy\ndefrga: {}\n",
            "p.yaml:2:1: unknown field `defrga`\n  hint: did you mean `defrag`?",
        ),
        ("kind: Policy\nbackfill:\n  mode: eesy\n", "did you mean `easy`?"),
        ("kind: Policy\nfair_share:\n  half_life: 1s\n", "p.yaml:3:3: fair_share.half_life: "),
        (
            "kind: Policy\npolicy:\n  idle: {end_after: 1h}\n",
            "p.yaml:3:10: policy.idle.end_after: ",
        ),
        ("kind: Policy\ndefrag: []\n", "p.yaml:2:"),
        ("kind: Policy\npolicy:\n  hazard: [1, 2]\n", "expected fields here"),
        ("kind: Job\n", "`muster submit` takes it"),
        ("kind: [a]\n", "`kind` is not a word"),
    ] {
        let e = error_text(document::policy(text, "p.yaml"));
        assert!(e.contains(want), "{e:?} should contain {want:?}");
    }
}

const NIGHT: &str = "kind: Reservation
name: night
projects: [nlp]
over: {gpus: {count: 64, sku: h100-sxm}}
start: 2026-02-01T20:00:00Z
length: 10h
every: 24h
overrun: finish
";

#[test]
fn reservations_are_read_one_or_many() {
    let [r] = &document::reservations(NIGHT, "r.yaml").unwrap()[..] else { panic!("one") };
    assert_eq!((r.start.as_str(), r.start_at), ("2026-02-01T20:00:00Z", (5, 1)));
    assert_eq!(r.reservation.length, Span::hours(10));
    assert_eq!(r.reservation.overrun, Overrun::Finish);
    assert_eq!(
        r.reservation.over,
        ReservationTarget::Gpus { count: 64, sku: Some("h100-sxm".into()) }
    );
    let list = "items:
  - {name: a, over: {nodes: [n1]}, start: now, length: 1h, id: a, kind: Reservation, state: active,
     version: 7, maintenance: true, window: {start: x, end: y}, nodes: [n1],
     stops: [{job: '7', job_name: x, project: p}], not_serving: [{node: n1, why: drained}]}
  - {name: b, over: {domain: {level: leaf, path: l1}}, start: +2h, length: 1h}
cursor: null
";
    let many = document::reservations(list, "r.yaml").unwrap();
    assert_eq!(many.len(), 2);
    assert_eq!((many[1].start.as_str(), many[1].start_at.0), ("+2h", 5));
}

#[test]
fn mistakes_in_reservations_are_pointed_at() {
    for (text, want) in [
        (
            NIGHT.replace("every: 24h", "every: 1h"),
            "r.yaml:7:1: every: it begins again before it is over",
        ),
        (NIGHT.replace("length: 10h", "length: long"), "r.yaml:6:"),
        (NIGHT.replace("start: 2026-02-01T20:00:00Z\n", ""), "`start` is missing here"),
        (NIGHT.replace("overrun: finish", "overrun: finsh"), "did you mean `finish`?"),
        (NIGHT.replace("count: 64", "count: 0"), "over.gpus.count: it is zero"),
        (NIGHT.replace("gpus: {count: 64, sku: h100-sxm}", "racks: [r1]"), "r.yaml:4:"),
        (NIGHT.replace("name: night", "name: a b"), "r.yaml:2:"),
        (
            "items:\n  - {name: a, over: {nodes: []}, start: now, length: 1h}\n".into(),
            "items[0].over.nodes: no node is named",
        ),
    ] {
        let e = error_text(document::reservations(&text, "r.yaml"));
        assert!(e.contains(want), "{e:?} should contain {want:?}");
    }
}

proptest::proptest! {
    #[test]
    fn no_text_panics(s in "\\PC{0,200}", yamlish in "([a-z]{1,8}: ?[\\[{\\]}&*a-z0-9-]{0,6}\n?){0,8}") {
        for text in [s.clone(), yamlish.clone(), format!("kind: Policy\n{yamlish}"), format!("kind: Quotas\ntree:\n{s}")] {
            let _ = document::policy(&text, "f");
            let _ = document::quotas(&text, "f");
            let _ = document::reservations(&text, "f");
        }
    }
}
