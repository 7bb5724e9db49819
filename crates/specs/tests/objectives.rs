//! Objectives and routing in files, good and bad; OpenSLO.

use muster_model::Span;
use muster_model::slo::{Factor, Gate, Objectives, Ppm, Sli, Window};
use muster_specs::objectives::{objectives, routing};
use muster_specs::{FileError, openslo};
use proptest::prelude::*;

fn error_text<T: std::fmt::Debug>(read: Result<T, FileError>) -> String {
    match read {
        Ok(v) => panic!("should be refused: {v:?}"),
        Err(e) => e.to_string(),
    }
}

const FILE: &str = "kind: Objectives
defaults: 1
without: [inference-p99]
objectives:
  - name: research-wait
    owner: scheduling
    sli: {queue_wait: {under: 5m, class: high}}
    scope: {project: research}
    target: 95%
    window: 28d
    burn:
      - {factor: 14.4, long: 1h, short: 5m, urgency: page}
      - factor: 2x
        long: 5m
        short: 5m
        for: 15m
        urgency: page
    gates: [rollouts]
  - {name: nodes, sli: node_availability, target: 99.5%, window: month}
";

#[test]
fn a_file_is_read_as_written_and_as_printed() {
    // 14.4 times 5% is more than a half, 2 times is a tenth: both can be.
    let o = objectives(FILE, "o.yaml").unwrap();
    assert_eq!((o.defaults, o.without.len(), o.objectives.len()), (1, 1, 2));
    let wait = &o.objectives[0];
    assert_eq!((wait.target, wait.window), (Ppm(950_000), Window::Rolling(Span::hours(28 * 24))));
    let rules = wait.burn.as_ref().unwrap();
    assert_eq!((rules[0].factor, rules[1].factor), (Factor(14_400), Factor(2000)));
    assert_eq!(rules[1].held, Span::mins(15));
    assert!(wait.gates.contains(&Gate::Rollouts));
    assert_eq!(
        (o.objectives[1].sli, o.objectives[1].window),
        (Sli::NodeAvailability, Window::Month)
    );
    let printed = format!(
        "{{\"kind\": \"Objectives\", \"version\": 7, \"objectives\": {}, \"report\": []}}",
        serde_json::to_string(&o).unwrap()
    );
    assert_eq!(objectives(&printed, "o.json").unwrap(), o);
    let least = objectives("kind: Objectives\n", "o.yaml").unwrap();
    assert_eq!(least, Objectives::default());
}

#[test]
fn mistakes_are_pointed_at() {
    for (from, to, want) in [
        ("95%", "0.95", "o.yaml:9:"),
        ("95%", "95", "write percent with at most 4 decimals"),
        (
            "target: 95%",
            "target: 100%",
            "o.yaml:9:5: objectives[0].target: 100% leaves almost no budget",
        ),
        ("window: 28d", "window: 100d", "o.yaml:10:5: objectives[0].window: "),
        ("window: 28d", "window: year", "write 28d, 12h or month"),
        ("window: 28d", "windows: 28d", "did you mean `window`?"),
        (
            "factor: 2x",
            "factor: 2000x",
            "o.yaml:13:9: objectives[0].burn[1].factor: a budget of 5%",
        ),
        ("factor: 2x", "factor: much", "like 14.4x"),
        ("urgency: page}", "urgency: loud}", "o.yaml:12:"),
        ("under: 5m", "under: 5", "has no unit"),
        ("queue_wait", "queue_weight", "queue_wait"),
        ("[rollouts]", "[rollout]", "rollouts"),
        ("project: research", "project: re search", "o.yaml:8:"),
        ("name: nodes", "name: research-wait", "objectives[1].name: two objectives are called"),
        ("defaults: 1", "defaults: 9", "o.yaml:2:1: defaults: there is no set 9"),
        (
            "kind: Objectives",
            "kind: Quotas",
            "o.yaml:1:7: the file is of kind `Quotas`, not `Objectives`\n  hint: `muster quota apply` takes it",
        ),
        ("kind: Objectives\n", "", "`kind` is missing here"),
    ] {
        let text = FILE.replacen(from, to, 1);
        assert_ne!(text, FILE, "{from}");
        let e = error_text(objectives(&text, "o.yaml"));
        assert!(e.contains(want), "{to}: {e}");
    }
    let scoped =
        FILE.replace("sli: node_availability", "sli: node_availability, scope: {project: a}");
    let e = error_text(objectives(&scoped, "o.yaml"));
    assert!(
        e.contains("objectives[1].scope.project: node_availability is not counted by project"),
        "{e}"
    );
}

