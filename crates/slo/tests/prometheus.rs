//! The same objectives over the same data, by Muster's arithmetic and by Prometheus's: equal.

use muster_model::Time;
use muster_model::slo::{Objective, Sli};
use muster_model::units::Span;
use muster_slo::budget::{Counts, burn, sli, status};
use muster_slo::ledger::{Count, Ledger, Series, TimeRange};
use muster_slo::rules::{self, RuleKind};
use muster_slo::{Ratio, burn as rates, defaults};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A promtool, or a word about its absence.
fn promtool() -> bool {
    muster_testkit::program("promtool", "prometheus")
}

fn write(name: &str, text: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("slo-prometheus");
    std::fs::create_dir_all(&dir).unwrap();
    let path = dir.join(name);
    std::fs::write(&path, text).unwrap();
    path
}

fn accepted(args: &[&str], file: &Path) {
    muster_testkit::succeeds(Command::new("promtool").args(args).arg(file));
}

#[test]
fn the_rules_of_every_default_are_what_promtool_takes() {
    if !promtool() {
        return;
    }
    let mut all = defaults::set(1);
    // Words that a template or a file would stumble over.
    all[0].owner = "the \"{{ on }} call\" \\ team:\u{1}#".to_owned();
    accepted(&["check", "rules"], &write("defaults.yaml", &rules::yaml(&rules::groups(&all))));
}

const MINUTE: i64 = 60_000;
/// Minutes that the timeline lasts.
const END: i64 = 9 * 60;

/// Requests and errors in each minute: quiet, a burst, a long slow burn, quiet again.
fn minute(m: i64) -> Count {
    let total = 200 + (m * 37 % 90).unsigned_abs();
    let bad = match m {
        60..90 => total / 2,
        180..300 => 1 + (m % 3).unsigned_abs(),
        310..345 => 3,
        _ if m % 50 == 7 => 1,
        _ => 0,
    };
    Count { good: total - bad, total }
}

fn objective() -> Objective {
    let text = r#"{"name":"api","owner":"control-plane","sli":"api_availability","target":"99.5%","window":"8h"}"#;
    let o: Objective = serde_json::from_str(text).unwrap();
    assert_eq!(o.check(), Ok(()));
    o
}

fn timeline(series: &Series) -> (Ledger, String, String) {
    let mut ledger = Ledger::default();
    let (mut good, mut all) = (0, 0);
    // A counter is there before it counts.
    let (mut goods, mut alls) = ("0".to_owned(), "0".to_owned());
    for m in 1..=END {
        let c = minute(m);
        ledger.note(Time(m * MINUTE), series, c, None);
        (good, all) = (good + c.good, all + c.total);
        write!(goods, " {good}").unwrap();
        write!(alls, " {all}").unwrap();
    }
    (ledger, goods, alls)
}

#[test]
fn shares_and_alerts_are_those_of_prometheus() {
    if !promtool() {
        return;
    }
    let o = objective();
    let series = Series { sli: Sli::ApiAvailability, scope: o.scope.clone() };
    let (ledger, goods, alls) = timeline(&series);
    let counts = Counts(&[&ledger]);
    let groups = rules::groups(std::slice::from_ref(&o));
    let file = write("api.yaml", &rules::yaml(&groups));
    let mut cases = format!(
        "rule_files: [{:?}]\nevaluation_interval: 1m\ntests:\n  - interval: 1m\n    input_series:\n",
        file.display().to_string()
    );
    for (name, values) in [(rules::GOOD, goods), (rules::ALL, alls)] {
        writeln!(cases, "      - series: '{name}{{objective=\"api\"}}'").unwrap();
        writeln!(cases, "        values: '{values}'").unwrap();
    }
    writeln!(cases, "      - series: '{}{{objective=\"api\"}}'", rules::SINCE).unwrap();
    writeln!(cases, "        values: '0+0x{END}'").unwrap();
    cases.push_str("    promql_expr_test:\n");
    let mut compared = 0;
    for m in (1..=END).filter(|m| m % 13 == 0) {
        let now = Time(m * MINUTE);
        for w in [Span::mins(5), Span::mins(30), Span::hours(1), Span::hours(6), Span::hours(8)] {
            // Prometheus guesses what was before its first sample; here it is known.
            if Time(0) + w > now {
                continue;
            }
            let count = counts.count(&series, TimeRange::Last(w), now);
            let bad = 1.0 - count.good as f64 / count.total as f64;
            // The exact fraction is the same, as far as a float can show.
            let exact = sli(count).unwrap().rest().to_f64();
            assert!((bad - exact).abs() < 1e-12, "{bad} {exact}");
            let speed = burn(count, o.target).unwrap().to_f64();
            assert!((speed - bad / 0.005).abs() < 1e-9, "{speed} {bad}");
            let labels = format!("{}{{objective=\"api\"}}", rules::recorded(w));
            writeln!(cases, "      - expr: '{labels}'\n        eval_time: {m}m").unwrap();
            writeln!(cases, "        exp_samples: [{{labels: '{labels}', value: {bad:?}}}]")
                .unwrap();
            compared += 1;
        }
    }
    assert!(compared > 100, "{compared}");
    cases.push_str("    alert_rule_test:\n");
    let summaries: Vec<&String> = groups[0]
        .rules
        .iter()
        .filter_map(|r| match &r.kind {
            RuleKind::Alert { name, summary, .. } if name == "MusterBudgetBurns" => Some(summary),
            _ => None,
        })
        .collect();
    let (mut fired, burns) = (0, rates::rules(&o));
    let expect = |cases: &mut String, labels: &str, summary: &str| {
        write!(cases, "{{exp_labels: {{objective: api, owner: control-plane, {labels}}}, ")
            .unwrap();
        write!(cases, "exp_annotations: {{summary: '{summary}'}}}}, ").unwrap();
    };
    for m in 1..=END {
        let firing = rates::firing(&o, &burns, counts, Time(m * MINUTE));
        fired += firing.len();
        writeln!(cases, "      - eval_time: {m}m\n        alertname: MusterBudgetBurns").unwrap();
        cases.push_str("        exp_alerts: [");
        for f in &firing {
            let at = burns.iter().position(|r| *r == f.rule).unwrap();
            let (severity, window) = (f.rule.urgency.word(), f.over);
            expect(&mut cases, &format!("severity: {severity}, window: {window}"), summaries[at]);
        }
        cases.push_str("]\n");
    }
    assert!(fired > 50, "the timeline makes rules fire: {fired}");
    let s = status(&o, counts, Time(END * MINUTE));
    assert!(s.consumed.unwrap() > Ratio::ONE && s.is_exhausted());
    writeln!(cases, "      - eval_time: {END}m\n        alertname: MusterBudgetExhausted").unwrap();
    cases.push_str("        exp_alerts: [");
    expect(&mut cases, "severity: ticket", "api: error budget of 8h exhausted");
    cases.push_str("]\n");
    accepted(&["test", "rules"], &write("cases.yaml", &cases));
}