const ROUTING: &str = "kind: Routing
receivers:
  - {name: am, by: {alertmanager: {url: http://127.0.0.1:9093}}}
  - {name: oncall, by: {webhook: {url: https://hooks.example.org/m, sign: hook-key}}, resolved: false}
  - {name: chat, by: {slack: {url_secret: chat-url}}}
  - name: mail
    by: {smtp: {server: mail.example.org:587, from: muster@example.org, to: [ops@example.org]}}
routes:
  - match: {urgency: page}
    to: [am, oncall]
    repeat: 1h
    escalate: [{after: 15m, to: [mail]}]
  - {match: {under: 'rack:eu/*'}, to: [chat], group_by: [urgency, kind]}
";

#[test]
fn routing_is_read_and_its_mistakes_are_pointed_at() {
    let r = routing(ROUTING, "r.yaml").unwrap();
    assert_eq!((r.receivers.len(), r.routes.len()), (4, 2));
    assert_eq!((r.routes[0].wait, r.routes[0].repeat), (Span::secs(30), Span::hours(1)));
    let printed =
        format!("{{\"kind\":\"Routing\",\"routing\":{}}}", serde_json::to_string(&r).unwrap());
    assert_eq!(routing(&printed, "r.json").unwrap(), r);
    for (from, to, want) in [
        ("[am, oncall]", "[am, oncal]", "r.yaml:10:5: routes[0].to: there is no receiver `oncal`"),
        ("https://hooks", "hooks", "receivers[1].by.webhook.url: it is no address"),
        ("repeat: 1h", "repeat: 1s", "routes[0].repeat: 1s is too often"),
        ("alertmanager:", "alertmgr:", "alertmanager"),
        ("match: {urgency", "match: {severity", "unknown field `severity`"),
    ] {
        let e = error_text(routing(&ROUTING.replacen(from, to, 1), "r.yaml"));
        assert!(e.contains(want), "{to}: {e}");
    }
}

const OPENSLO: &str = "apiVersion: openslo/v1
kind: Service
metadata: {name: research}
spec: {description: The research cluster}
---
apiVersion: openslo/v1
kind: SLI
metadata:
  name: wait
spec:
  ratioMetric:
    counter: true
    good:
      metricSource:
        type: muster
        spec: {sli: queue_wait, under: 5m, tier: on-demand, project: research}
    total:
      metricSource:
        type: muster
        spec: {sli: queue_wait, under: 5m, tier: on-demand, project: research}
---
apiVersion: openslo/v1
kind: SLO
metadata:
  name: research-wait
  displayName: Waiting
  labels: {owner: [scheduling]}
spec:
  description: Research gets its nodes soon
  service: research
  indicatorRef: wait
  timeWindow:
    - duration: 28d
      isRolling: true
  budgetingMethod: Occurrences
  objectives:
    - displayName: soon
      target: 0.95
---
apiVersion: openslo/v1
kind: SLO
metadata: {name: nodes}
spec:
  service: fleet
  indicatorRef: node_availability
  timeWindow:
    - duration: 1M
      calendar: {startTime: 2026-01-01 00:00:00, timeZone: UTC}
  objectives: [{targetPercent: 99.5}]
";

#[test]
fn openslo_is_read() {
    let o = objectives(OPENSLO, "s.yaml").unwrap();
    assert_eq!((o.defaults, o.objectives.len()), (1, 2));
    let wait = &o.objectives[0];
    assert_eq!(wait.sli.to_string(), "queue wait under 5m (on-demand)");
    assert_eq!(wait.scope.project.as_ref().map(ToString::to_string).as_deref(), Some("research"));
    assert_eq!((wait.target, wait.owner.as_str()), (Ppm(950_000), "scheduling"));
    assert_eq!(wait.description, "Research gets its nodes soon");
    let nodes = &o.objectives[1];
    assert_eq!(
        (nodes.target, nodes.window, nodes.owner.as_str()),
        (Ppm(995_000), Window::Month, "fleet")
    );
}

#[test]
fn what_openslo_says_and_muster_does_not_is_refused() {
    for (from, to, want) in [
        (
            "type: muster",
            "type: Prometheus",
            "s.yaml:15:15: sources of type `Prometheus` are not read",
        ),
        ("under: 5m, ", "", "s.yaml:16:"),
        ("under: 5m", "under: 6m", "`good` and `total` are of different indicators"),
        ("sli: queue_wait", "sli: queue_wiat", "did you mean `queue_wait`?"),
        ("sli: queue_wait", "sli: latency", "known here: admission, queue_wait"),
        ("ratioMetric:", "thresholdMetric:", "s.yaml:11:3: `thresholdMetric` is not read"),
        ("    good:", "    bad:", "s.yaml:13:5: `bad` is not read"),
        (
            "kind: Service",
            "kind: AlertPolicy",
            "s.yaml:2:7: documents of kind `AlertPolicy` are not read",
        ),
        (
            "openslo/v1\nkind: SLI",
            "openslo/v1alpha\nkind: SLI",
            "s.yaml:6:13: `openslo/v1alpha` is not read",
        ),
        ("Occurrences", "Timeslices", "s.yaml:35:20: only `Occurrences` is counted"),
        ("target: 0.95", "target: 95", "s.yaml:38:15: `95` is not a share"),
        ("target: 0.95", "target: 1.0", "s.yaml:38:15: "),
        ("target: 0.95", "op: lte", "`op` is not read"),
        ("    - displayName: soon\n", "    - target: 0.9\n    -\n", "`objectives` has 2 things"),
        ("duration: 28d", "duration: 91d", "s.yaml:33:17: "),
        ("duration: 1M", "duration: 1Q", "a calendar window of `1Q` is not counted"),
        ("timeZone: UTC", "timeZone: Europe/Berlin", "months are counted in UTC"),
        (
            "indicatorRef: wait",
            "indicatorRef: weight",
            "s.yaml:31:17: there is no indicator `weight`",
        ),
        (
            "  service: research\n",
            "  service: research\n  alertPolicies: []\n",
            "Muster's own burn rules",
        ),
        (
            "metadata: {name: nodes}",
            "metadata: {name: research-wait}",
            "two SLOs are called research-wait",
        ),
        ("metadata: {name: nodes}", "metadata: {name: 'a b'}", "is not a valid name"),
        ("indicatorRef: node_availability", "indicatorRef: start", "missing field `under`"),
    ] {
        let text = OPENSLO.replacen(from, to, 1);
        assert_ne!(text, OPENSLO, "{from}");
        let e = error_text(objectives(&text, "s.yaml"));
        assert!(e.contains(want), "{to}: {e}");
    }
    let e = error_text(openslo::read(
        "apiVersion: openslo/v1\nkind: Service\nmetadata: {name: a}\n",
        "s",
    ));
    assert!(e.contains("has no SLO"), "{e}");
}

proptest! {
    #[test]
    fn no_file_panics(at in 0usize..900, with in "\\PC{0,6}", which in 0usize..3) {
        let text = [FILE, ROUTING, OPENSLO][which];
        let at = text.char_indices().map(|(i, _)| i).nth(at % text.len()).unwrap_or(0);
        let changed = format!("{}{with}{}", &text[..at], text[at..].chars().skip(2).collect::<String>());
        let _ = objectives(&changed, "f");
        let _ = routing(&changed, "f");
        let _ = openslo::read(&changed, "f");
    }
}
